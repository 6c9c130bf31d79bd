"""Running a plan: every role is a generator that yields when it must wait, so a deadlock is "nobody moved"."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from tilegen.arithmetic import TYPED, Domain
from tilegen.index import Var, bound
from tilegen.index.recurrences import ALL_TRIPS, Trips
from tilegen.interpret.events import Enough, Log, Record
from tilegen.interpret.fault import BEFORE_PREVIOUS, DEADLOCK, Fault, FaultFound, Unsteady
from tilegen.interpret.machine import Machine
from tilegen.interpret.phases import count_agents
from tilegen.interpret.site import Frame, Site
from tilegen.interpret.steps import run_steps
from tilegen.interpret.threads import Array, Crew, Cta, muster
from tilegen.interpret.updated import Contributions
from tilegen.plan import Await, Plan, Role, default_values
from tilegen.scopes import cta_variables, thread_variables, whole_clusters


@dataclass(frozen=True)
class Outcome:
    """What the simulated CTAs did.

    ``written``: for every global array that the plan writes, the sorted flat offsets that were written (elements, as
    they lie in memory) and their values. ``writers``: which of ``ctas`` wrote each of them last, by its number.
    ``updates``: of arrays that the plan updates atomically, what each of ``ctas`` put to each element.
    """

    written: Mapping[str, tuple[Array, Array]]
    writers: Mapping[str, Array]
    ctas: tuple[Cta, ...]
    steps: int
    updates: Mapping[str, Contributions] = field(default_factory=dict)


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
    params: Mapping[str, int | float] | None = None,
    trips: Trips = ALL_TRIPS,
    domain: Domain = TYPED,
) -> Outcome:
    """Run CTAs of a plan in NumPy, all at once, with every check on; raises FaultFound (a ProofError) at a fault.

    ``inputs``: for each global array that is read, a function of flat element offsets (an int64 array of any shape)
    that returns the elements as ``domain`` stores them (TYPED: as elements of their dtypes); so are those of the
    Outcome. ``params``: the runtime parameters (defaults: the plan's). With a cluster, the other CTAs of each CTA's
    cluster run too: ``Outcome.ctas`` says which ran. ``trips``: those of its loops that run; raises Unsteady where
    others cannot be left out.
    """
    crew = gather(plan, ctas)
    machine = Machine(plan, crew, inputs, default_values(plan.params) | dict(params or {}), trips, domain)
    run_to_end(machine)
    found = {name: store.written() for name, store in machine.outputs.items()}
    written = {name: (at, values) for name, (at, values, _) in found.items()}
    writers = {name: cta for name, (_, _, cta) in found.items()}
    return Outcome(written, writers, crew.ctas, machine.steps, machine.updates())


def record(
    plan: Plan,
    ctas: Sequence[Sequence[int]],
    inputs: Mapping[str, Callable[[Array], Array]],
    params: Mapping[str, int | float] | None = None,
    rows: int = 1 << 30,
    domain: Domain = TYPED,
) -> Record:
    """What the roles of CTAs and of their clusters do, in so many rows: no further do they run, all checks on.

    A fault ends it, and is part of what is returned. The other arguments are those of ``interpret``.
    """
    crew = gather(plan, ctas)
    log = Log(plan, crew, rows)
    machine = Machine(plan, crew, inputs, default_values(plan.params) | dict(params or {}), ALL_TRIPS, domain, log)
    try:
        take_turns(machine)
        if not log.is_cut:
            machine.flights.refuse_leftovers()
            machine.phases.refuse_leftovers()
    except FaultFound as fault:
        return log.record(fault)
    return log.record()


def gather(plan: Plan, ctas: Sequence[Sequence[int]]) -> Crew:
    """The CTAs with their clusters, and all who do something there."""
    roles = tuple(role.threads for role in plan.roles)
    whole = whole_clusters(ctas, plan.cluster)
    return Crew(whole, plan.threads, plan.cluster, count_agents(plan), roles, plan.overlaps)


def run_to_end(machine: Machine) -> None:
    """Let all roles end, and raise for what they leave behind."""
    take_turns(machine)
    machine.flights.refuse_leftovers()
    machine.phases.refuse_leftovers()
    if machine.plan.overlaps:
        refuse_unfollowed(machine)


def take_turns(machine: Machine) -> None:
    """Let the roles take turns until all have ended, or until the log is full and the others wait for those."""
    live, first = {}, 0
    for role in machine.plan.roles:
        group, env = muster(machine.crew, role, first)
        env |= {name: x[group.cta] if isinstance(x, np.ndarray) else x for name, x in machine.params.items()}
        site = Site(machine, role, first, Frame(env, _definitions(machine, role), machine.places, own=set(env)), group)
        live[role.name] = run_steps(role.steps, site)
        first += role.threads
    while live:
        before, waiting = machine.steps, {}
        for name, turn in list(live.items()):
            try:
                why = next(turn, None)
            except Enough:
                why = None
            if why is None:
                del live[name]
                machine.steps += 1
                machine.steps_of += 1
            else:
                waiting[name] = why
        if live and machine.steps == before:
            if machine.log is not None and machine.log.is_cut:
                return
            for gathering in machine.gatherings.values():
                if gathering.left:  # one of the roles never comes there
                    raise Unsteady(gathering.loop)
            raise FaultFound(_describe_deadlock(machine, waiting))


def refuse_unfollowed(machine: Machine) -> None:
    """Raise where a CTA may end before the kernels before: the next kernel would wait for this one alone."""
    known = machine.clocks.has_followed(np.arange(machine.crew.all_warps)).reshape(len(machine.crew.ctas), -1)
    for cta in np.flatnonzero(~known.any(axis=1)):
        message = f"CTA {machine.crew.ctas[cta]} ends without waiting for the kernels before"
        raise FaultFound(Fault(BEFORE_PREVIOUS, message, insert=("wait: previous",), cta=machine.crew.ctas[cta]))


def _describe_deadlock(machine: Machine, waiting: Mapping[str, str]) -> Fault:
    """Who waits for what; the place is the first role's."""
    sites = {name: machine.waiting[name] for name in waiting}
    texts = []
    for name, why in waiting.items():
        trips = ", ".join(f"{loop} = {value}" for loop, value in sites[name].frame.loops.items())
        texts.append(f"role {name} waits for {why}{f' ({trips})' if trips else ''}")
    barriers = [s.step.slot.barrier.name for s in sites.values() if isinstance(s.step, Await)]
    return Fault(DEADLOCK, "deadlock: " + "; ".join(texts), barrier=barriers[0] if barriers else "")


def _definitions(machine: Machine, role: Role) -> dict[str, Var]:
    """The range of each variable that a role starts with."""
    axes = {name: Var(name, bound(value)) for name, value in thread_variables(role.threads).items()}
    return axes | cta_variables(machine.plan.grid, machine.plan.cluster)
