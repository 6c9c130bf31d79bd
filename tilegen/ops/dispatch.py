"""Dispatch: plan every variant of an op that does not refuse; the least cost wins, priority breaks ties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from tilegen.decisions import Operation, Refusal, compare_costs, of_loser
from tilegen.errors import Diagnostic, ProofError, SpecError
from tilegen.ops import OPS
from tilegen.ops.accumulating import list_order
from tilegen.ops.op import Planned, Variant
from tilegen.ops.operand import Context, Refused
from tilegen.ops.pins import NotHad, say_pin, suggest_pin
from tilegen.spec.data import Call

_KEPT = 1024  # attempts: those of one search for layouts, and what is planned of its results


@dataclass(frozen=True, eq=False)
class Attempt:
    """What a variant made of a call: a plan or the reason for none.

    ``not_had``: the pin that is the reason, where one is.
    """

    planned: Planned | None
    refusal: str | None
    not_had: NotHad | None = None


@dataclass(frozen=True)
class _Case:
    """What an attempt depends on; equal cases have one answer."""

    variant: Variant
    seen: tuple[object, ...]
    call: Call
    context: Context = field(compare=False)


def attempt(variant: Variant, call: Call, context: Context) -> Attempt:
    """The plan of a call by one variant, made once for equal surroundings.

    Raises ProofError where what it costs takes too long to count.
    """
    try:
        scratch = (context.shared_top, context.shared_room) if variant.has_scratch else ()
        return _attempt(_Case(variant, (*context.seen_by(call), *scratch), call, context))
    except ProofError as error:
        raise ProofError([replace(d, mark=d.mark or call.mark) for d in error.diagnostics]) from None


@lru_cache(maxsize=_KEPT)
def _attempt(case: _Case) -> Attempt:
    refusal = case.variant.refuse(case.call, case.context)
    if refusal is not None:
        return Attempt(None, refusal)
    if (lack := refuse_pins(case.call, case.variant)) is not None:
        return Attempt(None, str(lack), lack)
    try:
        return Attempt(_name_choices(case.variant.plan(case.call, case.context), case.variant), None)
    except Refused as reason:
        return Attempt(None, str(reason), reason if isinstance(reason, NotHad) else None)


def refuse_pins(call: Call, variant: Variant) -> NotHad | None:
    """The fields of a call that pin what a variant has not, or None."""
    lacking = [name for name in _pins_of(call) if name not in variant.pins]
    words = " and no ".join(f"'{name}'" for name in lacking)
    return NotHad(lacking[0], f"it has no {words}") if lacking else None


def _pins_of(call: Call) -> dict[str, Any]:
    """What a call pins beside its variant, by field."""
    fields = ((name, getattr(call.fields, name)) for name in OPS[call.op].pins)
    return {name: value for name, value in fields if value is not None}


def _drop_pins(call: Call) -> Call:
    pins = dict.fromkeys(_pins_of(call))
    return replace(call, fields=call.fields.model_copy(update=pins)) if pins else call


def _name_choices(planned: Planned, variant: Variant) -> Planned:
    """The plan with the variant's name on each of its choices."""
    return replace(planned, choices=tuple(replace(c, variant=variant.name) for c in planned.choices))


def dispatch(call: Call, context: Context) -> tuple[Planned, Operation]:
    """The cheapest variant's plan of a call, and the record of what every other variant said.

    Beside a variant that is pinned, the others are as they are where nothing is. Raises SpecError: TG301 when every
    variant refuses, TG302 when the pinned one does or none has what is pinned.
    """
    variants = OPS[call.op].variants
    planned: dict[str, Planned] = {}
    refused: list[Refusal] = []
    pinned, free, missed = getattr(call.fields, "variant", "auto"), _drop_pins(call), dict[str, NotHad]()
    for variant in variants:
        found = attempt(variant, call if pinned in ("auto", variant.name) else free, context)
        if found.planned is not None:
            planned[variant.name] = found.planned
        if found.refusal is not None:
            refused.append(Refusal(variant.name, found.refusal))
            missed |= {variant.name: found.not_had} if found.not_had else {}
    if pinned != "auto" and pinned not in planned:
        own = [r for r in refused if r.variant == pinned]
        raise _refuse(call, "TG302", f"variant '{pinned}' cannot carry out this {call.op}", own, missed)
    if not planned:
        raise _refuse(call, "TG302" if missed else "TG301", f"no variant can carry out this {call.op}", refused, missed)
    order = {v.name: -v.priority for v in variants}
    cheapest = min(planned, key=lambda name: (planned[name].cost.key, order[name]))
    best = cheapest if pinned == "auto" else pinned
    # A pin that is the cheapest anyway changes no word of what is said, so that a resolved spec rebuilds every byte.
    reason = "" if best == cheapest else f"'{pinned}' is pinned"
    refused += [_lost(name, planned[name], planned[best], reason) for name in planned if name != best]
    line = call.mark.line if call.mark else 0
    return planned[best], Operation(
        call.op,
        best,
        call.scope,
        describe_call(call),
        line,
        planned[best].cost,
        tuple(refused),
        (*planned[best].choices, *(replace(c, variant=best) for c in list_order(call))),
        planned[best].pins,
    )


def _lost(name: str, loser: Planned, winner: Planned, reason: str) -> Refusal:
    choices = tuple(of_loser(c) for c in loser.choices)
    why = compare_costs(loser.cost, winner.cost) or "the same cost, a lower priority"
    return Refusal(name, reason or why, loser.cost, choices)


def _refuse(call: Call, code: str, message: str, refused: Sequence[Refusal], missed: Mapping[str, NotHad]) -> SpecError:
    """The error; variants that say the same say it together, those that few say first.

    Where all that some lack is what is pinned (``missed``), it is at such a pin. Those say something that know others
    of it; where none does, all that lack it, and those that have it but cannot carry out the op.
    """
    mark, hint = call.mark_of("variant"), ""
    if missed:
        pins = _pins_of(call)
        name = max(missed.values(), key=lambda m: len(m.known)).pin
        telling = {v for v, m in missed.items() if m.pin == name and m.known}
        having = {v.name for v in OPS[call.op].variants if set(pins) <= set(v.pins)}
        refused = [r for r in refused if r.variant in (telling or {*missed, *having})]
        mark, value = call.mark_of(name), pins.pop(name)
        message += f" with {say_pin(name, value)}"
        message += f" beside {', '.join(say_pin(n, v) for n, v in pins.items())}" if pins else ""
        hint = suggest_pin(name, value, [k for m in missed.values() if m.pin == name for k in m.known])
    said: dict[str, list[str]] = {}
    for r in refused:
        said.setdefault(r.reason, []).append(r.variant)
    reasons = sorted(said, key=lambda reason: len(said[reason]))
    is_named = getattr(call.fields, "variant", "auto") != "auto" or len(OPS[call.op].variants) == 1
    each = (reason if is_named else f"{', '.join(said[reason])}: {reason}" for reason in reasons)
    return SpecError(Diagnostic(code, f"{message}: {'; '.join(each)}", mark, hint))


def describe_call(call: Call) -> str:
    """The op as a short text: ``copy In -> A[warpid]``, ``copy s -> S by atomic add``."""
    reads, writes = (" ".join(r.text or r.buffer.name for r in regions) for regions in (call.sources, call.written))
    how = f" by atomic {call.accumulates}" if call.accumulates else ""
    return (f"{call.op} {reads} -> {writes}" if reads else f"{call.op} {writes}") + how
