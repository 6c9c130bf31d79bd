"""Layouts of one buffer, all costed at once under every alternative of the ops, the best then planned for real.

An estimate takes, for each call, the cheapest alternative that the layout keeps whole. Where a variant makes its
accesses for the layout, the floor of what was heard stands in for its wavefronts. So an estimate is what the planner
may reach; it decides in which order layouts are planned, and when those that are left can be no better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from tilegen.arch import ARCHES
from tilegen.auto_layout.alternatives import Alternative, list_alternatives, shape_of, touched_calls
from tilegen.auto_layout.families import FAMILIES, FamilyLayout, enumerate_layouts, span_elems
from tilegen.auto_layout.pin import pin_layout
from tilegen.auto_layout.tile_access import count_costs, count_floor
from tilegen.decisions import Cost
from tilegen.dtypes import DTYPES
from tilegen.errors import SpecError
from tilegen.index import Index, Var, bound, count_operators, mul
from tilegen.layouts import extent_of
from tilegen.ops.dispatch import dispatch
from tilegen.ops.op import Planned
from tilegen.ops.operand import Context
from tilegen.plan import Step
from tilegen.spec.data import Buffer, Spec

_MOST_PLANS = 12  # layouts that are planned for real where estimates do not settle it
_MOST_EQUAL = 3  # of those that reach one and the same estimate


@dataclass(frozen=True)
class Costed:
    """A layout with its cost; ``reason`` says why it cannot serve, if so, and there is no cost then."""

    layout: FamilyLayout
    cost: Cost
    reason: str = ""


@dataclass(frozen=True, eq=False)
class PlannedLayout:
    """What the planner makes of a layout: the cost, and the steps of each call that touches the buffer."""

    costed: Costed
    steps: tuple[tuple[Context, tuple[Step, ...]], ...] = ()


@dataclass(frozen=True, eq=False)
class Search:
    """What is known of every layout, by its number: the estimate, and of some the cost of the real plan."""

    estimates: tuple[Costed, ...]
    planned: Mapping[int, PlannedLayout]
    alternatives: tuple[Alternative, ...]
    equals_left: int  # not planned because others reached the same estimate
    others_left: int  # not planned although no worse by their estimates: the search was cut short

    @property
    def best(self) -> int | None:
        """The number of the best planned layout; None where no plan carries the ops out."""
        return _best(self.planned)


def search_layouts(spec: Spec, buffer: Buffer) -> Search:
    """The search for the layout of one buffer of a spec whose other layouts are known.

    Raises SpecError where the memories cannot be placed, whatever the layout.
    """
    alternatives = list_alternatives(spec, buffer)
    layouts = enumerate_layouts(shape_of(buffer), DTYPES[buffer.dtype].bytes)
    estimates, order = rank_layouts(buffer, layouts, alternatives, _room_bytes(spec, buffer))
    planned, equals_left, others_left = _plan_in_order(spec, buffer, estimates, order)
    for family in FAMILIES:  # the best of each, to show what was passed over
        first = next((k for k in order if layouts[k].family == family), None)
        if first is not None and first not in planned:
            planned[first] = plan_with(spec, buffer, layouts[first])
    return Search(tuple(estimates), planned, alternatives, equals_left, others_left)


def _plan_in_order(
    spec: Spec, buffer: Buffer, estimates: Sequence[Costed], order: Sequence[int]
) -> tuple[dict[int, PlannedLayout], int, int]:
    """Real plans until no estimate that is left is below the best of them; how many equals and others were left out.

    Of layouts that reach one and the same estimate a few are planned: they differ in address operations alone.
    """
    planned: dict[int, PlannedLayout] = {}
    reached: Counter[tuple[int, ...]] = Counter()
    equals_left = 0
    for done, k in enumerate(order):
        best, hoped = _best(planned), estimates[k].cost.key[:4]
        if best is not None and hoped > planned[best].costed.cost.key[:4]:
            break
        if reached[hoped] >= _MOST_EQUAL:
            equals_left += 1
            continue
        if len(planned) >= _MOST_PLANS:
            return planned, equals_left, len(order) - done
        planned[k] = plan_with(spec, buffer, estimates[k].layout)
        reached[hoped] += planned[k].costed.cost.key[:4] == hoped
    return planned, equals_left, 0


def _best(planned: Mapping[int, PlannedLayout]) -> int | None:
    serving = [k for k in sorted(planned) if not planned[k].costed.reason]
    return min(serving, key=lambda k: planned[k].costed.cost.key, default=None)


# ---------------------------------------------------------------- estimates
def rank_layouts(
    buffer: Buffer, layouts: Sequence[FamilyLayout], alternatives: Sequence[Alternative], room_bytes: int
) -> tuple[list[Costed], list[int]]:
    """The estimate of every layout, and the numbers of those that can serve: the least estimate first.

    Among the best come first those with the plainest addresses.
    """
    estimates = estimate_layouts(buffer, layouts, alternatives, room_bytes)
    order = sorted((k for k, e in enumerate(estimates) if not e.reason), key=lambda k: estimates[k].cost.key)
    equal = sum(estimates[k].cost.key == estimates[order[0]].cost.key for k in order)
    best = sorted(order[:equal], key=lambda k: count_place_operators(estimates[k].layout, shape_of(buffer), 1))
    return estimates, [*best, *order[equal:]]


def estimate_layouts(
    buffer: Buffer, layouts: Sequence[FamilyLayout], alternatives: Sequence[Alternative], room_bytes: int
) -> list[Costed]:
    """For every layout the sum over the calls of the least alternative, or why it cannot serve."""
    shape, size = shape_of(buffer), DTYPES[buffer.dtype].bytes
    out = [Cost(shared_bytes=span_elems(f, shape) * size) for f in layouts]
    reasons = [f"{c.shared_bytes} bytes where {room_bytes} are left" * (c.shared_bytes > room_bytes) for c in out]
    for _, group in groupby(alternatives, key=lambda a: a.number):
        costs = [_cost_alternative(buffer, layouts, a) for a in group]
        for k in range(len(layouts)):
            found = [c[k] for c in costs]
            serving = [c for c in found if isinstance(c, Cost)]
            if serving:
                out[k] = _add(out[k], min(serving, key=lambda c: c.key))
            else:
                reasons[k] = reasons[k] or next(c for c in found if isinstance(c, str))
    return [Costed(f, c, reason) for f, c, reason in zip(layouts, out, reasons, strict=True)]


def _cost_alternative(buffer: Buffer, layouts: Sequence[FamilyLayout], a: Alternative) -> list[Cost | str]:
    """The cost of one alternative under every layout, or why it is none."""
    shape, size = shape_of(buffer), DTYPES[buffer.dtype].bytes
    constrain = a.variant.constrain or (lambda call, operand: None)
    if a.variant.adapts:
        waves = np.full((len(layouts), 1), count_floor(shape, size, a.accesses))
        sectors = np.zeros((len(layouts), 1), np.int64)
    else:
        waves, sectors = count_costs(layouts, shape, size, a.accesses)
    out: list[Cost | str] = []
    for f, row, read in zip(layouts, waves.tolist(), sectors.tolist(), strict=True):
        reason = constrain(a.call, replace(buffer, layout=f.layout))
        if -1 in row:
            reason = f"it cuts a vector of {a.accesses[row.index(-1)].width_elems} elements"
        own = Cost(sum(read), sum(row))
        out.append(reason or _add(a.rest, own))
    return out


def _add(a: Cost, b: Cost) -> Cost:
    return Cost(*(x + y for x, y in zip(a.key, b.key, strict=True)))


def _room_bytes(spec: Spec, buffer: Buffer) -> int:
    """What the other shared buffers leave of the arch's shared memory."""
    others = [b for b in spec.buffers if b.scope == "shared" and b.root == b.name != buffer.name]
    sizes = [bound(extent_of(b.layout, "m")) - 1 for b in others]
    taken = sum(-(-n * DTYPES[b.dtype].bytes // 16) * 16 for n, b in zip(sizes, others, strict=True))
    return ARCHES[spec.arch].max_shared_bytes_per_cta - taken


def count_place_operators(f: FamilyLayout, shape: tuple[int, ...], width_elems: int) -> int:
    """Operators in the address of the vector at row-major coordinates, as it would be printed.

    >>> [count_place_operators(f, (32, 32), 1) for f in enumerate_layouts((32, 32), 4)[:2]]
    [2, 2]
    """
    at: list[Index] = [Var(f"x{d}", n) if n > 1 else 0 for d, n in enumerate(shape)]
    if width_elems > 1 and shape[-1] % width_elems == 0:
        vectors = shape[-1] // width_elems
        at[-1] = mul(Var("vector", vectors), width_elems) if vectors > 1 else 0
    return count_operators(f.layout.place(at, shape)["m"])


# ---------------------------------------------------------------- real plans
def plan_with(spec: Spec, buffer: Buffer, f: FamilyLayout) -> PlannedLayout:
    """What the planner makes of a layout: the steps and the cost, or the reason why a call cannot be carried out."""
    spec = pin_layout(spec, buffer.name, f.layout)
    try:
        found = plan_calls(spec, buffer.name)
    except SpecError as error:
        return PlannedLayout(Costed(f, Cost(), error.diagnostics[0].message))
    return PlannedLayout(Costed(f, cost_plans(spec, buffer.name, found)), tuple((c, p.steps) for c, p in found))


def plan_calls(spec: Spec, name: str) -> list[tuple[Context, Planned]]:
    """The plan of every call that touches a buffer, in its surroundings; raises SpecError where there is none."""
    return [(context, dispatch(call, context)[0]) for call, context in touched_calls(spec, name)]


def cost_plans(spec: Spec, name: str, plans: Sequence[tuple[Context, Planned]]) -> Cost:
    """What the plans cost together, with the bytes that the buffer takes."""
    buffer = spec.buffer(name)
    total = Cost(shared_bytes=(bound(extent_of(buffer.layout, "m")) - 1) * DTYPES[buffer.dtype].bytes)
    for _, planned in plans:
        total = _add(total, planned.cost)
    return total
