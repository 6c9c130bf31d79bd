"""What a plan says of its launch is what the spec says: grid, params, roles, barriers, arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tilegen.index import Index, substitute, to_c
from tilegen.ops.placement import place_memories
from tilegen.ops.tables import fetch_element
from tilegen.ops.trusting import find_trust
from tilegen.plan import Fetch, Plan, begin, plain_name, walk
from tilegen.proofs.finding import UNPROVEN_CLAIM, Finding
from tilegen.spec.data import LetStatement, Spec
from tilegen.spec.outline import outline, parts_of_cta
from tilegen.spec.tables import Read


def check_terms(spec: Spec, plan: Plan) -> tuple[Finding, ...]:
    """An error for each term of the plan that is not the spec's; runs take the spec's, and do not show it."""
    found = (_compare(what, meant, planned) for what, meant, planned in _list_terms(spec, plan))
    return (*(finding for finding in found if finding is not None), *_compare_fetches(spec, plan))


def _compare_fetches(spec: Spec, plan: Plan) -> Iterator[Finding]:
    """Every element of a table that the plan reads is one that a let of the spec reads, under its name.

    The same names may stand for other values there, so numbers of elements are compared written out, too.
    """
    memories = place_memories(spec)
    meant: dict[Fetch, set[tuple[Index, Index]]] = {}
    for placed in outline(spec).placed:
        values = dict(placed.meant.values)
        for var, x in placed.statement.entries if isinstance(placed.statement, LetStatement) else ():
            if isinstance(x, Read):
                wanted = fetch_element(spec, memories, var, x)
                place = substitute(wanted.number, values), substitute(wanted.where, values)
                meant.setdefault(wanted, set()).add(place)
                values.pop(var.name, None)
            else:
                values[var.name] = substitute(x, values)
    for role in plan.roles:
        for visit in walk(role.steps, begin(role.threads)):
            step, position = visit.step, visit.position
            if isinstance(step, Fetch):
                plain = {trip.name: replace(trip, name=plain_name(trip.name)) for trip, _ in position.loops}
                number, where = (substitute(position.expand(x), plain) for x in (step.number, step.where))
                if (number, where) not in meant.get(step, ()):
                    said = f"the plan reads element {to_c(number)} of {step.src.memory.name} as {step.var.name}"
                    yield Finding(UNPROVEN_CLAIM, f"{said}, and no let of the spec does")


def _compare(what: str, meant: Any, planned: Any) -> Finding | None:
    if planned == meant:
        return None
    return Finding(
        UNPROVEN_CLAIM, f"the plan's {what} is not the spec's: {_show(planned)}, and {_show(meant)} is meant"
    )


def _show(x: Any) -> str:
    return f"({', '.join(map(str, x))})" if isinstance(x, tuple) else str(x)


def _list_terms(spec: Spec, plan: Plan) -> Iterator[tuple[str, Any, Any]]:
    """(what it is, as the spec has it, as the plan has it)."""
    yield "grid", spec.grid, plan.grid
    yield "cluster", spec.cluster, plan.cluster
    yield "CTAs that share a product", spec.cta_group, plan.cta_group
    yield "arch", spec.arch, plan.arch
    yield "params", spec.params, plan.params
    yield "count of CTAs a multiprocessor", spec.ctas_per_sm, plan.ctas_per_sm
    yield "promises and claims", find_trust(spec), plan.trust
    yield "overlap with the kernel before", spec.overlaps, plan.overlaps
    yield "barriers", tuple(outline(spec).barriers.values()), plan.barriers
    parts = [(p.name, p.threads, p.registers) for p in parts_of_cta(spec)] or [("all", spec.threads, 0)]
    yield "roles", tuple(parts), tuple((r.name, r.threads, r.registers) for r in plan.roles)
    arrays = [m for m in place_memories(spec).values() if m.traits.is_passed]
    yield "arrays", tuple(dict.fromkeys(arrays)), tuple(m for m in plan.memories if m.traits.is_passed)
