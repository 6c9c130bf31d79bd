"""The text of stamps: who writes them, where, and what stands around a role that has some."""

from __future__ import annotations

from math import prod

from tilegen.plan import Plan, Role, Stamp, flatten
from tilegen.render.page import Page
from tilegen.scopes import SCOPES

HEAD_RECORDS = 4  # of a thread's part of the buffer: where and when it began, when it ended, how many stamps there are
_BUFFER, _EVERY, _AT = "stamp__buffer", "stamp__every", "stamp__at"  # names that no spec may give


def count_stampers(plan: Plan) -> dict[str, tuple[int, int]]:
    """Of each role that has stamps: the number of its first thread that writes them, and how many do.

    That is one thread of each warpgroup, for warpgroups go on alone; a role of fewer threads has one.
    """
    found, first = {}, 0
    for role in plan.roles:
        if _has_stamps(role):
            count = -(-role.threads // SCOPES["warpgroup"].threads)
            found[role.name] = first, count
            first += count
    return found


def stamp_parameters(plan: Plan) -> list[str]:
    """What a kernel with stamps takes behind all else: the buffer, and that every so many-th cluster is traced."""
    return [f"uint4 *__restrict__ {_BUFFER}", f"int {_EVERY}"] if plan.stamps else []


def enclose_stamps(page: Page, role: Role, body: str) -> str:
    """The text of a role; where it has stamps, between their begin and their end."""
    if not page.plan.stamps or not _has_stamps(role):
        return body
    plan, found = page.plan, count_stampers(page.plan)
    of_cta = sum(n for _, n in found.values()) * plan.stamps
    sizes = ", ".join(map(str, (*plan.cluster, of_cta, plan.stamps)))
    thread = f"threadIdx.x - {page.part.first}" if page.part.first else "threadIdx.x"
    here = f"{page.use('stamp_place')}<{sizes}>({_EVERY}, {thread}, {found[role.name][0]})"
    start = f"int {_AT} = {page.use('stamp_begin')}({_BUFFER}, {here});"
    return f"{start}\n{body}\n{page.use('stamp_end')}<{plan.stamps}>({_BUFFER}, {here}, {_AT});"


def write_stamp(page: Page, step: Stamp, noted: bool) -> str:
    """A stamp, of the timer too where other CTAs have to do with the site."""
    helper = page.use("stamp_timer" if step.is_timed else "stamp_clock")
    return f"{helper}<{page.plan.stamps}>({_BUFFER}, {_AT}, {step.number});"


def _has_stamps(role: Role) -> bool:
    return any(isinstance(step, Stamp) for step in flatten(role.steps))


def buffer_records(plan: Plan, clusters: int) -> int:
    """The records that the buffer has for so many traced clusters, of 16 bytes each."""
    return clusters * prod(plan.cluster) * sum(n for _, n in count_stampers(plan).values()) * plan.stamps
