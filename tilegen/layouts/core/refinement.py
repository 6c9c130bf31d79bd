"""Layouts by several shapes at once, the part of a coordinate that each iter counts, and repeated elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tilegen.errors import LayoutError
from tilegen.index import Index
from tilegen.layouts.core.dimensions import group, separate
from tilegen.layouts.core.iters import (
    Iter,
    divide_exactly,
    flatten,
    product,
    require_axis,
    require_index,
    require_shape,
    spell,
    split,
)
from tilegen.layouts.core.values import Layout, SwizzleLayout, TileLayout, over_shape, tile_of, with_tile


def group_many(layout: Layout, shapes: Sequence[Sequence[Index]]) -> tuple[Layout, tuple[tuple[int, ...], ...]]:
    """The same map with iters split as little as all shapes need, and the separators of each shape, as group() has.

    The common refinement of the shapes cuts wherever one of them does; a dimension of 1 is an iter of its own. Raises
    LayoutError when sizes differ, boundaries of two shapes cross, or an iter crosses one.

    >>> from tilegen.layouts.notation import parse
    >>> grouped, separators = group_many(parse("S[64:1]"), ((8, 8), (2, 32)))
    >>> print(grouped, separators)
    S[(2, 4, 8):(32, 8, 1)] ((0, 2, 3), (0, 1, 3))
    """
    if not shapes:
        raise LayoutError("there is no shape to group by")
    known = [require_shape(shape) for shape in shapes]
    refined = known[0]
    for shape in known[1:]:
        refined = _refine(refined, shape)
    grouped, _ = group(layout, refined)
    shard = tile_of(grouped).shard
    return grouped, tuple((*separate(shard, shape)[:-1], len(shard)) for shape in known)  # units behind the last too


def _refine(a: tuple[Index, ...], b: tuple[Index, ...]) -> tuple[Index, ...]:
    """The shape that cuts where a or b does, with as few units as both need."""
    left, right, found = list(reversed(a)), list(reversed(b)), list[Index]()
    while left and right:
        m, n = left.pop(), right.pop()
        if m == n:
            found.append(m)
        elif 1 in (m, n):
            found.append(1)
            (left if n == 1 else right).append(m if n == 1 else n)
        elif (rest := divide_exactly(m, n)) is not None:
            found.append(n)
            left.append(rest)
        elif (rest := divide_exactly(n, m)) is not None:
            found.append(m)
            right.append(rest)
        else:
            raise _no_refinement(a, b)
    if any(n != 1 for n in (*left, *right)):
        raise _no_refinement(a, b)
    return (*found, *left, *right)


def _no_refinement(a: Sequence[Index], b: Sequence[Index]) -> LayoutError:
    one, other = (f"({', '.join(spell(n) for n in shape)})" for shape in (a, b))
    return LayoutError(f"{one} and {other} have no common refinement: their sizes differ, or their boundaries cross")


def apply_to_shape(layout: Layout, coords: Sequence[Any], shape: Sequence[Index]) -> tuple[tuple[Iter, Any], ...]:
    """Each shard iter with the number that it counts at an element of a buffer of ``shape``: a digit of a coordinate.

    Iters are those of group(layout, shape), and the layout's own where it does not group so. The digits times the
    strides, with the offset, are where a tile puts the element. ``coords`` are ints, arrays or Index. Raises
    LayoutError for another number of coordinates or elements.

    >>> from tilegen.layouts.notation import parse
    >>> [(str(i), n) for i, n in apply_to_shape(parse("S[(4, 8):(8@laneid, 1)]"), (13, 1), (16, 2))]
    [('4:8@laneid', 3), ('4:2', 1), ('2:1', 1)]
    """
    shape = require_shape(shape)
    if len(coords) != len(shape):
        raise LayoutError(f"{len(coords)} coordinates for {len(shape)} dimensions")
    layout = over_shape(layout, shape)
    try:
        grouped, ends = group(layout, shape)
    except LayoutError:
        shard = tile_of(layout).shard
        if product(i.extent for i in shard) != product(shape):
            raise
        return tuple(zip(shard, split(flatten(coords, shape), [i.extent for i in shard]), strict=True))
    shard = tile_of(grouped).shard
    digits = [
        digit
        for x, (first, last) in zip(coords, pairwise(ends), strict=True)
        for digit in split(x, [i.extent for i in shard[first:last]])
    ]
    return tuple(zip(shard, digits, strict=True))


def broadcast(layout: Layout, num: Index, position: int = -1, axis: str = "m") -> Layout:
    """The layout with one more iter of ``num`` that moves nothing: each element is there that many times.

    ``position``: before which shard iter, -1 behind the last. Raises LayoutError for a position that there is not, and
    for a bare swizzle, which has no iters.

    >>> from tilegen.layouts.notation import parse
    >>> print(broadcast(parse("S[(8, 4):(4, 1)]"), 2, 1))
    S[(8, 2, 4):(4, 0, 1)]
    """
    if isinstance(layout, SwizzleLayout):
        raise LayoutError(f"{layout} has no iters: compose it with a tile first")
    tile, num = tile_of(layout), require_index(num, "an extent", 1)
    count = len(tile.shard) + 1
    if isinstance(position, bool) or not isinstance(position, int) or not -count <= position < count:
        raise LayoutError(f"position {position!r} is not one of the {count} places between {count - 1} iters")
    at = position % count
    shard = (*tile.shard[:at], Iter(num, 0, require_axis(axis).name), *tile.shard[at:])
    return with_tile(layout, TileLayout(shard, tile.replica, tile.offset))
