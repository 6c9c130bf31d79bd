"""Tiles: an inner layout repeated where an outer one says, and the parts of a tiled layout back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from tilegen.errors import LayoutError
from tilegen.index import Index, mul
from tilegen.layouts.core.dimensions import row_major
from tilegen.layouts.core.iters import Iter, divide_exactly, extent_reached, product, require_shape, spell
from tilegen.layouts.core.parts import Part, cut, cut_whole, join, remove, require_plain, same_row, subtract_offset
from tilegen.layouts.core.values import ComposeLayout, Layout, TileLayout

MAX_REPLICAS = 8  # of which every subset may be tried


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
    return _tile_parts(outer_part, inner_part)


def _tile_parts(outer: Part, inner: Part) -> TileLayout | ComposeLayout:
    return join(_stretch(outer, _spans(inner)), inner)


def _spans(part: Part) -> dict[str, Index]:
    """Elements that the part reaches over, by axis."""
    iters = [i for row in (*part.rows, part.replica) for i in row if i.extent != 1]
    return {axis: extent_reached(i for i in iters if i.axis == axis) for axis in {i.axis for i in iters}}


Factor = Callable[[str, Index], Index | None]


def _scale(part: Part, factor: Factor) -> Part | None:
    """Every stride and offset through ``factor(axis, value)``; None where it gives None. Units keep their strides."""
    lists = (*part.rows, part.replica)
    scaled = [[_scale_iter(i, factor) for i in iters] for iters in lists]
    offset = [(axis, factor(axis, value)) for axis, value in part.offset]
    *rows, replica = (tuple(i for i in iters if i is not None) for iters in scaled)
    kept = tuple((axis, value) for axis, value in offset if value is not None)
    whole = len(kept) == len(offset) and all(len(a) == len(b) for a, b in zip((*rows, replica), lists, strict=True))
    return Part(tuple(rows), replica, kept, part.swizzle) if whole else None


def _scale_iter(i: Iter, factor: Factor) -> Iter | None:
    stride = i.stride if i.extent == 1 else factor(i.axis, i.stride)
    return None if stride is None else Iter(i.extent, stride, i.axis)


def _stretch(part: Part, spans: dict[str, Index]) -> Part:
    stretched = _scale(part, lambda axis, value: mul(value, spans.get(axis, 1)))
    assert stretched is not None, "a product exists"
    return stretched


def _shrink(part: Part, spans: dict[str, Index]) -> Part | None:
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
        inner = Part(whole.rows[1::2], tuple(whole.replica[k] for k in kept), (), whole.swizzle)
        found = _fit_inner(outer, inner, whole)
        if found is not None:
            return found.build()
    return None


def _fit_inner(outer: Part, inner: Part, whole: Part) -> Part | None:
    stretched = _stretch(outer, _spans(inner))
    if not all(same_row(a, b) for a, b in zip(stretched.rows, whole.rows[0::2], strict=True)):
        return None
    offset = subtract_offset(whole.offset, stretched.offset)
    if offset is None or sorted(map(str, stretched.replica + inner.replica)) != sorted(map(str, whole.replica)):
        return None
    return Part(inner.rows, inner.replica, tuple(offset.items()), inner.swizzle)


def _interleave(a: Sequence[Index], b: Sequence[Index]) -> tuple[Index, ...]:
    return tuple(n for pair in zip(a, b, strict=True) for n in pair)


def _require_size(tiled: Layout, shape: Sequence[Index]) -> Layout:
    """The layout itself; refuses one of another size than its shape."""
    if isinstance(tiled, TileLayout | ComposeLayout):
        have = product(i.extent for i in (tiled if isinstance(tiled, TileLayout) else tiled.tile).shard)
        if have != product(shape):
            raise LayoutError(f"shape {tuple(shape)} has {spell(product(shape))} elements, {tiled} has {spell(have)}")
    return tiled


