"""Dispatch: plan every variant of an op that does not refuse; the least cost wins, priority breaks ties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilegen.choices import Choice, Cost, Operation, Refusal
from tilegen.errors import Diagnostic, SpecError
from tilegen.ops.operand import Context
from tilegen.ops.operand import Refused as Refused
from tilegen.plan import Step
from tilegen.spec.data import Buffer, Call


@dataclass(frozen=True)
class Planned:
    """One variant's steps, what they cost over an interior CTA, and the choices made on the way.

    ``pins`` are fields of the op, beside ``variant``, with which a spec says all of this itself.
    """

    steps: tuple[Step, ...]
    cost: Cost
    choices: tuple[Choice, ...]
    pins: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Variant:
    """A way to carry out an op. ``refuse`` gives a reason or None and is cheap; ``plan`` may still raise Refused.

    For buffers whose layout is to be chosen: ``constrain`` says why the variant cannot take an operand with the layout
    that it has (a descriptor's modes, say), or None; ``adapts`` means that its accesses are made for the layouts, so
    that those planned for one layout say no more than what is possible under another.
    """

    name: str
    priority: int
    refuse: Callable[[Call, Context], str | None]
    plan: Callable[[Call, Context], Planned]
    constrain: Callable[[Call, Buffer], str | None] | None = None
    adapts: bool = False


def dispatch(call: Call, variants: Sequence[Variant], context: Context) -> tuple[Planned, Operation]:
    """The cheapest variant's plan, and the record of what every other variant said.

    Raises SpecError: TG301 when every variant refuses, TG302 when the pinned one does.
    """
    planned: dict[str, Planned] = {}
    refused: list[Refusal] = []
    for variant in variants:
        reason = variant.refuse(call, context)
        if reason is None:
            try:
                planned[variant.name] = variant.plan(call, context)
            except Refused as refusal:
                reason = str(refusal)
        if reason is not None:
            refused.append(Refusal(variant.name, reason))
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
    kept = planned[best].choices
    asked = {c.question for c in kept}
    others = tuple(c for name in planned if name != best for c in planned[name].choices if c.question not in asked)
    line = call.mark.line if call.mark else 0
    return planned[best], Operation(
        call.op, best, call.scope, describe_call(call), line, planned[best].cost, tuple(refused), kept + others,
        planned[best].pins,
    )


def judge(cost: Cost, best: Cost, is_picked: bool) -> str:
    """The verdict on a candidate, in words."""
    return "picked" if is_picked else "costs more" if cost.key > best.key else "the same cost"


def per_cta(choice: Choice, one: int, total: int) -> Choice:
    """A choice whose candidates were costed for one tile, costed over a CTA: ``one`` instructions become ``total``."""
    runs = total // one
    candidates = tuple(
        replace(c, cost=Cost(*(n * runs for n in c.cost.key)) if c.cost else None) for c in choice.candidates
    )
    return replace(choice, candidates=candidates)


def _lost(name: str, loser: Planned, winner: Planned, reason: str) -> Refusal:
    if reason:
        return Refusal(name, reason, loser.cost)
    names = ("sectors", "wavefronts", "instructions", "shared_bytes", "address_ops")
    for what, mine, best in zip(names, loser.cost.key, winner.cost.key, strict=True):
        if mine != best:
            return Refusal(name, f"{mine} {what.replace('_', ' ')} against {best}", loser.cost)
    return Refusal(name, "the same cost, a lower priority", loser.cost)


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
    regions = {name: r.text or r.buffer.name for name, r in call.regions.items()}
    source = f" {regions['src']} ->" if "src" in regions else ""
    return f"{call.op}{source} {regions['dst']}"
