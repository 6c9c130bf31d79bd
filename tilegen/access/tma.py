"""TMA tile copies: the sectors that move between L2 and shared memory, as an H200 counted them.

No counter gives TMA wavefronts. The data banks count one write (for a store, one read) per word of the box, whatever
the swizzle, and never a conflict; so what a layout can cost is sectors, by one rule for both directions: a global
sector moves once for each 128-byte line of shared memory that has a part of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilegen.access.warp import LINE_BYTES, SECTOR_BYTES, distinct

TMA_CHUNK_BYTES = 16  # swizzles move chunks of 16 bytes; a box's inner extent is a multiple of them


def tma_sectors(shared_offsets: ArrayLike, global_offsets: ArrayLike) -> int:
    """Sectors that one TMA copy of a box moves: distinct pairs (global sector, 128-byte line of shared memory).

    Both are (n,): the byte offsets of the box's 16-byte chunks on either side, from bases aligned to 128 bytes; shared
    ones as the swizzle places them. Raises ValueError for other shapes, or offsets that are not multiples of 16.

    >>> row = [16 * k for k in range(3)]  # boxes of 48 bytes a row: packed rows cross lines, rows 64 bytes apart do not
    >>> box = [4096 * r + x for r in range(8) for x in row]
    >>> tma_sectors([48 * r + x for r in range(8) for x in row], box)
    17
    >>> tma_sectors([64 * r + x for r in range(8) for x in row], box)
    16

    Source: counted on an H200, see ``docs/access-model.md``.
    """
    shared, source = _read_chunks("shared", shared_offsets), _read_chunks("global", global_offsets)
    if shared.shape != source.shape:
        raise ValueError(f"shared and global offsets are of one box: {len(shared)} and {len(source)} chunks are not")
    if not len(shared):
        return 0
    sectors, lines = source // SECTOR_BYTES, shared // LINE_BYTES
    return len(distinct((sectors - sectors.min()) * (int(lines.max()) + 1) + lines))


def _read_chunks(side: str, offsets: ArrayLike) -> NDArray[np.int64]:
    given = np.asarray(offsets)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ValueError(f"{side} offsets are integers of shape (n,), one per chunk, not {given.dtype} {given.shape}")
    wrong = given[(given < 0) | (given % TMA_CHUNK_BYTES != 0)]
    if len(wrong):
        raise ValueError(f"{side} byte offset {wrong[0]} is negative or not a multiple of {TMA_CHUNK_BYTES}")
    return given.astype(np.int64)
