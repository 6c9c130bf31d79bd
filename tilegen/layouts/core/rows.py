"""Rows of iters: fused, cut by the dimensions of a shape, measured, and where they place elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tilegen.errors import LayoutError
from tilegen.index import Index, add, mul, sub
from tilegen.index.runs import Run, fuse
from tilegen.layouts.core.iters import (
    AXES,
    Iter,
    Iters,
    divide_exactly,
    flatten,
    is_symbolic,
    product,
    require_shape,
    spell,
    spell_iters,
    split,
)


def drop_units(iters: Iters) -> Iters:
    """The iters without those of extent 1, which place nothing.

    >>> drop_units((Iter(1, 5), Iter(8, 1)))
    (Iter(extent=8, stride=1, axis='m'),)
    """
    return tuple(i for i in iters if is_symbolic(i.extent) or i.extent != 1)


def keep_threads(iters: Iters, before: Iterable[Iter]) -> Iters:
    """The iters, with a unit in front for each thread axis that only units of ``before`` name.

    Such a unit places nothing but says whose the elements are: those of thread 0 on its axis alone.

    >>> [str(i) for i in keep_threads((Iter(8, 1),), (Iter(1, 1, "laneid"), Iter(8, 1)))]
    ['1:1@laneid', '8:1']
    """
    named = {i.axis for i in iters}
    lost = dict.fromkeys(i.axis for i in before if AXES[i.axis].kind == "thread" and i.axis not in named)
    return (*(Iter(1, 1, axis) for axis in lost), *iters)


def fuse_neighbours(iters: Iters) -> Iters:
    """Neighbours (e0, e1 * s1), (e1, s1) on one axis become (e0 * e1, s1), which is the same map of the flat index.

    >>> fuse_neighbours((Iter(8, 8), Iter(8, 1)))
    (Iter(extent=64, stride=1, axis='m'),)
    """
    fused = fuse(Run(i.extent, (i.stride,), i.axis) for i in iters)
    return tuple(Iter(run.extent, run.strides[0], str(run.guard)) for run in fused)


def same_row(a: Iters, b: Iters) -> bool:
    """Whether two rows of iters are the same map of their dimension.

    >>> same_row((Iter(2, 4), Iter(4, 1)), (Iter(8, 1),))
    True
    """
    return fuse_neighbours(drop_units(a)) == fuse_neighbours(drop_units(b))


def group_iters(iters: Iters, shape: Sequence[Index]) -> tuple[Iters, ...]:
    """Split and gather iters so that each dimension of ``shape`` is a row of its own.

    Units are dropped, but a dimension of 1 gets one, so that no row is empty. Raises LayoutError when sizes differ or
    the boundaries of an iter and of a dimension cross.

    >>> [[str(i) for i in row] for row in group_iters((Iter(4, 2), Iter(4, 16)), (2, 8))]
    [['2:4'], ['2:2', '4:16']]
    """
    waiting = list(reversed(drop_units(iters)))
    groups: list[Iters] = []
    for n in shape:
        row: list[Iter] = []
        while n != 1:
            n = _take(waiting, row, n, iters, shape)
        groups.append(tuple(row) or (_unit_beside(waiting, groups, iters),))
    if waiting:
        raise _cannot_group(iters, shape)
    return tuple(groups)


def _take(waiting: list[Iter], row: list[Iter], n: Index, iters: Iters, shape: Sequence[Index]) -> Index:
    """Move the next iter, or the slow part of it that fits, into ``row``; what is left of the dimension."""
    if not waiting:
        raise _cannot_group(iters, shape)
    head = waiting.pop()
    left = divide_exactly(n, head.extent)
    if left is not None:
        row.append(head)
        return left
    inner = divide_exactly(head.extent, n)
    if inner is None:
        raise _cannot_group(iters, shape)
    row.append(Iter(n, mul(head.stride, inner), head.axis))
    waiting.append(Iter(inner, head.stride, head.axis))
    return 1


def counted_extents(iters: Iters, shape: Sequence[Index]) -> tuple[Index, ...]:
    """The extents that the iters count: those of the shape, more where the slowest iter of a dimension passes its end.

    A dimension is passed by less than a step of that iter: 3 times 128 count 257, 4 times 128 do not. So threads share
    257 elements, and the last step is not whole. Raises LayoutError where the iters count another number of elements.

    >>> counted_extents((Iter(5, 3), Iter(3, 1), Iter(128, 1, "tx")), (5, 257))
    (5, 384)
    """
    return _counted_extents(tuple(iters), require_shape(shape))


@lru_cache(maxsize=4096)
def _counted_extents(iters: Iters, shape: tuple[Index, ...]) -> tuple[Index, ...]:
    if product(i.extent for i in iters) == product(shape):
        return shape
    waiting = list(reversed(drop_units(iters)))
    counted: list[Index] = []
    for n in shape:
        whole, row, left = list(waiting), list[Iter](), n
        try:
            while left != 1:
                left = _take(whole, row, left, iters, shape)
        except LayoutError:
            counted.append(_pass_end(waiting, n, iters, shape))
        else:
            waiting = whole
            counted.append(n)
    if waiting:
        raise _cannot_group(iters, shape)
    return tuple(counted)


def _pass_end(waiting: list[Iter], n: Index, iters: Iters, shape: Sequence[Index]) -> int:
    """Take the iters of a dimension whose end the slowest of them passes; how many they count."""
    count, slowest = 1, 0
    while waiting and isinstance(n, int) and count < n and isinstance(extent := waiting[-1].extent, int):
        count, slowest = count * extent, slowest or extent
        waiting.pop()
    if not isinstance(n, int) or count < n or count - count // slowest >= n:
        raise _cannot_group(iters, shape)
    return count


def _unit_beside(waiting: list[Iter], groups: list[Iters], iters: Iters) -> Iter:
    """A unit iter for a dimension of extent 1, dense with what follows it so that fusing drops no neighbour."""
    if waiting:
        return Iter(1, mul(waiting[-1].extent, waiting[-1].stride), waiting[-1].axis)
    near = groups[-1][-1] if groups else iters[-1]
    return Iter(1, near.stride, near.axis)


def _cannot_group(iters: Iters, shape: Sequence[Index]) -> LayoutError:
    sizes = f"{spell(product(i.extent for i in iters))} and {spell(product(shape))} elements"
    return LayoutError(f"{spell_iters('S', iters)} does not group by shape ({', '.join(map(spell, shape))}): {sizes}")


def count_tiles(shape: Sequence[Index], part: Sequence[Index]) -> tuple[Index, ...]:
    """How many tiles of ``part`` fill each dimension of ``shape``.

    Raises LayoutError when ranks differ or an extent is no whole number of tiles.

    >>> count_tiles((64, 32), (8, 4))
    (8, 8)
    """
    shape, part = require_shape(shape), require_shape(part)
    if len(shape) != len(part):
        raise LayoutError(f"a tile of {len(part)} dimensions of a shape of {len(shape)}")
    counts = [divide_exactly(n, p) for n, p in zip(shape, part, strict=True)]
    for d, count in enumerate(counts):
        if count is None:
            raise LayoutError(f"dimension {d}: {spell(shape[d])} is no whole number of tiles of {spell(part[d])}")
    return tuple(c for c in counts if c is not None)


def extent_reached(iters: Iterable[Iter]) -> Index:
    """1 + the largest sum of the iters' contributions: 1 + sum of extent * stride - sum of stride.

    Written so that runtime extents cancel: the extent of a dense M x N array is M * N.

    >>> extent_reached((Iter(8, 8), Iter(6, 1)))
    62
    >>> from tilegen.index import Var
    >>> print(extent_reached((Iter(Var("M", 9), Var("N", 9)), Iter(Var("N", 9), 1))))
    M * N
    """
    whole: Index = 1
    last: Index = 0
    for i in iters:
        whole, last = add(whole, mul(i.extent, i.stride)), add(last, i.stride)
    return sub(whole, last)


# ---------------------------------------------------------------- where elements lie
@lru_cache(maxsize=4096)
def _align(shard: Iters, shape: tuple[Index, ...]) -> tuple[Iters, ...] | None:
    """Fused iters of each dimension, or None where they do not align and the flat index must be split."""
    try:
        fused = fuse_neighbours(drop_units(shard)) or shard
        return tuple(drop_units(fuse_neighbours(row)) for row in group_iters(fused, shape))
    except LayoutError:
        if product(i.extent for i in shard) != product(shape):
            raise
        return None


def place_iters(shard: Iters, coords: Sequence[Any], shape: tuple[Index, ...]) -> dict[str, Any]:
    """Where the iters put the element at ``coords`` of a buffer of ``shape``: sum of component * stride, by axis.

    Each dimension is split on its own where it is a row of iters, else the flat index is. Raises LayoutError when the
    sizes differ.

    >>> place_iters((Iter(8, 4, "laneid"), Iter(2, 1)), (5, 1), (8, 2))
    {'laneid': 20, 'm': 1}
    """
    rows = _align(shard, shape)
    if rows is None:
        coords, rows = [flatten(coords, shape)], (fuse_neighbours(drop_units(shard)),)
    result: dict[str, Any] = {i.axis: 0 for i in shard}
    for x, row in zip(coords, rows, strict=True):
        for i, component in zip(row, split(x, [i.extent for i in row]), strict=False):
            result[i.axis] = result[i.axis] + component * i.stride
    return result


def require_inside(x: Any, n: Any, where: object) -> None:
    """Raises LayoutError for a coordinate that is no integer, negative, or not below ``n`` (None: there is no end).

    >>> require_inside(8, 8, "S[8:1]")
    Traceback (most recent call last):
    tilegen.errors.LayoutError: coordinate 8 is not below 8 in S[8:1]
    """
    if is_symbolic(x) or is_symbolic(n):
        return  # ranges of expressions are proved where they are used
    values = np.asarray(x)
    if values.dtype.kind not in "iu":
        raise LayoutError(f"a coordinate is an integer, not {x!r}")
    if values.size and (values.min() < 0 or (n is not None and values.max() >= n)):
        outside = values.min() if values.min() < 0 else values.max()
        limit = "is negative" if n is None or outside < 0 else f"is not below {n}"
        raise LayoutError(f"coordinate {outside} {limit} in {where}")


def narrow_arrays(coords: Sequence[Any], shape: tuple[Index, ...], largest: Index) -> list[Any]:
    """Coordinates as arrays of int32 where every intermediate, ``largest`` at most, fits; else of int64.

    Raises LayoutError for positions that are not known or beyond 64 bits, and for coordinates that are no integers.

    >>> [x.dtype.name for x in narrow_arrays([np.arange(8), 3], (8, 4), 64)]
    ['int32', 'int32']
    """
    if not isinstance(largest, int):
        raise LayoutError("a layout with runtime extents places arrays only after bind() gave them values")
    if largest >= 2**63:
        raise LayoutError(f"positions up to {largest} do not fit 64 bits")
    if any(np.asarray(x).dtype.kind not in "iu" for x in coords):
        raise LayoutError("coordinates beside arrays are integers")
    inside = all(_is_inside(x, n) for x, n in zip(coords, shape, strict=True))
    dtype = np.int32 if inside and largest < 2**31 else np.int64
    return [np.asarray(x).astype(dtype, copy=False) for x in coords]


def _is_inside(x: Any, n: Any) -> bool:
    x = np.asarray(x)
    return x.size == 0 or bool(x.min() >= 0 and x.max() < n)
