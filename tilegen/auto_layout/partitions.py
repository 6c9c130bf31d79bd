"""The partition of a tile that an op takes from or to memory, as a register layout that its accesses are whole in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.index import bound
from tilegen.layouts import TileLayout, extent_of
from tilegen.ops.computing import partition_new, stretch
from tilegen.ops.flows import Dims, Flow
from tilegen.ops.operand import Context, Operand, Refused, bind, memory_of, parts_of
from tilegen.ops.ownership import own
from tilegen.ops.partition_layout import VECTOR_BYTES, lane_axis, partition_layout, vector_elems
from tilegen.ops.registers import widest_access
from tilegen.spec.data import Buffer, Region
from tilegen.spec.placing import MAX_REGISTER_BYTES


@dataclass(frozen=True)
class Partition:
    """A register layout over a tile, and the bytes of memory that a thread takes at once."""

    layout: TileLayout
    vector_bytes: int


def partition_tile(
    context: Context, scope: str, flow: Flow, region: Region, dims: Dims, held_bytes: int, unevenly: bool = False
) -> Partition:
    """The partition of a flow's tile by a region of memory that covers it (``dims`` as in the flow).

    ``unevenly``: as in ``partition_layout``.

    Vectors are the widest, up to 16 bytes, that the region's begins, edges and alignment allow for every thread, and
    with which a thread has registers for its elements of ``held_bytes``, where there are such.
    """
    memory = bind(region, context.memories[region.buffer.name], context.condition)
    axis, threads = lane_axis(scope, context.launch.threads)
    order = _order_in_memory(memory, dims)
    most = vector_elems(flow.lengths, max(1, VECTOR_BYTES // memory.elem_bytes), order)
    width, allowed = most, list[Partition]()
    while True:
        layout = partition_layout(flow.lengths, memory.elem_bytes, threads, axis, width, order, unevenly)
        if width == 1 or width <= _allowed(context, layout, flow, memory):
            allowed.append(Partition(layout, width * memory.elem_bytes))
            if (bound(extent_of(layout, "m")) - 1) * held_bytes <= MAX_REGISTER_BYTES:
                return allowed[-1]
        if width == 1:
            return allowed[0]
        width //= 2


def partition_as_planned(context: Context, scope: str, flow: Flow, covering: Sequence[Region]) -> Partition:
    """The partition of a flow's tile that no registers cover, which the op makes itself of those regions of memory."""
    operands = [bind(r, context.memories[r.buffer.name], context.condition) for r in covering]
    return Partition(*partition_new(context, scope, [stretch(o, flow.lengths) for o in operands], flow.lengths))


def _allowed(context: Context, layout: TileLayout, flow: Flow, memory: Operand) -> int:
    """The widest access of the memory by threads that own the tile so."""
    buffer = Buffer("tile", "register", memory.buffer.dtype, flow.lengths, layout, "tile")
    whole = Region(buffer, (0,) * len(flow.lengths), flow.lengths, (True,) * len(flow.lengths))
    try:
        return widest_access(own(context, bind(whole, memory_of(buffer)), [memory]), memory)
    except Refused:  # the op itself will say why
        return 1


def _order_in_memory(memory: Operand, dims: Dims) -> tuple[int, ...]:
    """The dimensions of the tile from the slowest in memory to the fastest."""
    strides = {}
    for d, parts in zip(memory.dims, parts_of(memory), strict=True):
        stride = parts[-1].stride
        strides[d] = bound(stride) - 1 if stride is not None and stride != 0 else float("inf")
    return tuple(sorted(range(len(dims)), key=lambda d: -strides.get(dims[d], float("inf"))))  # type: ignore[arg-type]
