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

    Roles that run the same loop compare it where all of them are before the same trip, and leave out the same trips.
    Raises Unsteady where it is not the same: then those trips would not do again what the ones before them did.
    """

    def __init__(self, site: Site, step: Repeat, stretches: Sequence[range]):
        self.machine, self.name, self.role = site.machine, step.var.name, site.role.name
        self.run = self.machine.number_run(self.role, self.name, tuple(sorted(site.frame.loops.items())))
        period = self.machine.trips.period(self.name) if len(stretches) > 1 else 0
        gaps = [range(before.stop, after.start) for before, after in pairwise(stretches)]
        self.marks = {gap.start - period: gap for gap in gaps}
        self.ends = {gap.stop: gap for gap in gaps}
        self.states: dict[range, object] = {}

    def at(self, trip: int) -> Iterator[str]:
        """A trip is about to begin."""
        if (gap := self.ends.get(trip)) is not None:
            state = yield from self._gather(gap.start, gap)
            if self.states.pop(gap) != state:
                raise Unsteady(self.name)
        if (gap := self.marks.get(trip)) is not None:
            self.states[gap] = yield from self._gather(trip, gap)

    def _gather(self, done: int, gap: range) -> Generator[str, None, object]:
        """What is in flight when every role that runs the loop has done so many trips, and will leave out these."""
        gatherings, key = self.machine.gatherings, (self.name, self.run, done, gap)
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
