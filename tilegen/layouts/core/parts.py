"""Layouts cut into one row of iters for each dimension: what sums and tiles are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.errors import LayoutError
from tilegen.index import Index, sub
from tilegen.layouts.core.canonical import canonicalize
from tilegen.layouts.core.iters import Iter, Iters, drop_units, fuse_neighbours, group_iters, require_shape
from tilegen.layouts.core.threads import spell_threads_as
from tilegen.layouts.core.values import (
    ComposeLayout,
    Layout,
    SwizzleLayout,
    TileLayout,
    over_shape,
    swizzle_of,
    tile_of,
)

Offset = dict[str, Index]


@dataclass(frozen=True)
class Part:
    """A layout cut into one row of iters for each dimension of its shape."""

    rows: tuple[Iters, ...]
    replica: Iters
    offset: tuple[tuple[str, Index], ...]
    swizzle: SwizzleLayout | None

    def build(self) -> TileLayout | ComposeLayout:
        shard = tuple(i for row in self.rows for i in row)
        tile = TileLayout(shard or (Iter(1, 1),), self.replica, self.offset)
        return tile if self.swizzle is None else ComposeLayout(self.swizzle, tile)


def cut(layout: Layout, shape: Sequence[Index]) -> Part:
    """The canonical form of ``layout``, grouped by ``shape``; a bare swizzle is taken over that shape.

    Raises LayoutError where it does not group, and for layouts that are no tile under a swizzle.

    >>> print(cut(TileLayout((Iter(8, 2),)), (2, 4)).rows[1][0])
    4:2
    """
    if not isinstance(layout, (TileLayout, SwizzleLayout, ComposeLayout)):
        raise LayoutError(f"tiles and sums are of tile, swizzle and compose layouts, not of {layout}")
    shape = require_shape(shape)
    found = canonicalize(over_shape(layout, shape))
    tile = tile_of(found)
    return Part(group_iters(tile.shard, shape), tile.replica, tile.offset, swizzle_of(found))


def join(left: Part, right: Part) -> TileLayout | ComposeLayout:
    """The canonical sum of two parts of one rank, dimension by dimension: a row of left, then that of right.

    Raises LayoutError when ranks differ.

    >>> print(join(cut(TileLayout((Iter(2, 4),)), (2,)), cut(TileLayout((Iter(4, 1),)), (4,))))
    S[8:1]
    """
    if len(left.rows) != len(right.rows):
        raise LayoutError(f"shapes of {len(left.rows)} and of {len(right.rows)} dimensions do not interleave")
    rows = tuple(row for pair in zip(left.rows, right.rows, strict=True) for row in pair)
    return canonicalize(Part(rows, right.replica + left.replica, left.offset + right.offset, right.swizzle).build())


def require_plain(part: Part, what: str) -> None:
    """Raises LayoutError when a part is swizzled that has to be added or stretched.

    >>> require_plain(cut(TileLayout((Iter(8, 1),)), (8,)), "the outer layout")
    """
    if part.swizzle is not None:
        raise LayoutError(
            f"{what} is a tile layout, not one under {part.swizzle}: a swizzle acts on the sum of addresses",
            hint="swizzle the right (inner) layout, or compose the swizzle with the result",
        )


def same_row(a: Iters, b: Iters) -> bool:
    """Whether two rows of iters are the same map of their dimension.

    >>> same_row((Iter(2, 4), Iter(4, 1)), (Iter(8, 1),))
    True
    """
    return fuse_neighbours(drop_units(a)) == fuse_neighbours(drop_units(b))


def without(whole: Iters, part: Iters) -> Iters | None:
    """The replicas of ``whole`` less those of ``part``, each once; None when one is missing.

    >>> without((Iter(2, 4), Iter(2, 8)), (Iter(2, 4),))
    (Iter(extent=2, stride=8, axis='m'),)
    """
    left = list(whole)
    for i in part:
        if i not in left:
            return None
        left.remove(i)
    return tuple(left)


def subtract_offset(whole: Sequence[tuple[str, Index]], part: Sequence[tuple[str, Index]]) -> Offset | None:
    """The offset of ``whole`` less that of ``part``; None where it would be negative.

    >>> subtract_offset((("m", 5),), (("m", 2),))
    {'m': 3}
    """
    left: Offset = dict(whole)
    for axis, value in part:
        rest = sub(left.get(axis, 0), value)
        if isinstance(rest, int) and rest < 0:
            return None
        left[axis] = rest
    return left


def cut_whole(tiled: Layout, tiled_shape: Sequence[Index], like: Layout) -> Part | None:
    """``tiled`` with its thread axes spelled as those of ``like``, cut by an interleaved shape; None where it does not.

    >>> whole = cut_whole(TileLayout((Iter(64, 1, "tx"),)), (2, 32), TileLayout((Iter(32, 1, "laneid"),)))
    >>> [str(i) for row in whole.rows for i in row]
    ['2:1@warpid', '32:1@laneid']
    """
    if isinstance(tiled, SwizzleLayout):
        tiled = over_shape(tiled, require_shape(tiled_shape))
    try:
        return cut(spell_threads_as(tiled, tile_of(like)), tiled_shape)
    except LayoutError:
        return None


def remove(part: Part, whole: Part, is_left: bool) -> Part | None:
    """What must be added to ``part`` to get ``whole``; None when nothing does.

    >>> remove(cut(TileLayout((Iter(4, 1),)), (4,)), cut(TileLayout((Iter(8, 1),)), (2, 4)), is_left=False).rows
    ((Iter(extent=2, stride=4, axis='m'),),)
    """
    ours, others = (whole.rows[0::2], whole.rows[1::2]) if is_left else (whole.rows[1::2], whole.rows[0::2])
    if not all(same_row(a, b) for a, b in zip(part.rows, ours, strict=True)):
        return None
    if part.swizzle != (None if is_left else whole.swizzle):
        return None
    replica, offset = without(whole.replica, part.replica), subtract_offset(whole.offset, part.offset)
    if replica is None or offset is None:
        return None
    return Part(others, replica, tuple(offset.items()), whole.swizzle if is_left else None)
