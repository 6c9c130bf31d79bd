"""Threads that meet, and kernels that wait for those before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilegen.interpret.events import after
from tilegen.interpret.fault import BEFORE_PREVIOUS, MALFORMED, PARTIAL_SYNC
from tilegen.interpret.site import Blocked, Site
from tilegen.interpret.threads import Array
from tilegen.plan import Effects, Follow, Sync
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
