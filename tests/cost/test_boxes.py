"""The sectors of boxes are those of every byte that the boxes take, found one by one."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from tilegen.access import SECTOR_BYTES
from tilegen.cost.asynchronous import sectors_of_boxes


@pytest.mark.parametrize("seed", range(40))
def test_sectors_of_boxes(seed: int) -> None:
    draw = Random(seed)
    row_bytes = draw.choice([16, 32, 48, 64, 128, 256])
    strides = [row_bytes, 2 * row_bytes, 4096, 4096 + 16]
    rows = [(draw.randint(1, 5), draw.choice(strides)) for _ in range(draw.randint(0, 2))]
    first = [draw.randint(0, 60) * draw.choice([16, row_bytes]) for _ in range(draw.randint(1, 30))]
    if seed % 2:
        first = [x // row_bytes * row_bytes for x in first]
    every = {
        (x + sum(k * stride for k, (_, stride) in zip(at, rows, strict=True)) + byte) // SECTOR_BYTES
        for x in first for at in product(*(range(n) for n, _ in rows)) for byte in range(0, row_bytes, 16)
    }  # fmt: skip
    assert sectors_of_boxes(row_bytes, rows, np.array(first)).tolist() == sorted(every)
