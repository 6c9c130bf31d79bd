"""Syncs and waits of a spec that order nothing, found by dropping them one after the other and proving again.

Only the spec's own statements are tried: those inside an op's function are the op's business. One that was found
needless stays dropped for the next, so all that are reported can go together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tilegen.errors import Diagnostic
from tilegen.plan import Block, Plan, Step, Sync, Wait, effects
from tilegen.spec.data import Spec, SyncStatement, WaitStatement
from tilegen.spec.outline import outline
from tilegen.spec.waits import word_of

_WORK = 1 << 19  # interpreted steps x threads over all re-runs: about 60 ms; beyond that nobody is warned
_LEAST_THREADS = 1024  # a step takes about as long as this many threads, however few it has


def find_needless_syncs(
    spec: Spec, plan: Plan, steps: int, ctas: int, is_sound: Callable[[Plan], bool]
) -> tuple[Diagnostic, ...]:
    """A warning TG430 for each ``sync:`` or ``wait:`` without which ``is_sound`` still holds.

    ``steps`` were interpreted for the plan itself, by at most ``ctas`` CTAs at once; too much work gives no warnings.
    """
    if len(plan.roles) > 1:  # whose steps are in another order than the text
        return ()
    meetings = [m for m in outline(spec).find(SyncStatement, WaitStatement) if m.when is not False]
    lines = [step.line for role in plan.roles for step in _syncs(role.steps)]
    if lines != [m.mark.line if m.mark else 0 for m in meetings]:  # a wait for two queues, or at an mbarrier
        return ()
    if len(lines) * steps * max(_LEAST_THREADS, ctas * plan.threads) > _WORK:
        return ()
    found: list[Diagnostic] = []
    for number, meeting in enumerate(meetings):
        without = drop_sync(plan, number - len(found))
        if is_sound(without):
            plan = without
            where = f" at {meeting.mark.spot}" if meeting.mark else ""
            what = f"sync: {meeting.scope}" if isinstance(meeting, SyncStatement) else _spell_wait(meeting)
            message = f"{what}{where} orders nothing"
            found.append(Diagnostic("TG430", message, meeting.mark, "remove it", severity="warning"))
    return tuple(found)


def drop_sync(plan: Plan, number: int) -> Plan:
    """The plan without its sync or wait of that number, counting those outside functions."""
    left = number

    def edit(steps: Sequence[Step]) -> tuple[Step, ...]:
        nonlocal left
        out: list[Step] = []
        for step in steps:
            if isinstance(step, Sync | Wait):
                left -= 1
                if left == -1:
                    continue
            elif effects(step).body and not isinstance(step, Block):
                step = replace(step, body=edit(effects(step).body))  # type: ignore[arg-type]
            out.append(step)
        return tuple(out)

    return replace(plan, roles=tuple(replace(role, steps=edit(role.steps)) for role in plan.roles))


def _spell_wait(s: WaitStatement) -> str:
    word = word_of(s)
    return f"wait: {{{word}: {s.pending}}}" if word else f"wait: {s.pending}"


def _syncs(steps: Sequence[Step]) -> Iterator[Sync | Wait]:
    for step in steps:
        if isinstance(step, Sync | Wait):
            yield step
        elif not isinstance(step, Block):
            yield from _syncs(effects(step).body)
