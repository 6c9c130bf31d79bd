"""What roles did, as a log: arrivals, waits and whom they waited for, copies, products, syncs. Kept when asked for.

Events stand in the order in which the interpreter ran them: one role after the other, each until it has to wait. Their
rows say more: an event's row is greater than those of all that it must come after, which are the event before it in
its role and CTA, those that it waited for, and at a sync those of all that meet. Neither is a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tilegen.interpret.fault import FaultFound
from tilegen.interpret.flights import Flight
from tilegen.interpret.threads import Array, Crew, Cta, Group
from tilegen.plan import (
    PRODUCTS,
    TENSOR,
    Arrive,
    Await,
    Block,
    Plan,
    Repeat,
    Role,
    Stamp,
    Step,
    Sync,
    Tma,
    Wait,
    effects,
)
from tilegen.scopes import SCOPES

ARRIVES, WAITS, MEETS = "arrive", "wait", "sync"
COPY_STARTED, COPY_LANDED, COPIES_DONE = "copy started", "copy landed", "copies waited for"
PRODUCTS_STARTED, PRODUCTS_DONE = "products started", "products waited for"
_ONE_ROW = (ARRIVES, COPY_STARTED, PRODUCTS_STARTED)  # an op does it several times in a row


@dataclass(frozen=True)
class Event:
    """What the threads of a role did in one CTA; the other fields are those that ``what`` has a use for.

    ``op`` is the plan's operation (-1: none) and ``line`` that of the spec (0: the op's). ``threads`` took part: so
    many arrivals. ``barrier``, ``slot`` and ``phase`` say where, in the CTAs ``there``, which of a copy that is
    started are those that it goes to; a wait at an open barrier for
    what nobody has to do is for phase -1. ``phase`` of a sync of several roles: how many there were before. ``bytes``
    are announced by an arrival, else moved. ``names``: the memories that are read, and the one that is written.
    ``scope`` of a sync, or the queue of what is in flight; ``pending``: how many of its groups may be so still.
    ``by``: the numbers of the events that were waited for, the last of which completed it.
    """

    number: int
    row: int
    what: str
    cta: Cta
    role: str
    op: int = -1
    line: int = 0
    loops: tuple[tuple[str, int], ...] = ()
    threads: int = 0
    barrier: str = ""
    slot: int = 0
    phase: int = 0
    there: tuple[Cta, ...] = ()
    bytes: int = 0
    names: tuple[str, ...] = ()
    scope: str = ""
    pending: int = 0
    by: tuple[int, ...] = ()


@dataclass(frozen=True)
class Passed:
    """A stamp that a role passed in one CTA, after the first ``before`` events of the record."""

    number: int
    cta: Cta
    role: str
    loops: tuple[tuple[str, int], ...]
    before: int


@dataclass(frozen=True)
class Record:
    """The events of some CTAs, in order. ``is_cut``: there are more below the last row. ``fault``: where it ended.

    ``stamps``: those that were passed, which count events that are below the last row too; ``teams``: of each of those
    events the warpgroups of its role that took part.
    """

    ctas: tuple[Cta, ...]
    events: tuple[Event, ...]
    is_cut: bool = False
    fault: FaultFound | None = None
    stamps: tuple[Passed, ...] = ()
    teams: tuple[tuple[int, ...], ...] = ()


class Enough(Exception):
    """A role has come below the last row that was asked for, in all CTAs."""


class Actor(Protocol):
    """Who does something: a role at a place of the plan, and the threads that are there."""

    @property
    def role(self) -> Role: ...

    @property
    def group(self) -> Group: ...

    @property
    def op(self) -> int: ...

    @property
    def loops(self) -> Mapping[str, int]: ...


class Log:
    """Puts down what happens, up to a row."""

    def __init__(self, plan: Plan, crew: Crew, rows: int):
        self.plan, self.crew, self.rows = plan, crew, rows
        self.events: list[Event] = []
        self.stamps: list[Passed] = []
        self.teams: list[tuple[int, ...]] = []
        self.loops = frozenset(name for role in plan.roles for name in _list_loops(role.steps))
        self.last: dict[tuple[int, str], tuple[int, object]] = {}  # of a role in a CTA: its row, and what it did
        self.brought: dict[tuple[str, int, int, int], list[int]] = {}  # by barrier, CTA, slot, phase
        self.turns: Counter[tuple[str, int, str]] = Counter()
        self.meetings: dict[tuple[str, int, int], int] = {}  # the row of a sync of several roles
        self.below: dict[str, set[int]] = {role.name: set() for role in plan.roles}  # CTAs in which each has all rows

    def record(self, fault: FaultFound | None = None) -> Record:
        """What was put down, whole rows of it."""
        kept = [e for e in self.events if e.row <= self.rows]
        numbers = {e.number: k for k, e in enumerate(kept)}
        events = tuple(replace(e, number=numbers[e.number], by=tuple(numbers[n] for n in e.by)) for e in kept)
        is_cut = len(kept) < len(self.events)
        return Record(self.crew.ctas, events, is_cut, fault, tuple(self.stamps), tuple(self.teams))

    @property
    def is_cut(self) -> bool:
        """Has some role stopped for having filled all rows?"""
        return any(len(ctas) == len(self.crew.ctas) for ctas in self.below.values())

    # ---- mbarriers
    def arrive(self, step: Arrive, slot: Array, cta: Array, phase: Array, site: Actor) -> None:
        """Threads arrive, in a CTA each."""
        for own, parts in _split(site.group, cta, slot, phase):
            found = [
                self._place(there, step.slot.barrier.name, at, number) | {"threads": n, "bytes": n * step.bytes}
                for (there, at, number), n in parts
            ]
            for event in self._add(ARRIVES, own, site, found, line=step.line):
                self._count(event)
        self._stop_below(site)

    def load(
        self, step: Tma, names: tuple[str, ...], slot: Array, ctas: Sequence[Array], phase: Array, site: Actor
    ) -> dict[tuple[int, int], int]:
        """Threads start boxes that TMA brings, to one CTA or to several: the number of that by their CTA and slot."""
        assert step.done is not None
        started = {}
        for own, parts in _split(site.group, slot, phase):
            peers = dict.fromkeys(int(c) for there in ctas for c in there[site.group.cta == own])
            found = [
                {"there": tuple(self.crew.ctas[c] for c in peers), "barrier": step.done.barrier.name, "slot": at,
                 "phase": number, "threads": n, "bytes": n * step.map.box_bytes, "names": names}
                for (at, number), n in parts
            ]  # fmt: skip
            for event in self._add(COPY_STARTED, own, site, found, scope=step.instruction.queue):
                started[own, event.slot] = event.number
        return started

    def land(
        self, step: Tma, started: Mapping[tuple[int, int], int], slot: Array, cta: Array, phase: Array, site: Actor
    ) -> None:
        """What copies bring to a CTA is there, and counts for a phase."""
        assert step.done is not None
        for own, parts in _split(site.group, cta, slot, phase):
            found = [
                self._place(there, step.done.barrier.name, at, number)
                | {"threads": n, "bytes": n * step.map.box_bytes, "names": self.events[started[own, at]].names}
                | {"by": (started[own, at],)}
                for (there, at, number), n in parts
            ]
            for event in self._add(COPY_LANDED, own, site, found):
                self._count(event)
        self._stop_below(site)

    def wait(self, step: Await, slot: Array, phase: Array, site: Actor) -> None:
        """Threads go on, for phases are complete."""
        for own, parts in _split(site.group, slot, phase):
            found = [
                self._place(own, step.slot.barrier.name, at, number)
                | {"threads": n, "by": tuple(self.brought.get((step.slot.barrier.name, own, at, number), ()))}
                for (at, number), n in parts
            ]
            self._add(WAITS, own, site, found, line=step.line)
        self._stop_below(site)

    def _place(self, cta: int, barrier: str, slot: int, phase: int) -> dict[str, Any]:
        return {"there": (self.crew.ctas[cta],), "barrier": barrier, "slot": slot, "phase": phase}

    def _count(self, event: Event) -> None:
        """An arrival, or bytes, of a phase."""
        key = event.barrier, self.crew.ctas.index(event.there[0]), event.slot, event.phase
        self.brought.setdefault(key, []).append(event.number)

    # ---- queues
    def start(self, flight: Flight, names: tuple[str, ...], each_bytes: int, site: Actor) -> None:
        """Threads start what they will wait for by groups of a queue."""
        what = PRODUCTS_STARTED if flight.queue in (PRODUCTS, TENSOR) else COPY_STARTED
        for own, ((_, n),) in _split(site.group):
            found = [{"threads": n, "bytes": n * each_bytes, "names": names, "scope": flight.queue}]
            (event,) = self._add(what, own, site, found)
            flight.events[own] = event.number
        self._stop_below(site)

    def finish(self, step: Wait, landed: Sequence[tuple[Flight, Array]], site: Actor) -> None:
        """Threads go on, for groups are done."""
        what = PRODUCTS_DONE if step.queue == PRODUCTS else COPIES_DONE
        for own, ((_, n),) in _split(site.group):
            by = [f.events[own] for f, rows in landed if own in f.events and (f.who.cta[rows] == own).any()]
            found = [{"threads": n, "scope": step.queue, "pending": step.pending, "by": tuple(by)}]
            self._add(what, own, site, found, line=step.line)
        self._stop_below(site)

    # ---- syncs
    def sync(self, step: Sync, site: Actor) -> None:
        """Threads go on, for all of the scope have come."""
        for own, ((_, n),) in _split(site.group):
            found: dict[str, Any] = {"threads": n, "scope": step.who}
            row = 0
            if step.scope in ("roles", "cta", "cluster"):
                turn = self.turns[step.who, own, site.role.name]
                self.turns[step.who, own, site.role.name] += 1
                row, found["phase"] = self._meet(step, turn, own), turn
            self._add(MEETS, own, site, [found], row, line=step.line)
        self._stop_below(site)

    def _meet(self, step: Sync, turn: int, cta: int) -> int:
        """The row of a sync: below all that the roles did that meet there, and go on after it."""
        teams = self.crew.cluster_of_cta if step.scope == "cluster" else np.arange(len(self.crew.ctas))
        key = step.who, turn, int(teams[cta])
        if key not in self.meetings:
            come = (row for (own, role), (row, _) in self.last.items()
                    if teams[own] == teams[cta] and role in (step.roles or (role,)))  # fmt: skip
            self.meetings[key] = 1 + max(come, default=0)
        return self.meetings[key]

    # ---- stamps
    def stamp(self, step: Stamp, site: Actor) -> None:
        """A role passes a stamp, in some CTAs."""
        loops = self._name_trips(site)
        for own in np.unique(site.group.cta):
            passed = Passed(step.number, self.crew.ctas[own], site.role.name, loops, len(self.events))
            self.stamps.append(passed)

    def _name_trips(self, site: Actor) -> tuple[tuple[str, int], ...]:
        return tuple((name, trip) for name, trip in site.loops.items() if name in self.loops)

    def _list_teams(self, own: int, site: Actor) -> tuple[int, ...]:
        """The warpgroups of the role that are here in a CTA."""
        first = sum(r.threads for r in self.plan.roles[: self.plan.roles.index(site.role)])
        inside = site.group.thread[site.group.cta == own] % self.crew.threads - first
        return tuple(np.unique(inside // SCOPES["warpgroup"].threads).tolist())

    # ---- rows
    def _add(
        self, what: str, own: int, site: Actor, found: Iterable[dict[str, Any]], row: int = 0, **common: Any
    ) -> list[Event]:  # fmt: skip
        """Put down what threads of a CTA did in one step."""
        loops = self._name_trips(site)
        doing = what, site.op, common.get("line"), loops
        last, before = self.last.get((own, site.role.name), (0, None))
        base = last - 1 if what == COPY_LANDED or (what in _ONE_ROW and doing == before) else last
        added, teams = [], self._list_teams(own, site)
        for fields in found:
            fields = common | fields
            by = () if what == COPY_LANDED else fields.get("by", ())
            at = row or 1 + max([base, *(self.events[n].row for n in by)])
            who = self.crew.ctas[own], site.role.name, site.op
            event = Event(len(self.events), at, what, *who, loops=loops, **fields)
            self.events.append(event)
            self.teams.append(teams)
            added.append(event)
        if what != COPY_LANDED:
            self.last[own, site.role.name] = max(e.row for e in added), doing
        if self.last[own, site.role.name][0] > self.rows:
            self.below[site.role.name].add(own)
        return added

    def _stop_below(self, site: Actor) -> None:
        """Raise Enough where a role has filled its rows in all CTAs."""
        if len(self.below[site.role.name]) == len(self.crew.ctas):
            raise Enough


def after(blocked: Callable[[], str | None] | None, note: Callable[[], None]) -> Callable[[], str | None] | None:
    """The same wait, put down when it is over."""
    if blocked is None:
        note()
        return None

    def told() -> str | None:
        why = blocked()
        if why is None:
            note()
        return why

    return told


def _split(group: Group, *values: Array) -> Iterator[tuple[int, list[tuple[tuple[int, ...], int]]]]:
    """For each CTA the different values that its threads have, and how many have them."""
    for own in np.unique(group.cta):
        rows = Counter(zip(*(v[group.cta == own].tolist() for v in values), strict=True))
        yield int(own), sorted(rows.items()) if values else [((), int((group.cta == own).sum()))]


def _list_loops(steps: Iterable[Step]) -> Iterator[str]:
    """The variables of loops that are no op's own."""
    for step in steps:
        if isinstance(step, Repeat):
            yield step.var.name
        if not isinstance(step, Block):
            yield from _list_loops(effects(step).body)
