"""Recurrences: how an expression goes on along one variable, so that a few values of the variable show all of them.

An address or a condition over loops and CTAs repeats: after so many values it is what it was, plus a constant. Where
that is so, the values in the middle of a long range show nothing that their neighbours have not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Formula, Index, Var, add, bound, div, sub, substitute, total, variables
from tilegen.index.bounds import highest
from tilegen.index.contents import HOLE, HOLED, OFFSETS, SPREAD, UPWARDS, first_place, period_of, shift_of
from tilegen.index.linear import linear

Ints = NDArray[np.int64]

_MOST_STRETCHES = 16  # of one comparison that are looked at


@dataclass(frozen=True)
class Recurrence:
    """x(v + period) == x(v) + rise, whatever the other variables are, unless a turn lies between v and v + period.

    ``breakpoints``: stretches (first, stop) of values within which, and across which, nothing is said.
    """

    period: int = 1
    rise: int = 0
    breakpoints: tuple[tuple[int, int], ...] = ()

    def over(self, period: int) -> int:
        """The rise over a multiple of the period."""
        return self.rise * (period // self.period)

    def repeat(self, n: int) -> Recurrence:
        """The same over the least period in which it rises by a multiple of ``n``."""
        times = n // gcd(self.rise, n)
        return replace(self, period=self.period * times, rise=self.rise * times)


def recurrence(x: Index, v: Var) -> Recurrence | None:
    """How ``x`` goes on along ``v``, a variable that counts from 0; None where no such rule is known.

    >>> k, tx = Var("k", 1000), Var("tx", 32)
    >>> recurrence(k // 2 % 3 * 128 + tx, k), recurrence(k * 64 + tx, k)
    (Recurrence(period=6, rise=0, breakpoints=()), Recurrence(period=1, rise=64, breakpoints=()))
    >>> recurrence(k * 4 + tx < 400, k)
    Recurrence(period=1, rise=0, breakpoints=((93, 100),))
    """
    if all(own.name != v.name for own in variables(x)):
        return Recurrence()
    if isinstance(x, Var):
        return Recurrence(1, 1)
    assert isinstance(x, Formula)
    if x.symbol == "/" and not isinstance(x.args[1], int):
        x = _divide_out(x)
        assert isinstance(x, Formula)
    parts = [recurrence(a, v) for a in x.args]
    rule = _RULES.get(x.symbol)
    if rule is None or any(p is None for p in parts):
        return _clip(x, v) if x.symbol in ("min", "max") else None
    return rule(x, [p for p in parts if p is not None], v)


def _divide_out(x: Formula) -> Index:
    """A quotient by what is not known, with the multiples of it in the dividend taken out.

    >>> t, b, n = Var("t", 100), Var("b", 9), Var("n", 10, least=1)
    >>> str(_divide_out((t * n + b) // n))
    't + b / n'
    """
    whole, rest = [], []
    for f, c in linear(x.args[0]).items():
        is_multiple = isinstance(f, Formula) and f.symbol == "*" and x.args[1] in f.args and len(f.args) == 2
        if is_multiple:
            whole.append((c, f.args[1 - f.args.index(x.args[1])]))
        else:
            rest.append((c, f))
    return add(total(whole), div(total(rest), x.args[1])) if whole and all(c > 0 for c, _ in whole) else x


# ---------------------------------------------------------------- one rule for each operator
def _join(courses: Iterable[Recurrence], rises: Sequence[int] = ()) -> Recurrence:
    """Several at once: the common period, all breakpoints, and the rises times their signs (none: 0) added up."""
    courses = list(courses)
    period = lcm(*(c.period for c in courses))
    rise = sum(sign * c.over(period) for sign, c in zip(rises, courses, strict=False))
    return Recurrence(period, rise, tuple(sorted({turn for c in courses for turn in c.breakpoints})))


def _product(x: Formula, parts: Sequence[Recurrence], v: Var) -> Recurrence | None:
    if not any(p.rise for p in parts):
        return _join(parts)
    scale = next((a for a in x.args if isinstance(a, int)), None)
    return None if scale is None else _join(parts, [0 if isinstance(a, int) else scale for a in x.args])


def _quotient(x: Formula, parts: Sequence[Recurrence], v: Var) -> Recurrence | None:
    n = x.args[1]
    if not isinstance(n, int):
        return None if any(p.rise for p in parts) else _join(parts)
    whole = parts[0].repeat(n)
    return replace(whole, rise=whole.rise // n)


def _rest(x: Formula, parts: Sequence[Recurrence], v: Var) -> Recurrence | None:
    n = x.args[1]
    if not isinstance(n, int):
        return None if any(p.rise for p in parts) else _join(parts)
    return replace(parts[0].repeat(n), rise=0)


def _exclusive(x: Formula, parts: Sequence[Recurrence], v: Var) -> Recurrence | None:
    """A rise by a multiple of 2 ** k leaves the k low bits, which are all that the other side has, as they are."""
    rising = [n for n, p in enumerate(parts) if p.rise]
    if not rising:
        return _join(parts)
    if len(rising) > 1 or len(parts) != 2:
        return None
    (side,) = rising
    whole = parts[side].repeat(1 << (bound(x.args[1 - side]) - 1).bit_length())
    return _join([whole, parts[1 - side]], [1, 0])


def _masked(x: Formula, parts: Sequence[Recurrence], v: Var) -> Recurrence | None:
    return replace(parts[0].repeat(1 << int(x.args[1]).bit_length()), rise=0)


def _comparison(x: Formula, parts: Sequence[Recurrence], v: Var) -> Recurrence | None:
    """The outcome changes once in each stretch between breakpoints of the sides: where these meet."""
    moved = _join(parts, [1, -1])
    if not moved.rise:
        return moved
    if len(moved.breakpoints) > _MOST_STRETCHES:
        return None
    crossed = [_crossing(x, v, moved, start, end) for start, end in _stretches(moved, v)]
    return Recurrence(moved.period, 0, tuple(sorted({*moved.breakpoints, *crossed})))


def _stretches(rule: Recurrence, v: Var) -> list[tuple[int, int]]:
    """The values of ``v`` between breakpoints: the first of each stretch, and the one behind its last."""
    within = _merge(rule.breakpoints, v.bound)
    starts, ends = [0, *(stop for _, stop in within)], [*(first for first, _ in within), v.bound]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]


def _crossing(x: Formula, v: Var, moved: Recurrence, start: int, end: int) -> tuple[int, int]:
    """The values of ``v`` in a stretch without breakpoints within which the sides of a comparison may change places.

    After t periods from ``start`` the difference of the sides lies in low + t * rise .. high + t * rise.
    """
    within: Index = add(start, Var(v.name, moved.period)) if moved.period > 1 else start
    a, b = (substitute(side, {v.name: within}) for side in x.args)
    high, low = highest((a, 1), (b, -1)), -highest((b, 1), (a, -1))
    last_below, first_above = (-1, 0) if x.symbol == "<" else (0, 0)
    if moved.rise > 0:
        first, last = -((high - first_above) // moved.rise), (last_below - low) // moved.rise
    else:
        first, last = -((last_below - low) // -moved.rise), (high - first_above) // -moved.rise
    turn = max(0, first * moved.period), max(0, max(first, last + 1) * moved.period)
    return min(start + turn[0], end), min(start + turn[1], end)


def _smaller_or_larger(x: Formula, parts: Sequence[Recurrence], v: Var) -> Recurrence | None:
    """What moves alike stays as far apart as it is; of what does not, no rule is known."""
    joined = _join(parts)
    rises = {p.over(joined.period) for p in parts}
    alike = replace(joined, rise=rises.pop()) if len(rises) == 1 else None
    found = [r for r in (alike, _clip(x, v)) if r is not None]
    return min(found, key=_count_within, default=None)


def _count_within(r: Recurrence) -> int:
    """The values within breakpoints, of which nothing is said."""
    return sum(stop - first for first, stop in r.breakpoints)


def _clip(x: Formula, v: Var) -> Recurrence | None:
    """Of what moves up to a number, or from one on, the values stand but where it moves: nothing is said of these.

    >>> from tilegen.index import maximum, minimum
    >>> k = Var("k", 1000)
    >>> recurrence(minimum(maximum(k * 64 - 6400, -200), 1), k)
    Recurrence(period=1, rise=0, breakpoints=((97, 101),))
    """
    inner, end = x.args
    if not isinstance(end, int):
        return None
    ends, moving = [end], inner
    if isinstance(inner, Formula) and inner.symbol in ("min", "max") and isinstance(inner.args[1], int):
        ends, moving = [end, inner.args[1]], inner.args[0]
    own = recurrence(moving, v)
    if own is None or not own.rise or len(own.breakpoints) > _MOST_STRETCHES:
        return None
    places = list(own.breakpoints)
    for start, stop in _stretches(own, v):
        turns = [_crossing(Formula("<", (moving, n + k), 2), v, own, start, stop) for n in ends for k in (0, 1)]
        first, last = min(first for first, _ in turns), max(last for _, last in turns)
        if len(ends) == 1:  # it moves on one side of where it meets the number
            first, last = (start, last) if (own.rise < 0) == (x.symbol == "max") else (first, stop)
        places.append((first, last))
    return Recurrence(own.period, 0, tuple(sorted(places)))


def _pick(x: Formula, parts: Sequence[Recurrence], v: Var) -> Recurrence | None:
    condition, *arms = parts
    joined = _join(parts)
    rises = {p.over(joined.period) for p in arms}
    return None if condition.rise or len(rises) > 1 else replace(joined, rise=rises.pop())


def _element(x: Formula, parts: Sequence[Recurrence], v: Var) -> Recurrence | None:
    """An element comes again where its number has moved on by a period of the contents.

    Contents that go up by one step rise with the number, except where elements are left out and the range ends. For
    other contents that go up, no rule is known where the number moves.
    """
    kind, key, (at, low, high, step, *marks) = *x.args[:2], x.args[2:]
    number = parts[2]
    if any(p.rise for p in parts[3:]) or (kind == OFFSETS and number.rise):
        return None
    if kind not in (UPWARDS, HOLED, SPREAD) or not number.rise:
        repeated = number if not number.rise else number.repeat(period_of(kind, marks))
        return _join([replace(repeated, rise=0), *parts[3:]])
    if not isinstance(low, int):
        return None
    count = div(add(sub(high, low if kind == SPREAD else int(first_place(low, step))), step - 1), step)
    turns = HOLE, HOLE + 1, sub(count, shift_of(key))
    crossed = [_comparison(Formula("<", (at, turn), 2), [number, Recurrence()], v) for turn in turns]
    known = [c for c in crossed if c is not None]
    if len(known) < len(turns):
        return None
    outside = [(first, v.bound) if number.rise > 0 else (0, stop) for first, stop in known.pop().breakpoints]
    joined = _join([number, *known, Recurrence(breakpoints=tuple(outside))])
    return replace(joined, rise=joined.period // number.period * number.rise * step)


_RULES: Mapping[str, Callable[[Any, Any, Var], Recurrence | None]] = {
    "+": lambda x, parts, v: _join(parts, [1] * len(parts)),
    "-": lambda x, parts, v: _join(parts, [1, -1]),
    "*": _product, "/": _quotient, "%": _rest, "^": _exclusive, "&": _masked,
    "<": _comparison, "==": _comparison, "!=": _comparison,
    "&&": lambda x, parts, v: _join(parts), "||": lambda x, parts, v: _join(parts),
    "min": _smaller_or_larger, "max": _smaller_or_larger, "?": _pick, "table": _element,
}  # fmt: skip


def join_recurrences(courses: Iterable[Recurrence | None]) -> Recurrence | None:
    """One period after which all of them have repeated, with every turn (and no rise); None if one is unknown."""
    known = list(courses)
    return None if None in known else _join([c for c in known if c is not None])


# ---------------------------------------------------------------- the values that are enough
def pick_values(extent: int, common: Recurrence, head: int = 0, tail: int = 0) -> tuple[Ints, Ints]:
    """Values of a variable that show all that ``0 .. extent - 1`` do, in rising order; how many values each stands for.

    Of each stretch between ends and breakpoints the first ``head`` and the last ``tail`` are there, at least a period
    each; of those between, whole periods are left out, and the period before the gap stands for them.

    >>> values, weights = pick_values(1000, Recurrence(3, 0, ((500, 501),)))
    >>> values.tolist()
    [0, 1, 2, 495, 496, 497, 498, 499, 500, 501, 502, 503, 996, 997, 998, 999]
    >>> int(weights.sum()), weights[:3].tolist()
    (1000, [165, 165, 165])
    """
    head, tail = max(head, common.period), max(tail, common.period)
    parts: list[Ints] = []
    weights: list[Ints] = []
    begin = 0
    for first, stop in [*_merge(common.breakpoints, extent), (extent, extent)]:
        gap = max(0, (first - begin - head - tail) // common.period) * common.period
        kept = [np.arange(begin, begin + head), np.arange(begin + head + gap, stop)]
        parts += kept if gap else [np.arange(begin, stop)]
        weights += [np.ones(sum(map(len, kept)) if gap else stop - begin, np.int64)]
        if gap:
            weights[-1][head - common.period : head] += gap // common.period
        begin = stop
    return np.concatenate(parts), np.concatenate(weights)


def _merge(breakpoints: Iterable[tuple[int, int]], extent: int) -> list[tuple[int, int]]:
    """Turns within the extent, those that meet as one."""
    merged: list[tuple[int, int]] = []
    for first, stop in sorted(breakpoints):
        first, stop = min(first, extent), min(stop, extent)
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], stop)
        else:
            merged.append((first, stop))
    return merged


@dataclass(frozen=True)
class Trips:
    """Which trips of its loops a run makes: of each loop named, those that are enough; of every other, all.

    ``loops``: how everything inside goes on along the loop's variable, and how many trips run at the head of each
    stretch between its ends and breakpoints; at its tail a period of them runs.
    """

    loops: Mapping[str, tuple[Recurrence, int]] = field(default_factory=dict)

    def stretches(self, name: str, count: int) -> list[range]:
        """The trips of a loop, in order; between two stretches whole periods are left out.

        >>> Trips({"k": (Recurrence(2), 4)}).stretches("k", 1001)
        [range(0, 4), range(998, 1001)]
        """
        if name not in self.loops or count < 1:
            return [range(count)] if count > 0 else []
        values, _ = pick_values(count, *self.loops[name])
        breaks = np.flatnonzero(np.diff(values) > 1).tolist()
        firsts, lasts = [0, *(b + 1 for b in breaks)], [*breaks, len(values) - 1]
        return [range(int(values[a]), int(values[b]) + 1) for a, b in zip(firsts, lasts, strict=True)]

    def count(self, name: str, count: int) -> int:
        """How many trips run of a loop that has ``count``."""
        return sum(map(len, self.stretches(name, count))) if name in self.loops else count

    def fewest(self) -> Trips:
        """Of each loop a period at its start, and one at its end, whatever breakpoints lie between.

        A trip more at the start where something stays in flight, of which the first trip finds nothing.

        >>> Trips({"k": (Recurrence(2, 0, ((40, 41),)), 4)}).fewest().stretches("k", 1001)
        [range(0, 3), range(999, 1001)]
        """
        heads = {name: min(rule.period + 1, head - 1) for name, (rule, head) in self.loops.items()}
        return Trips({name: (replace(rule, breakpoints=()), heads[name]) for name, (rule, _) in self.loops.items()})

    def most(self, name: str, count: int) -> int:
        """With how many trips, at most, a loop shows what it does not show with ``count`` trips, however many it has.

        Near the ends of a stretch a longer one goes on as one of these: of a head, and of each rest by the period. Its
        middle one stretch must show that has a head and a period.

        >>> Trips({"k": (Recurrence(2, 0, ((1000, 1000),)), 3)}).most("k", 1001)
        5
        """
        common, head = self.loops[name]
        begin, total, is_shown = 0, 0, False
        for first, stop in [*_merge(common.breakpoints, count), (count, count)]:
            total += min(first - begin, head + common.period - 1) + stop - first
            is_shown |= first - begin >= head + common.period
            begin = stop
        return total if is_shown else total + head + common.period

    def period(self, name: str) -> int:
        """The trips after which a loop repeats itself."""
        return self.loops[name][0].period


ALL_TRIPS = Trips()
