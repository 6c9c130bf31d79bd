"""Which CTAs do the same, so that one of each class is enough to run, whatever the sizes are.

A run of a CTA is a function of what the plan and the spec observe there: conditions, counts, places in shared memory,
slots and peers by value, places in global arrays by their distance from the spec's region, and how elements lie that it
touches twice. Observations are columns of a table over CTAs and the trips of loops. Equal rows mean equal behaviour.

A loop that goes on as it is shows nothing more: of a stretch of equal trips only its length counts, up to the head that
a proof runs and by the period after it (``trips``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilegen.index import (
    Index,
    Var,
    substitute,
    variables,
)
from tilegen.index.recurrences import Recurrence, Trips, join_recurrences, pick_values, recurrence
from tilegen.index.rows import Ints, distinct_rows
from tilegen.index.runs import counter
from tilegen.interpret import corners
from tilegen.interpret.threads import Cta
from tilegen.plan import Plan, begin, walk
from tilegen.proofs.columns import Column, Observation, list_observations, names_in, settle
from tilegen.proofs.observed import ranks_of
from tilegen.proofs.owned_boxes import read_boxes, written_boxes
from tilegen.proofs.partition import are_own
from tilegen.proofs.read_overlap import APART
from tilegen.proofs.relative_places import stays_within
from tilegen.proofs.self_overlap import find_self_overlap
from tilegen.proofs.shown_overlaps import ShownOverlap, find_shown_overlaps
from tilegen.proofs.table import Case, Filled, Namer, Table, number_rows, spread
from tilegen.scopes import CTA_AXES, whole_clusters
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of

_MOST_CTAS = 1 << 13  # that are compared with one another
_FEW = 64  # values of an axis that are all taken


# ---------------------------------------------------------------- classes
@dataclass(frozen=True)
class CtaClasses:
    """CTAs that were compared, and a number for what each does, the same for the same at any size.

    ``overlaps``: of each CTA how boxes that it reads lie on one another, as far as others of its class do not show it.
    ``are_all``: every CTA of the grid does as one of them.
    """

    ctas: tuple[Cta, ...]
    classes: tuple[int, ...]
    overlaps: tuple[frozenset[ShownOverlap], ...]
    are_all: bool

    def list_shown(self) -> dict[Cta, set[object]]:
        """What each CTA shows: its class, and how boxes lie."""
        return {cta: {n, *own} for cta, n, own in zip(self.ctas, self.classes, self.overlaps, strict=True)}


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
        ctas, are_all = _combine_axes([_pick_axis(observed.each, d, n, grid, case) for d, n in enumerate(grid)], grid)
        ctas = [*dict.fromkeys([*ctas, *(cta for x in twice for cta in x.ends(grid))])]
    together = whole_clusters(ctas, plan.cluster)
    table = Table(case, {axis: np.array(x) for axis, x in zip(CTA_AXES, zip(*together, strict=True), strict=True)})
    told, which = _tell_apart(table, observed.each)
    known = _find_known(told, observed.each, namer)
    shown: Sequence[set[ShownOverlap]] | None = None
    if known is not None:
        own, levels = _fold_loops(known, trips, len(told.axes[CTA_AXES[0]]), namer)
        own, levels = own[which], {loops: x[which] for loops, x in levels.items()}
        does = {cta: (int(n), *(x.name(cta) for x in twice)) for cta, n in zip(together, own.tolist(), strict=True)}
        is_one = plan.cluster == (1, 1, 1)
        clusters = {cta: (cta,) if is_one else whole_clusters([cta], plan.cluster) for cta in together}
        ranks = map(tuple, (np.array(together) % plan.cluster).tolist())
        both = zip(together, ranks, strict=True)
        named = {cta: namer.number((rank, *(does[c] for c in clusters[cta]))) for cta, rank in both}
        shown = find_shown_overlaps(table, observed, np.array([*named.values()]), levels, namer)
    if shown is None:  # each is like no other
        named = {cta: namer.number((tuple(case.items()), cta)) for cta in ctas}
        each = frozenset[ShownOverlap]()
        return CtaClasses(tuple(ctas), tuple(named.values()), (each,) * len(ctas), len({*ctas}) == prod(grid))
    of = dict(zip(together, shown, strict=True))
    overlaps = (frozenset[ShownOverlap]().union(*(of[c] for c in clusters[cta])) for cta in ctas)
    are_all = are_all and not any(x.is_large for x in twice)
    return CtaClasses(tuple(ctas), tuple(named[cta] for cta in ctas), tuple(overlaps), are_all)


def _pick_axis(observed: Sequence[Observation], axis: int, extent: int, grid: Cta, case: Case) -> tuple[Ints, bool]:
    """Values of an axis that show all, and whether they do: where no rule is known, all, or some of too many."""
    if extent <= _FEW:
        return np.arange(extent), True
    v = Var(CTA_AXES[axis], extent)
    fixed: dict[str, Index] = {**case, **{a: counter(a, n) for a, n in zip(CTA_AXES, grid, strict=True)}}
    unsure = {o.array for o in observed if o.array and _find_sure(o, fixed, case) is None}
    courses: list[Recurrence | None] = []
    for o in observed:
        sure = None if o.array in unsure else _find_sure(o, fixed, case)
        ways = (c for c in o.options[: None if sure is None else sure + 1] if _may_be_within(c, case))
        for x in dict.fromkeys(
            substitute(x, fixed) for c in ways for x in (*c.seen, *c.guards, *(n for _, n in c.loops))
        ):
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


def _find_sure(o: Observation, fixed: Mapping[str, Index], case: Case) -> int | None:
    """By which option a place is in the spec's region in every CTA, as it is written; None where none says so."""
    sure = (k for k, c in enumerate(o.options)
            if c.apart is not None and _may_be_within(c, case) and substitute(c.seen[0], fixed) == 0)  # fmt: skip
    return next(sure, None)


def _may_be_within(c: Column, case: Case) -> bool:
    return c.apart is None or stays_within(c.apart, case)


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


# ---------------------------------------------------------------- one number for what a CTA does
# By the loops around: numbers over CTAs and trips, -1 where none is made.
_Known = dict[tuple[str, ...], list[Ints]]
_Levels = dict[tuple[str, ...], Ints]


def _tell_apart(table: Table, observed: Sequence[Observation]) -> tuple[Table, Ints]:
    """The table of CTAs that differ in an axis that an observation names, each once; and which of them each CTA is."""
    columns = [c for o in observed if not o.is_overlap for c in o.options]
    named = names_in(x for c in columns for x in (*c.seen, *c.guards, *(n for _, n in c.loops)))
    rows = np.stack([x if name in named else np.zeros_like(x) for name, x in table.axes.items()], axis=1)
    firsts, which = distinct_rows(rows)
    return Table(table.case, {name: x[firsts] for name, x in table.axes.items()}), which


def _find_known(table: Table, observed: Sequence[Observation], namer: Namer) -> _Known | None:
    """Of every observation a number in each CTA and trip, the same for the same; None for too much to look at.

    Where one place in an array leaves the spec's regions, all of them are seen by their distance from the first.
    """
    observed = [o for o in observed if not o.is_overlap]
    firsts: list[tuple[int, Filled] | None] = []
    for o in observed:
        ways = ((k, filled) for k, c in enumerate(o.options) if (filled := table.fill(c)) is not None)
        firsts.append(next(ways, None))
    away = {o.array for o, found in zip(observed, firsts, strict=True)
            if o.array and (found is None or found[0] == len(o.options) - 1)}  # fmt: skip
    known: _Known = {}
    for n, (o, found) in enumerate(zip(observed, firsts, strict=True)):
        if o.array in away:
            last = table.fill(o.options[-1])
            found = None if last is None else (len(o.options) - 1, last)
        is_made = table.find_made(o.options[0 if found is None else found[0]].loops)
        if found is None or is_made is None:
            return None
        option, filled = found
        same, values = tuple(substitute(x, table.case) for x in o.options[option].same), filled.values
        ids = number_rows(values.reshape(prod(values.shape[:-1]), -1), (n, option, same), namer)
        ids = ids.reshape(values.shape[:-1])
        known.setdefault(filled.loops, []).append(np.where(is_made, table.repeat(ids, filled.row), -1))
    return known


def _fold_loops(known: _Known, trips: Trips, many: int, namer: Namer) -> tuple[Ints, _Levels]:
    """A number for each CTA: what it does outside of loops, and in each loop, trip by trip, as far as that counts; and
    the numbers of all trips.
    """
    known = {(): [np.zeros(many, np.int64)], **known}
    levels: _Levels = {}
    for loops in sorted(_prefixes(known), key=len, reverse=True):
        columns = known.pop(loops)
        shape = tuple(max(x.shape[d] for x in columns) for d in range(columns[0].ndim))
        ids = number_rows(np.stack([spread(x, shape).ravel() for x in columns], axis=1), loops, namer).reshape(shape)
        if not loops:
            return ids, levels
        is_made = np.any([spread(x, shape) >= 0 for x in columns], axis=0)
        levels[loops] = np.where(is_made, ids, -1)
        known.setdefault(loops[:-1], []).append(_fold_trips(levels[loops], _steady(trips, loops[-1]), loops, namer))
    raise AssertionError("unreachable")


def _prefixes(known: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    return {loops[:k] for loops in known for k in range(len(loops) + 1)}


def _steady(trips: Trips, name: str) -> tuple[int, int] | None:
    """How many trips a proof runs at the head of a stretch, and by which period a loop goes on, if that is known."""
    if name not in trips.loops:
        return None
    common, head = trips.loops[name]
    return head, common.period


def _fold_trips(ids: Ints, steady: tuple[int, int] | None, loops: tuple[str, ...], namer: Namer) -> Ints:
    """A number for each sequence of trips: the last dimension of ``ids`` is folded."""
    rows = np.ascontiguousarray(ids.reshape(-1, ids.shape[-1]))
    firsts, which = distinct_rows(rows)
    numbers = [namer.number((loops, _cut_stretches(row[row >= 0], steady))) for row in rows[firsts]]
    return np.array(numbers)[which].reshape(ids.shape[:-1])


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
def cover_classes(found: Sequence[CtaClasses], usual: int) -> list[list[Cta]]:
    """Of the CTAs compared at each size a few that do together all that any does.

    The first size keeps both ends of each axis, and each of the ``usual`` sizes, which come first, a CTA.
    """
    shown: set[object] = set()
    left = []
    for number, own in enumerate(found):
        new = {cta: {x for x in found if not _is_shown(x, shown)} for cta, found in own.list_shown().items()}
        ends = _ends_of(own.ctas) if number == 0 else set()
        few = _cover({cta: classes | (ends & {*enumerate(cta)}) for cta, classes in new.items()})
        left.append(few or list(own.ctas)[-1:] * (number < usual))
        shown |= set().union(*own.list_shown().values())
    return left


def _is_shown(thing: object, shown: set[object]) -> bool:
    """Boxes that lie apart show all that others do."""
    return thing in shown or (isinstance(thing, tuple) and (*thing[:-1], APART) in shown)


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
    table = Table(case, {axis: np.array(x) for axis, x in zip(CTA_AXES, zip(*ctas, strict=True), strict=True)})
    shows: list[set[object]] = [set() for _ in ctas]
    work = np.zeros(len(ctas), np.int64)
    for n, c in enumerate(settle(c, ranks, told) for c in columns):
        filled, is_made = table.fill(c), table.find_made(c.loops)
        if filled is None or is_made is None:
            return list(ctas)
        work += is_made.reshape(len(ctas), -1).sum(axis=1)
        values = filled.values
        ids = distinct_rows(values.reshape(-1, values.shape[-1]))[1].reshape(values.shape[:-1])
        own = np.broadcast_to(table.repeat(ids, filled.row), is_made.shape)
        for k, shown in enumerate(shows):
            shown |= {(n, x) for x in np.unique(own[k][is_made[k]]).tolist()}
    order = np.argsort(-work, kind="stable").tolist()  # of those that show as much the one with the fewest trips
    return _cover({ctas[k]: shows[k] for k in order}) or [ctas[-1]]


# ---------------------------------------------------------------- CTAs that depend on one another
def exchanges(spec: Spec, plan: Plan) -> bool:
    """Do CTAs read of an array what others may write?

    Not where the spec has each read what it writes itself, the same box. A plan that reads elsewhere does not go along
    with the spec's places, and is run there.
    """
    names = {m.name for m in plan.memories if m.traits.is_array and _is_read_and_written(plan, m.name)}
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
