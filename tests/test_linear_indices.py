"""Digits of one number that stand side by side are that number again: exhaustively for small ranges, and only then."""

from __future__ import annotations

import random
from itertools import product
from math import prod

import numpy as np
import pytest

from tilegen.index import (
    Index,
    Var,
    add,
    bound,
    div,
    dividends,
    evaluate,
    least,
    mod,
    mul,
    sub,
    terms,
    to_c,
    total,
    variables,
)

TX, J, B, K, N = Var("tx", 96), Var("j", 7), Var("b", 5), Var("k", 16, 4), Var("n", 9, 1, 1)
FORMS = [
    TX, TX * 4, TX * 4 + K, TX + B, TX * 3 + J, TX // 3, TX % 24, TX % 24 + B, TX // 8 * 16 + TX % 8, TX * N + J,
    K * 3 + 5,
]  # fmt: skip
SMALL = [2, 3, 4, 6, 8, 12, 24]


def every_value(*parts: Index) -> dict[str, np.ndarray]:
    """All values of all variables, against each other."""
    names = sorted({v for x in parts for v in variables(x)}, key=lambda v: v.name)
    grids = np.meshgrid(*(np.arange(-(-v.least // v.step) * v.step, v.bound, v.step) for v in names), indexing="ij")
    return {v.name: g.ravel() for v, g in zip(names, grids, strict=True)}


def check_value(x: Index, env: dict[str, np.ndarray], want: np.ndarray) -> None:
    """An expression has this value everywhere, and what is known of it is true."""
    got = np.broadcast_to(np.asarray(evaluate(x, env)), want.shape)
    assert np.array_equal(got, want), to_c(x)
    assert want.max() < bound(x) and want.min() >= least(x), to_c(x)


# ---------------------------------------------------------------- what prints as one number
@pytest.mark.parametrize("x", FORMS, ids=to_c)
@pytest.mark.parametrize("k", [1, 5])
def test_a_quotient_and_its_remainder_are_the_number(x, k):
    for n in range(1, 26):
        assert add(mul(div(x, n), n * k), mul(mod(x, n), k)) == mul(x, k), n
        assert mul(add(mul(div(x, n), n), mod(x, n)), k) == mul(x, k), n
        assert add(add(mul(div(x, n), n * k), mul(mod(x, n), k)), B * 7 + 3) == add(mul(x, k), B * 7 + 3), n


@pytest.mark.parametrize("x", [TX, TX + B, TX // 3, TX % 48], ids=to_c)
def test_chains_are_the_number_in_whatever_order_and_form(x):
    for n, d in product(SMALL, SMALL):
        if n % d or n == d:
            continue
        top, low = mul(div(x, n), n), mod(x, d)
        for middle in (mul(div(mod(x, n), d), d), mul(mod(div(x, d), n // d), d)):
            for a, b, c in ((top, middle, low), (low, middle, top), (middle, top, low), (top, low, middle)):
                assert add(add(a, b), c) == x, (n, d)
            assert add(middle, low) == mod(x, n), (n, d)  # without the top, what is left of it


def test_what_the_page_says():
    x = TX + B
    assert x // 12 * 12 + x % 12 // 3 * 3 + x % 3 == x
    assert (x // 16) * 16 + (((x // 2) % 8) // 2) * 4 + x % 4 == x
    assert x // N * N + x % N == x and N * (x // N) + x % N == x
    assert add(mul(x // 8, N * 8), mul(x % 8, N)) == mul(x, N)
    assert add(mul(N * 8, x // 8), mul(N, x % 8)) == mul(N, x)
    assert K // 2 * 2 == K and (K * 3 + 5) // 6 * 6 == K * 3


# ---------------------------------------------------------------- what is no such sum keeps its value
@pytest.mark.sweep(2)
@pytest.mark.parametrize("a", [1, 2, 3, 4, 6, 8])
def test_sums_of_two_digits_have_their_value(a):
    """x / a % m * c + x / b % p * d, for all small numbers: most are no digits side by side."""
    x, joined = Var("x", 60), 0
    env = every_value(x)
    for m, c, b, p, d in product([0, 2, 3, 4], [1, 2, 3, 4, 6, 8, 12], [1, 2, 3], [0, 2, 3, 4, 6], [1, 2, 3]):
        one, other = (div(x, s) if not t else mod(div(x, s), t) for s, t in ((a, m), (b, p)))
        y = add(mul(one, c), mul(other, d))
        check_value(y, env, sum_of(env["x"], (a, m, c), (b, p, d)))
        joined += y in (x, mul(x, d), mod(x, m * a) if m else x)
    assert joined or a in (1, 8)


def sum_of(x: np.ndarray, *digits: tuple[int, int, int]) -> np.ndarray:
    return sum((x // a % m if m else x // a) * c for a, m, c in digits)


def test_drawn_sums_of_digits_have_their_value():
    """Chains of digits of one number, some of them wrong in one place, among other terms, in any order."""
    pick, joined = random.Random(5), 0
    for _ in range(1500):
        x = pick.choice([TX, TX + B, TX * 3 + J, TX * 4 + J, TX // 3, TX ^ 5, TX % 40])
        radices = [pick.choice([2, 3, 4, 5]) for _ in range(pick.choice([1, 2, 3]))]
        scale = pick.choice([1, 1, 2, 6])
        pairs = [(prod(radices) * scale, div(x, prod(radices)))]
        for n, r in enumerate(radices):
            weight = prod(radices[:n])
            digit = mod(div(x, weight), r) if pick.random() < 0.5 else div(mod(x, weight * r), weight)
            pairs.append((weight * scale, digit))
        if pick.random() < 0.4:
            k = pick.randrange(len(pairs))
            pairs[k] = pick.choice(
                [(pairs[k][0] * 2, pairs[k][1]), (pairs[k][0], pairs[k][1] + 1), (1, B), (-1, x % 2)]
            )
        pairs += pick.sample([(1, B), (7, J % 2), (-3, J), (5, 1)], pick.choice([0, 1, 2]))
        pick.shuffle(pairs)
        y = total((c * k, g) for c, f in pairs for k, g in terms(f))
        env = every_value(x, *(f for _, f in pairs))
        check_value(y, env, sum(c * np.asarray(evaluate(f, env)) for c, f in pairs))
        joined += y == mul(x, scale)
    assert joined > 150


def test_sums_have_their_value_whatever_their_signs():
    """x / y * y * c + x % y * d, also of a runtime y, 1 too, and of digits times a factor."""
    joined = 0
    for c, d, k in product([-3, -1, 1, 2], [-3, -2, -1, 1, 2, 3], [2, 8]):
        for q, rest in ((TX // k, TX % k), (mul(TX // N, N), TX % N), (mul(mul(TX // k, N), k), mul(TX % k, N)),
                        (mul(N, TX // k % 3) * k, mul(TX % k, N))):  # fmt: skip
            y = total((s * t, f) for s, x in ((c, q), (d, rest)) for t, f in terms(x))
            env = every_value(TX, N)
            check_value(y, env, c * evaluate(q, env) + d * evaluate(rest, env))
            joined += len(dividends(y)) == 0
    assert joined >= 8


# ---------------------------------------------------------------- what may be negative
def test_what_may_be_negative_is_divided_still_so_that_proofs_ask():
    v, w = Var("v", 60), Var("w", 30)
    x = sub(v, w)
    env = every_value(x)
    where = env["v"] >= env["w"]
    for n, d in product(SMALL, SMALL):
        for y, direct in (
            (add(mul(div(x, n), n * d), mul(mod(x, n), d)), lambda a, n, d: a * d),
            (add(mul(div(div(x, d), n), n * d), mod(x, n * d)), lambda a, n, d: a),
            (add(mul(mod(div(x, d), n), d), mod(x, d)), lambda a, n, d: a % (n * d)),
        ):
            assert any(part == x for part, _ in dividends(y)), (n, d)
            wanted = direct(env["v"] - env["w"], n, d)
            assert np.array_equal(evaluate(y, env)[where], wanted[where]), to_c(y)
    assert mod(div(x, 3), 4) * 3 + x % 3 == x % 12
    for y in (x // N * N + x % N, N * (x // N) * 3 + x % N * 3, add(mul(x // 8, N * 8), mul(x % 8, N))):
        assert any(part == x for part, _ in dividends(y)), to_c(y)
