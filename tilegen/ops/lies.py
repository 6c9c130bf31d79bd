"""Accesses at places of tables, under the condition that the elements keep their promise.

What an op with ``edge: clip`` reads at other places is its pad, and what it writes there is dropped. The steps of every
variant pass through here, so no variant can leave the condition out; ``proofs/lies`` shows that none did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tilegen.index import Index, ceil_div, every, mul, select
from tilegen.plan import (
    FILL,
    MOVE,
    TMA_UNIT_BYTES,
    Block,
    Map,
    Memory,
    Move,
    Repeat,
    Step,
    Tma,
    UnknownStep,
    When,
    effects,
    register_memory,
    when,
)
from tilegen.spec.data import Call
from tilegen.spec.tested import PlaceOfTable

_HELD = "kept_elems_"  # registers of their own: with a number behind it
Kept = Mapping[str, Index]  # by memory: the condition that the elements which enter places in it keep their promise


def conditions_of(
    call: Call, places: Iterable[PlaceOfTable], tests: Mapping[str, Index], memories: Mapping[str, Memory]
) -> Kept:
    """The condition for each array of an op; ``tests``: of each element, by its name, that it keeps its promise.

    Elements that name places and were not read name none: so where an index counts, the conditions of all hold.
    """
    found: dict[str, Index] = {}
    for place in places:
        name = memories[place.region.buffer.name].name
        asked = every(*(tests[read] for read in place.reads if read in tests))
        if asked is not True:
            found[name] = every(found.get(name, True), asked)
    asked = every(*found.values())
    if call.form.index and asked is not True:
        found |= {memories[call.indexed.buffer.name].name: asked}
    return found


def drop_lies(steps: Sequence[Step], kept: Kept, pad: float = 0) -> tuple[Step, ...]:
    """The steps of an op, each access of an array of ``kept`` under its condition; ``pad``: what is read elsewhere.

    Raises UnknownStep for a kind of step that accesses such an array in a way that is not known here.
    """
    held: list[Memory] = []
    found = _drop_all(steps, kept, pad, held)
    if held:  # what moves from memory to memory stands in a function, which has registers
        raise UnknownStep("ops/lies.py", steps[0])
    return found


def _drop_all(steps: Sequence[Step], kept: Kept, pad: float, held: list[Memory]) -> tuple[Step, ...]:
    return tuple(found for step in steps for found in _drop(step, kept, pad, held)) if kept else tuple(steps)


def _drop(step: Step, kept: Kept, pad: float, held: list[Memory]) -> tuple[Step, ...]:
    """``held``: registers that the steps take, beside those of the function around."""
    if isinstance(step, Block):
        formals = {formal.name: at.memory.name for formal, at in step.args if isinstance(formal, Memory)}
        inner = {name: kept[actual] for name, actual in formals.items() if actual in kept}
        inner |= {name: c for name, c in kept.items() if name not in formals}
        own: list[Memory] = []
        body = _drop_all(step.body, inner, pad, own)
        taken = {*formals, *(m.name for m in step.registers)}
        assert taken.isdisjoint(m.name for m in own), "a name that no spec gives, and no op"
        return (replace(step, body=body, registers=(*step.registers, *own)),)
    if isinstance(step, Repeat | When):
        return (replace(step, body=_drop_all(step.body, kept, pad, held)),)
    touched = effects(step)
    read = every(*(kept.get(t.ref.memory.name, True) for t in touched.read if not t.writes))
    written = every(*(kept.get(t.ref.memory.name, True) for t in touched.written))
    if read is True and written is True:
        return (step,)
    if isinstance(step, Move):
        return when(written, *_read_where(step, read, pad, held))
    if isinstance(step, Tma):
        return when(written, step if read is True else _move_outside(step, read))
    raise UnknownStep("ops/lies.py", step)


def _read_where(move: Move, condition: Index, pad: float, held: list[Memory]) -> tuple[Step, ...]:
    """A load that leaves the pad where the condition does not hold."""
    if condition is True:
        return (move,)
    if not move.dst.memory.traits.is_held and move.via is MOVE:
        register = register_memory(f"{_HELD}{len(held)}", move.dst.memory.dtype, move.elems)
        held.append(register)
        load = replace(move, dst=register[0])
        return (*_read_where(load, condition, pad, held), Move(move.dst, register[0], move.elems))
    if not pad:
        return (replace(move, valid=every(condition, move.valid)),)
    filled = Map(FILL, move.dst, (), move.elems, pad)
    return (filled, *when(every(condition, move.valid), replace(move, valid=True)))


def _move_outside(load: Tma, condition: Index) -> Tma:
    """A load of the same bytes from behind the array's end where the condition does not hold: zeros arrive."""
    array, d = load.map.memory, load.map.dims[0]
    unit = TMA_UNIT_BYTES // array.elem_bytes if len(load.map.dims) == 1 else 1
    outside = mul(ceil_div(array.shape[d], unit), unit)
    return replace(load, at=(select(condition, load.at[0], outside), *load.at[1:]))
