"""Shapes drawn at random: extents of 1 that do not count, views that turn, arrays of many dimensions."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tilegen
from tilegen.proofs.runs import check_run, list_runs


def prove(spec: dict[str, Any]) -> None:
    built = tilegen.build(spec)
    for run in list_runs(built.spec, built.plan):
        check_run(built.spec, built.plan, run, 2)


def kernel(threads: int, buffers: dict[str, Any], *ops: Any) -> dict[str, Any]:
    return {"kernel": "drawn", "arch": "sm_80", "threads": threads, "buffers": buffers, "ops": [*ops]}


def array(dtype: str, shape: list[int]) -> dict[str, Any]:
    return {"scope": "global", "dtype": dtype, "shape": shape}


# ---------------------------------------------------------------- extents of 1
def spread(rng: random.Random, shape: list[int]) -> list[int]:
    """The shape with extents of 1 in any places."""
    out = list(shape)
    for _ in range(rng.randint(0, 3)):
        out.insert(rng.randint(0, len(out)), 1)
    return out or [1]


def draw_with_ones(seed: int) -> dict[str, Any]:
    """An elementwise over arrays and registers of equal shapes but for extents of 1, and over one that stretches."""
    rng = random.Random(seed)
    shape = [rng.choice([2, 3, 5, 8, 16]) for _ in range(rng.randint(0, 3))]
    dtype = rng.choice(["float32", "float16", "int32"])
    places = {name: spread(rng, shape) for name in "XYZr"}
    buffers: dict[str, Any] = {name: array(dtype, places[name]) for name in "XYZ"}
    buffers["r"] = {"scope": "register", "dtype": dtype, "shape": places["r"], "layout": "auto"}
    buffers["W"] = array(dtype, [n if rng.random() < 0.5 else 1 for n in places["Y"]])
    compute = {"dst": "Y", "expr": "x * r + z - w", "with": {"x": "X", "z": "Z", "w": "W"}}
    return kernel(rng.choice([32, 64, 128]), buffers, {"copy": {"src": "X", "dst": "r"}}, {"elementwise": compute})


@pytest.mark.sweep(6)
@pytest.mark.parametrize("seed", range(40))
def test_extents_of_one_do_not_count_where_shapes_are_equal(seed: int) -> None:
    prove(draw_with_ones(seed))


# ---------------------------------------------------------------- turned views of registers
def draw_turned(seed: int) -> dict[str, Any]:
    """A tile that one thread, some or all own, read and written through views with turned axes."""
    rng = random.Random(seed)
    rank = rng.randint(2, 3)
    shape = [rng.choice([1, 2, 3, 4, 8, 16]) for _ in range(rank)]
    axes = rng.sample(range(rank), rank)
    turned = [shape[a] for a in axes]
    dtype = rng.choice(["bfloat16", "float32", "float64", "int32"])
    buffers = {
        "X": array(dtype, shape), "Y": array(dtype, turned), "q": {"view": "p", "axes": axes},
        "p": {"scope": "register", "dtype": dtype, "shape": shape, "layout": "auto"},
    }  # fmt: skip
    out: Any = {"elementwise": {"dst": "Y", "expr": "q + 1"}}
    if rng.random() < 0.3:
        out = {"copy": {"src": "q", "dst": "Y"}}
    more = [{"elementwise": {"dst": "q", "expr": "q * 2"}}] if rng.random() < 0.5 else []
    return kernel(rng.choice([32, 64, 128]), buffers, {"copy": {"src": "X", "dst": "p"}}, *more, out)


@pytest.mark.sweep(6)
@pytest.mark.parametrize("seed", range(40))
def test_a_turned_view_of_registers_is_its_threads_alone(seed: int) -> None:
    prove(draw_turned(seed))


# ---------------------------------------------------------------- many dimensions
def draw_many_dimensions(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    rank = rng.randint(9, 24)
    shape = [1] * rank
    for k in rng.sample(range(rank), min(rank, 13)):
        shape[k] = rng.choice([1, 2, 2, 3])
    axes = rng.sample(range(rank), rank)
    if rng.random() < 0.3:  # runs that stay together
        axes = [*range(rank // 2, rank), *range(rank // 2)]
    dtype = rng.choice(["uint8", "float16", "float32", "complex64", "complex128"])
    buffers = {"X": array(dtype, shape), "Y": array(dtype, [shape[a] for a in axes])}
    return {
        "kernel": "drawn", "arch": "sm_90", "buffers": buffers,
        "ops": [{"permute": {"src": "X", "dst": "Y", "axes": axes}}],
    }  # fmt: skip


@pytest.mark.sweep(3)
@pytest.mark.parametrize("seed", range(24))
def test_a_permute_of_many_dimensions_merges_them_first(seed: int) -> None:
    prove(draw_many_dimensions(seed))
