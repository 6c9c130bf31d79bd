"""Observations as columns of a table over CTAs and trips: all that a run of a CTA is a function of.

A place in a global array is seen by its distance from the spec's region. Where sums allow it, threads are left out: one
number tells what a comparison comes to for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilegen.index import (
    Formula,
    Index,
    Var,
    bound,
    consequences,
    differ,
    less,
    maximum,
    minimum,
    mod,
    multiple,
    names_of,
    select,
    sub,
    substitute,
    total,
    variables,
)
from tilegen.index.bounds import highest
from tilegen.index.linear import linear
from tilegen.index.recurrences import Recurrence, join_recurrences, recurrence
from tilegen.kept import keep_of_two
from tilegen.plan import Plan, default_values, plain_name
from tilegen.proofs.observed import (
    Loops,
    Observed,
    elements_in,
    find_sized_axes,
    list_counts,
    list_observed,
    meant_places,
    part_naming,
    places_beside,
    ranks_of,
)
from tilegen.proofs.read_overlap import APART, list_read_overlaps
from tilegen.proofs.relative_places import Apart, distribute, take_apart
from tilegen.scopes import CLUSTER_AXES, CTA_AXES
from tilegen.spec.data import Spec
from tilegen.spec.outline import outline

_MOST_PERIOD = 16  # trips after which places in shared memory repeat


@dataclass(frozen=True)
class Column:
    """What is observed inside of ``loops`` where ``guards`` hold, in the axes of a CTA, sizes, and others.

    ``same``: what is the same in all CTAs of one size, as it is written. ``apart``: of a place in a global array, which
    must lie in the spec's region: its first observation is 0 wherever it is made.
    """

    seen: tuple[Index, ...]
    loops: Loops
    guards: tuple[Index, ...] = ()
    same: tuple[Index, ...] = ()
    apart: Apart | None = None


@dataclass(frozen=True)
class Observation:
    """One observation, by the ways to see it, the best first: beside each of the spec's regions of an array.

    ``is_overlap``: of how regions lie on one another, which no plan can tell (``read_overlap``).
    """

    options: tuple[Column, ...]
    array: str = ""
    is_overlap: bool = False


@dataclass(frozen=True)
class Observations:
    """``steady``: how each of the spec's loops goes on, but for places in global arrays and what CTAs have a say in;
    None where that is not known, or not soon.
    """

    each: tuple[Observation, ...]
    steady: Mapping[str, Recurrence | None]


@keep_of_two
def list_observations(spec: Spec, plan: Plan) -> Observations:
    """All that a run of a CTA is a function of, each once, as far as it depends on the CTA or on sizes."""
    asked = list_observed(spec, plan)
    meant, params = meant_places(asked), {p.name for p in spec.params}
    told, found = {*CTA_AXES, *params}, dict[Observation, None]()
    ranks, steady = ranks_of(plan.cluster), _find_steady(asked, told | {*CLUSTER_AXES})
    periods = find_periods(steady)
    for q in asked:
        columns_of = [(q.array, list(_columns_of(q, meant, params)))]
        columns_of += [("", [c]) for c in _columns_of_ranks(q, plan)]
        for array, columns in columns_of:
            settled = dict.fromkeys(settle(c, ranks, told) for c in columns)
            if array or any(_depends(c, told) for c in settled):  # a place may be none of the spec's region
                found[Observation(tuple(settled), array)] = None
        for c in _columns_of_moves(q, periods):
            settled_move = settle(c, ranks, told)
            if _depends(settled_move, told):
                found[Observation((settled_move,), is_overlap=True)] = None
    for c in _columns_of_counts(spec, plan):
        found[Observation((settle(c, ranks, told),))] = None
    for overlap in list_read_overlaps(spec, plan, frozenset({*told, *CLUSTER_AXES}), periods):
        c = settle(Column((overlap.x,), overlap.loops, overlap.guards), ranks, told)
        found[Observation((c,), is_overlap=overlap.is_near)] = None
    return Observations(tuple(found), steady)


def list_sized_overlaps(spec: Spec, plan: Plan) -> list[Observed]:
    """How boxes lie that are read, where sizes have a say in it.

    Boxes of one and the same region are left out, if they lie apart with the usual sizes.
    """
    sized = _list_sized(spec)
    if not sized:
        return []
    steady, usual = list_observations(spec, plan).steady, default_values(spec.params)
    overlaps = list_read_overlaps(spec, plan, sized, find_periods(steady), of_written=True)
    return [Observed(overlap.x, overlap.loops, overlap.guards) for overlap in overlaps
            if not overlap.is_near or all(substitute(d, usual) == 0 for d in overlap.apart)]  # fmt: skip


def list_sized_places(spec: Spec, plan: Plan) -> list[Observed]:
    """Whether the plan's places and counts are the spec's: sizes decide it by no comparison."""
    sized, found = _list_sized(spec), list[Observed]()
    asked = list_observed(spec, plan) if sized else []
    meant = meant_places(asked)
    for q in (q for q in asked if q.array and not q.is_meant):
        apart = dict.fromkeys(_find_distance(q, m, sized) for m in places_beside(q, meant))
        if 0 not in apart:
            found += [Observed(differ(x, 0), q.loops, q.guards) for x in apart]
    counts = (c for c in _columns_of_counts(spec, plan) if sized & {plain_name(name) for name in names_in(c.seen)})
    return found + [Observed(differ(x, 0), c.loops, c.guards) for c in counts for x in c.seen]


def _list_sized(spec: Spec) -> frozenset[str]:
    """Names of sizes, and of axes and trips of which sizes say how many there are."""
    params = frozenset(p.name for p in spec.params)
    sized = params | find_sized_axes(spec) if params else params
    return sized | {one.trip.name for one in outline(spec).loops if sized & names_in([one.count])}


def _find_distance(q: Observed, meant: Observed, sized: frozenset[str]) -> Index:
    """How far a place is from where a region of the spec begins in the same trips, but for threads; 0 where neither
    sizes nor what these bound have a say in it.
    """
    trips = {plain_name(trip.name): trip for trip, _ in q.loops}
    loops = {trip.name for trip, _ in meant.loops}
    inside = names_of(meant.x) - ({*CTA_AXES, *CLUSTER_AXES, *sized} - loops) - elements_in(meant.x)
    begin = substitute(meant.x, {name: trips.get(name, 0) if name in loops else 0 for name in inside})
    apart = sub(distribute(q.x), distribute(begin))
    named = sized | {trip.name for name, trip in trips.items() if name in sized}
    if part_naming(apart, {*named}) == 0:
        return 0
    return part_naming(apart, {*named, *CTA_AXES, *CLUSTER_AXES, *(trip.name for trip in trips.values())})


def find_periods(steady: Mapping[str, Recurrence | None]) -> dict[str, int]:
    """After how many trips of each loop places in shared memory repeat, 0 where that is not known."""
    return {name: 0 if rule is None else rule.period for name, rule in steady.items()}


def _find_steady(asked: Sequence[Observed], told: set[str]) -> dict[str, Recurrence | None]:
    found: dict[str, list[Recurrence | None]] = {v.name: [] for q in asked if q.is_of_spec for v, _ in q.loops}
    for q in asked:
        for v, _ in q.loops if not q.moves else ():
            if v in variables(q.x) and plain_name(v.name) in found:
                rule = recurrence(q.x, v)
                if told & names_in([q.x]):  # a column of its own says where it changes
                    rule = Recurrence() if bound(q.x) <= 2 else rule and replace(rule, breakpoints=())
                found[plain_name(v.name)].append(rule)
    common = {name: join_recurrences(each) for name, each in found.items()}
    return {name: rule if rule and rule.period <= _MOST_PERIOD else None for name, rule in common.items()}


def _columns_of_counts(spec: Spec, plan: Plan) -> Iterable[Column]:
    """By how many trips a loop of the plan that is none of the spec's differs from those of that name."""
    meant, planned = list_counts(spec, plan)
    for q in planned:
        same = [m for m in meant if m.loops[-1][0].name == plain_name(q.loops[-1][0].name)]
        outer = {plain_name(trip.name): trip for trip, _ in q.loops[:-1]}
        counts = [substitute(m.x, outer) for m in same]
        if q.x not in counts:
            yield from (Column((sub(q.x, n),), q.loops[:-1], q.guards) for n in counts)


def _columns_of_moves(q: Observed, periods: Mapping[str, int]) -> Iterable[Column]:
    """In which trips the spec's place is not what it was some trips before (-1): there data of an earlier trip show to
    be none of this one's. A buffer holds data of so many trips as it takes until places in it repeat.
    """
    for v, _ in q.loops if q.is_meant else ():
        moved = part_naming(q.x, {v.name})
        rule = recurrence(moved, v) if moved != 0 else Recurrence()
        if rule is None or rule.period > 1 or rule.breakpoints:
            for apart in range(1, 1 + (periods[v.name] or _MOST_PERIOD)):
                before = substitute(moved, {v.name: v - apart})
                yield Column((select(less(v, apart), 0, select(differ(moved, before), APART, 0)),), q.loops, q.guards)


def _columns_of_ranks(q: Observed, plan: Plan) -> Iterable[Column]:
    """How far the spec's place is from that of the first CTA of the cluster, which may load it for all."""
    if q.is_meant and plan.cluster != (1, 1, 1):
        own = part_naming(q.x, {*CTA_AXES, *CLUSTER_AXES})
        firsts = {b: Var(b, 1 << 31) // n * n for b, n in zip(CTA_AXES, plan.cluster, strict=True)}
        first = substitute(own, {**firsts, **dict.fromkeys(CLUSTER_AXES, 0)})
        yield Column((own - first,), q.loops, q.guards)


def _columns_of(q: Observed, meant: Mapping[str, Sequence[Observed]], params: set[str]) -> Iterable[Column]:
    if q.is_named or q.is_count:
        yield Column((), q.loops, q.guards)
    elif q.moves:
        yield from _columns_of_place(q, meant, params, q.loops, q.guards)
        yield _column_by_distance(q, meant, params, q.loops, q.guards)
    else:
        yield Column((q.x,), q.loops, q.guards)


def settle(c: Column, ranks: Mapping[str, Index], told: set[str]) -> Column:
    """The column without what is the same in every CTA of every size, and with threads and unrolled loops out of what
    can do without; ranks of a cluster by the axes of the grid.

    What the trip alone decides stays where not all CTAs get there.
    """
    loops = tuple((trip, substitute(n, ranks)) for trip, n in c.loops)
    outer = told | {trip.name for trip, _ in uneven_loops(loops)}
    near = outer | {trip.name for trip, _ in loops}
    seen = [substitute(x, ranks) for x in c.seen]
    parts = seen[: c.apart is not None]
    parts += [part for x in seen[c.apart is not None :] for part in _observe(x, outer, near)]
    of_loops = {x for trip, n in loops if not isinstance(n, int) for x in consequences(less(trip, n))}
    guards = []
    for guard in (g for g in (substitute(g, ranks) for g in c.guards) if g not in of_loops):
        limits = _observe(guard, outer, near)
        if limits == [guard]:
            guards.append(guard)
        else:
            parts += limits
    kept = [x for k, x in enumerate(parts) if (c.apart is not None and k == 0) or outer & names_in([x])]
    return replace(c, seen=tuple(kept), loops=loops, guards=tuple(g for g in guards if outer & names_in([g])))


def uneven_loops(loops: Loops) -> Loops:
    """Loops whose counts may differ between CTAs or sizes, and those that have a say in these."""
    found: list[tuple[Var, Index]] = []
    for trip, n in reversed(loops):
        if not isinstance(n, int) or trip.name in names_in(m for _, m in found):
            found.append((trip, n))
    return tuple(reversed(found))


def _observe(x: Index, outer: set[str], near: set[str]) -> list[Index]:
    """Expressions over loops and the outer variables that tell as much as one over threads; itself where none do.

    Where the sides of a comparison are sums, its outcomes for all threads depend on one number: by how much the outer
    parts differ, as far as the others reach.
    """
    if not isinstance(x, Formula) or names_in([x]) <= outer:
        return [x]
    if x.symbol in ("&&", "||"):
        return [part for a in x.args for part in _observe(a, outer, near)]
    is_comparison = x.symbol in ("<", "==", "!=")
    split = _split_sum(sub(*x.args) if is_comparison else x, outer, near)
    if split is None:
        return [x]
    own, rest = split
    if not is_comparison:
        return [own]
    return [minimum(maximum(own, -highest((rest, 1)) - 1), highest((rest, -1)) + 1)]


def _split_sum(x: Index, outer: set[str], near: set[str]) -> tuple[Index, Index] | None:
    """A sum in two: terms that name outer variables, and the others; None where threads have a say in the former."""
    own: list[tuple[int, Any]] = []
    rest: list[tuple[int, Any]] = []
    for f, c in linear(x).items():
        names = set() if f == 1 and isinstance(f, int) else names_in([f])
        if names & outer and not names <= near:
            return None
        (own if names & outer else rest).append((c, f))
    return total(own), total(rest)


def _columns_of_place(
    q: Observed, meant: Mapping[str, Sequence[Observed]], params: set[str], loops: Loops, guards: tuple[Index, ...]
) -> Iterable[Column]:
    """How far a place is from where each of the spec's regions begins, and how it is aligned."""
    for place in places_beside(q, meant):
        apart = take_apart(q, place, params)
        if apart is not None:
            yield Column((apart.differing, _align(apart.own, q.aligned)), loops, guards, (apart.rest,), apart)


def _align(place: Index, elems: int) -> Index:
    """A place modulo the elements after which it is as aligned as before, without its terms that are multiples."""
    terms = ((c, f) for f, c in linear(place).items())
    return mod(total((c, f) for c, f in terms if (c if f == 1 else c * multiple(f)) % elems), elems)


def _column_by_distance(
    q: Observed, meant: Mapping[str, Sequence[Observed]], params: set[str], loops: Loops, guards: tuple[Index, ...]
) -> Column:  # fmt: skip
    """How far a place is from where the first region that the spec names of its array begins in the first trips."""
    first = next(iter(meant.get(q.array, ())), None)
    if first is None:
        return Column((q.x,), loops, guards)
    told = {*CTA_AXES, *CLUSTER_AXES, *params, *elements_in(first.x)}
    begin = substitute(first.x, {v.name: 0 for v in variables(first.x) if v.name not in told})
    return Column((sub(q.x, begin), mod(q.x, q.aligned)), loops, guards)


def _depends(c: Column, told: set[str]) -> bool:
    return not told.isdisjoint(names_in([*c.seen, *c.guards, *c.same, *(n for _, n in c.loops)]))


def names_in(parts: Iterable[Index]) -> set[str]:
    return set().union(*map(names_of, parts))
