"""What register tiles there are: the tile of a copy whose sides are contiguous along different dimensions.

A thread takes ``rows`` x ``columns`` elements at a time. Which shapes the sides allow, and which register tiles the
threads of a warp hold at once, is enumerated here; what they cost is counted elsewhere.

Where a side's dimension is short and its neighbours follow it (the 3 bytes of a pixel, and the next pixel), a register
tile takes it whole and is one run of that side: its vectors go on from one row to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from tilegen.index import Index, add, multiple
from tilegen.index.runs import counter, fuse
from tilegen.ops.digits import Digit, Place, fuse_places, spread
from tilegen.ops.edges import allows_width, guarded_dims
from tilegen.ops.operand import Operand, join_operands, ref_at
from tilegen.ops.ordered_tile import OrderedTile, place_of

_LANES = 32
MOST_RUN_BYTES = 256  # of a register tile that is one run: 64 registers
WORD_BYTES = 4  # of a register
_LINE_BYTES = 128  # global memory is cached by lines of four sectors: a request looks each of its lines up


@dataclass(frozen=True)
class Shape:
    """The elements of one thread: rows lie contiguously in dst, columns in src.

    ``load`` and ``store``: elements that an access moves. A load is one of the ``rows`` vectors of ``columns``
    elements, or a part of the run that the whole tile is in src; a store likewise in dst.
    """

    rows: int
    columns: int
    load: int
    store: int

    @property
    def elems(self) -> int:
        return self.rows * self.columns

    @property
    def loads(self) -> int:
        """How many accesses load the tile."""
        return self.elems // self.load

    @property
    def stores(self) -> int:
        """How many accesses store the tile."""
        return self.elems // self.store


@dataclass(frozen=True)
class TileOrder:
    """How the register tiles are numbered: parts (digit, weight, extent) of their number, outermost first.

    Of the neighbouring threads of a warp, ``along_src`` lie side by side in src and ``along_dst`` in dst; ``inner``
    says which of the two come first.
    """

    parts: tuple[Place, ...]
    inner: str
    along_src: int
    along_dst: int

    @property
    def value(self) -> dict[str, int | str]:
        return {"inner": self.inner, "along_src": self.along_src, "along_dst": self.along_dst}


def refuse_turn(operands: tuple[Operand, Operand]) -> str | None:
    """Why there is nothing to turn over between these operands, or None."""
    digits = fuse(join_operands(operands))
    rows, columns = ([k for k, d in enumerate(digits) if d.strides[side] == 1] for side in (1, 0))
    for operand, found in zip(operands, (columns, rows), strict=True):
        if not found:
            return f"no dimension of {operand.region.text or operand.buffer.name} is contiguous"
    if not set(rows).isdisjoint(columns):  # several are contiguous where elements share a place, as a source's may
        return "both sides are contiguous along the same dimension: nothing to turn over"
    return None


# ---------------------------------------------------------------- what there is to choose from
def shapes_of(tile: OrderedTile) -> tuple[Shape, ...]:
    """Every shape with accesses that its side allows, but for a single element; fewest accesses an element first."""
    columns, rows = (_widths(tile, side) for side in (0, 1))
    shapes = {(r, c): Shape(r, c, c, r) for r in rows for c in columns if r * c > 1}
    shapes |= {(s.rows, s.columns): s for side, counts in ((0, rows), (1, columns)) for s in _runs(tile, side, counts)}
    return tuple(sorted(shapes.values(), key=lambda s: ((s.loads + s.stores) / s.elems, s.elems)))


def _runs(tile: OrderedTile, side: int, counts: Sequence[int]) -> Iterator[Shape]:
    """Shapes that take the whole of a side's own dimension, and of the other's so many ``counts`` that follow in it.

    Only where a vector that goes on from one to the next is wider than one inside of it.
    """
    operand = tile.operands[side]
    own, other = tile.contiguous(side), tile.contiguous(1 - side)
    whole = tile.digits[own].extent
    follows = tile.digits[other].strides[side] == whole and tile.digits[other].axes[side] == tile.digits[own].axes[side]
    has_known_extents = all(isinstance(n, int) for n in operand.memory.shape)  # else no vector across rows is proved
    if not follows or not has_known_extents or tile.digits[own].places[-1][0] in tile.guarded:
        return
    is_guarded = tile.digits[other].places[-1][0] in guarded_dims(operand)
    inside, size = _widths(tile, side)[-1], operand.elem_bytes
    word = word_elems(size)  # what is turned at once
    for count in (n for n in counts if n > 1 and n % word == 0 and n * whole * size <= MOST_RUN_BYTES):
        if is_guarded and not ends_between(operand, tile.digits[other], count):
            continue
        values: list[Index] = [_digit_in_steps(tile, k, count if k == other else 1) for k in range(len(tile.digits))]
        values[own] = 0
        ref, width = ref_at(operand, place_of(tile, values)), 1
        run = replace(tile.digits[own], extent=count * whole)
        while allows_width(operand, ref, width * 2, run, side, frozenset()):
            width *= 2
        if width > inside:
            yield Shape(whole, count, count, width) if side else Shape(count, whole, width, count)


def word_elems(elem_bytes: int) -> int:
    """Elements of a register; 1 of those that take several.

    >>> word_elems(1), word_elems(2), word_elems(8)
    (4, 2, 1)
    """
    return max(1, WORD_BYTES // elem_bytes)


def _digit_in_steps(tile: OrderedTile, k: int, step: int) -> Index:
    """Any value of a digit that is a multiple of ``step``."""
    return counter(f"digit{k}", tile.digits[k].extent // step, step)


def ends_between(operand: Operand, digit: Digit, count: int) -> bool:
    """Do begin and extent keep ``count`` neighbours along a digit together, inside the array or outside?"""
    place, weight, extent = digit.places[-1]
    d = operand.dims[place]
    begin, end = operand.region.begins[d], operand.region.ends[d]
    return weight == 1 and extent % count == 0 and multiple(begin) % count == 0 and multiple(end) % count == 0


def _widths(tile: OrderedTile, side: int) -> list[int]:
    """1, 2, 4, ... elements, as far as operand number ``side`` can move them at once wherever the tile begins."""
    operand, own = tile.operands[side], tile.contiguous(side)
    widths = [1]
    while tile.digits[own].extent % (widths[-1] * 2) == 0:
        width = widths[-1] * 2
        values = [_digit_in_steps(tile, k, width if k == own else 1) for k in range(len(tile.digits))]
        ref = ref_at(operand, place_of(tile, values))
        if not allows_width(operand, ref, width, tile.digits[own], side, tile.guarded):
            break
        widths.append(width)
    return widths


def orders_of(tile: OrderedTile, shape: Shape) -> tuple[TileOrder, ...]:
    """Every way to lay a warp over the tile: 1, 2, 4, .. 32 neighbours along one side, the others along the other."""
    extents = [d.extent for d in tile.digits]
    column, row = tile.contiguous(0), tile.contiguous(1)
    extents[row] //= shape.rows
    extents[column] //= shape.columns
    weights = {row: shape.rows, column: shape.columns}
    found: dict[tuple[Place, ...], TileOrder] = {}
    for inner, outer, name in ((column, row, "src"), (row, column, "dst")):
        for near in _powers(extents[inner], _LANES):
            far = _powers(extents[outer], _LANES // near)[-1]
            for others in _outer_orders(extents, row, column):
                split = ((outer, far), (inner, near))
                parts = _parts(extents, weights, others, split)
                lanes = (near, far) if name == "src" else (far, near)
                found.setdefault(parts, TileOrder(parts, name, *lanes))
    return tuple(found.values())


def _powers(extent: int, most: int) -> list[int]:
    """The powers of two up to ``most`` that divide ``extent``."""
    return [1 << k for k in range(most.bit_length()) if extent % (1 << k) == 0]


def _outer_orders(extents: Sequence[int], row: int, column: int) -> list[tuple[int, ...]]:
    """The other digits, outermost first: as they stand, and the other way round where a warp reaches into them."""
    others = tuple(k for k in range(len(extents)) if k not in (row, column))
    small = extents[row] * extents[column] < _LANES
    return list(dict.fromkeys([others, others[::-1]])) if small else [others]


def _parts(
    extents: Sequence[int], weights: dict[int, int], others: Sequence[int], split: Sequence[tuple[int, int]]
) -> tuple[Place, ...]:
    """The other digits, then what is left of the two split ones, then the neighbours; equal neighbours are joined."""
    parts = [(k, 1, extents[k]) for k in others]
    parts += [(k, weights[k] * lanes, extents[k] // lanes) for k, lanes in split]
    parts += [(k, weights[k], lanes) for k, lanes in split]
    return fuse_places(p for p in parts if p[2] > 1)


# ---------------------------------------------------------------- where they lie
def digits_at(
    tile: OrderedTile, shape: Shape, order: TileOrder, group: Index, row: Index, column: Index
) -> list[Index]:
    """The digits of element (row, column) of a register tile."""
    values = spread(group, order.parts, [0] * len(tile.digits))
    for side, place in ((1, row), (0, column)):
        k = tile.contiguous(side)
        values[k] = add(values[k], place)
    return values


def coalesced(tile: OrderedTile, shape: Shape) -> tuple[TileOrder, ...]:
    """The orders that touch the fewest lines of global memory: a layout can move what lies in banks, but no lines."""
    orders = orders_of(tile, shape)
    lines = [count_lines(tile, shape, order) for order in orders]
    return tuple(order for order, n in zip(orders, lines, strict=True) if n == min(lines))


def count_lines(tile: OrderedTile, shape: Shape, order: TileOrder) -> int:
    """128-byte lines of global memory that all accesses of the tile touch, rows taken to begin with a line.

    Lanes are looked up in groups that move 128 bytes together: 8 lanes of 16 bytes in four lines are four look-ups,
    even if the other 24 lanes are in the same four.
    """
    lanes = min(_LANES, tile.count // shape.elems)
    lines = 0
    for side, operand in enumerate(tile.operands):
        if operand.memory.traits.has_sectors:
            own, other = tile.contiguous(side), tile.contiguous(1 - side)
            inside, accesses, width = (
                (shape.rows, shape.stores, shape.store) if side else (shape.columns, shape.loads, shape.load)
            )
            elems = _LINE_BYTES // operand.elem_bytes
            along, held = (own, elems) if width == inside else (other, max(1, elems // inside))
            lines += _count_lookups(order.parts, lanes, along, held, max(1, elems // width)) * accesses
    return lines * -(-tile.count // shape.elems // _LANES)


@cache
def _count_lookups(parts: tuple[Place, ...], lanes: int, own: int, line_elems: int, group: int) -> int:
    """Lines that the lanes of a warp touch, group by group; a line holds ``line_elems`` along digit ``own``."""
    touched = []
    for lane in range(lanes):
        at: dict[int, int] = {}
        rest = lane
        for digit, weight, extent in reversed(parts):
            rest, number = divmod(rest, extent)
            at[digit] = at.get(digit, 0) + number * weight
        touched.append(tuple(sorted((d, x // line_elems if d == own else x) for d, x in at.items())))
    return sum(len(set(touched[first : first + group])) for first in range(0, lanes, group))
