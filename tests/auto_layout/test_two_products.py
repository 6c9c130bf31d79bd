"""Products one after the other: each other's results and factors are owned alike, without a way through memory."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tilegen
from tilegen.pipeline import load
from tilegen.proofs.runs import check_run, list_runs
from tilegen.spec.printing import print_spec


def draw_chain(seed: int) -> dict[str, Any]:
    """o = (q k) v, all in registers; each warp has whole atoms along M."""
    rng = random.Random(seed)
    dtype, sums = rng.choice([("bfloat16", "float32"), ("float16", "float32"), ("float32", "float32")])
    is_fused = dtype == sums  # multiplied by fused adds, thread by thread
    scope = rng.choice(["cta", "cta", "warp", "warpgroup"])
    warps = rng.choice([4, 8] if scope == "warpgroup" else [1, 2, 4] if is_fused else [1, 2, 4, 8])
    own = {"cta": warps, "warp": 1, "warpgroup": 4}[scope]
    m = (32 if is_fused else 16) * own
    k, n, last = (rng.choice([4, 8] if is_fused else [16, 32, 64]) for _ in range(3))
    count = 1 if scope == "cta" else warps // own
    said = {} if scope == "cta" else {"scope": scope}
    at = "" if count == 1 else "[warpid]" if scope == "warp" else "[wgid]"

    def tile(rows: int, columns: int, kind: str = dtype) -> dict[str, Any]:
        return {"scope": "register", "dtype": kind, "shape": [rows, columns], "layout": "auto"}

    def array(rows: int, columns: int, kind: str = dtype) -> dict[str, Any]:
        return {"scope": "global", "dtype": kind, "shape": ([] if count == 1 else [count]) + [rows, columns]}

    buffers = {
        "Q": array(m, k), "K": array(k, n), "V": array(n, last), "O": array(m, last, sums), "q": tile(m, k),
        "k": tile(k, n), "v": tile(n, last), "s": tile(m, n, sums), "p": tile(m, n), "o": tile(m, last, sums),
    }  # fmt: skip
    turn = {"cast": {**said, "src": "s", "dst": "p"}}
    if is_fused:
        turn = {"elementwise": {**said, "dst": "p", "expr": "s * 2.0"}}
    ops: list[Any] = [{"copy": {**said, "src": f"{x.upper()}{at}", "dst": x}} for x in "qkv"]
    ops += [{"fill": {**said, "dst": x, "value": 0}} for x in "so"]
    ops += [{"mma": {**said, "a": "q", "b": "k", "c": "s"}}, turn, {"mma": {**said, "a": "p", "b": "v", "c": "o"}}]
    ops += [{"copy": {**said, "src": "o", "dst": f"O{at}"}}]
    return {"kernel": "chain", "arch": "sm_80", "threads": 32 * warps, "buffers": buffers, "ops": ops}


@pytest.mark.sweep(4)
@pytest.mark.parametrize("seed", range(24))
def test_two_products_choose_their_tilings_together(seed: int) -> None:
    built = tilegen.build(draw_chain(seed))
    for run in list_runs(built.spec, built.plan):
        check_run(built.spec, built.plan, run, 2)


# ---------------------------------------------------------------- written accumulators
def draw_written(seed: int) -> dict[str, Any]:
    """A product whose accumulator is written as a tiled_mma, of any scope."""
    rng = random.Random(seed)
    scope, own = rng.choice([("cta", 8), ("warp", 1), ("warpgroup", 4)])
    count = 1 if scope == "cta" else rng.choice([1, 2])
    said = {"scope": scope}
    at = "" if count == 1 else "[warpid]" if scope == "warp" else "[wgid]"
    if rng.random() < 0.5:
        atom, dtype, sums = rng.choice([("fma.f32", "float32", "float32"), ("fma.i32", "int32", "int32")])
        down = rng.choice([d for d in (1, 2, 4, 8, 32) if d <= 32 * own])
        atoms, m, n, k = (down, 32 * own // down, 1), down * rng.choice([1, 2]), 32 * own // down, 4
        permutation = f"({f'R={m // down}' if m > down else None}, None, None)"
    else:
        atom, dtype, sums = "mma.m16n8k16.f32.f16.f16.f32", "float16", "float32"
        down = rng.choice([d for d in (1, 2, 4, 8) if d <= own])
        atoms, m, n, k = (down, own // down, 1), 16 * down, 8 * own // down, 16
        permutation = "None"
    layout = f"tiled_mma('{atom}', {atoms}, {permutation}, 'C', ({m}, {n}, {k}))"

    def tile(rows: int, columns: int, kind: str, layout: str = "auto") -> dict[str, Any]:
        return {"scope": "register", "dtype": kind, "shape": [rows, columns], "layout": layout}

    def array(rows: int, columns: int, kind: str) -> dict[str, Any]:
        return {"scope": "global", "dtype": kind, "shape": ([] if count == 1 else [count]) + [rows, columns]}

    buffers = {
        "A": array(m, k, dtype), "B": array(k, n, dtype), "C": array(m, n, sums), "a": tile(m, k, dtype),
        "b": tile(k, n, dtype), "c": tile(m, n, sums, layout),
    }  # fmt: skip
    ops: list[Any] = [{"fill": {**said, "dst": "c", "value": 0}}]
    ops += [{"copy": {**said, "src": f"{x.upper()}{at}", "dst": x}} for x in "ab"]
    ops += [{"mma": {**said, "a": "a", "b": "b", "c": "c"}}, {"copy": {**said, "src": "c", "dst": f"C{at}"}}]
    return {"kernel": "written", "arch": "sm_80", "threads": 32 * own * count, "buffers": buffers, "ops": ops}


@pytest.mark.sweep(4)
@pytest.mark.parametrize("seed", range(24))
def test_a_written_accumulator_numbers_the_threads_of_its_scope(seed: int) -> None:
    built = tilegen.build(draw_written(seed))
    assert load(print_spec(built.spec)) == built.spec
    for run in list_runs(built.spec, built.plan):
        check_run(built.spec, built.plan, run, 2)
