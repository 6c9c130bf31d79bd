"""Loads, stores and matrix accesses: wavefronts, sectors, and the floors below them.

Shared memory has 32 banks of 4 bytes. An access is split into phases; a phase takes as many wavefronts as its busiest
bank holds distinct words, so lanes that share a word never conflict:

* up to 4 bytes a lane: one phase of 32 lanes; 8 bytes: two of 16; 16 bytes: four of 8;
* loads merge their half-warps (8 bytes), or quarters (0, 1) and (2, 3) (16 bytes), if for all active lanes
  ``address(l) == address(l ^ 1)`` or for all of them ``address(l) == address(l ^ 2)``; an inactive partner agrees with
  anything. Stores never merge;
* ldmatrix and stmatrix .xN: N phases of 8 rows of 16 bytes;
* phases with no active lane cost nothing.

A global access touches as many sectors as it has distinct 32-byte blocks.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilegen.access.counting import active_lanes, count_distinct, fill_banks, phase_lanes, to_blocks
from tilegen.access.offsets import (
    KINDS,
    LINE_BYTES,
    MATRIX_ROWS,
    SECTOR_BYTES,
    WARP_LANES,
    WIDTHS,
    Accesses,
    Count,
    count_in_chunks,
    read_offsets,
    shape_like,
)

_WIDTHS = {"global": (*WIDTHS, 32)} | dict.fromkeys(("ld", "st"), WIDTHS) | dict.fromkeys(MATRIX_ROWS, (16,))


def wavefronts(kind: str, width_bytes: int, offsets: ArrayLike) -> Count:
    """Wavefronts that a shared-memory access takes: per phase, the most distinct words in one bank.

    ``width_bytes`` is per lane (for ldmatrix and stmatrix, 16: the row). Raises ValueError for an unknown kind, a width
    that the kind does not have, a misaligned offset, or offsets that are not (32,) or (n, 32) integers.

    >>> wavefronts("ld", 4, [4 * lane for lane in range(32)])
    1
    >>> wavefronts("ld", 4, [128 * lane for lane in range(32)])  # a column of a 32 x 32 float32 tile
    32
    >>> wavefronts("st", 16, [16 * lane for lane in range(32)])
    4

    Source: counted on an H200, see ``docs/access-model.md``.
    """
    accesses = read_access(kind, width_bytes, offsets)
    return shape_like(offsets, count_in_chunks(partial(_count_wavefronts, kind, width_bytes), accesses))


def phases(kind: str, width_bytes: int, offsets: ArrayLike) -> Count:
    """The floor of ``wavefronts``: phases with an active lane, after merging.

    It depends on which lanes touch the same element, not on where the layout puts the elements.

    >>> phases("ld", 16, [16 * lane for lane in range(32)])
    4
    >>> phases("ld", 16, [16 * (lane // 2) for lane in range(32)])  # lanes in pairs: the load merges
    2
    >>> phases("st", 16, [16 * (lane // 2) for lane in range(32)])
    4
    """
    accesses = read_access(kind, width_bytes, offsets)
    return shape_like(offsets, count_in_chunks(partial(_count_phases, kind, width_bytes), accesses))


def sectors(width_bytes: int, offsets: ArrayLike) -> Count:
    """Distinct 32-byte sectors that a global access of 1 to 32 bytes per lane touches.

    >>> sectors(4, [4 * lane for lane in range(32)])
    4
    >>> sectors(4, [400 * lane for lane in range(32)])
    32

    Source: counted on an H200, see ``docs/access-model.md``.
    """
    accesses = read_access("global", width_bytes, offsets)
    return shape_like(offsets, count_in_chunks(count_sectors, accesses))


def bytes_floor(width_bytes: int, offsets: ArrayLike) -> Count:
    """ceil(distinct bytes / 128): what the same bytes could cost under another lane map.

    >>> bytes_floor(4, [128 * lane for lane in range(32)])
    1
    >>> bytes_floor(16, [16 * lane for lane in range(32)])
    4
    """
    accesses = read_access("global", width_bytes, offsets)
    return shape_like(offsets, count_in_chunks(partial(_count_bytes_floor, width_bytes), accesses))


def read_access(kind: str, width_bytes: int, offsets: ArrayLike) -> Accesses:
    """The offsets as (accesses, lanes), checked; of a matrix kind only the lanes that give row addresses."""
    if kind not in _WIDTHS:
        raise ValueError(f"unknown kind of access {kind!r}: one of {', '.join(KINDS)}")
    if width_bytes not in _WIDTHS[kind]:
        raise ValueError(f"{kind} moves {' or '.join(map(str, _WIDTHS[kind]))} bytes per lane, not {width_bytes}")
    accesses = read_offsets(width_bytes, offsets, MATRIX_ROWS.get(kind, WARP_LANES))
    if kind in MATRIX_ROWS and ((accesses < 0).any(axis=1) != (accesses < 0).all(axis=1)).any():
        raise ValueError(f"{kind} needs the row addresses of lanes 0 to {accesses.shape[1] - 1}: all active, or none")
    return accesses


def merges(kind: str, width_bytes: int, offsets: Accesses) -> NDArray[np.bool_]:
    """Which accesses are loads whose lanes all agree with lane ^ 1, or all with lane ^ 2."""
    result = np.zeros(len(offsets), bool)
    if kind != "ld" or width_bytes < 8:
        return result
    lanes = offsets.T
    for distance in (1, 2):
        pairs = lanes.reshape(-1, 2, distance, len(offsets))
        agree = (pairs[:, 0] == pairs[:, 1]) | (pairs[:, 0] < 0) | (pairs[:, 1] < 0)
        result |= agree.all(axis=(0, 1))
    return result


# ---- counting, for one chunk
def _count_wavefronts(kind: str, width_bytes: int, offsets: Accesses) -> Accesses:
    size, active = phase_lanes(width_bytes), active_lanes(offsets)
    merged = merges(kind, width_bytes, offsets)
    if not merged.any():
        return np.asarray(fill_banks(width_bytes, offsets, active, size).sum(axis=1))
    result = np.empty(len(offsets), np.int64)
    for which, lanes in ((merged, 2 * size), (~merged, size)):
        if not which.any():
            continue
        some = None if active is None else active[which]
        result[which] = fill_banks(width_bytes, offsets[which], some, lanes).sum(axis=1)
    return result


def _count_phases(kind: str, width_bytes: int, offsets: Accesses) -> Accesses:
    served = np.asarray((offsets >= 0).reshape(len(offsets), -1, phase_lanes(width_bytes)).any(axis=2))
    merged = merges(kind, width_bytes, offsets)
    if not merged.any():
        return np.asarray(served.sum(axis=1))
    together = served[:, 0::2] | served[:, 1::2]
    return np.asarray(np.where(merged, together.sum(axis=1), served.sum(axis=1)))


def count_sectors(offsets: Accesses) -> Accesses:
    """Distinct sectors of one chunk; an aligned access of up to 32 bytes lies in one sector."""
    return _count_blocks(SECTOR_BYTES, offsets)


def _count_bytes_floor(width_bytes: int, offsets: Accesses) -> Accesses:
    distinct_bytes = _count_blocks(width_bytes, offsets) * width_bytes
    return np.asarray(-(-distinct_bytes // LINE_BYTES))


def _count_blocks(block_bytes: int, offsets: Accesses) -> Accesses:
    return count_distinct(to_blocks(offsets, block_bytes), active_lanes(offsets))
