"""What each R of a tiled product costs: storing C to global memory, loading a step of A and B from shared memory.

The model is that of ``tilegen.access``. C is stored as accumulators to a row-major array whose rows begin at whole
lines. A and B of one step along K are loaded from tiles in shared memory without padding or swizzle: those of
mma_sync lie along K, as its registers do, those of simt along M and N.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilegen import access
from tilegen.access import LINE_BYTES, SECTOR_BYTES, WARP_LANES
from tilegen.layouts import (
    MmaTiling,
    derive_mma,
    list_owned,
    list_runs,
    modes_of_tiling,
    start_rounds,
    with_run,
)
from tilegen.layouts.constructors import element_bits
from tilegen.spaces import GLOBAL, SHARED, Space

WIDTHS = (16, 8, 4, 2, 1)  # bytes of one access of a lane
MOST_ELEMS = 1 << 18  # of an operand whose accesses are counted
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class AccessPrice:
    """One operand moved once by all threads, ``width_bytes`` at a time, ``per_thread`` accesses each.

    ``each`` is the least and the most of one warp's access, ``total`` of all, ``floor`` what all need at least:
    sectors for global memory (distinct bytes / 32), wavefronts for shared (phases). ``warps`` take part.
    """

    width_bytes: int
    per_thread: int
    each: tuple[int, int]
    total: int
    floor: int
    warps: int


@dataclass(frozen=True)
class RunPrice:
    """One valid R: the tiling with it, the (first, last) of the runs of thread 0's columns, and what it costs.

    ``load_a`` and ``load_b`` are None where no thread loads them into registers (wgmma).
    """

    run: int
    tiling: MmaTiling
    columns: tuple[tuple[int, int], ...]
    shape: tuple[int, int]
    store: AccessPrice
    load_a: AccessPrice | None
    load_b: AccessPrice | None


def price_runs(tiling: MmaTiling) -> tuple[RunPrice, ...]:
    """Every R that divides the tile along M and N, with its costs; none where the tile has more than 2**18 elements.

    >>> from tilegen.layouts import tile_mma
    >>> prices = price_runs(tile_mma("fma.f32", "(16,16,1):(16,1,0)", None, (128, 128, 8)))
    >>> [(p.run, p.store.width_bytes, p.store.each) for p in prices]
    [(1, 4, (4, 4)), (2, 8, (8, 8)), (4, 16, (16, 16)), (8, 16, (32, 32))]
    >>> [(p.load_a.total + p.load_b.total) // p.load_a.warps for p in prices]
    [16, 12, 12, 20]
    """
    m, n, k = tiling.tile
    if max(m * n, m * k, n * k) > MOST_ELEMS:
        return ()
    return tuple(_price_run(with_run(tiling, run), run) for run in list_runs(tiling))


def _price_run(tiling: MmaTiling, run: int) -> RunPrice:
    _, n, k = modes_of_tiling(tiling)
    chain = derive_mma(tiling)
    bits = element_bits(tiling.atom.c)
    pitch = -(-tiling.tile[1] * bits // 8 // LINE_BYTES) * LINE_BYTES * 8 // bits
    owned = list_owned(tiling, "C")
    store = _price(owned[..., 0] * pitch + owned[..., 1], bits // 8, GLOBAL)
    columns = _find_runs([x + i for x in start_rounds(n) for i in _columns_of_atom(owned, n.atom)])
    loads = [None, None]
    if tiling.atom.kind != "wgmma":
        step = replace(tiling, tile=(*tiling.tile[:2], k.period))
        loads = [_price_load(step, operand, tiling.tile) for operand in "AB"]  # type: ignore[misc]
    return RunPrice(run, tiling, columns, chain.modes[1].shape, store, *loads)


def _columns_of_atom(owned: Ints, atom: int) -> list[int]:
    """The columns of one atom that thread 0 holds."""
    return sorted({int(c) for c in owned[0, :, 1] if c < atom})


def _find_runs(values: list[int]) -> tuple[tuple[int, int], ...]:
    """Neighbours as (first, last)."""
    found: list[tuple[int, int]] = []
    for x in sorted(values):
        if found and x == found[-1][1] + 1:
            found[-1] = (found[-1][0], x)
        else:
            found.append((x, x))
    return tuple(found)


def _price_load(step: MmaTiling, operand: str, tile: tuple[int, int, int]) -> AccessPrice:
    owned = list_owned(step, operand)
    k, other = (owned[..., 1], owned[..., 0]) if operand == "A" else (owned[..., 0], owned[..., 1])
    extent = tile[0] if operand == "A" else tile[1]
    elems = k * extent + other if step.atom.kind == "simt" else other * max(tile[2], step.tile[2]) + k
    return _price(elems, element_bits(step.atom.dtype(operand)) // 8, SHARED)


def _price(elems: Ints, elem_bytes: int, space: Space) -> AccessPrice:
    """Accesses of (threads, registers) at elements of a memory, as wide as all threads can."""
    at = elems[:, np.argsort(elems[0], kind="stable")] * elem_bytes
    width = next(w for w in WIDTHS if (w >= elem_bytes and _lie_together(at, elem_bytes, w)) or w == elem_bytes)
    starts = at[:, :: width // elem_bytes]
    lanes = np.pad(starts, ((0, -len(starts) % WARP_LANES), (0, 0)), constant_values=-1)
    offsets = lanes.reshape(-1, WARP_LANES, starts.shape[1]).swapaxes(1, 2).reshape(-1, WARP_LANES)
    if space.has_sectors:
        counted, floor = access.sectors(width, offsets), -(-len(np.unique(elems)) * elem_bytes // SECTOR_BYTES)
    else:
        counted, floor = access.wavefronts("ld", width, offsets), int(np.sum(access.phases("ld", width, offsets)))
    each = int(np.min(counted)), int(np.max(counted))
    return AccessPrice(width, starts.shape[1], each, int(np.sum(counted)), floor, len(lanes) // WARP_LANES)


def _lie_together(at: Ints, elem_bytes: int, width: int) -> bool:
    """Whether neighbours in a thread's order make whole, aligned accesses of a width, in every thread."""
    n = width // elem_bytes
    if at.shape[1] % n:
        return False
    groups = at.reshape(len(at), -1, n)
    together = (groups == groups[:, :, :1] + np.arange(n) * elem_bytes).all()
    return bool(together and not (groups[:, :, 0] % width).any())
