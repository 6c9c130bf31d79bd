"""Specs of kernels that multiply by wgmma, one warpgroup each, and what they are to compute."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic import cut_to_tfloat32
from tilegen.dtypes import numpy_dtype

Array = NDArray[Any]


def make(
    m: int = 64, n: int = 64, k: int = 64, dtype: str = "bfloat16", c: str = "float32", swizzle: int = 128,
    a_along_m: bool = False, b_along_n: bool = False, a_held: bool = False, acc: str = "auto",
    mma: dict[str, Any] | None = None, after: tuple[Any, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """C = A B by one warpgroup from tiles that its threads store into shared memory."""
    shape = [k, n] if b_along_n else [n, k]
    a_shape, swizzled = [k, m] if a_along_m else [m, k], "mma_shared_layout('{}', {}, {})"
    buffers = {
        "A": {"scope": "global", "dtype": dtype, "shape": a_shape},
        "B": {"scope": "global", "dtype": dtype, "shape": shape},
        "C": {"scope": "global", "dtype": c, "shape": [m, n]},
        "sb": {"scope": "shared", "dtype": dtype, "shape": shape,
               "layout": swizzled.format(dtype, swizzle, tuple(shape))},
        "acc": {"scope": "register", "dtype": c, "shape": [m, n], "layout": acc},
    }  # fmt: skip
    if not b_along_n:
        buffers["sbT"] = {"view": "sb", "axes": [1, 0]}
    if a_along_m:
        buffers["aT"] = {"view": "a", "axes": [1, 0]}
    if a_held:
        buffers["a"] = {"scope": "register", "dtype": dtype, "shape": a_shape, "layout": "auto"}
    else:
        layout = swizzled.format(dtype, swizzle, tuple(a_shape))
        buffers["a"] = {"scope": "shared", "dtype": dtype, "shape": a_shape, "layout": layout}
    left = "aT" if a_along_m else "a"
    product = {"scope": "warpgroup", "a": left, "b": "sb" if b_along_n else "sbT", "c": "acc", "accumulate": False}
    ops = [
        {"copy": {"src": "A", "dst": "a", **({"scope": "warpgroup"} if a_held else {})}},
        {"copy": {"src": "B", "dst": "sb"}}, {"sync": "async"}, {"sync": "cta"}, {"mma": product | (mma or {})}, *after,
        {"copy": {"scope": "warpgroup", "src": "acc", "dst": "C"}},
    ]  # fmt: skip
    return {"kernel": "product", "arch": "sm_90a", "threads": 128, "buffers": buffers, "ops": ops}


def auto(spec: dict[str, Any]) -> dict[str, Any]:
    """With the layouts of shared buffers left to be chosen."""
    new = deepcopy(spec)
    for buffer in new["buffers"].values():
        if buffer.get("scope") == "shared":
            buffer["layout"] = "auto"
    return new


def by_tma(spec: dict[str, Any]) -> dict[str, Any]:
    """The same from tiles that TMA brings."""
    new = deepcopy(spec)
    product = [op for op in new["ops"] if "mma" in op or op.get("copy", {}).get("dst") == "C"]
    names = [name for name, buffer in new["buffers"].items() if buffer.get("scope") == "shared"]
    load = [{"copy": {"src": "A" if n == "a" else "B", "dst": n, "variant": "tma", "barrier": "full"}} for n in names]
    held = [{"copy": {"src": "A", "dst": "a", "scope": "warpgroup"}}] if "a" not in names else []
    return new | {"ops": [*load, *held, {"wait": {"barrier": "full"}}, *product]}


def by_cp_async(*after: Any) -> dict[str, Any]:
    """The same from tiles that cp.async brings, then products in flight."""
    new = make(mma={"async": True}, after=after)
    for op in new["ops"][:2]:
        op["copy"]["async"] = True
    return new | {"ops": [*new["ops"][:2], {"commit": "cp_async"}, {"wait": {"cp_async": 0}}, *new["ops"][2:]]}


SPECS = {
    "bf16": make(), "two rows of atoms": make(m=128, n=32), "two columns of atoms": make(n=320),
    "three": make(n=24, k=32, swizzle=64), "f16": make(dtype="float16", c="float16", n=96, k=128),
    "s8": make(dtype="int8", c="int32", n=32, k=128), "e4m3": make(dtype="float8_e4m3fn", n=16, k=64, swizzle=32),
    "a along m, b along n": make(a_along_m=True, b_along_n=True, n=128),
    "a along m": make(a_along_m=True, m=128, swizzle=64), "b along n": make(b_along_n=True),
    "b along n, wide": make(b_along_n=True, n=192, k=32, swizzle=64),
    "no swizzle": make(swizzle=0), "a in registers": make(a_held=True, n=128),
    "a in registers, b along n": make(a_held=True, b_along_n=True, m=128),
    "written accumulator": make(acc="wgmma_accumulator(64)"),
    "a named atom": make(mma={"atom": "wgmma.m64n32k16"}),
    "tf32": make(dtype="float32", n=16, k=64, mma={"atom": "wgmma.m64n16k8"}),
    "tf32, a in registers": make(dtype="float32", n=48, k=32, a_held=True, mma={"atom": "wgmma.m64n24k8.tf32"}),
    "auto, tf32": by_tma(auto(make(dtype="float32", n=32, k=64, mma={"atom": "wgmma.m64n32k8"}))),
    "async": make(mma={"async": True}, after=("commit", {"wait": 0})),
    "async, named": make(mma={"async": True}, after=({"commit": "mma"}, {"wait": {"mma": 0}})),
    "copies and products": by_cp_async({"commit": "mma"}, {"wait": {"mma": 0}}),
    "auto": auto(make()), "auto, deep": auto(make(n=96, k=128)), "auto, shallow": auto(make(n=32, k=16)),
    "auto, b along n": auto(make(n=128, b_along_n=True)),
    "auto, bytes along n": auto(make(dtype="int8", c="int32", n=32, k=64, b_along_n=True)),
    "auto, a along m": by_tma(auto(make(a_along_m=True, m=128))),
    "auto, s8": auto(make(dtype="int8", c="int32", n=32, k=128)), "auto, by tma": by_tma(auto(make(n=96, k=128))),
    "auto, by tma, b along n": by_tma(auto(make(m=128, n=192, b_along_n=True))),
    "auto, by tma, a in registers": by_tma(auto(make(a_held=True, k=32))),
}  # fmt: skip


def ring(stages: int = 4, pending: int = 1, trips: int = 6, last: int = 0) -> dict[str, Any]:
    """A ring of stages that TMA fills two trips ahead, with a group of products in flight from one trip to the next."""
    stage = "mma_shared_layout('bfloat16', 128, ({}, {}, 64))"
    buffers = {
        "A": {"scope": "global", "dtype": "bfloat16", "shape": [64, 64 * trips]},
        "B": {"scope": "global", "dtype": "bfloat16", "shape": [32, 64 * trips]},
        "C": {"scope": "global", "dtype": "float32", "shape": [64, 32]},
        "sa": {"scope": "shared", "dtype": "bfloat16", "shape": [stages, 64, 64], "layout": stage.format(stages, 64)},
        "sb": {"scope": "shared", "dtype": "bfloat16", "shape": [stages, 32, 64], "layout": stage.format(stages, 32)},
        "sbT": {"view": "sb", "axes": [0, 2, 1]},
        "acc": {"scope": "register", "dtype": "float32", "shape": [64, 32], "layout": "auto"},
    }

    def load(k: str) -> list[Any]:
        each = {"variant": "tma", "barrier": f"full[({k}) % {stages}]"}
        return [
            {"copy": {"src": f"{x}[:, ({k})*64 : +64]", "dst": f"s{x.lower()}[({k}) % {stages}]"} | each} for x in "AB"
        ]

    product = {
        "scope": "warpgroup", "a": f"sa[k % {stages}]", "b": f"sbT[k % {stages}]", "c": "acc", "accumulate": "k > 0",
        "async": True,
    }  # fmt: skip
    ops = [
        {"for": {"p": 2}, "do": load("p")},
        {"for": {"k": trips}, "do": [
            {"when": f"k + 2 < {trips}", "do": load("k + 2")}, {"wait": {"barrier": f"full[k % {stages}]"}},
            {"mma": product}, {"commit": "mma"}, {"wait": {"mma": pending}}, {"sync": "cta"},
        ]},
        {"wait": {"mma": last}}, {"copy": {"scope": "warpgroup", "src": "acc", "dst": "C"}},
    ]  # fmt: skip
    return {"kernel": "ring", "arch": "sm_90a", "threads": 128, "buffers": buffers, "ops": ops}


# ---------------------------------------------------------------- what they compute
def draw(spec: Mapping[str, Any], seed: int = 3, whole: bool = True) -> dict[str, Array]:
    """A and B: small whole numbers, whose products no order of sums rounds, or normal ones."""
    random, drawn = np.random.default_rng(seed), {}
    for name in "AB":
        buffer = spec["buffers"][name]
        dtype, shape = numpy_dtype(buffer["dtype"]), tuple(buffer["shape"])
        low = 0 if dtype.kind == "u" else -3
        is_whole = whole or dtype.kind in "iu"
        drawn[name] = (random.integers(low, 4, shape) if is_whole else random.normal(size=shape)).astype(dtype)
    return drawn


def operands_of(spec: Mapping[str, Any], drawn: Mapping[str, Array]) -> tuple[Array, Array]:
    """A (M, K) and B (K, N) in float64, as wgmma reads them: of float32 without the bits that it drops."""
    a, b = (x if x.dtype != np.float32 else cut_to_tfloat32(x) for x in (drawn["A"], drawn["B"]))
    a, b = a.astype(np.float64), b.astype(np.float64)
    buffers = spec["buffers"]
    return a.T if "aT" in buffers else a, b.T if "sbT" in buffers else b
