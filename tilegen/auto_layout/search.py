"""Layouts of one buffer, all costed at once under every alternative of the ops, the best then planned for real.

An estimate takes, for each call, the cheapest alternative that the layout keeps whole. Where a variant makes its
accesses for the layout, the floor of what was heard stands in for its wavefronts. So an estimate is what the planner
may reach; it decides in which order layouts are planned, and when those that are left can be no better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tilegen.arch import ARCHES
from tilegen.auto_layout.alternatives import Alternative, list_alternatives, shape_of, touched_calls
from tilegen.auto_layout.families import FAMILIES, FamilyLayout, Ints, enumerate_layouts, span_elems
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
_SECTORS, _WAVEFRONTS, _SHARED_BYTES = (
    [f.name for f in fields(Cost)].index(name) for name in ("sectors", "wavefronts", "shared_bytes")
)
_MOST_EQUAL = 3  # of those that reach one and the same estimate

Counts = dict[tuple[object, ...], tuple[Ints, Ints]]  # by all that an access is: (wavefronts, sectors) of each layout


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
    spans = [span_elems(f, shape) * size for f in layouts]
    reasons = [f"{n} bytes where {room_bytes} are left" * (n > room_bytes) for n in spans]
    total = np.zeros((len(layouts), len(fields(Cost))), np.int64)
    total[:, _SHARED_BYTES] = spans
    counted = _known_counts(shape, size)
    for _, group in groupby(alternatives, key=lambda a: a.number):
        ways = list(group)
        least, serves = np.full_like(total, np.iinfo(np.int64).max), np.zeros(len(layouts), bool)
        refused: dict[str, list[str]] = {}
        for a in ways:
            own, fits = _count_alternative(buffer, layouts, a, counted, refused)
            better = fits & (~serves | _is_less(own, least))
            least[better] = own[better]
            serves |= fits
        total[serves] += least[serves]
        for k in np.flatnonzero(~serves).tolist():
            reasons[k] = reasons[k] or _why_not(layouts[k], ways[0], k, counted, refused)
    return [Costed(f, Cost(*row), why) for f, row, why in zip(layouts, total.tolist(), reasons, strict=True)]


@lru_cache(maxsize=8)
def _known_counts(shape: tuple[int, ...], elem_bytes: int) -> Counts:
    """What accesses of such a tile cost under every layout of it, filled as they are counted."""
    return {}


def _is_less(a: Ints, b: Ints) -> NDArray[np.bool_]:
    """Which rows of ``a`` come before those of ``b``, their first columns compared first."""
    differs = a != b
    first = differs.argmax(axis=1)
    each = np.arange(len(a))
    return np.asarray(differs.any(axis=1) & (a[each, first] < b[each, first]))


def _count_alternative(
    buffer: Buffer, layouts: Sequence[FamilyLayout], a: Alternative, counted: Counts, refused: dict[str, list[str]]
) -> tuple[Ints, NDArray[np.bool_]]:
    """The cost of one alternative under every layout (the fields of Cost, a row each), and under which it is one.

    What is known of accesses and of variants is in ``counted`` and ``refused``, and is put there.
    """
    shape, size = shape_of(buffer), DTYPES[buffer.dtype].bytes
    costs = np.tile(np.array(a.rest.key, np.int64), (len(layouts), 1))
    fits = np.ones(len(layouts), bool)
    if a.variant.adapts:
        costs[:, _WAVEFRONTS] += count_floor(shape, size, a.accesses)
    else:
        for one in a.accesses:
            if one.everything not in counted:
                counted[one.everything] = count_costs(layouts, shape, size, [one])
            waves, sectors = counted[one.everything]
            fits &= waves[:, 0] >= 0
            costs[:, _WAVEFRONTS] += waves[:, 0]
            costs[:, _SECTORS] += sectors[:, 0]
    if a.variant.constrain:
        if a.variant.name not in refused:
            whys = (a.variant.constrain(a.call, replace(buffer, layout=f.layout)) for f in layouts)
            refused[a.variant.name] = [why or "" for why in whys]
        fits &= ~np.array(refused[a.variant.name], bool)
    return costs, fits


def _why_not(f: FamilyLayout, a: Alternative, k: int, counted: Counts, refused: Mapping[str, Sequence[str]]) -> str:
    """Why layout number ``k`` cannot serve an alternative: a vector that it cuts, or what the variant says."""
    if not a.variant.adapts:
        for one in a.accesses:
            if counted[one.everything][0][k, 0] < 0:
                return f"it cuts a vector of {one.width_elems} elements"
    return refused[a.variant.name][k]


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
