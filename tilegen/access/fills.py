"""Fills of cp.async.cg: the wavefronts in which what L2 sends is written to shared memory.

A fill takes sectors of one global line to one 128-byte line of shared memory, any number of them at once, if

* all take the same way in the low 64 bytes: ``(source ^ target) / 16 mod 4`` is one number;
* all have the same halves to write: the lower one, the upper one, or both;
* none goes to two places: a sector that goes to several shared sectors of the line takes as many fills.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilegen.access.offsets import LINE_BYTES, SECTOR_BYTES, WARP_LANES, Accesses

Pairs = NDArray[np.bool_]  # (accesses, lanes, lanes)

_HALF_BYTES = 16
_EARLIER = np.tri(WARP_LANES, k=-1, dtype=bool)  # [lane, other]: other < lane


def count_fills(to: Accesses, source: Accesses) -> Accesses:
    """Fills of each access, 16 bytes per lane: (accesses,) from (accesses, lanes); -1 in ``source`` reads nothing."""
    reads = _pairs(source >= 0)
    way = ((source ^ to) // _HALF_BYTES % 4).astype(np.int32)
    same_sector = _alike(source // SECTOR_BYTES)
    request = reads & same_sector & _alike((to // SECTOR_BYTES).astype(np.int32) << 2 | way)
    asks = _first(request)  # the first lane speaks for the others of its request
    halves = _halves_of(request, source // _HALF_BYTES % 2)
    group = _pairs(asks) & _alike(source // LINE_BYTES)
    group &= _alike((to // LINE_BYTES).astype(np.int32) << 4 | way << 2 | halves)
    places = (group & same_sector).sum(axis=2, dtype=np.uint8)
    most = np.where(group, places[:, None, :], np.uint8(0)).max(axis=2)
    return np.asarray((most * _first(group)).sum(axis=1))


def _alike(keys: Accesses) -> Pairs:
    """Which lanes have the key in common."""
    return np.asarray(keys[:, :, None] == keys[:, None, :])


def _pairs(lanes: NDArray[np.bool_]) -> Pairs:
    """Pairs of which both lanes are meant."""
    return lanes[:, :, None] & lanes[:, None, :]


def _first(alike: Pairs) -> NDArray[np.bool_]:
    """Lanes that are alike (themselves at least), but to no earlier one: one for each set of lanes."""
    return np.asarray(alike.any(axis=2) & ~(alike & _EARLIER).any(axis=2))


def _halves_of(request: Pairs, half: Accesses) -> NDArray[np.int32]:
    """Per lane, the halves that its request has: 1 for the lower, 2 for the upper, 3 for both."""
    lower, upper = ((request & (half == which)[:, None, :]).any(axis=2) for which in (0, 1))
    return np.asarray(lower.astype(np.int32) | upper.astype(np.int32) << 1)
