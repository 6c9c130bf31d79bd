"""Long axes thinned out: the verdict, and the count of what nobody owns, are those of every box and every element."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.drawn_indices import draw_condition, draw_value
from tests.interpret.kernels import kernel
from tilegen.index import Index, Var, add, differ, equal, evaluate, less, maximum, minimum, mod, select, sub, substitute
from tilegen.plan import Memory, Param, Plan, default_values
from tilegen.proofs import Owned, bids, check_partition, find_unowned
from tilegen.proofs.finding import TWO_OWNERS


def draw_sum(rng: random.Random, axes: Sequence[Var]) -> Index:
    x: Index = rng.choice([0, 0, 1, 5])
    for v in axes:
        part = rng.choice([v] * 12 + [v // 2, v // 3, v % 2, v % 3, v % 4, v ^ 1])
        x = add(x, part * rng.choice([1, 2, 3, 4, 8, 16]))
    return x


def draw_guard(rng: random.Random, axes: Sequence[Var], bx: Var) -> Index:
    v = rng.choice(axes)
    half = v.bound // 2
    return rng.choice([True, True, True, less(v, half), equal(v % 3, 1), differ(v, half), less(v * 3, add(bx, 20))])


def draw_plan(rng: random.Random, widths: Sequence[int] = (1, 2, 7, 40, 90)) -> tuple[Plan, tuple[Owned, ...]]:
    """A plan of its grid alone, and who owns what."""
    grid = (rng.choice(widths), rng.choice([1, 2, 5, 30]), 1)
    bx, by, k = Var("bx", grid[0]), Var("by", grid[1]), Var("k", rng.choice([3, 20, 50]))
    shape = tuple(rng.choice([13, 40, 100, 300, 1000]) for _ in range(rng.choice([1, 2])))
    y = Memory("Y", "float32", shape, (shape[1], 1) if len(shape) == 2 else (1,), "global", "out")
    loops = rng.choice([(), (k,)])
    axes = rng.sample([bx, by, *loops], 2 + len(loops))
    cut = rng.randrange(len(axes) + 1)
    start = tuple(draw_sum(rng, part) for part in ([axes] if len(shape) == 1 else [axes[:cut], axes[cut:]]))
    counts = [(v, v.bound if rng.random() < 0.8 else add(bx % 3, max(1, v.bound - 4))) for v in loops]
    box = tuple(rng.choice([1, 2, 3, 4, 8, 16]) for _ in shape)
    one = Owned(y, start, box, tuple(counts), draw_guard(rng, axes, bx), 0)
    other = replace(one, start=tuple(add(x, rng.choice([0, 1, 8])) for x in start), op=1)
    return kernel(memories=(y,), grid=grid), rng.choice([(one,), (one, other)])


def verdict(plan: Plan, owns: Sequence[Owned]) -> list[tuple[str, str, list[int] | None]]:
    """The codes, of counts the message and what is first; which of many elements with two owners does not matter."""
    return [
        (f.code, "", None) if f.code == "TG417" else (f.code, f.message, find_unowned(plan, owns, f.memory, {}))
        for f in check_partition(plan, owns)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_thinned_grid_is_judged_as_the_whole(seed, monkeypatch):
    thinned = 0
    for case in range(150):
        plan, owns = draw_plan(random.Random(1000 * seed + case))
        monkeypatch.setattr(bids, "_ALL", 1 << 40)
        whole = verdict(plan, owns)
        monkeypatch.setattr(bids, "_ALL", 4)
        thinned += bool(bids.thin([bids.make_bid(plan, o, {}) for o in owns]))
        assert verdict(plan, owns) == whole, f"case {1000 * seed + case}: {owns}"
    assert thinned > 20


# ---------------------------------------------------------------- against every element
@dataclass(frozen=True)
class Owners:
    """Of each element of an array the first CTA that owns it, and the last; -1 for nobody."""

    first: np.ndarray[Any, Any]
    last: np.ndarray[Any, Any]


def count_owners(plan: Plan, owns: Sequence[Owned]) -> Owners | None:
    """Every element of every box of every CTA, at the plan's default sizes; None for a box that begins before 0."""
    params = default_values(plan.params)
    grid = [int(evaluate(n, params)) for n in plan.grid]
    shape = tuple(int(evaluate(n, params)) for n in owns[0].memory.shape)
    first, last = np.full(shape, 1 << 40), np.full(shape, -1)
    for owned in owns:
        counts = [v.bound for v, _ in owned.loops]
        names = ["bx", "by", "bz", *(v.name for v, _ in owned.loops)]
        at = dict(zip(names, np.indices((*grid, *counts)).reshape(len(names), -1), strict=True))
        size = at["bx"].shape

        def every(x: Index, at: dict[str, Any] = at, size: tuple[int, ...] = size) -> np.ndarray[Any, Any]:
            return np.broadcast_to(np.asarray(evaluate(x, {**at, **params})), size)

        runs = every(owned.condition).astype(bool)
        for v, count in owned.loops:
            runs = runs & (at[v.name] < every(count))
        cta = at["bx"] + grid[0] * (at["by"] + grid[1] * at["bz"])
        starts = [every(x) for x in owned.start]
        if any((x[runs] < 0).any() for x in starts):
            return None
        for offset in product(*map(range, owned.box)):
            place = [x + k for x, k in zip(starts, offset, strict=True)]
            inside = runs & np.all([(p >= 0) & (p < n) for p, n in zip(place, shape, strict=True)], axis=0)
            element = tuple(p[inside] for p in place)
            np.minimum.at(first, element, cta[inside])
            np.maximum.at(last, element, cta[inside])
    return Owners(np.where(last < 0, -1, first), last)


def check_owners(plan: Plan, owns: Sequence[Owned]) -> bool:
    """The verdict is that of every element: who is named owns it, and as many as said have no owner.

    False for a plan whose boxes begin before their array, which other proofs refuse.
    """
    owners, found, params = count_owners(plan, owns), check_partition(plan, owns), default_values(plan.params)
    if owners is None:
        return False
    said = ", ".join(f"{f.code} {f.message}" for f in found)
    boxes = "; ".join(
        f"[{', '.join(map(str, o.start))}] + {o.box} when {o.condition} for {[(v.name, str(n)) for v, n in o.loops]}"
        for o in owns
    )
    text = f"grid {tuple(map(str, plan.grid))}, {params}, Y{list(owners.last.shape)}: {boxes}: it says '{said}'"
    twice, bare = owners.first != owners.last, np.argwhere(owners.last < 0)
    assert [f.code for f in found] == (["TG417"] if twice.any() else ["TG418"] if len(bare) else []), text
    for f in found:
        assert f.memory == "Y"
        if f.code == TWO_OWNERS:
            number = r"(\d+)[,\]) ]*"
            match = re.fullmatch(rf"Y\[(.*)\] is owned by CTA \({number * 3}and by CTA \({number * 3}", f.message)
            assert match, f.message
            element, (one, other) = tuple(map(int, match[1].split(", "))), _number_ctas(plan, match.groups()[1:])
            assert owners.first[element] <= min(one, other) < max(one, other) <= owners.last[element], text
        else:
            assert f.message == f"{len(bare)} of {owners.last.size} elements of Y have no owner", text
            assert find_unowned(plan, owns, "Y", params) == bare[0].tolist(), text
    return True


def _number_ctas(plan: Plan, words: Sequence[str]) -> tuple[int, int]:
    x, y, _ = (int(evaluate(n, default_values(plan.params))) for n in plan.grid)
    a, b = (tuple(map(int, words[k : k + 3])) for k in (0, 3))
    return a[0] + x * (a[1] + y * a[2]), b[0] + x * (b[1] + y * b[2])


def draw_place(rng: random.Random, axes: Sequence[Var], x: Index) -> Index:
    """A place that is elsewhere from some CTA, trip or size on, or for some of them."""
    asked, far = draw_condition(rng, axes, rng.choice([0, 1, 1, 2]), 100), rng.choice([1, 2, 3, 8, 20, 50])
    return rng.choice([
        select(asked, x, sub(x, far)), select(asked, x, maximum(sub(x, far), 0)), select(asked, x, add(x, far)),
        minimum(x, rng.choice([20, 90])), maximum(x, rng.choice([20, 90])),
        select(asked, x, draw_value(rng, axes, 1, 100)),
    ])  # fmt: skip


def draw_turning_plan(rng: random.Random) -> tuple[Plan, tuple[Owned, ...]]:
    """Tiles of an array in whose places and conditions something turns, at values of CTAs, trips and sizes."""
    bx, by, k = Var("bx", rng.choice([60, 90, 150, 300])), Var("by", rng.choice([1, 1, 2, 4])), Var("k", 5)
    loops = rng.choice([(), (), (k,)])
    axes = [v for v in rng.sample([bx, by, *loops], 2 + len(loops)) if v.bound > 1]
    cut = rng.choice([0, 0, 1])  # axes of the first of two dimensions
    box = tuple(rng.choice([1, 1, 2, 4]) for _ in range(2 if cut else 1))
    start: list[Index] = []
    shape: list[Index] = []
    for part, size in zip([axes[:cut], axes[cut:]][not cut :], box, strict=True):
        start.append(0)
        for v in part:
            start[-1], size = add(start[-1], v * size), size * v.bound
        shape.append(max(1, size + rng.choice([0, 0, 0, -1, 1])))
    named = rng.choice([(), ("N",), ("N", "M")])
    sizes = [Var(name, 1 << 12) for name in named]
    params = tuple(Param(v.name, "int32", n, v) for v, n in zip(sizes, (bx.bound, shape[0]), strict=False))
    if sizes:  # of the grid, and of the array
        bx = Var("bx", 1 << 12)
        start = [substitute(x, {"bx": bx}) for x in start]
    shape = [*sizes[1:], *shape[len(sizes[1:]) :]]
    y = Memory("Y", "float32", tuple(shape), (shape[1], 1) if cut else (1,), "global", "out")
    drawn = [bx, *(v for v in (by, *loops) if v.bound > 1), *sizes]
    if rng.randrange(4):
        d = rng.randrange(len(start))
        start[d] = draw_place(rng, drawn, start[d])
    condition = draw_condition(rng, drawn, 2, 100) if rng.randrange(3) == 2 else True
    owned = Owned(y, tuple(start), box, tuple((v, v.bound) for v in loops), condition, 0)
    grid = (sizes[0] if sizes else bx.bound, by.bound, 1)
    return kernel(memories=(y,), grid=grid, params=params), (owned,)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("seed", range(16))
def test_owners_are_those_of_every_element(seed, monkeypatch):
    """Boxes that move on, and boxes that turn."""
    monkeypatch.setattr(bids, "_ALL", 4)
    rng, judged, thinned = random.Random(seed), 0, 0
    for case in range(100):
        plan, owns = draw_turning_plan(rng) if case % 4 else draw_plan(rng)
        judged += check_owners(plan, owns)
        thinned += bool(bids.thin([bids.make_bid(plan, o, default_values(plan.params)) for o in owns]))
    assert judged > 60 and thinned > 20


BX = Var("bx", 400)
MOVED = add(BX, select(less(BX, 200), 40, 0))  # up to 239, then from 200 on again


@pytest.mark.parametrize(
    "place,condition",
    [
        (select(less(BX, 200), BX, sub(BX, 120)), True),  # whose boxes meet those of CTAs far away
        (select(differ(BX, 0), BX, add(BX, 50)), True),
        (select(less(mod(BX, 7), 6), BX, maximum(sub(BX, 90), 0)), True),
        (minimum(BX, 250), True),
        (BX, differ(MOVED, 260)),  # fails behind the turn of what it compares
        (BX, less(MOVED, 230)),
        (add(BX, select(equal(MOVED, 260), 1, 0)), True),
    ],
    ids=str,
)
def test_boxes_that_turn_at_a_cta(place, condition):
    y = Memory("Y", "float32", (400,), (1,), "global", "out")
    owned = Owned(y, (place,), (1,), condition=condition, op=0)
    assert check_owners(kernel(memories=(y,), grid=(400, 1, 1)), (owned,))


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
