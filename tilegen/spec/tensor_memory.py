"""Buffers of tensor memory: lanes and columns that a CTA has, and where each buffer's columns lie.

PTX ISA, "Tensor Memory", and ``tcgen05.alloc``: arch/data.py has the numbers. TCol counts elements; a column is 32 bits
wide, so that four uint8 share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilegen import layouts
from tilegen.arch import ARCHES, WITH_TENSOR_MEMORY
from tilegen.arch.data import TensorMemory
from tilegen.dtypes import DTYPES
from tilegen.errors import Mark
from tilegen.index import Index, bound
from tilegen.layouts import Iter, TileLayout
from tilegen.layouts.core.cells import CELL_AXES, CELL_BITS, Cells, find_cells
from tilegen.spec.data import Buffer, Region
from tilegen.spec.findings import Flawed
from tilegen.spec.form import OpForm
from tilegen.spec.nodes import Mapping as MappingNode
from tilegen.spec.nodes import Node, Scalar
from tilegen.spec.regions import show_shape


# ---------------------------------------------------------------- one buffer
def check_tensor_buffer(node: MappingNode, dtype: str, arch: str, what: str) -> None:
    """An arch that has tensor memory, a dtype that its cells hold, no alignment in bytes; raises TG106, TG109."""
    if ARCHES[arch].tensor_memory is None:
        having = f"archs that have it: {', '.join(WITH_TENSOR_MEMORY)}"
        raise Flawed("TG106", f"{arch} has no tensor memory", node["scope"].mark, having)
    if dtype in DTYPES and DTYPES[dtype].bits > CELL_BITS:
        narrow = ", ".join(name for name, one in DTYPES.items() if one.bits == CELL_BITS)
        message = f"{what} is in tensor memory, whose cells of {CELL_BITS} bits hold no {dtype}"
        raise Flawed("TG109", message, node["dtype"].mark, f"types of {CELL_BITS} bits: {narrow}")
    if "align" in node:
        message = f"'align' is of addresses in bytes, and {what} is in tensor memory, which is allocated in columns"
        raise Flawed("TG106", message, node.key("align").mark, "remove it")


def require_layout(node: Node | None, shape: tuple[Index, ...], dtype: str, what: str, mark: Mark | None) -> None:
    """Which dimension goes along lanes the ops say, where the text has 'auto', or a layout does; raises TG102."""
    if node is None:
        message = f"{what} is in tensor memory and needs the key 'layout'"
        raise Flawed("TG102", message, mark, say_placement(shape, dtype, "layout: "))


def check_cells(layout: Any, shape: tuple[Index, ...], dtype: str, arch: str, what: str, node: Node) -> None:
    """Axes, lanes and columns of a layout; raises TG203, TG210, and LayoutError for what only a run would know."""
    has = _memory_of(arch)
    tile = layouts.tile_of(layout)
    for axis in dict.fromkeys([*(i.axis for i in (*tile.shard, *tile.replica)), *(axis for axis, _ in tile.offset)]):
        if axis not in CELL_AXES:
            message = f"the axis '{axis}' has no place in the layout of {what}"
            fix = f"tensor memory has {' and '.join(CELL_AXES)}: {say_placement(shape, dtype)}"
            raise Flawed("TG203", message, find_axis(node, axis), fix)
    lanes, elements = (max(1, bound(layouts.extent_of(layout, axis)) - 1) for axis in CELL_AXES)
    if lanes > has.lanes:
        message = f"the layout of {what} reaches lane {lanes - 1}; tensor memory has lanes 0 to {has.lanes - 1}"
        hint = "fewer copies, or closer ones" if tile.replica else say_placement(shape, dtype)
        raise Flawed("TG210", message, find_axis(node, CELL_AXES[0]), hint)
    packed = CELL_BITS // DTYPES[dtype].bits
    if elements > has.columns * packed:
        message = f"{what} takes {-(-elements // packed)} columns of tensor memory; a CTA on {arch} has {has.columns}"
        hint = f"a lane has room for {has.columns * packed} elements of {dtype}"
        raise Flawed("TG210", message, find_axis(node, CELL_AXES[1]), hint)
    find_cells(layout, DTYPES[dtype].bits)


def check_apart(layout: Any, shape: tuple[Index, ...], dtype: str, what: str, node: Node) -> None:
    """No cell is for two elements; raises TG204, and LayoutError where neither strides nor enumeration decide."""
    if not layouts.is_injective(layout):
        message = f"the layout of {what} puts two elements in one place, and only the kernel writes tensor memory"
        raise Flawed("TG204", message, node.mark, say_placement(shape, dtype))


def find_axis(node: Node, axis: str) -> Any:
    """Where the axis is written, or the whole node."""
    if isinstance(node, Scalar) and (at := node.text.find("@" + axis)) >= 0:
        return node.locate(at + 1, at + 1 + len(axis))
    return node.mark


def suggest_placement(shape: tuple[Index, ...], dtype: str) -> str:
    """The layout that a person would write: TCol along the last dimension, TLane along the one before.

    Dimensions further out, and rows for which there are not lanes enough, go to further columns. "" where the columns
    do not suffice.

    >>> suggest_placement((2, 128, 112), "float32")
    'S[(2,128,112):(112@TCol,1@TLane,1@TCol)]'
    >>> suggest_placement((256, 64), "float32")
    'S[(2,128,64):(64@TCol,1@TLane,1@TCol)]'
    """
    has = TensorMemory()
    extents = [n for n in shape if isinstance(n, int)]
    if len(extents) == 1:
        extents = [*extents, 1] if extents[0] <= has.lanes else [1, *extents]
    layout = lay_out_rows(extents, len(extents) - 2, len(extents) - 1)
    fits = (bound(layouts.extent_of(layout, CELL_AXES[1])) - 1) * DTYPES[dtype].bits <= has.columns * CELL_BITS
    return str(layout).replace(", ", ",") if fits else ""


def lay_out_rows(shape: Sequence[int], rows: int, columns: int) -> TileLayout:
    """Row r in lane r, its columns neighbours, over a shape of which these dimensions are the rows and the columns.

    Rows for which there are not lanes enough go to further columns, behind them what the other dimensions count.

    >>> print(lay_out_rows((2, 256, 64), 1, 2))
    S[(2, 2, 128, 64):(128@TCol, 64@TCol, 1@TLane, 1@TCol)]
    >>> print(lay_out_rows((128, 2, 64), 0, 2))
    S[(128, 2, 64):(1@TLane, 64@TCol, 1@TCol)]
    """
    most = TensorMemory().lanes
    lanes = max(n for n in range(1, most + 1) if shape[rows] % n == 0)
    lane, column = CELL_AXES
    step = shape[columns]
    blocks = (Iter(shape[rows] // lanes, step, column),) if lanes < shape[rows] else ()
    iters = {columns: (Iter(step, 1, column),), rows: (*blocks, Iter(lanes, 1, lane))}
    step *= shape[rows] // lanes
    for d in reversed([d for d in range(len(shape)) if d not in iters]):
        iters[d] = (Iter(shape[d], step, column),)
        step *= shape[d]
    return TileLayout(tuple(i for d in range(len(shape)) for i in iters[d]))


def say_placement(shape: tuple[Index, ...], dtype: str, key: str = "write ") -> str:
    """The layout that a person would write, as a fix; or that there is none."""
    fix, has = suggest_placement(shape, dtype), TensorMemory()
    return f'{key}"{fix}"' if fix else f"{show_shape(shape)} has no room in {has.lanes} lanes of {has.columns} columns"


def _memory_of(arch: str) -> TensorMemory:
    has = ARCHES[arch].tensor_memory
    assert has is not None  # check_tensor_buffer came first
    return has


# ---------------------------------------------------------------- all of them
COLUMN_UNIT = 4  # buffers begin at multiples of so many columns: what Triton's allocator keeps to (pull request 6205)


@dataclass(frozen=True)
class Columns:
    """Where the columns of each tmem buffer begin in the one allocation of a CTA, by name, in the order of the text.

    ``taken``: the columns up to the last that a buffer has. ``allocated``: those of the allocation, a power of two, 0
    where no buffer is in tensor memory.
    """

    first: Mapping[str, int]
    taken: int
    allocated: int


def place_columns(buffers: Iterable[Buffer], arch: str) -> Columns:
    """The one allocation for all tmem buffers, which lie one behind the other. It may be more than a CTA has.

    One that lies ``over`` others begins where the first of them does, and takes no columns of its own.
    """
    there = [b for b in buffers if b.traits.has_cells and b.root == b.name]
    own: dict[str, int] = {}
    taken = 0
    for buffer in there:
        if not buffer.over:
            own[buffer.name] = -(-taken // COLUMN_UNIT) * COLUMN_UNIT
            taken = own[buffer.name] + cells_of(buffer).reach
    first = {b.name: min(own[name] for name in b.over) if b.over else own[b.name] for b in there}
    return Columns(first, taken, _memory_of(arch).allocate(taken) if first else 0)


def cells_of(buffer: Buffer) -> Cells:
    """The cells of a buffer of tensor memory."""
    return find_cells(buffer.layout, DTYPES[buffer.dtype].bits)


def check_tensor_total(buffers: Iterable[Buffer], arch: str) -> None:
    """All buffers whose layout is known have room in one allocation; raises TG210 at the first one that has none."""
    there: list[Buffer] = []
    for buffer in buffers:
        if not buffer.traits.has_cells or buffer.root != buffer.name or buffer.over or buffer.is_auto:
            continue
        there.append(buffer)
        has, taken = _memory_of(arch), place_columns(there, arch).taken
        if taken > has.columns:
            terms = " + ".join(str(cells_of(b).reach) for b in there)
            is_sum = len(there) > 1 and sum(cells_of(b).reach for b in there) == taken
            total = f"{terms} = {taken}" if is_sum else str(taken)
            message = f"the tmem buffers up to '{buffer.name}' take {total} columns; a CTA on {arch} has {has.columns}"
            fix = f"{taken - has.columns} fewer, or one stage less of a buffer that has several"
            raise Flawed("TG210", message, buffer.mark, fix)


# ---------------------------------------------------------------- what cannot be done with them yet
def refuse_tensor_op(form: OpForm, regions: Mapping[str, Region], node: MappingNode) -> None:
    """Raises TG190 for an op that touches tensor memory in a field that may not be there, at the first such region;
    and for a move that no warpgroup makes, or whose other side is not in registers. A copy may take it from shared
    memory.
    """
    touched = [r for field, r in regions.items() if r.buffer.traits.has_cells and field not in form.tensor]
    if touched:
        names = " and ".join(dict.fromkeys(f"'{r.buffer.name}'" for r in touched))
        message = f"{form.name} with {names} in tensor memory is not yet supported"
        hint = "copy or cast it to registers first, and back behind it: threads compute in registers"
        raise Flawed("TG190", message, touched[0].mark, hint)
    held = [r for r in regions.values() if r.buffer.traits.has_cells]
    if not held or not {"src", "dst"} <= {*regions}:
        return
    if form.name == "copy" and regions["src"].buffer.traits.is_pooled:  # one thread starts it: tcgen05.cp
        return
    scope = node.get("scope")
    if isinstance(scope, Scalar) and scope.text in ("thread", "warp"):
        message = f"{form.name} of '{held[0].buffer.name}' in tensor memory by a {scope.text} is not yet supported"
        raise Flawed("TG190", message, scope.mark, "the four warps of a warpgroup reach all lanes: 'scope: warpgroup'")
    others = [r for r in regions.values() if not r.buffer.traits.is_held]
    if len(others) > 1:
        where = " to ".join(regions[side].buffer.traits.words for side in ("src", "dst"))
        message = f"{form.name} from {where} is not yet supported"
        raise Flawed("TG190", message, others[0].mark, "write two: what goes to or from tensor memory is in registers")
