"""cp.async among the accesses of a plan: its kinds, and what hardware counters show for it.

A kind names the cache operator that the kernel's text has, and ``.zfill`` (SASS's word) where the instruction may read
less than it writes: that form costs differently.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilegen import access

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

CP_ASYNC = tuple(f"cp.async.{cache}{fill}" for cache in access.CP_ASYNC_WIDTHS for fill in ("", ".zfill"))
_CG_BYTES = 16  # the prelude's cp_async functions pass by L1 wherever the instruction can


def cp_async_kind(width_bytes: int, fills_zeros: bool) -> str:
    """The kind of a cp.async of that width.

    >>> cp_async_kind(16, False), cp_async_kind(4, True)
    ('cp.async.cg', 'cp.async.ca.zfill')
    """
    return f"cp.async.{'cg' if width_bytes == _CG_BYTES else 'ca'}{'.zfill' if fills_zeros else ''}"


def count_cp_async(kind: str, width_bytes: int, shared: Ints, source: Ints) -> tuple[Ints, Ints]:
    """(wavefronts, sectors) of each cp.async of a warp: byte offsets on both sides, (n, 32), -1 where a lane is out.

    The wavefronts are those that the counter ``mem_shared_op_ldgsts`` shows, with the fills of cg: where a kernel reads
    the tile afterwards, they are in it. The kernel's text copies all bytes or none, which is a predicate of the
    instruction: a cg of which every lane reads costs then what it does without one (docs/access-model.md).
    """
    writes = _writes_zeros(kind, shared, source)
    without = ("l2_sectors",) if writes.any() else ("l2_sectors", "wavefronts")
    cost = access.cp_async_cost(_cache_of(kind), width_bytes, shared, source, _fills_zeros(kind), without)
    own = np.where(writes, cost.wavefronts, 0)
    return np.asarray(own + cost.fills), np.asarray(cost.sectors)


def floor_cp_async(kind: str, width_bytes: int, shared: Ints, source: Ints) -> Ints:
    """Wavefronts that each takes under any layout of the shared side: for ca one a phase; for cg a fill for each line
    that is read, and the phases besides where zeros are written.
    """
    phases = np.asarray(access.phases("st", width_bytes, shared))
    return _both_parts(kind, phases, _count_lines(source), _writes_zeros(kind, shared, source))


def floor_sectors(kind: str, shared: Ints, source: Ints) -> Ints:
    """Sectors that each looks up under any layout of the shared side: for ca those that it reads; for cg one for each
    two places that are written, which have room in one sector of shared memory.
    """
    if _cache_of(kind) == "ca":
        return np.asarray(access.sectors(1, np.where(shared >= 0, source, -1)))
    places = np.sort(np.where(source >= 0, shared, -1), axis=1)
    written = ((np.diff(places, axis=1, prepend=-1) != 0) & (places >= 0)).sum(axis=1)
    return np.asarray((written + 1) // 2)


def bytes_floor_cp_async(kind: str, width_bytes: int, shared: Ints, source: Ints) -> Ints:
    """What the same bytes could cost if other lanes touched them."""
    read = np.asarray(access.bytes_floor(width_bytes, source))
    own = np.asarray(access.bytes_floor(width_bytes, shared))
    return _both_parts(kind, own, read, _writes_zeros(kind, shared, source))


def _both_parts(kind: str, own: Ints, fills: Ints, writes_zeros: Bools) -> Ints:
    """The instruction's wavefronts and the fills, as far as a kind has them."""
    return own if _cache_of(kind) == "ca" else np.where(writes_zeros, own, 0) + fills


def _writes_zeros(kind: str, shared: Ints, source: Ints) -> Bools:
    """Which copies have wavefronts of their own: all of ca, and those of cg of which a lane reads nothing."""
    if _cache_of(kind) == "ca":
        return np.ones(len(shared), bool)
    return np.asarray(_fills_zeros(kind) & ((shared >= 0) & (source < 0)).any(axis=1))


def _cache_of(kind: str) -> str:
    return kind.split(".")[2]


def _fills_zeros(kind: str) -> bool:
    return kind.endswith(".zfill")


def _count_lines(source: Ints) -> Ints:
    lines = np.sort(np.where(source >= 0, source // access.LINE_BYTES, -1), axis=1)
    return np.asarray((np.diff(lines, axis=1, prepend=-1) > 0).sum(axis=1))
