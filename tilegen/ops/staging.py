"""Operands of an op that computes that go through shared memory of its own: for arrays that no partition takes whole.

Threads move such an array between global memory and a tile along its own rows, and what they compute with lies in the
tile. Its rows are so far apart that threads which go down them meet no bank twice. The threads meet before the tile is
filled and before it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilegen.access import BANK_BYTES, BANKS
from tilegen.cost.needs import count_needed_sectors
from tilegen.index import bound
from tilegen.layouts import Iter, TileLayout, extent_of
from tilegen.ops.op import Planned
from tilegen.ops.operand import STRETCHED, Context, CountedSteps, Operand, bind
from tilegen.ops.partition_choice import plan_tile
from tilegen.plan import Memory, Step, Sync
from tilegen.scopes import instance_of
from tilegen.spaces import SHARED
from tilegen.spec.data import Buffer, Call, Region

IN_A_TILE = " in a tile of rows of "  # in the name of a partition
_MOST_BYTES = 32 << 10  # of a tile
_LINE_BYTES = BANKS * BANK_BYTES
_SPARE = 0.1  # of an array's sectors that a partition may ask for beyond those that hold the array


@dataclass(frozen=True)
class Tile:
    """What stands for operand ``number`` in shared memory; its rows are ``pitch`` elements apart."""

    number: int
    operand: Operand
    pitch: int

    @property
    def memory(self) -> Memory:
        return self.operand.memory

    def say(self, staged: Operand) -> str:
        """What follows the name of a partition."""
        return f"; {staged.buffer.name}{IN_A_TILE}{self.pitch}"


def list_tiles(context: Context, call: Call, operands: Sequence[Operand], counted: CountedSteps) -> Iterator[Tile]:
    """The tiles worth costing beside a function with these accesses, if it asks for sectors of some array again: of
    each array that another operand runs across.
    """
    _, instances = instance_of(call.scope, context.launch.threads)
    if instances > 1 or not all(o.memory.traits.has_sectors for o in operands):
        return
    names = [o.memory.name for o in operands]
    covering = [k for k, o in enumerate(operands) if o.dims and STRETCHED not in o.dims]
    alone = [k for k in covering if names.count(names[k]) == 1]
    along = {_fastest(operands[k]) for k in covering}
    if len(along) < 2 or not any(_is_asked_again(context, operands[k], counted) for k in alone):
        return
    for number in alone:
        operand = operands[number]
        for d in sorted(along - {_fastest(operand)}):
            yield from _list_pitches(context, call, number, operand, d)


def _is_asked_again(context: Context, operand: Operand, counted: CountedSteps) -> bool:
    own = [(a, c) for a, c in counted.accesses if a.memory.name == operand.memory.name]
    launch = context.launch
    needed = count_needed_sectors(tuple(a for a, _ in own), launch, launch.interior)
    return needed is not None and sum(c.sectors for _, c in own) > (1 + _SPARE) * needed


def _fastest(operand: Operand) -> int:
    """The dimension of the region in which the operand's neighbours lie."""
    return min(range(len(operand.dims)), key=lambda k: bound(operand.iters[operand.dims[k]][-1].stride))


def _list_pitches(context: Context, call: Call, number: int, operand: Operand, across: int) -> Iterator[Tile]:
    """The tiles of an operand in its own order, with rows along dimension ``across`` as far apart as is worth costing:
    one behind the other, or a bank further, or an access of 16 bytes further.
    """
    lengths, size = operand.lengths, operand.elem_bytes
    fastest_last = sorted(range(len(lengths)), key=lambda k: -bound(operand.iters[operand.dims[k]][-1].stride))
    row = prod(lengths[k] for k in fastest_last[fastest_last.index(across) + 1 :])
    pitches = [row, *(row + (step - row * size) % _LINE_BYTES // size for step in (max(BANK_BYTES, size), 16))]
    for pitch in dict.fromkeys(pitches):
        strides, step = [0] * len(lengths), 1
        for k in reversed(fastest_last):
            step = pitch if k == across else step
            strides[k], step = step, step * lengths[k]
        if step * size <= _MOST_BYTES:
            layout = TileLayout(tuple(map(Iter, lengths, strides)))
            tile = Tile(number, _see_tile(context, call, operand, layout), pitch)
            if tile.memory.offset_bytes + step * size <= context.shared_room:
                yield tile


def _see_tile(context: Context, call: Call, operand: Operand, layout: TileLayout) -> Operand:
    lengths, name = operand.lengths, context.fresh("tile")
    memory = context.scratch(operand.buffer.dtype, int(extent_of(layout, "m") or 1), call.scope)  # type: ignore[arg-type]
    buffer = Buffer(name, SHARED.name, operand.buffer.dtype, lengths, layout, name)
    whole = Region(buffer, (0,) * len(lengths), lengths, (True,) * len(lengths), operand.region.text)
    return replace(bind(whole, memory, context.known), op_field=operand.op_field)


def fill_or_empty(context: Context, call: Call, staged: Operand, tile: Tile, is_written: bool) -> Planned:
    """The cheapest copy between the array and its tile: to the tile, or from it where the op writes the array."""
    sides = (tile.operand, staged) if is_written else (staged, tile.operand)
    verb = "store" if is_written else "load"
    return plan_tile(context, sides, call.scope, f"{verb}_{staged.buffer.name}_tile")


def meet_around(call: Call, copied: tuple[Step, ...], computed: tuple[Step, ...], is_written: bool) -> tuple[Step, ...]:
    """The copy and what is computed in their order: threads meet before the tile is filled, and before it is read."""
    first, second = (computed, copied) if is_written else (copied, computed)
    return (Sync(call.scope), *first, Sync(call.scope), *second)
