"""Between CuTe's layouts and tilegen's. CuTe counts column-major, TileLayout row-major.

The two agree on coordinates, not on flat indices: ``layout(i, j) == to_tile(layout).place((i, j), sizes)["m"]`` with
``sizes`` the sizes of the modes. Inside a mode CuTe's first leaf is the fastest, the last iter of a TileLayout is: the
leaves of every mode are reversed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import overload

from tilegen.errors import LayoutError
from tilegen.layouts.core.canonical import canonicalize
from tilegen.layouts.core.dimensions import group
from tilegen.layouts.core.iters import Iter, Iters, require_known
from tilegen.layouts.core.values import ComposeLayout, Layout, SwizzleLayout, TileLayout, swizzle_of, tile_of
from tilegen.layouts.cute.swizzles import ComposedLayout, Swizzle, as_swizzle_layout
from tilegen.layouts.cute.values import CuteLayout, flat_modes, from_modes, join, modes_of


@overload
def to_tile(layout: CuteLayout) -> TileLayout: ...
@overload
def to_tile(layout: Swizzle) -> SwizzleLayout: ...
@overload
def to_tile(layout: ComposedLayout) -> ComposeLayout: ...
def to_tile(layout: CuteLayout | Swizzle | ComposedLayout) -> Layout:
    """The same placement on axis m: one dimension for each mode, so that equal coordinates give equal places.

    Swizzles must count elements. Raises LayoutError for one of bytes.

    >>> print(to_tile(CuteLayout((8, (2, 4)), (2, (1, 16)))))
    S[(8, 4, 2):(2, 16, 1)]
    >>> print(to_tile(ComposedLayout(Swizzle(3, 3, 3), 0, CuteLayout((8, 64), (64, 1)))))
    Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]
    """
    if isinstance(layout, CuteLayout):
        return _tile_of_modes(layout, 0)
    swizzle = layout if isinstance(layout, Swizzle) else layout.swizzle
    if swizzle.unit != "elements":
        raise LayoutError(f"{swizzle} counts bytes, a SwizzleLayout counts elements", hint="use in_elements(elem_bits)")
    if isinstance(layout, Swizzle):
        return as_swizzle_layout(swizzle)
    return ComposeLayout(as_swizzle_layout(swizzle), _tile_of_modes(layout.layout, layout.offset))


def _tile_of_modes(layout: CuteLayout, offset: int) -> TileLayout:
    shard = (Iter(n, d) for mode in modes_of(layout) for n, d in reversed(flat_modes(mode)))
    return TileLayout.from_iters(shard, offset={"m": offset})


def from_tile(layout: Layout, shape: Sequence[int] | None = None) -> CuteLayout | Swizzle | ComposedLayout:
    """The same placement as ``shape:stride``, one mode for each dimension of ``shape`` (default: for each iter).

    Raises LayoutError for what CuTe's layouts cannot say: other axes than m, replicas, runtime extents, an offset
    without a swizzle, and a shape that the layout does not group by.

    >>> from tilegen.layouts import parse
    >>> print(from_tile(parse("S[(8, 4, 2):(2, 16, 1)]"), shape=(8, 8)))
    (8,(2,4)):(2,(1,16))
    >>> print(from_tile(parse("Swizzle(3, 2, 3)")))
    Sw<2,3,3> elements
    """
    swizzle, tile = swizzle_of(layout), tile_of(layout)
    outer = None if swizzle is None else _as_cute_swizzle(swizzle)
    if outer is not None and isinstance(layout, SwizzleLayout) and shape is None:
        return outer
    _require_plain(tile)
    offset = require_known(dict(tile.offset).get("m", 0), "an offset")
    modes = _modes_by(layout, shape)
    if outer is not None:
        return ComposedLayout(outer, offset, modes)
    if offset:
        raise LayoutError(f"{layout} has an offset, which shape:stride cannot say")
    return modes


def _as_cute_swizzle(swizzle: SwizzleLayout) -> Swizzle:
    shift = swizzle.atom_len if swizzle.inner else -swizzle.atom_len
    return Swizzle(swizzle.swizzle_len, swizzle.per_element, shift)


def _require_plain(tile: TileLayout) -> None:
    axes = {i.axis for i in tile.shard} | {axis for axis, _ in tile.offset}
    if other := sorted(axes - {"m"}):
        raise LayoutError(f"{tile} maps to {', '.join(other)}, but shape:stride has the one axis m")
    if tile.replica:
        raise LayoutError(f"{tile} has replicas, which shape:stride cannot say")


def _modes_by(layout: Layout, shape: Sequence[int] | None) -> CuteLayout:
    if shape is None:
        rows: list[Iters] = [(i,) for i in tile_of(layout).shard]
    else:
        grouped, ends = group(canonicalize(layout) if not isinstance(layout, SwizzleLayout) else layout, shape)
        shard = tile_of(grouped).shard
        rows = [shard[begin:end] for begin, end in pairwise(ends)]
    modes = [from_modes(_pair(i) for i in reversed(row)) for row in rows]
    return modes[0] if len(modes) == 1 and isinstance(modes[0].shape, int) else join(modes)


def _pair(i: Iter) -> tuple[int, int]:
    return require_known(i.extent, "an extent"), require_known(i.stride, "a stride")
