"""How expressions go on along a variable: rules against every value, and values picked against all values."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tilegen.index import Index, Var, add, any_of, differ, equal, evaluate, every, less
from tilegen.index.courses import Course, course, pick_values
from tilegen.index.expressions import masked

N = 3000
V, A, B = Var("v", N), Var("a", 5), Var("b", 32)


def draw_value(rng: random.Random, depth: int) -> Index:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([V, V, A, B, rng.randrange(9)])
    x, y, op = draw_value(rng, depth - 1), draw_value(rng, depth - 1), rng.choice("++*/%^&-")
    if op == "*":
        return x * rng.choice([1, 2, 3, 4, 8, 64]) if rng.random() < 0.8 else x * draw_value(rng, 0)
    one_sided = {
        "/": lambda: x // rng.choice([2, 3, 4, 8, 12]), "%": lambda: x % rng.choice([2, 3, 4, 8, 12]),
        "&": lambda: masked(x, rng.choice([1, 3, 5, 12])), "+": lambda: x + y, "^": lambda: x ^ y,
        "-": lambda: add(x, 5_000_000) - y,
    }  # fmt: skip
    return one_sided[op]()


def draw_condition(rng: random.Random, depth: int) -> Index:
    kind = rng.random()
    if depth == 0 or kind < 0.6:
        y = draw_value(rng, 2) if rng.random() < 0.4 else rng.randrange(8000)
        return rng.choice([less, equal, differ])(draw_value(rng, 2), y)
    return (every if kind < 0.8 else any_of)(draw_condition(rng, depth - 1), draw_condition(rng, depth - 1))


def values_of(x: Index, a: int, b: int) -> np.ndarray:
    found = evaluate(x, {"v": np.arange(N), "a": a, "b": b})
    return np.broadcast_to(np.asarray(found, np.int64), (N,))


@pytest.mark.parametrize("seed", range(8))
def test_courses_hold_for_every_value(seed):
    rng, known = random.Random(seed), 0
    for case in range(400):
        x = draw_value(rng, 3) if case % 2 else draw_condition(rng, 1)
        found = course(x, V)
        if found is None or isinstance(x, int):
            continue
        known += 1
        for a, b in ((0, 0), (3, 17), (4, 31)):
            now = values_of(x, a, b)
            low = np.arange(max(0, N - found.period))
            holds = now[low + found.period] == now[low] + found.rise if len(low) else np.ones(0, bool)
            for first, stop in found.turns:
                holds |= ~((low + found.period < first) | (low >= stop))
            assert holds.all(), f"{x} along v: {found} with a = {a}, b = {b}, v = {low[~holds][:3]}"
    assert known > 200


@pytest.mark.parametrize("seed", range(4))
def test_picked_values_speak_for_all(seed):
    rng = random.Random(seed)
    for _ in range(200):
        x = draw_condition(rng, 1)
        found = course(x, V)
        if found is None or isinstance(x, int):
            continue
        picked, weights = pick_values(N, found)
        now = values_of(x, 2, 9)
        assert (np.diff(picked) > 0).all()
        assert weights.sum() == N
        assert (now[picked] * weights).sum() == now.sum(), f"{x}: {found}"


def test_long_ranges_take_few_values():
    picked, weights = pick_values((1 << 31) - 1, Course(12, 0, ((1000, 1001), (1 << 30, (1 << 30) + 7))), 30)
    assert len(picked) < 400
    assert weights.sum() == (1 << 31) - 1


def test_what_has_no_course():
    k = Var("k", 9)
    assert course(V * V, V) is None
    assert course(V * k, V) is None  # the rise would depend on k
    assert course(V * k % 8, V) is None
    assert course(V % k, V) is None
