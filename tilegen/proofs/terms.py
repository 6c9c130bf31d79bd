"""What a plan says of its launch is what the spec says: grid, params, roles, barriers, arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilegen.index import to_c
from tilegen.ops.placement import place_memories
from tilegen.ops.tables import fetch_element
from tilegen.ops.trusting import find_trust
from tilegen.plan import Fetch, Plan, all_steps
from tilegen.proofs.finding import UNPROVEN_CLAIM, Finding
from tilegen.proofs.tables import list_reads
from tilegen.spec.data import Spec
from tilegen.spec.outline import outline, parts_of_cta


def check_terms(spec: Spec, plan: Plan) -> tuple[Finding, ...]:
    """An error for each term of the plan that is not the spec's; runs take the spec's, and do not show it."""
    found = (_compare(what, meant, planned) for what, meant, planned in _list_terms(spec, plan))
    return (*(finding for finding in found if finding is not None), *_compare_fetches(spec, plan))


def _compare_fetches(spec: Spec, plan: Plan) -> Iterator[Finding]:
    """Every element of a table that the plan reads is one that a let of the spec reads, under its name."""
    memories = place_memories(spec)
    meant = {fetch_element(spec, memories, var, read) for var, read in list_reads(spec)}
    for step in all_steps(plan):
        if isinstance(step, Fetch) and step not in meant:
            place = f"{step.src.memory.name}[{to_c(step.src.offset)}]"
            yield Finding(UNPROVEN_CLAIM, f"the plan reads {place} as {step.var.name}, and no let of the spec does")


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
