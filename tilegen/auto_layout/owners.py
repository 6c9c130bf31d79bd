"""Who owns the elements of a tile, as a value: read off a register layout, carried to another tile, compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen import layouts
from tilegen.errors import LayoutError
from tilegen.index import Index, add, multiple, sub
from tilegen.layouts import Iter, TileLayout
from tilegen.layouts.core.rows import drop_units, fuse_neighbours
from tilegen.ops.flows import Dims
from tilegen.scopes import SCOPES, THREAD_AXES
from tilegen.spec.data import Region
from tilegen.spec.placing import layout_axes

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Owners:
    """The owners of a tile of ``lengths``: iters of each dimension, outermost first, on thread axes and on m.

    On m only the order counts: in it a thread holds its elements. ``copies`` are iters of further threads that hold the
    same, ``first`` the place of element 0 on each axis that is not 0 there. ``axes``: all thread axes that decide;
    threads that differ on others hold the same.
    """

    lengths: tuple[int, ...]
    dims: tuple[tuple[Iter, ...], ...]
    copies: tuple[Iter, ...] = ()
    first: tuple[tuple[str, int], ...] = ()
    axes: frozenset[str] = frozenset()


def owners_of(layout: Any, shape: Sequence[Index], begins: Sequence[Index], lengths: Sequence[int]) -> Owners | None:
    """The owners of a box of a register tensor; None where it cuts across iters or its threads are not known.

    Of a dimension that threads share unevenly, iters count more than the length.

    >>> layout = layouts.parse("S[(4, 8, 2, 4):(2, 4@laneid, 1, 1@laneid)]")
    >>> [str(i) for i in owners_of(layout, (32, 8), (8, 0), (8, 8)).dims[0]]
    ['8:4@laneid']
    """
    tile = layouts.tile_of(layout)
    axes = frozenset(a for a in layout_axes(tile) if a != "m")
    try:
        counted = layouts.counted_shape(tile, shape)
        ends = [add(b, n) for b, n in zip(begins, lengths, strict=True)]
        ends = [m if e == n else e for e, n, m in zip(ends, shape, counted, strict=True)]
        box = list(zip(begins, ends, strict=True))
        piece = layouts.slice_layout(tile, counted, box) if prod(lengths) > 1 else TileLayout((Iter(1, 1),))
        grouped, bounds = layouts.group(piece, [sub(e, b) for b, e in box])
        place = tile.place(begins, counted)
    except LayoutError:
        return None
    first = [(axis, x) for axis, x in place.items() if axis != "m" and x != 0]
    rows = layouts.tile_of(grouped).shard
    known = [(axis, x) for axis, x in first if isinstance(x, int)]
    if len(known) < len(first) or not all(isinstance(i.extent, int) and isinstance(i.stride, int) for i in rows):
        return None
    dims = tuple(_fuse(rows[a:b]) for a, b in pairwise(bounds))
    return Owners(tuple(lengths), dims, _fuse_copies(tile.replica), tuple(sorted(known)), axes)


def owners_of_region(region: Region) -> Owners | None:
    """The owners of a region of a register tensor whose layout is known; None where they cannot be told."""
    return owners_of(region.buffer.layout, region.buffer.shape, region.begins, region.lengths)


def _fuse(iters: Iterable[Iter]) -> tuple[Iter, ...]:
    return fuse_neighbours(drop_units(tuple(iters)))


def _fuse_copies(iters: Iterable[Iter]) -> tuple[Iter, ...]:
    return _fuse(sorted(iters, key=lambda i: (i.axis, -_int(i.stride))))


def _int(x: Index) -> int:
    assert isinstance(x, int), "register layouts are constant"
    return x


# ---------------------------------------------------------------- from tile to tile
def lift(owners: Owners, dims: Dims, lengths: Sequence[int]) -> Owners | None:
    """An operand's owners as those of the tile that it lies on (``dims`` as in a Flow); None if it is stretched."""
    if any(d is None and n > 1 for d, n in zip(dims, lengths, strict=True)):
        return None
    rows = tuple(() if d is None else owners.dims[d] for d in dims)
    return Owners(tuple(lengths), rows, owners.copies, owners.first, owners.axes)


def project(owners: Owners, dims: Dims, lengths: Sequence[int]) -> Owners:
    """A tile's owners as those of an operand of ``lengths``: along what it is stretched, all threads own it.

    >>> rows = owners_of(layouts.parse("S[(8, 4, 2):(4@laneid, 1@laneid, 1)]"), (8, 8), (0, 0), (8, 8))
    >>> [str(i) for i in project(rows, (0, None), (8, 1)).copies]
    ['4:1@laneid']
    """
    rows: list[tuple[Iter, ...]] = [()] * len(lengths)
    copies = list(owners.copies)
    for d, row in zip(dims, owners.dims, strict=True):
        if d is None:
            copies += [i for i in row if i.axis != "m"]
        else:
            rows[d] = row
    return Owners(tuple(lengths), tuple(rows), _fuse_copies(copies), owners.first, owners.axes)


def extend(owners: Owners, begins: Sequence[Index], shape: Sequence[int]) -> TileLayout | None:
    """The layout of a tensor of which a box has these owners; what lies beside the box is held in more registers.

    None where the box is no whole part of the tensor, or is shared unevenly and not all along its dimension.
    """
    for begin, n, extent in zip(begins, owners.lengths, shape, strict=True):
        if extent % n or (n < extent and multiple(begin) % n):
            return None
    rows = [list(row) for row in owners.dims]
    if any(
        n < extent and prod(_int(i.extent) for i in r) > n
        for r, n, extent in zip(rows, owners.lengths, shape, strict=True)
    ):
        return None
    inside = [(d, k) for d, row in enumerate(rows) for k, i in enumerate(row) if i.axis == "m"]
    register = 1
    for d, k in sorted(reversed(inside), key=lambda at: _int(rows[at[0]][at[1]].stride)):
        extent = _int(rows[d][k].extent)
        rows[d][k] = Iter(extent, register)
        register *= extent
    for d in reversed(range(len(shape))):
        times = shape[d] // owners.lengths[d]
        rows[d].insert(0, Iter(times, register))
        register *= times
    shard = [i for row in rows for i in _fuse(row)]
    named = {i.axis for i in (*shard, *owners.copies)} | {axis for axis, _ in owners.first}
    lone = [Iter(1, 1, axis) for axis in THREAD_AXES if axis in owners.axes - named]
    return TileLayout(tuple(lone + shard) or (Iter(1, 1),), owners.copies, owners.first)


# ---------------------------------------------------------------- owners as functions
def are_equal(a: Owners, b: Owners, scope: str, threads: int) -> bool:
    """Whether each element of two tiles of equal lengths is held by the same threads of an instance of ``scope``."""
    if _threads_alone(a) == _threads_alone(b):
        return True
    mine, other = (_holders(o, scope, threads) for o in (a, b))
    return mine.shape == other.shape and bool((mine == other).all())


def _threads_alone(owners: Owners) -> tuple[object, ...]:
    rows = tuple(tuple((i.extent, i.stride, i.axis if i.axis != "m" else "") for i in r) for r in owners.dims)
    return rows, owners.copies, owners.first, owners.axes


def _holders(owners: Owners, scope: str, threads: int) -> Ints:
    """The threads that hold each element, in order, shape (elements, holders); -1 fills rows up."""
    axes = sorted(owners.axes)
    size = SCOPES[scope].size(threads)
    thread = np.arange(size)
    limits = {axis: threads // THREAD_AXES[axis].unit + 1 for axis in axes}
    of_thread = np.zeros(size, np.int64)
    for axis in axes:
        row = THREAD_AXES[axis]
        number = thread // row.unit
        of_thread = of_thread * limits[axis] + (number % (row.span // row.unit) if row.span else number)
    held = _keys(owners, axes, limits)
    keys, which = np.unique(of_thread, return_inverse=True)
    order = np.argsort(which, kind="stable")
    counts = np.bincount(which)
    members = np.full((len(keys), counts.max()), -1, np.int64)
    members[which[order], np.arange(size) - np.repeat(np.cumsum(counts) - counts, counts)] = thread[order]
    at = np.minimum(np.searchsorted(keys, held), len(keys) - 1)
    found = np.where((keys[at] == held)[:, :, None], members[at], -1)
    return np.sort(found.reshape(len(held), -1), axis=1)


def _keys(owners: Owners, axes: Sequence[str], limits: dict[str, int]) -> Ints:
    """What a thread's numbers on the axes must be to hold an element, as one number, shape (elements, copies)."""
    shard = tuple(i for row in owners.dims for i in row) or (Iter(1, 1),)
    tile = TileLayout(shard, (), owners.first)
    counted = [prod(_int(i.extent) for i in row) for row in owners.dims]
    elements = np.unravel_index(np.arange(prod(owners.lengths)), owners.lengths)
    copies = np.arange(prod(_int(i.extent) for i in owners.copies))
    place = tile.place(elements, counted)
    more = TileLayout(owners.copies or (Iter(1, 1),)).place([copies], (len(copies),))
    key = np.zeros((prod(owners.lengths), len(copies)), np.int64)
    for axis in axes:
        number = np.asarray(place.get(axis, 0)).reshape(-1, 1) + np.asarray(more.get(axis, 0)).reshape(1, -1)
        key = key * limits[axis] + number
    return key
