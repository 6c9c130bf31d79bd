"""What one warp-wide access costs: shared-memory wavefronts, global sectors, and the floors below them. Exact.

Shared memory has 32 banks of 4 bytes. An access is split into phases; a phase takes as many wavefronts as its busiest
bank holds distinct words, so lanes that share a word never conflict:

* up to 4 bytes a lane: one phase of 32 lanes; 8 bytes: two of 16; 16 bytes: four of 8;
* loads merge their half-warps (8 bytes), or quarters (0, 1) and (2, 3) (16 bytes), if for all active lanes
  ``address(l) == address(l ^ 1)`` or for all of them ``address(l) == address(l ^ 2)``; an inactive partner agrees with
  anything. Stores never merge;
* ldmatrix and stmatrix .xN: N phases of 8 rows of 16 bytes;
* phases with no active lane cost nothing.

A global access touches as many sectors as it has distinct 32-byte blocks. Both rules reproduce every count that an
H200 (sm_90) gave for 1,045 patterns, 600 of which the tests hold (``docs/access-model.md``); other archs use the rules
unproven (``Arch.access_model_measured``).

``offsets`` are byte offsets from a base aligned to 128 bytes, one per lane, -1 where the lane is inactive: shape (32,)
for one access, (n, 32) for a batch. One access gives an int, a batch an int64 array of n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Lanes = NDArray[Any]  # (lanes, accesses): one row per lane, so that every step below is a long contiguous operation
Count = Any  # an int for one access, an int64 array for a batch

WARP_LANES = 32
BANKS = 32
BANK_BYTES = 4
LINE_BYTES = BANKS * BANK_BYTES
SECTOR_BYTES = 32
WIDTHS = (1, 2, 4, 8, 16)
MATRIX_ROWS = {f"{direction}matrix{n}": 8 * n for direction in ("ld", "st") for n in (1, 2, 4)}
KINDS = ("ld", "st", *MATRIX_ROWS)
_WIDTHS = {"global": (*WIDTHS, 32)} | dict.fromkeys(("ld", "st"), WIDTHS) | dict.fromkeys(MATRIX_ROWS, (16,))

_CHUNK = 2048  # accesses worked on at a time: 32 lanes of 2 bytes each then stay within a 256 KB cache


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
    return _per_access(kind, width_bytes, offsets, _count_wavefronts)


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
    return _per_access(kind, width_bytes, offsets, _count_phases)


def sectors(width_bytes: int, offsets: ArrayLike) -> Count:
    """Distinct 32-byte sectors that a global access of 1 to 32 bytes per lane touches.

    >>> sectors(4, [4 * lane for lane in range(32)])
    4
    >>> sectors(4, [400 * lane for lane in range(32)])
    32

    Source: counted on an H200, see ``docs/access-model.md``.
    """
    return _per_access("global", width_bytes, offsets, _count_sectors)


def bytes_floor(width_bytes: int, offsets: ArrayLike) -> Count:
    """ceil(distinct bytes / 128): what the same bytes could cost under another lane map.

    >>> bytes_floor(4, [128 * lane for lane in range(32)])
    1
    >>> bytes_floor(16, [16 * lane for lane in range(32)])
    4
    """
    return _per_access("global", width_bytes, offsets, _count_bytes_floor)


# ---- one access in full, for a table that a person reads
@dataclass(frozen=True)
class Word:
    """A word of shared memory (bytes ``4 * index`` to ``4 * index + 3``) and the lanes that touch it."""

    index: int
    lanes: tuple[int, ...]

    @property
    def row(self) -> int:
        """Which 128-byte row of the banks it lies in."""
        return self.index // BANKS


@dataclass(frozen=True)
class Phase:
    """Lanes that are served together; ``banks[b]`` holds the distinct words that they touch in bank b."""

    lanes: tuple[int, ...]
    banks: tuple[tuple[Word, ...], ...]

    @property
    def wavefronts(self) -> int:
        return max(len(words) for words in self.banks)


@dataclass(frozen=True)
class BankTable:
    """One shared-memory access, phase by phase; only phases with an active lane are listed."""

    kind: str
    width_bytes: int
    phases: tuple[Phase, ...]
    merged: bool  # two phases of the width were served as one

    @property
    def wavefronts(self) -> int:
        return sum(phase.wavefronts for phase in self.phases)

    @property
    def conflicts(self) -> int:
        """Wavefronts above the floor of one per phase."""
        return self.wavefronts - len(self.phases)


def bank_table(kind: str, width_bytes: int, offsets: ArrayLike) -> BankTable:
    """The words and lanes in every bank, for each phase of one access.

    >>> table = bank_table("ld", 4, [128 * (lane % 2) for lane in range(32)])
    >>> table.wavefronts, table.conflicts
    (2, 1)
    >>> [(word.index, len(word.lanes)) for word in table.phases[0].banks[0]]
    [(0, 16), (32, 16)]
    """
    lanes, single = _read_offsets(kind, width_bytes, offsets)
    if not single:
        raise ValueError(f"a bank table is of one access: offsets of shape (32,), not {np.shape(offsets)}")
    active = _active(lanes)
    merged = bool(_merges(kind, width_bytes, lanes, active)[0])
    size = _phase_lanes(kind, width_bytes) * (2 if merged else 1)
    at = [int(x) for x in lanes[:, 0]]
    groups = [[lane for lane in range(first, first + size) if at[lane] >= 0] for first in range(0, len(at), size)]
    found = tuple(_phase(group, at, width_bytes) for group in groups if group)
    return BankTable(kind, width_bytes, found, merged)


def _phase(lanes: list[int], offsets: list[int], width_bytes: int) -> Phase:
    touched: dict[int, list[int]] = {}
    for lane in lanes:
        for word in range(offsets[lane] // BANK_BYTES, (offsets[lane] + width_bytes - 1) // BANK_BYTES + 1):
            touched.setdefault(word, []).append(lane)
    words = [Word(index, tuple(by)) for index, by in sorted(touched.items())]
    return Phase(tuple(lanes), tuple(tuple(w for w in words if w.index % BANKS == bank) for bank in range(BANKS)))


# ---- batches: check, cut into chunks, one row per lane
def _per_access(kind: str, width_bytes: int, offsets: ArrayLike, count: Callable[[str, int, Lanes], Lanes]) -> Count:
    lanes, single = _read_offsets(kind, width_bytes, offsets)
    result = np.empty(lanes.shape[1], np.int64)
    for first in range(0, lanes.shape[1], _CHUNK):
        chunk = slice(first, first + _CHUNK)
        result[chunk] = count(kind, width_bytes, lanes[:, chunk])
    return int(result[0]) if single else result


def _read_offsets(kind: str, width_bytes: int, offsets: ArrayLike) -> tuple[Lanes, bool]:
    """The offsets as (lanes, accesses), and whether they were one access. Of a matrix kind only the row addresses."""
    if kind not in _WIDTHS:
        raise ValueError(f"unknown kind of access {kind!r}: one of {', '.join(KINDS)}")
    if width_bytes not in _WIDTHS[kind]:
        raise ValueError(f"{kind} moves {' or '.join(map(str, _WIDTHS[kind]))} bytes per lane, not {width_bytes}")
    given = np.asarray(offsets)
    if given.dtype.kind not in "iu":
        raise ValueError(f"offsets are integers (bytes, -1 for an inactive lane), not {given.dtype}")
    if given.ndim not in (1, 2) or given.shape[-1] != WARP_LANES:
        raise ValueError(f"offsets have shape (32,) or (n, 32), one per lane, not {given.shape}")
    if given.dtype not in (np.int32, np.int64):
        given = given.astype(np.int64)
    lanes = given.reshape(-1, WARP_LANES).T[: MATRIX_ROWS.get(kind, WARP_LANES)]
    _check_offsets(kind, width_bytes, lanes)
    return lanes, given.ndim == 1


def _check_offsets(kind: str, width_bytes: int, lanes: Lanes) -> None:
    if not lanes.size:
        return
    inactive = lanes < 0
    if inactive.any() and (lanes < -1).any():
        lane, access = np.argwhere(lanes < -1)[0]
        raise ValueError(f"offset {lanes[lane, access]} of lane {lane} in access {access} is negative")
    wrong = ((lanes & (width_bytes - 1)) != 0) & ~inactive if width_bytes > 1 else np.zeros(0, bool)
    if wrong.any():
        lane, access = np.argwhere(wrong)[0]
        raise ValueError(
            f"offset {lanes[lane, access]} of lane {lane} in access {access} is not a multiple of {width_bytes} bytes"
        )
    if kind in MATRIX_ROWS and (inactive.any(axis=0) != inactive.all(axis=0)).any():
        raise ValueError(f"{kind} reads {len(lanes)} row addresses: lanes 0 to {len(lanes) - 1} are all active or none")


# ---- counting
def _count_wavefronts(kind: str, width_bytes: int, offsets: Lanes) -> Lanes:
    active = _active(offsets)
    unit_bytes = max(width_bytes, BANK_BYTES)
    units = _near_units(offsets, active, unit_bytes, LINE_BYTES)
    banks = LINE_BYTES // unit_bytes
    size = _phase_lanes(kind, width_bytes)
    merged = _merges(kind, width_bytes, offsets, active)
    if not merged.any():
        return _sum_phases(units, active, size, banks)
    result = np.empty(offsets.shape[1], np.int64)
    for which, lanes in ((merged, 2 * size), (~merged, size)):
        result[which] = _sum_phases(units[:, which], None if active is None else active[:, which], lanes, banks)
    return result


def _count_phases(kind: str, width_bytes: int, offsets: Lanes) -> Lanes:
    active = _active(offsets)
    size = _phase_lanes(kind, width_bytes)
    merged = _merges(kind, width_bytes, offsets, active)
    if active is None:
        return np.where(merged, len(offsets) // (2 * size), len(offsets) // size)
    whole = sum(group.any(axis=0).astype(np.int64) for group in _groups(active, size))
    if not merged.any():
        return np.asarray(whole)
    return np.where(merged, sum(group.any(axis=0).astype(np.int64) for group in _groups(active, 2 * size)), whole)


def _count_sectors(kind: str, width_bytes: int, offsets: Lanes) -> Lanes:
    return _count_distinct(offsets, SECTOR_BYTES)  # an aligned access of up to 32 bytes lies in one sector


def _count_bytes_floor(kind: str, width_bytes: int, offsets: Lanes) -> Lanes:
    distinct_bytes = _count_distinct(offsets, width_bytes) * width_bytes
    return np.asarray(-(-distinct_bytes // LINE_BYTES))


def _count_distinct(offsets: Lanes, unit_bytes: int) -> Lanes:
    active = _active(offsets)
    units = _near_units(offsets, active, unit_bytes, unit_bytes)
    if active is not None:
        units = np.where(active, units, units.max(axis=0))
    _sort_lanes(units)
    found = (units[1:] != units[:-1]).sum(axis=0, dtype=np.int64) + 1
    return found if active is None else found * active.any(axis=0)


def _active(offsets: Lanes) -> NDArray[np.bool_] | None:
    """Which lanes take part, or None if all do."""
    active = offsets >= 0
    return None if active.all() else active


def _phase_lanes(kind: str, width_bytes: int) -> int:
    """Lanes of a phase before merging: as many as can move 128 bytes together."""
    return min(WARP_LANES, LINE_BYTES // width_bytes)


def _merges(kind: str, width_bytes: int, offsets: Lanes, active: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    """Which accesses are loads whose lanes all agree with lane ^ 1, or all with lane ^ 2."""
    result = np.zeros(offsets.shape[1], bool)
    if kind != "ld" or width_bytes < 8:
        return result
    for distance in (1, 2):
        pairs = offsets.reshape(-1, 2, distance, offsets.shape[1])
        agree = pairs[:, 0] == pairs[:, 1]
        if active is not None:
            both = active.reshape(pairs.shape)
            agree |= ~(both[:, 0] & both[:, 1])
        result |= agree.all(axis=(0, 1))
    return result


def _near_units(offsets: Lanes, active: NDArray[np.bool_] | None, unit_bytes: int, grain_bytes: int) -> Lanes:
    """Offsets in units from each access's first grain, in the narrowest type: 2-byte keys are what makes this fast.

    Moving an access by whole grains changes nothing that is counted.
    """
    first = (offsets if active is None else np.where(active, offsets, np.iinfo(offsets.dtype).max)).min(axis=0)
    units = (offsets - first // grain_bytes * grain_bytes) // unit_bytes
    if active is not None:
        units[~active] = 0
    most = int(units.max(initial=0))
    narrow: Lanes = units.astype(np.uint16 if most < 2**16 else np.uint32 if most < 2**32 else np.uint64)
    return narrow


def _groups(lanes: Lanes, size: int) -> Iterator[Lanes]:
    for first in range(0, len(lanes), size):
        yield lanes[first : first + size]


def _sum_phases(units: Lanes, active: NDArray[np.bool_] | None, size: int, banks: int) -> Lanes:
    total = np.zeros(units.shape[1], np.int64)
    for first in range(0, len(units), size):
        phase = slice(first, first + size)
        total += _fill_banks(units[phase], None if active is None else active[phase], banks)
    return total


def _fill_banks(units: Lanes, active: NDArray[np.bool_] | None, banks: int) -> Lanes:
    """The most distinct units in one bank: sort by (bank, row), then count along each bank's run."""
    if not units.shape[1]:
        return np.zeros(0, np.uint8)
    rows = units // banks
    row_bits = int(rows.max()).bit_length()
    keys = (units % banks << row_bits) | rows
    if active is not None:  # an inactive lane joins another's word, which costs nothing
        keys[~active] = 0
        keys = np.where(active, keys, keys.max(axis=0))
    _sort_lanes(keys)
    step = keys[1:] ^ keys[:-1]
    fresh = (step != 0).view(np.uint8)
    stays = (step < (1 << row_bits)).view(np.uint8)
    count = np.ones(units.shape[1], np.uint8)
    most = count.copy()
    for lane in range(len(step)):
        count = count * stays[lane] + fresh[lane]
        np.maximum(most, count, out=most)
    return most if active is None else most * active.any(axis=0)


def _sort_lanes(keys: Lanes) -> None:
    """Sort along the lanes, in place: Batcher's bitonic network, each step one comparison of many accesses at once."""
    lanes, accesses = keys.shape
    block = 2
    while block <= lanes:
        halves = keys.reshape(-1, 2, block // 2, accesses)
        _order(halves[:, 0], halves[:, 1, ::-1])  # against the mirror image: two ascending runs become bitonic
        half = block // 4
        while half:
            pairs = keys.reshape(-1, 2, half, accesses)
            _order(pairs[:, 0], pairs[:, 1])
            half //= 2
        block *= 2


def _order(low: Lanes, high: Lanes) -> None:
    least = np.minimum(low, high)
    np.maximum(low, high, out=high)
    low[...] = least
