"""permute_layout: a warp rearranges a tile from its source layout to its destination layout, in place if need be.

Every element passes through a register: a read phase through the source layout, a warp sync, a write phase through the
destination layout, a warp sync. The variants differ in which element a lane takes at which step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import numpy as np
from pydantic import Field

from tilegen.decisions import Candidate, Choice, Cost, compare_costs, judge, per_cta
from tilegen.index import Index, Var, add, div, mod, mul, xor
from tilegen.ops.digits import split_number
from tilegen.ops.op import MOVES, Array, Here, Op, Planned, Variant, refuse_conversion
from tilegen.ops.operand import Context, Refused
from tilegen.ops.permute_layout.lane_search import LaneMap, Side, apply_vectors, measure_pinned, search_lanes
from tilegen.ops.permute_layout.numbered_tile import (
    LANES,
    Bundle,
    NumberedTile,
    byte_addresses,
    contiguous_bits,
    digits_of,
    numbered,
    permute_block,
    plain_sides,
    tile_of,
)
from tilegen.ops.permute_layout.xor_swizzle import choose_xor
from tilegen.ops.pins import CopyWidth, NotHad, Pin, read_width, say_known, write_width
from tilegen.spec.data import Call
from tilegen.spec.form import OpFields

_MAX_LANE_BYTES = 512  # 128 registers of 4 bytes a lane, half of what a thread can have


class PermuteLayoutFields(OpFields):
    src: str = Field(description="region read, through its buffer's layout")
    dst: str = Field(description="region written, through its buffer's layout; may be a view of the source's bytes")
    variant: Literal["auto", "warp_xor_swizzle", "warp_linear_swizzle", "warp_vector"] = Field(
        default="auto", description="pin a variant instead of taking the cheapest"
    )
    width: CopyWidth = None
    lanes: list[int] | None = Field(
        default=None, min_length=5, max_length=5,
        description="which element a lane takes, as explain gives lane_vectors: what each bit of laneid adds by xor",
    )  # fmt: skip
    xor: list[int] | None = Field(
        default=None, min_length=2, max_length=2,
        description="of warp_xor_swizzle: [k, shift], the k bits of laneid from shift on turn the lane's steps",
    )  # fmt: skip


def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The logical elements of src, unchanged: only where they lie differs."""
    return {"dst": values["src"]}


def _refuse(call: Call, context: Context) -> str | None:
    src, dst = (call.regions[f] for f in ("src", "dst"))
    if call.scope != "warp":
        return f"scope is '{call.scope}', it must be 'warp'"
    if "register" in (src.buffer.scope, dst.buffer.scope):
        return "both sides must be in shared or global memory"
    count = prod(src.lengths)
    if count % LANES:
        return f"{count} elements are not a multiple of 32 lanes"
    operands = [context.operand(call, name) for name in ("src", "dst")]
    if count // LANES * operands[0].elem_bytes > _MAX_LANE_BYTES:
        return f"{count // LANES * operands[0].elem_bytes} bytes a lane do not fit in 128 registers"
    tile = _tile_of(call, context)
    for operand in operands:
        if len(np.unique(byte_addresses(tile, operand, context))) < count:
            return f"the layout of {operand.buffer.name} is not a bijection on the region"
    return None


def _tile_of(call: Call, context: Context) -> NumberedTile:
    return tile_of(context.operand(call, "src"), context.operand(call, "dst"))


def _registers(tile: NumberedTile) -> Choice:
    return Choice("registers_per_lane", tile.per_lane, (), f"{tile.count} elements / 32 lanes")


# ---------------------------------------------------------------- warp_xor_swizzle
def _plan_xor(call: Call, context: Context) -> Planned:
    """Lane l takes element ``l + 32 * (r ^ ((l >> shift) & mask))`` at step r."""
    tile = _tile_of(call, context)
    turn, choice = choose_xor(plain_sides(tile, context), tile.count, call.fields.xor)
    lane = Var("laneid", LANES)
    turned = mod(div(lane, 1 << turn.shift), turn.mask + 1)

    def at(r: Index, row: Index, column: int) -> tuple[Index, ...]:
        return tile.at(split_number(add(lane, mul(xor(r, turned), LANES)), tile.extents))

    block = permute_block(call, context, tile, Bundle(tile.per_lane, 1, 1, False, at))
    cost = context.cost((block,))
    choice = _of_all_places(choice, turn.cost.key[:3], cost)
    choices = per_cta(choice, turn.cost.instructions, cost.instructions), _registers(tile)
    return Planned((block,), cost, choices, (("xor", turn.pin),))


def _of_all_places(choice: Choice, once: tuple[int, ...], cost: Cost) -> Choice:
    """The choice, searched with the tile at its first place; the proof says so where the tile costs more at others.

    ``once``: (sectors, wavefronts, instructions) of the tile there.
    """
    runs = cost.instructions // once[2]
    same = (cost.sectors, cost.wavefronts) == (once[0] * runs, once[1] * runs)
    return choice if same else replace(choice, proof=f"where the tile lies first: {choice.proof}")


# ---------------------------------------------------------------- warp_linear_swizzle and warp_vector
@dataclass(frozen=True)
class _Shape:
    """Bits inside vectors: ``columns`` contiguous in src, ``rows`` in dst; ``both``: the columns are, in both."""

    columns: tuple[int, ...]
    rows: tuple[int, ...]
    both: bool

    @property
    def load_elems(self) -> int:
        return 1 << len(self.columns)

    @property
    def store_elems(self) -> int:
        return 1 << len(self.columns if self.both else self.rows)

    @property
    def widths(self) -> tuple[int, int]:
        return self.load_elems, self.store_elems


@dataclass(frozen=True)
class _Found:
    """A shape with its lane map over the ``rest`` of the bits. ``estimate``: (sectors, wavefronts, instructions)."""

    shape: _Shape
    rest: tuple[int, ...]
    lane_map: LaneMap
    estimate: tuple[int, int, int]


def _plan_linear(call: Call, context: Context) -> Planned:
    """Lane and step name an element by an invertible matrix over F2, one element an access."""
    tile = _tile_of(call, context)
    found = _search(tile, context, _Shape((), (), False), call.fields.lanes)
    return _plan_found(call, context, tile, found, ())


def _plan_vector(call: Call, context: Context) -> Planned:
    """Bundles in registers, so that at least one phase moves several contiguous elements at once.

    A bundle without bank conflicts is preferred to one with, even if wider accesses would save wavefronts.
    """
    tile = _tile_of(call, context)
    shapes = sorted((_least_cost(tile, s), k, s) for k, s in enumerate(_shapes(tile)))
    if not shapes:
        raise Refused("neither side has two contiguous, aligned elements beside 32 lanes of others")
    tried: list[_Found] = []
    for least, _, shape in shapes:
        if any(f.lane_map.reaches_floor and f.estimate <= least for f in tried):
            break
        tried.append(_search(tile, context, shape))
    free = [f for f in tried if f.lane_map.reaches_floor]
    width = read_width(call.fields.width)
    if width is None and not free and _search(tile, context, _Shape((), (), False)).lane_map.reaches_floor:
        raise Refused("no pair of widths was found without bank conflicts, one element an access leaves none")
    cheapest = best = min(free or tried, key=lambda f: f.estimate)
    if width not in (None, best.shape.widths):
        best = _take_widths(tile, context, [s for *_, s in shapes], tried, width)
    choice = _width_choice(tile, best, tried, len(shapes))
    if best is not cheapest:
        figures = compare_costs(Cost(*best.estimate), Cost(*cheapest.estimate)) or "the same cost"
        choice = replace(choice, proof=f"beside a pin, at {figures}")
    if call.fields.lanes is not None:
        best = _search(tile, context, best.shape, call.fields.lanes)
    pins = (("width", write_width(*best.shape.widths)),)
    return _plan_found(call, context, tile, best, (choice,), pins)


def _take_widths(
    tile: NumberedTile, context: Context, shapes: list[_Shape], tried: list[_Found], widths: tuple[int, int] | None
) -> _Found:
    """The lane map of the shape with these widths, put with those that were tried. Raises NotHad where none has them.
    """
    shape = next((s for s in shapes if s.widths == widths), None)
    if shape is None:
        known = [write_width(*s.widths) for s in shapes]
        raise NotHad("width", f"widths, or [load, store], are {say_known(known)}", known)
    found = next((f for f in tried if f.shape == shape), None)
    if found is None:
        found = _search(tile, context, shape)
        tried.append(found)
    return found


def _shapes(tile: NumberedTile) -> list[_Shape]:
    """Every pair of vector widths, not both one element, that leaves five or more bits for the lanes."""
    columns, rows = contiguous_bits(tile, tile.src, 0), contiguous_bits(tile, tile.dst, 1)
    room = len(tile.bits) - 5
    if columns and rows and columns[0] == rows[0]:
        common = [c for c, r in zip(columns, rows, strict=False) if c == r]
        return [_Shape(tuple(common[:n]), (), True) for n in range(1, min(len(common), room) + 1)]
    return [
        _Shape(tuple(columns[:c]), tuple(rows[:r]), False)
        for c in range(len(columns) + 1)
        for r in range(len(rows) + 1)
        if 0 < c + r <= room and not set(columns[:c]) & set(rows[:r])
    ]


def _least_cost(tile: NumberedTile, shape: _Shape) -> tuple[int, int, int]:
    """What a shape costs at least: (sectors, wavefronts, instructions)."""
    instructions = sectors = waves = 0
    for operand, width in ((tile.src, shape.load_elems), (tile.dst, shape.store_elems)):
        accesses = tile.per_lane // width
        instructions += accesses
        if operand.memory.space == "global":
            sectors += -(-tile.count * operand.elem_bytes // 32)
        else:
            waves += accesses * max(1, width * operand.elem_bytes // 4)
    return sectors, waves, instructions


def _search(tile: NumberedTile, context: Context, shape: _Shape, pinned: list[int] | None = None) -> _Found:
    """A shape with the cheapest lane map found for it, or with that of ``pinned`` lane vectors."""
    rest = tuple(b for b in range(len(tile.bits)) if b not in shape.columns and b not in shape.rows)
    sides = []
    others = (0, 0) if shape.both else (len(shape.rows), len(shape.columns))  # bits of the other side's vectors
    widths = (shape.load_elems, shape.store_elems)
    for operand, kind, width, other in zip((tile.src, tile.dst), ("ld", "st"), widths, others, strict=True):
        addresses = numbered(tile, byte_addresses(tile, operand, context), rest)
        sides.append(Side(addresses, operand.elem_bytes * width, operand.memory.space, kind, tile.odd << other))
    orders = [tuple(range(len(rest)))]
    for side in sides:
        by_address = np.argsort(side.addresses[1 << np.arange(len(rest))], kind="stable")
        orders.append(tuple(int(b) for b in by_address))
    lane_map = search_lanes(sides, tuple(dict.fromkeys(orders)))
    if pinned is not None:
        lane_map = measure_pinned(sides, len(rest), tuple(pinned), lane_map)
    return _Found(shape, rest, lane_map, (*lane_map.cost, _least_cost(tile, shape)[2]))


def _plan_found(
    call: Call, context: Context, tile: NumberedTile, found: _Found, choices: tuple[Choice, ...],
    pins: tuple[Pin, ...] = (),
) -> Planned:  # fmt: skip
    shape, lanes, bits = found.shape, found.lane_map, len(found.rest)
    mine = apply_vectors(Var("laneid", LANES), lanes.lanes, bits)
    repeats = 1 << len(lanes.steps)

    def at(r: Index, row: Index, column: int) -> tuple[Index, ...]:
        number = xor(mine, apply_vectors(mod(r, repeats), lanes.steps, bits))
        parts = (
            digits_of(tile, number, found.rest, div(r, repeats)),
            digits_of(tile, row, shape.rows),
            digits_of(tile, column, shape.columns),
        )
        return tile.at([add(add(a, b), c) for a, b, c in zip(*parts, strict=True)])

    bundle = Bundle(repeats * tile.odd, 1 << len(shape.rows), shape.load_elems, shape.both, at)
    block = permute_block(call, context, tile, bundle)
    vectors = {"lanes": list(lanes.lanes), "steps": list(lanes.steps)}
    cost = context.cost((block,))
    choices = (*choices, Choice("lane_vectors", vectors, (), lanes.proof))
    choices = tuple(_of_all_places(c, found.estimate, cost) for c in choices)
    scaled = (per_cta(c, found.estimate[2], cost.instructions) for c in choices)
    return Planned((block,), cost, (*scaled, _registers(tile)), (*pins, ("lanes", list(lanes.lanes))))


def _width_choice(tile: NumberedTile, best: _Found, tried: list[_Found], shapes: int) -> Choice:
    candidates = tuple(Candidate(_width_value(tile, f.shape), Cost(*f.estimate), _judge(f, best)) for f in tried)
    proof = f"the cheapest of {shapes} pairs of widths; every pair was searched"
    if len(tried) < shapes:
        proof = f"{len(tried)} of {shapes} pairs of widths were searched; the others cost at least as much"
    return Choice("vector_width", _width_value(tile, best.shape), candidates, proof)


def _judge(found: _Found, best: _Found) -> str:
    if best.lane_map.reaches_floor and not found.lane_map.reaches_floor:
        return "bank conflicts"
    return judge(Cost(*found.estimate), Cost(*best.estimate), found is best)


def _width_value(tile: NumberedTile, shape: _Shape) -> dict[str, int]:
    size, load, store = tile.src.elem_bytes, shape.load_elems, shape.store_elems
    return {
        "elems": max(load, store),
        "bytes": max(load, store) * size,
        "load_bytes": load * size,
        "store_bytes": store * size,
    }


OP = Op(
    "permute_layout", PermuteLayoutFields, reads=("src",), writes=("dst",),
    check_dtypes=refuse_conversion("permute_layout"), reference=_reference, exactness=MOVES,
    variants=(
        Variant("warp_vector", 30, _refuse, _plan_vector, adapts=True, pins=("width", "lanes")),
        Variant("warp_xor_swizzle", 20, _refuse, _plan_xor, adapts=True, pins=("xor",)),
        Variant("warp_linear_swizzle", 10, _refuse, _plan_linear, adapts=True, pins=("lanes",)),
    ),
)  # fmt: skip
