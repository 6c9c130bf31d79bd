"""How far layouts reach, in which banks they lie, whether two elements meet, whether hardware has the places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tilegen.errors import LayoutError
from tilegen.index import Formula, Index, bound, least, mul, sub
from tilegen.layouts.core.canonical import get_scope
from tilegen.layouts.core.iters import (
    AXES,
    AXIS_ORDER,
    THREADS_IN,
    Iter,
    is_symbolic,
    product,
    quotient,
    remainder,
    require_axis,
    require_known,
    require_shape,
    spell,
)
from tilegen.layouts.core.rows import drop_units, extent_reached
from tilegen.layouts.core.values import (
    Layout,
    ShapedLayout,
    SwizzleLayout,
    TileLayout,
    over_shape,
    permute_address,
    size,
    swizzle_of,
    tile_of,
)

ENUMERABLE = 1 << 22  # elements that an exact answer may enumerate
BANKS = 32  # CUDA C++ Programming Guide, "Shared Memory": 32 banks, successive 32-bit words in successive banks
BANK_BYTES = 4
# Places that an axis has; the other axes have as many as a kernel asks for.
_PLACES = {
    **{a.name: THREADS_IN[a.scope] // THREADS_IN[a.sub] for a in AXES.values() if a.scope in THREADS_IN},
    "tx": 1024, "warpid": 32, "wgid": 8,  # CUDA C++ Programming Guide: 1024 threads a block
    "cbx": 16, "cby": 16, "cbz": 16,  # cluster of 16 CTAs at most, the non-portable limit
    "Bank": 32, "TLane": 128,
}  # fmt: skip


def extent_of(layout: Layout, axis: str = "m", shape: Sequence[Index] | None = None) -> Index:
    """1 + the largest coordinate on ``axis``, over all elements and replicas, offset included: what to allocate.

    1 + O + sum of (extent - 1) * stride, and the padding before the last element; 0 for an axis that the layout does
    not have. A bare swizzle is taken over ``shape`` (default: one period). Swizzled layouts are enumerated; above 2**22
    elements, or with runtime extents, the answer is rounded up to whole swizzle blocks. Raises LayoutError for an
    unknown axis.

    >>> from tilegen.layouts.notation import parse
    >>> extent_of(parse("S[(32, 8):(9, 1)]")), extent_of(parse("S[8:1] + 16"))
    (287, 24)
    """
    require_axis(axis)
    layout = layout if shape is None else over_shape(layout, require_shape(shape))
    tile = tile_of(layout)
    on_axis = [i for i in (*tile.shard, *tile.replica) if i.axis == axis]
    if not on_axis and axis not in dict(tile.offset):
        return 0
    extent = extent_reached(on_axis) + dict(tile.offset).get(axis, 0)
    if isinstance(layout, ShapedLayout):
        return layout.allocated_elems if axis == "m" else extent
    swizzle = swizzle_of(layout)
    return extent if swizzle is None else _swizzled_range(swizzle, tile, extent)[1]


def span(layout: Layout, axis: str | None = None) -> Index:
    """Elements from the smallest to the largest coordinate on ``axis`` (default: the one memory axis), both included.

    1 + sum of (extent - 1) * stride over shard and replica; 1 for an axis that the layout does not have. Raises
    LayoutError for an unknown axis, and when none is named and there are several memory axes.

    >>> from tilegen.layouts.notation import parse
    >>> span(parse("S[(8, 6):(8, 1)]")), span(parse("S[(8, 4, 2):(4@laneid, 1@laneid, 1)]"))
    (62, 2)
    """
    tile = tile_of(layout)
    axis = _only_memory_axis(tile) if axis is None else require_axis(axis).name
    extent = extent_reached(i for i in (*tile.shard, *tile.replica) if i.axis == axis)
    if isinstance(layout, ShapedLayout):
        return layout.allocated_elems if axis == "m" else extent
    swizzle = swizzle_of(layout)
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
    high = swizzle.swizzle_len + (0 if swizzle.inner else swizzle.atom_len)
    block = 1 << (swizzle.per_element + high)
    if isinstance(count, int) and isinstance(extent, int) and count <= ENUMERABLE:
        if extent % block == 0 and _fills(tile, extent):  # whole blocks, each of which is mapped onto itself
            return 0, extent
        addresses = permute_address(swizzle, _enumerate_places(tile)["m"])
        return int(addresses.min()), int(addresses.max()) + 1
    return 0, mul(quotient(extent + (block - 1), block), block)


def _fills(tile: TileLayout, extent: int) -> bool:
    """Whether strides alone show that each address below ``extent`` is an element's."""
    shard = [(i.stride, i.extent) for i in tile.shard if i.extent != 1]
    steps = [(stride, n) for stride, n in shard if isinstance(stride, int) and isinstance(n, int)]
    if tile.offset or tile.replica or len(steps) < len(shard):
        return False
    reach = 1
    for stride, n in sorted(steps):
        if stride != reach:
            return False
        reach *= n
    return reach == extent


def _enumerate_places(tile: TileLayout) -> dict[str, np.ndarray]:
    """Every place of every element: arrays [replica, element] by axis."""
    copies = TileLayout((*tile.replica, *tile.shard), offset=tile.offset)
    replicas = require_known(product(i.extent for i in tile.replica), "the number of replicas")
    elements = require_known(size(tile), "the size")
    flat = np.arange(replicas * elements)
    return {axis: v.reshape(replicas, elements) for axis, v in copies.place((flat,), flat.shape).items()}


def chunk_of(layout: Layout) -> int:
    """Elements that lie together wherever a multiple of them starts; 2**30 where nothing cuts.

    A swizzle keeps chunks of 2**M elements. Padding keeps what divides its interval and its own length: then aligned
    runs stay aligned, and none crosses a pad.

    >>> from tilegen.layouts.notation import parse
    >>> chunk_of(parse("Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]")), chunk_of(parse("S[(8, 64):(64, 1)]")) == 2**30
    (8, True)
    >>> chunk_of(parse("PaddedSharedLayout.with_identity_for([[32, 4]], [8, 32], [1, 0])"))
    4
    """
    if isinstance(layout, ShapedLayout):
        return layout.chunk_elems
    swizzle = swizzle_of(layout)
    return 1 << 30 if swizzle is None else 1 << swizzle.per_element


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
    if isinstance(difference, Formula) and difference.symbol == "-":  # terms of both signs are left: ask the ranges
        return least(a) >= bound(b) - 1
    return True


def _enumerated_injective(tile: TileLayout) -> bool:
    key: Any = 0
    for values in _enumerate_places(tile).values():
        key = key * (int(values.max()) + 1) + values.astype(np.int64)
    owners = np.broadcast_to(np.arange(np.shape(key)[1]), np.shape(key))
    pairs = np.unique(np.stack([np.ravel(key), np.ravel(owners)]), axis=1)
    return bool(len(np.unique(pairs[0])) == pairs.shape[1])


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


def bank_and_line(layout: Layout, coords: Sequence[Any], shape: Sequence[Index], elem_bytes: int) -> tuple[Any, Any]:
    """The bank of an element's first byte, and its 128-byte line.

    byte = m * elem_bytes, bank = (byte // 4) % 32, line = byte // 128. ``coords`` are ints, arrays or Index. Raises
    LayoutError when the layout does not map to m.

    >>> from tilegen.layouts.notation import parse
    >>> bank_and_line(parse("Swizzle(3,3,3) o S[(8,64):(64,1)]"), (5, 0), (8, 64), elem_bytes=2)
    (20, 5)
    """
    place = layout.place(coords, shape)
    if "m" not in place:
        raise LayoutError(f"{layout} has no coordinate on axis m, so no bank")
    m = place["m"]
    byte = (m.astype(np.int64) if isinstance(m, np.ndarray) else m) * elem_bytes
    return remainder(quotient(byte, BANK_BYTES), BANKS), quotient(byte, BANKS * BANK_BYTES)
