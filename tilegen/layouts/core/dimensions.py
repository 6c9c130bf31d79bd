"""Layouts by the dimensions of a buffer: dense, grouped, transposed, sliced."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.errors import LayoutError
from tilegen.index import Index, add, bound, least, mul, sub
from tilegen.layouts.core.iters import (
    Iter,
    Iters,
    divide_exactly,
    drop_units,
    fuse_neighbours,
    group_iters,
    product,
    quotient,
    remainder,
    require_index,
    require_known,
    require_shape,
    row_major_strides,
)
from tilegen.layouts.core.values import Layout, TileLayout, over_shape, tile_of, with_tile


def row_major(shape: Sequence[Index]) -> TileLayout:
    """The dense layout whose last dimension is the fastest; extents may be runtime Index.

    Raises LayoutError for an empty shape and extents < 1.

    >>> print(row_major((8, 64)))
    S[(8, 64):(64, 1)]
    """
    shape = [require_index(n, "an extent", 1) for n in shape]
    return TileLayout(tuple(Iter(n, s) for n, s in zip(shape, row_major_strides(shape), strict=True)))


def column_major(shape: Sequence[Index]) -> TileLayout:
    """The dense layout whose first dimension is the fastest; extents may be runtime Index.

    Raises LayoutError for an empty shape and extents < 1.

    >>> print(column_major((8, 64)))
    S[(8, 64):(1, 8)]
    """
    shape = [require_index(n, "an extent", 1) for n in shape]
    return TileLayout(tuple(Iter(n, product(shape[:k])) for k, n in enumerate(shape)))


def group(layout: Layout, shape: Sequence[Index]) -> tuple[Layout, tuple[int, ...]]:
    """The same map with iters split so that dimension d of ``shape`` is the iters separators[d] to separators[d + 1].

    Raises LayoutError when sizes differ or an iter crosses a dimension's boundary.

    >>> from tilegen.layouts.notation import parse
    >>> grouped, separators = group(parse("S[(4, 2):(8@laneid, 32)]"), (2, 4))
    >>> print(grouped, separators)
    S[(2, 2, 2):(16@laneid, 8@laneid, 32)] (0, 1, 3)
    """
    shape = require_shape(shape)
    layout = over_shape(layout, shape)
    tile = tile_of(layout)
    shard = tuple(i for row in group_iters(tile.shard, shape) for i in row) or tile.shard
    grouped = with_tile(layout, TileLayout(shard, tile.replica, tile.offset), shape)
    return grouped, _separate(tile_of(grouped).shard, shape)


def _separate(shard: Iters, shape: Sequence[Index]) -> tuple[int, ...]:
    """Where the iters of each dimension end, when no iter crosses a boundary and no dimension is without one."""
    separators, at = [0], 0
    for n in shape:
        first, at = at, at + 1
        while product(i.extent for i in shard[first:at]) != n:
            at += 1
        separators.append(at)
    return tuple(separators)


def permute_dims(layout: Layout, shape: Sequence[Index], axes: Sequence[int]) -> Layout:
    """The layout of the logical transpose: element y of shape[axes] lies where element x did, with y_k = x_axes[k].

    Raises LayoutError when ``axes`` is no permutation or the layout does not group by ``shape``.

    >>> from tilegen.layouts.notation import parse
    >>> print(permute_dims(parse("S[(8, 64):(64, 1)]"), (8, 64), (1, 0)))
    S[(64, 8):(1, 64)]
    """
    if sorted(axes) != list(range(len(shape))):
        raise LayoutError(f"{tuple(axes)} is not a permutation of the {len(shape)} dimensions")
    grouped, ends = _group_or_fuse(layout, shape)
    tile = tile_of(grouped)
    shard = tuple(i for a in axes for i in tile.shard[ends[a] : ends[a + 1]])
    turned = TileLayout(shard or tile.shard, tile.replica, tile.offset)
    return with_tile(grouped, turned, [shape[a] for a in axes])


def permute_by_groups(layout: Layout, separators: Sequence[int], axes: Sequence[int]) -> Layout:
    """The layout whose groups of iters come in another order: group k of the result is group axes[k] of ``layout``.

    Group g is the shard iters separators[g] to separators[g + 1], as group() returns them. Raises LayoutError when the
    separators do not rise from 0 to the number of iters, and when ``axes`` is no permutation of the groups.

    >>> from tilegen.layouts.notation import parse
    >>> print(permute_by_groups(parse("S[(8, 4, 2):(8, 2, 1)]"), (0, 1, 3), (1, 0)))
    S[(4, 2, 8):(2, 1, 8)]
    """
    tile, ends = tile_of(layout), tuple(separators)
    if not ends or ends[0] != 0 or ends[-1] != len(tile.shard) or list(ends) != sorted(ends):
        raise LayoutError(f"separators {ends} do not cut the {len(tile.shard)} iters of {tile}")
    if sorted(axes) != list(range(len(ends) - 1)):
        raise LayoutError(f"{tuple(axes)} is not a permutation of the {len(ends) - 1} groups")
    shard = tuple(i for a in axes for i in tile.shard[ends[a] : ends[a + 1]])
    return with_tile(layout, TileLayout(shard, tile.replica, tile.offset))


def _group_or_fuse(layout: Layout, shape: Sequence[Index]) -> tuple[Layout, tuple[int, ...]]:
    """Grouped, after fusing neighbours where iters and dimensions cross without it."""
    try:
        return group(layout, shape)
    except LayoutError:
        tile = tile_of(layout)
        fused = fuse_neighbours(drop_units(tile.shard)) or tile.shard
        return group(with_tile(layout, TileLayout(fused, tile.replica, tile.offset)), shape)


def slice_layout(layout: Layout, shape: Sequence[Index], region: Sequence[tuple[Index, Index]]) -> Layout:
    """The layout of a box of a buffer: element x of the slice lies where element x + begin of the buffer does.

    ``region`` is (begin, end) for each dimension of ``shape``; lengths must be known, begins may be Index. The base
    offset stays. Raises LayoutError for a box outside the shape and for one that no iters describe.

    >>> from tilegen.layouts.notation import parse
    >>> print(slice_layout(parse("S[(8, 64):(64, 1)] + 5"), (8, 64), [(2, 4), (0, 64)]))
    S[(2, 64):(64, 1)] + 133
    """
    if len(region) != len(shape):
        raise LayoutError(f"a region of {len(region)} dimensions of a shape of {len(shape)}")
    shape = require_shape(shape)
    layout = over_shape(layout, shape)
    tile = tile_of(layout)
    fused = fuse_neighbours(drop_units(tile.shard)) or tile.shard
    offset = dict(tile.offset)
    shard: list[Iter] = []
    for d, row in enumerate(group_iters(fused, shape)):
        begin, length = _measure(region[d], shape[d], d)
        kept, base = _slice_row(fuse_neighbours(drop_units(row)) or row, begin, length, d)
        shard += kept
        for axis, value in base:
            offset[axis] = offset.get(axis, 0) + value
    lengths = [_measure(piece, n, d)[1] for d, (piece, n) in enumerate(zip(region, shape, strict=True))]
    return with_tile(layout, TileLayout.from_iters(shard or tile.shard, tile.replica, offset), lengths)


def _measure(piece: tuple[Index, Index], n: Index, d: int) -> tuple[Index, int]:
    begin, end = (require_index(x, "a bound of a slice", 0) for x in piece)
    length = require_known(sub(end, begin), f"the length of dimension {d} of a slice")
    outside = isinstance(begin, int) and isinstance(n, int) and not 0 <= begin < begin + length <= n
    if length < 1 or outside:
        raise LayoutError(f"[{begin}, {end}) of dimension {d} is not inside [0, {n})")
    return begin, length


def _slice_row(row: Iters, begin: Index, length: int, d: int) -> tuple[list[Iter], list[tuple[str, Index]]]:
    """The iters of one sliced dimension, and where its first element lies.

    Whole fast iters stay; the next one is cut, its range either inside the iter or in two equal halves across its
    end, which are two steps of another stride.
    """
    digits = _digits(row, begin)
    base = [(i.axis, mul(digit, i.stride)) for i, digit in zip(row, digits, strict=True)]
    pivot, rest = len(row) - 1, length
    while pivot and digits[pivot] == 0 and (left := divide_exactly(rest, row[pivot].extent)) is not None:
        pivot, rest = pivot - 1, require_known(left, "a length")
    cut, digit = row[pivot], digits[pivot]
    if pivot == 0 or bound(digit) - 1 + rest <= least(cut.extent):
        kept = (Iter(rest, cut.stride, cut.axis), *row[pivot + 1 :])
        return list(drop_units(kept) or kept), base
    halves = _cut_across(row[pivot - 1], digits[pivot - 1], cut, digit, rest)
    if halves is None:
        raise LayoutError(f"elements {begin} to {add(begin, length)} of dimension {d} are no whole number of strides")
    return [*halves, *row[pivot + 1 :]], base


def _digits(row: Iters, begin: Index) -> list[Index]:
    digits: list[Index] = []
    for i in reversed(row[1:]):
        digits.append(remainder(begin, i.extent))
        begin = quotient(begin, i.extent)
    return [begin, *reversed(digits)]


def _cut_across(slow: Iter, slow_digit: Index, cut: Iter, digit: Index, rest: int) -> list[Iter] | None:
    """Two halves across the end of ``cut``: one step further on ``slow``, back to 0 on ``cut``."""
    numbers = (cut.extent, cut.stride, slow.stride, slow.extent, slow_digit, digit)
    extent, stride, slow_stride, slow_extent, slow_at, at = (n if isinstance(n, int) else -1 for n in numbers)
    half, step = rest // 2, slow_stride - at * stride
    if min(extent, stride, slow_stride, slow_extent, slow_at, at) < 0 or slow.axis != cut.axis:
        return None
    if rest % 2 or at + half != extent or slow_at + 1 >= slow_extent or step < 0:
        return None
    return [Iter(2, step, cut.axis), Iter(half, stride, cut.axis)]
