"""Sizes that a proof takes beside the usual: the largest that there are, those at which outcomes change of what is
compared with sizes, alone or with CTAs and trips, and those at which a vector is cut by the edge of an array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

from tilegen.index import (
    Formula,
    Index,
    Var,
    bound,
    conjuncts,
    evaluate,
    multiple,
    names_of,
    substitute,
    to_c,
    total,
    variables,
)
from tilegen.index.bounds import highest
from tilegen.index.linear import linear
from tilegen.index.outcomes import Outcomes, find_outcomes
from tilegen.plan import plain_name
from tilegen.proofs.flat_trips import Joined, compare_trip
from tilegen.proofs.observed import Loops, Observed, compared_in, find_sized_axes, parts_with, ranks_of
from tilegen.proofs.spare_sizes import Narrowed, narrow
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, GRID_LIMITS
from tilegen.spec.data import Spec
from tilegen.spec.outline import is_possible, outline

_MOST_OF_ARRAY = 1 << 45  # elements of one that is counted; no GPU holds more
_MOST_OUTCOMES = 128  # of a remainder, or of a part of it
_MOST_OPTIONS = 64  # sizes with one outcome of which one must be possible to launch
_MOST_OF_ACCESS = 16  # elements of one: one of 16 bytes has no more
_MOST_VALUES = 1 << 14  # of a parameter that are looked at
_AXES = {*CTA_AXES, *CLUSTER_AXES}


def largest_cases(spec: Spec, default: Mapping[str, int], with_counts: bool = False) -> list[dict[str, int]]:
    """Each parameter alone as large as it may be, as an array can be, then all of them.

    ``with_counts``: counts of CTAs that the launch knows are among them.
    """
    own = {p.name: p.var for p in spec.params if p.var is not None and (with_counts or p.launched is None)}
    cases = [_grow(spec, default, {name: var}) for name, var in own.items()]
    cases.append(_grow(spec, default, own))
    return [case for k, case in enumerate(cases) if case != default and case not in cases[:k]]


def _grow(spec: Spec, default: Mapping[str, int], grown: Mapping[str, Var]) -> dict[str, int]:
    """The largest values of some parameters, halved together until they can be launched; at least the defaults."""
    values = {name: (var.bound - 1) // var.step * var.step for name, var in grown.items()}
    case: dict[str, int] | None = {**default, **values}
    while case is not None and not is_sized(spec, case):
        case = halve_sizes(spec, default, case)
    return dict(default) if case is None else case


def halve_sizes(spec: Spec, default: Mapping[str, int], case: Mapping[str, int]) -> dict[str, int] | None:
    """The same with half of each size that is above its default; None where none is left."""
    steps = {p.name: p.var.step for p in spec.params if p.var is not None}
    halves = {name: case[name] // 2 // step * step for name, step in steps.items() if case[name] > default[name]}
    grown = {name: value for name, value in halves.items() if value > default[name]}
    return {**default, **grown} if grown else None


# ---------------------------------------------------------------- sizes at which outcomes change
@dataclass(frozen=True)
class BoundarySizes:
    """Sizes that show outcomes which none of those tried shows.

    ``undecided``: comparisons of which no rule tells where outcomes change; ``unshown``: those with too many.
    """

    cases: tuple[dict[str, int], ...]
    undecided: tuple[Index, ...]
    unshown: tuple[Index, ...]


def boundary_sizes(
    spec: Spec, groups: Iterable[Joined], default: Mapping[str, int], tried: Sequence[Mapping[str, int]]
) -> BoundarySizes:  # fmt: skip
    """For each joint outcome of a group's expressions that no size shows of those tried, the least that does; of those
    with as many CTAs as usual, if one does.

    Parameters that a group does not name have their defaults.
    """
    usual = {p.name: default[p.name] for p in spec.params if p.launched is not None and p.var is not None}
    cases: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
    undecided: dict[Index, None] = {}
    unshown: dict[Index, None] = {}
    for group, part in ((own, part) for own in dict.fromkeys(groups) for part in narrow(spec, own, default)):
        found = _find_outcomes(spec, part, tried, usual)
        if found is None:
            continue
        undecided |= {x: None for x, known in zip(group.seen, part.seen, strict=True) if known in found.undecided}
        unshown |= {} if found.are_all else dict.fromkeys(group.seen)
        for values, is_tried in zip(found.shown, found.is_tried, strict=True):
            options = [{**default, **part.fixed, **dict(zip(part.names, row, strict=True))} for row in values.tolist()]
            options.sort(key=lambda case: not usual.items() <= case.items())
            if not is_tried and not any(tuple(case.items()) in cases for case in options):
                case = next((case for case in options[:_MOST_OPTIONS] if is_sized(spec, case)), None)
                cases |= {} if case is None else {tuple(case.items()): case}
    return BoundarySizes(tuple(cases.values()), tuple(undecided), tuple(unshown))


def _find_outcomes(
    spec: Spec, part: Narrowed, tried: Sequence[Mapping[str, int]], usual: Mapping[str, int]
) -> Outcomes | None:  # fmt: skip
    """Joint outcomes of a question; None where no size has a say in them."""
    if not part.outer:
        return None
    holds = [c for c in (substitute(x, part.fixed) for x in spec.known) if not isinstance(c, int)]
    known = [{name: case[name] for name in part.names} for case in tried if part.fixed.items() <= case.items()]
    return find_outcomes(part.seen, part.inner, part.outer, known, holds, usual)


def list_untold(
    spec: Spec, asked: Sequence[Observed], found: BoundarySizes, cases: Sequence[Mapping[str, int]]
) -> list[str]:  # fmt: skip
    """A note for each comparison of which not every outcome is known to be shown.

    Where the spec itself makes an undecided one, only for those of sizes alone that come out one way in all cases.
    """
    own = {p.name for p in spec.params if p.var is not None}
    asked_by_spec = (x for q in asked if q.is_of_spec for x in (q.x, *q.guards, *(n for _, n in q.loops)))
    is_meant = not {*found.undecided}.isdisjoint(c for x in asked_by_spec for c in compared_in(x))
    alone = [x for x in found.undecided if names_of(x) <= own]
    one = [x for x in alone if len({bool(evaluate(x, case)) for case in cases}) == 1]
    said = dict.fromkeys([*found.unshown, *(one if is_meant else found.undecided)])
    return [f"not proven: what sizes do of which '{to_c(x)}' comes out otherwise, if there are any" for x in said]


def group_observed(spec: Spec, asked: Iterable[Observed]) -> Iterator[Joined]:
    """What each question asks that may come out otherwise for other sizes, then what all ask of sizes alone."""
    own, ranks = _sizes_of(spec), ranks_of(spec.cluster)
    sized = own | find_sized_axes(spec)
    alone: dict[Index, None] = {}
    for q in asked:
        compared = dict.fromkeys(c for x in (q.x, *q.guards, *(n for _, n in q.loops)) for c in compared_in(x))
        alone |= dict.fromkeys(c for c in compared if names_of(c) <= own)
        inner = _list_inner(spec, q.loops)
        group = _connect([substitute(c, ranks) for c in compared], inner, own)
        if group is not None:
            yield replace(group, counted=frozenset(substitute(c, ranks) for c in _find_counted(q)))
        reached = sized | {v.name for v, n in q.loops if not own.isdisjoint(names_of(n))}
        for x in _small_remainders(q.x, reached):
            if names_of(x) <= own:
                yield Joined((x,))
            elif not q.array:
                yield Joined((x,), _with_counts(names_of(x), inner))
    if alone:
        yield Joined(tuple(alone))


def pair_observed(spec: Spec, asked: Sequence[Observed], overlaps: Sequence[Observed]) -> Iterator[Joined]:
    """What the plan asks and the spec does not, for all threads alike, beside how boxes lie that are read.

    A plan that uses another box's data is right wherever the two are the same.
    """
    trips = {one.trip.name for one in outline(spec).loops}
    told, ranks = {*CTA_AXES, *trips, *_sizes_of(spec)}, ranks_of(spec.cluster)
    meant = {substitute(x, ranks) for q in asked if q.is_of_spec for x in _parts_of(q)}
    shown = [(q, [substitute(c, ranks) for x in (q.x, *q.guards) for c in compared_in(x)]) for q in overlaps]
    for q in (q for q in asked if overlaps and not q.is_of_spec and not q.is_named and not q.array):
        vars_of = {v.name: Var(plain_name(v.name), v.bound, v.step, v.least) for v, _ in q.loops}
        vars_of = {name: v for name, v in vars_of.items() if v.name in trips}
        plain = ranks | vars_of
        own = dict.fromkeys(substitute(x, plain) for x in _parts_of(q))
        own = {x: None for x in own if x not in meant and names_of(x) <= told}
        counted = frozenset(substitute(c, plain) for c in _find_counted(q))
        loops = tuple((vars_of.get(v.name, v), substitute(n, plain)) for v, n in q.loops)
        for overlap, lies in shown if own else ():
            seen = tuple(dict.fromkeys([*own, *lies]))
            around = {v.name: (v, n) for v, n in (*loops, *overlap.loops)}
            inner = _list_inner(spec, tuple(around.values()))
            yield Joined(seen, _with_counts({name for x in seen for name in names_of(x)}, inner), counted)


def _find_counted(q: Observed) -> frozenset[Index]:
    """The comparisons of a question that nothing but counts of loops around makes."""
    of_loops = [part for v, n in q.loops for part in compare_trip(v, n)]
    others = {c for x in (q.x, *q.guards) if x not in of_loops for c in compared_in(x)}
    return frozenset(c for x in of_loops for c in compared_in(x) if c not in others)


def _parts_of(q: Observed) -> list[Formula]:
    """Comparisons, and remainders that come out in a few ways: of a question, and of whether it is asked."""
    parts = (q.x, *q.guards, *(n for _, n in q.loops))
    return [c for x in parts for c in (*compared_in(x), *_small_remainders(x, names_of(x)))]


def _list_inner(spec: Spec, loops: Loops) -> list[tuple[Var, Index]]:
    """The trips of loops, the innermost first, then the axes of CTAs, each with its count. What a plan unrolls beside
    the spec's loops is taken as threads are.
    """
    trips, ranks = {one.trip.name for one in outline(spec).loops}, ranks_of(spec.cluster)
    ends = [min(bound(n) - 1, most) for n, most in zip(spec.grid, GRID_LIMITS, strict=True)]
    axes = [(Var(axis, end), n) for axis, end, n in zip(CTA_AXES, ends, spec.grid, strict=True)]
    own = ((v, substitute(n, ranks)) for v, n in reversed(loops))
    return [*((v, n) for v, n in own if plain_name(v.name) in trips or not isinstance(n, int)), *axes]


def _sizes_of(spec: Spec) -> set[str]:
    return {p.name for p in spec.params if p.var is not None}


def _connect(compared: Sequence[Index], inner: Sequence[tuple[Var, Index]], own: set[str]) -> Joined | None:
    """The comparisons that name sizes, and those that share with them a CTA or a trip; None for none.

    A variable whose count sizes give has larger values with larger sizes.
    """
    counts = {v.name: {u.name for u in variables(n)} for v, n in inner}
    names = {*own, *(name for name, named in counts.items() if named & own)}
    left, seen = dict.fromkeys(compared), dict[Index, None]()
    while more := [c for c in left if not names.isdisjoint(names_of(c))]:
        seen |= dict.fromkeys(more)
        left = dict.fromkeys(c for c in left if c not in seen)
        names |= {v.name for c in more for v in variables(c)} & counts.keys()
    return Joined(tuple(seen), _with_counts({v.name for c in seen for v in variables(c)}, inner)) if seen else None


def _with_counts(names: Set[str], inner: Sequence[tuple[Var, Index]]) -> tuple[tuple[Var, Index], ...]:
    """Those of the variables that are named, and that the counts of these name; the inner ones come first."""
    for v, n in inner:
        names = names | (names_of(n) if v.name in names else set())
    return tuple((v, n) for v, n in inner if v.name in names)


def _small_remainders(x: Index, names: Set[str]) -> list[Formula]:
    """Remainders that sizes, or what they bound, have a say in and that come out in a few ways; quotients of these."""
    return [
        part for part in parts_with(x, ("%", "&", "/"))
        if not names.isdisjoint(names_of(part)) and bound(part) <= _MOST_OUTCOMES
        and (part.symbol != "/" or parts_with(part, ("%", "&")))
    ]  # fmt: skip


def is_sized(spec: Spec, case: Mapping[str, int]) -> bool:
    """Can it be launched, on arrays that NumPy can count?"""
    sizes = (prod(int(evaluate(n, case)) for n in b.shape) for b in spec.buffers if b.traits.is_array)
    return is_possible(spec, case) and all(size <= _MOST_OF_ARRAY for size in sizes)


def say_case(case: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in case.items())


# ---------------------------------------------------------------- sizes at the edges of arrays
@dataclass(frozen=True)
class Edge:
    """What a condition compares with places that lie ``apart`` elements from one another: the ``end`` of an array.

    ``reach``: the farthest place of a CTA from its first. ``turn``: how far behind such a place the end lies when the
    condition has just turned.
    """

    end: Index
    apart: int
    reach: int
    turn: int

    @property
    def is_of_vectors(self) -> bool:
        return self.apart <= _MOST_OF_ACCESS


def edge_cases(spec: Spec, asked: Sequence[Observed], default: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """For each parameter small values that put an array's end at each place within a vector, one with which a CTA's
    whole tile lies before the end, and those at which a condition on whole tiles turns; the other parameters have their
    defaults.

    The parameter itself is seen as such an end too: the plan's own may be wrong. For each place the least value is
    taken, and the least with two vectors before the end. Places that no value with these others reaches are not tried.
    """
    for p in spec.params:
        if p.var is None or p.launched is not None:
            continue
        others = {name: value for name, value in default.items() if name != p.name}
        conditions = dict.fromkeys(substitute(c, others) for q in asked for c in (*q.guards, q.x))
        found_edges = [e for c in conditions for e in find_edges(p.var, c)]
        edges = dict.fromkeys([*found_edges, *(replace(e, end=p.var) for e in found_edges if e.is_of_vectors)])
        steps = range(max(p.var.least, p.var.step), p.var.bound, p.var.step)[:_MOST_VALUES]
        found = [n for edge in edges for n in _telling_values(p.var, edge, np.array(steps, np.int64))]
        cases = ({**default, p.name: value} for value in dict.fromkeys(found))
        yield from (case for case in cases if is_possible(spec, case))


def _telling_values(v: Var, edge: Edge, values: NDArray[np.int64]) -> Iterator[int]:
    """Of a parameter's values, ascending, some for each place of the end, and of vectors one for a whole tile.

    None where the end is at one and the same place always.
    """
    ends = np.broadcast_to(evaluate(edge.end, {v.name: values}), values.shape)
    lies, told = ends % edge.apart, list(range(edge.apart))
    if not edge.is_of_vectors:  # those nearest to a turn, on either side
        lies = (ends - edge.turn) % edge.apart
        told = sorted({lies.min(initial=edge.apart), lies.max(initial=0)})
    places = [(ends > 0) & (lies == k) for k in told]
    if sum(bool(own.any()) for own in places) < 2:
        return
    for own in places:
        far = own & (ends >= 2 * edge.apart)
        yield from map(int, {*values[own][:1], *values[far][:1]})
    if edge.is_of_vectors:
        yield from map(int, values[ends > edge.reach + edge.apart][:1])


def find_edges(v: Var, condition: Index) -> Iterator[Edge]:
    """The ends, functions of a parameter, with which a condition compares the places of vectors, or of tiles.

    >>> n, tx = Var("n", 1000), Var("tx", 32)
    >>> [(str(e.end), e.apart, e.reach) for e in find_edges(n, tx * 8 + 7 < n * 3)]
    [('n * 3', 8, 255)]
    >>> [(e.apart, e.turn) for e in find_edges(n, tx * 64 + 62 < n)]  # of 63 elements of a tile all are inside
    [(64, 63)]
    >>> list(find_edges(n, tx < n))  # elements
    []
    """
    for part in conjuncts(condition):
        if not isinstance(part, Formula) or part.symbol != "<":
            continue
        merged: dict[object, int] = {}
        for side, sign in zip(part.args, (-1, 1), strict=True):
            for factor, c in linear(side, sign).items():
                merged[factor] = merged.get(factor, 0) + c
        own: dict[Index, int] = {}
        places: dict[Index, int] = {}
        for f, c in merged.items():
            if c and isinstance(f, Var | Formula):
                (own if v.name in {u.name for u in variables(f)} else places)[f] = c
        if not own or not places or any({u.name for u in variables(f)} - {v.name} for f in own):
            continue
        sign = 1 if sum(c > 0 for c in own.values()) else -1
        apart = gcd(*(c * multiple(f) for f, c in places.items()))
        if apart > 1:
            inside = total((abs(c), f) for f, c in places.items() if not {u.name for u in variables(f)} & _AXES)
            offset = merged.get(1, 0)
            turn = offset if sign < 0 else 1 - offset
            yield Edge(total((sign * c, f) for f, c in own.items()), apart, highest((inside, 1)) + abs(offset), turn)
