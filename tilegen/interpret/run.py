"""Running a plan: every role is a generator that yields when it must wait, so a deadlock is "nobody moved"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NoReturn

import numpy as np

from tilegen.index import Index, Var, bound, evaluate
from tilegen.interpret.address import Address, Place, Root, Text, form, read_address, read_text
from tilegen.interpret.fault import DEADLOCK, DISAGREE, Fault, FaultFound
from tilegen.interpret.memory import Input, Paged, Pool, Registers, Shared, Virtual
from tilegen.interpret.order import NOBODY, Clocks
from tilegen.interpret.steps import DATA, STRUCTURE, Blocked, describe
from tilegen.interpret.survey import Use, survey
from tilegen.interpret.threads import Array, Crew, Cta, Group, muster, whole_clusters
from tilegen.plan import CLUSTER_AXES, CTA_AXES, Memory, Plan, Ref, Role, Step, thread_variables


@dataclass(frozen=True)
class Outcome:
    """What the simulated CTAs did.

    ``written``: for every global array that the plan writes, the sorted flat offsets that were written (elements, as
    they lie in memory) and their values.
    """

    written: Mapping[str, tuple[Array, Array]]
    ctas: tuple[Cta, ...]
    steps: int


@dataclass
class Frame:
    """What names mean here. Bodies get a copy: a name lives as long as its C scope."""

    env: dict[str, Any]  # values over the role's axis
    known: dict[str, Var]  # the definitions, whose ranges are checked
    places: dict[str, Place]
    constants: frozenset[str] = frozenset()  # unrolled variables and what follows from them
    loops: dict[str, int] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)  # names that the function has defined
    op: int = NOBODY

    def inner(self, op: int = NOBODY) -> Frame:
        places, loops, own = dict(self.places), dict(self.loops), set(self.own)
        return Frame(dict(self.env), dict(self.known), places, self.constants, loops, own, op if op >= 0 else self.op)

    def define(self, var: Var, value: Any) -> None:
        self.env[var.name], self.known[var.name] = value, var
        self.own.add(var.name)


class Machine:
    """The state that all roles share."""

    def __init__(self, plan: Plan, crew: Crew, inputs: Mapping[str, Input], params: Mapping[str, int]):
        self.plan, self.crew, self.clocks = plan, crew, Clocks(crew)
        self.params, self.steps = params, 0
        self.texts: dict[int, tuple[Index, Text]] = {}
        self.addresses: dict[int, tuple[Ref, Address]] = {}
        self.arrivals: dict[str, dict[str, list[tuple[Array, Array]]]] = {}
        self.live: dict[str, Iterator[str]] = {}
        self.places: dict[str, Place] = {}
        self.views: dict[tuple[object, ...], Place] = {}  # by form: several views of an array have its name
        self.outputs: dict[str, Paged] = {}
        self._lay_out(inputs)

    def _lay_out(self, inputs: Mapping[str, Input]) -> None:
        stores: dict[tuple[str, int], Any] = {}
        uses = survey(self.plan)
        shared = [m for m in self.plan.memories if m.space == "shared"]
        ends = [m.offset_bytes + self.number(m.span) * m.elem_bytes for m in shared]
        grain = min([uses[m.name].least_elems * m.elem_bytes for m in shared if m.name in uses], default=16)
        pool = Pool(self.clocks, max(ends, default=0), min(grain, 16))
        for memory in self.plan.memories:
            shape = tuple(self.number(n) for n in memory.shape)
            pitches = tuple(self.number(p) for p in memory.pitches)
            key = memory.name, memory.elem_bytes
            if key not in stores:
                stores[key] = self._store(memory, uses.get(memory.name, Use()), pool, shape, inputs.get(memory.name))
            place = Place(Root(memory, stores[key], shape, pitches), (0,) * len(shape), 0, is_formal=False)
            self.places.setdefault(memory.name, place)
            self.views[form(memory)] = place

    def _store(self, memory: Memory, use: Use, pool: Pool, shape: tuple[int, ...], values: Input | None) -> Any:
        if memory.space == "register":
            return Registers(memory, len(self.crew.ctas) * self.crew.threads, shape[0])
        if memory.space == "shared":
            return Shared(memory, pool)
        if values is not None and (memory.access == "in" or not use.is_written):
            return Virtual(memory, values)
        store = Paged(memory, self.clocks, use.least_elems, use.is_read, values if memory.access == "inout" else None)
        if use.is_written and memory.access != "in":
            self.outputs[memory.name] = store
        return store

    def number(self, x: Index) -> int:
        """A value that depends on runtime params only."""
        return int(evaluate(x, self.params))

    def run(self) -> None:
        """Let the roles take turns until all have ended."""
        first = 0
        for role in self.plan.roles:
            group, env = muster(self.crew, self.plan, role, first)
            env |= self.params
            site = Site(self, role, Frame(env, self._definitions(env), self.places, own=set(env)), group)
            self.live[role.name] = site.run(role.steps)
            first += role.threads
        while self.live:
            before, waiting = self.steps, {}
            for name, turn in list(self.live.items()):
                why = next(turn, None)
                if why is None:
                    del self.live[name]
                    self.steps += 1
                else:
                    waiting[name] = why
            if self.live and self.steps == before:
                message = "deadlock: " + "; ".join(f"role {name} waits for {why}" for name, why in waiting.items())
                raise FaultFound(Fault(DEADLOCK, message))

    def _definitions(self, env: Mapping[str, Any]) -> dict[str, Var]:
        """The range of each variable that the kernel starts with."""
        axes = {name: Var(name, bound(value)) for name, value in thread_variables(self.plan.threads).items()}
        for name, extent in zip(CTA_AXES, self.plan.grid, strict=True):
            axes[name] = Var(name, self.number(extent) if isinstance(extent, int) else bound(extent) - 1)
        for name, n in zip(CLUSTER_AXES, self.plan.cluster, strict=True):
            axes[name] = Var(name, n)
        return axes


@dataclass
class Site:
    """Where a role is in the plan: what names mean, and which threads are here."""

    machine: Machine
    role: Role
    frame: Frame
    group: Group
    step: Step | None = None

    def enter(self, group: Group, op: int = NOBODY) -> Site:
        """A body of the current step."""
        return Site(self.machine, self.role, self.frame.inner(op), group, self.step)

    def narrow(self, group: Group) -> Site:
        """The same step for fewer threads."""
        return Site(self.machine, self.role, self.frame, group, self.step)

    def run(self, steps: Iterable[Step]) -> Iterator[str]:
        """Run steps in order; yields why the role must wait."""
        if not len(self.group):
            return
        for step in steps:
            self.step = step
            structure = STRUCTURE.get(type(step))
            if structure is not None:
                yield from structure(step, self) or ()
                continue
            self.machine.steps += 1
            blocked: Blocked | None = DATA[type(step)](step, self)
            while blocked is not None and (why := blocked()) is not None:
                yield why
            if blocked is not None:
                self.machine.steps += 1

    # ---- what steps and stores ask
    @property
    def op(self) -> int:
        return self.frame.op

    @property
    def clocks(self) -> Clocks:
        return self.machine.clocks

    @property
    def roles(self) -> tuple[Role, ...]:
        return self.machine.plan.roles

    @property
    def crew_threads(self) -> int:
        """Threads of all simulated CTAs."""
        return len(self.group.crew.ctas) * self.group.crew.threads

    def text(self, x: Index) -> Text:
        """``x`` read once; the cache holds ``x`` too, so that its id stays its own."""
        entry = self.machine.texts.get(id(x))
        if entry is None:
            entry = self.machine.texts[id(x)] = (x, read_text(x))
        return entry[1]

    def view(self, memory: Memory) -> Place:
        """The place of a memory of the kernel, in the form that a Ref uses."""
        place = self.machine.views.get(form(memory)) or self.frame.places[memory.name]
        if form(place.root.memory) != form(memory):
            used = f"{memory.name} is used as {memory.shape}:{memory.pitches}"
            self.fail(DISAGREE, f"{used}, which the plan does not have")
        return place

    def address(self, ref: Ref) -> Address:
        entry = self.machine.addresses.get(id(ref))
        if entry is None:
            entry = self.machine.addresses[id(ref)] = (ref, read_address(ref))
        return entry[1]

    def rendezvous(self, scope: str, warps: Array, team: Array) -> Blocked:
        """Wait until every role has come here as often as this one has; the last to come joins the clocks."""
        arrivals = self.machine.arrivals.setdefault(scope, {role.name: [] for role in self.roles})
        arrivals[self.role.name].append((warps, team))
        turn = len(arrivals[self.role.name])
        if all(len(came) >= turn for came in arrivals.values()):
            met = [came[turn - 1] for came in arrivals.values()]
            self.clocks.meet(np.concatenate([w for w, _ in met]), np.concatenate([t for _, t in met]))

        def blocked() -> str | None:
            missing = [name for name, came in arrivals.items() if len(came) < turn]
            return f"{', '.join(missing)} at sync: {scope}" if missing else None

        return blocked

    def fail(
        self, code: str, message: str, thread: int | None = None, *, other_op: int = NOBODY, needs_sync: str = ""
    ) -> NoReturn:
        """Raise the fault: what, then where."""
        group, loops, where = self.group, dict(self.frame.loops), []
        cta: Cta | None = None
        warp = lane = NOBODY
        if thread is not None:
            cta = group.crew.ctas[int(group.cta[thread])]
            warp, lane = int(group.warp[thread]) % group.crew.warps, int(group.lane[thread])
            where = [f"CTA {cta}", f"warp {warp}", f"lane {lane}"]
        if self.op >= 0:
            where.insert(0, f"op {self.op}")
        where += [f"{name} = {value}" for name, value in loops.items()]
        place = describe(self.step) if self.step is not None else "kernel"
        text = f"{place}{' (' + ', '.join(where) + ')' if where else ''}: {message}"
        raise FaultFound(Fault(code, text, self.op, other_op, needs_sync, cta, warp, lane, loops))


# ---------------------------------------------------------------- the door
def corners(grid: Sequence[int]) -> list[Cta]:
    """First, second, second last and last CTA of each dimension.

    >>> corners((5, 1, 1))
    [(0, 0, 0), (1, 0, 0), (3, 0, 0), (4, 0, 0)]
    """
    bz, by, bx = ([i for i in sorted({0, 1, n - 2, n - 1}) if 0 <= i < n] for n in (*grid, 1, 1)[2::-1])
    return [(x, y, z) for z, y, x in product(bz, by, bx)]


def interpret(
    plan: Plan,
    ctas: Sequence[Sequence[int]],
    inputs: Mapping[str, Callable[[Array], Array]],
    params: Mapping[str, int] | None = None,
) -> Outcome:
    """Run CTAs of a plan in NumPy, all at once, with every check on; raises FaultFound (a ProofError) at a fault.

    ``inputs``: for each global array that is read, a function of flat element offsets (an int64 array of any shape)
    that returns the elements, typed. ``params``: the runtime parameters (defaults: the plan's). With a cluster, the
    other CTAs of each CTA's cluster run too: ``Outcome.ctas`` says which ran.
    """
    values = {p.name: int(p.default) for p in plan.params} | dict(params or {})
    crew = Crew(whole_clusters(ctas, plan.cluster), plan.threads, plan.cluster)
    machine = Machine(plan, crew, inputs, values)
    machine.run()
    written = {name: store.written() for name, store in machine.outputs.items()}
    return Outcome(written, crew.ctas, machine.steps)
