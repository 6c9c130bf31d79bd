"""Joint outcomes of comparisons over bounded variables, each with a point that shows it.

An outcome changes along a variable where the two sides of a comparison meet, and from residue to residue of what is
divided. So points are enough that lie, one variable after another in every order, beside such a threshold or at an end
of a range, in each class of residues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import lcm

import numpy as np
from numpy.typing import NDArray

from tilegen.index import (
    Formula,
    Index,
    Var,
    evaluate,
    less,
    maximum,
    substitute,
    variables,
)
from tilegen.index.comparisons import (
    COMPARING,
    MOST_CLASSES,
    MOST_PERIOD,
    Slope,
    combine,
    differences,
    divisibility,
    factors_in,
    rule_of,
    small_remainders,
)
from tilegen.index.rows import Ints, distinct_rows, sort_distinct

Points = dict[str, Ints]  # of each variable its value in every point

_NO_VALUES: Mapping[str, int] = {}
_MOST_POINTS = 1 << 18
_MOST_REPEATED = 1 << 21  # some of them more than once
_MOST_CELLS = 1 << 24  # points, times residues


@dataclass(frozen=True)
class Outcomes:
    """``rows``: each joint outcome, a column for each expression; ``shown``: the values of the outer variables with
    which it shows, a row for each, the least first; ``is_tried``: whether one of those tried shows it.

    ``undecided``: what is seen of which no rule says where its outcomes change. ``are_all``: False where points are too
    many, and none was looked at.
    """

    rows: Ints
    shown: tuple[Ints, ...]
    is_tried: NDArray[np.bool_]
    undecided: tuple[Index, ...]
    are_all: bool = True


def find_outcomes(
    seen: Sequence[Index], inner: Sequence[tuple[Var, Index]], outer: Sequence[Var],
    tried: Sequence[Mapping[str, int]] = (), holds: Sequence[Index] = (), usual: Mapping[str, int] = _NO_VALUES,
) -> Outcomes:  # fmt: skip
    """Joint outcomes of what is seen, comparisons and remainders, over all values of the variables.

    ``inner``: variables that count from 0, with their counts; ``outer``: those that tell cases apart, such as sizes,
    and ``tried`` values of these. All other variables are taken at both ends of their ranges. ``holds``: conditions on
    the outer variables that always hold. ``usual``: values of some variables, each looked at beside all of the others'.

    >>> k, n = Var("k", 1024), Var("n", 1025, 1, 1)
    >>> found = find_outcomes([Formula("==", (n, k + 1), 2), Formula("==", (k, 76), 2)], [(k, n)], [n])
    >>> found.shown[found.rows.tolist().index([1, 1])].tolist(), found.undecided
    ([[77]], ())
    """
    names = {v.name for v, _ in inner} | {v.name for v in outer}
    ends = _ends_of([*seen, *(n for _, n in inner)], names)
    inner = [(v, maximum(substitute(n, ends[0]), substitute(n, ends[-1]))) for v, n in inner]
    asked = [substitute(x, at) for at in ends for x in seen] + [less(v, n) for v, n in inner] + [*holds]
    search = _Search.of(asked, [v for v, _ in inner], outer, usual)
    with np.errstate(divide="ignore", invalid="ignore"):
        points = search.find_points({v.name: np.array([case[v.name] for case in tried], np.int64) for v in outer})
    if points is None:
        return Outcomes(np.zeros((0, len(seen)), np.int64), (), np.zeros(0, np.bool_), (), False)
    for v, count in inner:
        points = _keep(points, points[v.name] < np.asarray(evaluate(count, points)))
    for c in holds:
        points = _keep(points, np.asarray(evaluate(c, points), np.bool_))
    many = len(next(iter(points.values())))
    at = {name: np.tile(x, len(ends)) for name, x in points.items()}
    at |= {name: np.repeat([one[name] for one in ends], many) for name in ends[0]}
    with np.errstate(divide="ignore", invalid="ignore"):
        found = [np.broadcast_to(np.asarray(evaluate(x, at), np.int64), (many * len(ends),)) for x in seen]
    rows, which = np.unique(np.stack(found, axis=1), axis=0, return_inverse=True)
    where = np.unique(np.stack([which.reshape(-1), *(at[v.name] for v in outer)], axis=1), axis=0)
    shown = tuple(np.split(where[:, 1:], np.flatnonzero(np.diff(where[:, 0])) + 1)) if len(rows) else ()
    known = {tuple(case[v.name] for v in outer) for case in tried}
    is_tried = [any(tuple(values) in known for values in own.tolist()) for own in shown]
    unknown = {*search.undecided}
    undecided = tuple(x for x in seen if any(not unknown.isdisjoint(differences(substitute(x, one))) for one in ends))
    return Outcomes(rows, shown, np.array(is_tried, bool), undecided)


def _ends_of(seen: Sequence[Index], names: set[str]) -> list[dict[str, int]]:
    """All other variables at the lower and at the upper end of their ranges."""
    others = {v for x in seen for v in variables(x) if v.name not in names}
    low = {v.name: v.least for v in others}
    high = {v.name: (v.bound - 1) // v.step * v.step for v in others}
    return [low, high] if others else [{}]


# ---------------------------------------------------------------- points
@dataclass(frozen=True)
class _Search:
    """``variables``: those of points. ``differences``: what is compared with 0; ``rests``: what repeats.

    ``undecided``: differences of which no rule is known along some variable.
    """

    variables: tuple[Var, ...]
    outer: tuple[str, ...]
    differences: tuple[Index, ...]
    rests: tuple[Index, ...]
    undecided: tuple[Index, ...]
    usual: Mapping[str, int]

    @staticmethod
    def of(
        asked: Sequence[Index], inner: Sequence[Var], outer: Sequence[Var], usual: Mapping[str, int]
    ) -> _Search:  # fmt: skip
        own = (*inner, *outer)

        def is_known(x: Index) -> bool:
            named = {u.name for u in variables(x)}
            return all(rule_of(x, v) is not None for v in own if v.name in named)

        found: dict[Index, None] = dict.fromkeys(d for x in asked for d in differences(x) if not isinstance(d, int))
        known = [x for x in found if is_known(x)]
        names = {v.name for v in own}
        joined = combine(known, names)
        equations: list[Index] = [*asked, *(Formula("==", (x, 0), 2) for x in joined)]
        whole = dict.fromkeys(r for x in equations for r in divisibility(x, names))
        rests: dict[Index, None] = dict.fromkeys(
            x for x in asked if isinstance(x, Formula) and x.symbol not in (*COMPARING, "&&", "||")
        )
        rests |= dict.fromkeys(r for x in known for r in small_remainders(x))
        return _Search(
            own, tuple(v.name for v in outer),
            (*known, *filter(is_known, (*joined, *whole))),
            tuple(x for x in rests if is_known(x)), tuple(x for x in found if x not in known), usual,
        )  # fmt: skip

    def find_points(self, tried: Points) -> Points | None:
        """Values of all variables; None for too many."""
        found: dict[frozenset[str], Points] = {frozenset(): {}}
        for size in range(1, len(self.variables) + 1):
            for some in combinations(self.variables, size):
                names = frozenset(v.name for v in some)
                parts = [self._extend(found[names - {v.name}], v) for v in some]
                if names == frozenset(self.outer):
                    parts.append(tried)
                if any(part is None for part in parts):
                    return None
                found[names] = _merge_points([part for part in parts if part])
                if len(next(iter(found[names].values()))) > _MOST_POINTS:
                    return None
        return self._turn_once_more(found[frozenset(v.name for v in self.variables)])

    def _turn_once_more(self, points: Points) -> Points | None:
        """The points, and what each variable may be beside the others' values in them: in small ranges an equation may
        have none of the values that a variable has alone.
        """
        parts: list[Points | None] = [points]
        for v in self.variables if len(self.variables) > 1 else ():
            others = _merge_points([{name: x for name, x in points.items() if name != v.name}])
            parts.append(self._extend(others, v))
        if any(part is None for part in parts):
            return None
        merged = _merge_points([{name: part[name] for name in points} for part in parts if part is not None])
        return merged if len(next(iter(merged.values()))) <= _MOST_POINTS else None

    def _extend(self, points: Points, v: Var) -> Points | None:
        """Each point with the values of one more variable that lie beside a threshold, in each class of residues."""
        known, many = {*points, v.name}, len(next(iter(points.values()), [0]))
        ends = -(-v.least // v.step), (v.bound - 1) // v.step
        bases = [np.full(many, end) for end in ends]
        if ends[1] - ends[0] < MOST_CLASSES and any(v.name in factors_in(x) for x in self.differences):
            bases = [np.full(many, step) for step in range(ends[0], ends[1] + 1)]
        bases += [np.full(many, self.usual[v.name] // v.step)] if v.name in self.usual else []
        rests: list[tuple[Index, bool]] = []
        for is_difference, own in ((True, self.differences), (False, self.rests)):
            for x in own:
                named = {u.name for u in variables(x)}
                rule = rule_of(x, v) if v.name in named <= known else None
                if rule is not None and rule.period:
                    rests.append((x, is_difference))
                elif rule is not None and is_difference:
                    value = partial(_value_at, x, v, points)
                    for limit in (0, 1):
                        at = _find_first(value, rule, many, ends, limit)
                        bases += [at - 1, at]
        near = _list_residues(rests, v, points, np.stack(bases, axis=1))
        if near is None:
            return None
        if near.size > _MOST_REPEATED:
            return None
        values = np.clip(near, *ends).reshape(many, -1)
        spread = {name: np.repeat(x, values.shape[1]) for name, x in points.items()}
        return _merge_points([spread | {v.name: values.ravel() * v.step}])


def _value_at(x: Index, v: Var, points: Points, steps: Ints) -> Ints:
    """An expression at each point, with as many steps of a variable."""
    return np.broadcast_to(np.asarray(evaluate(x, {**points, v.name: steps * v.step}), np.int64), steps.shape)


def _find_first(
    value: Callable[[Ints], Ints], rule: Slope, many: int, ends: tuple[int, int], limit: int
) -> Ints:  # fmt: skip
    """Of each of many points the first step of a variable with which a value has passed a limit; behind the last, if
    none. The value, of a step of each point, never falls along the variable, or never rises.
    """
    low, high = np.full(many, ends[0]), np.full(many, ends[1] + 1)
    if rule.rise:
        missing = (limit - value(low)) if rule.slope > 0 else value(low) - limit + 1
        return np.clip(low - -missing // abs(rule.rise), low, high)
    while (low < high).any():
        middle = (low + high) // 2
        now = value(np.minimum(middle, ends[1]))
        passed = ((now >= limit) if rule.slope > 0 else (now < limit)) | (middle > ends[1])
        high = np.where(passed, middle, high)
        low = np.where(passed | (low >= high), low, middle + 1)
    return low


def _list_residues(
    rests: Sequence[tuple[Index, bool]], v: Var, points: Points, base: Ints
) -> Ints | None:  # fmt: skip
    """(points, bases, values): of each class of residues the value next to each base, from it on and down from it;
    None for too many.

    ``rests``: what repeats; of what is compared with 0 the sign.
    """
    if not rests:
        return np.asarray(base[:, :, None])
    period = lcm(*(rule.period for x, _ in rests if (rule := rule_of(x, v)) is not None))
    if period > MOST_PERIOD or period * len(base) * len(rests) > _MOST_CELLS:
        return None
    named = {u.name for x, _ in rests for u in variables(x)}
    others = [np.zeros(len(base), np.int64), *(x for name, x in points.items() if name in named)]
    firsts, case = distinct_rows(np.stack(others, axis=1))
    at = {name: x[firsts, None] for name, x in points.items()} | {v.name: np.arange(period)[None] * v.step}
    found = [np.broadcast_to(np.asarray(evaluate(x, at), np.int64), (len(firsts), period)) for x, _ in rests]
    rows = np.stack([np.sign(x) if signs else x for x, (_, signs) in zip(found, rests, strict=True)], axis=2)
    distinct, which = distinct_rows(rows.reshape(len(firsts), -1))
    classes = [distinct_rows(own)[1] for own in rows[distinct]]
    which = which[case]
    most = max(int(own.max()) + 1 for own in classes)
    if most > MOST_CLASSES or base.size * most > _MOST_CELLS:
        return None
    near = np.repeat(base[:, :, None], 2 * most, axis=2)
    for k, own in enumerate(classes):
        here = np.flatnonzero(which == k)
        for c in range(int(own.max()) + 1):
            up, down = _next_in_class(np.flatnonzero(own == c), period)
            near[here, :, c] += up[base[here] % period]
            near[here, :, most + c] -= down[base[here] % period]
    return near


def _next_in_class(members: Ints, period: int) -> tuple[Ints, Ints]:
    """From each residue how far the next member of a class is, up and down."""
    every = np.arange(period)
    up = np.append(members, members[0] + period)[np.searchsorted(members, every)] - every
    down = every - np.insert(members, 0, members[-1] - period)[np.searchsorted(members, every, side="right")]
    return up, down


def _merge_points(parts: Iterable[Points]) -> Points:
    """All points once."""
    parts = [part for part in parts if part]
    names = [*parts[0]]
    columns = [np.concatenate([part[name] for part in parts]) for name in names]
    return dict(zip(names, np.ascontiguousarray(sort_distinct(columns).T), strict=True))


def _keep(points: Points, which: NDArray[np.bool_]) -> Points:
    return {name: x[which] for name, x in points.items()}
