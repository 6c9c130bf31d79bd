"""Who waits for whom: threads that meet, roles that leave out trips together, kernels that follow those before them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tilegen.interpret.events import after
from tilegen.interpret.fault import BEFORE_PREVIOUS, MALFORMED, PARTIAL_SYNC, Unsteady
from tilegen.interpret.machine import Gathering
from tilegen.interpret.site import Blocked, Site
from tilegen.interpret.threads import Array
from tilegen.plan import Effects, Follow, Repeat, Stamp, Sync
from tilegen.scopes import SCOPES

WARP_THREADS = SCOPES["warp"].threads


def sync(step: Sync, site: Site) -> Blocked | None:
    """A meeting, put down where a log is kept."""
    blocked, log = meet(step, site), site.machine.log
    return blocked if log is None else after(blocked, lambda: log.sync(step, site))


def meet(step: Sync, site: Site) -> Blocked | None:
    """All threads of the scope meet. Who is missing will never come, so a part of the scope is a fault at once."""
    group, crew, clocks = site.group, site.group.crew, site.clocks
    if step.scope == "async":
        site.machine.pool.shadow.fence(group)
        return None
    partial = group.partial_warp
    if partial is not None:
        site.fail(PARTIAL_SYNC, f"sync: {step.who} under divergence: some lanes of the warp do not reach it", partial)
    warps = group.whole
    if step.scope == "warp":
        clocks.end_epochs(warps)
        return None
    if step.scope not in TEAMS:
        site.fail(MALFORMED, f"no scope is called {step.scope}")
    team, want = TEAMS[step.scope](warps, site), SCOPES[step.scope].size(site.role.threads)
    want *= int(np.prod(crew.cluster)) if step.scope == "cluster" else 1
    here = np.bincount(team, weights=crew.lanes_of[warps])[team]
    if np.any(here != want):
        missing = int(np.argmax(here != want))
        message = f"sync: {step.who} reached by {int(here[missing])} of {want} threads: the others never come"
        site.fail(PARTIAL_SYNC, message, int(np.argmax(group.warp == warps[missing])))
    if len(site.roles) == 1 or step.scope in ("warpgroup", "role"):
        clocks.meet(warps, team)
        return None
    if step.roles and site.role.name not in step.roles:
        site.fail(MALFORMED, f"role {site.role.name} meets {' and '.join(step.roles)}, and is none of them")
    return site.rendezvous(step.who, step.roles or tuple(role.name for role in site.roles), warps, team)


def _warpgroup_of(warps: Array, site: Site) -> Array:
    """The warpgroups of a role count from its first thread."""
    inside, first = warps % site.group.crew.warps, site.first // WARP_THREADS
    result: Array = warps - (inside - first) % (SCOPES["warpgroup"].threads // WARP_THREADS)
    return result


# Which warps meet at a sync: a number that those of one team have in common.
TEAMS: dict[str, Callable[[Array, Any], Array]] = {
    "warpgroup": _warpgroup_of,
    "role": lambda warps, site: warps // site.group.crew.warps,
    "roles": lambda warps, site: warps // site.group.crew.warps,
    "cta": lambda warps, site: warps // site.group.crew.warps,
    "cluster": lambda warps, site: site.group.crew.cluster_of_cta[warps // site.group.crew.warps],
}


def stamp(step: Stamp, site: Site) -> None:
    """All threads of the role come to a stamp: which of them writes it, the plan does not say."""
    here = np.bincount(site.group.cta, minlength=len(site.group.crew.ctas))
    partial = (here > 0) & (here != site.role.threads)
    if partial.any():
        message = f"stamp {step.number} reached by {int(here[partial][0])} of {site.role.threads} threads"
        site.fail(PARTIAL_SYNC, message, int(np.argmax(partial[site.group.cta])))
    if site.machine.log is not None:
        site.machine.log.stamp(step, site)


# ---------------------------------------------------------------- the kernels before
def follow(step: Follow, site: Site) -> None:
    """What the kernels before did is ordered before what these warps do next (PTX ISA, griddepcontrol.wait)."""
    partial = site.group.partial_warp
    if partial is not None:
        site.fail(PARTIAL_SYNC, "wait: previous under divergence: some lanes of the warp do not reach it", partial)
    if not site.group.crew.overlaps:
        site.fail(MALFORMED, "wait: previous in a kernel that does not overlap those before it")
    site.clocks.follow(site.group.whole)


def refuse_early(touched: Effects, site: Site) -> None:
    """Raise where an array is touched that the kernels before may still write or read."""
    for touch in touched.touches:
        memory = site.frame.places[touch.ref.memory.name].root.memory
        if not memory.traits.is_array:
            continue
        early = ~site.clocks.has_followed(site.group.warp)
        if early.any():
            message = f"touches global {memory.name}, which the kernels before may still write or read"
            site.fail(BEFORE_PREVIOUS, message, int(np.argmax(early)), insert=("wait: previous",))


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
