"""The same bytes in wider or narrower elements."""

from __future__ import annotations

from tilegen.errors import LayoutError
from tilegen.index import Index, mul
from tilegen.layouts.core.axes import AXES, require_axis
from tilegen.layouts.core.canonical import canonicalize
from tilegen.layouts.core.iters import Iter, Iters, divide_exactly, spell
from tilegen.layouts.core.values import ComposeLayout, Layout, SwizzleLayout, TileLayout, swizzle_of, tile_of


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
