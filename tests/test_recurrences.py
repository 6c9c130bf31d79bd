"""How expressions go on along a variable: rules against every value, and values picked against all values."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from tests.drawn_indices import draw_condition, draw_value
from tilegen.index import Index, Var, add, equal, evaluate, less, maximum, minimum, select
from tilegen.index.recurrences import Recurrence, join_recurrences, pick_values, recurrence

N = 300
V, A, B = Var("v", N), Var("a", 5, 1, 1), Var("b", 8)
OTHERS = {"a": np.arange(1, 5)[:, None], "b": np.arange(8)}


def values_of(x: Index) -> np.ndarray:
    """The value for every v, a and b."""
    found = evaluate(x, {"v": np.arange(N)[:, None, None], **OTHERS})
    return np.broadcast_to(np.asarray(found, np.int64), (N, 4, 8))


def draw(rng: random.Random) -> Index:
    kind = rng.randrange(3)
    return draw_condition(rng, (V, A, B), 2, N) if kind else draw_value(rng, (V, A, B), 3, N)


def check_course(x: Index) -> bool:
    """Each value is that of a period before, plus the rise, where no turn lies between; False if no rule is known."""
    found = recurrence(x, V)
    if found is None:
        return False
    now, low = values_of(x), np.arange(max(0, N - found.period))
    holds = (now[low + found.period] == now[low] + found.rise).all((1, 2))
    for first, stop in found.breakpoints:
        holds |= ~((low + found.period < first) | (low >= stop))
    assert holds.all(), f"{x} along v: {found}, not from v = {low[~holds][0]} on"
    return True


def check_picked(xs: Sequence[Index], head: int, tail: int) -> bool:
    """Each value that is left out is one of the period that stands for it, plus the rises between them."""
    courses = [recurrence(x, V) for x in xs]
    common = join_recurrences(courses)
    if common is None:
        return False
    picked, weights = pick_values(N, common, head, tail)
    assert (np.diff(picked) > 0).all() and weights.sum() == N
    last = picked[np.searchsorted(picked, np.arange(N), "right") - 1]
    periods = -(-(np.arange(N) - last) // common.period)  # 0 of what is picked itself
    stands = np.arange(N) - periods * common.period
    assert np.isin(stands, picked).all(), f"{common} leaves out what nothing stands for"
    assert (np.bincount(np.searchsorted(picked, stands), minlength=len(picked)) == weights).all(), common
    for x, own in zip(xs, courses, strict=True):
        now, rises = values_of(x), own.over(common.period) * periods[:, None, None]
        wrong = np.flatnonzero((now != now[stands] + rises).any((1, 2)))
        assert not len(wrong), (
            f"{x} along v: {common} leaves out v = {wrong[0]}, where {stands[wrong[0]]} stands for it"
        )
    return True


@pytest.mark.sweep(2)
@pytest.mark.parametrize("seed", range(16))
def test_courses_hold_for_every_value(seed):
    rng = random.Random(seed)
    known = sum(check_course(draw(rng)) for _ in range(500))
    assert known > 250


@pytest.mark.sweep(1)
@pytest.mark.parametrize("seed", range(8))
def test_picked_values_speak_for_all(seed):
    rng = random.Random(seed)
    known = sum(
        check_picked([draw(rng) for _ in range(rng.choice([1, 1, 2]))], rng.randrange(20), rng.randrange(20))
        for _ in range(500)
    )
    assert known > 200


def test_a_comparison_turns_where_its_sides_do():
    """At 45 the sum passes 55, at 50 it falls back, at 55 it passes again."""
    x = less(add(V, select(less(V, 50), 10, 0)), 55)
    check_course(x)
    check_picked([x], 0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_clipped_stands_outside_of_where_it_moves(seed):
    rng, known = random.Random(seed), 0
    for _ in range(150):
        step, away = rng.randint(1, 9), rng.randint(0, 900)
        moving = rng.choice([
            V * step - away, away - V * step, V // rng.randint(2, 5) * step - away,
            V * step - away + select(less(V, rng.randrange(1, N)), away, 0),
            V * 64 + select(equal(V, step), 64, 0) - away,
        ])  # fmt: skip
        low = rng.randint(-300, 100)
        high = low + rng.randint(1, 300)
        known += check_course(rng.choice([
            minimum(maximum(moving, low), high), maximum(minimum(moving, high), low), maximum(moving, low),
            minimum(moving, high) + V,
        ]))  # fmt: skip
    assert known > 100


def test_long_ranges_take_few_values():
    picked, weights = pick_values((1 << 31) - 1, Recurrence(12, 0, ((1000, 1001), (1 << 30, (1 << 30) + 7))), 30)
    assert len(picked) < 400
    assert weights.sum() == (1 << 31) - 1


def test_what_has_no_course():
    k = Var("k", 9)
    assert recurrence(V * V, V) is None
    assert recurrence(V * k, V) is None  # the rise would depend on k
    assert recurrence(V * k % 8, V) is None
    assert recurrence(V % k, V) is None
