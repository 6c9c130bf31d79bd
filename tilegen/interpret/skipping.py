"""Trips of a loop that a run leaves out: only where what is in flight repeats, in all roles that run the loop."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise

from tilegen.interpret.fault import Unsteady
from tilegen.interpret.machine import Gathering
from tilegen.interpret.site import Site
from tilegen.plan import Repeat


class Skipping:
    """Before trips are left out: what is awaited or in flight must be what it was a period earlier.

    Roles that run the same loop compare it where all of them are before the same trip. Raises Unsteady where it is not
    the same: then those trips would not do again what the ones before them did.
    """

    def __init__(self, site: Site, step: Repeat, stretches: Sequence[range]):
        self.machine, self.name, self.role = site.machine, step.var.name, site.role.name
        self.run = self.machine.number_run(self.role, self.name, tuple(sorted(site.frame.loops.items())))
        period = self.machine.trips.period(self.name) if len(stretches) > 1 else 0
        self.marks = {s.stop - period: s.stop for s in stretches[:-1]}
        self.ends = {after.start: before.stop for before, after in pairwise(stretches)}
        self.states: dict[int, object] = {}

    def at(self, trip: int) -> Iterator[str]:
        """A trip is about to begin."""
        if trip in self.ends:
            state = yield from self._gather(self.ends[trip])
            if self.states.pop(self.ends[trip]) != state:
                raise Unsteady(self.name)
        if trip in self.marks:
            self.states[self.marks[trip]] = yield from self._gather(trip)

    def _gather(self, done: int) -> Generator[str, None, object]:
        """What is in flight when every role that runs the loop has done so many of its trips."""
        gatherings, key = self.machine.gatherings, (self.name, self.run, done)
        if key not in gatherings:
            gatherings[key] = Gathering(self.name, self.machine.roles_of(self.name))
        gathering = gatherings[key]
        gathering.left.discard(self.role)
        if not gathering.left:
            gathering.state = self.machine.pending()
            self.machine.steps += 1  # others go on now
        while gathering.left:
            yield f"{self.name} to be {done} in all roles"
        return gathering.state
