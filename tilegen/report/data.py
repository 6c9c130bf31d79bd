"""explain: a plan's choices and predicted counts as plain JSON data. Nothing is said that was not recorded."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from tilegen.cost.boxes import TMA
from tilegen.cost.compiled import compiled_accesses
from tilegen.cost.count import Counted, count_access
from tilegen.cost.cp_async import CP_ASYNC
from tilegen.decisions import Choice, Cost, Operation
from tilegen.plan import Launch, Plan

_TOTALS = ("instructions", "wavefronts", "floor", "sectors")
# Which kinds of access a hardware counter counts together: ldmatrix as LDSM, stmatrix as STSM, cp.async as LDGSTS.
# (The counter of global loads has the sectors of cp.async in it; here they stand apart.)
_COUNTERS: dict[str, dict[str, tuple[str, ...]]] = {
    "shared": {
        "ld": ("ld",), "st": ("st",), "ldsm": ("ldmatrix1", "ldmatrix2", "ldmatrix4"),
        "stsm": ("stmatrix1", "stmatrix2", "stmatrix4"), "ldgsts": CP_ASYNC, "tma": (TMA,),
    },
    "global": {"ld": ("ld",), "st": ("st",), "ldgsts": CP_ASYNC, "tma": (TMA,)},
}  # fmt: skip
_WHERE_USED = ("ldgsts", "tma")  # counters that are shown only for kernels that have such accesses


def explain_plan(plan: Plan, launch: Launch) -> dict[str, Any]:
    """Kernel, arch, choices for all of it, ops (variant, refusals, choices, accesses over one interior CTA), totals."""
    accesses = compiled_accesses(plan)
    inside = [count_access(a, launch, launch.interior) for a in accesses]
    whole = [count_access(a, launch, None) for a in accesses]
    held = [replace(a, conditions=(*a.conditions, *a.needed), needed=()) for a in accesses]
    needed = [count_access(a, launch, None) for a in held]
    return {
        "kernel": plan.name,
        "arch": plan.arch,
        "grid": list(launch.grid),
        "threads": plan.threads,
        "params": dict(launch.params),
        "choices": [choice_data(c) for c in plan.choices],
        "ops": [_explain_op(o, [c for c in inside if c.op == k]) for k, o in enumerate(plan.operations)],
        "grid_totals": _totals(whole, needed),
    }


def _explain_op(o: Operation, counted: list[Counted]) -> dict[str, Any]:
    return {
        "op": o.op,
        "text": o.text,
        "line": o.line,
        "variant": o.variant,
        "scope": o.scope,
        "cost": cost_data(o.cost),
        "refused": [
            {"variant": r.variant, "reason": r.reason, "cost": cost_data(r.cost) if r.cost else None} for r in o.refused
        ],
        "choices": [choice_data(c) for c in o.choices],
        "accesses": [_access_data(c) for c in counted],
    }


def choice_data(choice: Choice) -> dict[str, Any]:
    """A choice as JSON data."""
    return {
        "question": choice.question,
        "picked": choice.picked,
        "candidates": [
            {"value": c.value, "cost": cost_data(c.cost) if c.cost else None, "verdict": c.verdict}
            for c in choice.candidates
        ],
        "proof": choice.proof,
    }


def cost_data(cost: Cost) -> dict[str, int]:
    """A cost as JSON data."""
    return asdict(cost)


def _access_data(c: Counted) -> dict[str, Any]:
    return {
        "buffer": c.buffer, "space": c.space, "kind": c.kind, "width_bytes": c.width_bytes,
        "instructions": c.instructions, "wavefronts": c.wavefronts, "floor": c.floor, "bytes_floor": c.bytes_floor,
        "sectors": c.sectors,
    }  # fmt: skip


def _totals(whole: list[Counted], needed: list[Counted]) -> dict[str, dict[str, int]]:
    """Per space and kind, summed over the grid: what the hardware's counters should show.

    ``least_sectors``: of the loads that something uses alone; a compiler may leave out the others.
    """
    out: dict[str, dict[str, int]] = {}
    for space, counters in _COUNTERS.items():
        for counter, kinds in counters.items():
            rows, fewer = ([c for c in found if c.space == space and c.kind in kinds] for found in (whole, needed))
            if rows or counter not in _WHERE_USED:
                sums = {name: sum(getattr(c, name) for c in rows) for name in _TOTALS}
                out[f"{space}_{counter}"] = sums | {"least_sectors": sum(c.sectors for c in fewer)}
    return out
