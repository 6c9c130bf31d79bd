"""Memory layouts drawn at random: rows padded, dimensions turned, dimensions cut into tiles."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.oracles.kernels import strided


def draw_layout(pick: random.Random, shape: Sequence[int], pad: int, turned: float, tiled: float = 0.15) -> str:
    """An injective layout over ``shape``: iters in row-major or any order, ``pad`` elements after the innermost."""
    iters = [(d, n) for d, n in enumerate(shape)]
    if pick.random() < tiled:
        iters = [part for d, n in iters for part in _cut(pick, d, n)]
    order = list(range(len(iters)))
    if len(iters) > len(shape):  # tile by tile: the outer parts of all dimensions before the inner ones
        firsts = [k for k in order if k == 0 or iters[k - 1][0] != iters[k][0]]
        order = firsts + [k for k in order if k not in firsts]
    if pick.random() < turned:
        pick.shuffle(order)
    strides, reach = [0] * len(iters), 1
    for n, k in enumerate(reversed(order)):
        strides[k] = reach
        reach = reach * iters[k][1] + (pad if n == 0 else 0)
    return strided([n for _, n in iters], strides)


def _cut(pick: random.Random, d: int, n: int) -> list[tuple[int, int]]:
    divisors = [k for k in (2, 4, 8, 16) if n % k == 0 and k < n]
    if not divisors or pick.random() < 0.3:
        return [(d, n)]
    k = pick.choice(divisors)
    return [(d, n // k), (d, k)]
