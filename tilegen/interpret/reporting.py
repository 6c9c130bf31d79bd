"""Faults of accesses: who reports them, and what a shadow's finding is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

from tilegen.interpret.clashes import NOBODY, Clash
from tilegen.interpret.fault import IN_FLIGHT, RACE, SAME_STEP, TWO_CTAS
from tilegen.interpret.order import Shadow
from tilegen.interpret.threads import Array, Group


class Reporter(Protocol):
    """Where in the plan an access happens; ``fail`` raises the fault."""

    @property
    def op(self) -> int: ...

    def fail(
        self, code: str, message: str, thread: int | None = None, *, other_op: int = NOBODY, needs_sync: str = "",
        insert: tuple[str, ...] = (),
    ) -> NoReturn: ...  # fmt: skip

    def awaiting(self, shadow: Shadow, granule: int) -> tuple[str, ...]:
        """The statements that would land the copy in flight that touches a granule."""
        ...

    def awaiting_registers(self, store: object, thread: int, element: int) -> tuple[str, ...]:
        """The statements that would land the wgmma in flight that has an element of a thread's registers."""
        ...

    def awaiting_agent(self, agent: int, tick: int, shadow: Shadow) -> tuple[str, ...]:
        """The statements that wait for what an agent does up to a tick with a memory."""
        ...


def report(
    shadow: Shadow, clash: Clash | None, verb: str, granules: Array, where: Callable[[int, Array], tuple[int, str]],
    site: Reporter,
) -> None:  # fmt: skip
    """Raise the race that a shadow found."""
    if clash is None:
        return
    thread, what = where(clash.entry, granules)
    if clash.agent != NOBODY:
        due = site.awaiting_agent(clash.agent, clash.tick, shadow)
        site.fail(IN_FLIGHT, f"{verb} {what}, which {clash.other}", thread, other_op=clash.other_op, insert=due)
    if clash.is_unheard:
        site.fail(RACE, f"{verb} {what}, which {clash.other}", thread, other_op=clash.other_op)
    if clash.in_flight:
        then = (f"sync: {clash.needs}",) if clash.needs else ()
        due = site.awaiting(shadow, int(granules.ravel()[clash.entry])) + then
        site.fail(IN_FLIGHT, f"{verb} {what}, which {clash.other}", thread, other_op=clash.other_op, insert=due)
    if clash.needs:
        mends = f"nothing orders the two, sync: {clash.needs} between them would"
        if clash.other_op == site.op:
            mends = "nothing orders the two"
        elif clash.needs == "cta" and len(shadow.crew.roles) > 1:
            mends = "nothing tells the one role what the other has done"
        message = f"{verb} {what} that {clash.other}; {mends}"
        site.fail(RACE, message, thread, other_op=clash.other_op, needs_sync=clash.needs)
    site.fail(TWO_CTAS, f"{verb} {what} that {clash.other}: no sync orders CTAs", thread, other_op=clash.other_op)


def refuse_double_write(
    shadow: Shadow, granules: Array, group: Group, where: Callable[[int, Array], tuple[int, str]], site: Reporter
) -> None:
    """Raise if two threads wrote one granule in this step."""
    double = shadow.double_write(granules, group)
    if double is None:
        return
    entry, winner = double
    thread, what = where(entry, granules)
    crew = group.crew
    if winner // crew.warps != int(group.cta[thread]):
        site.fail(TWO_CTAS, f"writes {what}, which CTA {crew.ctas[winner // crew.warps]} writes too", thread)
    site.fail(SAME_STEP, f"writes {what}, which warp {winner % crew.warps} writes too in the same step", thread)
