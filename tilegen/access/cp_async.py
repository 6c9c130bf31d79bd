"""cp.async from global to shared memory: what the hardware does for one warp's instruction, as an H200 counted it.

``.ca`` goes through L1: the data pipe reads L1 lines and writes shared memory in the same wavefronts, and either side
has the 32 banks. Phases are those of a store. Two lanes of a phase are in each other's way if they write the same banks
or read the same banks (a global word lies in bank ``address / 4 mod 32``, as a shared one does), also where the word is
the same: nothing is broadcast. A phase takes as many wavefronts as the lane with most others in its way: those, and
itself. Sectors are the distinct 32-byte blocks that are read.

``.cg`` passes L1 by: what L2 sends is written as it comes, and no wavefront is counted. One sector is asked for per
distinct pair (128-byte line that is read, 32-byte sector of shared memory that is written), whatever the lanes. So
where the two halves of a global sector go to different shared sectors, it is asked for twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from tilegen.access.counting import Active, active_lanes, count_distinct, phase_lanes
from tilegen.access.offsets import (
    LINE_BYTES,
    SECTOR_BYTES,
    Accesses,
    Count,
    count_in_chunks,
    read_offsets,
    shape_like,
)
from tilegen.access.warp import count_sectors

CP_ASYNC_WIDTHS = {"ca": (4, 8, 16), "cg": (16,)}
_SHARED_LIMIT_BYTES = 1 << 24  # the shared window of the address space; an SM has far less
_GLOBAL_LIMIT_BYTES = 1 << 52  # a GPU's virtual addresses have fewer bits


@dataclass(frozen=True)
class CpAsyncCost:
    """What cp.async costs: wavefronts of the data pipe (none are counted for cg), and sectors asked for.

    Ints for one access, int64 arrays of n for a batch.
    """

    wavefronts: Count
    sectors: Count


def cp_async_cost(kind: str, width_bytes: int, shared_offsets: ArrayLike, global_offsets: ArrayLike) -> CpAsyncCost:
    """The cost of one warp's cp.async.ca or .cg of ``width_bytes`` per lane.

    Both offsets are (32,) or both (n, 32), in bytes from bases aligned to 128; -1 in ``shared_offsets`` is an inactive
    lane, whose global offset is not looked at. Raises ValueError for an unknown kind, a width that it does not have,
    shapes that differ, a misaligned offset, or an active lane with no global offset.

    >>> lanes = range(32)
    >>> cp_async_cost("ca", 4, [4 * lane for lane in lanes], [4 * lane for lane in lanes])
    CpAsyncCost(wavefronts=1, sectors=4)
    >>> cp_async_cost("ca", 4, [4 * lane for lane in lanes], [128 * lane for lane in lanes])  # one bank is read
    CpAsyncCost(wavefronts=32, sectors=32)
    >>> swizzled = [16 * (lane ^ lane >> 3 & 7) for lane in lanes]  # halves of a sector stay in one sector
    >>> cp_async_cost("cg", 16, swizzled, [16 * lane for lane in lanes])
    CpAsyncCost(wavefronts=0, sectors=16)
    >>> padded = [16 * lane + 16 * (lane >> 3) for lane in lanes]  # odd rows straddle a sector more
    >>> cp_async_cost("cg", 16, padded, [16 * lane for lane in lanes]).sectors
    18

    Source: counted on an H200, see ``docs/access-model.md``.
    """
    to, source = _read_pair(kind, width_bytes, shared_offsets, global_offsets)
    count_wavefronts = partial(_count_ca_wavefronts, width_bytes) if kind == "ca" else _count_no_wavefronts
    wavefronts = count_in_chunks(count_wavefronts, to, source)
    sectors = count_in_chunks(_count_ca_sectors if kind == "ca" else _count_cg_sectors, to, source)
    return CpAsyncCost(shape_like(shared_offsets, wavefronts), shape_like(shared_offsets, sectors))


def _read_pair(kind: str, width_bytes: int, shared: ArrayLike, source: ArrayLike) -> tuple[Accesses, Accesses]:
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
    _check_pair(to, read)
    return to, read


def _check_pair(to: Accesses, source: Accesses) -> None:
    for wrong, why in (
        ((to >= 0) & (source < 0), "is active and has no global offset"),
        (to >= _SHARED_LIMIT_BYTES, f"writes beyond {_SHARED_LIMIT_BYTES} bytes of shared memory"),
        (source >= _GLOBAL_LIMIT_BYTES, f"reads beyond {_GLOBAL_LIMIT_BYTES} bytes of global memory"),
    ):
        if wrong.any():
            access, lane = np.argwhere(wrong)[0]
            raise ValueError(f"lane {lane} in access {access} {why}")


# ---- counting, for one chunk
def _count_ca_wavefronts(width_bytes: int, to: Accesses, source: Accesses) -> Accesses:
    """Per phase, the lane that meets most lanes of the phase (itself included) in the banks of either side."""
    lanes = phase_lanes(width_bytes)  # a phase moves 128 bytes: as many lanes as units of the width in all banks
    meet = _meet_in_banks(width_bytes, to, lanes) | _meet_in_banks(width_bytes, source, lanes)
    active: Active = active_lanes(to)
    if active is not None:
        on = active.reshape(-1, lanes)
        meet &= on[:, :, None] & on[:, None, :]
    most = meet.sum(axis=2, dtype=np.uint8).max(axis=1)
    return np.asarray(most.reshape(len(to), -1).sum(axis=1))


def _meet_in_banks(width_bytes: int, offsets: Accesses, lanes: int) -> Accesses:
    """(phases, lanes, lanes): which lanes of a phase touch the same banks; aligned lanes share all or none."""
    banks = ((offsets // width_bytes) & (lanes - 1)).astype(np.uint8).reshape(-1, lanes)
    return np.asarray(banks[:, :, None] == banks[:, None, :])


def _count_no_wavefronts(to: Accesses, source: Accesses) -> Accesses:
    return np.zeros(len(to), np.int64)


def _count_ca_sectors(to: Accesses, source: Accesses) -> Accesses:
    return count_sectors(source)


def _count_cg_sectors(to: Accesses, source: Accesses) -> Accesses:
    lines, sectors = source.astype(np.uint64) // LINE_BYTES, to.astype(np.uint64) // SECTOR_BYTES
    return count_distinct(lines * (_SHARED_LIMIT_BYTES // SECTOR_BYTES) + sectors, active_lanes(to))
