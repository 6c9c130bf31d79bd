"""Which CTAs a proof runs: the corners of the grid, one for each outcome of every condition on a block axis, and one
for each residue of a block axis after which addresses and conditions repeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Formula, Index, Var, bound, evaluate, mod, replace_part, sub, substitute, variables
from tilegen.index.courses import Course, course, join_courses, pick_values
from tilegen.interpret import corners
from tilegen.interpret.threads import Cta
from tilegen.kept import keep
from tilegen.plan import Plan, begin, plain_name, walk
from tilegen.proofs.questions import ALIGNED, Question, decisions_of, meant_places, part_naming
from tilegen.scopes import CLUSTER_AXES, CTA_AXES
from tilegen.spec.data import Spec
from tilegen.spec.outline import outline

_MOST_RESIDUES = 64  # CTAs that are taken for residues
MOST_LOOKED_AT = 1 << 12  # CTAs that are compared with one another where more than that may differ
_MOST_CTAS = 1 << 22  # that are looked at for an outcome
_MOST_OUTCOMES = 1 << 22  # of an expression that are looked at, along an axis and its loops
_SOON = 8  # CTAs after which an expression has repeated: others are looked at one by one
_NEVER = -1 << 62  # an outcome of what is never asked


def choose_ctas(
    spec: Spec, asked: Sequence[Question], grid: Cta, case: Mapping[str, int], most: int = _MOST_RESIDUES
) -> list[Cta]:  # fmt: skip
    """First, second, second last and last CTA of each dimension, and of each outcome of a condition the first and last.

    Then one for each residue of the block axes, where places in memory depend on more than a step along an axis.
    ``asked``: what ``list_questions`` found. ``most``: so many are taken for residues.
    """
    chosen = list(dict.fromkeys([*corners(grid), *_residues(find_periods(asked, grid, case), grid, most)]))
    conditions = [c for c in _list_decisions(spec) if _is_of_ctas(c, case)]
    for condition in conditions:
        axes = _telling_ctas(substitute(condition, case), grid)
        everywhere = dict(zip(CTA_AXES, axes, strict=True))
        outcome = np.broadcast_to(np.asarray(evaluate(condition, {**case, **everywhere})), axes[0].shape)
        first, last = _find_ends(outcome.astype(np.int64))
        extremes = {0, len(first) - 1}  # of a loop's bound: the least and the greatest
        found = [int(ends[k]) for k in extremes for ends in (first, last)]
        chosen += [(int(axes[0][i]), int(axes[1][i]), int(axes[2][i])) for i in found]
    return list(dict.fromkeys(chosen))


def _find_ends(outcomes: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where each outcome occurs first and last: a condition that is off by one is wrong at one of them.

    Outcomes that are numbers are in order.
    """
    if outcomes.ndim > 1:  # rows are told apart by their bytes
        if (outcomes == outcomes[0]).all():
            return np.zeros(1, np.intp), np.full(1, len(outcomes) - 1, np.intp)
        rows = np.ascontiguousarray(outcomes)
        outcomes = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
    _, first, which = np.unique(outcomes, return_index=True, return_inverse=True)
    last = np.zeros(len(first), np.intp)
    last[which] = np.arange(len(outcomes))
    return first, last


@keep
def _list_decisions(spec: Spec) -> tuple[Index, ...]:
    """All that decides whether and how often statements run, each once."""
    return tuple(dict.fromkeys(x for p in outline(spec).placed for x in decisions_of(spec, p)))


# ---------------------------------------------------------------- CTAs that do the same
def drop_alike(
    plan: Plan, asked: Sequence[Question], runs: Sequence[tuple[Mapping[str, int], Sequence[Cta]]], grid: Cta,
    usual: int = 1,
) -> list[list[Cta]]:  # fmt: skip
    """Of the CTAs that would run with each case of the parameters, those that show what no other does.

    Two do the same where every condition, count and place in shared memory is the same function of threads and trips,
    and places in global memory go along with the spec's. Of those that do the same one is left; but the first case
    keeps both ends of each axis of its ``grid``, and of the ``usual`` cases, which come first, each keeps a CTA. Where
    CTAs read what CTAs write, all are left.
    """
    if exchanges(plan):
        return [list(ctas) for _, ctas in runs]
    seen: set[object] = set()
    answers: dict[object, object] = {}
    left = []
    meant = meant_places(asked)
    pairs = [(q, meant.get(q.array)) for q in asked]
    ends = {(d, x) for cta in corners(grid) for d, x in enumerate(cta)}
    for number, (case, ctas) in enumerate(runs):
        moved = [q.moving(case, place) for q, place in pairs]
        does = {cta: _behaviour(pairs, moved, {**case, **_axes_of(cta, plan)}, answers) for cta in ctas}
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


def exchanges(plan: Plan) -> bool:
    """Do CTAs read an array that CTAs write?"""
    return any(m.space == "global" and _is_exchanged(plan, m.name) for m in plan.memories)


def _is_exchanged(plan: Plan, name: str) -> bool:
    """Does the plan read and write an array?"""
    found = [t for role in plan.roles for v in walk(role.steps, begin(role.threads)) for t in v.effects.touches
             if v.position.flat(t.ref)[0].name == name]  # fmt: skip
    return any(t.reads for t in found) and any(t.writes for t in found)


def _axes_of(cta: Cta, plan: Plan) -> dict[str, int]:
    own = dict(zip(CTA_AXES, cta, strict=True))
    return own | {c: own[b] % n for c, b, n in zip(CLUSTER_AXES, CTA_AXES, plan.cluster, strict=True)}


def _behaviour(
    asked: Sequence[tuple[Question, Question | None]], moved: Sequence[Mapping[str, int]], numbers: Mapping[str, int],
    answers: dict[object, object],
) -> object:  # fmt: skip
    """What a CTA does, to compare with others: each expression with its numbers, over the trips that its loops make.

    ``moved``: the axes, as 0, along which an expression only moves on.
    """
    found = []
    for n, ((question, meant), still) in enumerate(zip(asked, moved, strict=True)):
        own = {**numbers, **still}
        names = {*question.names, *(meant.names if meant else ())}
        key = n, tuple(own[name] for name in sorted(names) if name in own)
        if key not in answers:
            answers[key] = question.answer(own, meant)
        found.append(answers[key])
    return tuple(found)


@dataclass(frozen=True)
class Residues:
    """After how many CTAs along an axis all has repeated, None where no rule is known; ``twice``: near either end.

    ``shown``: CTAs that show, of what follows no rule, everything that any CTA does.
    """

    period: int | None
    twice: bool = False
    shown: tuple[int, ...] = ()


def find_periods(asked: Sequence[Question], grid: Cta, case: Mapping[str, int]) -> tuple[Residues, ...]:
    """Of each block axis, after how many CTAs everything that names it has repeated.

    Both count, what the plan does and what the spec says: one may have forgotten what the other depends on. Where one
    min or max turns from one side to the other along an axis, all repeats on either side.
    """
    extents = {axis: Var(axis, n) if n > 1 else 0 for axis, n in zip(CTA_AXES, grid, strict=True)}
    numbers = {**case, **extents}
    meant = meant_places(asked)
    return tuple(
        _find_residues(asked, meant, v, numbers) if isinstance(v, Var) else Residues(1) for v in extents.values()
    )


def _find_residues(
    asked: Sequence[Question], meant: Mapping[str, Question], v: Var, numbers: Mapping[str, Index]
) -> Residues:  # fmt: skip
    """After how many CTAs along ``v`` all has repeated, or which show what repeats late.

    ``meant``: a place of each array as the spec has it. Where one place in an array repeats late, all are looked at.
    """
    courses = {q: _courses(x, v) for q in asked if v in variables(x := substitute(q.x, numbers))}
    late = {
        q for q, (own, _) in courses.items()
        if any(c is None or c.period > _SOON or (q.array and c.turns) for c in own)
    }  # fmt: skip
    arrays = {q.array for q in late if q.array}
    telling = {q: _tell_apart(q, meant.get(q.array), v, numbers) for q in asked if q in late or q.array in arrays}
    unseen = {q.array for q, values in telling.items() if q.array and values is None}
    told = {q: values for q, values in telling.items() if values is not None and q.array not in unseen}
    left = [found for q, found in courses.items() if q not in told]
    turns = {turn for _, own in left for turn in own}
    joined = join_courses(c for own, _ in left for c in own) if len(turns) < 2 else None
    return Residues(joined.period if joined else None, bool(turns), tuple(sorted(set().union(*told.values()))))


def _tell_apart(q: Question, meant: Question | None, v: Var, numbers: Mapping[str, Index]) -> set[int] | None:
    """Values of ``v`` that show everything that an expression does along it, by looking at all; None: too much to see.

    A place in an array is seen from where the spec is in it, and with its alignment: what goes along with the spec is
    right everywhere if it is so once.
    """
    if q.is_named:
        return set()
    if q.moves and meant is None:
        return None
    loops = [(trip, substitute(count, numbers)) for trip, count in q.loops]
    guards = [substitute(g, numbers) for g in q.guards]
    x = substitute(q.x, numbers)
    x = part_naming(x, {v.name}) if q.moves else x
    seen = [x]
    if q.moves and meant is not None:
        trips = {plain_name(trip.name): trip for trip, _ in q.loops}
        seen = [sub(x, part_naming(substitute(meant.x, {**numbers, **trips}), {v.name})), mod(x, ALIGNED)]
    named = [w for y in (*seen, *(count for _, count in loops), *guards) for w in variables(y) if w.name != v.name]
    most = {trip.name: max(1, bound(count) - 1) for trip, count in loops}  # a loop may make more at other sizes
    extents = {w.name: max(u.bound for u in named if u.name == w.name) for w in named}
    extents |= {name: min(extents[name], most[name]) for name in extents.keys() & most.keys()}
    if v.bound * prod(extents.values()) * len(seen) > _MOST_OUTCOMES:
        return None
    shape = (v.bound, *extents.values())
    axes = dict(zip((v.name, *extents), np.indices(shape, np.int64, sparse=True), strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):  # where a loop does not get
        is_asked = np.ones(shape, bool)
        for guard in guards:
            is_asked &= np.asarray(evaluate(guard, axes), bool)
        for trip, count in loops:
            if trip.name in axes:
                is_asked &= axes[trip.name] < evaluate(count, axes)
        outcomes = [np.where(is_asked, evaluate(y, axes), _NEVER).reshape(v.bound, -1) for y in seen]
    first, last = _find_ends(np.concatenate(outcomes, axis=1))
    return {int(k) for k in (*first, *last)} if len(first) <= _MOST_RESIDUES else None


def _courses(x: Index, v: Var) -> tuple[list[Course | None], set[Index]]:
    """How an expression goes on along ``v``: on either side of the min or max, if that is why no rule is known."""
    own = course(x, v)
    turns = [] if own else [s for s in _extremes(x) if v in variables(s) and course(s, v) is None]
    if len(turns) != 1:
        return [own], set()
    (turn,) = turns
    return [course(replace_part(x, turn, side), v) for side in turn.args], {turn}


def _extremes(x: Index) -> list[Formula]:
    """Each min and max in an expression, once."""
    if not isinstance(x, Formula):
        return []
    inner = dict.fromkeys(e for a in x.args for e in _extremes(a))
    return [*inner, *([x] if x.symbol in ("min", "max") else [])]


def shows_all(asked: Sequence[Question], grid: Cta, case: Mapping[str, int], most: int = _MOST_RESIDUES) -> bool:
    """Does ``choose_ctas`` take so few CTAs that all which differ are among them?"""
    periods = find_periods(asked, grid, case)
    are_known = all(p.period is not None and min(p.period, n) <= most for p, n in zip(periods, grid, strict=True))
    return prod(grid) <= most or (
        are_known and prod(len(_spread(p, n, most)) for p, n in zip(periods, grid, strict=True)) <= most
    )


def _residues(periods: Sequence[Residues], grid: Cta, most: int) -> list[Cta]:
    """A CTA for each combination of residues; where those are too many, for those of each axis by itself."""
    if prod(grid) <= most and any(p.period is None for p in periods):
        return [(x, y, z) for z, y, x in product(*map(range, grid[::-1]))]
    values = [_spread(p, n, most) for p, n in zip(periods, grid, strict=True)]
    if prod(map(len, values)) <= most:
        return [(x, y, z) for z, y, x in product(*values[::-1])]
    return [(*(0,) * d, x, *(0,) * (2 - d)) for d in range(3) for x in values[d]]  # type: ignore[misc]


def _spread(found: Residues, extent: int, most: int) -> list[int]:
    """The residues of an axis, or as many values all over it as are affordable."""
    period = found.period
    if period is not None and min(period, extent) <= most:
        last = range(max(0, extent - period), extent) if found.twice else ()
        return sorted({*range(min(period, extent)), *last, *found.shown})
    return sorted({k * (extent - 1) // (_MOST_RESIDUES - 1) for k in range(_MOST_RESIDUES)})


def _telling_ctas(condition: Index, grid: Cta) -> list[NDArray[np.int64]]:
    """CTAs, by their axes, among which each outcome of a condition occurs that occurs in the grid."""
    picked = []
    for name, n in zip(CTA_AXES, grid, strict=True):
        found = course(condition, Var(name, n))
        picked.append(np.arange(n) if found is None else pick_values(n, found)[0])
    shape = tuple(map(len, picked))
    split = np.unravel_index(np.arange(min(_MOST_CTAS, int(np.prod(shape, dtype=np.int64)))), shape)
    return [values[at] for values, at in zip(picked, split, strict=True)]


def _is_of_ctas(condition: Index, case: Mapping[str, int]) -> bool:
    """Does it name a block axis, and nothing but block axes and parameters?"""
    names = {v.name for v in variables(condition)}
    return bool(names & set(CTA_AXES)) and names <= set(CTA_AXES) | set(case)
