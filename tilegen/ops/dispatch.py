"""Dispatch: plan every variant of an op that does not refuse; the least cost wins, priority breaks ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache

from tilegen.cost.accesses import Access
from tilegen.cost.count import Counted
from tilegen.decisions import Cost, Operation, Refusal, of_loser
from tilegen.errors import Diagnostic, SpecError
from tilegen.ops import OPS
from tilegen.ops.op import Planned, Variant
from tilegen.ops.operand import Context, Refused
from tilegen.spec.data import Call

_KEPT = 1024  # attempts: those of one search for layouts, and what is planned of its results


@dataclass(frozen=True, eq=False)
class Attempt:
    """What a variant made of a call: a plan or the reason for none, and what was counted on the way to it."""

    planned: Planned | None
    refusal: str | None
    heard: tuple[tuple[tuple[Access, Counted], ...], ...]


@dataclass(frozen=True)
class _Case:
    """What an attempt depends on; equal cases have one answer."""

    variant: Variant
    seen: tuple[object, ...]
    call: Call
    context: Context = field(compare=False)


def attempt(variant: Variant, call: Call, context: Context) -> Attempt:
    """The plan of a call by one variant, made once for equal surroundings."""
    return _attempt(_Case(variant, context.seen_by(call), call, context))


@lru_cache(maxsize=_KEPT)
def _attempt(case: _Case) -> Attempt:
    context = replace(case.context, heard=[])
    planned, refusal = None, case.variant.refuse(case.call, context)
    if refusal is None:
        try:
            planned = _name_choices(case.variant.plan(case.call, context), case.variant)
        except Refused as reason:
            refusal = str(reason)
    return Attempt(planned, refusal, tuple(context.heard))


def _name_choices(planned: Planned, variant: Variant) -> Planned:
    """The plan with the variant's name on each of its choices."""
    return replace(planned, choices=tuple(replace(c, variant=variant.name) for c in planned.choices))


def dispatch(call: Call, context: Context) -> tuple[Planned, Operation]:
    """The cheapest variant's plan of a call, and the record of what every other variant said.

    Raises SpecError: TG301 when every variant refuses, TG302 when the pinned one does.
    """
    variants = OPS[call.op].variants
    planned: dict[str, Planned] = {}
    refused: list[Refusal] = []
    for variant in variants:
        found = attempt(variant, call, context)
        if found.planned is not None:
            planned[variant.name] = found.planned
        if found.refusal is not None:
            refused.append(Refusal(variant.name, found.refusal))
    pinned = getattr(call.fields, "variant", "auto")
    if pinned != "auto" and pinned not in planned:
        own = [r for r in refused if r.variant == pinned]
        raise _refuse(call, "TG302", f"variant '{pinned}' cannot carry out this {call.op}", own)
    if not planned:
        raise _refuse(call, "TG301", f"no variant can carry out this {call.op}", refused)
    order = {v.name: -v.priority for v in variants}
    cheapest = min(planned, key=lambda name: (planned[name].cost.key, order[name]))
    best = cheapest if pinned == "auto" else pinned
    # A pin that is the cheapest anyway changes no word of what is said, so that a resolved spec rebuilds every byte.
    reason = "" if best == cheapest else f"'{pinned}' is pinned"
    refused += [_lost(name, planned[name], planned[best], reason) for name in planned if name != best]
    line = call.mark.line if call.mark else 0
    return planned[best], Operation(
        call.op, best, call.scope, describe_call(call), line, planned[best].cost, tuple(refused),
        planned[best].choices, planned[best].pins,
    )


def _lost(name: str, loser: Planned, winner: Planned, reason: str) -> Refusal:
    choices = tuple(of_loser(c) for c in loser.choices)
    return Refusal(name, reason or _compare(loser.cost, winner.cost), loser.cost, choices)


def _compare(mine: Cost, best: Cost) -> str:
    """The first figure in which a loser's cost is not the winner's."""
    for name, own, least in zip(asdict(mine), mine.key, best.key, strict=True):
        if own != least:
            return f"{own} {name.replace('_', ' ')} against {least}"
    return "the same cost, a lower priority"


def _refuse(call: Call, code: str, message: str, refused: Sequence[Refusal]) -> SpecError:
    """The error; variants that say the same say it together, those that few say first."""
    said: dict[str, list[str]] = {}
    for r in refused:
        said.setdefault(r.reason, []).append(r.variant)
    reasons = sorted(said, key=lambda reason: len(said[reason]))
    each = (reason if len(refused) == 1 else f"{', '.join(said[reason])}: {reason}" for reason in reasons)
    return SpecError(Diagnostic(code, f"{message}: {'; '.join(each)}", call.mark))


def describe_call(call: Call) -> str:
    """The op as a short text: ``copy In -> A[warpid]``."""
    reads, writes = (" ".join(r.text or r.buffer.name for r in regions) for regions in (call.read, call.written))
    return f"{call.op} {reads} -> {writes}" if reads else f"{call.op} {writes}"
