"""What warps do with a shared tile, in logical coordinates, and what that costs under each layout of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilegen import access
from tilegen.auto_layout.families import FamilyLayout, Ints, place_elements
from tilegen.cost.asynchronous import CP_ASYNC, count_cp_async, floor_cp_async, floor_sectors
from tilegen.index.rows import distinct_rows, hash_rows, mix_bits

_BATCH = 1 << 15  # accesses of 32 lanes that are placed at a time
_SAMPLE = 64  # vectors that are looked at before all are


@dataclass(frozen=True, eq=False)
class TileAccess:
    """Warp accesses of one kind and width. ``elements``: the number, in a form of the tile (of rows: row-major), of the
    first element that each lane touches, -1 for an inactive lane, shape (n, 32); ``weights``: how often each runs per
    CTA, shape (n,).

    cp.async writes the elements and reads global memory at the byte offsets ``source``, (n, 32), -1 for zeros. (Its
    sectors, too, then depend on the layout.) Of one that ``fold`` has made smaller, ``starts`` are all elements that
    vectors began with, and ``origin`` tells what it was.
    """

    kind: str  # as in tilegen.access: ld, st, ldmatrix4, ..., or as in cp_async: cp.async.cg, ...
    width_elems: int
    elements: Ints
    weights: Ints
    source: Ints | None = None
    starts: Ints | None = None
    origin: tuple[int, ...] = ()

    @property
    def instructions(self) -> int:
        return int(self.weights.sum())

    @cached_property
    def everything(self) -> tuple[object, ...]:
        """What makes an access what it is, to compare it by."""
        return self.kind, self.width_elems, *(self.origin or _origin(self))


def tile_access(
    kind: str, width_elems: int, elements: ArrayLike, weights: ArrayLike = 1, source: ArrayLike | None = None
) -> TileAccess:
    """Accesses from anything like arrays: ``elements`` and ``source`` (32,) or (n, 32), ``weights`` one number or n.

    Raises ValueError for an unknown kind, a width that is no power of two, other shapes, and a ``source`` that is
    missing or should not be there.

    >>> tile_access("st", 1, range(32), 4).instructions
    4
    """
    rows = np.atleast_2d(np.asarray(elements, np.int64))
    known = (*access.KINDS, access.RED, *CP_ASYNC)
    if kind not in known:
        raise ValueError(f"unknown kind of access {kind!r}: one of {', '.join(known)}")
    if width_elems < 1 or width_elems & (width_elems - 1):
        raise ValueError(f"a vector has 1, 2, 4, ... elements, not {width_elems}")
    if rows.ndim != 2 or rows.shape[1] != access.WARP_LANES:
        raise ValueError(f"elements have shape (32,) or (n, 32), one per lane, not {rows.shape}")
    read = None if source is None else np.atleast_2d(np.asarray(source, np.int64))
    if (read is not None) != (kind in CP_ASYNC) or (read is not None and read.shape != rows.shape):
        raise ValueError("cp.async, and nothing else, has a source as long as its elements")
    return TileAccess(kind, width_elems, rows, np.broadcast_to(np.asarray(weights, np.int64), (len(rows),)), read)


def count_floor(shape: Sequence[int], elem_bytes: int, accesses: Iterable[TileAccess]) -> int:
    """Wavefronts that the accesses take at least under any layout: one for each phase.

    >>> count_floor((32, 32), 4, [tile_access("ld", 1, [32 * lane for lane in range(32)])])
    1
    """
    return sum(int(_floors(a, a.width_elems * elem_bytes, _dense_bytes(a, elem_bytes)) @ a.weights) for a in accesses)


def count_least_sectors(elem_bytes: int, accesses: Iterable[TileAccess]) -> int:
    """Sectors that cp.async among the accesses looks up at least, under any layout.

    >>> rows = [8 * lane for lane in range(32)]
    >>> count_least_sectors(2, [tile_access("cp.async.cg", 8, rows, 3, [16 * lane for lane in range(32)])])
    48
    """
    filled = ((a, a.source) for a in accesses if a.source is not None)
    return sum(int(floor_sectors(a.kind, _dense_bytes(a, elem_bytes), source) @ a.weights) for a, source in filled)


def _floors(a: TileAccess, width_bytes: int, rows: Ints) -> Ints:
    if a.source is not None:
        return floor_cp_async(a.kind, width_bytes, rows, a.source)
    return np.asarray(access.phases(a.kind, width_bytes, rows))


def is_merged(a: TileAccess, elem_bytes: int) -> NDArray[np.bool_]:
    """Which of the accesses are loads whose phases merge in pairs, shape (n,): fewer phases than a store would have."""
    if a.kind != "ld":
        return np.zeros(len(a.elements), bool)
    rows = _dense_bytes(a, elem_bytes)
    width_bytes = a.width_elems * elem_bytes
    return np.asarray(access.phases("ld", width_bytes, rows) < access.phases("st", width_bytes, rows))


def _dense_bytes(a: TileAccess, elem_bytes: int) -> Ints:
    """Byte offsets under a row-major layout, vectors moved to where they are aligned: equal where elements are."""
    first = a.elements // a.width_elems * a.width_elems
    return np.where(a.elements >= 0, first * elem_bytes, -1)


# ---------------------------------------------------------------- costs of many layouts
def count_wavefronts(
    layouts: Sequence[FamilyLayout], shape: Sequence[int], elem_bytes: int, accesses: Sequence[TileAccess]
) -> Ints:
    """Weighted wavefronts of each access under each layout, shape (layouts, accesses); -1 where a vector is cut.

    >>> from tilegen.auto_layout.families import enumerate_layouts
    >>> column = tile_access("ld", 1, [32 * lane for lane in range(32)])
    >>> count_wavefronts(enumerate_layouts((32, 32), 4)[:3], (32, 32), 4, [column]).ravel().tolist()
    [32, 1, 2]
    """
    return count_costs(layouts, shape, elem_bytes, accesses)[0]


def count_costs(
    layouts: Sequence[FamilyLayout], shape: Sequence[int], elem_bytes: int, accesses: Sequence[TileAccess]
) -> tuple[Ints, Ints]:
    """Weighted (wavefronts, sectors) of each access under each layout, each (layouts, accesses).

    -1 where a vector is cut. Sectors are those of cp.async, 0 for others.
    """
    result = np.full((2, len(layouts), len(accesses)), -1, np.int64)
    is_xor = np.array([f.change == "swizzle" for f in layouts], bool)
    for k, a in enumerate(accesses):
        fits = keep_vectors(layouts, shape, elem_bytes, a)
        for group, pattern in ((fits & is_xor, _xor_pattern), (fits & ~is_xor, _affine_pattern)):
            if group.any():
                some = [layouts[c] for c in np.flatnonzero(group).tolist()]
                few = _keep_one(a, pattern(a, shape, elem_bytes))
                result[:, group, k] = _count_group(some, shape, elem_bytes, few)
    return result[0], result[1]


def _count_group(layouts: Sequence[FamilyLayout], shape: Sequence[int], elem_bytes: int, a: TileAccess) -> Ints:
    step, is_full = max(1, _BATCH // max(1, len(a.elements))), bool((a.elements >= 0).all())
    counts = []
    for first in range(0, len(layouts), step):
        address = place_elements(layouts[first : first + step], shape, a.elements)
        rows = address * elem_bytes if is_full else np.where(address >= 0, address * elem_bytes, -1)
        found = _count_rows(a, a.width_elems * elem_bytes, rows.reshape(-1, access.WARP_LANES))
        counts.append(np.stack([np.asarray(f).reshape(address.shape[:2]) @ a.weights for f in found]))
    return np.concatenate(counts, axis=1)


def _count_rows(a: TileAccess, width_bytes: int, rows: Ints) -> tuple[Ints, Ints]:
    """(wavefronts, sectors) of each row of offsets: the accesses under one layout after the other."""
    if a.source is not None:
        return count_cp_async(a.kind, width_bytes, rows, np.tile(a.source, (len(rows) // len(a.source), 1)))
    found = np.asarray(access.wavefronts(a.kind, width_bytes, rows))
    return found, np.zeros_like(found)


def keep_vectors(
    layouts: Sequence[FamilyLayout], shape: Sequence[int], elem_bytes: int, a: TileAccess
) -> NDArray[np.bool_]:
    """Which layouts keep every vector of an access contiguous and aligned."""
    width = a.width_elems
    starts = first_elements(a)
    if width == 1 or not len(starts):
        return np.ones(len(layouts), bool)
    crosses = bool((starts % shape[-1] + width > shape[-1]).any())
    is_dense = np.array([f.change != "padding" for f in layouts], bool)
    if (starts % width).any():
        return _keep_each(layouts, shape, width, np.unique(starts))
    fits = _keep_swizzled(layouts, width, int(np.bitwise_or.reduce(starts)))
    padded = [f for f in layouts if f.change == "padding"]
    if padded:
        keep = _keep_each if crosses else _keep_padded
        fits[~is_dense] = keep(padded, shape, width, starts)
    return fits


def first_elements(a: TileAccess) -> Ints:
    """The elements that its vectors begin with."""
    return a.elements[a.elements >= 0] if a.starts is None else a.starts


def _keep_swizzled(layouts: Sequence[FamilyLayout], width: int, used_bits: int) -> NDArray[np.bool_]:
    """Which XOR swizzles of the dense tile keep aligned vectors whose first elements have no bits but these set.

    The bits that are XORed must be the same for all of a vector, and none may reach below its width.
    """
    m, b, s = (np.array([f.bits[k] for f in layouts], np.int64) for k in range(3))
    reached = (used_bits >> (m + s) & (1 << b) - 1) << m
    return np.asarray((b == 0) | ((1 << m + s) >= width) & (reached & width - 1 == 0))


def _keep_padded(layouts: Sequence[FamilyLayout], shape: Sequence[int], width: int, starts: Ints) -> NDArray[np.bool_]:
    """Which paddings keep vectors that end in the row in which they begin: those that begin at multiples of them."""
    places = np.stack(np.unravel_index(starts, tuple(shape)), axis=1) % width
    strides = np.array([f.strides for f in layouts], np.int64)
    return np.asarray((places[distinct_rows(places)[0]] @ strides.T % width == 0).all(axis=0))


def _keep_each(layouts: Sequence[FamilyLayout], shape: Sequence[int], width: int, starts: Ints) -> NDArray[np.bool_]:
    """The same for any vectors, each placed under each layout."""
    fits = np.ones(len(layouts), bool)
    for vectors in (starts[:: max(1, len(starts) // _SAMPLE)], starts):
        elements = vectors[:, None] + np.arange(width)
        left = np.flatnonzero(fits)
        for some in np.array_split(left, -(-len(left) * elements.size // (_BATCH * access.WARP_LANES)) or 1):
            address = place_elements([layouts[c] for c in some.tolist()], shape, elements)
            whole = (address == address[..., :1] + np.arange(width)).all(axis=(1, 2))
            fits[some] = whole & ~(address[..., 0] % width).any(axis=1)
    return fits


# ---------------------------------------------------------------- equal patterns counted once
def _xor_pattern(a: TileAccess, shape: Sequence[int], elem_bytes: int) -> Ints:
    """What decides under a swizzle, which is linear over XOR: a base XORed in permutes banks and words alone."""
    first = np.take_along_axis(a.elements, np.argmax(a.elements >= 0, axis=1)[:, None], axis=1)
    return np.where(a.elements >= 0, a.elements ^ first, -1)


def _affine_pattern(a: TileAccess, shape: Sequence[int], elem_bytes: int) -> Ints:
    """What decides under strides: a base added by whole words turns the banks and changes no count."""
    active = a.elements >= 0
    at = np.stack(np.unravel_index(np.where(active, a.elements, 0), tuple(shape)), axis=1)  # (n, rank, 32)
    base = np.take_along_axis(at, np.argmax(active, axis=1)[:, None, None], axis=2)
    key = np.where(active[:, None, :], at - base, np.iinfo(np.int64).min)
    # With elements smaller than a word, the place in the word is part of the pattern; with cp.async that in the line.
    unit = max(1, (4 if a.source is None else access.LINE_BYTES) // elem_bytes)
    return np.concatenate([key.reshape(len(key), -1), base[:, :, 0] % unit], axis=1)


def merge_rows(a: TileAccess) -> TileAccess:
    """The access with equal rows as one, in the order in which they first come: trips of a loop make many such."""
    return _keep_one(a, a.elements, in_order=True)


def _keep_one(a: TileAccess, *keys: Ints, in_order: bool = False) -> TileAccess:
    """The access with one row for each distinct row of the keys (and place in the source), weights added up."""
    key = np.concatenate([*keys, *(() if a.source is None else (_from_line(a.source),))], axis=1)
    index, inverse = distinct_rows(key)
    weights = np.zeros(len(index), np.int64)
    np.add.at(weights, inverse, a.weights)
    if in_order:
        order = np.argsort(index)
        index, weights = index[order], weights[order]
    return replace(a, elements=a.elements[index], weights=weights, source=None if a.source is None else a.source[index])


def _origin(a: TileAccess) -> tuple[int, ...]:
    """128 bits that tell the accesses apart, whatever their order: of each row a number, mixed, times its weight."""
    rows = a.elements if a.source is None else np.concatenate([a.elements, _from_line(a.source)], axis=1)
    return tuple(int(mix_bits(hash_rows(rows, seed)) @ a.weights.astype(np.uint64)) for seed in (1, 2))


def _from_line(source: Ints) -> Ints:
    """Global offsets counted from the line of the first byte that is read: which lines they are makes no difference."""
    first = np.where(source >= 0, source, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
    return np.where(source >= 0, source - first // access.LINE_BYTES * access.LINE_BYTES, -1)


def fold(a: TileAccess, shape: Sequence[int], elem_bytes: int) -> TileAccess:
    """One access of each pattern that some layout could tell apart, inactive warps left out."""
    kept = (a.elements >= 0).any(axis=1)
    if not kept.any():
        return a
    source = None if a.source is None else a.source[kept]
    some = replace(a, elements=a.elements[kept], weights=a.weights[kept], source=source)
    starts = None
    if a.width_elems > 1:
        is_start = np.zeros(prod(shape), bool)
        is_start[some.elements[some.elements >= 0]] = True
        starts = np.flatnonzero(is_start)
    small = _keep_one(some, _xor_pattern(some, shape, elem_bytes), _affine_pattern(some, shape, elem_bytes))
    return replace(small, starts=starts, origin=_origin(some))
