"""The text of stamps: who writes them, where, and what stands around a role that has some."""

from __future__ import annotations

from math import prod

from tilegen.plan import Plan, Role, Stamp, flatten
from tilegen.render.page import Page
from tilegen.scopes import SCOPES

HEAD_RECORDS = 5  # of a thread's part of the buffer: where and when it began, when it ended, how many stamps there are
_BUFFER, _EVERY, _AT, _LEFT = "stamp__buffer", "stamp__every", "stamp__at", "stamp__left"  # no spec may give these


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
    return [f"uint2 *__restrict__ {_BUFFER}", f"int {_EVERY}"] if plan.stamps else []


def enclose_stamps(page: Page, role: Role, body: str) -> str:
    """The text of a role; where it has stamps, between their begin and their end."""
    if not page.plan.stamps or not _has_stamps(role):
        return body
    plan, found = page.plan, count_stampers(page.plan)
    sizes = ", ".join(map(str, (*plan.cluster, _records_of_cta(plan), plan.stamps + HEAD_RECORDS)))
    thread = f"threadIdx.x - {page.part.first}" if page.part.first else "threadIdx.x"
    here = f"{page.use('stamp_place')}<{sizes}>({_BUFFER}, {_EVERY}, {thread}, {found[role.name][0]})"
    start = f"uint2 *{_AT} = {here};\nint {_LEFT} = {page.use('stamp_begin')}<{plan.stamps}>({_AT});"
    return f"{start}\n{body}\n{page.use('stamp_end')}<{plan.stamps}>({here}, {_LEFT});"


def write_stamp(page: Page, step: Stamp, noted: bool) -> str:
    """A stamp."""
    return f"{page.use('stamp_clock')}<{step.number}>({_AT}, {_LEFT});"


def _has_stamps(role: Role) -> bool:
    return any(isinstance(step, Stamp) for step in flatten(role.steps))


def _records_of_cta(plan: Plan) -> int:
    return sum(n for _, n in count_stampers(plan).values()) * (plan.stamps + HEAD_RECORDS)


def buffer_records(plan: Plan, clusters: int) -> int:
    """The records that the buffer has for so many traced clusters, of 8 bytes each."""
    return clusters * prod(plan.cluster) * _records_of_cta(plan)
