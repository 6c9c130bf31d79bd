"""What a proof has to say: what could not be proved, and a case for which it is really wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tilegen.index import Index, Var, evaluate, every, substitute, variables
from tilegen.plan import Plan, default_values
from tilegen.scopes import thread_variables

UNPROVEN_MEETING = "TG406"
UNPROVEN_RANGE = "TG414"
UNPROVEN_ALIGNMENT = "TG415"
UNPROVEN_CLAIM = "TG416"
TWO_OWNERS = "TG417"
MAY_BE_EQUAL = "TG441"
NO_OWNER = "TG418"
NOT_PARTITIONED = "TG419"
_TRY_AT_MOST = 1 << 21


@dataclass(frozen=True)
class Finding:
    """What could not be proved. ``witness``: values of the variables for which it is really wrong, where found."""

    code: str
    message: str
    severity: str = "error"  # error | note
    op: int = -1
    memory: str = ""
    dimension: int = -1
    expression: str = ""
    extent: str = ""
    witness: Mapping[str, int] | None = field(default=None, hash=False)
    hint: str = ""


# ---------------------------------------------------------------- a case that really fails
def find_witness(plan: Plan, threads: int, conditions: tuple[Index, ...]) -> dict[str, int] | None:
    """Values for which all conditions hold: tried at each of a role's ``threads`` and the corners of the rest.

    Of the CTAs that show it, the first. The corners may miss what happens elsewhere, so None proves nothing.
    """
    axes = thread_variables(threads)
    condition = substitute(every(*conditions), axes)
    if isinstance(condition, int):
        return {} if condition else None
    order = {name: i for i, name in enumerate(("bz", "by", "bx"))}
    names = sorted(variables(condition), key=lambda v: (order.get(v.name, 3), v.name))
    defaults = default_values(plan.params)
    tried = {v.name: _corner_values(v, threads, defaults.get(v.name)) for v in names}
    if prod(len(t) for t in tried.values()) > _TRY_AT_MOST:
        return None
    witness = _first_true(condition, tried)
    if witness is None:
        return None
    for axis in ("bx", "by", "bz"):
        var = next((v for v in names if v.name == axis), None)
        if var is not None and var.bound <= _TRY_AT_MOST:
            others = {name: np.array([x]) for name, x in witness.items()}
            witness = _first_true(condition, {**others, axis: np.arange(var.bound)}) or witness
    return witness


def _corner_values(var: Var, threads: int, default: int | None) -> np.ndarray[Any, Any]:
    if var.name == "tx":
        return np.arange(threads)
    low, high = -(-var.least // var.step) * var.step, (var.bound - 1) // var.step * var.step
    picks = {low, low + var.step, low + 2 * var.step, high - var.step, high}
    picks |= set() if default is None else {default}
    return np.array(sorted(p for p in picks if low <= p <= high))


def _first_true(condition: Index, tried: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, int] | None:
    grids = dict(zip(tried, np.meshgrid(*tried.values(), indexing="ij", sparse=True), strict=True))
    shape = tuple(len(t) for t in tried.values())
    true = np.flatnonzero(np.broadcast_to(evaluate(condition, grids), shape))
    if not len(true):
        return None
    at = np.unravel_index(int(true[0]), shape)
    return {name: int(t[i]) for (name, t), i in zip(tried.items(), at, strict=True)}
