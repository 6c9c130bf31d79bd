"""Every warp permutation of 32 to 1024 elements at 1, 2, 4, 8 and 16 bytes builds and has no conflict in either phase.

A seeded sample of them by default; all of them with TILEGEN_EVERY_PERMUTATION=1.
"""

from __future__ import annotations

import os
import random
from itertools import permutations

import pytest

from tests.oracles.kernels import DTYPE_OF_BYTES, build, permutation, strided

SAMPLE = 60


def every_permutation() -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """(box, order of its axes in the destination, element bytes): transposes and axis permutations of 3-D boxes."""
    found = []
    for total in range(5, 11):
        boxes = [(1 << a, 1 << (total - a)) for a in range(total + 1)]
        boxes += [(1 << a, 1 << b, 1 << (total - a - b)) for a in range(1, total - 1) for b in range(1, total - a)]
        for box in boxes:
            orders = [(1, 0)] if len(box) == 2 else list(permutations(range(3)))
            found += [(box, order, size) for order in orders for size in DTYPE_OF_BYTES]
    return found


def chosen() -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
    every = every_permutation()
    return every if os.environ.get("TILEGEN_EVERY_PERMUTATION") else random.Random(7).sample(every, SAMPLE)


def name(case: tuple[tuple[int, ...], tuple[int, ...], int]) -> str:
    box, order, size = case
    return f"{'x'.join(map(str, box))}-{''.join(map(str, order))}-{size}B"


@pytest.mark.sweep(6)
@pytest.mark.parametrize("case", chosen(), ids=name)
def test_no_conflicts(case):
    box, order, size = case
    strides, reach = [0] * len(box), 1
    for d in reversed(order):
        strides[d], reach = reach, reach * box[d]
    rows = [1] * len(box)
    for d in range(len(box) - 2, -1, -1):
        rows[d] = rows[d + 1] * box[d + 1]
    _, ops = build(permutation(box, DTYPE_OF_BYTES[size], strided(box, rows), strided(box, strides)))
    for kind in ("ld", "st"):
        phase = [a for a in ops[1]["accesses"] if a["kind"] == kind]
        assert phase and sum(a["wavefronts"] for a in phase) == sum(a["floor"] for a in phase), kind
