"""Distinct blocks, and distinct words in a bank: counted for many accesses at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilegen.access.offsets import BANK_BYTES, LINE_BYTES, WARP_LANES, Accesses

Active = NDArray[np.bool_] | None  # which lanes take part, (accesses, lanes), or None if all do


def active_lanes(offsets: Accesses) -> Active:
    """Which lanes take part, or None if all do."""
    return None if offsets.min() >= 0 else offsets >= 0


def phase_lanes(width_bytes: int) -> int:
    """Lanes of a phase before merging: as many as can move 128 bytes together."""
    return min(WARP_LANES, LINE_BYTES // width_bytes)


def count_distinct(keys: Accesses, active: Active) -> Accesses:
    """Distinct keys among the active lanes of each access."""
    ordered = _sort_lanes(keys, active)
    found = np.asarray((ordered[1:] != ordered[:-1]).sum(axis=0, dtype=np.int64)) + 1
    return found if active is None else found * active.any(axis=1)


def to_blocks(offsets: Accesses, block_bytes: int) -> Accesses:
    """Offsets in blocks (a power of two of bytes), in the narrowest type that NumPy sorts fast."""
    blocks = offsets >> (block_bytes.bit_length() - 1)
    return blocks.astype(np.uint32 if blocks.max() < 2**32 else np.uint64)


def fill_banks(width_bytes: int, offsets: Accesses, active: Active, lanes: int) -> Accesses:
    """The most distinct words in one bank, (accesses, phases) for phases of so many lanes; 0 where no lane is active.

    A lane's words lie side by side: units of the width are counted, over so many fewer banks.
    """
    unit_bytes = max(width_bytes, BANK_BYTES)
    units = to_blocks(offsets, unit_bytes).reshape(-1, lanes)
    worst = _fill_banks(units, None if active is None else active.reshape(-1, lanes), LINE_BYTES // unit_bytes)
    return worst.reshape(len(offsets), offsets.shape[1] // lanes)


def _fill_banks(units: Accesses, active: Active, banks: int) -> Accesses:
    """Sort by (bank, row), then count along each bank's run."""
    if not len(units):
        return np.zeros(0, np.uint8)
    rows = units >> (banks.bit_length() - 1)
    row_bits = int(rows.max()).bit_length()
    keys = _sort_lanes(((units & (banks - 1)) << row_bits) | rows, active)
    step = keys[1:] ^ keys[:-1]
    fresh = (step != 0).view(np.uint8)
    stays = (step < (1 << row_bits)).view(np.uint8)
    count = np.ones(len(units), np.uint8)
    most = count.copy()
    for lane in range(len(step)):
        count = count * stays[lane] + fresh[lane]
        np.maximum(most, count, out=most)
    return most if active is None else most * active.any(axis=1)


def _sort_lanes(keys: Accesses, active: Active) -> Accesses:
    """The keys of each access in order, as (lanes, accesses), so that a walk along the lanes is one along rows.

    An inactive lane takes the largest key of its access: it joins another lane, which changes no count.
    """
    if active is not None:
        keys = np.where(active, keys, 0)
        keys = np.where(active, keys, keys.max(axis=1, keepdims=True))
    keys.sort(axis=1)
    return np.ascontiguousarray(keys.T)
