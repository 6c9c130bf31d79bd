"""Execute rendered CUDA text on the CPU: its PTX on the machine, where the NVRTC of these tests is there; else by g++.

For g++, C++ replaces the prelude, and a fiber stands for a thread. tests/text/test_text.py tries that way itself.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from specs.kernels import SPECS, small_spec

from tests.faults.texts import change_text
from tests.ptx.run import HAS_NVRTC, PtxRunner, choose_ctas, compile_plan, give_input
from tests.session import make_folder, once
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.plan import Plan
from tilegen.render import launch_info, render

GXX = ("g++", "-O1", "-std=c++17", "-fno-strict-aliasing", "-fwrapv", "-fPIC", "-fvisibility=hidden", "-Wall",
       "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-function", "-Wno-maybe-uninitialized")  # fmt: skip
# (Whether every register is written before it is read, guards counted, is what the interpreter's shadow proves.)
POISON = 0xA5  # what outputs hold before, and what surrounds every array
GUARD_BYTES = 256
requires_gxx = pytest.mark.skipif(
    shutil.which("g++") is None, reason="g++ is not installed: rendered text cannot run here"
)

requires_runner = pytest.mark.skipif(
    not HAS_NVRTC and shutil.which("g++") is None, reason="neither NVRTC nor g++ is here"
)


@dataclass(frozen=True)
class Runner:
    """A kernel compiled for the CPU."""

    plan: Plan
    function: Any

    def run(
        self,
        inputs: Mapping[str, Any],
        params: Mapping[str, int | float] | None = None,
        ctas: Sequence[tuple[int, int, int]] | None = None,
    ) -> dict[str, Any]:
        """The physical images of all arrays that the kernel may write, poison where it wrote nothing.

        ``inputs``: raw arrays by name (inputs, and inout arrays), any shape, as many elements as the memory spans.
        """
        info = launch_info(self.plan, params)
        images: dict[str, np.ndarray[Any, Any]] = {}
        guarded, pointers = [], []
        for arg in info["args"]:
            if arg["kind"] == "tensor_map":
                guarded.append(describe_map(arg, images[arg["array"]].ctypes.data))
                guarded.append(np.array([guarded[-1].ctypes.data, *[0] * 15], np.uint64))
                pointers.append(guarded[-1].ctypes.data)
                continue
            if arg["kind"] == "value":
                guarded.append(np.array([arg["value"]], numpy_dtype(arg["dtype"])))
                pointers.append(guarded[-1].ctypes.data)
                continue
            image = _guarded_bytes(arg["bytes"])
            give_input(image, arg, inputs)
            images[arg["name"]] = image
            pointers.append(image.ctypes.data)
        before = {arg["name"]: images[arg["name"]].copy() for arg in info["args"] if arg.get("access") == "in"}
        grid = info["grid"]
        wanted = choose_ctas(self.plan, grid, ctas)
        launch = (ctypes.c_uint * 7)(*grid, *info["cluster"], info["block"][0])
        flat = (ctypes.c_uint * (3 * len(wanted)))(*(x for cta in wanted for x in cta))
        code = self.function((ctypes.c_void_p * len(pointers))(*pointers), launch, flat, len(wanted))
        assert code != 3, f"{self.plan.name}: the compiler is told what does not hold"
        assert code == 0, f"{self.plan.name}: threads wait at a barrier that others never reach"
        for name, image in images.items():
            around = _around(image)
            assert (around == POISON).all(), f"{self.plan.name} wrote outside {name}"
        assert all((images[n] == old).all() for n, old in before.items()), f"{self.plan.name} wrote an input"
        written = [a for a in info["args"] if a.get("access") in ("out", "inout")]
        return {a["name"]: images[a["name"]].view(numpy_dtype(a["dtype"])) for a in written}


def describe_map(arg: Mapping[str, Any], base: int) -> np.ndarray[Any, Any]:
    """A descriptor as shim.h reads it: base, rank, element, swizzle, then five dims, strides and box extents."""
    lists = [[*arg[name], *[0] * (5 - len(arg[name]))] for name in ("dims", "strides_bytes", "box")]
    words = [base, len(arg["dims"]), arg["elem_bytes"], arg["swizzle_bytes"], *(x for five in lists for x in five)]
    return np.array(words, np.uint64)


def _guarded_bytes(size: int) -> np.ndarray[Any, Any]:
    """Bytes at a 256-byte boundary, full of poison, between guards."""
    whole = np.full(size + 3 * GUARD_BYTES, POISON, np.uint8)
    start = GUARD_BYTES + -whole.ctypes.data % GUARD_BYTES
    return whole[start : start + size]


def _around(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The guards on both sides."""
    whole = image.base
    start = image.ctypes.data - whole.ctypes.data
    return np.concatenate([whole[:start], whole[start + image.size :]])


def compile_plans(plans: Sequence[Plan]) -> Sequence[Runner | PtxRunner]:
    """Every plan rendered and compiled."""
    return [compile_plan(plan) for plan in plans] if HAS_NVRTC else compile_by_gxx(plans)


def compile_by_gxx(plans: Sequence[Plan], prelude: bool = False) -> list[Runner]:
    """All by one run of g++. ``prelude``: also the rendered one, if it holds no PTX."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed: rendered text cannot run here")
    return _runners(plans, _load(_compile(_host_texts(plans, prelude))))


def compile_changed(plan: Plan, *pairs: tuple[str, str], before: str = "") -> Runner | PtxRunner:
    """A plan whose text has each old part replaced by a new one, which must be there; ``before``: functions for it."""
    if HAS_NVRTC:
        return compile_plan(plan, *pairs, before=before)
    start = "namespace text_0 {\n"
    return _runners([plan], _load(_compile(change_text(_host_texts([plan], False), *pairs, (start, start + before)))))[
        0
    ]


@cache
def runner_of(path: Path) -> Runner | PtxRunner:
    """The kernel of a spec, at a small size."""
    return compile_plan(small_spec(path).plan) if HAS_NVRTC else runner_by_gxx(path)


@cache
def runner_by_gxx(path: Path) -> Runner:
    """The same by g++: a few are compiled together, once a session."""
    number = SPECS.index(path) // _TOGETHER
    return next(r for r in _runners_of(number) if r.plan.name == path.stem)


_TOGETHER = 6


@cache
def _runners_of(number: int) -> list[Runner]:
    return _runners([small_spec(path).plan for path in _some_specs(number)], _load(_compile_specs(number)))


@once
def _compile_specs(number: int) -> bytes:
    return _compile(_host_texts([small_spec(path).plan for path in _some_specs(number)], False))


def _some_specs(number: int) -> Sequence[Path]:
    return SPECS[number * _TOGETHER : (number + 1) * _TOGETHER]


def _runners(plans: Sequence[Plan], library: ctypes.CDLL) -> list[Runner]:
    return [Runner(plan, getattr(library, f"run_{i}")) for i, plan in enumerate(plans)]


def run_text(plan: Plan, inputs: Mapping[str, Any], params: Mapping[str, int | float] | None = None) -> dict[str, Any]:
    """The images that the kernel's text leaves behind."""
    return compile_plans([plan])[0].run(inputs, params)


def _host_texts(plans: Sequence[Plan], prelude: bool) -> str:
    texts = [_host_text(plan, i, prelude) for i, plan in enumerate(plans)]
    return "\n".join([*_products(texts), *texts])


_PRODUCT = re.compile(r"\b(wgmma_m64n(\d+)k(\d+)_([a-z0-9]+)_([a-z0-9]+)_([a-z0-9]+)(_a[mr])?(_bn)?)\(")


def _products(texts: Iterable[str]) -> list[str]:
    """A line of shim.h's macro for each function of wgmma that texts call."""
    lines = {}
    for name, n, k, c, a, b, left, right in (found for text in texts for found in _PRODUCT.findall(text)):
        flags = ", ".join(str(x).lower() for x in (left == "_ar", left == "_am", bool(right)))
        types = (x.upper().replace("TF32", "TF32_CUT") for x in (a, b))
        lines[name] = f"WGMMA({name}, {n}, {k}, Sum{c.upper()}, {', '.join(types)}, {flags})"
    return list(lines.values())


def _host_text(plan: Plan, number: int, prelude: bool) -> str:
    """The rendered text in a namespace of its own, and a C function that launches it."""
    info = launch_info(plan)
    text = render(plan, prelude=prelude).replace('extern "C" __global__', "__global__")
    text = re.sub(r"extern (__shared__ .*)\[\];", rf"\1[{info['dynamic_shared_bytes']}];", text)
    args = []
    for i, arg in enumerate(info["args"]):
        if arg["kind"] == "tensor_map":
            args.append(f"*(const text_{number}::TensorMap *)args[{i}]")
            continue
        c = f"text_{number}::{DTYPES[arg['dtype']].c}" if DTYPES[arg["dtype"]].typedef else DTYPES[arg["dtype"]].c
        args.append(f"({c} *)args[{i}]" if arg["kind"] == "pointer" else f"*({c} *)args[{i}]")
    return _launched(text, number, f"text_{number}::{plan.name}({', '.join(args)});")


def _launched(text: str, number: int, call: str) -> str:
    """A text in a namespace of its own, and a C function that launches what ``call`` calls of it."""
    text = text.replace('extern "C" __global__', "__global__")
    call = f"[](void **args) {{ {call} }}"
    shown = f'extern "C" __attribute__((visibility("default"))) int run_{number}'
    return (f"namespace text_{number} {{\n{text}}}\n"
            f"{shown}(void **args, const unsigned *launch, const unsigned *ctas, int n)\n"
            f"{{\n    return cpu::launch({call}, args, launch, ctas, n);\n}}\n")  # fmt: skip


def compile_functions(texts: Sequence[tuple[str, str, Sequence[str]]]) -> list[Any]:
    """Kernels that no plan has, each launched as a runner's is: (text, name, the C type of each argument)."""
    parts = []
    for number, (text, name, types) in enumerate(texts):
        given = (f"({c})args[{i}]" if c.endswith("*") else f"*({c} *)args[{i}]" for i, c in enumerate(types))
        parts.append(_launched(text, number, f"text_{number}::{name}({', '.join(given)});"))
    library = _load(_compile("\n".join(parts)))
    return [getattr(library, f"run_{number}") for number in range(len(texts))]


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tilegen-text-")


@once
def _compile_shim() -> str:
    """The object of shim.cpp, made once a session."""
    made = f"{make_folder()}/shim.o"
    subprocess.run([*GXX, "-c", str(Path(__file__).with_name("shim.cpp")), "-o", made], check=True)
    return made


@cache
def _compile(source: str) -> bytes:
    """A shared library."""
    with tempfile.TemporaryDirectory(prefix="tilegen-text-") as folder:
        stem = Path(folder) / "text"
        stem.with_suffix(".cpp").write_text('#include "shim.h"\n' + source)
        command = [*GXX, "-shared", f"-I{Path(__file__).parent}", f"{stem}.cpp", _compile_shim(), "-o", str(stem)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"g++ refuses the rendered text:\n{done.stderr[:4000]}"
        return stem.read_bytes()


@cache
def _load(library: bytes) -> ctypes.CDLL:
    """Once each: a file that is in use must stay as it is."""
    path = Path(_folder().name) / f"{hashlib.sha256(library).hexdigest()}.so"
    path.write_bytes(library)
    return ctypes.CDLL(str(path))
