"""What asynchronous copies cost: cp.async, and the boxes that TMA moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilegen import access

Numbers = NDArray[np.int64]


def cp_async_cost(width_bytes: int, shared_offsets: Numbers, global_offsets: Numbers) -> tuple[Numbers, Numbers]:
    """(wavefronts, sectors) of each cp.async of a warp, from its byte offsets on both sides: (n, 32), -1 if inactive.

    Taken for a load and a store of that width, until the rules of the instruction itself are known.
    """
    some = global_offsets.max(1) >= 0  # a copy may lie past the edge as a whole
    sectors = np.zeros(len(global_offsets), np.int64)
    if some.any():
        sectors[some] = access.sectors(width_bytes, global_offsets[some])
    return access.wavefronts("st", width_bytes, shared_offsets), sectors


def count_ldgsts(space: str, width_bytes: int, lanes: Numbers, other: Numbers, weights: Numbers) -> Numbers:
    """What one side of cp.async counts: instructions, wavefronts, floor, floor by bytes, sectors.

    ``lanes`` are the byte offsets on the side of ``space``, ``other`` those on the other side.
    """
    if space == "global":
        return np.array([weights.sum(), 0, 0, 0, (weights * cp_async_cost(width_bytes, other, lanes)[1]).sum()])
    wavefronts = cp_async_cost(width_bytes, lanes, other)[0]
    parts = wavefronts, access.phases("st", width_bytes, lanes), access.bytes_floor(width_bytes, lanes)
    return np.array([weights.sum(), *((weights * p).sum() for p in parts), 0])


def count_boxes(
    space: str, width_bytes: int, rows: Sequence[tuple[int, int]], first: Numbers, weights: Numbers
) -> Numbers:
    """What boxes count that begin at bytes ``first``: rows of ``width_bytes``, (extent, byte stride) around them.

    Every sector of the rows counts, also of those that lie past an edge. In shared memory 128 bytes are taken for a
    wavefront, until it is known what TMA's own accesses cost.
    """
    starts = np.zeros(1, np.int64)
    for extent, stride in rows:
        starts = (starts[:, None] + np.arange(extent) * stride).ravel()
    if space == "shared":
        lines = -(-len(starts) * width_bytes // access.LINE_BYTES)
        return np.array([weights.sum(), *[weights.sum() * lines] * 3, 0])
    begin = first[:, None] + starts
    sectors = ((begin % access.SECTOR_BYTES + width_bytes - 1) // access.SECTOR_BYTES + 1).sum(1)
    return np.array([weights.sum(), 0, 0, 0, (weights * sectors).sum()])
