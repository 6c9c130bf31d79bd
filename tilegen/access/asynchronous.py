"""Asynchronous copies into and out of shared memory, as an H200 counted them: cp.async of a warp, and boxes of TMA.

``.ca`` goes through L1: the data pipe reads L1 lines and writes shared memory in the same wavefronts, and either side
has the 32 banks. Phases are those of a store. Two lanes of a phase are in each other's way if they write the same banks
or read the same banks (a global word lies in bank ``address / 4 mod 32``, as a shared one does), also where the word is
the same: nothing is broadcast. A phase takes as many wavefronts as the lane with most others in its way: those, and
itself. Sectors are the distinct 32-byte blocks that are read; L2 sends those that L1 does not hold.

``.cg`` passes L1 by, and takes no wavefront of its own: what L2 sends is written as it comes, in fills (``fills``). One
sector is looked up per distinct pair (128-byte line that is read, 32-byte sector of shared memory that is written),
whatever the lanes. L2 sends a sector once for each shared sector that gets a part of it, and twice to one where a half
stays and a half changes places.

The form with a source size (``zero_fill``) also writes zeros. The lanes that read nothing are then in the way of others
only where they write, and ``.cg`` takes the wavefronts of ``.ca`` before its fills.

No counter gives TMA wavefronts. The data banks count one write (for a store, one read) per word of the box, whatever
the swizzle, and never a conflict; so what a layout can cost is sectors, by one rule for both directions: a global
sector moves once for each 128-byte line of shared memory that has a part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilegen.access.warp import (
    LINE_BYTES,
    SECTOR_BYTES,
    WARP_LANES,
    Accesses,
    Count,
    active_lanes,
    count_distinct,
    count_in_chunks,
    count_sectors,
    distinct,
    phase_lanes,
    read_offsets,
    shape_like,
)

CP_ASYNC_WIDTHS = {"ca": (4, 8, 16), "cg": (16,)}
_SHARED_LIMIT_BYTES = 1 << 24  # the shared window of the address space; an SM has far less
_GLOBAL_LIMIT_BYTES = 1 << 52  # a GPU's virtual addresses have fewer bits


@dataclass(frozen=True)
class CpAsyncCost:
    """What one cp.async costs: ints for one access, int64 arrays of n for a batch."""

    wavefronts: Count  # of the instruction; cg has none without zero_fill
    sectors: Count  # looked up in L1's tags
    l2_sectors: Count  # that L2 sends where L1 holds nothing: the traffic
    fills: Count  # wavefronts in which cg's sectors are written as they come; 0 for ca


def cp_async_cost(
    kind: str, width_bytes: int, shared_offsets: ArrayLike, global_offsets: ArrayLike, zero_fill: bool = False,
    without: Collection[str] = (),
) -> CpAsyncCost:  # fmt: skip
    """The cost of one warp's cp.async.ca or .cg (``kind`` "ca" or "cg") of ``width_bytes`` per lane.

    Both offsets are (32,) or both (n, 32), in bytes from bases aligned to 128; -1 in ``shared_offsets`` is an inactive
    lane, whose global offset is not looked at. With ``zero_fill``, the form with a source size, a lane whose global
    offset is -1 reads nothing and writes zeros; a source size between 0 and the width costs what the width does.
    Figures named in ``without`` are not counted, and 0.

    Lanes that write the same place race. For cg the model then counts every lane's pairs, and the hardware only those
    of the lanes whose data stays, which nobody predicts: it counts as many sectors or fewer.

    Raises ValueError for an unknown kind, a width that it does not have, shapes that differ, a misaligned offset, or an
    active lane with no global offset where zeros are not filled in.

    >>> lanes = range(32)
    >>> cost = cp_async_cost("ca", 4, [4 * lane for lane in lanes], [4 * lane for lane in lanes])
    >>> cost.wavefronts, cost.sectors
    (1, 4)
    >>> column = [128 * lane for lane in lanes]  # 32 words of one bank
    >>> cp_async_cost("ca", 4, [4 * lane for lane in lanes], column).wavefronts
    32
    >>> swizzled = [16 * (lane ^ lane >> 3 & 7) for lane in lanes]  # halves of a sector stay in one sector
    >>> cp_async_cost("cg", 16, swizzled, [16 * lane for lane in lanes])
    CpAsyncCost(wavefronts=0, sectors=16, l2_sectors=16, fills=4)
    >>> padded = [16 * lane + 16 * (lane >> 3) for lane in lanes]  # in every other row they part: 8 sectors for 4
    >>> cp_async_cost("cg", 16, padded, [16 * lane for lane in lanes])
    CpAsyncCost(wavefronts=0, sectors=18, l2_sectors=24, fills=10)

    Source: counted on an H200, see ``docs/access-model.md``.
    """
    to, source = _read_pair(kind, width_bytes, shared_offsets, global_offsets, zero_fill)
    wavefronts = partial(_count_wavefronts, width_bytes)
    counts: tuple[Callable[[Accesses, Accesses], Accesses], ...]
    if kind == "ca":
        counts = (wavefronts, _count_ca_sectors, _count_ca_sectors, _count_nothing)
    else:
        counts = (wavefronts if zero_fill else _count_nothing, _count_cg_sectors, _count_cg_l2_sectors, count_fills)
    asked = [_count_nothing if f.name in without else c for f, c in zip(fields(CpAsyncCost), counts, strict=True)]
    return CpAsyncCost(*(shape_like(shared_offsets, count_in_chunks(count, to, source)) for count in asked))


def _read_pair(
    kind: str, width_bytes: int, shared: ArrayLike, source: ArrayLike, zero_fill: bool
) -> tuple[Accesses, Accesses]:
    """Both sides as (accesses, lanes), -1 on both where a lane is inactive."""
    if kind not in CP_ASYNC_WIDTHS:
        raise ValueError(f"unknown kind of cp.async {kind!r}: ca or cg")
    if width_bytes not in CP_ASYNC_WIDTHS[kind]:
        widths = " or ".join(map(str, CP_ASYNC_WIDTHS[kind]))
        raise ValueError(f"cp.async.{kind} moves {widths} bytes per lane, not {width_bytes}")
    if np.shape(shared) != np.shape(source):
        raise ValueError(f"shared and global offsets have one shape, not {np.shape(shared)} and {np.shape(source)}")
    to = read_offsets(width_bytes, shared, what="shared offset")
    read = read_offsets(width_bytes, np.where(np.asarray(shared) < 0, -1, source), what="global offset")
    for wrong, why in (
        ((to >= 0) & (read < 0) & (not zero_fill), "is active and has no global offset: only zero_fill allows that"),
        (to >= _SHARED_LIMIT_BYTES, f"writes beyond {_SHARED_LIMIT_BYTES} bytes of shared memory"),
        (read >= _GLOBAL_LIMIT_BYTES, f"reads beyond {_GLOBAL_LIMIT_BYTES} bytes of global memory"),
    ):
        if wrong.any():
            access, lane = np.argwhere(wrong)[0]
            raise ValueError(f"lane {lane} in access {access} {why}")
    return to, read


# ---- counting, for one chunk
def _count_wavefronts(width_bytes: int, to: Accesses, source: Accesses) -> Accesses:
    """Per phase, the lane that meets most lanes of the phase (itself included) in the banks of either side."""
    lanes = phase_lanes(width_bytes)  # a phase moves 128 bytes: as many lanes as units of the width in all banks
    meet = _meet_in_banks(width_bytes, to, lanes) | _meet_in_banks(width_bytes, source, lanes)
    most = meet.sum(axis=2, dtype=np.uint8).max(axis=1)
    return np.asarray(most.reshape(len(to), -1).sum(axis=1))


def _meet_in_banks(width_bytes: int, offsets: Accesses, lanes: int) -> Accesses:
    """(phases, lanes, lanes): which lanes of a phase touch the same banks; aligned lanes share all or none."""
    banks = ((offsets // width_bytes) & (lanes - 1)).astype(np.uint8).reshape(-1, lanes)
    meet = np.asarray(banks[:, :, None] == banks[:, None, :])
    active = active_lanes(offsets)
    if active is not None:
        on = active.reshape(-1, lanes)
        meet &= on[:, :, None] & on[:, None, :]
    return meet


def _count_nothing(to: Accesses, source: Accesses) -> Accesses:
    return np.zeros(len(to), np.int64)


def _count_ca_sectors(to: Accesses, source: Accesses) -> Accesses:
    return count_sectors(source)


def _count_cg_sectors(to: Accesses, source: Accesses) -> Accesses:
    return _count_pairs(source // LINE_BYTES, to, source)


def _count_cg_l2_sectors(to: Accesses, source: Accesses) -> Accesses:
    changes = (to ^ source) // 16 % 2  # whether a half of a sector goes to the other half
    return _count_pairs(source // SECTOR_BYTES * 2 + changes, to, source)


def _count_pairs(keys: Accesses, to: Accesses, source: Accesses) -> Accesses:
    """Distinct pairs (key, shared sector that is written) of the lanes that read."""
    pairs = keys.astype(np.uint64) * (_SHARED_LIMIT_BYTES // SECTOR_BYTES) + (to // SECTOR_BYTES).astype(np.uint64)
    return count_distinct(pairs, active_lanes(source))


# ---------------------------------------------------------------- fills of cp.async.cg
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


# ---------------------------------------------------------------- boxes of TMA
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
