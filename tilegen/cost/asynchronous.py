"""Asynchronous copies among the accesses of a plan: kinds of cp.async, boxes of TMA, and what counters show for them.

A kind names the cache operator that the kernel's text has, and ``.zfill`` (SASS's word) where the instruction may read
less than it writes: that form costs differently.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilegen import access
from tilegen.plan.descriptors import TCGEN05, WGMMA
from tilegen.spaces import Space

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

CP_ASYNC = tuple(f"cp.async.{cache}{fill}" for cache in access.CP_ASYNC_WIDTHS for fill in ("", ".zfill"))
TMA = "tma"  # the kind of a box that TMA moves
WHOLE = (TMA, WGMMA, TCGEN05)  # no lane of a warp has a part: boxes, and matrices that tensor cores read by descriptors
_CHUNK_BYTES = 16  # TMA moves whole chunks of shared memory
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


# ---------------------------------------------------------------- boxes
def count_boxes(space: Space, row_bytes: int, rows: Sequence[tuple[int, int]], first: Ints, weights: Ints) -> Ints:
    """(instructions, wavefronts, floor, bytes_floor, sectors) of boxes that begin at bytes ``first``, one side of them.

    ``rows`` are (extent, byte stride) around rows of ``row_bytes``. In shared memory TMA has no conflicts, whatever the
    swizzle: 32 words a wavefront. Sectors are counted as if the whole box lay inside of the array.
    """
    starts = _starts_of_rows(rows)
    if space.has_banks:
        lines = -(-len(starts) * row_bytes // access.LINE_BYTES)
        return np.array([weights.sum(), *[weights.sum() * lines] * 3, 0])
    chunks = _chunks_of(starts, row_bytes)
    sectors = [_count_sectors(chunks + begin) for begin in first]
    return np.array([weights.sum(), 0, 0, 0, weights @ np.array(sectors, np.int64)])


def sectors_of_boxes(row_bytes: int, rows: Sequence[tuple[int, int]], first: Ints) -> Ints:
    """Numbers of the sectors that boxes touch which begin at bytes ``first`` of the array, as ``count_boxes`` has them.

    >>> sectors_of_boxes(32, [(2, 128)], np.array([0, 32]))
    array([0, 1, 4, 5])
    """
    starts = (first[:, None] + _starts_of_rows(rows)).ravel()
    if row_bytes % access.SECTOR_BYTES == 0 and not (starts % row_bytes).any():  # rows of sectors, no two of which meet
        each = row_bytes // access.SECTOR_BYTES
        sectors: Ints = (access.distinct(starts // row_bytes)[:, None] * each + np.arange(each)).ravel()
        return sectors
    chunks = _chunks_of(starts, row_bytes)
    begin, end = _ends_of(chunks)
    sides = [begin] if np.array_equal(begin, end) else [begin, end]
    return access.distinct(np.concatenate(sides) // access.SECTOR_BYTES)


def _starts_of_rows(rows: Sequence[tuple[int, int]]) -> Ints:
    starts = np.zeros(1, np.int64)
    for extent, stride in rows:
        starts = (starts[:, None] + np.arange(extent) * stride).ravel()
    return starts


def _chunks_of(starts: Ints, row_bytes: int) -> Ints:
    return (starts[:, None] + np.arange(0, row_bytes, _CHUNK_BYTES)).ravel()


def _ends_of(chunks: Ints) -> tuple[Ints, Ints]:
    """Where the chunks of shared memory begin and end that hold them, in 16 bytes of the array."""
    return chunks // _CHUNK_BYTES * _CHUNK_BYTES, (chunks + _CHUNK_BYTES - 1) // _CHUNK_BYTES * _CHUNK_BYTES


def _count_sectors(chunks: Ints) -> int:
    """Sectors that the chunks of one box, in its order, move; one that begins anywhere may have a part of two."""
    shared = np.arange(len(chunks)) * _CHUNK_BYTES  # swizzles stay inside of 128 bytes, which is what counts
    chunks = chunks - int(chunks.min()) // access.SECTOR_BYTES * access.SECTOR_BYTES  # a box may begin before its array
    begin, end = _ends_of(chunks)
    return access.tma_sectors(np.concatenate([shared, shared]), np.concatenate([begin, end]))
