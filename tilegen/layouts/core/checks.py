"""What holds of a layout: whether it says anything, whether hardware has its places, whether it can be inverted."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.errors import LayoutError
from tilegen.index import Index, bound
from tilegen.layouts.core.axes import AXES, AXIS_ORDER, THREADS_IN
from tilegen.layouts.core.canonical import canonicalize, get_scope
from tilegen.layouts.core.iters import (
    Iter,
    extent_reached,
    fuse_neighbours,
    product,
    require_shape,
    row_major_strides,
    spell,
)
from tilegen.layouts.core.values import ComposeLayout, Layout, SwizzleLayout, TileLayout, size, swizzle_of, tile_of

# Places that an axis has; the other axes have as many as a kernel asks for.
_PLACES = {
    **{a.name: THREADS_IN[a.scope] // THREADS_IN[a.sub] for a in AXES.values() if a.scope in THREADS_IN},
    "tx": 1024, "warpid": 32, "wgid": 8,  # CUDA C++ Programming Guide: 1024 threads a block
    "cbx": 16, "cby": 16, "cbz": 16,  # cluster of 16 CTAs at most, the non-portable limit
    "Bank": 32, "TLane": 128,
}  # fmt: skip


def is_trivial(layout: Layout) -> bool:
    """Whether element x lies at x: dense row-major on m, no replica, offset or swizzle.

    >>> from tilegen.layouts.notation import parse
    >>> is_trivial(parse("S[(8, 64)]")), is_trivial(parse("S[(8, 64):(1, 8)]"))
    (True, False)
    """
    swizzle = swizzle_of(layout)
    if not isinstance(layout, (TileLayout, SwizzleLayout, ComposeLayout)) or (swizzle and swizzle.swizzle_len):
        return False
    tile = tile_of(canonicalize(layout))
    only, *others = tile.shard
    dense = not others and (only.extent == 1 or (only.stride == 1 and only.axis == "m"))
    return dense and not tile.replica and not tile.offset


def verify(layout: Layout, shape: Sequence[Index] | None = None) -> list[str]:
    """Why no buffer (of ``shape``) can have this layout, one sentence for each reason; [] when one can.

    Thread axes must count inside each other without a gap, every coordinate must be a place that the hardware has
    (lanes below 32, tensor-memory lanes below 128, ...), and the size must be that of the shape.

    >>> from tilegen.layouts.notation import parse
    >>> verify(parse("S[(8, 8):(8@laneid, 1@laneid)]"))
    ['laneid reaches 63, it has places 0 to 31']
    >>> verify(parse("S[(8, 8):(8, 1)]"), (8, 9))
    ['shape (8, 9) has 72 elements, the layout has 64']
    """
    tile = tile_of(layout)
    reasons = []
    try:
        get_scope(tile)
    except LayoutError as error:
        reasons.append(str(error))
    for axis in sorted(_axes_of(tile), key=AXIS_ORDER.__getitem__):
        reasons += _overflow(tile, axis)
    if shape is not None and not isinstance(layout, SwizzleLayout) and product(require_shape(shape)) != size(layout):
        elements = spell(product(shape))
        reasons.append(f"shape {tuple(shape)} has {elements} elements, the layout has {spell(size(layout))}")
    return reasons


def _axes_of(tile: TileLayout) -> set[str]:
    return {i.axis for i in (*tile.shard, *tile.replica)} | {axis for axis, _ in tile.offset}


def _overflow(tile: TileLayout, axis: str) -> list[str]:
    iters = [i for i in (*tile.shard, *tile.replica) if i.axis == axis]
    reached = extent_reached(iters) + dict(tile.offset).get(axis, 0)
    places = _PLACES.get(axis)
    if places is None or not isinstance(reached, int) or reached <= places:
        return []
    return [f"{axis} reaches {bound(reached) - 2}, it has places 0 to {places - 1}"]


def inverse(layout: Layout, axes: Sequence[str] | None = None) -> TileLayout | SwizzleLayout | ComposeLayout:
    """From places back to elements: over the shape of the places on ``axes``, the flat logical index on m.

    inverse(L).apply(*place, shape=places)[0]["m"] is the x with L(x) = place. ``axes`` (default: those that L uses, in
    the order of the table of axes) gives the order of the dimensions. Raises LayoutError where no such layout exists:
    replicas (one element, several places), an offset or a gap (a place without an element), two elements in one
    place, a swizzle over anything but a dense tile.

    >>> from tilegen.layouts.notation import parse
    >>> print(inverse(parse("S[(8, 4, 2):(2@laneid, 1, 1@laneid)]")))
    S[(8, 2, 4):(8, 1, 2)]
    >>> inverse(parse("S[(8, 6):(8, 1)]"))
    Traceback (most recent call last):
    ...
    tilegen.errors.LayoutError: S[(8, 6):(8, 1)] has no inverse: places of m from 6 to 7 hold no element
    """
    if isinstance(layout, SwizzleLayout):
        return layout  # the bits that choose stay, so that exchanging twice restores
    if not isinstance(layout, (TileLayout, ComposeLayout)):
        raise LayoutError(f"{layout} is inverted as a linear layout")
    tile = tile_of(canonicalize(layout))
    if isinstance(layout, ComposeLayout) and layout.swizzle.swizzle_len:
        if not is_trivial(tile):
            raise _no_inverse(layout, "a swizzle comes after a tile that is not dense; its inverse would come before")
        return ComposeLayout(layout.swizzle, tile)
    if tile.replica:
        raise _no_inverse(layout, "replicas put one element in several places")
    if tile.offset:
        raise _no_inverse(layout, "an offset leaves places before it without an element")
    return TileLayout(_invert_iters(layout, tile, _order_axes(tile, axes)))


def _no_inverse(layout: Layout, reason: str) -> LayoutError:
    return LayoutError(f"{layout} has no inverse: {reason}")


def _order_axes(tile: TileLayout, axes: Sequence[str] | None) -> list[str]:
    used = sorted({i.axis for i in tile.shard}, key=AXIS_ORDER.__getitem__)
    if axes is not None and sorted(axes, key=lambda a: AXIS_ORDER.get(a, -1)) != used:
        raise LayoutError(f"axes {tuple(axes)} are not those of {tile}: {', '.join(used)}")
    return list(axes) if axes is not None else used


def _invert_iters(layout: Layout, tile: TileLayout, axes: Sequence[str]) -> tuple[Iter, ...]:
    """On each axis, iters of falling strides; each steps through the logical index as its place there says."""
    steps = row_major_strides([i.extent for i in tile.shard])
    result: list[Iter] = []
    for axis in axes:
        on_axis = [(i, step) for i, step in zip(tile.shard, steps, strict=True) if i.axis == axis]
        on_axis.sort(key=lambda pair: (bound(pair[0].stride), bound(pair[0].extent)))
        covered: Index = 1
        found: list[Iter] = []
        for i, step in on_axis:
            if i.extent != 1 and i.stride != covered:
                raise _no_inverse(layout, _describe_misfit(i, covered))
            covered = product((covered, i.extent))
            found.append(Iter(i.extent, step))
        result += reversed(found)
    return fuse_neighbours(tuple(result))


def _describe_misfit(i: Iter, covered: Index) -> str:
    if isinstance(i.stride, int) and isinstance(covered, int) and i.stride < covered:
        return f"two elements share a place of {i.axis} (stride {i.stride} inside {covered} places)"
    if isinstance(i.stride, int) and isinstance(covered, int):
        return f"places of {i.axis} from {covered} to {i.stride - 1} hold no element"
    return f"whether stride {spell(i.stride)} of {i.axis} continues {spell(covered)} places is not known"


