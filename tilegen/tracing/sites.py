"""Where stamps stand: around waits, copies, products, arrivals and syncs of a plan, as steps of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tilegen.plan import (
    QUEUES,
    Arrive,
    Await,
    Block,
    Commit,
    Fence,
    Follow,
    Let,
    Mma,
    Move,
    Plan,
    Repeat,
    Stamp,
    Step,
    Sync,
    Tma,
    Wait,
    Wgmma,
    When,
    effects,
    flatten,
    names_used,
)
from tilegen.scopes import THREAD_AXES

WAIT, COPY, PRODUCT, ARRIVAL, SYNC = "wait", "copy", "product", "arrive", "sync"
LEAST_STAMPS, MOST_STAMPS = 16, 1 << 20


@dataclass(frozen=True)
class Site:
    """A statement around which stamps stand; ``number`` is what its stamps say, from 1 on.

    ``kind``: wait, copy, product, arrive or sync. ``op``: the plan's operation that it is, -1 for another statement.
    ``line``: that of the spec, 0 where the plan does not say. ``text``: the statement in the spec's words.
    """

    number: int
    role: str
    kind: str
    text: str
    line: int = 0
    op: int = -1


@dataclass(frozen=True)
class Stamped:
    """A plan with stamps, and what their numbers stand for, in order."""

    plan: Plan
    sites: tuple[Site, ...]


@dataclass
class _Placing:
    plan: Plan
    role: str
    sites: list[Site]


def place_stamps(plan: Plan, most: int = 1024) -> Stamped:
    """The plan with a stamp where each site begins, and one behind it where no other site does.

    A site ends at the next stamp of its thread, or with it. Sites are looked for outside of the functions that ops are,
    and outside of conditions that name threads: those are sites as they stand. ``most``: stamps that each thread which
    stamps has place for. Raises ValueError for fewer than 16, or more than 2**20.

    >>> from tilegen.plan import Role
    >>> found = place_stamps(Plan("k", "sm_90", (1, 1, 1), (), (Role("all", 32, (Sync("cta", line=4),)),)))
    >>> found.sites
    (Site(number=1, role='all', kind='sync', text='sync: cta', line=4, op=-1),)
    >>> found.plan.roles[0].steps
    (Stamp(number=1), Sync(scope='cta', line=4, roles=()))
    """
    if not LEAST_STAMPS <= most <= MOST_STAMPS:
        raise ValueError(f"a thread has place for {LEAST_STAMPS} to {MOST_STAMPS} stamps, not for {most}")
    roles, sites = [], list[Site]()
    for role in plan.roles:
        placing = _Placing(plan, role.name, sites)
        steps, _ = _place(placing, role.steps, False)
        roles.append(replace(role, steps=steps))
    return Stamped(replace(plan, roles=tuple(roles), stamps=most if sites else 0), tuple(sites))


def _place(placing: _Placing, steps: Sequence[Step], is_open: bool) -> tuple[tuple[Step, ...], bool]:
    """Steps with their stamps; ``is_open``: a site may not have ended yet, before and after."""
    placed: list[Step] = []
    for step in steps:
        inner = _inner(step)
        if (site := _find_site(placing, step)) is not None:
            placing.sites.append(site)
            placed += [Stamp(site.number), step]
            is_open = True
        elif inner and _has_sites(placing, inner):
            mark = len(placing.sites)
            _, leaves_open = _place(placing, inner, False)
            del placing.sites[mark:]
            repeats = isinstance(step, Repeat)
            body, leaves_open = _place(placing, inner, is_open or (repeats and leaves_open))
            assert isinstance(step, Repeat | When)
            placed.append(replace(step, body=body))
            is_open = is_open or leaves_open
        else:
            if is_open and not _takes_no_time(step):
                placed.append(Stamp(0))
                is_open = False
            placed.append(step)
    return tuple(placed), is_open


_NOTHING = (Let, Commit, Fence)  # take no time of their own
_ALONE = ("async", "warp")  # syncs at which no other warp is waited for


def _takes_no_time(step: Step) -> bool:
    return isinstance(step, _NOTHING) or (isinstance(step, Sync) and step.scope in _ALONE)


def _inner(step: Step) -> tuple[Step, ...]:
    """The steps inside of a loop, or of a condition that is the same for all threads."""
    if isinstance(step, Repeat):
        return step.body
    if isinstance(step, When) and names_used((When(step.condition, ()),)).isdisjoint(THREAD_AXES):
        return step.body
    return ()


def _has_sites(placing: _Placing, steps: Iterable[Step]) -> bool:
    return any(_find_site(placing, s) is not None or _has_sites(placing, _inner(s)) for s in steps)


def _find_site(placing: _Placing, step: Step) -> Site | None:
    """The site that a step is, its number the next one."""
    found = _describe(placing.plan, step)
    return found and replace(found, number=len(placing.sites) + 1, role=placing.role)


def _describe(plan: Plan, step: Step) -> Site | None:
    if isinstance(step, Await):
        return Site(0, "", WAIT, f"wait {step.slot.barrier.name}", step.line)
    if isinstance(step, Wait):
        return Site(0, "", WAIT, f"wait {{{QUEUES[step.queue].word}: {step.pending}}}", step.line)
    if isinstance(step, Follow):
        return Site(0, "", WAIT, "wait: previous")
    if isinstance(step, Sync) and step.scope not in _ALONE:
        return Site(0, "", SYNC, f"sync: {step.who}", step.line)
    if isinstance(step, Arrive):
        return Site(0, "", ARRIVAL, f"arrive {step.slot.barrier.name}", step.line)
    if isinstance(step, Block) and step.op >= 0:
        operation = plan.operations[step.op]
        kind = _kind_of(step.body)
        return Site(0, "", kind, operation.text, operation.line, step.op) if kind else None
    if isinstance(step, When) and not _inner(step):
        return next((found for s in step.body if (found := _describe(plan, s))), None)
    return None


def _kind_of(body: Sequence[Step]) -> str:
    """What the function of an op does that takes time of its own: products, or accesses to memory; "" for neither."""
    steps = list(flatten(body))
    if any(isinstance(s, Mma | Wgmma) for s in steps):
        return PRODUCT
    moves = any(isinstance(s, Move) and any(not t.ref.memory.traits.is_held for t in effects(s).touches) for s in steps)
    return COPY if moves or any(isinstance(s, Tma) for s in steps) else ""
