"""permute_layout: a warp rearranges a tile from its source layout to its destination layout, in place if need be.

Every element passes through a register: a read phase through the source layout, a warp sync, a write phase through the
destination layout, a warp sync. The variants differ in which element a lane takes at which step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Literal

import numpy as np
from pydantic import Field

from tilegen.decisions import Choice, Cost, per_cta
from tilegen.index import Index, Var, add, div, mod, mul, xor
from tilegen.ops.digits import split_number
from tilegen.ops.op import MOVES, Array, Here, Op, Planned, Variant, refuse_conversion
from tilegen.ops.operand import Context, Refused
from tilegen.ops.permute_layout.lane_search import apply_vectors
from tilegen.ops.permute_layout.numbered_tile import (
    LANES,
    Bundle,
    NumberedTile,
    byte_addresses,
    digits_of,
    permute_block,
    plain_sides,
    tiles_of,
)
from tilegen.ops.permute_layout.shapes import (
    Found,
    choose_shape,
    choose_word,
    say_left_out,
    search,
    search_shapes,
    vectors_of_words,
    words_alone,
)
from tilegen.ops.permute_layout.xor_swizzle import choose_xor
from tilegen.ops.pins import CopyWidth, read_width, write_width
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
    if src.buffer.traits.is_held or dst.buffer.traits.is_held:
        return "both sides must be in shared or global memory"
    count = prod(src.lengths)
    if count % LANES:
        return f"{count} elements are not a multiple of 32 lanes"
    operands = [context.operand(call, name) for name in ("src", "dst")]
    if count // LANES * operands[0].elem_bytes > _MAX_LANE_BYTES:
        return f"{count // LANES * operands[0].elem_bytes} bytes a lane do not fit in 128 registers"
    tile = _tiles_of(call, context)[0]
    for operand in operands:
        if len(np.unique(byte_addresses(tile, operand, context))) < count:
            return f"the layout of {operand.buffer.name} is not a bijection on the region"
    return None


def _tiles_of(call: Call, context: Context) -> tuple[NumberedTile, ...]:
    return tiles_of(context.operand(call, "src"), context.operand(call, "dst"))


def _registers(tile: NumberedTile) -> Choice:
    count = tile.count * tile.word
    return Choice("registers_per_lane", count // LANES, (), f"{count} elements / 32 lanes")


# ---------------------------------------------------------------- warp_xor_swizzle
def _plan_xor(call: Call, context: Context) -> Planned:
    """Lane l takes word ``l + 32 * (r ^ ((l >> shift) & mask))`` at step r."""
    shapes = words_alone(_tiles_of(call, context))
    turns = [choose_xor(plain_sides(s.tile, context), s.tile.count)[0] for s in shapes]
    shape, of_width = choose_word(shapes, [t.cost for t in turns], read_width(call.fields.width))
    tile = shape.tile
    turn, choice = choose_xor(plain_sides(tile, context), tile.count, call.fields.xor)
    lane = Var("laneid", LANES)
    turned = mod(div(lane, 1 << turn.shift), turn.mask + 1)

    def at(r: Index, row: Index, column: int) -> tuple[Index, ...]:
        return tile.at(split_number(add(lane, mul(xor(r, turned), LANES)), tile.extents))

    block = permute_block(call, context, tile, Bundle(tile.per_lane, 1, 1, at))
    counted = context.count(block)
    cost = counted.cost
    asked = (of_width, choice)[len(shapes) == 1 :]
    choices = (_of_all_places(c, turn.cost.key[:3], cost) for c in asked)
    scaled = (per_cta(c, turn.cost.instructions, cost.instructions) for c in choices)
    pins = ("width", write_width(*shape.widths)), ("xor", turn.pin)
    return Planned((block,), cost, (*scaled, _registers(tile)), pins, counted=(counted,))


def _of_all_places(choice: Choice, once: tuple[int, ...], cost: Cost) -> Choice:
    """The choice, searched with the tile at its first place; the proof says so where the tile costs more at others.

    ``once``: (sectors, wavefronts, instructions) of the tile there.
    """
    runs = cost.instructions // once[2]
    same = (cost.sectors, cost.wavefronts) == (once[0] * runs, once[1] * runs)
    return choice if same else replace(choice, proof=f"where the tile lies first: {choice.proof}")


# ---------------------------------------------------------------- warp_linear_swizzle and warp_vector
def _plan_linear(call: Call, context: Context) -> Planned:
    """Lane and step name a word by an invertible matrix over F2, one word an access."""
    shapes = words_alone(_tiles_of(call, context))
    found, choice = choose_shape(shapes, search_shapes(shapes, context), read_width(call.fields.width), context)
    return _plan_found(call, context, found, (choice,) if len(shapes) > 1 else ())


def _plan_vector(call: Call, context: Context) -> Planned:
    """Bundles in registers, so that at least one phase moves several contiguous elements at once.

    A bundle without bank conflicts is preferred to one with, even if wider accesses would save wavefronts; words that
    both sides keep together are as wide as is cheapest.
    """
    tiles, widths = _tiles_of(call, context), read_width(call.fields.width)
    shapes = vectors_of_words(tiles)
    if not shapes:
        raise Refused("neither side has two contiguous, aligned elements beside 32 lanes of others")
    tried = search_shapes(shapes, context)
    (element, *words), is_free = words_alone(tiles), any(f.lane_map.reaches_floor for f in tried)
    if widths is None and not words and not is_free and search(element, context).lane_map.reaches_floor:
        raise Refused("no pair of widths was found without bank conflicts, one element an access leaves none")
    found, choice = choose_shape(shapes, tried, widths, context)
    return _plan_found(call, context, found, (replace(choice, proof=choice.proof + say_left_out(tiles)),))


def _plan_found(call: Call, context: Context, found: Found, choices: tuple[Choice, ...]) -> Planned:
    if call.fields.lanes is not None:
        found = search(found.shape, context, call.fields.lanes)
    shape, tile, lanes, bits = found.shape, found.shape.tile, found.lane_map, len(found.rest)
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

    bundle = Bundle(repeats * tile.odd, 1 << len(shape.rows), 1 << len(shape.columns), at)
    block = permute_block(call, context, tile, bundle)
    vectors = {"lanes": list(lanes.lanes), "steps": list(lanes.steps)}
    counted = context.count(block)
    cost = counted.cost
    choices = (*choices, Choice("lane_vectors", vectors, (), lanes.proof))
    choices = tuple(_of_all_places(c, found.estimate, cost) for c in choices)
    scaled = (per_cta(c, found.estimate[2], cost.instructions) for c in choices)
    pins = ("width", write_width(*shape.widths)), ("lanes", list(lanes.lanes))
    return Planned((block,), cost, (*scaled, _registers(tile)), pins, counted=(counted,))


OP = Op(
    "permute_layout", PermuteLayoutFields, reads=("src",), writes=("dst",),
    check_dtypes=refuse_conversion("permute_layout"), reference=_reference, exactness=MOVES,
    variants=(
        Variant("warp_vector", 30, _refuse, _plan_vector, adapts=True, pins=("width", "lanes")),
        Variant("warp_xor_swizzle", 20, _refuse, _plan_xor, adapts=True, pins=("width", "xor")),
        Variant("warp_linear_swizzle", 10, _refuse, _plan_linear, adapts=True, pins=("width", "lanes")),
    ),
)  # fmt: skip
