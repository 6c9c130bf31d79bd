"""Layouts side by side, as direct sums and as tiles of each other; and the parts of such a layout back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from tilegen.errors import LayoutError
from tilegen.index import Index, mul, sub
from tilegen.layouts.core.canonical import canonicalize, spell_threads_as
from tilegen.layouts.core.dimensions import row_major
from tilegen.layouts.core.iters import Iter, Iters, divide_exactly, product, require_shape, spell
from tilegen.layouts.core.rows import count_tiles, extent_reached, group_iters, same_row
from tilegen.layouts.core.values import (
    ComposeLayout,
    Layout,
    SwizzleLayout,
    TileLayout,
    over_shape,
    size,
    swizzle_of,
    tile_of,
)

Offset = dict[str, Index]
MAX_REPLICAS = 8  # of which every subset may be tried


# ---------------------------------------------------------------- parts
@dataclass(frozen=True)
class TilePart:
    """A layout cut into one row of iters for each dimension of its shape."""

    rows: tuple[Iters, ...]
    replica: Iters
    offset: tuple[tuple[str, Index], ...]
    swizzle: SwizzleLayout | None

    def build(self) -> TileLayout | ComposeLayout:
        shard = tuple(i for row in self.rows for i in row)
        tile = TileLayout(shard or (Iter(1, 1),), self.replica, self.offset)
        return tile if self.swizzle is None else ComposeLayout(self.swizzle, tile)


def cut(layout: Layout, shape: Sequence[Index]) -> TilePart:
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
    return TilePart(group_iters(tile.shard, shape), tile.replica, tile.offset, swizzle_of(found))


def join(left: TilePart, right: TilePart) -> TileLayout | ComposeLayout:
    """The canonical sum of two parts of one rank, dimension by dimension: a row of left, then that of right.

    Raises LayoutError when ranks differ.

    >>> print(join(cut(TileLayout((Iter(2, 4),)), (2,)), cut(TileLayout((Iter(4, 1),)), (4,))))
    S[8:1]
    """
    if len(left.rows) != len(right.rows):
        raise LayoutError(f"shapes of {len(left.rows)} and of {len(right.rows)} dimensions do not interleave")
    rows = tuple(row for pair in zip(left.rows, right.rows, strict=True) for row in pair)
    return canonicalize(TilePart(rows, right.replica + left.replica, left.offset + right.offset, right.swizzle).build())


def require_plain(part: TilePart, what: str) -> None:
    """Raises LayoutError when a part is swizzled that has to be added or stretched.

    >>> require_plain(cut(TileLayout((Iter(8, 1),)), (8,)), "the outer layout")
    """
    if part.swizzle is not None:
        raise LayoutError(
            f"{what} is a tile layout, not one under {part.swizzle}: a swizzle acts on the sum of addresses",
            hint="swizzle the right (inner) layout, or compose the swizzle with the result",
        )


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


def cut_whole(tiled: Layout, tiled_shape: Sequence[Index], like: Layout) -> TilePart | None:
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


def remove(part: TilePart, whole: TilePart, is_left: bool) -> TilePart | None:
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
    return TilePart(others, replica, tuple(offset.items()), whole.swizzle if is_left else None)


# ---------------------------------------------------------------- direct sums
def direct_sum(
    left: Layout, left_shape: Sequence[Index], right: Layout, right_shape: Sequence[Index]
) -> TileLayout | ComposeLayout:
    """The sum over interleaved dimensions: element (l_d * |right_d| + r_d) lies at left(l) + right(r).

    Replicas combine and offsets add up; a swizzle of ``right`` acts on the sum, and ``left`` has none. The result is
    canonical, over the shape left_shape[d] * right_shape[d]. Raises LayoutError when ranks differ, a part does not
    group by its shape, or ``left`` is swizzled.

    >>> from tilegen.layouts.notation import parse
    >>> print(direct_sum(parse("S[(2, 2):(8, 2)]"), (2, 2), parse("S[(2, 2):(4, 1)]"), (2, 2)))
    S[16:1]
    """
    left_part, right_part = cut(left, left_shape), cut(right, right_shape)
    require_plain(left_part, "the left of a direct sum")
    return join(left_part, right_part)


def is_direct_sum_left(
    layout: Layout, tiled: Layout, tiled_shape: Sequence[Index], part_shape: Sequence[Index]
) -> TileLayout | ComposeLayout | None:
    """The right part when ``tiled`` = direct_sum(layout, part_shape, right, ...), else None.

    ``tiled_shape`` is interleaved: (left_0, right_0, left_1, right_1, ...). Raises LayoutError unless it has twice the
    dimensions of ``part_shape``, whose extents are its even ones.

    >>> from tilegen.layouts.notation import parse
    >>> print(is_direct_sum_left(parse("S[(2, 2):(8, 2)]"), parse("S[16:1]"), (2, 2, 2, 2), (2, 2)))
    S[(2, 2):(4, 1)]
    """
    _require_interleaved(tiled_shape, part_shape, 0)
    return _take_away(layout, tiled, tiled_shape, part_shape, is_left=True)


def is_direct_sum_right(
    layout: Layout, tiled: Layout, tiled_shape: Sequence[Index], part_shape: Sequence[Index]
) -> TileLayout | None:
    """The left part when ``tiled`` = direct_sum(left, ..., layout, part_shape), else None.

    ``tiled_shape`` is interleaved: (left_0, right_0, left_1, right_1, ...). Raises LayoutError unless it has twice the
    dimensions of ``part_shape``, whose extents are its odd ones.

    >>> from tilegen.layouts.notation import parse
    >>> print(is_direct_sum_right(parse("S[(2, 2):(4, 1)]"), parse("S[16:1]"), (2, 2, 2, 2), (2, 2)))
    S[(2, 2):(8, 2)]
    """
    _require_interleaved(tiled_shape, part_shape, 1)
    left = _take_away(layout, tiled, tiled_shape, part_shape, is_left=False)
    return left if isinstance(left, TileLayout) else None


def _take_away(
    layout: Layout, tiled: Layout, tiled_shape: Sequence[Index], part_shape: Sequence[Index], is_left: bool
) -> TileLayout | ComposeLayout | None:
    part = cut(layout, part_shape)
    whole = cut_whole(tiled, tiled_shape, layout)
    if whole is None:
        return None
    rest = remove(part, whole, is_left)
    return None if rest is None else rest.build()


def _require_interleaved(tiled_shape: Sequence[Index], part_shape: Sequence[Index], first: int) -> None:
    where = "odd" if first else "even"
    if len(tiled_shape) != 2 * len(part_shape) or tuple(tiled_shape[first::2]) != tuple(part_shape):
        raise LayoutError(
            f"{tuple(part_shape)} is not every second extent of {tuple(tiled_shape)}",
            hint=f"the shape of a direct sum is interleaved, with the part's extents at its {where} places",
        )


# ---------------------------------------------------------------- tiles
def tile(
    outer: Layout, outer_shape: Sequence[Index], inner: Layout, inner_shape: Sequence[Index]
) -> TileLayout | ComposeLayout:
    """Copies of ``inner`` where ``outer`` says: element (o_d * |inner_d| + i_d) lies at span * outer(o) + inner(i).

    span is that of ``inner`` on each axis, replicas included and offset not, so that copies never meet; it stretches
    the replicas and the offset of ``outer`` too. A swizzle of ``inner`` acts on the sum. The result is canonical, over
    the shape outer_shape[d] * inner_shape[d]. Raises LayoutError when ranks differ, a part does not group by its
    shape, or ``outer`` is swizzled.

    >>> from tilegen.layouts.notation import parse
    >>> print(tile(parse("S[(8, 8)]"), (8, 8), parse("S[(8, 4):(4@laneid, 1@laneid)]"), (8, 4)))
    S[(8, 8, 8, 4):(8, 4@laneid, 1, 1@laneid)]
    """
    outer_part, inner_part = cut(outer, outer_shape), cut(inner, inner_shape)
    require_plain(outer_part, "the outer layout")
    return join(_stretch(outer_part, _spans(inner_part)), inner_part)


def _spans(part: TilePart) -> dict[str, Index]:
    """Elements that the part reaches over, by axis."""
    iters = [i for row in (*part.rows, part.replica) for i in row if i.extent != 1]
    return {axis: extent_reached(i for i in iters if i.axis == axis) for axis in {i.axis for i in iters}}


Factor = Callable[[str, Index], Index | None]


def _scale(part: TilePart, factor: Factor) -> TilePart | None:
    """Every stride and offset through ``factor(axis, value)``; None where it gives None. Units keep their strides."""
    lists = (*part.rows, part.replica)
    scaled = [[_scale_iter(i, factor) for i in iters] for iters in lists]
    offset = [(axis, factor(axis, value)) for axis, value in part.offset]
    *rows, replica = (tuple(i for i in iters if i is not None) for iters in scaled)
    kept = tuple((axis, value) for axis, value in offset if value is not None)
    whole = len(kept) == len(offset) and all(len(a) == len(b) for a, b in zip((*rows, replica), lists, strict=True))
    return TilePart(tuple(rows), replica, kept, part.swizzle) if whole else None


def _scale_iter(i: Iter, factor: Factor) -> Iter | None:
    stride = i.stride if i.extent == 1 else factor(i.axis, i.stride)
    return None if stride is None else Iter(i.extent, stride, i.axis)


def _stretch(part: TilePart, spans: dict[str, Index]) -> TilePart:
    stretched = _scale(part, lambda axis, value: mul(value, spans.get(axis, 1)))
    assert stretched is not None, "a product exists"
    return stretched


def _shrink(part: TilePart, spans: dict[str, Index]) -> TilePart | None:
    return _scale(part, lambda axis, value: 0 if value == 0 else divide_exactly(value, spans.get(axis, 1)))


def tile_to(layout: Layout, to_shape: Sequence[Index], current_shape: Sequence[Index]) -> TileLayout | ComposeLayout:
    """Row-major copies of a layout of ``current_shape`` until they fill ``to_shape``.

    Raises LayoutError when ranks differ or an extent is no whole number of tiles.

    >>> from tilegen.layouts.notation import parse
    >>> print(tile_to(parse("S[(8, 8)]"), (64, 64), (8, 8)))
    S[(8, 8, 8, 8):(512, 8, 64, 1)]
    """
    counts = count_tiles(to_shape, current_shape)
    return tile(row_major(counts or (1,)), counts or (1,), layout, require_shape(current_shape) or (1,))


def is_tile_inner(
    layout: Layout, tiled: Layout, tiled_shape: Sequence[Index], part_shape: Sequence[Index]
) -> TileLayout | None:
    """The outer layout when ``tiled`` = tile(outer, ..., layout, part_shape), else None.

    Thread axes of ``tiled`` are read as those of ``layout`` (tx as 32 * warpid + laneid). Raises LayoutError when the
    part does not divide ``tiled_shape`` or ``layout`` does not group by ``part_shape``.

    >>> from tilegen.layouts.notation import parse
    >>> print(is_tile_inner(parse("S[(2, 4)]"), parse("S[(8, 2, 2, 4):(16, 4, 8, 1)]"), (16, 8), (2, 4)))
    S[(8, 2):(2, 1)]
    """
    counts = count_tiles(tiled_shape, part_shape)
    part = cut(layout, part_shape)
    whole = cut_whole(_require_size(tiled, tiled_shape), _interleave(counts, part_shape), layout)
    stretched = None if whole is None else remove(part, whole, is_left=False)
    outer = None if stretched is None else _shrink(stretched, _spans(part))
    result = None if outer is None else outer.build()
    return result if isinstance(result, TileLayout) else None


def is_tile_outer(
    layout: Layout, tiled: Layout, tiled_shape: Sequence[Index], part_shape: Sequence[Index]
) -> TileLayout | ComposeLayout | None:
    """The inner layout when ``tiled`` = tile(layout, part_shape, inner, ...), else None.

    Thread axes of ``tiled`` are read as those of ``layout``. Raises LayoutError when the part does not divide
    ``tiled_shape``, ``layout`` does not group by ``part_shape`` or is swizzled.

    >>> from tilegen.layouts.notation import parse
    >>> print(is_tile_outer(parse("S[(8, 2)]"), parse("S[(8, 2, 2, 4):(16, 4, 8, 1)]"), (16, 8), (8, 2)))
    S[(2, 4):(4, 1)]
    """
    inner_shape = count_tiles(tiled_shape, part_shape)
    outer = cut(layout, part_shape)
    require_plain(outer, "the outer layout")
    whole = cut_whole(_require_size(tiled, tiled_shape), _interleave(require_shape(part_shape), inner_shape), layout)
    if whole is None or len(whole.replica) > MAX_REPLICAS:
        return None
    for kept in combinations(range(len(whole.replica)), max(0, len(whole.replica) - len(outer.replica))):
        # the span that stretched the outer layout depends on which replicas are the inner's: try
        inner = TilePart(whole.rows[1::2], tuple(whole.replica[k] for k in kept), (), whole.swizzle)
        found = _fit_inner(outer, inner, whole)
        if found is not None:
            return found.build()
    return None


def _fit_inner(outer: TilePart, inner: TilePart, whole: TilePart) -> TilePart | None:
    stretched = _stretch(outer, _spans(inner))
    if not all(same_row(a, b) for a, b in zip(stretched.rows, whole.rows[0::2], strict=True)):
        return None
    offset = subtract_offset(whole.offset, stretched.offset)
    if offset is None or sorted(map(str, stretched.replica + inner.replica)) != sorted(map(str, whole.replica)):
        return None
    return TilePart(inner.rows, inner.replica, tuple(offset.items()), inner.swizzle)


def _interleave(a: Sequence[Index], b: Sequence[Index]) -> tuple[Index, ...]:
    return tuple(n for pair in zip(a, b, strict=True) for n in pair)


def _require_size(tiled: Layout, shape: Sequence[Index]) -> Layout:
    """The layout itself; refuses one of another size than its shape."""
    if isinstance(tiled, (TileLayout, ComposeLayout)) and size(tiled) != product(shape):
        elements = f"{tiled} has {spell(size(tiled))}"
        raise LayoutError(f"shape {tuple(shape)} has {spell(product(shape))} elements, {elements}")
    return tiled
