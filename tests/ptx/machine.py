"""Small PTX texts, and the machine run on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.ptx import Launch, parse_kernel, run_kernel

Array = NDArray[Any]
_THREADS = 256
_REGISTER = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}


def run_text(body: str, arrays: dict[str, Array], out: str, threads: int = 32, head: str = "") -> Array:
    """A kernel of one CTA whose params are the addresses of ``arrays``, in %rd0, %rd1, ..; the array ``out`` after it.

    32 registers of each kind are there: %p, %rs, %r, %f, %rd, %fd.
    """
    params = ", ".join(f".param .u64 k_param_{k}" for k in range(len(arrays)))
    loads = "\n".join(f"ld.param.u64 %rd{k}, [k_param_{k}];" for k in range(len(arrays)))
    kinds = (("pred", "p"), ("b16", "rs"), ("b32", "r"), ("f32", "f"), ("b64", "rd"), ("f64", "fd"))
    registers = "\n".join(f".reg .{kind} %{name}<32>;" for kind, name in kinds)
    text = f""".version 9.0
.target sm_90a
.visible .entry k({params})
.maxntid {threads}, 1, 1
{{
{registers}
{head}
{loads}
{body}
ret;
}}
"""
    images = {name: np.ascontiguousarray(a).view(np.uint8) for name, a in arrays.items()}
    launch = Launch((1, 1, 1), threads, tuple(arrays))
    ran = run_kernel(parse_kernel(text, "k"), launch, images, [out], [(0, 0, 0)])
    return ran.images[out].view(arrays[out].dtype)


def run_lanes(statement: str, inputs: Sequence[Array], result: Any) -> Array:
    """One instruction for every element: ``%d`` is the result, ``%a``, ``%b``, ``%c`` are the inputs' elements."""
    dtype = np.dtype(result)
    size = max(len(a) for a in inputs)
    rows = -(-size // _THREADS) * _THREADS
    padded = {name: np.resize(a, rows) for name, a in zip("abc", inputs, strict=False)}
    arrays: dict[str, Array] = {**padded, "d": np.zeros(rows, dtype)}
    params = ", ".join(f".param .u64 k_param_{k}" for k in range(len(arrays)))
    lines = ["mov.u32 %t, %tid.x;", "mov.u32 %u, %ctaid.x;", f"mad.lo.s32 %t, %u, {_THREADS}, %t;"]
    for k, (name, a) in enumerate(arrays.items()):
        width = a.dtype.itemsize
        lines += [f"ld.param.u64 %q{name}, [k_param_{k}];", f"mul.wide.u32 %w, %t, {width};"]
        lines.append(f"add.s64 %q{name}, %q{name}, %w;")
        if name != "d":
            lines.append(f"ld.global.u{8 * width} %{name}, [%q{name}];")
    lines += [statement, f"st.global.u{8 * dtype.itemsize} [%qd], %d;", "ret;"]
    registers = [f".reg .{_REGISTER[a.dtype.itemsize]} %{name};" for name, a in arrays.items()]
    registers += [f".reg .b64 %q{name};" for name in arrays] + [".reg .b64 %w;", ".reg .b32 %t;", ".reg .b32 %u;"]
    text = "\n".join(
        [".target sm_90", f".visible .entry k({params})", "{", ".reg .pred %p, %q;", *registers, *lines, "}"]
    )
    launch = Launch((rows // _THREADS, 1, 1), _THREADS, tuple(arrays))
    images = {name: np.ascontiguousarray(a).view(np.uint8) for name, a in arrays.items()}
    ctas = [(k, 0, 0) for k in range(rows // _THREADS)]
    return run_kernel(parse_kernel(text, "k"), launch, images, ["d"], ctas).images["d"].view(dtype)[:size]
