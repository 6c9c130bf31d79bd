"""What warps do with a shared tile, in logical coordinates, and what that costs under each layout of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilegen import access
from tilegen.choose.layout_families import FamilyLayout, Ints, place_elements

_BATCH = 1 << 15  # accesses of 32 lanes that are placed at a time
_SAMPLE = 64  # vectors that are looked at before all are


@dataclass(frozen=True, eq=False)
class TileAccess:
    """Warp accesses of one kind and width. ``elements``: the row-major number of the first element that each lane
    touches, -1 for an inactive lane, shape (n, 32); ``weights``: how often each runs per CTA, shape (n,).
    """

    kind: str  # as in tilegen.access: ld, st, ldmatrix4, ...
    width_elems: int
    elements: Ints
    weights: Ints

    @property
    def instructions(self) -> int:
        return int(self.weights.sum())


def tile_access(kind: str, width_elems: int, elements: ArrayLike, weights: ArrayLike = 1) -> TileAccess:
    """Accesses from anything like arrays: ``elements`` (32,) or (n, 32), ``weights`` one number or n.

    Raises ValueError for an unknown kind, a width that is no power of two, and other shapes.

    >>> tile_access("st", 1, range(32), 4).instructions
    4
    """
    rows = np.atleast_2d(np.asarray(elements, np.int64))
    if kind not in access.KINDS:
        raise ValueError(f"unknown kind of access {kind!r}: one of {', '.join(access.KINDS)}")
    if width_elems < 1 or width_elems & (width_elems - 1):
        raise ValueError(f"a vector has 1, 2, 4, ... elements, not {width_elems}")
    if rows.ndim != 2 or rows.shape[1] != access.WARP_LANES:
        raise ValueError(f"elements have shape (32,) or (n, 32), one per lane, not {rows.shape}")
    return TileAccess(kind, width_elems, rows, np.broadcast_to(np.asarray(weights, np.int64), (len(rows),)))


def count_floor(shape: Sequence[int], elem_bytes: int, accesses: Iterable[TileAccess]) -> int:
    """Wavefronts that the accesses take at least under any layout: one for each phase.

    >>> count_floor((32, 32), 4, [tile_access("ld", 1, [32 * lane for lane in range(32)])])
    1
    """
    rows = ((a, _dense_bytes(a, elem_bytes)) for a in accesses)
    return sum(int(access.phases(a.kind, a.width_elems * elem_bytes, at) @ a.weights) for a, at in rows)


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


# ---------------------------------------------------------------- wavefronts of many layouts
def count_wavefronts(
    layouts: Sequence[FamilyLayout], shape: Sequence[int], elem_bytes: int, accesses: Sequence[TileAccess]
) -> Ints:
    """Weighted wavefronts of each access under each layout, shape (layouts, accesses); -1 where a vector is cut.

    >>> from tilegen.choose.layout_families import enumerate_layouts
    >>> column = tile_access("ld", 1, [32 * lane for lane in range(32)])
    >>> count_wavefronts(enumerate_layouts((32, 32), 4)[:3], (32, 32), 4, [column]).ravel().tolist()
    [32, 1, 2]
    """
    result = np.full((len(layouts), len(accesses)), -1, np.int64)
    is_xor = np.array([f.family == "swizzle" for f in layouts], bool)
    for k, a in enumerate(accesses):
        fits = keep_vectors(layouts, shape, elem_bytes, a)
        for group, folded in ((fits & is_xor, _fold_xor), (fits & ~is_xor, _fold_affine)):
            if group.any():
                some = [layouts[c] for c in np.flatnonzero(group).tolist()]
                result[group, k] = _count_group(some, shape, elem_bytes, folded(a, shape, elem_bytes))
    return result


def _count_group(layouts: Sequence[FamilyLayout], shape: Sequence[int], elem_bytes: int, a: TileAccess) -> Ints:
    step = max(1, _BATCH // max(1, len(a.elements)))
    counts = []
    for first in range(0, len(layouts), step):
        address = place_elements(layouts[first : first + step], shape, a.elements)
        rows = np.where(address >= 0, address * elem_bytes, -1).reshape(-1, access.WARP_LANES)
        found = access.wavefronts(a.kind, a.width_elems * elem_bytes, rows)
        counts.append(np.asarray(found).reshape(address.shape[:2]) @ a.weights)
    return np.concatenate(counts)


def keep_vectors(
    layouts: Sequence[FamilyLayout], shape: Sequence[int], elem_bytes: int, a: TileAccess
) -> NDArray[np.bool_]:
    """Which layouts keep every vector of an access contiguous and aligned."""
    width = a.width_elems
    fits = np.ones(len(layouts), bool)
    starts = np.unique(a.elements[a.elements >= 0])
    if width == 1 or not len(starts):
        return fits
    unsure = np.array([not _surely_keeps(f, shape, width) for f in layouts]) | bool((starts % width).any())
    for vectors in (starts[:: max(1, len(starts) // _SAMPLE)], starts):
        for c in np.flatnonzero(unsure & fits).tolist():
            address = place_elements([layouts[c]], shape, vectors[:, None] + np.arange(width))[0]
            whole = (address == address[:, :1] + np.arange(width)).all()
            fits[c] = whole and not (address[:, 0] % width).any()
    return fits


def _surely_keeps(f: FamilyLayout, shape: Sequence[int], width: int) -> bool:
    """Whether every aligned vector stays whole, seen from the layout's numbers alone."""
    m, b, _ = f.bits
    if b:
        return (1 << m) % width == 0
    return shape[-1] % width == 0 and all(s % width == 0 for s in f.strides[:-1])


# ---------------------------------------------------------------- equal patterns counted once
def _fold_xor(a: TileAccess, shape: Sequence[int], elem_bytes: int) -> TileAccess:
    """One access of each pattern: a swizzle is linear over XOR, so a base XORed in permutes banks and words alone."""
    first = _first_active(a)
    key = np.where(a.elements >= 0, a.elements ^ first[:, None], -1)
    return _keep_one(a, key)


def _fold_affine(a: TileAccess, shape: Sequence[int], elem_bytes: int) -> TileAccess:
    """One access of each pattern: a base added by whole words turns the banks and changes no count."""
    active = a.elements >= 0
    at = np.stack(np.unravel_index(np.where(active, a.elements, 0), tuple(shape)), axis=1)  # (n, rank, 32)
    base = np.take_along_axis(at, np.argmax(active, axis=1)[:, None, None], axis=2)
    key = np.where(active[:, None, :], at - base, np.iinfo(np.int64).min)
    words = max(1, 4 // elem_bytes)  # with elements smaller than a word, the place in the word is part of the pattern
    return _keep_one(a, np.concatenate([key.reshape(len(key), -1), base[:, :, 0] % words], axis=1))


def _first_active(a: TileAccess) -> Ints:
    return np.asarray(np.take_along_axis(a.elements, np.argmax(a.elements >= 0, axis=1)[:, None], axis=1)[:, 0])


def _keep_one(a: TileAccess, key: Ints) -> TileAccess:
    """The access with one row for each distinct row of ``key``, weights added up."""
    _, index, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
    weights = np.zeros(len(index), np.int64)
    np.add.at(weights, inverse.ravel(), a.weights)
    return replace(a, elements=a.elements[index], weights=weights)


def fold(a: TileAccess) -> TileAccess:
    """The same accesses with equal rows written once, inactive warps left out."""
    kept = (a.elements >= 0).any(axis=1)
    some = replace(a, elements=a.elements[kept], weights=a.weights[kept])
    return _keep_one(some, some.elements) if kept.any() else some
