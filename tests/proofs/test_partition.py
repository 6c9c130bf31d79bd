"""Long axes thinned out: the verdict, and the count of what nobody owns, are those of every box."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.interpret.edits import kernel
from tilegen.index import Index, Var, add, differ, equal, less
from tilegen.plan import Memory, Plan
from tilegen.proofs import Owned, bids, check_partition, find_unowned


def draw_sum(rng: random.Random, axes: Sequence[Var]) -> Index:
    x: Index = rng.choice([0, 0, 1, 5])
    for v in axes:
        part = rng.choice([v] * 12 + [v // 2, v // 3, v % 2, v % 3, v % 4, v ^ 1])
        x = add(x, part * rng.choice([1, 2, 3, 4, 8, 16]))
    return x


def draw_condition(rng: random.Random, axes: Sequence[Var], bx: Var) -> Index:
    v = rng.choice(axes)
    half = v.bound // 2
    return rng.choice([True, True, True, less(v, half), equal(v % 3, 1), differ(v, half), less(v * 3, add(bx, 20))])


def draw_plan(seed: int) -> tuple[Plan, tuple[Owned, ...]]:
    """A plan of its grid alone, and who owns what."""
    rng = random.Random(seed)
    grid = (rng.choice([1, 2, 7, 40, 90]), rng.choice([1, 2, 5, 30]), 1)
    bx, by, k = Var("bx", grid[0]), Var("by", grid[1]), Var("k", rng.choice([3, 20, 50]))
    shape = tuple(rng.choice([13, 40, 100, 300, 1000]) for _ in range(rng.choice([1, 2])))
    y = Memory("Y", "float32", shape, (shape[1], 1) if len(shape) == 2 else (1,), "global", "out")
    loops = rng.choice([(), (k,)])
    axes = rng.sample([bx, by, *loops], 2 + len(loops))
    cut = rng.randrange(len(axes) + 1)
    start = tuple(draw_sum(rng, part) for part in ([axes] if len(shape) == 1 else [axes[:cut], axes[cut:]]))
    counts = [(v, v.bound if rng.random() < 0.8 else add(bx % 3, max(1, v.bound - 4))) for v in loops]
    box = tuple(rng.choice([1, 2, 3, 4, 8, 16]) for _ in shape)
    one = Owned(y, start, box, tuple(counts), draw_condition(rng, axes, bx), 0)
    other = replace(one, start=tuple(add(x, rng.choice([0, 1, 8])) for x in start), op=1)
    return kernel(memories=(y,), grid=grid), rng.choice([(one,), (one, other)])


def verdict(plan: Plan, owns: Sequence[Owned]) -> list[tuple[str, str, list[int] | None]]:
    """The codes, of counts the message and what is first; which of many elements with two owners does not matter."""
    return [
        (f.code, "", None) if f.code == "TG417" else (f.code, f.message, find_unowned(plan, owns, f.memory, {}))
        for f in check_partition(plan, owns)
    ]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("seed", range(6))
def test_a_thinned_grid_is_judged_as_the_whole(seed, monkeypatch):
    thinned = 0
    for case in range(150):
        plan, owns = draw_plan(1000 * seed + case)
        monkeypatch.setattr(bids, "_ALL", 1 << 40)
        whole = verdict(plan, owns)
        monkeypatch.setattr(bids, "_ALL", 4)
        thinned += bool(bids.thin([bids.make_bid(plan, o, {}) for o in owns]))
        assert verdict(plan, owns) == whole, f"case {1000 * seed + case}: {owns}"
    assert thinned > 20


def test_a_grid_of_two_billion_ctas_is_a_partition():
    n = (1 << 31) - 1
    bx = Var("bx", n)
    y = Memory("Y", "int8", (n * 32,), (1,), "global", "out")
    owned, plan = Owned(y, (bx * 32,), (32,)), kernel(memories=(y,), grid=(n, 1, 1))
    assert check_partition(plan, [owned]) == ()
    (found,) = check_partition(plan, [replace(owned, box=(33,))])
    assert found.message == "Y[32] is owned by CTA (0, 0, 0) and by CTA (1, 0, 0)"
    (found,) = check_partition(plan, [replace(owned, box=(31,))])
    assert found.message == f"{n} of {n * 32} elements of Y have no owner"
    assert find_unowned(plan, [replace(owned, box=(31,))], "Y", {}) == [31]
    left_out = [replace(owned, condition=differ(bx, 5))]
    (found,) = check_partition(plan, left_out)
    assert found.message == f"32 of {n * 32} elements of Y have no owner"
    assert find_unowned(plan, left_out, "Y", {}) == [160]
