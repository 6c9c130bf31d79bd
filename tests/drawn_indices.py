"""Index expressions and conditions drawn at random: every operator, selections, and comparisons of what was compared.

A ``random.Random`` makes all choices, and the first choices are the simplest: with hypothesis's ``st.randoms``, a
failing expression shrinks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tilegen.index import (
    Index,
    Var,
    add,
    any_of,
    differ,
    div,
    equal,
    every,
    least,
    less,
    maximum,
    minimum,
    mod,
    mul,
    select,
    sub,
    xor,
)
from tilegen.index.expressions import masked

_SMALL = (2, 3, 4, 5, 6, 8, 12)


def positive(x: Index) -> Index:
    """A value that is never negative, as a dividend must be: moved up by what it may be below 0."""
    return add(x, max(0, -least(x)))


def draw_value(rng: random.Random, leaves: Sequence[Var], depth: int, reach: int) -> Index:
    """A value over variables; ``reach``: how large numbers are that something turns at, of which others are small."""
    if depth == 0 or rng.randrange(5) == 0:
        kind = rng.randrange(6)
        return rng.choice(leaves) if kind < 4 else rng.randrange(9) if kind < 5 else rng.randrange(reach)

    def value(depth: int = depth - 1) -> Index:
        return draw_value(rng, leaves, depth, reach)

    x, n = value(), rng.choice(_SMALL)
    divisors = [v for v in leaves if v.least > 0]  # numbers that are known at the launch alone
    forms: Sequence[Callable[[], Index]] = (
        lambda: add(x, value()),
        lambda: mul(x, rng.choice([1, 2, 3, 4, 8, 64])),
        lambda: div(positive(x), n),
        lambda: mod(positive(x), n),
        lambda: mod(positive(add(mod(positive(x), n * rng.choice(_SMALL) + rng.randrange(3)), value(0))), n),
        lambda: minimum(x, value()),
        lambda: maximum(x, value()),
        lambda: select(draw_comparison(rng, leaves, depth - 1, reach), x, value()),
        lambda: select(draw_comparison(rng, leaves, depth - 1, reach), add(x, rng.randrange(reach)), x),
        lambda: sub(x, value()),
        lambda: xor(positive(x), positive(value(0))),
        lambda: masked(positive(x), rng.choice([1, 3, 5, 12])),
        lambda: mul(x, value(0)),
        lambda: div(positive(x), rng.choice(divisors or [7])),
        lambda: mod(positive(x), rng.choice(divisors or [7])),
    )
    return rng.choice(forms)()


def draw_comparison(rng: random.Random, leaves: Sequence[Var], depth: int, reach: int) -> Index:
    """Two values compared; of one of three, the first moves by what another comparison selects."""
    x = draw_value(rng, leaves, max(0, depth), reach)
    if depth > 0 and rng.randrange(3) == 2:
        x = add(x, select(draw_comparison(rng, leaves, depth - 1, reach), rng.randrange(reach // 3), 0))
    y = rng.randrange(reach) if rng.randrange(3) else draw_value(rng, leaves, max(0, depth), reach)
    return rng.choice([less, equal, differ, lambda a, b: less(b, a)])(x, y)


def draw_condition(rng: random.Random, leaves: Sequence[Var], depth: int, reach: int, joined: int = 1) -> Index:
    """Some comparisons, joined by and or by or."""
    if joined == 0 or rng.randrange(3) < 2:
        return draw_comparison(rng, leaves, depth, reach)
    join = rng.choice([every, any_of])
    return join(*(draw_condition(rng, leaves, depth, reach, joined - 1) for _ in range(2)))
