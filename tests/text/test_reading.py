"""Text as a person would write it: no guard that the grid answers, exchanges of lanes by their name, short heads."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from specs.kernels import ROOT, draft

import tilegen
from tests.faults.steps import is_a, mutate
from text.run import compile_plans, requires_runner
from tilegen.plan import Block, Move, Plan, Shuffle, Step, When, all_steps, flatten
from tilegen.planner import plan_spec
from tilegen.proofs.ranges import unproven_ranges
from tilegen.render import render
from tilegen.render.ladders import fold_ladders


def rows_of(grid: Any, begin: str) -> dict[str, Any]:
    """A kernel of which each CTA takes a row of M from ``begin`` on."""
    buffers = {name: {"scope": "global", "dtype": "float32", "shape": ["M", 256]} for name in "XY"}
    double = {"expr": "x * 2", "with": {"x": f"X[{begin}]"}, "dst": f"Y[{begin}]", "edge": "clip"}
    return {
        "kernel": "rows", "threads": 64, "grid": grid, "params": {"M": {"dtype": "int32", "default": 8}},
        "buffers": buffers, "ops": [{"elementwise": double}],
    }  # fmt: skip


def conditions(source: str) -> list[str]:
    return re.findall(r"if \((.*?)\) \{|\((.*)\)\s*\?", source)


@pytest.mark.parametrize(("grid", "begin", "is_asked"), [
    ({"bx": "M"}, "bx", False), ({"by": "M"}, "by", False), ({"bx": "(M + 1) // 2"}, "bx", False),
    ({"bx": "M + 1"}, "bx", True), ({"bx": "M"}, "bx + 1", True), ({"bx": 64}, "bx", True),
])  # fmt: skip
def test_a_guard_is_asked_where_the_grid_does_not_answer_it(grid: Any, begin: str, is_asked: bool) -> None:
    found = draft(rows_of(grid, begin))
    assert bool(conditions(found.source)) == is_asked
    assert not unproven_ranges(found.plan)
    assert any(map(is_guarded, all_steps(found.plan))) == is_asked
    if is_asked:  # the proof has the last word
        assert unproven_ranges(mutate(found.plan, is_guarded, unguard))


def is_guarded(step: Step) -> bool:
    return any(getattr(step, name, True) is not True for name in ("valid", "condition"))


def unguard(step: Step) -> tuple[Step]:
    return (replace(step, **{"condition" if isinstance(step, When) else "valid": True}),)  # type: ignore[arg-type]


def test_rows_and_columns_of_any_number_are_proved_by_both_axes() -> None:
    """A row below M and a column below N are inside of M x N, whatever the two are."""
    spec = draft(ROOT / "specs" / "rotary.yaml")
    assert not conditions(spec.source) and not unproven_ranges(spec.plan)


# ---------------------------------------------------------------- lanes
def reduce_rows(param: str = "eps", op: str = "sum", threads: int = 32) -> Plan:
    """Rows of 128 elements, each reduced by a warp or more."""
    x = {"scope": "register", "dtype": "float32", "shape": [4, 128], "layout": "auto"}
    spec = tilegen.load({
        "kernel": "reduced", "threads": threads, "params": {param: {"dtype": "int32", "default": 8}},
        "buffers": {
            "X": {"scope": "global", "dtype": "float32", "shape": [4, 128]}, "x": x, "q": {**x, "shape": [4, 1]},
            "Y": {"scope": "global", "dtype": "float32", "shape": [4, 1]},
        },
        "ops": [
            {"copy": {"src": "X", "dst": "x"}},
            {"reduce": {"expr": f"x + {param}", "dst": "q", "axis": 1, "op": op}},
            {"copy": {"src": "q", "dst": "Y"}},
        ],
    })  # fmt: skip
    return plan_spec(spec)


def exchanging(plan: Plan) -> Block:
    """The function that exchanges lanes."""
    blocks = (s for role in plan.roles for s in flatten(role.steps) if isinstance(s, Block))
    return next(b for b in blocks if any(isinstance(x, Shuffle) for x in flatten(b.body)))


@pytest.mark.parametrize(("op", "text"), [("sum", "x + "), ("max", "fmaxf(x, "), ("prod", "__fmul_rn(x, ")])
def test_lanes_exchange_in_one_function_in_the_order_of_the_plan(op: str, text: str) -> None:
    plan = reduce_rows(op=op)
    lanes = [s.lanes for s in flatten(exchanging(plan).body) if isinstance(s, Shuffle)]
    word = {"sum": "sum", "max": "max", "prod": "product"}[op]
    source = render(plan)
    assert lanes == [1, 2, 4, 8, 16] and source.count("__shfl_xor_sync") == 1
    assert f"for (int lanes = 1; lanes <= 16; lanes *= 2) {{\n        x = {text}__shfl" in source
    assert f"acc[f] = warp_{word}(acc[f]);" in source and "other" not in source


def test_what_lanes_gave_stays_where_it_is_read_elsewhere() -> None:
    block = exchanging(reduce_rows())
    folded = fold_ladders(block)
    other = next(m for m in block.registers if m.name == "other")
    assert other not in folded.registers
    again = replace(block, body=(*block.body, Move(block.registers[0][0], other[0])))
    assert fold_ladders(again) is again


def test_lanes_in_another_order_are_taken_one_by_one() -> None:
    """A loop doubles the distance; other distances stand as they are planned."""

    turned = mutate(
        reduce_rows(), is_a(Shuffle), lambda step: (replace(step, lanes={1: 16, 16: 1}.get(step.lanes, step.lanes)),)
    )
    source = render(turned)
    assert re.findall(r"__shfl_xor_sync\(0xffffffffu, x, (\d+)\)", source) == ["16", "2", "4", "8", "1"]
    assert "warp_sum_over_16_2_4_8_1(acc[f])" in source


def test_a_spec_may_have_the_name_of_the_function() -> None:
    source = render(reduce_rows(param="warp_sum"))
    assert "int warp_sum" in source and "float warp_sum_2(float x)" in source and "= warp_sum_2(acc[f]);" in source


LOOPS = [
    ("bx", "N", "5"), ("bx * 3", "N - bx", "4"), ("2", "23", "3"), ("bx", "N", "gx"), ("0", "N", "7"),
    ("bx + 20", "N", "2"),
]  # fmt: skip


def loop_of(start: str, stop: str, step: str) -> dict[str, Any]:
    array = {"scope": "global", "dtype": "float32", "shape": [64, 32]}
    return {
        "kernel": "loop", "threads": 32, "grid": {"bx": 5}, "params": {"gx": 5, "N": {"default": 60, "max": 60}},
        "buffers": {"X": array, "Y": {**array, "partial": True}},
        "ops": [{"for": {"t": [start, stop, step]}, "do": [{"copy": {"src": "X[t]", "dst": "Y[t]"}}]}],
    }  # fmt: skip


def trips_of(loop: tuple[str, str, str], n: int) -> set[int]:
    """What a loop of any of the five CTAs comes to."""
    known = [{"N": n, "bx": bx, "gx": 5} for bx in range(5)]
    return {t for names in known for t in range(*(eval(x, names) for x in loop))}


@requires_runner
def test_a_loop_counts_what_its_body_uses() -> None:
    """From start to stop by step, with no trip at some sizes; the text has no number of trips."""
    plans = [draft(loop_of(*one)).plan for one in LOOPS]
    rows = np.arange(1, 64 * 32 + 1, dtype=np.float32).reshape(64, 32)
    for loop, plan, runner in zip(LOOPS, plans, compile_plans(plans), strict=True):
        assert "trip" not in render(plan)
        for n in (1, 2, 19, 24, 60):
            ran = [runner.run({"X": rows}, {"N": n}, [(bx, 0, 0)])["Y"].view(np.float32) for bx in range(5)]
            found = {t for y in ran for t in range(64) if (y.reshape(64, 32)[t] == rows[t]).all()}
            assert found == trips_of(loop, n), (loop, n)
