"""Which CTAs do the same as others, so that one of them is enough to run.

What a CTA does is each expression of the plan and of the spec, for every trip that it makes. Expressions that name its
axes are computed for all CTAs at once, and compared by their values; a place in a global array as far as it is from the
spec's, since what goes along with the spec is right everywhere if it is so once. All others are the same in every CTA.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Index, Var, bound, evaluate, mod, substitute, variables
from tilegen.interpret import corners
from tilegen.interpret.threads import Cta, whole_clusters
from tilegen.plan import Plan
from tilegen.proofs.along import AXES, Apart, stays_within, take_apart
from tilegen.proofs.ctas import exchanges
from tilegen.proofs.looking import Ints, crowd_of, numbers_of
from tilegen.proofs.questions import ALIGNED, NEVER, Question, meant_places, places_beside
from tilegen.proofs.residues import MOST_OUTCOMES, number_rows
from tilegen.proofs.rewriting import find_rewriting
from tilegen.scopes import CTA_AXES
from tilegen.spec.data import Spec


def drop_alike(
    spec: Spec, plan: Plan, asked: Sequence[Question], runs: Sequence[tuple[Mapping[str, int], Sequence[Cta]]],
    grid: Cta, usual: int, firm: int,
) -> list[list[Cta]]:  # fmt: skip
    """Of the CTAs that would run with each case of the parameters, those that show what no other does.

    Two do the same where every condition, count and place in shared memory is the same function of threads and trips,
    places in global memory are as far from the spec's, and no element of it is touched twice, or all in the same way.
    Of those that do the same one is left; but the first case keeps both ends of each axis of its ``grid``, and of the
    ``usual`` cases, which come first, each keeps a CTA. Cases behind the first ``firm`` may not run in the end, and
    speak for no other. CTAs of a cluster do the same where the whole clusters do. Where CTAs read what others may
    write, all are left.
    """
    if exchanges(spec, plan):
        return [list(ctas) for _, ctas in runs]
    seen: set[object] = set()
    left = []
    meant = meant_places(asked)
    params = {*runs[0][0]}
    parts = [[_take_apart(q, place, params) for place in (*places_beside(q, meant), None)] for q in asked]
    ends = {(d, x) for cta in corners(grid) for d, x in enumerate(cta)}
    firsts = {array: places[0] for array, places in meant.items()}
    for number, (case, ctas) in enumerate(runs):
        together = whole_clusters(ctas, plan.cluster)
        answers = _compare(parts, firsts, [numbers_of(cta, plan.cluster, case) for cta in together])
        twice = find_rewriting(spec, plan, case)
        own = {cta: (found, *(x.name(cta) for x in twice)) for cta, found in zip(together, answers, strict=True)}
        does = {cta: (_rank(cta, plan), *(own[c] for c in whole_clusters([cta], plan.cluster))) for cta in ctas}
        new = {cta: {name} - seen for cta, name in does.items()}
        axes = {cta: ends & {*enumerate(cta)} if number == 0 else set() for cta in ctas}
        left.append(_cover({cta: new[cta] | axes[cta] for cta in ctas}) or list(ctas)[-1:] * (number < usual))
        seen |= set(does.values()) if number < firm else set()
    return left


def _cover(shows: Mapping[Cta, set[Any]]) -> list[Cta]:
    """A few that show together all that is shown; of those that show as much the last."""
    wanted = set().union(*shows.values())
    kept: set[Cta] = set()
    while wanted:
        best = max(reversed(list(shows)), key=lambda cta: len(shows[cta] & wanted))
        kept.add(best)
        wanted -= shows[best]
    return [cta for cta in shows if cta in kept]


def _rank(cta: Cta, plan: Plan) -> tuple[int, ...]:
    return tuple(x % n for x, n in zip(cta, plan.cluster, strict=True))


# ---------------------------------------------------------------- what a CTA does
@dataclass(frozen=True)
class _Parts:
    """A question, taken apart; ``differing`` and ``guards`` name axes, and what is the ``same`` in all CTAs names none.

    ``differing``: None where the question cannot be taken apart.
    """

    question: Question
    differing: tuple[Index, ...] | None
    same: tuple[Index, ...] = ()
    guards: tuple[Index, ...] = ()
    apart: Apart | None = None  # of a place in an array


def _take_apart(q: Question, meant: Question | None, params: set[str]) -> _Parts:
    """``meant``: a place that the spec names in the array that the question is about; None for none."""
    guards, others = _split(q.guards)
    if q.is_named:  # who names it asks
        return _Parts(q, (), others, guards)
    if not q.moves:
        differing, same = _split([q.x])
        return _Parts(q, differing, (*same, *others), guards)
    apart = take_apart(q, meant, params) if meant is not None else None
    if apart is None:
        return _Parts(q, None)
    differing, same = _split([apart.differing, mod(apart.own, ALIGNED)])
    return _Parts(q, differing, (*same, apart.rest, *others), guards, apart)


def _split(parts: Iterable[Index]) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
    """Those that name an axis of CTAs, and those that do not."""
    found: tuple[list[Index], list[Index]] = [], []
    for x in parts:
        found[AXES.isdisjoint(v.name for v in variables(x))].append(x)
    return tuple(found[0]), tuple(found[1])


def _compare(
    parts: Sequence[Sequence[_Parts]], meant: Mapping[str, Question], ctas: Sequence[Mapping[str, int]]
) -> list[tuple[object, ...]]:  # fmt: skip
    """What each CTA does: the same for those that do the same, whatever the parameters are."""
    if not ctas:
        return []
    crowd = crowd_of(ctas)
    told = [_tell_first(options, crowd.case, crowd.axes) for options in parts]
    by_form = {options[0].question.array for options, found in zip(parts, told, strict=True) if found is None} - {""}
    columns: list[Sequence[object]] = []
    for (own, *_), found in zip(parts, told, strict=True):
        if found is None or own.question.array in by_form:
            found = _answer_by_form(own.question, meant.get(own.question.array), ctas)
        columns.append(found)
    return [tuple(column[k] for column in columns) for k in range(len(ctas))]


def _tell_first(
    options: Sequence[_Parts], case: Mapping[str, int], axes: Mapping[str, Ints]
) -> Sequence[object] | None:  # fmt: skip
    """The answer beside the first of the spec's places that a question goes along with; None where there is none."""
    for k, parts in enumerate(options):
        if (found := _tell(parts, case, axes)) is not None:
            return [(k, answer) for answer in found]
    return None


def _answer_by_form(q: Question, meant: Question | None, ctas: Sequence[Mapping[str, int]]) -> list[object]:
    """The answer to a question in each CTA, as an expression: how it goes on from trip to trip is part of it."""
    names = {*q.names, *(meant.names if meant else ())}
    keys = [tuple(numbers.get(name) for name in sorted(names)) for numbers in ctas]
    firsts = dict(zip(keys, ctas, strict=True))
    answers = {key: q.answer(numbers, meant) for key, numbers in firsts.items()}
    return [answers[key] for key in keys]


def _tell(parts: _Parts, case: Mapping[str, int], axes: Mapping[str, Ints]) -> Sequence[object] | None:
    """The answer to a question in each of the CTAs; None for too much to compute, and for a place in an array that does
    not go along with the spec's.
    """
    if parts.differing is None or (parts.apart is not None and not stays_within(parts.apart, case)):
        return None
    many = len(axes[CTA_AXES[0]])
    counts = [(trip, substitute(count, case)) for trip, count in parts.question.loops]
    unequal, equal = _split(n for _, n in counts)
    same = tuple(substitute(x, case) for x in (*parts.same, *equal))
    if not (parts.differing or parts.guards or unequal):
        return [same] * many
    trips, others = _extents(parts, counts, case)
    extents = trips | others
    shape = (many, *extents.values())
    if prod(shape) * max(1, len(parts.differing)) > MOST_OUTCOMES:
        return None
    dims = len(shape)
    values: dict[str, Any] = {**case, **{name: x.reshape(many, *[1] * (dims - 1)) for name, x in axes.items()}}
    values |= {name: np.arange(n).reshape([-1 if d == k else 1 for d in range(dims)])
               for k, (name, n) in enumerate(extents.items(), 1)}  # fmt: skip
    with np.errstate(divide="ignore", invalid="ignore"):  # where a loop does not get
        is_made = np.ones(shape, bool)
        for trip, count in counts:
            if trip.name in trips:
                is_made &= values[trip.name] < evaluate(count, values)
        is_asked = is_made.copy()
        for guard in parts.guards:
            is_asked &= np.asarray(evaluate(guard, values), bool)
        outcomes = [np.where(is_asked, evaluate(x, values), NEVER) for x in parts.differing] or [is_asked]
    found = np.stack(outcomes, axis=-1).astype(np.int64)
    if parts.apart is not None and parts.apart.differing in parts.differing and (found[..., 0][is_asked] != 0).any():
        return None
    return [(same, *own) for own in _name_rows(found, is_made, len(trips))]


def _extents(
    parts: _Parts, counts: Sequence[tuple[Var, Index]], case: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:  # fmt: skip
    """How many values each variable has that answers depend on beside axes and parameters: trips, and all others."""
    assert parts.differing is not None
    named = [v for x in (*parts.differing, *parts.guards) for v in variables(x)]
    trips: dict[str, int] = {}
    for trip, count in reversed(counts):
        if trip.name in {v.name for v in named} or _split([count])[0]:
            trips = {trip.name: max(1, bound(count) - 1), **trips}
            named += variables(count)
    others = {v.name: v.bound for v in named if v.name not in AXES | case.keys() | trips.keys()}
    return trips, others


def _name_rows(found: NDArray[np.int64], is_made: NDArray[np.bool_], loops: int) -> list[tuple[object, ...]]:
    """A name for what each CTA's answers are in the trips that it makes: the same for the same, however many trips
    others make.
    """
    many = len(found)
    numbers = number_rows(np.concatenate([found.reshape(many, -1), is_made.reshape(many, -1)], axis=1))
    names: dict[int, tuple[object, ...]] = {}
    for k, number in enumerate(numbers.tolist()):
        if number not in names:
            made = [is_made[k].any(axis=tuple({*range(is_made.ndim - 1)} - {loop})) for loop in range(loops)]
            own = found[k][tuple(slice(int(np.flatnonzero(x)[-1]) + 1 if x.any() else 0) for x in made)]
            names[number] = own.shape, hashlib.sha256(own.tobytes()).digest()
    return [names[number] for number in numbers.tolist()]
