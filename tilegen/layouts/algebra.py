"""Operations on layouts: free functions that return new values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tilegen.errors import LayoutError
from tilegen.index import Index, Op, add, bound, least, mul, sub, substitute
from tilegen.layouts.axes import AXES, AXIS_ORDER, SCOPES, THREADS_IN, require_axis
from tilegen.layouts.iters import (
    Iter,
    Iters,
    divide_exactly,
    drop_units,
    extent_reached,
    fuse_neighbours,
    group_iters,
    is_symbolic,
    product,
    quotient,
    remainder,
    require_index,
    require_known,
    require_shape,
)
from tilegen.layouts.values import (
    ComposeLayout,
    Layout,
    SwizzleLayout,
    TileLayout,
    over_shape,
    permute_address,
    size,
    swizzle_of,
    tile_of,
)

ENUMERABLE = 1 << 22  # elements that an exact answer may enumerate


def _with_tile(layout: Layout, tile: TileLayout) -> TileLayout | ComposeLayout:
    swizzle = swizzle_of(layout)
    return tile if swizzle is None else ComposeLayout(swizzle, tile)


def bind(layout: Layout, values: Mapping[str, Index]) -> Layout:
    """The layout with runtime variables replaced by name.

    Raises LayoutError when a value makes an extent < 1.

    >>> from tilegen.index import Var
    >>> print(bind(TileLayout((Iter(Var("M", 100), 8), Iter(8, 1))), {"M": 4}))
    S[(4, 8):(8, 1)]
    """
    if isinstance(layout, SwizzleLayout):
        return layout
    tile = tile_of(layout)
    shard, replica = (
        tuple(Iter(substitute(i.extent, values), substitute(i.stride, values), i.axis) for i in iters)
        for iters in (tile.shard, tile.replica)
    )
    offset = {axis: substitute(value, values) for axis, value in tile.offset}
    return _with_tile(layout, TileLayout.from_iters(shard, replica, offset))


# ---------------------------------------------------------------- how far a layout reaches
def extent_of(layout: Layout, axis: str = "m", shape: Sequence[Index] | None = None) -> Index:
    """1 + the largest coordinate on ``axis``, over all elements and replicas, offset included: what to allocate.

    1 + O + sum of (extent - 1) * stride; 0 for an axis that the layout does not have. A bare swizzle is taken over
    ``shape`` (default: one period). Swizzled layouts are enumerated; above 2**22 elements, or with runtime extents,
    the answer is rounded up to whole swizzle blocks. Raises LayoutError for an unknown axis.

    >>> from tilegen.layouts.notation import parse
    >>> extent_of(parse("S[(32, 8):(9, 1)]")), extent_of(parse("S[8:1] + 16"))
    (287, 24)
    """
    require_axis(axis)
    layout = layout if shape is None else over_shape(layout, require_shape(shape))
    tile, swizzle = tile_of(layout), swizzle_of(layout)
    on_axis = [i for i in (*tile.shard, *tile.replica) if i.axis == axis]
    if not on_axis and axis not in dict(tile.offset):
        return 0
    extent = extent_reached(on_axis) + dict(tile.offset).get(axis, 0)
    return extent if swizzle is None else _swizzled_range(swizzle, tile, extent)[1]


def span(layout: Layout, axis: str | None = None) -> Index:
    """Elements from the smallest to the largest coordinate on ``axis`` (default: the one memory axis), both included.

    1 + sum of (extent - 1) * stride over shard and replica; 1 for an axis that the layout does not have. Raises
    LayoutError for an unknown axis, and when none is named and there are several memory axes.

    >>> from tilegen.layouts.notation import parse
    >>> span(parse("S[(8, 6):(8, 1)]")), span(parse("S[(8, 4, 2):(4@laneid, 1@laneid, 1)]"))
    (62, 2)
    """
    tile, swizzle = tile_of(layout), swizzle_of(layout)
    axis = _only_memory_axis(tile) if axis is None else require_axis(axis).name
    extent = extent_reached(i for i in (*tile.shard, *tile.replica) if i.axis == axis)
    if swizzle is None or axis != "m":
        return extent
    lowest, end = _swizzled_range(swizzle, tile, extent + dict(tile.offset).get("m", 0))
    return sub(end, lowest)


def _only_memory_axis(tile: TileLayout) -> str:
    named = [i.axis for i in (*tile.shard, *tile.replica)] + [axis for axis, _ in tile.offset]
    memory = {name for name in named if AXES[name].kind == "memory"}
    if len(memory) > 1:
        raise LayoutError(f"{tile} has several memory axes: name one of {', '.join(sorted(memory))}")
    return memory.pop() if memory else "m"


@lru_cache(maxsize=1024)
def _swizzled_range(swizzle: SwizzleLayout, tile: TileLayout, extent: Index) -> tuple[Index, Index]:
    """(smallest, 1 + largest) swizzled address of the tile's elements; ``extent`` is 1 + its largest plain address."""
    count = product(i.extent for i in (*tile.shard, *tile.replica))
    if isinstance(count, int) and isinstance(extent, int) and count <= ENUMERABLE:
        addresses = permute_address(swizzle, _enumerate_places(tile)["m"])
        return int(addresses.min()), int(addresses.max()) + 1
    high = swizzle.swizzle_len + (0 if swizzle.inner else swizzle.atom_len)
    block = 1 << (swizzle.per_element + high)
    return 0, mul(quotient(extent + (block - 1), block), block)


def _enumerate_places(tile: TileLayout) -> dict[str, np.ndarray]:
    """Every place of every element: arrays [replica, element] by axis."""
    copies = TileLayout((*tile.replica, *tile.shard), offset=tile.offset)
    replicas = require_known(product(i.extent for i in tile.replica), "the number of replicas")
    elements = require_known(size(tile), "the size")
    flat = np.arange(replicas * elements)
    return {axis: v.reshape(replicas, elements) for axis, v in copies.place((flat,), flat.shape).items()}


def is_injective(layout: Layout) -> bool:
    """Whether no place holds two logical elements (two replicas of one element may meet).

    Decided from the strides where they nest, else by enumeration. With runtime extents False means "not known".
    Raises LayoutError when neither decides: more than 2**22 places whose strides do not nest.

    >>> from tilegen.layouts.notation import parse
    >>> is_injective(parse("S[(8, 6):(8, 1)]")), is_injective(parse("S[(8, 2):(1, 1)]"))
    (True, False)
    """
    tile = tile_of(layout)
    iters = drop_units((*tile.shard, *tile.replica))
    if all(_nests([i for i in iters if i.axis == axis]) for axis in {i.axis for i in iters}):
        return True
    count = product(i.extent for i in iters)
    if not isinstance(count, int) or any(is_symbolic(i.stride) for i in iters):
        return False
    if count > ENUMERABLE:
        raise LayoutError(f"whether {layout} is injective is not decided for {count} places")
    return _enumerated_injective(tile)


def _nests(iters: list[Iter]) -> bool:
    """Each stride steps over everything that smaller ones reach: then the sum determines every component."""
    left = list(iters)
    covered: list[Iter] = []
    while left:
        reached = extent_reached(covered)
        fits = [i for i in left if _is_at_least(i.stride, reached)]
        if not fits:
            return False
        smallest = min(fits, key=lambda i: bound(i.stride))
        left.remove(smallest)
        covered.append(smallest)
    return True


def _is_at_least(a: Index, b: Index) -> bool:
    difference = sub(a, b)
    if isinstance(difference, int):
        return difference >= 0
    if isinstance(difference, Op) and difference.symbol == "-":  # terms of both signs are left: ask the ranges
        return least(a) >= bound(b) - 1
    return True


def _enumerated_injective(tile: TileLayout) -> bool:
    key: Any = 0
    for values in _enumerate_places(tile).values():
        key = key * (int(values.max()) + 1) + values.astype(np.int64)
    owners = np.broadcast_to(np.arange(np.shape(key)[1]), np.shape(key))
    pairs = np.unique(np.stack([np.ravel(key), np.ravel(owners)]), axis=1)
    return bool(len(np.unique(pairs[0])) == pairs.shape[1])


# ---------------------------------------------------------------- canonical form and scopes
def canonicalize(layout: Layout, fuse_threads: str | None = None) -> TileLayout | ComposeLayout:
    """The same map in its shortest form: units dropped, neighbours fused, replicas by falling stride.

    With ``fuse_threads`` (warpgroup or cta), thread axes that count inside each other become one: warpid and laneid
    become tx = 32 * warpid + laneid, wid_in_wg and laneid become tid_in_wg. A bare swizzle becomes one period of it.
    Raises LayoutError for a scope that is none.

    >>> from tilegen.layouts.notation import parse
    >>> print(canonicalize(parse("S[(8, 1, 4, 2):(4@laneid, 2, 1@laneid, 1)]")))
    S[(32, 2):(1@laneid, 1)]
    >>> print(canonicalize(parse("S[(2, 32):(1@warpid, 1@laneid)]"), fuse_threads="cta"))
    S[64:1@tx]
    """
    tile = tile_of(layout)
    first = Iter(1, 1, tile.shard[0].axis)
    tile = TileLayout(drop_units(tile.shard) or (first,), drop_units(tile.replica), tile.offset)
    if fuse_threads is not None:
        tile = _fuse_thread_axes(tile, fuse_threads)
    replica = tuple(sorted(tile.replica, key=_by_falling_stride))
    return _with_tile(layout, TileLayout(fuse_neighbours(tile.shard), replica, tile.offset))


def _by_falling_stride(i: Iter) -> tuple[int, int, str]:
    return AXIS_ORDER[i.axis], -bound(i.stride), str(i)


def get_scope(layout: Layout) -> tuple[str, str] | None:
    """What the shard's thread axes distribute over what: ("thread", "cta"), or None without thread axes.

    The axes must connect, each counting units of one scope inside the next. Raises LayoutError when they do not.

    >>> from tilegen.layouts.notation import parse
    >>> get_scope(parse("S[(2, 32):(1@wid_in_wg, 1@laneid)]"))
    ('thread', 'warpgroup')
    """
    tile = tile_of(layout)
    if all(AXES[i.axis].kind != "thread" for i in tile.shard):
        return None
    return _connect(_axis_names(tile), tile)


def _axis_names(tile: TileLayout) -> list[str]:
    return [i.axis for i in (*tile.shard, *tile.replica)] + [axis for axis, _ in tile.offset]


def _connect(names: list[str], tile: TileLayout) -> tuple[str, str]:
    steps: dict[str, str] = {}
    for name in dict.fromkeys(n for n in names if AXES[n].kind == "thread"):
        sub_scope, scope = AXES[name].sub, AXES[name].scope
        if steps.setdefault(sub_scope, scope) != scope:
            raise LayoutError(f"{tile} counts {sub_scope}s in a {steps[sub_scope]} and in a {scope}")
    first = last = min(steps, key=SCOPES.index)
    visited = 0
    while last in steps:
        last, visited = steps[last], visited + 1
    if visited != len(steps):
        raise LayoutError(f"the thread axes of {tile} do not connect: {first} to {last}, then a gap")
    return first, last


def _fuse_thread_axes(tile: TileLayout, scope: str) -> TileLayout:
    if scope not in SCOPES[1:]:
        raise LayoutError(f"threads fuse up to a scope of {', '.join(SCOPES[1:])}, not {scope!r}")
    fusable = {a.name for a in AXES.values() if a.kind == "thread" and SCOPES.index(a.scope) <= SCOPES.index(scope)}
    if not any(i.axis in fusable for i in tile.shard):
        return tile
    try:
        sub_scope, outer = _connect([n for n in _axis_names(tile) if n in fusable], tile)
    except LayoutError:
        return tile  # axes that do not connect have no common axis
    target = next(a.name for a in AXES.values() if (a.sub, a.scope) == (sub_scope, outer))

    def fuse(axis: str, value: Index) -> tuple[str, Index]:
        if axis not in fusable:
            return axis, value
        return target, mul(value, THREADS_IN[AXES[axis].sub] // THREADS_IN[sub_scope])

    def fuse_iters(iters: Iters) -> Iters:
        return tuple(Iter(i.extent, stride, axis) for i in iters for axis, stride in [fuse(i.axis, i.stride)])

    return TileLayout(fuse_iters(tile.shard), fuse_iters(tile.replica), tuple(fuse(*o) for o in tile.offset))


def storage(layout: Layout) -> Layout:
    """What one thread stores: the iters, replicas and offsets on memory axes alone.

    >>> from tilegen.layouts.notation import parse
    >>> print(storage(parse("S[(8, 4, 2):(4@laneid, 1@laneid, 1)]")))
    S[2:1]
    """
    if not isinstance(layout, TileLayout):
        return layout
    shard, replica = (tuple(i for i in iters if _is_memory(i.axis)) for iters in (layout.shard, layout.replica))
    return TileLayout(shard or (Iter(1, 1),), replica, tuple(o for o in layout.offset if _is_memory(o[0])))


def _is_memory(axis: str) -> bool:
    return AXES[axis].kind == "memory"


# ---------------------------------------------------------------- dimensions
def group(layout: Layout, shape: Sequence[Index]) -> tuple[TileLayout | ComposeLayout, tuple[int, ...]]:
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
    rows = group_iters(tile.shard, shape)
    separators = [0]
    for row in rows:
        separators.append(separators[-1] + len(row))
    shard = tuple(i for row in rows for i in row) or tile.shard
    return _with_tile(layout, TileLayout(shard, tile.replica, tile.offset)), tuple(separators)


def permute_dims(layout: Layout, shape: Sequence[Index], axes: Sequence[int]) -> TileLayout | ComposeLayout:
    """The layout of the logical transpose: element y of shape[axes] lies where element x did, with y_k = x_axes[k].

    Raises LayoutError when ``axes`` is no permutation or the layout does not group by ``shape``.

    >>> from tilegen.layouts.notation import parse
    >>> print(permute_dims(parse("S[(8, 64):(64, 1)]"), (8, 64), (1, 0)))
    S[(64, 8):(1, 64)]
    """
    if sorted(axes) != list(range(len(shape))):
        raise LayoutError(f"{tuple(axes)} is not a permutation of the {len(shape)} dimensions")
    grouped, ends = group(layout, shape)
    tile = tile_of(grouped)
    shard = tuple(i for a in axes for i in tile.shard[ends[a] : ends[a + 1]])
    return _with_tile(grouped, TileLayout(shard or tile.shard, tile.replica, tile.offset))


def slice_layout(
    layout: Layout, shape: Sequence[Index], region: Sequence[tuple[Index, Index]]
) -> TileLayout | ComposeLayout:
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
    tile = tile_of(canonicalize(layout))
    offset = dict(tile.offset)
    shard: list[Iter] = []
    for d, row in enumerate(group_iters(tile.shard, shape)):
        begin, length = _measure(region[d], shape[d], d)
        kept, base = _slice_row(fuse_neighbours(drop_units(row)) or row, begin, length, d)
        shard += kept
        for axis, value in base:
            offset[axis] = offset.get(axis, 0) + value
    return _with_tile(layout, TileLayout.from_iters(shard or tile.shard, tile.replica, offset))


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
        return [Iter(rest, cut.stride, cut.axis), *row[pivot + 1 :]], base
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
