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

from collections.abc import Callable
from dataclasses import dataclass
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
_WIDTHS = {"global": (*WIDTHS, 32)} | dict.fromkeys(("ld", "st"), WIDTHS) | dict.fromkeys(MATRIX_ROWS, (16,))

_CHUNK = 2048  # accesses worked on at a time: what is made of them then stays in a core's own cache


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
    access = _read_offsets(kind, width_bytes, offsets)
    if np.ndim(offsets) != 1:
        raise ValueError(f"a bank table is of one access: offsets of shape (32,), not {np.shape(offsets)}")
    merged = bool(_merges(kind, width_bytes, access)[0])
    size = _phase_lanes(width_bytes) * (2 if merged else 1)
    at = [int(x) for x in access[0]]
    groups = [[lane for lane in range(first, first + size) if at[lane] >= 0] for first in range(0, len(at), size)]
    return BankTable(kind, width_bytes, tuple(_phase(group, at, width_bytes) for group in groups if group), merged)


def _phase(lanes: list[int], offsets: list[int], width_bytes: int) -> Phase:
    touched: dict[int, list[int]] = {}
    for lane in lanes:
        for word in range(offsets[lane] // BANK_BYTES, (offsets[lane] + width_bytes - 1) // BANK_BYTES + 1):
            touched.setdefault(word, []).append(lane)
    words = [Word(index, tuple(by)) for index, by in sorted(touched.items())]
    return Phase(tuple(lanes), tuple(tuple(w for w in words if w.index % BANKS == bank) for bank in range(BANKS)))


# ---- batches: read, cut into chunks, check
def _per_access(
    kind: str, width_bytes: int, offsets: ArrayLike, count: Callable[[str, int, Accesses], Accesses]
) -> Count:
    accesses = _read_offsets(kind, width_bytes, offsets)
    chunks = [accesses[first : first + _CHUNK] for first in range(0, len(accesses), _CHUNK)]
    counted = [count(kind, width_bytes, chunk).astype(np.int64) for chunk in chunks]
    result = np.concatenate(counted) if counted else np.zeros(0, np.int64)
    return int(result[0]) if np.ndim(offsets) == 1 else result


def _read_offsets(kind: str, width_bytes: int, offsets: ArrayLike) -> Accesses:
    """The offsets as (accesses, lanes), checked; of a matrix kind only the lanes that give row addresses."""
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
    accesses = given.reshape(-1, WARP_LANES)[:, : MATRIX_ROWS.get(kind, WARP_LANES)]
    for first in range(0, len(accesses), _CHUNK):
        _check_offsets(kind, width_bytes, accesses[first : first + _CHUNK], first)
    return accesses


def _check_offsets(kind: str, width_bytes: int, offsets: Accesses, first: int) -> None:
    least = offsets.min()
    if least >= 0 and not np.bitwise_or.reduce(offsets, axis=None) & (width_bytes - 1):
        return
    active = offsets >= 0
    for wrong, why in (
        (offsets < -1, "is negative (-1 means an inactive lane)"),
        (active & (offsets % width_bytes != 0), f"is not a multiple of {width_bytes}"),
    ):
        if wrong.any():
            access, lane = np.argwhere(wrong)[0]
            raise ValueError(f"byte offset {offsets[access, lane]} of lane {lane} in access {first + access} {why}")
    if kind in MATRIX_ROWS and (active.any(axis=1) != active.all(axis=1)).any():
        raise ValueError(f"{kind} needs the row addresses of lanes 0 to {offsets.shape[1] - 1}: all active, or none")


# ---- counting, for one chunk
def _count_wavefronts(kind: str, width_bytes: int, offsets: Accesses) -> Accesses:
    unit_bytes = max(width_bytes, BANK_BYTES)  # a lane's words lie side by side: count units, over so many fewer banks
    units = _narrow(offsets, unit_bytes)
    active = _active(offsets)
    banks = LINE_BYTES // unit_bytes
    size = _phase_lanes(width_bytes)
    merged = _merges(kind, width_bytes, offsets)
    if not merged.any():
        return _sum_phases(units, active, size, banks)
    result = np.empty(len(offsets), np.int64)
    for which, lanes in ((merged, 2 * size), (~merged, size)):
        result[which] = _sum_phases(units[which], None if active is None else active[which], lanes, banks)
    return result


def _count_phases(kind: str, width_bytes: int, offsets: Accesses) -> Accesses:
    served = np.asarray((offsets >= 0).reshape(len(offsets), -1, _phase_lanes(width_bytes)).any(axis=2))
    merged = _merges(kind, width_bytes, offsets)
    if not merged.any():
        return np.asarray(served.sum(axis=1))
    together = served[:, 0::2] | served[:, 1::2]
    return np.asarray(np.where(merged, together.sum(axis=1), served.sum(axis=1)))


def _count_sectors(kind: str, width_bytes: int, offsets: Accesses) -> Accesses:
    return _count_distinct(offsets, SECTOR_BYTES)  # an aligned access of up to 32 bytes lies in one sector


def _count_bytes_floor(kind: str, width_bytes: int, offsets: Accesses) -> Accesses:
    distinct_bytes = _count_distinct(offsets, width_bytes) * width_bytes
    return np.asarray(-(-distinct_bytes // LINE_BYTES))


def _count_distinct(offsets: Accesses, unit_bytes: int) -> Accesses:
    active = _active(offsets)
    keys = _sort_lanes(_narrow(offsets, unit_bytes), active)
    found = np.asarray((keys[1:] != keys[:-1]).sum(axis=0, dtype=np.int64)) + 1
    return found if active is None else found * active.any(axis=1)


def _active(offsets: Accesses) -> NDArray[np.bool_] | None:
    """Which lanes take part, or None if all do."""
    return None if offsets.min() >= 0 else offsets >= 0


def _phase_lanes(width_bytes: int) -> int:
    """Lanes of a phase before merging: as many as can move 128 bytes together."""
    return min(WARP_LANES, LINE_BYTES // width_bytes)


def _merges(kind: str, width_bytes: int, offsets: Accesses) -> NDArray[np.bool_]:
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


def _narrow(offsets: Accesses, unit_bytes: int) -> Accesses:
    """Offsets in units, in the narrowest type that NumPy sorts fast."""
    units = offsets >> (unit_bytes.bit_length() - 1)
    return units.astype(np.uint32 if units.max() < 2**32 else np.uint64)


def _sum_phases(units: Accesses, active: NDArray[np.bool_] | None, lanes: int, banks: int) -> Accesses:
    groups = units.reshape(-1, lanes)
    worst = _fill_banks(groups, None if active is None else active.reshape(-1, lanes), banks)
    return np.asarray(worst.reshape(len(units), units.shape[1] // lanes).sum(axis=1))


def _fill_banks(units: Accesses, active: NDArray[np.bool_] | None, banks: int) -> Accesses:
    """The most distinct units in one bank: sort by (bank, row), then count along each bank's run."""
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


def _sort_lanes(keys: Accesses, active: NDArray[np.bool_] | None) -> Accesses:
    """The keys of each access in order, as (lanes, accesses), so that a walk along the lanes is one along rows.

    An inactive lane takes the largest key of its access: it joins another lane, which changes no count.
    """
    if active is not None:
        keys = np.where(active, keys, 0)
        keys = np.where(active, keys, keys.max(axis=1, keepdims=True))
    keys.sort(axis=1)
    return np.ascontiguousarray(keys.T)
