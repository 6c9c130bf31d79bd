"""Products of integers in blocks are the products, whatever the sides, the batches and the storage order."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tilegen.arithmetic.products import multiply_exactly

SIDES = (1, 3, 8, 16, 17, 64, 65, 67, 96, 128, 130, 134, 256)
BATCHES = [((), ()), ((3,), (3,)), ((2, 4, 1), (2, 1, 3)), ((1,), (5,)), ((2,), ())]


@pytest.mark.parametrize("seed", range(60))
def test_multiply_exactly(seed: int) -> None:
    draw, numbers = Random(seed), np.random.default_rng(seed)
    rows, columns, depth = draw.choice(SIDES), draw.choice(SIDES), draw.choice((1, 16, 100, 512))
    left, right = draw.choice(BATCHES)
    a = numbers.integers(0, 1 << 22, (*left, rows, depth)).astype(np.float64)
    b = numbers.integers(0, 1 << 22, (*right, depth, columns)).astype(np.float64)
    a, b = (np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) if draw.random() < 0.5 else x for x in (a, b))
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    assert np.array_equal(multiply_exactly(a, b), wanted)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_nothing(shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    product = multiply_exactly(np.ones((rows, depth)), np.ones((depth, columns)))
    assert product.shape == (rows, columns) and not product.any()
