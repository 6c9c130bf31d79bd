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

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Accesses = NDArray[Any]  # (accesses, lanes)
Count = Any  # an int for one access, an int64 array for a batch

WARP_LANES = 32
BANKS = 32
BANK_BYTES = 4
LINE_BYTES = BANKS * BANK_BYTES
SECTOR_BYTES = 32
WIDTHS = (1, 2, 4, 8, 16)
MATRIX_ROWS = {f"{direction}matrix{n}": 8 * n for direction in ("ld", "st") for n in (1, 2, 4)}
KINDS = ("ld", "st", *MATRIX_ROWS)
RED = "red"  # an atomic update: by a rule that nobody has counted on a GPU

CHUNK = 2048  # accesses worked on at a time
_MANY, _SPARSE = 2048, 4  # of so many numbers, on average this far apart, it takes less to mark each than to sort them
_WIDTHS = (
    {"global": (*WIDTHS, 32), RED: WIDTHS[1:]} | dict.fromkeys(("ld", "st"), WIDTHS) | dict.fromkeys(MATRIX_ROWS, (16,))
)


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

    Of atomic updates (RED) each lane takes a turn of its own in its banks, also those that update one word. That was
    not counted: what the hardware joins makes it fewer, and floats, which it updates in a loop, take more.

    >>> wavefronts(RED, 4, [4 * lane for lane in range(32)]), wavefronts(RED, 4, [0] * 32)
    (1, 32)

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
        raise ValueError(f"unknown kind of access {kind!r}: one of {', '.join((*KINDS, RED))}")
    if width_bytes not in _WIDTHS[kind]:
        raise ValueError(f"{kind} moves {' or '.join(map(str, _WIDTHS[kind]))} bytes per lane, not {width_bytes}")
    accesses = read_offsets(width_bytes, offsets, MATRIX_ROWS.get(kind, WARP_LANES))
    if kind in MATRIX_ROWS and ((accesses < 0).any(axis=1) != (accesses < 0).all(axis=1)).any():
        raise ValueError(f"{kind} needs the row addresses of lanes 0 to {accesses.shape[1] - 1}: all active, or none")
    return accesses


def _count_turns(width_bytes: int, accesses: Accesses) -> NDArray[np.int64]:
    """Per phase of lanes, the most that touch one bank, each of the words that its access has."""
    lanes, words = phase_lanes(width_bytes), max(1, width_bytes // BANK_BYTES)
    groups = accesses.reshape(len(accesses), -1, lanes)
    bank = (groups[..., None] // BANK_BYTES + np.arange(words)) % BANKS
    served = (bank[..., None] == np.arange(BANKS)) & (groups >= 0)[..., None, None]
    total: NDArray[np.int64] = served.sum(axis=(2, 3)).max(axis=-1).sum(axis=-1)
    return total


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
    if kind == RED:
        return _count_turns(width_bytes, offsets)
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


# ---------------------------------------------------------------- offsets, read and checked
def read_offsets(width_bytes: int, offsets: ArrayLike, lanes: int = WARP_LANES, what: str = "offset") -> Accesses:
    """The offsets as (accesses, lanes): the first ``lanes`` of each access, multiples of the width or -1.

    Raises ValueError for offsets that are not (32,) or (n, 32) integers, for a misaligned one or one below -1.
    """
    given = np.asarray(offsets)
    if given.dtype.kind not in "iu":
        raise ValueError(f"{what}s are integers (bytes, -1 for an inactive lane), not {given.dtype}")
    if given.ndim not in (1, 2) or given.shape[-1] != WARP_LANES:
        raise ValueError(f"{what}s have shape (32,) or (n, 32), one per lane, not {given.shape}")
    if given.dtype not in (np.int32, np.int64):
        given = given.astype(np.int64)
    accesses = given.reshape(-1, WARP_LANES)[:, :lanes]
    for first in range(0, len(accesses), CHUNK):
        _check_offsets(width_bytes, accesses[first : first + CHUNK], first, what)
    return accesses


def _check_offsets(width_bytes: int, offsets: Accesses, first: int, what: str) -> None:
    least = offsets.min()
    if least >= 0 and not np.bitwise_or.reduce(offsets, axis=None) & (width_bytes - 1):
        return
    for wrong, why in (
        (offsets < -1, "is negative (-1 means an inactive lane)"),
        ((offsets >= 0) & (offsets % width_bytes != 0), f"is not a multiple of {width_bytes}"),
    ):
        if wrong.any():
            access, lane = np.argwhere(wrong)[0]
            raise ValueError(f"byte {what} {offsets[access, lane]} of lane {lane} in access {first + access} {why}")


def count_in_chunks(count: Callable[..., Accesses], *batches: Accesses) -> NDArray[np.int64]:
    """What ``count`` says of each access, asked for some accesses at a time; the batches are as long as each other."""
    starts = range(0, len(batches[0]), CHUNK)
    counted = [count(*(batch[first : first + CHUNK] for batch in batches)).astype(np.int64) for first in starts]
    return np.concatenate(counted) if counted else np.zeros(0, np.int64)


def shape_like(offsets: ArrayLike, counts: NDArray[np.int64]) -> Count:
    """An int if one access was given, the array if a batch was."""
    return int(counts[0]) if np.ndim(offsets) == 1 else counts


# ---------------------------------------------------------------- distinct blocks and words
Active = NDArray[np.bool_] | None  # which lanes take part, (accesses, lanes), or None if all do


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Each number once, sorted. (``np.unique`` imports numpy.ma at its first call: as long as a whole small proof; and
    for millions of numbers it takes ten times as long.)

    >>> distinct(np.array([3, 1, 1, 3]))
    array([1, 3])
    """
    if len(numbers) >= _MANY and numbers.dtype.kind == "i":
        least, most = int(numbers.min()), int(numbers.max())
        if most - least < len(numbers) * _SPARSE:
            is_there = np.zeros(most - least + 1, bool)
            is_there[numbers - least] = True
            found: NDArray[Any] = (np.flatnonzero(is_there) + least).astype(numbers.dtype, copy=False)
            return found
    ordered = np.sort(numbers)
    is_new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    result: NDArray[Any] = ordered[is_new]
    return result


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
