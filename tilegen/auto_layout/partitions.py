"""The partition of a tile that an op takes from or to memory, as a register layout that its accesses are whole in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.dtypes import DTYPES
from tilegen.index import bound
from tilegen.layouts import TileLayout, extent_of
from tilegen.ops.computing import stretch
from tilegen.ops.flows import Dims, Flow
from tilegen.ops.operand import Context, Operand, Refused, bind, memory_of, parts_of
from tilegen.ops.ownership import own
from tilegen.ops.partition_layout import (
    SHARINGS,
    VECTOR_BYTES,
    MemoryTile,
    Sharing,
    lane_axis,
    partition_layout,
    vector_elems,
)
from tilegen.ops.registers import widest_access
from tilegen.ops.shares import list_partitions
from tilegen.spaces import REGISTER
from tilegen.spec.data import Buffer, Call, Region
from tilegen.spec.placing import MAX_REGISTER_BYTES


@dataclass(frozen=True)
class Partition:
    """A register layout over a tile, and the bytes of memory that a thread takes at once."""

    layout: TileLayout
    vector_bytes: int


def partitions_of(context: Context, call: Call, flow: Flow, most_bytes: int = VECTOR_BYTES) -> tuple[Partition, ...]:
    """The partitions of a tile that an op takes from or to memory: of each way to share it, by the first array.

    Of a tile whose registers are all stretched, those that the op would make itself. ``most_bytes``: of a vector.
    """
    registers = [f for f in flow.sides if call.regions[f].buffer.traits.is_held]
    covering = list_covering(call, flow)
    if registers and all(is_stretched(flow, f) for f in registers):
        found = _as_planned(context, call.scope, flow, [call.regions[f] for f in covering])
        return tuple(part for part in found if part.vector_bytes <= most_bytes)
    sizes = (DTYPES[call.regions[f].buffer.dtype].bytes for f in registers if not is_stretched(flow, f))
    region, widest = call.regions[covering[0]], max(sizes, default=1)
    memory = bind(region, context.memories[region.buffer.name], context.known)
    tile = MemoryTile(flow.lengths, memory.elem_bytes, _order_in_memory(memory, flow.sides[covering[0]]))
    held = _Held(flow, memory, tile, lane_axis(call.scope, context.launch.threads), widest, most_bytes)
    return tuple(dict.fromkeys(_partition_tile(context, held, sharing) for sharing in SHARINGS))


def is_stretched(flow: Flow, name: str) -> bool:
    """Is an operand the same along a dimension of the tile?"""
    return any(d is None and n > 1 for d, n in zip(flow.sides[name], flow.lengths, strict=True))


def list_covering(call: Call, flow: Flow) -> list[str]:
    """The operands in memory that cover the tile, what is written before what is read."""
    fields = [f for f in flow.sides if not call.regions[f].buffer.traits.is_held]
    written = call.fields_written
    return sorted((f for f in fields if not is_stretched(flow, f)), key=lambda f: f not in written)


@dataclass(frozen=True)
class _Held:
    """The tile of a flow as registers hold it, and the memory that covers it, which has it as ``tile``.

    ``lanes``: the axis and the number of the threads that share it. ``elem_bytes``: of a register's element, 1 where
    there is none; ``most_bytes``: of a vector.
    """

    flow: Flow
    memory: Operand
    tile: MemoryTile
    lanes: tuple[str, int]
    elem_bytes: int
    most_bytes: int


def _partition_tile(context: Context, held: _Held, sharing: Sharing) -> Partition:
    """The partition of a flow's tile by a region of memory that covers it.

    Vectors are the widest, up to so many bytes, that the region's begins, edges and alignment allow for every thread,
    and with which a thread has registers for its elements, where there are such.
    """
    memory, (axis, threads) = held.memory, held.lanes
    width = vector_elems(held.tile, max(1, held.most_bytes // memory.elem_bytes))
    allowed = list[Partition]()
    while True:
        layout = partition_layout(held.tile, threads, axis, width, sharing)
        if width == 1 or width <= _allowed(context, layout, held.flow, memory):
            allowed.append(Partition(layout, width * memory.elem_bytes))
            if (bound(extent_of(layout, "m")) - 1) * held.elem_bytes <= MAX_REGISTER_BYTES:
                return allowed[-1]
        if width == 1:
            return allowed[0]
        width //= 2


def _as_planned(context: Context, scope: str, flow: Flow, covering: Sequence[Region]) -> tuple[Partition, ...]:
    operands = [bind(r, context.memories[r.buffer.name], context.known) for r in covering]
    covered = [stretch(o, flow.lengths) for o in operands]
    found = list_partitions(context, scope, covered, flow.lengths)
    return tuple(Partition(part.layout, part.vector_bytes) for part in found)


def _allowed(context: Context, layout: TileLayout, flow: Flow, memory: Operand) -> int:
    """The widest access of the memory by threads that own the tile so."""
    buffer = Buffer("tile", REGISTER.name, memory.buffer.dtype, flow.lengths, layout, "tile")
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
