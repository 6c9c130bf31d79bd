"""What the boxes that TMA moves cost, by the rules of ``access.tma``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilegen import access
from tilegen.spaces import Space

Ints = NDArray[np.int64]

TMA = "tma"  # the kind of such an access
WGMMA = "wgmma"  # the kind of a matrix in shared memory that a warpgroup multiplies
WHOLE = (TMA, WGMMA)  # which no lane of a warp has a part of
_CHUNK_BYTES = 16  # TMA moves whole chunks of shared memory


def count_boxes(space: Space, row_bytes: int, rows: Sequence[tuple[int, int]], first: Ints, weights: Ints) -> Ints:
    """(instructions, wavefronts, floor, bytes_floor, sectors) of boxes that begin at bytes ``first``, one side of them.

    ``rows`` are (extent, byte stride) around rows of ``row_bytes``. In shared memory TMA has no conflicts, whatever the
    swizzle: 32 words a wavefront. Sectors are counted as if the whole box lay inside of the array.
    """
    starts = _starts_of_rows(rows)
    if space.has_banks:
        lines = -(-len(starts) * row_bytes // access.LINE_BYTES)
        return np.array([weights.sum(), *[weights.sum() * lines] * 3, 0])
    chunks = _chunks_of(starts, row_bytes)
    sectors = [_count_sectors(chunks + begin) for begin in first]
    return np.array([weights.sum(), 0, 0, 0, weights @ np.array(sectors, np.int64)])


def sectors_of_boxes(row_bytes: int, rows: Sequence[tuple[int, int]], first: Ints) -> Ints:
    """Numbers of the sectors that boxes touch which begin at bytes ``first`` of the array, as ``count_boxes`` has them.

    >>> sectors_of_boxes(32, [(2, 128)], np.array([0, 32]))
    array([0, 1, 4, 5])
    """
    starts = (first[:, None] + _starts_of_rows(rows)).ravel()
    if row_bytes % access.SECTOR_BYTES == 0 and not (starts % row_bytes).any():  # rows of sectors, no two of which meet
        each = row_bytes // access.SECTOR_BYTES
        sectors: Ints = (access.distinct(starts // row_bytes)[:, None] * each + np.arange(each)).ravel()
        return sectors
    chunks = _chunks_of(starts, row_bytes)
    begin, end = _ends_of(chunks)
    sides = [begin] if np.array_equal(begin, end) else [begin, end]
    return access.distinct(np.concatenate(sides) // access.SECTOR_BYTES)


def _starts_of_rows(rows: Sequence[tuple[int, int]]) -> Ints:
    starts = np.zeros(1, np.int64)
    for extent, stride in rows:
        starts = (starts[:, None] + np.arange(extent) * stride).ravel()
    return starts


def _chunks_of(starts: Ints, row_bytes: int) -> Ints:
    return (starts[:, None] + np.arange(0, row_bytes, _CHUNK_BYTES)).ravel()


def _ends_of(chunks: Ints) -> tuple[Ints, Ints]:
    """Where the chunks of shared memory begin and end that hold them, in 16 bytes of the array."""
    return chunks // _CHUNK_BYTES * _CHUNK_BYTES, (chunks + _CHUNK_BYTES - 1) // _CHUNK_BYTES * _CHUNK_BYTES


def _count_sectors(chunks: Ints) -> int:
    """Sectors that the chunks of one box, in its order, move; one that begins anywhere may have a part of two."""
    shared = np.arange(len(chunks)) * _CHUNK_BYTES  # swizzles stay inside of 128 bytes, which is what counts
    chunks = chunks - int(chunks.min()) // access.SECTOR_BYTES * access.SECTOR_BYTES  # a box may begin before its array
    begin, end = _ends_of(chunks)
    return access.tma_sectors(np.concatenate([shared, shared]), np.concatenate([begin, end]))
