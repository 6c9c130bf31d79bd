"""After how many CTAs along a block axis all that a run depends on has repeated, and which CTAs show what does not.

An expression repeats as long as its comparisons have the outcomes that they had. So these are looked at, trip by trip:
CTAs do the same where all comparisons go through the same outcomes and the rest is alike modulo the period. A stretch
of trips with one outcome that is as long as a proof runs of a loop goes on as it is, however long it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Index, Var, bound, evaluate, less, mod, replace_part, substitute, variables
from tilegen.index.courses import Course, Trips, course, join_courses, pick_values
from tilegen.interpret.threads import Cta
from tilegen.plan import plain_name
from tilegen.proofs.along import AXES, stays_within, take_apart
from tilegen.proofs.questions import (
    ALIGNED,
    COMPARING,
    NEVER,
    Loops,
    Question,
    meant_places,
    part_naming,
    parts_with,
    places_beside,
)
from tilegen.proofs.rewriting import Rewriting
from tilegen.scopes import CTA_AXES

MOST_RESIDUES = 64  # CTAs along an axis that are taken for what they show
_SOON = 8  # CTAs after which an expression has repeated: others are looked at one by one
MOST_OUTCOMES = 1 << 22  # of an expression that are looked at, along an axis and its loops
_MOST_STRETCHES = 1 << 16  # lists of trips that are compared with one another

Numbered = NDArray[np.intp]  # of each value of an axis a number for what goes on there: the same for the same


@dataclass(frozen=True)
class Residues:
    """After how many CTAs along an axis all has repeated, None where no rule is known; ``twice``: near either end.

    ``shown``: CTAs that show, beside those of a period, everything that any CTA does.
    """

    period: int | None
    twice: bool = False
    shown: tuple[int, ...] = ()


def find_periods(
    asked: Sequence[Question], grid: Cta, case: Mapping[str, int], trips: Trips, twice: Sequence[Rewriting]
) -> tuple[Residues, ...]:  # fmt: skip
    """Of each block axis, after how many CTAs everything that names it has repeated.

    Both count, what the plan does and what the spec says: one may have forgotten what the other depends on. Where one
    min or max turns from one side to the other along an axis, all repeats on either side. ``trips``: how loops go on.
    ``twice``: how CTAs touch elements more than once.
    """
    extents = {axis: Var(axis, n) if n > 1 else 0 for axis, n in zip(CTA_AXES, grid, strict=True)}
    numbers = {**case, **extents}
    meant = meant_places(asked)
    return tuple(
        _find_residues(asked, meant, v, numbers, trips, [x.number(axis, v.bound) for x in twice])
        if isinstance(v, Var) else Residues(1)
        for axis, v in enumerate(extents.values())
    )  # fmt: skip


def _find_residues(
    asked: Sequence[Question], meant: Mapping[str, Sequence[Question]], v: Var, numbers: Mapping[str, Index],
    trips: Trips, twice: Sequence[Numbered | None],
) -> Residues:  # fmt: skip
    """After how many CTAs along ``v`` all has repeated, and which show what does not.

    ``meant``: places of each array that the spec names; ``twice``: a number for how elements are touched twice.
    Where one place in an array repeats late, all are looked at.
    """
    courses = {q: _courses(x, v) for q in asked if v in variables(x := substitute(q.x, numbers))}
    late = {
        q for q, (own, _) in courses.items()
        if any(c is None or c.period > _SOON or (q.array and c.turns) for c in own)
    }  # fmt: skip
    arrays = {q.array for q in late if q.array}
    telling = {q: _tell_apart(q, places_beside(q, meant), v, numbers) for q in asked if q in late or q.array in arrays}
    unseen = {q.array for q, found in telling.items() if q.array and found is None}
    told = {q: found for q, found in telling.items() if found is not None and q.array not in unseen}
    left = {q: found for q, found in courses.items() if q not in told}
    turning = [q for q, (own, sides) in left.items() if sides or any(c is not None and c.turns for c in own)]
    followed = {q: _follow(q, v, numbers, trips) for q in turning}
    ending = [_follow(q, v, numbers, trips) for q in asked if q not in courses and _list_compared(q, v, numbers)]
    ending += [_follow_length(loops, v, numbers, trips) for loops in dict.fromkeys(_ending_loops(asked, v, numbers))]
    if any(found is None for found in (*ending, *twice)):
        return Residues(None)
    rest = [left[q] for q in turning if followed[q] is None]
    sides = {turn for _, own in rest for turn in own}
    joined, turns = (join_courses(c for own, _ in some for c in own) for some in (left.values(), rest))
    if joined is None or turns is None or len(sides) > 1 or _width(turns, v) > MOST_RESIDUES:
        return Residues(None)
    shown = {*pick_values(v.bound, replace(turns, period=joined.period))[0].tolist()} if turns.turns else set()
    columns = [
        found for found in (*told.values(), *followed.values(), *ending, *twice) if found is not None and len(found)
    ]
    if columns:
        residues = np.arange(v.bound) % joined.period
        first, last = find_ends(np.stack([residues, *columns], axis=1))
        if len(first) > MOST_RESIDUES:
            return Residues(None)
        shown |= {int(k) for k in (*first, *last)}
    return Residues(joined.period, bool(sides), tuple(sorted(shown)))


def _width(turns: Course, v: Var) -> int:
    """How many values of ``v`` lie within turns."""
    return sum(min(stop, v.bound) - min(first, v.bound) for first, stop in turns.turns)


def _courses(x: Index, v: Var) -> tuple[list[Course | None], set[Index]]:
    """How an expression goes on along ``v``: on either side of the min or max, if that is why no rule is known."""
    own = course(x, v)
    turns = [] if own else [s for s in parts_with(x, ("min", "max")) if v in variables(s) and course(s, v) is None]
    if len(turns) != 1:
        return [own], set()
    (turn,) = turns
    return [course(replace_part(x, turn, side), v) for side in turn.args], {turn}


# ---------------------------------------------------------------- what is looked at
@dataclass(frozen=True)
class LookedAt:
    """What expressions are for every value of an axis: (values, trips of each loop, all else), NEVER where unasked.

    ``loops``: the names of the loops' variables; ``is_made``: whether a trip is made, (values, trips of each loop).
    """

    outcomes: NDArray[np.int64]
    loops: tuple[str, ...]
    is_made: NDArray[np.bool_]


def look_at(
    q: Question, seen: Sequence[Index], v: Var, numbers: Mapping[str, Index], most: int = MOST_OUTCOMES
) -> LookedAt | None:  # fmt: skip
    """Expressions where a question is asked, for each value of ``v`` and of all other variables; None: more than
    ``most`` values to see.
    """
    loops = [(trip, substitute(count, numbers)) for trip, count in q.loops]
    guards = [substitute(g, numbers) for g in q.guards]
    named = [w for y in (*seen, *(count for _, count in loops), *guards) for w in variables(y) if w.name != v.name]
    trips = {trip.name: max(1, bound(count) - 1) for trip, count in loops}  # a loop may make more at other sizes
    extents = {w.name: max(u.bound for u in named if u.name == w.name) for w in named}
    extents |= {name: min(extents[name], trips[name]) for name in extents.keys() & trips.keys()}
    around = [trip.name for trip, _ in loops if trip.name in extents]
    extents = {name: extents[name] for name in dict.fromkeys((*around, *extents))}
    if v.bound * prod(extents.values()) * len(seen) > most:
        return None
    shape = (v.bound, *extents.values())
    axes = dict(zip((v.name, *extents), np.indices(shape, np.int64, sparse=True), strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):  # where a loop does not get
        is_made = np.ones(shape, bool)
        for trip, count in loops:
            if trip.name in axes:
                is_made &= axes[trip.name] < evaluate(count, axes)
        is_asked = is_made.copy()
        for guard in guards:
            is_asked &= np.asarray(evaluate(guard, axes), bool)
        outcomes = [np.where(is_asked, evaluate(y, axes), NEVER) for y in seen]
    by_trip = shape[: 1 + len(around)]
    found = np.stack(outcomes, axis=-1).astype(np.int64).reshape(*by_trip, -1)
    return LookedAt(found, tuple(around), np.asarray(is_made.reshape(*by_trip, -1).any(axis=-1)))


def _tell_apart(q: Question, meant: Sequence[Question], v: Var, numbers: Mapping[str, Index]) -> Numbered | None:
    """What an expression is for each value of ``v``, by looking at all; None: too much to see.

    Of a place in an array it is seen whether it goes along with one that the spec names, and how it is aligned: what
    goes along with the spec is right everywhere if it is so once. None for one that does not.
    """
    if q.is_named:
        return np.zeros(v.bound, np.intp)
    if not q.moves:
        return _number_few(look_at(q, [substitute(q.x, numbers)], v, numbers), v)
    case = {name: n for name, n in numbers.items() if isinstance(n, int)}
    for place in meant:
        apart = take_apart(q, place, numbers.keys() - AXES)
        if apart is not None and stays_within(apart, case):
            own = part_naming(substitute(apart.own, numbers), {v.name})
            found = look_at(q, [substitute(apart.differing, numbers), mod(own, ALIGNED)], v, numbers)
            if found is not None and np.isin(found.outcomes.reshape(-1, 2)[:, 0], (0, NEVER)).all():
                return _number_few(found, v)
    return None


def _number_few(found: LookedAt | None, v: Var) -> Numbered | None:
    """A number for what each value of ``v`` shows; None where it was not looked at, or where too many differ."""
    if found is None:
        return None
    numbered = number_rows(found.outcomes.reshape(v.bound, -1))
    return numbered if numbered.max() < MOST_RESIDUES else None


def find_ends(outcomes: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where each outcome, or row of outcomes, occurs first and last: a condition that is off by one is wrong at one of
    them.

    Outcomes that are numbers are in order.
    """
    numbered = outcomes if outcomes.ndim == 1 else number_rows(outcomes)
    _, first, which = np.unique(numbered, return_index=True, return_inverse=True)
    last = np.zeros(len(first), np.intp)
    last[which] = np.arange(len(outcomes))
    return first, last


def number_rows(rows: NDArray[Any]) -> Numbered:
    """A number for each row, the same for the same ones: they are told apart by their bytes."""
    if (rows == rows[0]).all():
        return np.zeros(len(rows), np.intp)
    rows = np.ascontiguousarray(rows)
    found = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
    return np.unique(found, return_inverse=True)[1].reshape(-1)


# ---------------------------------------------------------------- comparisons
def _follow(q: Question, v: Var, numbers: Mapping[str, Index], trips: Trips) -> Numbered | None:
    """For each value of ``v`` what an expression's comparisons go through; None: too much to see."""
    seen = look_at(q, _list_compared(q, v, numbers), v, numbers)
    if seen is None or prod(seen.is_made.shape[:-1]) > _MOST_STRETCHES:
        return None
    by_trip = seen.is_made.shape
    ids = number_rows(seen.outcomes.reshape(prod(by_trip), -1)).reshape(by_trip)
    steady = [_steady(trips, plain_name(name)) for name in seen.loops]
    patterns = [_pattern(own, made, steady) for own, made in zip(ids, seen.is_made, strict=True)]
    known = {pattern: n for n, pattern in enumerate(dict.fromkeys(patterns))}
    return np.array([known[pattern] for pattern in patterns], np.intp)


def _list_compared(q: Question, v: Var, numbers: Mapping[str, Index]) -> list[Index]:
    """The comparisons in an expression, of sides of a min or max too, that depend on ``v``, or on a trip of a loop that
    makes as many as ``v`` says.
    """
    x = substitute(q.x, numbers)
    named = {v.name, *(trip.name for trip, count in q.loops if v in variables(substitute(count, numbers)))}
    found: list[Index] = [*parts_with(x, COMPARING)]
    found += [less(a, b) for side in parts_with(x, ("min", "max")) for a, b in combinations(side.args, 2)]
    return [c for c in found if named & {u.name for u in variables(c)}]


def _ending_loops(asked: Sequence[Question], v: Var, numbers: Mapping[str, Index]) -> Iterator[Loops]:
    """Each loop that makes as many trips as ``v`` says, behind those around it."""
    for q in asked:
        for k, (_, count) in enumerate(q.loops):
            if v in variables(substitute(count, numbers)):
                yield q.loops[: k + 1]


def _follow_length(loops: Loops, v: Var, numbers: Mapping[str, Index], trips: Trips) -> Numbered | None:
    """For each value of ``v`` how many trips the innermost of these loops makes, as far as that counts."""
    *around, (trip, count) = loops
    seen = look_at(Question(0, tuple(around)), [substitute(count, numbers)], v, numbers)
    if seen is None:
        return None
    lengths = seen.outcomes.reshape(v.bound, -1)
    return number_rows(_cut(lengths, _steady(trips, plain_name(trip.name))))


def _steady(trips: Trips, name: str) -> tuple[int, int] | None:
    """After how many trips a loop goes on as it is, and by how many it does; None where no rule is known."""
    if name not in trips.loops:
        return None
    common, head = trips.loops[name]
    return head + common.period, common.period


def _cut(lengths: NDArray[np.int64], steady: tuple[int, int] | None) -> NDArray[np.int64]:
    """Numbers of trips in a row, the same for those that a loop which goes on as it is does not tell apart."""
    if steady is None:
        return lengths
    most, period = steady
    return np.where(lengths < most, lengths, most + (lengths - most) % period)


def _pattern(ids: NDArray[np.intp], is_made: NDArray[np.bool_], steady: Sequence[tuple[int, int] | None]) -> object:
    """The outcomes in the order of the trips that are made, and how many in a row, as far as that counts."""
    if not steady:
        return int(ids)
    if len(steady) > 1:
        inner = [_pattern(own, made, steady[1:]) for own, made in zip(ids, is_made, strict=True) if made.any()]
        known = {part: n for n, part in enumerate(dict.fromkeys(inner))}
        return tuple(known), _stretches(np.array([known[part] for part in inner], np.intp), steady[0])
    return _stretches(ids[is_made], steady[0])


def _stretches(ids: NDArray[np.intp], steady: tuple[int, int] | None) -> tuple[tuple[int, int], ...]:
    if not len(ids):
        return ()
    firsts = np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))
    lengths = _cut(np.diff(firsts, append=len(ids)), steady)
    return tuple(zip(ids[firsts].tolist(), lengths.tolist(), strict=True))
