"""What all roles share: the threads, the clocks, and a store for each memory."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tilegen.arithmetic import TYPED, Domain
from tilegen.index import Index, evaluate, multiple
from tilegen.index.recurrences import ALL_TRIPS, Trips
from tilegen.interpret.clocks import Clocks
from tilegen.interpret.cores import Cores
from tilegen.interpret.events import Log
from tilegen.interpret.flights import Flights
from tilegen.interpret.memory import Input, Paged, Registers, Virtual
from tilegen.interpret.phases import Phases
from tilegen.interpret.pooled import Pool, Shared
from tilegen.interpret.reading import MemoryPlace, Root, form
from tilegen.interpret.tensor_memory import COLUMN_BYTES, Cells, TensorMemory
from tilegen.interpret.threads import Array, Crew, Group
from tilegen.interpret.updated import Contributions, Updated
from tilegen.interpret.watched import Carried, Flying, Watched
from tilegen.plan import (
    PRODUCTS,
    TENSOR_LOADS,
    TENSOR_STORES,
    Memory,
    Plan,
    Repeat,
    Touch,
    begin,
    flatten,
    walk,
)

_LEAST_APART = 1 << 20  # whole pages of an array


class Machine:
    """The state that all roles share."""

    def __init__(
        self, plan: Plan, crew: Crew, inputs: Mapping[str, Input], params: Mapping[str, Any],
        trips: Trips = ALL_TRIPS, domain: Domain = TYPED, log: Log | None = None,
    ):  # fmt: skip
        self.plan, self.crew, self.clocks, self.trips, self.domain = plan, crew, Clocks(crew), trips, domain
        self.log = log
        self.scalars = {p.name: float(params.get(p.name, p.default)) for p in plan.params if p.var is None}
        self.params, self.steps, self.flights = params, 0, Flights(len(crew.ctas) * crew.threads)
        self.steps_of = np.zeros(int(crew.case_of.max(initial=0)) + 1, np.int64)  # with each of the sizes
        self.apart = 0  # elements from an array at one size to the same at the next
        self.waiting: dict[str, Any] = {}  # the Site where each role waits
        self.phases = Phases(plan, crew, self.clocks)
        self.arrivals: dict[str, dict[str, list[tuple[Array, Array]]]] = {}
        self.places: dict[str, MemoryPlace] = {}
        self.views: dict[tuple[object, ...], MemoryPlace] = {}  # by form: several views of an array have its name
        self.outputs: dict[str, Paged | Updated] = {}
        self.uses = survey(plan)
        self.cores = Cores(self.clocks)
        self.watched: list[weakref.ref[Flying]] = []  # registers that wgmma, or tensor memory, has a hand in
        self.shapes: dict[str, int] = {}  # of wgmmas, each with a number
        self.gatherings: dict[object, Gathering] = {}  # of roles, before trips are left out
        self.runs: dict[object, int] = {}  # of loops that are cut, by role and the trips around
        self._lay_out(inputs)

    def _lay_out(self, inputs: Mapping[str, Input]) -> None:
        stores: dict[tuple[str, int], Any] = {}
        uses = self.uses
        shared = [m for m in self.plan.memories if m.traits.is_pooled]
        ends = [m.offset_bytes + self.number(m.span) * m.elem_bytes for m in shared]
        grain = min([uses[m.name].least_elems * m.elem_bytes for m in shared if m.name in uses], default=16)
        updates = any(uses[m.name].is_updated for m in shared if m.name in uses)
        columns = self.plan.tensor_columns
        self.tensor = TensorMemory(self.clocks, columns, find_grain(self.plan) if columns else 1, self.domain)
        pool = self.pool = Pool(self.clocks, max(ends, default=0), min(grain, 16), self.domain, updates)
        if self.crew.cases:
            spans = [np.max(self.number(m.span)) for m in self.plan.memories if m.traits.is_array]
            self.apart = 1 << int(max([_LEAST_APART, *spans])).bit_length()
            inputs = {name: partial(_read_within, self.apart, values) for name, values in inputs.items()}
        for memory in self.plan.memories:
            shape = tuple(self.number(n) for n in memory.shape)
            pitches = tuple(self.number(p) for p in memory.pitches)
            key = memory.name, memory.elem_bytes
            if key not in stores:
                stores[key] = self._store(memory, uses.get(memory.name, Use()), pool, shape, inputs.get(memory.name))
            first = self.crew.case_of * self.apart if self.crew.cases and memory.traits.is_array else 0
            root = Root(memory, stores[key], shape, pitches, first)
            place = MemoryPlace(root, (0,) * len(shape), 0, is_formal=False)
            self.places.setdefault(memory.name, place)
            self.views[form(memory)] = place

    def _store(self, memory: Memory, use: Use, pool: Pool, shape: tuple[int, ...], values: Input | None) -> Any:
        if memory.traits.is_held:
            return self.new_registers(memory, shape[0])
        if memory.traits.is_pooled:
            return Shared(memory, pool)
        if memory.traits.has_cells:
            return Cells(memory, self.tensor)
        if not memory.traits.is_array:
            raise TypeError(f"interpret/machine.py does not know {memory.traits.words}")
        if values is not None and (memory.access == "in" or not use.is_written):
            return Virtual(memory, values, self.domain)
        initial = values if memory.access == "inout" and not memory.is_unwritten else None
        store: Paged | Updated = Paged(memory, self.clocks, use.least_elems, use.is_read, initial, self.domain)
        if use.is_updated:
            store = Updated(memory, initial, self.domain)
        if use.is_written and memory.access != "in":
            self.outputs[memory.name] = store
        return store

    def new_registers(self, memory: Memory, elems: int) -> Registers:
        """Registers of all threads that nothing has written yet."""
        use = self.uses.get(memory.name, Use())
        if not use.is_multiplied and not use.is_carried:
            return Registers(memory, self.crew, elems, self.domain)
        store: Flying = (Carried if use.is_carried else Watched)(memory, self.crew, elems, self.domain)
        self.watched = [w for w in self.watched if w() is not None] + [weakref.ref(store)]
        return store

    def fence_registers(self, group: Group) -> None:
        """What the threads did with their registers is done before their wgmmas after this."""
        for store in self.watched:
            if isinstance(found := store(), Watched):
                found.fence(group)

    def roles_of(self, loop: str) -> set[str]:
        """The roles that run a loop of that name."""
        found = {r.name: any(isinstance(s, Repeat) and s.var.name == loop for s in flatten(r.steps))
                 for r in self.plan.roles}  # fmt: skip
        return {name for name, runs in found.items() if runs}

    def number_run(self, role: str, loop: str, around: object) -> object:
        """What the next run of a loop has in common with the other roles' runs of it."""
        n = self.runs[role, loop, around] = self.runs.get((role, loop, around), 0) + 1
        return around, n

    def pending(self) -> object:
        """What is awaited and what is in flight, to compare with another time: counted from now."""
        registers = tuple(found.pending() for store in self.watched if (found := store()) is not None)
        tensor = self.clocks.tensor.pending() if self.clocks.tensor is not None else ()
        return self.phases.pending(), self.flights.pending(), registers, tensor

    def count(self, steps: int, group: Group) -> None:
        """Count steps that a group has carried out, for all sizes that its CTAs run with."""
        self.steps += steps
        if self.crew.cases:
            self.steps_of[group.cases] += steps

    def updates(self) -> dict[str, Contributions]:
        """What each CTA put to each element of the arrays that are updated atomically."""
        return {name: s.contributions() for name, s in self.outputs.items() if isinstance(s, Updated)}

    def number(self, x: Index) -> Any:
        """A value that depends on runtime params only: of each CTA where these run with sizes by which it differs."""
        value = np.asarray(evaluate(x, self.params))
        return int(value.flat[0]) if (value == value.flat[0]).all() else value


def _read_within(apart: int, values: Input, index: Array) -> Array:
    """The elements of an array whose copies, one for each of several sizes, lie ``apart``."""
    return values(index & (apart - 1))


@dataclass
class Gathering:
    """Roles that compare what is in flight: those that have not come yet, and what it was when the last had come."""

    loop: str
    left: set[str]
    state: object = None


# ---------------------------------------------------------------- how a plan touches its memories
CHUNK_BYTES = 16  # TMA moves whole chunks of shared memory, wgmma reads them


@dataclass(frozen=True)
class Use:
    """How a plan touches a memory: the fewest elements in one access, whether it reads, writes, by wgmma too, updates
    atomically, and carries it to or from tensor memory.
    """

    least_elems: int = 1
    is_read: bool = False
    is_written: bool = False
    is_multiplied: bool = False
    is_updated: bool = False
    is_carried: bool = False


def survey(plan: Plan) -> dict[str, Use]:
    """How each memory is touched, through the formals of Blocks.

    An access never has fewer bytes than its memory's least, so that is the grain of the races.
    """
    uses: dict[str, Use] = {}
    for role in plan.roles:
        for visit in walk(role.steps, begin(role.threads)):
            row = visit.effects.instruction
            multiplies = row is not None and row.queue == PRODUCTS
            updates = row is not None and row.function != ""
            carries = row is not None and row.queue in (TENSOR_LOADS, TENSOR_STORES)
            for t in visit.effects.touches:
                spot = visit.position.spots.get(t.ref.memory.name)
                name, elems = spot.root.name if spot else t.ref.memory.name, _grain_elems(t)
                old = uses.get(name, Use(elems))
                uses[name] = Use(
                    min(old.least_elems, elems), old.is_read or t.reads, old.is_written or t.writes,
                    old.is_multiplied or multiplies, old.is_updated or (updates and t.writes),
                    old.is_carried or carries,
                )  # fmt: skip
    return uses


def _grain_elems(touch: Touch) -> int:
    """The elements that an access never has fewer of; of a box in an array, which is cut at its edges, one."""
    if touch.map is None and touch.matrix is None:
        return touch.elems
    memory = touch.ref.memory
    return 1 if memory.traits.is_array else max(1, CHUNK_BYTES // memory.elem_bytes)


def find_grain(plan: Plan) -> int:
    """The bytes that all accesses of tensor memory begin at multiples of, and have multiples of: at most 16."""
    grain = CHUNK_BYTES
    for role in plan.roles:
        for visit in walk(role.steps, begin(role.threads)):
            for t in visit.effects.touches:
                root, flat = visit.position.flat(t.ref)
                if root.traits.has_cells:
                    each = (t.elems, multiple(flat), multiple(root.pitches[0]))
                    grain = math.gcd(grain, root.offset_bytes, *(n * root.elem_bytes for n in each))
    return max(grain, COLUMN_BYTES)
