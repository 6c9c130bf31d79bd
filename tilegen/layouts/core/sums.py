"""Direct sums: two layouts side by side in the logical index, their coordinates added."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.errors import LayoutError
from tilegen.index import Index
from tilegen.layouts.core.parts import cut, cut_whole, join, remove, require_plain
from tilegen.layouts.core.values import ComposeLayout, Layout, TileLayout


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
