"""What the boxes that TMA moves cost, by the rules of ``access.tma``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilegen import access

Ints = NDArray[np.int64]

TMA = "tma"  # the kind of such an access
_CHUNK_BYTES = 16  # TMA moves whole chunks of shared memory


def count_boxes(space: str, row_bytes: int, rows: Sequence[tuple[int, int]], first: Ints, weights: Ints) -> Ints:
    """(instructions, wavefronts, floor, bytes_floor, sectors) of boxes that begin at bytes ``first``, one side of them.

    ``rows`` are (extent, byte stride) around rows of ``row_bytes``. In shared memory TMA has no conflicts, whatever the
    swizzle: 32 words a wavefront. Sectors are counted as if the whole box lay inside of the array.
    """
    starts = np.zeros(1, np.int64)
    for extent, stride in rows:
        starts = (starts[:, None] + np.arange(extent) * stride).ravel()
    if space == "shared":
        lines = -(-len(starts) * row_bytes // access.LINE_BYTES)
        return np.array([weights.sum(), *[weights.sum() * lines] * 3, 0])
    chunks = (starts[:, None] + np.arange(0, row_bytes, _CHUNK_BYTES)).ravel()
    sectors = [_count_sectors(chunks + begin) for begin in first]
    return np.array([weights.sum(), 0, 0, 0, weights @ np.array(sectors, np.int64)])


def _count_sectors(chunks: Ints) -> int:
    """Sectors that the chunks of one box, in its order, move; one that begins anywhere may have a part of two."""
    shared = np.arange(len(chunks)) * _CHUNK_BYTES  # swizzles stay inside of 128 bytes, which is what counts
    begin = chunks // _CHUNK_BYTES * _CHUNK_BYTES
    end = (chunks + _CHUNK_BYTES - 1) // _CHUNK_BYTES * _CHUNK_BYTES
    return access.tma_sectors(np.concatenate([shared, shared]), np.concatenate([begin, end]))
