"""The table of instructions, and the loop that carries them out: lanes at the lowest instruction run first.

So lanes that part meet again where their ways join. Which lanes run first changes no verdict on order: clocks judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tilegen.ptx import (
    arithmetic,
    asynchronous,
    atomics,
    barriers,
    bits,
    conversions,
    matrices,
    meeting,
    memory,
    products,
    tensor_moves,
    tensor_products,
)
from tilegen.ptx.defined import list_touched
from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.products import touch_registers
from tilegen.ptx.rows import CONTROL, LANES, WARPGROUPS, WARPS, Row, Step
from tilegen.ptx.state import WARP, Fault, Lanes
from tilegen.ptx.tensor_moves import touch_loads
from tilegen.ptx.text import Instruction, PtxError, list_names

_MODULES = (
    arithmetic, bits, conversions, memory, matrices, barriers, asynchronous, products, tensor_moves, tensor_products,
    meeting, atomics,
)  # fmt: skip
TABLE: tuple[Row, ...] = tuple(one for module in _MODULES for one in module.ROWS)
_BRANCHES = re.compile(r"(bra|ret|exit|trap)(\.uni)?")
_MASKS = {"bar": 0, "shfl": 4, "vote": 2, "match": 2, "redux": 2, "elect": 1}  # which operand is the membermask


def find_row(op: str) -> tuple[Row, re.Match[str]]:
    """The row of an opcode. Raises PtxError that names it where there is none.

    >>> find_row("add.s32")[0].section
    '9.7.1 add'
    >>> find_row("add.sat.s32")
    Traceback (most recent call last):
    tilegen.ptx.text.PtxError: the machine has no instruction add.sat.s32
    """
    for one in TABLE:
        if found := one.pattern.fullmatch(op):
            return one, found
    raise PtxError(f"the machine has no instruction {op}")


@dataclass(frozen=True)
class Prepared:
    """An instruction, ready to run. ``who``: as ``Row`` has it, or what ``bra`` and ``ret`` do."""

    who: str
    step: Step
    guard: Array | None
    is_negated: bool
    target: int = 0
    mask: Array | None = None


def prepare(machine: Machine) -> list[Prepared]:
    """Steps of all instructions of the kernel. Raises PtxError for an unknown one, with its line."""
    code = machine.state.kernel.code
    taken = {
        start: frozenset(
            name for one in code if one.op.startswith(start) for x in one.operands[:2] if x.startswith("{")
            for name in list_names(x)
        )
        for start in ("wgmma.mma", "tcgen05.ld")
    }  # fmt: skip
    found = []
    for k, one in enumerate(code):
        machine.state.at = k
        try:
            found.append(_prepare_one(machine, one, taken))
        except PtxError as error:
            raise PtxError(f"line {one.line}: {error}") from None
    return found


def _prepare_one(machine: Machine, one: Instruction, taken: Mapping[str, frozenset[str]]) -> Prepared:
    guard = machine.state.row(one.guard, np.dtype(bool)) if one.guard else None
    if m := _BRANCHES.fullmatch(one.op):
        target = machine.state.kernel.labels[one.operands[0]] if m[1] == "bra" else 0
        return Prepared(m[1], lambda lanes: None, guard, one.is_negated, target)
    kind, found = find_row(one.op)
    step = kind.build(machine, one, found)
    for start, touch in (("wgmma.mma", touch_registers), ("tcgen05.ld", touch_loads)):
        names = taken[start].intersection(list_touched(one))
        if names and not one.op.startswith("wgmma"):
            step = _touching(machine, names, step, touch)
    at = _MASKS.get(one.op.split(".")[0])
    mask = machine.state.row(one.operands[at], np.dtype("u4")) if kind.who == WARPS and at is not None else None
    return Prepared(kind.who, step, guard, one.is_negated, 0, mask)


def _touching(
    machine: Machine, names: frozenset[str], step: Step, touch: Callable[[Machine, frozenset[str], Lanes], None]
) -> Step:
    def touched(lanes: Lanes) -> Array | None:
        touch(machine, names, lanes)
        result: Array | None = step(lanes)
        return result

    return touched


class Schedule:
    """Lanes that may run, by instruction; those that wait for something; those that wait for the rest of their warp."""

    def __init__(self, machine: Machine, most_steps: int):
        self.machine, self.most, self.steps = machine, most_steps, 0
        machine.wake, machine.resume = self.wake, self.resume
        self.code = prepare(machine)
        self.ready: dict[int, list[Array]] = {0: [np.flatnonzero(machine.state.exists)]}
        self.waiting: dict[int, Array] = {}
        self.partial: dict[int, Array] = {}

    def wake(self) -> None:
        for at, idx in self.waiting.items():
            self.ready.setdefault(at, []).append(idx)
        self.waiting = {}

    def resume(self, idx: Array, at: int) -> None:
        if len(idx):
            self.ready.setdefault(at, []).append(idx)

    def run(self) -> int:
        """Until all lanes have ended; how many instructions ran. Raises Fault, with ``at``."""
        state = self.machine.state
        try:
            with np.errstate(all="ignore"):
                while self.ready:
                    at = min(self.ready)
                    parts = self.ready.pop(at)
                    self._run_from(at, state.select(np.sort(np.concatenate(parts)) if len(parts) > 1 else parts[0]))
                self._refuse_deadlock()
                if said := self.machine.list_unfinished():
                    raise Fault(said)
        except Fault as fault:
            fault.at = state.at
            raise
        return self.steps

    def _run_from(self, at: int, lanes: Lanes) -> None:
        state, code = self.machine.state, self.code
        while True:
            if at in self.ready:  # others are here already: on together
                self.resume(lanes.idx, at)
                return
            one = code[at]
            state.at = at
            self.steps += 1
            if self.steps > self.most:
                raise Fault(f"more than {self.most} instructions")
            here = lanes
            if one.guard is not None and one.who not in ("bra", "ret", "exit"):
                held = one.guard[lanes.at]
                if not held.all() or one.is_negated:
                    here = state.select(lanes.idx[~held if one.is_negated else held])
            if one.who == LANES:
                if here.n:
                    one.step(here)
                at += 1
            elif here.n == 0:
                at += 1
            elif here is lanes and self._is_together(one, lanes):
                one.step(lanes)
                at += 1
            else:
                self._control(one, at, lanes, here)
                return

    def _is_together(self, one: Prepared, lanes: Lanes) -> bool:
        if one.who == WARPS:
            return lanes.whole and (one.mask is None or bool((one.mask[lanes.at] == 0xFFFFFFFF).all()))
        if one.who == WARPGROUPS:
            return lanes.whole and (
                lanes.n == self.machine.state.total
                or not np.bincount(lanes.idx // 128)[np.unique(lanes.idx // 128)].min() < 128
            )
        return False

    def _control(self, one: Prepared, at: int, lanes: Lanes, here: Lanes) -> None:
        """Branches, and what may wait. ``here``: the lanes whose guard holds; the others go on."""
        state = self.machine.state
        if one.who in ("bra", "ret", "exit", "trap"):
            taken = np.ones(lanes.n, bool) if one.guard is None else one.guard[lanes.at] ^ one.is_negated
            if one.who == "trap":
                raise Fault("trap")
            if one.who == "bra":
                self.resume(lanes.idx[taken], one.target)
            self.resume(lanes.idx[~taken], at + 1)
            return
        if here is not lanes:
            self.resume(np.setdiff1d(lanes.idx, here.idx), at + 1)
        if one.who == CONTROL:
            passed = one.step(here)
            if passed is not None:
                self.resume(here.idx[passed], at + 1)
                if not passed.all():
                    rest = here.idx[~passed]
                    self.waiting[at] = np.union1d(self.waiting[at], rest) if at in self.waiting else rest
            return
        idx = np.union1d(self.partial.pop(at, here.idx[:0]), here.idx)
        complete = self._find_complete(one, idx)
        if complete.any():
            one.step(state.select(idx[complete]))
            self.resume(idx[complete], at + 1)
        if not complete.all():
            self.partial[at] = idx[~complete]

    def _find_complete(self, one: Prepared, idx: Array) -> Array:
        """Lanes all of whose companions are here: those of their membermask, of their warp, of their warpgroup."""
        exists = self.machine.state.exists
        if one.who == WARPGROUPS:
            here = np.bincount(idx // 128, minlength=len(exists) // 128 + 1)
            complete: Array = here[idx // 128] == 128
            return complete
        bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
        there = (exists.reshape(-1, WARP) * bits).sum(1).astype(np.uint32)
        present = np.zeros(len(there), np.uint32)
        np.bitwise_or.at(present, idx // WARP, bits[idx % WARP])
        asked = np.uint32(0xFFFFFFFF) if one.mask is None else one.mask[idx]
        lacking: Array = (asked & there[idx // WARP] & ~present[idx // WARP]) == 0
        return lacking

    def _refuse_deadlock(self) -> None:
        named = [(at, idx) for came in self.machine.meetings.named.values() for idx, at, clock in came if clock is None]
        stuck = [*self.waiting.items(), *self.partial.items(), *named]
        if stuck:
            at, idx = min(stuck, key=lambda one: one[0])
            self.machine.state.at = at
            places = sorted({self.machine.state.kernel.code[k].line for k, _ in stuck})
            first, where = int(self.machine.state.tid[idx[0]]), ", ".join(map(str, places[:8]))
            raise Fault(
                f"a deadlock: {len(idx)} threads, from thread {first} on, wait here for ever; PTX lines {where}"
            )
