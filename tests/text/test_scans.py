"""Scans of drawn shapes, threads and scopes against a loop in NumPy that knows neither domains nor threads."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tilegen
from text.run import compile_plans, requires_runner
from tilegen.dtypes import numpy_dtype
from tilegen.interpret import interpret
from tilegen.pipeline import Built
from tilegen.proofs.runs import check_run, list_runs

EXTENTS = [1, 2, 3, 5, 7, 12, 31, 32, 50, 64, 96, 100, 129, 256]
JOINED = {"sum": np.add, "prod": np.multiply, "max": np.fmax, "min": np.fmin}


def identity_of(op: str, dtype: str) -> Any:
    if op in ("sum", "prod"):
        return 0 if op == "sum" else 1
    ends = np.iinfo(dtype) if np.dtype(dtype).kind == "i" else None
    low, high = (ends.min, ends.max) if ends else (-np.inf, np.inf)
    return low if op == "max" else high


def scan(x: Any, fields: dict[str, Any], carry: Any | None) -> tuple[Any, Any]:
    """The prefixes along the axis, and what all come to: one element after the other."""
    rows = np.moveaxis(x, fields["axis"], 0)
    rows = rows[::-1] if fields.get("reverse") else rows
    join = JOINED[fields["op"]]
    first = np.full(rows.shape[1:], identity_of(fields["op"], x.dtype.name), x.dtype)
    acc = first if carry is None else carry.reshape(rows.shape[1:])
    found = []
    with np.errstate(over="ignore"):
        for row in rows:
            after = join(acc, row).astype(x.dtype)
            found.append(acc if fields.get("exclusive") else after)
            acc = after
    result = np.stack(found)
    result = result[::-1] if fields.get("reverse") else result
    return np.moveaxis(result, 0, fields["axis"]), acc


def draw_scan(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A spec, and the fields of its scan: of memory, or of registers whose layout is chosen, in place or not."""
    rng = random.Random(seed)
    threads = rng.choice([32, 40, 64, 96, 128, 160, 256, 1024])
    is_warp = threads % 32 == 0 and rng.random() < 0.3
    said, count, at = ({"scope": "warp"}, [threads // 32], "[warpid]") if is_warp else ({}, [], "")
    most, shape = 100 * (32 if is_warp else threads), [0, 0]
    while not 0 < shape[0] * shape[1] <= most:
        shape = [rng.choice(EXTENTS), rng.choice(EXTENTS)]
    dtype = rng.choice(["int32", "int32", "int64", "float32", "float64"])
    fields = {"axis": rng.randint(0, 1), "op": rng.choice([*JOINED])}
    fields |= {key: True for key in ("exclusive", "reverse") if rng.random() < 0.5}
    left = [1 if d == fields["axis"] else n for d, n in enumerate(shape)]

    def tile(scope: str, extents: list[int]) -> dict[str, Any]:
        own = {"shape": count + extents} if scope == "global" else {"shape": extents, "layout": "auto"}
        return {"scope": scope, "dtype": dtype, **own}

    buffers = {"X": tile("global", shape), "y": tile("register", shape), "Y": tile("global", shape)}
    ops: list[Any] = []
    if rng.random() < 0.6:
        ops.append({"copy": {**said, "src": f"X{at}", "dst": "y"}})
        source: dict[str, Any] = {"src": "y"} if rng.random() < 0.7 else {"expr": "y"}
    else:
        source = {"src": f"X{at}"}
    if rng.random() < 0.5:
        buffers |= {"C": tile("global", left), "c": tile("register", left), "T": tile("global", left)}
        ops.append({"copy": {**said, "src": f"C{at}", "dst": "c"}})
        fields["carry"] = "c"
    ops.append({"scan": {**said, **source, "dst": "y", **fields}})
    ops.append({"copy": {**said, "src": "y", "dst": f"Y{at}"}})
    if "carry" in fields:
        ops.append({"copy": {**said, "src": "c", "dst": f"T{at}"}})
    return {"kernel": "scanned", "threads": threads, "buffers": buffers, "ops": ops}, fields


def draw_inputs(spec: dict[str, Any], seed: int) -> dict[str, Any]:
    """Odd integers that wrap, and floats whose sums and products are exact in any order."""
    rng, found = np.random.default_rng(seed), {}
    for name in ("X", "C"):
        if name in spec["buffers"]:
            buffer = spec["buffers"][name]
            dtype = numpy_dtype(buffer["dtype"])
            drawn = rng.integers(-(2**30), 2**30, buffer["shape"]) * 2 + 1
            if np.dtype(dtype).kind == "f":
                drawn = rng.choice([1, -1, 2, 0.5, -1, 1], buffer["shape"]) if "prod" in str(spec) else drawn % 64 - 32
                drawn = np.where(rng.random(drawn.shape) < 0.8, np.sign(drawn), drawn)
            found[name] = drawn.astype(dtype)
    return found


def check(spec: dict[str, Any], fields: dict[str, Any], given: dict[str, Any], written: dict[str, Any]) -> None:
    count = 1 if len(spec["buffers"]["X"]["shape"]) == 2 else spec["buffers"]["X"]["shape"][0]
    shape = spec["buffers"]["X"]["shape"][-2:]
    for k in range(count):
        carry = given["C"].reshape(count, -1)[k] if "C" in given else None
        want, total = scan(given["X"].reshape(count, *shape)[k], fields, carry)
        assert written["Y"].reshape(count, *shape)[k].tolist() == want.tolist()
        if carry is not None:
            assert written["T"].reshape(count, -1)[k].tolist() == total.reshape(-1).tolist()


def run_simulated(built: Built, given: dict[str, Any]) -> dict[str, Any]:
    written = interpret(built.plan, [(0, 0, 0)], {n: lambda at, n=n: given[n].reshape(-1)[at] for n in given}).written
    return {name: np.asarray(values)[np.argsort(at)] for name, (at, values) in written.items()}


@pytest.mark.sweep(6)
@pytest.mark.parametrize("seed", range(120))
def test_every_scan_is_that_of_a_loop(seed: int) -> None:
    spec, fields = draw_scan(seed)
    built = tilegen.build(spec)
    for run in list_runs(built.spec, built.plan):
        check_run(built.spec, built.plan, run, 2)
    given = draw_inputs(spec, seed)
    check(spec, fields, given, run_simulated(built, given))


@pytest.mark.slow
@requires_runner
def test_the_text_of_scans_is_that_of_a_loop() -> None:
    drawn = [draw_scan(seed) for seed in range(200, 230)]
    runners = compile_plans([tilegen.build(spec).plan for spec, _ in drawn])
    for seed, ((spec, fields), runner) in enumerate(zip(drawn, runners, strict=True)):
        given = draw_inputs(spec, seed)
        dtype = numpy_dtype(spec["buffers"]["X"]["dtype"])
        check(spec, fields, given, {n: image.reshape(-1).view(dtype) for n, image in runner.run(given).items()})


# ---------------------------------------------------------------- what is refused
def tile_of(layout: str, carry: str = "auto", dst: str = "x") -> dict[str, Any]:
    tile = {"scope": "register", "dtype": "float32"}
    return {
        "kernel": "scanned", "threads": 128,
        "buffers": {
            "X": {"scope": "global", "dtype": "float32", "shape": [1, 1024]},
            "Y": {"scope": "global", "dtype": "float32", "shape": [1, 1024]},
            "x": {**tile, "shape": [1, 1024], "layout": layout}, "c": {**tile, "shape": [1, 1], "layout": carry},
        },
        "ops": [
            {"copy": {"src": "X", "dst": "x"}}, {"fill": {"dst": "c", "value": 0}},
            {"scan": {"src": "x", "dst": dst, "axis": 1, "op": "sum", "carry": "c"}},
            {"copy": {"src": "x", "dst": "Y"}},
        ],
    }  # fmt: skip


@pytest.mark.parametrize(("given", "fix"), [
    (tile_of("S[(1, 2, 128, 4):(8, 4, 1@tx, 1)]"), "write 'layout: auto', or \"S[(128, 8):(1@tx, 1)]\""),
    (tile_of("S[(1, 128, 8):(1, 1@tx, 1)]", "S[(1, 1):(1@tx, 1)]"), "write 'layout: auto' for 'c'"),
    (tile_of("S[(1, 128, 8):(1, 1@tx, 1)]", dst="Y"), "scan and then copy"),
])  # fmt: skip
def test_what_threads_cannot_scan_is_refused_with_what_they_can(given: dict[str, Any], fix: str) -> None:
    with pytest.raises(tilegen.SpecError) as caught:
        tilegen.build(given)
    (found,) = (d for d in caught.value.diagnostics if d.code == "TG301")
    assert fix in found.message and found.mark and found.mark.keys == "ops[2].scan"


@pytest.mark.parametrize(("rows", "columns", "axis"), [(1, 8192, 1), (8, 1024, 1), (64, 100, 0), (256, 32, 0)])
def test_a_layout_that_is_chosen_gives_neighbours(rows: int, columns: int, axis: int) -> None:
    """Where the partition of a copy would give a thread elements that are apart, and where it would not."""
    array = {"scope": "global", "dtype": "float32", "shape": [rows, columns]}
    tilegen.build({
        "kernel": "scanned", "threads": 256,
        "buffers": {
            "X": array, "Y": array,
            "x": {"scope": "register", "dtype": "float32", "shape": [rows, columns], "layout": "auto"},
        },
        "ops": [
            {"copy": {"src": "X", "dst": "x"}}, {"scan": {"src": "x", "dst": "x", "axis": axis, "op": "sum"}},
            {"copy": {"src": "x", "dst": "Y"}},
        ],
    })  # fmt: skip
