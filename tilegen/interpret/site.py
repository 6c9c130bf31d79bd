"""Where a role is in the plan, and what it can ask there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from tilegen.index import Var
from tilegen.interpret.clashes import NOBODY
from tilegen.interpret.clocks import Clocks
from tilegen.interpret.fault import DISAGREE, PARTIAL_SYNC, Fault, FaultFound
from tilegen.interpret.machine import Machine
from tilegen.interpret.order import Shadow
from tilegen.interpret.reading import MemoryPlace, form
from tilegen.interpret.threads import Array, Cta, Group
from tilegen.interpret.wide import Together
from tilegen.plan import (
    Arrive,
    Await,
    Block,
    Commit,
    Compute,
    Fence,
    Fetch,
    Follow,
    Let,
    Map,
    Memory,
    Mma,
    Move,
    Pick,
    Repeat,
    Role,
    Shuffle,
    Stamp,
    Step,
    Sync,
    TensorCopy,
    TensorFence,
    TensorMma,
    Tma,
    UnknownStep,
    Wait,
    Wgmma,
    When,
)
from tilegen.scopes import SCOPES

Blocked = Callable[[], str | None]  # why the role cannot go on, or None: it has gone on


@dataclass
class Frame:
    """What names mean here. Bodies get a copy: a name lives as long as its C scope."""

    env: dict[str, Any]  # values over the role's axis
    known: dict[str, Var]  # the definitions, whose ranges are checked
    places: dict[str, MemoryPlace]
    constants: frozenset[str] = frozenset()  # unrolled variables and what follows from them
    loops: dict[str, int] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)  # names that the function has defined
    op: int = NOBODY
    picked: dict[str, Var] = field(default_factory=dict)  # integers that threads hold, which places may name

    def inner(self, op: int = NOBODY) -> Frame:
        places, loops, own = dict(self.places), dict(self.loops), set(self.own)
        op = op if op >= 0 else self.op
        return Frame(dict(self.env), dict(self.known), places, self.constants, loops, own, op, dict(self.picked))

    def define(self, var: Var, value: Any) -> None:
        self.env[var.name], self.known[var.name] = value, var
        self.own.add(var.name)


@dataclass
class Site:
    """Where a role is in the plan: what names mean, and which threads are here."""

    machine: Machine
    role: Role
    first: int  # the role's first thread of the CTA
    frame: Frame
    group: Group
    step: Step | None = None
    together: Together | None = None  # the trips that the current step carries out at once

    def enter(self, group: Group, op: int = NOBODY) -> Site:
        """A body of the current step."""
        return Site(self.machine, self.role, self.first, self.frame.inner(op), group, self.step, self.together)

    def narrow(self, group: Group) -> Site:
        """The same step for fewer threads."""
        return Site(self.machine, self.role, self.first, self.frame, group, self.step, self.together)

    @property
    def rows(self) -> int:
        """Of an operand: one for each thread and trip."""
        return len(self.group) * (len(self.together) if self.together is not None else 1)

    # ---- what steps, stores and a log ask
    @property
    def op(self) -> int:
        return self.frame.op

    @property
    def loops(self) -> dict[str, int]:
        return self.frame.loops

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

    def view(self, memory: Memory) -> MemoryPlace:
        """The place of a memory of the kernel, in the form that a Ref uses."""
        place = self.machine.views.get(form(memory)) or self.frame.places[memory.name]
        if form(place.root.memory) != form(memory):
            used = f"{memory.name} is used as {memory.shape}:{memory.pitches}"
            self.fail(DISAGREE, f"{used}, which the plan does not have")
        return place

    def awaiting(self, shadow: Shadow, granule: int) -> tuple[str, ...]:
        """The statements that would land the copy in flight that touches a granule."""
        return self.machine.flights.awaiting(shadow, granule)

    def awaiting_registers(self, store: object, thread: int, element: int) -> tuple[str, ...]:
        """The statements that would land the wgmma in flight that has an element of a thread's registers."""
        return self.machine.flights.awaiting_registers(store, thread, element)

    def awaiting_agent(self, agent: int, tick: int, shadow: Shadow) -> tuple[str, ...]:
        """The statements that wait for what an agent does up to a tick with a memory."""
        return self.machine.phases.awaiting(agent, tick, shadow.writer is self.machine.tensor.pool.shadow.writer)

    def rendezvous(self, who: str, roles: tuple[str, ...], warps: Array, team: Array) -> Blocked:
        """Wait until each of the roles has come here as often as this one has; the last to come joins the clocks."""
        arrivals = self.machine.arrivals.setdefault(who, {name: [] for name in roles})
        arrivals[self.role.name].append((warps, team))
        turn = len(arrivals[self.role.name])
        if all(len(came) >= turn for came in arrivals.values()):
            met = [came[turn - 1] for came in arrivals.values()]
            self.clocks.meet(np.concatenate([w for w, _ in met]), np.concatenate([t for _, t in met]))

        def blocked() -> str | None:
            missing = [name for name, came in arrivals.items() if len(came) < turn]
            return f"{', '.join(missing)} at sync: {who}" if missing else None

        return blocked

    def fail(
        self, code: str, message: str, thread: int | None = None, *, other_op: int = NOBODY, needs_sync: str = "",
        insert: tuple[str, ...] = (),
    ) -> NoReturn:  # fmt: skip
        """Raise the fault: what, then where."""
        group, loops, where = self.group, dict(self.frame.loops), []
        cta: Cta | None = None
        warp = lane = NOBODY
        if thread is not None:
            thread %= len(group)  # trips that run together have all the threads once more each
            own, warp = divmod(int(group.warp[thread]), group.crew.warps)
            cta, lane, there = group.crew.ctas[own], int(group.lane[thread]), int(group.cta[thread])
            where = [f"CTA {cta}", f"warp {warp}", f"lane {lane}"]
            where += [] if there == own else [f"in CTA {group.crew.ctas[there]}"]
        if self.op >= 0:
            where.insert(0, f"op {self.op + 1}")
        where += [f"{name} = {value}" for name, value in loops.items()]
        place = describe(self.step) if self.step is not None else "kernel"
        text = f"{place}{' (' + ', '.join(where) + ')' if where else ''}: {message}"
        raise FaultFound(Fault(code, text, self.op, other_op, needs_sync, insert, "", cta, warp, lane, loops))


def require_whole_warps(name: str, site: Site) -> None:
    """A fault where lanes of a warp do not reach an instruction that a warp carries out as one."""
    group, lanes = site.group, SCOPES["warp"].threads
    missing = group.partial_warp
    if missing is None and np.any(group.crew.lanes_of[group.whole] != lanes):
        missing = int(np.flatnonzero((group.crew.lanes_of != lanes)[group.warp])[0])
    if missing is not None:
        site.fail(PARTIAL_SYNC, f"{name} under divergence: some lanes of the warp do not reach it", missing)


def require_whole_warpgroups(name: str, site: Site) -> None:
    """A fault where threads of a warpgroup do not reach what it carries out as one: four warps from a multiple of 4 on.

    PTX ISA, "Warpgroup", and .sync.aligned of wgmma's instructions.
    """
    require_whole_warps(name, site)
    group, crew = site.group, site.group.crew
    warps, number = group.whole, SCOPES["warpgroup"].threads // SCOPES["warp"].threads
    team = warps // crew.warps * crew.warps + warps % crew.warps // number
    missing = np.flatnonzero(np.bincount(team)[team] != number)
    if len(missing):
        row = int(np.argmax(group.warp == warps[missing[0]]))
        site.fail(PARTIAL_SYNC, f"{name} is for whole warpgroups: some of its warps do not reach it", row)


def describe(step: Step) -> str:
    """A step in a few words, for messages."""
    words = WORDS.get(type(step))
    if words is None:
        raise UnknownStep("the interpreter", step)
    return words(step)


def _ends(step: Tma) -> str:
    ends = (step.map.memory.name, step.shared.memory.name)
    return " -> ".join(ends if step.done else ends[::-1])


WORDS: dict[type, Callable[[Any], str]] = {
    Let: lambda step: f"let {step.var.name}",
    Fetch: lambda step: f"read {step.src.memory.name} -> {step.var.name}",
    Pick: lambda step: f"pick {step.var.name} of {step.src.memory.name}",
    Repeat: lambda step: f"for {step.var.name}",
    When: lambda step: "when",
    Block: lambda step: "block",
    Move: lambda step: f"{step.via.name} {step.src.memory.name} -> {step.dst.memory.name}",
    Map: lambda step: f"{step.fn.name} -> {step.dst.memory.name}",
    Compute: lambda step: f"compute {step.dst.memory.name}",
    Shuffle: lambda step: f"shuffle -> {step.dst.memory.name}",
    Mma: lambda step: f"{step.via.name} -> {step.c.memory.name}",
    Wgmma: lambda step: f"{step.via.name} -> {step.c.memory.name}",
    Tma: lambda step: f"TMA {_ends(step)}",
    Sync: lambda step: f"sync: {step.who}",
    Fence: lambda step: "fence",
    TensorMma: lambda step: f"{step.via.name} -> {step.c.memory.name}",
    TensorCopy: lambda step: f"{step.via.name} -> {step.dst.memory.name}",
    TensorFence: lambda step: f"fence {step.side}",
    Commit: lambda step: "commit",
    Wait: lambda step: "wait",
    Follow: lambda step: "wait: previous",
    Arrive: lambda step: f"arrive {step.slot.barrier.name}",
    Await: lambda step: f"await {step.slot.barrier.name}",
    Stamp: lambda step: f"stamp {step.number}",
}
