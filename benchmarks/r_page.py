"""The tables of R in docs/gemm.md: steps 1 and 4 of the permutation chapter with every R, counted and measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tilegen
from tilegen.decisions import TILING
from tilegen.dtypes import DTYPES
from tilegen.layouts import MmaTiling, derive_mma, list_runs, read_mma
from tilegen.planner import plan_spec
from tilegen.report import explain_plan
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of

R_TABLE = "r_table"  # how the files in docs/results/gemm begin that sweep_r.py writes
SIDE = 4096
# What the chapter pins of either step, R aside, and which of its R is the chapter's own.
STEPS: dict[str, dict[str, Any]] = {
    "step 1": {"dtype": "float32", "b": "row", "own": 4, "k": None, "pins": {
        "tile": [128, 128, 8], "atom": "fma.f32", "atoms": "(16,16,1):(16,1,0)", "stages": 2}},
    "step 4": {"dtype": "float16", "b": "col", "own": 1, "k": 16, "pins": {
        "tile": [128, 128, 32], "atom": "mma.m16n8k16", "atoms": [2, 2, 1], "stages": 3}},
}  # fmt: skip
HEAD = ("R", "period, M x N", "repetitions", "atoms of a thread or warp", "wavefronts of shared memory", "conflicts",
        "sectors of D's stores", "memory instructions", "measured, us")  # fmt: skip


def spec_of_run(step: str, run: int) -> dict[str, Any]:
    """The gemm of a step with one R along M and N."""
    given = STEPS[step]
    buffers = {name: {"scope": "global", "dtype": given["dtype"], "shape": [SIDE, SIDE]} for name in "ABD"}
    buffers["B"]["layout"] = given["b"]
    gemm = {"a": "A", "b": "B", "d": "D", **given["pins"], "permutation": [f"R={run}", f"R={run}", given["k"]]}
    return {"kernel": "product", "arch": "sm_90a", "buffers": buffers, "ops": [{"gemm": gemm}]}


def runs_of(step: str) -> list[int]:
    """Every R that divides the tile of a step."""
    return list_runs(_find_tiling(tilegen.load(spec_of_run(step, 1))))


def run_tables(measured: Mapping[str, Any] | None) -> str:
    """Both tables; ``measured``: what sweep_r.py wrote, None where nothing is measured yet."""
    head = "Not measured yet: `python benchmarks/sweep_r.py` does."
    if measured:
        head = f"Measured on {measured['device']}, driver {measured['driver']}, {measured['date']}."
    return "\n\n".join([head, *(_table(step, measured) for step in STEPS)])


def _table(step: str, measured: Mapping[str, Any] | None) -> str:
    rows = {row["run"]: row for row in measured["steps"][step]} if measured else {}
    lines = [f"**{step}**, {SIDE} x {SIDE} x {SIDE}:", "", f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    for run in runs_of(step):
        us = rows.get(run, {}).get("us", rows.get(run, {}).get("error", ""))
        lines.append(f"| {' | '.join([*_count(step, run), str(us)])} |")
    return "\n".join(lines)


def _count(step: str, run: int) -> list[str]:
    """What follows from R, and what its kernel does by the exact model, over the whole grid."""
    spec = tilegen.load(spec_of_run(step, run))
    totals = explain_plan(plan_spec(spec), launch_of(spec))["grid_totals"]
    m, n = derive_mma(_find_tiling(spec)).modes[:2]
    shared = [row for name, row in totals.items() if name.startswith("shared")]
    wavefronts, floor = (sum(row[name] for row in shared) for name in ("wavefronts", "floor"))
    stores, instructions = totals["global_st"]["sectors"], sum(row["instructions"] for row in totals.values())
    least = SIDE * SIDE * DTYPES[STEPS[step]["dtype"]].bytes // 32
    own = f"{run} (the chapter's)" if run == STEPS[step]["own"] else f"{run}"
    counts = (wavefronts, wavefronts - floor, f"{stores} of {least}", instructions)
    return [own, f"{m.period} x {n.period}", f"{m.repetitions} x {n.repetitions}",
            f"{m.shape[0] * m.shape[1]} x {n.shape[0] * n.shape[1]}", *map(str, counts)]  # fmt: skip


def _find_tiling(spec: Spec) -> MmaTiling:
    (text,) = (c.picked for c in spec.choices if c.question == TILING)
    read = read_mma(text)
    assert read is not None
    return read[0]
