"""The search for the layout of one buffer: estimates under every alternative of the ops, the best planned for real.

An estimate takes, for each call, the cheapest alternative that the layout keeps whole. Where a variant makes its
accesses for the layout, the floor of what was heard stands in for its wavefronts. So an estimate is what the planner
may reach; it decides in which order layouts are planned, and when those that are left can be no better.

Rows come first. Where they leave something to gain, other orders and panels are searched for what costs less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tilegen.access import LINE_BYTES, SECTOR_BYTES
from tilegen.arch import ARCHES
from tilegen.auto_layout.alternatives import (
    Alternative,
    find_taken,
    list_alternatives,
    list_hopes,
    list_indexed_dims,
    shape_of,
    touched_calls,
    views_of,
)
from tilegen.auto_layout.estimates import Costed, add_costs, bound_alternative, estimate_layouts, sort_estimates
from tilegen.auto_layout.families import FAMILIES, VECTOR_BYTES, FamilyLayout, enumerate_form
from tilegen.auto_layout.forms import Form, count_stages, list_forms
from tilegen.auto_layout.pin import list_views, pin_layout, trace_dims
from tilegen.cost.asynchronous import WHOLE
from tilegen.decisions import Cost
from tilegen.dtypes import DTYPES
from tilegen.errors import SpecError
from tilegen.index import bound
from tilegen.layouts import extent_of
from tilegen.ops.dispatch import dispatch
from tilegen.ops.op import Planned
from tilegen.ops.operand import Context, align_shared
from tilegen.ops.placement import place_memories, room_below
from tilegen.plan import Step
from tilegen.spec.data import Buffer, Spec

_WARP_BYTES = 32 * VECTOR_BYTES  # the most that an instruction of a warp moves
_MOST_PLANS = 12  # layouts in rows that are planned for real where estimates do not settle it
_MOST_OTHER_PLANS = 5  # layouts in other orders and panels
_MOST_EQUAL = 3  # of those that reach one and the same estimate

_Heard = tuple[Form, Sequence[Alternative]]  # the alternatives of one form


@dataclass(frozen=True, eq=False)
class PlannedLayout:
    """What the planner makes of a layout: the cost, and the steps of each call that touches the buffer."""

    costed: Costed
    steps: tuple[tuple[Context, tuple[Step, ...]], ...] = ()


@dataclass(frozen=True, eq=False)
class Search:
    """What is known of every layout, by its number: the estimate, and of some the cost of the real plan.

    ``alike`` were not planned because others reached the same estimate, ``left`` because the search was cut short.
    ``forms``: the orders and panels beside rows; ``above``: of these, those that cost no less even without a conflict;
    ``is_settled``: rows leave nothing to gain, so that no other form was looked at.
    """

    estimates: tuple[Costed, ...]
    planned: Mapping[int, PlannedLayout]
    alternatives: tuple[Alternative, ...]
    alike: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    forms: int = 0
    above: int = 0
    is_settled: bool = False

    @property
    def best(self) -> int | None:
        """The number of the best planned layout; None where no plan carries the ops out."""
        return _best(self.planned)

    @property
    def equals_left(self) -> int:
        """How many layouts were not planned that are estimated as the best, but for address operations."""
        return sum(self.estimates[k].cost.layout_key[:4] == self._best_key for k in self.alike)

    @property
    def others_left(self) -> int:
        """How many were not planned although no worse by their estimates."""
        return sum(self.estimates[k].cost.layout_key[:4] <= self._best_key for k in self.left)

    @property
    def _best_key(self) -> tuple[int, ...]:
        assert self.best is not None
        return self.planned[self.best].costed.cost.layout_key[:4]


def search_layouts(spec: Spec, buffer: Buffer, is_shown: bool = True) -> Search:
    """The search for the layout of one buffer of a spec whose other layouts are known.

    Not ``is_shown``: only the best of it is wanted, and what was passed over is not planned to be looked at.
    Raises SpecError where the memories cannot be placed, whatever the layout.
    """
    rows, *others = forms_of(spec, buffer)
    room = room_bytes(spec, buffer)
    ways = list_alternatives(spec, buffer, rows)
    search = _plan_ranked(spec, buffer, _estimate_form(spec, buffer, rows, ways, room), ways, _MOST_PLANS, is_shown)
    if search.best is not None and _leaves_nothing(search.planned[search.best]):
        return replace(search, forms=len(others), is_settled=True)
    return _search_others(spec, buffer, others, room, search, is_shown) if others else search


def forms_of(spec: Spec, buffer: Buffer) -> tuple[Form, ...]:
    """Every form of a buffer, rows first; the orders in which its views have its dimensions among them."""
    views = (list_views(spec, b.name) for b in spec.buffers if b.root == buffer.name != b.name)
    seen = [dims for dims in (trace_dims(buffer, v) for v in views) if sorted(dims) == [*range(len(buffer.shape))]]
    return list_forms(shape_of(buffer), DTYPES[buffer.dtype].bytes, count_own_stages(spec, buffer), seen)


def count_own_stages(spec: Spec, buffer: Buffer) -> int:
    """The leading dimensions of a buffer that every region of it indexes."""
    return count_stages(len(buffer.shape), list_indexed_dims(spec, buffer))


def _plan_ranked(
    spec: Spec, buffer: Buffer, estimates: Sequence[Costed], ways: Sequence[Alternative], most: int, is_shown: bool
) -> Search:
    """Estimates with real plans of the best, so many as a rule."""
    order = sort_estimates(buffer, estimates)
    planned, alike, left = _plan_in_order(spec, buffer, estimates, order, most)
    for family in FAMILIES:  # the best of each, to show what was passed over, or because it may be the best of all
        first = next((k for k in order if estimates[k].layout.family == family), None)
        if first is not None and first not in planned and (is_shown or first in left or first in alike):
            planned[first] = plan_with(spec, buffer, estimates[first].layout)
    return Search(tuple(estimates), planned, tuple(ways), alike, left)


def _plan_in_order(
    spec: Spec, buffer: Buffer, estimates: Sequence[Costed], order: Sequence[int], most: int
) -> tuple[dict[int, PlannedLayout], tuple[int, ...], tuple[int, ...]]:
    """Real plans until no estimate that is left is below the best of them; what was passed over, as Search has it.

    Of layouts that reach one and the same estimate a few are planned: they differ in address operations alone.
    """
    planned: dict[int, PlannedLayout] = {}
    reached: Counter[tuple[int, ...]] = Counter()
    alike: list[int] = []
    for done, k in enumerate(order):
        best, hoped = _best(planned), estimates[k].cost.layout_key[:4]
        if best is not None and hoped > planned[best].costed.cost.layout_key[:4]:
            break
        if reached[hoped] >= _MOST_EQUAL:
            alike.append(k)
            continue
        if len(planned) >= most:
            return planned, tuple(alike), tuple(order[done:])
        planned[k] = plan_with(spec, buffer, estimates[k].layout)
        reached[hoped] += planned[k].costed.cost.layout_key[:4] == hoped
    return planned, tuple(alike), ()


# ---------------------------------------------------------------- other orders and panels
def _search_others(
    spec: Spec, buffer: Buffer, forms: Sequence[Form], room: int, rows: Search, is_shown: bool
) -> Search:  # fmt: skip
    """The search of rows, and behind it the layouts of other forms that cost less (bytes included) than its best."""
    in_rows = limit = None if rows.best is None else rows.planned[rows.best].costed.cost.layout_key[:4]
    first_form = rows.estimates[0].layout.form
    heard: dict[tuple[int, ...], _Heard] = {first_form.axes: (first_form, rows.alternatives)}  # of each order
    estimates: list[Costed] = []
    ways: list[Alternative] = []
    above = 0
    for form in forms:
        if form.axes not in heard:
            heard[form.axes] = _hear_order(spec, buffer, replace(form, panel=0), limit)
        free = [a for a in heard[form.axes][1] if not a.variant.constrain]
        if refused := _why_no_plan(spec, buffer, form, _uncarried(spec, buffer, form, free)):
            estimates.append(refused)
            continue
        own = near = heard[form.axes]
        if form.panel and not _is_above(buffer, near, limit):  # panels take no less than their order
            own = form, list_alternatives(spec, buffer, form, near)
        if _is_above(buffer, own, limit):
            above += 1
            continue
        found = estimate_layouts(buffer, layouts_of(form, buffer), own[1], room)
        found = [e for e in found if e.reason or limit is None or e.cost.layout_key[:4] < limit]
        estimates, ways = estimates + found, [*ways, *own[1]]
        limit = _lower(spec, buffer, found, limit)
    search = _plan_ranked(spec, buffer, estimates, ways, _MOST_OTHER_PLANS, is_shown)
    first = len(rows.estimates)
    less = {
        first + k: p for k, p in search.planned.items()
        if in_rows is None or p.costed.reason or p.costed.cost.layout_key[:4] < in_rows
    }  # fmt: skip
    return Search(
        (*rows.estimates, *estimates), {**rows.planned, **less}, (*rows.alternatives, *ways),
        (*rows.alike, *(first + k for k in search.alike)), (*rows.left, *(first + k for k in search.left)),
        len(forms), above,
    )  # fmt: skip


def _hear_order(spec: Spec, buffer: Buffer, order: Form, limit: tuple[int, ...] | None) -> _Heard:
    """The alternatives of an order; of one that is above the limit no more than show it."""
    found = list_alternatives(spec, buffer, order, None, lambda some: _is_above(buffer, (order, some), limit))
    return order, found


def _lower(
    spec: Spec, buffer: Buffer, found: Sequence[Costed], limit: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """The limit, or what the planner makes of the best of these where that is less: later forms must be below it."""
    for k in sort_estimates(buffer, found)[:1]:
        costed = plan_with(spec, buffer, found[k].layout).costed
        if not costed.reason and (limit is None or costed.cost.layout_key[:4] < limit):
            return costed.cost.layout_key[:4]
    return limit


def _is_above(buffer: Buffer, heard: _Heard, limit: tuple[int, ...] | None) -> bool:
    """Whether a form costs no less than the limit even if no access has a conflict."""
    form, alternatives = heard
    size = DTYPES[buffer.dtype].bytes
    total = Cost(shared_bytes=form.elems * size)
    for _, group in groupby(alternatives, key=lambda a: a.number):
        floors = [bound_alternative(form, size, a) for a in group]
        total = add_costs(total, min(floors, key=lambda cost: cost.layout_key))
    return limit is not None and total.layout_key[:4] >= limit


def _leaves_nothing(planned: PlannedLayout) -> bool:
    """Whether every instruction moves 16 bytes a lane without a conflict, 7 of 8 lanes and more at work, and reads no
    more of global memory than that. TMA's boxes are as many bytes under every layout."""
    every = (context.count(*steps).accesses for context, steps in planned.steps)
    counted = [c for accesses in every for _, c in accesses if c.kind not in WHOLE]
    return all(
        c.width_bytes == VECTOR_BYTES and c.wavefronts == c.bytes_floor
        and 7 * _WARP_BYTES * c.instructions <= 8 * (c.wavefronts * LINE_BYTES + c.sectors * SECTOR_BYTES)
        and c.sectors * SECTOR_BYTES <= _WARP_BYTES * c.instructions
        for c in counted
    )  # fmt: skip


def _best(planned: Mapping[int, PlannedLayout]) -> int | None:
    serving = [k for k in sorted(planned) if not planned[k].costed.reason]
    return min(serving, key=lambda k: planned[k].costed.cost.layout_key, default=None)


# ---------------------------------------------------------------- estimates
def _estimate_form(
    spec: Spec, buffer: Buffer, form: Form, alternatives: Sequence[Alternative], room_bytes: int
) -> list[Costed]:
    """The estimates of a form's layouts; of the dense one alone, with the reason, where a call has no alternative."""
    unheard = _uncarried(spec, buffer, form, alternatives)
    reason = _why_no_plan(spec, buffer, form, unheard)
    return [reason] if reason else estimate_layouts(buffer, layouts_of(form, buffer), alternatives, room_bytes)


def layouts_of(form: Form, buffer: Buffer) -> tuple[FamilyLayout, ...]:
    return enumerate_form(form, DTYPES[buffer.dtype].bytes)


def _uncarried(spec: Spec, buffer: Buffer, form: Form, alternatives: Sequence[Alternative]) -> list[int]:
    """The numbers of the calls that none of the alternatives carries out, nor a variant made for the layouts, nor one
    that takes one of the form's."""
    heard = {a.number for a in alternatives}
    calls = touched_calls(spec, buffer.name)
    if len(heard) == len(calls):
        return []
    dense = touched_calls(pin_layout(spec, buffer.name, layouts_of(form, buffer)[0].layout), buffer.name)
    unheard = [(n, *call) for n, call in enumerate(dense) if n not in heard]
    return [n for n, call, context in unheard if not any(
        v.adapts or find_taken(buffer, form, v, call, views_of(spec, buffer, call)) for v in list_hopes(call, context)
    )]  # fmt: skip


def _why_no_plan(spec: Spec, buffer: Buffer, form: Form, numbers: Sequence[int]) -> Costed | None:
    """The dense layout of a form with what the planner says of the first of these calls that it cannot carry out."""
    dense = layouts_of(form, buffer)[0]
    calls = touched_calls(pin_layout(spec, buffer.name, dense.layout), buffer.name) if numbers else ()
    try:
        for number in numbers:
            dispatch(*calls[number])
    except SpecError as error:
        return Costed(dense, Cost(), error.diagnostics[0].message)
    return None


def room_bytes(spec: Spec, buffer: Buffer) -> int:
    """What the other shared buffers leave of the arch's shared memory, or what those have that this one lies over."""
    if buffer.over:
        return room_below(buffer, place_memories(spec))[1]
    others = [b for b in spec.buffers if b.traits.is_pooled and b.root == b.name != buffer.name and not b.over]
    sizes = [bound(extent_of(b.layout, "m")) - 1 for b in others]
    taken = sum(align_shared(n * DTYPES[b.dtype].bytes) for n, b in zip(sizes, others, strict=True))
    return ARCHES[spec.arch].max_shared_bytes_per_cta - taken


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
        total = add_costs(total, planned.cost)
    return total
