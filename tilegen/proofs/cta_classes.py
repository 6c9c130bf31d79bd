"""Which CTAs do the same, so that one of each class is enough to run, whatever the sizes are.

A run of a CTA is a function of what the plan and the spec observe there: conditions, counts, places in shared memory,
slots and peers by value, places in global arrays by their distance from the spec's region, and how elements lie that it
touches twice. Observations are columns of a table over CTAs and the trips of loops. Equal rows mean equal behaviour.

A loop that goes on as it is shows nothing more: of a stretch of equal trips only its length counts, up to the head that
a proof runs and by the period after it (``trips``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.index import (
    Index,
    Var,
    bound,
    evaluate,
    substitute,
    variables,
)
from tilegen.index.recurrences import Recurrence, Trips, join_recurrences, pick_values, recurrence
from tilegen.interpret import corners
from tilegen.interpret.threads import Cta, whole_clusters
from tilegen.plan import Plan, begin, plain_name, walk
from tilegen.proofs.columns import Column, Observation, list_observations, names_in, settle, uneven_loops
from tilegen.proofs.observed import NEVER, ranks_of
from tilegen.proofs.owned_boxes import read_boxes, written_boxes
from tilegen.proofs.partition import are_own
from tilegen.proofs.relative_places import stays_within
from tilegen.proofs.self_overlap import find_self_overlap
from tilegen.scopes import CTA_AXES
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of

Ints = NDArray[np.int64]
Case = Mapping[str, int]

_MOST_CTAS = 1 << 13  # that are compared with one another
_MOST_CELLS = 1 << 22  # of one column
_FEW = 64  # values of an axis that are all taken
_MOST_SLOTS = 8  # trips after which places in shared memory repeat


# ---------------------------------------------------------------- classes
@dataclass
class Namer:
    """Numbers for what is met, the same for equal things, over all sizes."""

    numbers: dict[object, int] = field(default_factory=dict)

    def number(self, thing: object) -> int:
        return self.numbers.setdefault(thing, len(self.numbers))


@dataclass(frozen=True)
class CtaClasses:
    """CTAs that were compared, and a number for what each does, the same for the same at any size.

    ``are_all``: every CTA of the grid does as one of them.
    """

    ctas: tuple[Cta, ...]
    classes: tuple[int, ...]
    are_all: bool


def find_cta_classes(
    spec: Spec, plan: Plan, case: Case, trips: Trips, namer: Namer, some: Sequence[Cta] = ()
) -> CtaClasses:  # fmt: skip
    """The classes of the CTAs of a grid, or of ``some`` of them.

    ``trips``: how loops go on; ``namer``: the same for all sizes that are compared.
    """
    grid = launch_of(spec, case).grid
    observed = list_observations(spec, plan)
    twice = find_self_overlap(spec, plan, case)
    ctas, are_all = list(some), False
    if not some:
        ctas, are_all = _combine_axes([_pick_axis(observed, d, n, grid, case) for d, n in enumerate(grid)], grid)
        ctas = [*dict.fromkeys([*ctas, *(cta for x in twice for cta in x.ends())])]
    together = whole_clusters(ctas, plan.cluster)
    table = _Table(case, {axis: np.array(x) for axis, x in zip(CTA_AXES, zip(*together, strict=True), strict=True)})
    known = _find_known(table, observed, namer)
    if known is None:
        return CtaClasses(tuple(ctas), tuple(namer.number((tuple(case.items()), cta)) for cta in ctas), False)
    own = _fold_loops(known, trips, len(together), namer)
    does = {cta: (int(n), *(x.name(cta) for x in twice)) for cta, n in zip(together, own.tolist(), strict=True)}
    ranks = {cta: tuple(x % n for x, n in zip(cta, plan.cluster, strict=True)) for cta in ctas}
    named = [namer.number((ranks[cta], *(does[c] for c in whole_clusters([cta], plan.cluster)))) for cta in ctas]
    return CtaClasses(tuple(ctas), tuple(named), are_all and not any(x.is_large for x in twice))


def _pick_axis(observed: Sequence[Observation], axis: int, extent: int, grid: Cta, case: Case) -> tuple[Ints, bool]:
    """Values of an axis that show all, and whether they do: where no rule is known, all, or some of too many."""
    if extent <= _FEW:
        return np.arange(extent), True
    v = Var(CTA_AXES[axis], extent)
    fixed: dict[str, Index] = {**case, **{a: Var(a, n) if n > 1 else 0 for a, n in zip(CTA_AXES, grid, strict=True)}}
    courses: list[Recurrence | None] = []
    for o in observed:
        best = next((c for c in o.options if _is_beside(c, fixed)), o.options[-1])
        parts = (*best.seen, *best.guards, *(n for _, n in best.loops))
        for x in dict.fromkeys(substitute(x, fixed) for x in parts):
            if v in variables(x):
                found = recurrence(x, v)
                courses.append(found if found is None or not found.rise else None)
    common = join_recurrences(courses)
    if common is not None:
        values, _ = pick_values(extent, common)
        if len(values) <= _MOST_CTAS:
            return np.unique([*values.tolist(), 1, extent - 2]), True
    elif extent <= _MOST_CTAS:
        return np.arange(extent), True
    return np.unique([*np.linspace(0, extent - 1, _FEW).astype(np.int64).tolist(), 1, extent - 2]), False


def _is_beside(c: Column, fixed: Mapping[str, Index]) -> bool:
    """Does a place keep its distance from the spec's region, as it is written?"""
    return c.apart is not None and isinstance(substitute(c.seen[0], fixed), int)


def _combine_axes(axes: Sequence[tuple[Ints, bool]], grid: Cta) -> tuple[list[Cta], bool]:
    """Every combination of the values; of too many the ends of each axis beside all values of another."""
    are_all = all(known for _, known in axes)
    if prod(len(values) for values, _ in axes) <= _MOST_CTAS:
        x, y, z = (values.tolist() for values, _ in axes)
        return [(i, j, k) for k in z for j in y for i in x], are_all
    ends = corners(grid)
    more = [(*cta[:d], x, *cta[d + 1 :]) for d, (values, _) in enumerate(axes) for x in values.tolist()
            for cta in (ends[0], ends[-1])]  # fmt: skip
    return [*ends, *more], False


# ---------------------------------------------------------------- the table
_ONE_ROW = np.zeros((1, 0), np.int64), np.zeros(0, np.int64)


@dataclass(frozen=True)
class Filled:
    """A column's values: over CTAs that differ in it, the trips of loops of these names, and all else; whether the trip
    is made stands last. ``row``: of each CTA which of the former it is, None where all are one.
    """

    loops: tuple[str, ...]
    values: Ints
    row: Ints | None


@dataclass(frozen=True)
class _Table:
    """CTAs, of one size: the axes of each."""

    case: Case
    axes: Mapping[str, Ints]

    def fill(self, c: Column) -> Filled | None:
        """None for too much, and for a place that leaves the spec's region."""
        if c.apart is not None and not stays_within(c.apart, self.case):
            return None
        seen = [substitute(x, self.case) for x in c.seen]
        guards = [substitute(g, self.case) for g in c.guards]
        outer = [(trip, substitute(n, self.case)) for trip, n in uneven_loops(c.loops)]
        extents = {trip.name: max(1, bound(n) - 1) for trip, n in outer}
        named = names_in([*seen, *guards, *(n for _, n in outer)])
        others = {v.name: v.bound for x in (*seen, *guards) for v in variables(x)
                  if v.name not in extents and v.name not in self.axes}  # fmt: skip
        axes = {name: x for name, x in self.axes.items() if name in named}
        rows, which = np.unique(np.stack([*axes.values()], axis=1), axis=0, return_inverse=True) if axes else _ONE_ROW
        many = len(rows)
        shape = (many, *extents.values(), *others.values())
        if prod(shape) * max(1, len(seen)) > _MOST_CELLS:
            return None
        at: dict[str, Any] = dict(zip(axes, (x.reshape(-1, *[1] * (len(shape) - 1)) for x in rows.T), strict=True))
        for k, name in enumerate((*extents, *others), 1):
            at[name] = np.arange(shape[k]).reshape([-1 if d == k else 1 for d in range(len(shape))])
        with np.errstate(divide="ignore", invalid="ignore"):  # where a loop does not get
            is_made = np.ones(shape, bool)
            for trip, n in outer:
                is_made &= at[trip.name] < evaluate(n, at)
            is_asked = is_made.copy()
            for guard in guards:
                is_asked &= np.asarray(evaluate(guard, at), bool)
            found = [np.where(is_asked, evaluate(x, at), NEVER) for x in seen] or [np.where(is_asked, 1, NEVER)]
        if c.apart is not None and bool(np.logical_and(np.not_equal(found[0], 0), is_asked).any()):
            return None
        by_trip = shape[: 1 + len(outer)]
        values = np.stack(found, axis=-1).astype(np.int64).reshape(*by_trip, -1)
        made = np.asarray(is_made.reshape(*by_trip, -1).any(axis=-1))
        table = np.concatenate([values, made[..., None]], axis=-1)
        return Filled(tuple(plain_name(trip.name) for trip, _ in outer), table, which.reshape(-1) if axes else None)


_Known = dict[tuple[str, ...], list[Ints]]  # by the loops around: numbers over CTAs and trips, -1 where none is made


def _find_known(table: _Table, observed: Sequence[Observation], namer: Namer) -> _Known | None:
    """Of every observation a number in each CTA and trip, the same for the same; None for too much to look at.

    Where one place in an array leaves the spec's regions, all of them are seen by their distance from the first.
    """
    firsts: list[tuple[int, Filled] | None] = []
    for o in observed:
        ways = ((k, filled) for k, c in enumerate(o.options) if (filled := table.fill(c)) is not None)
        firsts.append(next(ways, None))
    away = {o.array for o, found in zip(observed, firsts, strict=True)
            if o.array and (found is None or found[0] == len(o.options) - 1)}  # fmt: skip
    known: _Known = {}
    many = len(table.axes[CTA_AXES[0]])
    for n, (o, found) in enumerate(zip(observed, firsts, strict=True)):
        if o.array in away:
            last = table.fill(o.options[-1])
            found = None if last is None else (len(o.options) - 1, last)
        if found is None:
            return None
        option, filled = found
        same, values = tuple(substitute(x, table.case) for x in o.options[option].same), filled.values
        ids = _number_rows(values.reshape(prod(values.shape[:-1]), -1), (n, option, same), namer)
        ids = np.where(values[..., -1].astype(bool), ids.reshape(values.shape[:-1]), -1)
        own = np.broadcast_to(ids, (many, *ids.shape[1:])) if filled.row is None else ids[filled.row]
        known.setdefault(filled.loops, []).append(own)
    return known


def _number_rows(rows: Ints, key: object, namer: Namer) -> Ints:
    """A number for each row, the same for the same rows under one key."""
    rows = np.ascontiguousarray(rows)
    if (rows == rows[0]).all():
        return np.full(len(rows), namer.number((key, rows[0].tobytes())))
    flat = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
    distinct, which = np.unique(flat, return_inverse=True)
    numbers = np.array([namer.number((key, one.tobytes())) for one in distinct])
    return numbers[which.reshape(-1)]


def _fold_loops(known: _Known, trips: Trips, many: int, namer: Namer) -> Ints:
    """A number for each CTA: what it does outside of loops, and in each loop, trip by trip, as far as that counts."""
    known = {(): [np.zeros(many, np.int64)], **known}
    for loops in sorted(_prefixes(known), key=len, reverse=True):
        columns = known.pop(loops)
        shape = tuple(max(x.shape[d] for x in columns) for d in range(columns[0].ndim))
        ids = _number_rows(np.stack([_spread(x, shape).ravel() for x in columns], axis=1), loops, namer).reshape(shape)
        if not loops:
            return ids
        is_made = np.any([_spread(x, shape) >= 0 for x in columns], axis=0)
        inner = _fold_trips(np.where(is_made, ids, -1), _steady(trips, loops[-1]), loops, namer)
        known.setdefault(loops[:-1], []).append(inner)
    raise AssertionError("unreachable")


def _prefixes(known: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    return {loops[:k] for loops in known for k in range(len(loops) + 1)}


def _spread(x: Ints, shape: tuple[int, ...]) -> Ints:
    """The array with -1 for trips that it does not have."""
    pads = [(0, n - size) for size, n in zip(x.shape, shape, strict=True)]
    return np.pad(x, pads, constant_values=-1) if any(pad for _, pad in pads) else x


def _steady(trips: Trips, name: str) -> tuple[int, int] | None:
    """How many trips a proof runs at the head of a stretch, and by which period a loop goes on, if that is known."""
    if name not in trips.loops:
        return None
    common, head = trips.loops[name]
    return head, common.period


def _fold_trips(ids: Ints, steady: tuple[int, int] | None, loops: tuple[str, ...], namer: Namer) -> Ints:
    """A number for each sequence of trips: the last dimension of ``ids`` is folded."""
    rows = np.ascontiguousarray(ids.reshape(-1, ids.shape[-1]))
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    numbers = [namer.number((loops, _cut_stretches(row[row >= 0], steady))) for row in distinct]
    return np.array(numbers)[which.reshape(-1)].reshape(ids.shape[:-1])


def _cut_stretches(ids: Ints, steady: tuple[int, int] | None) -> tuple[object, ...]:
    """The numbers of the first period, then what differs from the trip a period before, and how many trips do not.

    A stretch has a period more trips than those that do not differ. Of a long one the length counts up to a head and a
    period, and by the period after it.
    """
    if steady is None:
        return tuple(ids.tolist())
    head, period = steady
    changes = np.flatnonzero(ids[period:] != ids[:-period]) + period if len(ids) > period else np.zeros(0, np.intp)
    ends = np.array([period - 1, *changes, len(ids)])
    lengths = np.diff(ends) - 1
    lengths = np.where(lengths < head, lengths, head + (lengths - head) % period)
    return (*ids[:period].tolist(), *zip([*ids[changes].tolist(), -1], lengths.tolist(), strict=True))


# ---------------------------------------------------------------- one of each class
def cover_classes(found: Sequence[CtaClasses], usual: int, firm: int) -> list[list[Cta]]:
    """Of the CTAs compared at each size a few that do together all that any does.

    The first size keeps both ends of each axis, and each of the ``usual`` sizes, which come first, a CTA. Sizes behind
    the first ``firm`` may not run in the end, so what they show others show too.
    """
    shown: set[int] = set()
    left = []
    for number, own in enumerate(found):
        new = {cta: {name} - shown for cta, name in zip(own.ctas, own.classes, strict=True)}
        ends = _ends_of(own.ctas) if number == 0 else set()
        few = _cover({cta: classes | (ends & {*enumerate(cta)}) for cta, classes in new.items()})
        left.append(few or list(own.ctas)[-1:] * (number < usual))
        shown |= {*own.classes} if number < firm else set()
    return left


def _ends_of(ctas: Sequence[Cta]) -> set[tuple[int, int]]:
    """The first and the last two values of each axis."""
    return {(d, x) for d in range(3) for own in [sorted({cta[d] for cta in ctas})] for x in (*own[:2], *own[-2:])}


def _cover(shows: Mapping[Cta, set[Any]]) -> list[Cta]:
    """A few that show together all that is shown; of those that show as much the last."""
    wanted = set().union(*shows.values())
    kept: set[Cta] = set()
    while wanted:
        best = max(reversed(list(shows)), key=lambda cta: len(shows[cta] & wanted))
        kept.add(best)
        wanted -= shows[best]
    return [cta for cta in shows if cta in kept]


def cover_outcomes(plan: Plan, columns: Sequence[Column], case: Case, ctas: Sequence[Cta]) -> list[Cta]:
    """A few of the CTAs in which each of the columns has every outcome that it has in any, in some trip."""
    ranks = ranks_of(plan.cluster)
    told = {*CTA_AXES, *case}
    table = _Table(case, {axis: np.array(x) for axis, x in zip(CTA_AXES, zip(*ctas, strict=True), strict=True)})
    shows: list[set[object]] = [set() for _ in ctas]
    work = np.zeros(len(ctas), np.int64)
    for n, c in enumerate(columns):
        filled = table.fill(settle(c, ranks, told))
        if filled is None:
            return list(ctas)
        rows = np.zeros(len(ctas), np.intp) if filled.row is None else filled.row
        cells = filled.values.reshape(len(filled.values), -1, filled.values.shape[-1])
        work += cells[..., -1].sum(axis=1)[rows]
        outcomes = [{(n, row.tobytes()) for row in np.unique(own, axis=0)} for own in cells]
        for shown, row in zip(shows, rows.tolist(), strict=True):
            shown |= outcomes[row]
    order = np.argsort(-work, kind="stable").tolist()  # of those that show as much the one with the fewest trips
    return _cover({ctas[k]: shows[k] for k in order}) or [ctas[-1]]


# ---------------------------------------------------------------- CTAs that depend on one another
def exchanges(spec: Spec, plan: Plan) -> bool:
    """Do CTAs read of an array what others may write?

    Not where the spec has each read what it writes itself, the same box. A plan that reads elsewhere does not go along
    with the spec's places, and is run there.
    """
    names = {m.name for m in plan.memories if m.space == "global" and _is_read_and_written(plan, m.name)}
    return any(not _reads_own(spec, name) for name in names)


def _reads_own(spec: Spec, name: str) -> bool:
    """Is every box that the spec reads of an array one that the CTA owns? False where it reads none."""
    owns = [o for o in written_boxes(spec) if o.memory.name == name]
    reads = [r for r in read_boxes(spec) if r.memory.name == name]
    return bool(reads) and are_own(reads, owns)


def _is_read_and_written(plan: Plan, name: str) -> bool:
    """Does the plan read and write an array?"""
    found = [t for role in plan.roles for v in walk(role.steps, begin(role.threads)) for t in v.effects.touches
             if v.position.flat(t.ref)[0].name == name]  # fmt: skip
    return any(t.reads for t in found) and any(t.writes for t in found)
