"""Copies in flight: what cp.async writes is nobody's until the thread that started it waits for its group.

A thread's copies since its last commit are its open group; groups are counted per thread, and a wait lands the oldest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tilegen.interpret.fault import NEVER_AWAITED
from tilegen.interpret.order import Shadow
from tilegen.interpret.pooled import Filling, Holding
from tilegen.interpret.reporting import Reporter
from tilegen.interpret.threads import Array, Group
from tilegen.plan import PRODUCTS, QUEUES, TENSOR, TENSOR_LOADS, TENSOR_STORES


class Cargo(Protocol):
    """What a step has in flight, a row for each thread that started it."""

    def land(self, rows: Array, who: Group, op: int) -> None:
        """The copies of these rows (a mask over ``who``, which started them) are done."""
        ...

    def touches(self, shadow: Shadow, granule: int) -> Array:
        """Which rows read or write a granule."""
        ...

    def holds(self, store: object, element: int) -> bool:
        """Is an element of these registers its accumulator or its A?"""
        ...


@dataclass(frozen=True)
class Copies:
    """The copies of one step: where they land, and what they read until then."""

    filling: Filling
    holding: Holding | None = None

    def land(self, rows: Array, who: Group, op: int) -> None:
        self.filling.land(rows)
        self.filling.shadow.land_write(self.filling.granules[rows], who.where(rows))
        if self.holding:
            self.holding.land(rows, who, op)

    def hand_over(self, rows: Array, who: Group, agent: Array, op: int) -> None:
        """The copies of these rows are done by now, each by an agent: known to those who wait for that."""
        self.filling.land(rows)
        self.filling.shadow.land_by_agent(self.filling.granules[rows], agent[rows])
        if self.holding:
            self.holding.hand_over(rows, who, agent, op)

    def touches(self, shadow: Shadow, granule: int) -> Array:
        found: Array = (self.filling.granules == granule).any(1) & (self.filling.shadow is shadow)
        if self.holding and self.holding.shadow is shadow:
            found[self.holding.rows] |= (self.holding.granules == granule).any(1)
        return found

    def holds(self, store: object, element: int) -> bool:
        return False


@dataclass(frozen=True)
class _Words:
    """What that which is in flight in a queue is called, and the statements that land it: of groups, all but {}."""

    name: str
    due: tuple[str, ...]


_COPIES = _Words("asynchronous copy", ("commit", "wait: {}"))
_CARRIED = ("", "wait: {{tmem: 0}}")  # each is a group of its own from the start
_WORDS = {
    PRODUCTS: _Words("product", ("commit: mma", "wait: {{mma: {}}}")),
    TENSOR: _Words("product", ("commit: {{barrier: NAME}}", "wait: {{barrier: NAME}}")),
    TENSOR_LOADS: _Words("load of tensor memory", _CARRIED),
    TENSOR_STORES: _Words("store to tensor memory", _CARRIED),
}


@dataclass
class Flight:
    """A step's copies that are still in flight: ``left`` of the threads that started them, each in its group.

    ``events``: the number of their start in each CTA, where a log is kept.
    """

    queue: str
    who: Group
    number: Array
    cargo: Cargo
    left: Array
    site: Reporter
    events: dict[int, int] = field(default_factory=dict)


class Flights:
    """Everything in flight, and how many groups each thread has committed to each queue."""

    def __init__(self, threads: int):
        self.committed = {queue: np.zeros(threads, np.int64) for queue in QUEUES}
        self.flying: list[Flight] = []

    def start(self, queue: str, who: Group, cargo: Cargo, site: Reporter) -> Flight:
        """Copies that the threads have just started: part of their open groups."""
        number = self.committed[queue][who.thread]
        flight = Flight(queue, who, number, cargo, np.ones(len(who), bool), site)
        self.flying.append(flight)
        return flight

    def hand_over(self, queue: str, group: Group, agent: Array) -> None:
        """All that the threads have in flight there lands as the work of an agent for each of them."""
        agents = np.full(len(self.committed[queue]), -1)
        agents[group.thread] = agent
        for flight in self.flying:
            rows = flight.left & (agents[flight.who.thread] >= 0)
            if flight.queue == queue and rows.any():
                assert isinstance(flight.cargo, Copies)
                flight.cargo.hand_over(rows, flight.who, agents[flight.who.thread], flight.site.op)
                flight.left &= ~rows
        self.flying = [f for f in self.flying if f.left.any()]

    def commit(self, queue: str, group: Group) -> None:
        """The open group of each thread is closed; it may be empty."""
        self.committed[queue][group.thread] += 1

    def land(self, queue: str, pending: int, group: Group) -> list[tuple[Flight, Array]]:
        """Of each thread's committed groups, all but the last ``pending`` have landed: which, and in which rows."""
        landed = []
        done = np.zeros(len(self.committed[queue]), np.int64)
        done[group.thread] = self.committed[queue][group.thread] - pending
        for flight in self.flying:
            rows = flight.left & (flight.number < done[flight.who.thread])
            if flight.queue == queue and rows.any():
                flight.cargo.land(rows, flight.who, flight.site.op)
                flight.left &= ~rows
                landed.append((flight, rows))
        self.flying = [f for f in self.flying if f.left.any()]
        return landed

    def pending(self) -> object:
        """What is in flight, in which group counted from its thread's last one, to compare with another time."""
        ages = [self.committed[f.queue][f.who.thread] - f.number for f in self.flying]
        return sorted(
            (f.queue, f.who.thread.tobytes(), age.tobytes(), f.left.tobytes())
            for f, age in zip(self.flying, ages, strict=True)
        )

    def awaiting(self, shadow: Shadow, granule: int) -> tuple[str, ...]:
        """The statements that would land the copy in flight that touches a granule."""
        for flight in self.flying:
            rows = np.flatnonzero(flight.left & flight.cargo.touches(shadow, granule))
            if len(rows):
                return self._due(flight, int(rows[0]))
        return ()

    def awaiting_registers(self, store: object, thread: int, element: int) -> tuple[str, ...]:
        """The statements that would land the last product in flight that has an element of a thread's registers."""
        for flight in reversed(self.flying):
            rows = np.flatnonzero(flight.left & (flight.who.thread == thread))
            if len(rows) and flight.cargo.holds(store, element):
                return self._due(flight, int(rows[0]))
        return ()

    def _due(self, flight: Flight, row: int) -> tuple[str, ...]:
        """The statements that land what is in flight of a thread that started it."""
        later = int(self.committed[flight.queue][flight.who.thread[row]] - flight.number[row])
        words = _WORDS.get(flight.queue, _COPIES)
        return tuple(x.format(later - 1) for x in words.due[1:]) if later else tuple(x.format(0) for x in words.due)

    def refuse_leftovers(self) -> None:
        """Raise for copies that the kernel's end finds in flight."""
        for flight in self.flying:
            row = int(np.flatnonzero(flight.left)[0])
            thread = int(flight.who.thread[row])
            is_open = self.committed[flight.queue][thread] == flight.number[row]
            what = "no commit follows it" if is_open else "no wait lands it"
            words = _WORDS.get(flight.queue, _COPIES)
            due = tuple(x.format(0) for x in (words.due if is_open else words.due[1:]))
            message = f"this {words.name} is still in flight when the kernel ends: {what}"
            flight.site.fail(NEVER_AWAITED, message, row, insert=due)
