"""The text of a reduction, executed: in the type that its elements have, or that they and what dst held become."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes  # noqa: F401 - registers bfloat16 with NumPy
import numpy as np
import pytest

import tilegen
from text.run import compile_plans, requires_runner
from tilegen.dtypes import numpy_dtype
from tilegen.pipeline import Built
from tilegen.proofs.runs import check_run, list_runs

HELD = 3
# (dtype of the elements, dtype of dst, the function, is what dst held taken in)
CASES = [
    *((d, d, "prod", False) for d in ("int8", "uint16", "int32", "int64")),
    *((d, d, op, False) for d in ("int32", "int64") for op in ("max", "min", "sum")),
    *(("bool", "int32", op, False) for op in ("sum", "max", "min", "prod")),
    *((d, "float32", op, True) for d in ("uint8", "int32", "int64") for op in ("max", "sum")),
    ("bool", "float16", "sum", True), ("int32", "int64", "sum", True), ("float32", "int32", "sum", True),
    ("float32", "float64", "sum", True), ("uint32", "int64", "max", True), ("int64", "int32", "min", True),
    ("uint32", "uint32", "sum", False), ("uint32", "uint64", "prod", False), ("uint64", "uint64", "max", False),
    ("uint64", "uint64", "sum", True), ("uint32", "int32", "sum", True), ("uint32", "uint32", "min", True),
]  # fmt: skip
FUNCTIONS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}


def build(dtype: str, held: str, op: str, accumulate: bool, threads: int = 32) -> Built:
    def tile(scope: str, dtype: str, columns: int, **more: str) -> dict[str, Any]:
        return {"scope": scope, "dtype": dtype, "shape": [4, columns], **more}

    register = {"layout": "auto"}
    fill = [{"fill": {"dst": "q", "value": HELD}}] if accumulate else []
    reduce = {"src": "x", "dst": "q", "axis": 1, "op": op, "accumulate": accumulate}
    return tilegen.build({
        "kernel": "reduced", "threads": threads,
        "buffers": {"X": tile("global", dtype, 64), "x": tile("register", dtype, 64, **register),
                    "q": tile("register", held, 1, **register), "Y": tile("global", held, 1)},
        "ops": [{"copy": {"src": "X", "dst": "x"}}, *fill, {"reduce": reduce}, {"copy": {"src": "q", "dst": "Y"}}],
    })  # fmt: skip


def draw(dtype: str) -> Any:
    """Few that are not 1, odd, and of them one or two that are large: products and sums that fit, and that do not."""
    rng = np.random.default_rng(1)
    if dtype == "bool":
        return (rng.random((4, 64)) < [[0.1], [0.5], [0.9], [2]]).astype(bool)
    values = np.ones((4, 64), np.int64)
    for row, many in enumerate((2, 5, 20, 0)):
        values[row, rng.choice(64, many, replace=False)] = rng.choice([3, 5, 7, 9], many)
    large = {"int32": -(2**31), "int64": -(2**62), "uint32": 2**32 - 1, "uint64": 2**63 - 1}.get(dtype, 100)
    values[3, 17] = large
    values[:3, 40] *= 1 if dtype.startswith("u") else -1
    return values.astype(numpy_dtype(dtype))


def mean(values: Any, held: str, op: str, accumulate: bool) -> Any:
    """What NumPy has, in the type that C computes in; rounded to dst's, integers at their ends."""
    narrow = {"bool": "int32", "int8": "int32", "uint8": "int32", "uint16": "int32"}
    dtype = narrow.get(values.dtype.name, values.dtype.name)
    if accumulate:
        both = {narrow.get(held, held).replace("float16", "float32"), dtype}
        both |= {"int64"} if {"int32", "uint32"} <= both else set()
        dtype = next(t for t in ("float64", "float32", "uint64", "int64", "uint32", "int32") if t in both)
    with np.errstate(over="ignore"):
        elements = values.astype(dtype)
        if accumulate:
            elements = np.concatenate([elements, np.full((4, 1), HELD, dtype)], 1)
        found = FUNCTIONS[op](elements, axis=1).astype(dtype)
    if np.dtype(numpy_dtype(held)).kind in "iu":
        info = np.iinfo(numpy_dtype(held))
        whole = np.rint(found).astype(np.int64) if found.dtype.kind == "f" else found
        found = np.clip(whole, info.min, info.max)
    return found.astype(numpy_dtype(held))


@pytest.mark.slow
@requires_runner
def test_a_reduction_is_computed_in_the_type_that_its_numbers_meet_in() -> None:
    runners = compile_plans([build(*case).plan for case in CASES])
    for case, runner in zip(CASES, runners, strict=True):
        dtype, held, op, accumulate = case
        values = draw(dtype)
        got, want = runner.run({"X": values})["Y"], mean(values, held, op, accumulate)
        assert got.tolist() == want.tolist(), case


@pytest.mark.parametrize(("dtype", "held", "accumulate", "field"), [
    ("complex64", "float32", False, "src"), ("complex128", "int64", False, "src"),
    ("float32", "complex64", True, "dst"), ("float32", "complex128", False, "dst"),
])  # fmt: skip
def test_a_type_that_nothing_computes_with_is_named(dtype: str, held: str, accumulate: bool, field: str) -> None:
    with pytest.raises(tilegen.SpecError) as caught:
        build(dtype, held, "sum", accumulate)
    found = next(d for d in caught.value.diagnostics if "nothing computes with" in d.message)
    wrong = dtype if field == "src" else held
    assert found.code == "TG212" and wrong in found.message and "'copy'" in found.hint
    assert found.mark and found.mark.keys == f"ops[{2 if accumulate else 1}].reduce.{field}"


# ---------------------------------------------------------------- any number of threads, elements and owners
@requires_runner
def test_threads_that_no_lanes_exchange_with_leave_their_parts() -> None:
    """64 columns by 40, 96 and 160 threads: parts of warps and of threads, and lanes that are no whole warps."""
    values = draw("int32")
    builts = [build("int32", "int32", "sum", False, threads) for threads in (40, 96, 160)]
    for built, runner in zip(builts, compile_plans([b.plan for b in builts]), strict=True):
        got = runner.run({"X": values})["Y"]
        assert got.tolist() == mean(values, "int32", "sum", False).tolist(), built.plan.launch.threads


@pytest.mark.slow
@requires_runner
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_an_extreme_lies_at_the_first_of_equals_and_nan_loses(op: str) -> None:
    """By 128 threads with elements apart in warps, and by 40: equals, a row of one number, NaNs, and NaNs alone."""
    worst = -np.inf if op == "argmax" else np.inf
    values = np.random.default_rng(3).integers(-3, 4, (4, 64)).astype(np.float32)
    values[1] = worst
    values[2, ::3] = np.nan
    values[3] = np.nan
    want = [*(getattr(np, f"nan{op}")(row) for row in values[:3]), 0]

    def build_one(threads: int) -> Built:
        own = {"scope": "register", "shape": [4, 1], "layout": "auto"}
        return tilegen.build({
            "kernel": "placed", "threads": threads,
            "buffers": {
                "X": {"scope": "global", "dtype": "float32", "shape": [4, 64]}, "v": {"dtype": "float32", **own},
                "i": {"dtype": "int64", **own}, "I": {"scope": "global", "dtype": "int64", "shape": [4, 1]},
            },
            "ops": [{"reduce": {"src": "X", "dst": "v", "axis": 1, "op": op, "index": "i"}},
                    {"copy": {"src": "i", "dst": "I"}}],
        })  # fmt: skip

    for threads in (32, 40, 128, 256):
        (runner,) = compile_plans([build_one(threads).plan])
        assert runner.run({"X": values})["I"].reshape(-1).tolist() == want, threads


EXTENTS = [1, 2, 3, 5, 6, 7, 12, 31, 50, 64, 96, 100, 129]


def draw_reduction(seed: int) -> dict[str, Any]:
    """A reduction of any shape by any number of threads, of memory or of registers, whose result goes to memory or is
    met by a tile of memory of another size.
    """
    rng = random.Random(seed)
    threads = rng.choice([32, 40, 64, 96, 128, 160, 256, 1024])
    is_warp = threads % 32 == 0 and rng.random() < 0.3
    said, count, at = ({"scope": "warp"}, [threads // 32], "[warpid]") if is_warp else ({}, [], "")
    shape, axis = [rng.choice(EXTENTS), rng.choice(EXTENTS)], rng.randint(0, 1)
    dtype, op = rng.choice(["float32", "float64", "float16", "int32"]), rng.choice([*FUNCTIONS, "argmax", "argmin"])
    left = [1 if d == axis else n for d, n in enumerate(shape)]
    more = [n + 3 if d == axis else n for d, n in enumerate(shape)]

    def tile(scope: str, extents: list[int]) -> dict[str, Any]:
        is_global = scope == "global"
        own = {"shape": count + extents} if is_global else {"shape": extents, "layout": "auto"}
        return {"scope": scope, "dtype": dtype, **own}

    buffers = {"X": tile("global", shape), "t": tile("register", left)}
    ops: list[Any] = []
    if rng.random() < 0.5 and 4 * shape[0] * shape[1] <= 500 * threads // (1 + is_warp * (threads // 32 - 1)):
        buffers["x"] = tile("register", shape)
        ops.append({"copy": {**said, "src": f"X{at}", "dst": "x"}})
    src = "x" if ops else f"X{at}"
    places = {"index": "i"} if op.startswith("arg") else {}
    ops.append({"reduce": {**said, "src": src, "dst": "t", "axis": axis, "op": op, **places}})
    if places:
        kind = rng.choice(["int32", "int64", "uint8"])
        buffers |= {"i": tile("register", left) | {"dtype": kind}, "I": tile("global", left) | {"dtype": kind}}
        ops.append({"copy": {**said, "src": "i", "dst": f"I{at}"}})
    if rng.random() < 0.5:
        buffers["Y"] = tile("global", left)
        ops.append({"copy": {**said, "src": "t", "dst": f"Y{at}"}})
    else:
        buffers |= {"O": tile("global", more), "Y": tile("global", more)}
        ops.append({"elementwise": {**said, "dst": f"Y{at}", "expr": "o - t", "with": {"o": f"O{at}"}}})
    return {"kernel": "reduced", "threads": threads, "buffers": buffers, "ops": ops}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("seed", range(60))
def test_every_reduction_finds_a_partition_and_reaches_all_owners(seed: int) -> None:
    built = tilegen.build(draw_reduction(seed))
    for run in list_runs(built.spec, built.plan):
        check_run(built.spec, built.plan, run, 2)
