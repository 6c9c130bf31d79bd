"""Tensor memory: which of its lanes and 32-bit columns a layout on TLane and TCol touches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilegen.errors import LayoutError
from tilegen.layouts.core.iters import Iter, require_known
from tilegen.layouts.core.rows import drop_units, fuse_neighbours
from tilegen.layouts.core.values import Layout, TileLayout

CELL_AXES = ("TLane", "TCol")
CELL_BITS = 32  # of a tensor-memory cell, which is one column of one lane: PTX ISA, "Tensor Memory"
COLUMN_BYTES = CELL_BITS // 8  # of one lane
_MOST = 1 << 16  # places on an axis: half of an address's bits are for each (PTX ISA, "Tensor Memory Addressing")


@dataclass(frozen=True)
class Cells:
    """``lanes`` and ``columns`` that hold an element or a copy of one, ascending; ``copies``: places of each element.

    A column is 32 bits wide, so narrower elements share one: ``packed`` of them.
    """

    lanes: tuple[int, ...]
    columns: tuple[int, ...]
    copies: int
    packed: int

    @property
    def reach(self) -> int:
        """Columns from the first of the buffer to the last that holds something: what has to be there."""
        return self.columns[-1] + 1


def find_cells(layout: Layout, bits: int) -> Cells:
    """The cells of tensor memory that hold elements of ``bits`` bits; TCol counts elements, 32 / bits to a column.

    Raises LayoutError for elements that are not 8, 16 or 32 bits wide, for layouts with other axes, a swizzle or
    padding, and for coordinates that are known only at run time or do not fit an address of tensor memory.

    >>> from tilegen.layouts.notation import parse
    >>> scales = find_cells(parse("S[(32, 8):(1@TLane, 1@TCol)] + R[4:32@TLane]"), 8)
    >>> len(scales.lanes), scales.columns, scales.copies
    (128, (0, 1), 4)
    """
    if bits not in (8, 16, 32):
        raise LayoutError(f"tensor memory holds elements of 8, 16 or 32 bits, not {bits}")
    if not isinstance(layout, TileLayout):
        raise LayoutError(f"tensor memory has no swizzles and no padding, but the layout is {layout}")
    iters = (*layout.shard, *layout.replica)
    named = {i.axis for i in iters} | {axis for axis, _ in layout.offset}
    if other := sorted(named - set(CELL_AXES)):
        raise LayoutError(f"tensor memory has the axes {' and '.join(CELL_AXES)}, not {', '.join(other)}")
    lanes, elements = (_reached(layout, iters, axis) for axis in CELL_AXES)
    packed = CELL_BITS // bits
    return Cells(lanes, tuple(sorted({x // packed for x in elements})), _count_copies(layout.replica), packed)


def retype_cells(layout: Layout, bits: int, new_bits: int) -> TileLayout:
    """The same cells in elements of ``new_bits`` bits, of which the last dimension has so many more, or fewer.

    A narrower element is a part of the cell of the one before, the lowest bits first; a wider one is neighbours that
    share a cell. Raises LayoutError where the elements of a wider one are no neighbours in one column, and what
    ``find_cells`` raises.

    >>> from tilegen.layouts.notation import parse
    >>> print(retype_cells(parse("S[(2, 128, 64):(64@TCol, 1@TLane, 1@TCol)]"), 32, 16))
    S[(2, 128, 128):(128@TCol, 1@TLane, 1@TCol)]
    >>> print(retype_cells(parse("S[(128, 64):(1@TLane, 1@TCol)]"), 8, 32))
    S[(128, 16):(1@TLane, 1@TCol)]
    """
    for each in (bits, new_bits):
        find_cells(layout, each)
    assert isinstance(layout, TileLayout)
    column = CELL_AXES[1]
    if new_bits <= bits:
        times = bits // new_bits

        def widen(i: Iter) -> Iter:
            return Iter(i.extent, i.stride * times, i.axis) if i.axis == column else i

        offset = tuple((axis, x * times if axis == column else x) for axis, x in layout.offset)
        parts = (Iter(times, 1, column),) if times > 1 else ()
        shard = fuse_neighbours((*map(widen, layout.shard), *parts))
        return TileLayout(shard, tuple(map(widen, layout.replica)), offset)
    times = new_bits // bits
    *outer, last = fuse_neighbours(drop_units(layout.shard))
    steps = [i.stride for i in (*outer, *layout.replica) if i.axis == column]
    steps += [x for axis, x in layout.offset if axis == column] + [last.extent]
    if (last.axis, last.stride) != (column, 1) or any(require_known(x, "a stride") % times for x in steps):
        raise LayoutError(f"{times} elements of {bits} bits that follow one another share no column in {layout}")

    def narrow(i: Iter) -> Iter:
        return Iter(i.extent, i.stride // times, i.axis) if i.axis == column else i

    offset = tuple((axis, x // times if axis == column else x) for axis, x in layout.offset)
    shard = (*map(narrow, outer), Iter(last.extent // times, 1, column))
    return TileLayout(shard, tuple(map(narrow, layout.replica)), offset)


def _reached(layout: TileLayout, iters: Iterable[Iter], axis: str) -> tuple[int, ...]:
    """Every coordinate on the axis: the sums of one step of each iter, as iters count independently."""
    start = require_known(dict(layout.offset).get(axis, 0), f"the offset on {axis}")
    on_axis = [
        (require_known(i.extent, "an extent"), require_known(i.stride, "a stride")) for i in iters if i.axis == axis
    ]
    last = start + sum((extent - 1) * stride for extent, stride in on_axis)
    if last >= _MOST:
        raise LayoutError(f"{axis} reaches {last}, and an address of tensor memory has {_MOST - 1} at most")
    found = {start}
    for extent, stride in on_axis:
        if stride:
            found = {x + k * stride for x in found for k in range(extent)}
    return tuple(sorted(found))


def _count_copies(replica: Iterable[Iter]) -> int:
    """The places of each element: replicas that fall on each other are one."""
    found = {(0, 0)}
    for i in replica:
        extent, stride = require_known(i.extent, "an extent"), require_known(i.stride, "a stride")
        if stride:
            step = (stride, 0) if i.axis == "TLane" else (0, stride)
            found = {(a + k * step[0], b + k * step[1]) for a, b in found for k in range(extent)}
    return len(found)
