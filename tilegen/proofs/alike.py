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

from tilegen.index import Index, Var, bound, evaluate, mod, sub, substitute, variables
from tilegen.interpret import corners
from tilegen.interpret.threads import Cta
from tilegen.plan import Plan, plain_name
from tilegen.proofs.ctas import exchanges
from tilegen.proofs.looking import Ints, crowd_of
from tilegen.proofs.questions import ALIGNED, NEVER, Question, meant_places, part_naming
from tilegen.proofs.residues import MOST_OUTCOMES, number_rows
from tilegen.proofs.rewriting import find_rewriting
from tilegen.scopes import CLUSTER_AXES, CTA_AXES
from tilegen.spec.data import Spec

_AXES = {*CTA_AXES, *CLUSTER_AXES}


def drop_alike(
    spec: Spec, plan: Plan, asked: Sequence[Question], runs: Sequence[tuple[Mapping[str, int], Sequence[Cta]]],
    grid: Cta, usual: int = 1,
) -> list[list[Cta]]:  # fmt: skip
    """Of the CTAs that would run with each case of the parameters, those that show what no other does.

    Two do the same where every condition, count and place in shared memory is the same function of threads and trips,
    places in global memory are as far from the spec's, and no element of it is touched twice, or all in the same way.
    Of those that do the same one is left; but the first case keeps both ends of each axis of its ``grid``, and of the
    ``usual`` cases, which come first, each keeps a CTA. Where CTAs read what others may write, all are left.
    """
    if exchanges(spec, plan):
        return [list(ctas) for _, ctas in runs]
    seen: set[object] = set()
    left = []
    meant = meant_places(asked)
    parts = [_take_apart(q, meant.get(q.array), {*runs[0][0]}) for q in asked]
    ends = {(d, x) for cta in corners(grid) for d, x in enumerate(cta)}
    for number, (case, ctas) in enumerate(runs):
        answers = _compare(parts, [_numbers_of(cta, plan, case) for cta in ctas])
        twice = find_rewriting(spec, plan, case)
        does = {cta: (own, *(x.name(cta) for x in twice)) for cta, own in zip(ctas, answers, strict=True)}
        new = {cta: {own} - seen for cta, own in does.items()}
        axes = {cta: ends & {*enumerate(cta)} if number == 0 else set() for cta in ctas}
        left.append(_cover({cta: new[cta] | axes[cta] for cta in ctas}) or list(ctas)[-1:] * (number < usual))
        seen |= set(does.values())
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


def _numbers_of(cta: Cta, plan: Plan, case: Mapping[str, int]) -> dict[str, int]:
    own = dict(zip(CTA_AXES, cta, strict=True))
    return {**case, **own, **{c: own[b] % n for c, b, n in zip(CLUSTER_AXES, CTA_AXES, plan.cluster, strict=True)}}


# ---------------------------------------------------------------- what a CTA does
@dataclass(frozen=True)
class _Parts:
    """A question, taken apart; ``differing`` and ``guards`` name axes, and what is the ``same`` in all CTAs names none.

    ``differing``: None where the question cannot be taken apart.
    """

    question: Question
    meant: Question | None
    differing: tuple[Index, ...] | None
    same: tuple[Index, ...] = ()
    guards: tuple[Index, ...] = ()


def _take_apart(q: Question, meant: Question | None, params: set[str]) -> _Parts:
    """``meant``: a place that the spec names in the array that the question is about, if it is about one."""
    guards, others = _split(q.guards)
    if q.is_named:  # who names it asks
        return _Parts(q, meant, (), others, guards)
    if not q.moves:
        differing, same = _split([q.x])
        return _Parts(q, meant, differing, (*same, *others), guards)
    if meant is None:
        return _Parts(q, meant, None)
    trips = {plain_name(trip.name): trip for trip, _ in q.loops}
    inside = {v.name for v in variables(meant.x)} - _AXES - params
    spec = substitute(meant.x, {name: trips.get(name, 0) for name in inside})
    own, of_spec = part_naming(q.x, _AXES), part_naming(spec, _AXES)
    rest, rest_of_spec = sub(q.x, own), sub(spec, of_spec)
    if _split([rest, rest_of_spec])[0]:
        return _Parts(q, meant, None)
    differing, same = _split([sub(own, of_spec), mod(own, ALIGNED)])
    return _Parts(q, meant, differing, (*same, sub(rest, rest_of_spec), mod(rest, ALIGNED), *others), guards)


def _split(parts: Iterable[Index]) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
    """Those that name an axis of CTAs, and those that do not."""
    found: tuple[list[Index], list[Index]] = [], []
    for x in parts:
        found[_AXES.isdisjoint(v.name for v in variables(x))].append(x)
    return tuple(found[0]), tuple(found[1])


def _compare(parts: Sequence[_Parts], ctas: Sequence[Mapping[str, int]]) -> list[tuple[object, ...]]:
    """What each CTA does: the same for those that do the same, whatever the parameters are."""
    if not ctas:
        return []
    crowd = crowd_of(ctas)
    told = [_tell(own, crowd.case, crowd.axes) for own in parts]
    unseen = {own.question.array for own, found in zip(parts, told, strict=True) if found is None} - {""}
    columns: list[Sequence[object]] = []
    for own, found in zip(parts, told, strict=True):
        if found is None or own.question.array in unseen:  # what is compared with the spec's place is so everywhere
            found = _answer_by_form(own, ctas)
        columns.append(found)
    return [*zip(*columns, strict=True)]


def _answer_by_form(parts: _Parts, ctas: Sequence[Mapping[str, int]]) -> list[object]:
    """The answer to a question in each CTA, as an expression."""
    names = {*parts.question.names, *(parts.meant.names if parts.meant else ())}
    keys = [tuple(numbers.get(name) for name in sorted(names)) for numbers in ctas]
    firsts = dict(zip(keys, ctas, strict=True))
    answers = {key: parts.question.answer(numbers, parts.meant) for key, numbers in firsts.items()}
    return [answers[key] for key in keys]


def _tell(parts: _Parts, case: Mapping[str, int], axes: Mapping[str, Ints]) -> Sequence[object] | None:
    """The answer to a question in each of the CTAs; None for too much to compute."""
    if parts.differing is None:
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
    others = {v.name: v.bound for v in named if v.name not in _AXES | case.keys() | trips.keys()}
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
