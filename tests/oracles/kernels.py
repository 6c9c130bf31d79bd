"""Spec texts for recorded cases: each is a whole kernel, from a global array through the op to a global array."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import tilegen
from tilegen.dtypes import DTYPES

DTYPE_OF_BYTES = {1: "uint8", 2: "float16", 4: "float32", 8: "float64", 16: "complex128"}
SCOPE_THREADS = {"thread": 1, "warp": 32, "warpgroup": 128}
Shape = Sequence[int]
Box = Sequence[Sequence[int]]  # (first, end) of each dimension


def buffer(name: str, scope: str, dtype: str, shape: Shape, layout: str = "row") -> str:
    quoted = "row" if layout == "row" else f'"{layout}"'
    partial = ", partial: true" if name == "Out" else ""  # a case may write a part of its array
    return f"  {name}: {{scope: {scope}, dtype: {dtype}, shape: {list(shape)}, layout: {quoted}{partial}}}"


def region(name: str, box: Box) -> str:
    """The box with every dimension kept, but for those where a whole buffer is meant."""
    return f'"{name}[{", ".join(f"{a}:{b}" for a, b in box)}]"'


def whole(shape: Shape) -> list[list[int]]:
    return [[0, n] for n in shape]


def kernel(threads: int, buffers: Sequence[str], ops: Sequence[str]) -> str:
    head = ["kernel: oracle", "arch: sm_90", f"threads: {threads}", "buffers:"]
    return "\n".join([*head, *buffers, "ops:", *(f"  - {op}" for op in ops)]) + "\n"


def build(text: str) -> tuple[Any, list[dict[str, Any]]]:
    """The proved kernel and its ops as explained."""
    built = tilegen.build(tilegen.load(text))
    return built, built.manifest["ops"]


def choice(op: dict[str, Any], question: str) -> Any:
    """What was picked for a question, or None where it was not asked."""
    return next((c["picked"] for c in op["choices"] if c["question"] == question), None)


def widths(op: dict[str, Any], kind: str) -> set[int]:
    return {a["text_width_bytes"] for a in op["accesses"] if a["kind"] == kind}


def cost_key(op: dict[str, Any]) -> tuple[int, int, int]:
    return op["cost"]["sectors"], op["cost"]["wavefronts"], op["cost"]["instructions"]


# ---------------------------------------------------------------- kernels
LOAD, STORE = 1, 2  # the ops of a register round trip that are compared


def register_round_trip(
    scope: str, dtype: str, shape: Shape, registers: str, shared: str, shared_shape: Shape, box: Box,
    threads: int | None = None, variant: str = "auto",
) -> str:  # fmt: skip
    """In -> s; s[box] -> r (op 1); r -> t[box] (op 2); t[box] -> Out. ``variant`` is that of ops 1 and 2."""
    n = threads or SCOPE_THREADS.get(scope) or prod(shape[:1])
    return kernel(n, [
        buffer("In", "global", dtype, shared_shape), buffer("Out", "global", dtype, shape),
        buffer("s", "shared", dtype, shared_shape, shared), buffer("t", "shared", dtype, shared_shape, shared),
        buffer("r", "register", dtype, shape, registers),
    ], [
        "copy: {src: In, dst: s}", "sync: cta",
        f"copy: {{scope: {scope}, src: {region('s', box)}, dst: r, variant: {variant}}}",
        f"copy: {{scope: {scope}, src: r, dst: {region('t', box)}, variant: {variant}}}", "sync: cta",
        f"copy: {{src: {region('t', box)}, dst: Out}}",
    ])  # fmt: skip


def tile_round_trip(
    threads: int, dtype: str, global_shape: Shape, global_layout: str, global_box: Box, shared_shape: Shape,
    shared_layout: str, shared_box: Box,
) -> str:  # fmt: skip
    """In[box] -> s[box] (op 0); s[box] -> Out[box] (op 1)."""
    g, s = global_box, region("s", shared_box)
    return kernel(threads, [
        buffer("In", "global", dtype, global_shape, global_layout),
        buffer("Out", "global", dtype, global_shape, global_layout),
        buffer("s", "shared", dtype, shared_shape, shared_layout),
    ], [
        f"copy: {{src: {region('In', g)}, dst: {s}}}", "sync: cta", f"copy: {{src: {s}, dst: {region('Out', g)}}}",
    ])  # fmt: skip


def permutation(
    shape: Shape, dtype: str, src: str, dst: str, scope: str = "warp", dst_dtype: str = "", part: str = ""
) -> str:
    """In -> A; A -> B permuted (op 1); B -> Out. ``part``: an index that picks the tile, e.g. "[0]"."""
    other = dst_dtype or dtype
    tile = shape[1:] if part else shape
    b = f'"B{part}"' if part else "B"
    a = f'"A{part}"' if part else "A"
    return kernel(32, [
        buffer("In", "global", dtype, shape), buffer("Out", "global", other, tile),
        buffer("A", "shared", dtype, shape, src), buffer("B", "shared", other, shape, dst),
    ], [
        "copy: {scope: warp, src: In, dst: A}", "sync: warp",
        f"permute_layout: {{scope: {scope}, src: {a}, dst: {b}}}", f"copy: {{scope: warp, src: {b}, dst: Out}}",
    ])  # fmt: skip


def strided(shape: Shape, strides: Shape) -> str:
    """A tile layout as text."""
    if len(shape) == 1:
        return f"S[{shape[0]}:{strides[0]}]"
    return f"S[({','.join(map(str, shape))}):({','.join(map(str, strides))})]"


def elem_bytes(dtype: str) -> int:
    return DTYPES[dtype].bytes
