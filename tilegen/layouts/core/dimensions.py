"""Layouts by the dimensions of a buffer: dense, grouped, transposed, sliced, in wider or narrower elements."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.errors import LayoutError
from tilegen.index import Index, add, bound, least, mul, sub
from tilegen.layouts.core.canonical import canonicalize
from tilegen.layouts.core.iters import (
    AXES,
    Iter,
    Iters,
    divide_exactly,
    product,
    require_axis,
    require_index,
    require_known,
    require_shape,
    row_major_strides,
    spell,
    split,
)
from tilegen.layouts.core.rows import counted_extents, drop_units, fuse_neighbours, group_iters, keep_threads
from tilegen.layouts.core.values import (
    ComposeLayout,
    Layout,
    SwizzleLayout,
    TileLayout,
    over_shape,
    swizzle_of,
    tile_of,
    with_tile,
)


# ---------------------------------------------------------------- dense
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


# ---------------------------------------------------------------- grouped, transposed, sliced
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
    return grouped, separate(tile_of(grouped).shard, shape)


def counted_shape(layout: Layout, shape: Sequence[Index]) -> tuple[Index, ...]:
    """The extents that a layout counts: ``shape``, and more where threads share a dimension unevenly.

    The slowest iter of such a dimension passes its end by less than a step. Raises LayoutError where the layout has
    another size even so.

    >>> from tilegen.layouts.notation import parse
    >>> counted_shape(parse("S[(3, 128):(1, 1@tx)]"), (1, 257)), counted_shape(parse("S[(8, 64):(64, 1)]"), (8, 64))
    ((1, 384), (8, 64))
    """
    return tuple(shape) if isinstance(layout, SwizzleLayout) else counted_extents(tile_of(layout).shard, shape)


def separate(shard: Iters, shape: Sequence[Index]) -> tuple[int, ...]:
    """Where the iters of each dimension end, when no iter crosses a boundary and no dimension is without one.

    >>> separate((Iter(2, 8), Iter(4, 2), Iter(8, 1)), (8, 8))
    (0, 2, 3)
    """
    separators, at = [0], 0
    for n in shape:
        first, at = at, at + 1
        while product(i.extent for i in shard[first:at]) != n:
            at += 1
        separators.append(at)
    return tuple(separators)


def permute_dims(layout: Layout, shape: Sequence[Index], axes: Sequence[int]) -> Layout:
    """The layout of the logical transpose: element y of shape[axes] lies where element x did, with y_k = x_axes[k].

    A thread axis of which the layout names one thread alone stays named. Raises LayoutError when ``axes`` is no
    permutation or the layout does not group by ``shape``.

    >>> from tilegen.layouts.notation import parse
    >>> print(permute_dims(parse("S[(8, 64):(64, 1)]"), (8, 64), (1, 0)))
    S[(64, 8):(1, 64)]
    >>> print(permute_dims(parse("S[(1, 2, 4):(1@tx, 4, 1)]"), (2, 4), (1, 0)))
    S[(1, 4, 2):(1@tx, 1, 4)]
    """
    if sorted(axes) != list(range(len(shape))):
        raise LayoutError(f"{tuple(axes)} is not a permutation of the {len(shape)} dimensions")
    grouped, ends = group_fused(layout, shape)
    tile = tile_of(grouped)
    shard = tuple(i for a in axes for i in tile.shard[ends[a] : ends[a + 1]])
    shard = keep_threads(shard or tile.shard, tile_of(layout).shard)
    turned = TileLayout(shard, tile.replica, tile.offset)
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


def group_fused(layout: Layout, shape: Sequence[Index]) -> tuple[Layout, tuple[int, ...]]:
    """Like group(), after fusing neighbours where iters and dimensions cross without it.

    Raises LayoutError when sizes differ or an iter crosses a dimension's boundary even so.

    >>> from tilegen.layouts.notation import parse
    >>> print(group_fused(parse("S[(4, 6):(6, 1)]"), (6, 4))[0])
    S[(6, 4):(4, 1)]
    """
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
    digits = split(begin, [i.extent for i in row])
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


# ---------------------------------------------------------------- the same bytes in wider or narrower elements
def unpack(layout: Layout, num: int, axis: str | None = None) -> TileLayout | ComposeLayout:
    """Each element as ``num`` neighbours: element num * x + k lies at num * layout(x) + k on ``axis``.

    Strides, replicas and offset on ``axis`` (default: the one memory axis, m without one) count the new elements, other
    axes stay. A bare swizzle is taken over one period. Raises LayoutError unless num >= 1, a power of two under a
    swizzle, and when no axis is named and there are several memory axes.

    >>> from tilegen.layouts.notation import parse
    >>> print(unpack(parse("S[(8, 4, 2):(4@laneid, 1@laneid, 1)]"), 2))
    S[(8, 4, 2, 2):(4@laneid, 1@laneid, 2, 1)]
    """
    tile, swizzle = _require_affine(layout), swizzle_of(layout)
    num, axis = _require_count(num), _memory_axis(tile, axis)

    def grow(name: str, value: Index) -> Index:
        return mul(value, num) if name == axis else value

    shard, replica = (
        tuple(Iter(i.extent, grow(i.axis, i.stride), i.axis) for i in iters) for iters in (tile.shard, tile.replica)
    )
    offset = tuple((name, grow(name, value)) for name, value in tile.offset)
    grown = TileLayout((*shard, Iter(num, 1, axis)), replica, offset)
    return grown if swizzle is None else ComposeLayout(_shift_bits(swizzle, _log2(num)), grown)


def pack(layout: Layout, num: int, axis: str | None = None) -> TileLayout | ComposeLayout:
    """Each ``num`` neighbours as one element, the inverse of unpack: element x lies at layout(num * x) / num.

    A bare swizzle is taken over one period. Raises LayoutError where the last ``num`` elements of the logical index
    are no neighbours on ``axis`` (default: the one memory axis), where a stride, replica or offset is no whole number
    of them, or where a swizzle tears them apart.

    >>> from tilegen.layouts.notation import parse
    >>> print(pack(parse("Swizzle(4, 3, 3) o S[(8, 128)]"), 2))
    Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]
    """
    tile, swizzle = _require_affine(layout), swizzle_of(layout)
    num, axis = _require_count(num), _memory_axis(tile, axis)
    rows = _split_last(tile, num, axis)
    if rows is None:
        raise LayoutError(f"the last {num} elements of {layout} are no neighbours on {axis}")

    shrunk, replica = (tuple(_shrink_iter(i, num, axis, layout) for i in iters) for iters in (rows[:-1], tile.replica))
    offset = tuple((name, _shrink(value, num if name == axis else 1, "offset", layout)) for name, value in tile.offset)
    packed = TileLayout((*shrunk, rows[-1]), replica, offset)
    return packed if swizzle is None else ComposeLayout(_shift_bits(swizzle, -_log2(num)), packed)


def _shrink_iter(i: Iter, num: int, axis: str, layout: Layout) -> Iter:
    if i.axis != axis or i.extent == 1:
        return i
    return Iter(i.extent, _shrink(i.stride, num, "stride", layout), axis)


def _shrink(value: Index, num: int, what: str, layout: Layout) -> Index:
    smaller = 0 if value == 0 else divide_exactly(value, num)
    if smaller is None:
        raise LayoutError(f"{what} {spell(value)} of {layout} is no whole number of {num} elements")
    return smaller


def _split_last(tile: TileLayout, num: int, axis: str) -> Iters | None:
    """The shard with its last iter counting packed elements; where it is too short, in the shortest form."""
    for shard in (tile.shard, tile_of(canonicalize(tile)).shard):
        last = shard[-1]
        if num == 1 and (last.axis != axis or last.stride != 1):
            return (*shard, Iter(1, 1, axis))
        count = divide_exactly(last.extent, num) if last.axis == axis and last.stride == 1 else None
        if count is not None:
            return (*shard[:-1], Iter(count, 1, axis))
    return None


def _require_affine(layout: Layout) -> TileLayout:
    if not isinstance(layout, (TileLayout, SwizzleLayout, ComposeLayout)):
        raise LayoutError(f"elements of tile, swizzle and compose layouts are packed, not of {layout}")
    return tile_of(layout)


def _require_count(num: int) -> int:
    if isinstance(num, bool) or not isinstance(num, int) or num < 1:
        raise LayoutError(f"elements are packed by an integer >= 1, not {num!r}")
    return num


def _memory_axis(tile: TileLayout, axis: str | None) -> str:
    if axis is not None:
        return require_axis(axis).name
    named = {i.axis for i in (*tile.shard, *tile.replica)} | {name for name, _ in tile.offset}
    memory = sorted(name for name in named if AXES[name].kind == "memory")
    if len(memory) > 1:
        raise LayoutError(f"{tile} has several memory axes", hint=f"name one of {', '.join(memory)}")
    return memory[0] if memory else "m"


def _log2(num: int) -> int:
    if num & (num - 1):
        raise LayoutError(f"under a swizzle, elements are packed by a power of two, not {num}")
    return num.bit_length() - 1


def _shift_bits(swizzle: SwizzleLayout, bits: int) -> SwizzleLayout:
    if swizzle.per_element + bits < 0:
        raise LayoutError(f"{swizzle} keeps {1 << swizzle.per_element} elements together, not {1 << -bits}")
    return SwizzleLayout(swizzle.per_element + bits, swizzle.swizzle_len, swizzle.atom_len, swizzle.inner)
