"""Sizes that a proof takes beside the usual: the largest that there are, and those that show each outcome of what is
asked of parameters, alone or with CTAs, trips and threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Formula, Index, Var, bound, evaluate, less, mul, sub, substitute, to_c, variables
from tilegen.proofs.questions import COMPARING, Question, parts_with
from tilegen.proofs.residues import look_at
from tilegen.scopes import CTA_AXES
from tilegen.spec.data import Spec
from tilegen.spec.outline import is_possible

_MOST_ELEMENTS = 1 << 45  # of an array that is counted; no GPU holds more
_MOST_VALUES = 1 << 17  # of a parameter that are looked at, from either end
_MOST_OUTCOMES = 128  # of a remainder, or of a part of it
_MOST_ROWS = 1 << 12  # combinations of values that are looked at
_MOST_TOGETHER = 8  # of the least values of each parameter all are tried together
_SMALL = 1024, 128  # values of a parameter that are compared with CTAs, trips and threads, or where these are many
_LEAST_SMALL = 8  # and as many at least
_MOST_SEEN = 1 << 20  # outcomes of such a comparison
_MOST_OTHERS = 16  # combinations of the other parameters that are looked at with one
_DECIDING = (*COMPARING, "&&", "||")
_REMAINDERS = ("%", "&")
_FAR = 1 << 17  # steps of a parameter after which what has risen alike is a line


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
    while values and not is_sized(spec, {**default, **values}):
        halves = {name: value // 2 // grown[name].step * grown[name].step for name, value in values.items()}
        values = {name: value for name, value in halves.items() if value > default[name]}
    return {**default, **values}


# ---------------------------------------------------------------- what is asked of parameters alone
def telling_cases(spec: Spec, asked: Sequence[Question], default: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """A case for each outcome of what the plan and the spec ask of parameters alone, and for pairs of such values.

    They ask where two are compared, which is smaller or larger, and what a remainder is. Of each outcome the least
    value of a parameter is taken, and the least above its default; then all combinations that show something new, of
    the least values that there are too.
    """
    own = {p.name: p.var for p in spec.params if p.var is not None}
    launched = {p.name for p in spec.params if p.launched is not None}
    parts = dict.fromkeys(x for q in asked for x in _asked_alone(q, {*own}))
    if not parts:
        return
    values = {name: _turns(var, [substitute(x, _without(default, name)) for x in parts], default[name])
              for name, var in own.items()}  # fmt: skip
    alone = [{**default, name: value} for name, found in values.items() for value in found]
    tried = {name: dict.fromkeys((*values[name], *_small(var))) for name, var in own.items() if name not in launched}
    rows = islice(product(*tried.values()), _MOST_ROWS) if len(tried) > 1 else ()
    together = [{**default, **dict(zip(tried, row, strict=True))} for row in rows]
    seen: set[tuple[int, ...]] = set()
    for case in (case for case in [*alone, *together] if is_sized(spec, case)):
        outcome = tuple(int(evaluate(x, case)) for x in parts)
        if case in alone or outcome not in seen:
            yield case
        seen.add(outcome)


def list_untold(spec: Spec, asked: Sequence[Question], cases: Sequence[Mapping[str, int]]) -> list[str]:
    """A note for each comparison of parameters alone of which all cases show one outcome: others may show another."""
    own = {p.name for p in spec.params if p.var is not None}
    parts = dict.fromkeys(x for q in asked for x in _asked_alone(q, own))
    compared = [x for x in parts if isinstance(x, Formula) and x.symbol in COMPARING]
    one = [x for x in compared if len({bool(evaluate(x, case)) for case in cases}) == 1]
    return [f"not proven: what sizes do of which '{to_c(x)}' comes out otherwise, if there are any" for x in one]


def _small(var: Var) -> range:
    """The least values of a parameter, which are tried with those of others."""
    return range(max(var.step, var.least), min(var.bound, _MOST_TOGETHER * var.step), var.step)


def _asked_alone(q: Question, names: set[str]) -> Iterator[Index]:
    """What a question asks of these names and of nothing else."""
    for x in (q.x, *q.guards, *(count for _, count in q.loops)):
        yield from _asked(x, names)


def _asked(x: Index, names: set[str]) -> Iterator[Index]:
    """The parts of an expression that ask something of these names and of nothing else."""
    if not isinstance(x, Formula):
        return
    is_alone = {v.name for v in variables(x)} <= names
    is_brief = x.symbol == "/" and bool(parts_with(x, _REMAINDERS))  # of a remainder the part that counts
    if is_alone and (x.symbol in COMPARING or is_brief or (x.symbol in _REMAINDERS and bound(x) <= _MOST_OUTCOMES)):
        yield x
        return
    if is_alone and x.symbol in ("min", "max"):
        yield from (less(*x.args[k : k + 2]) for k in range(len(x.args) - 1))
    for part in x.args:
        yield from _asked(part, names)


def _turns(var: Var, parts: Sequence[Index], default: int) -> list[int]:
    """Values of a parameter that show every outcome of each part, its own default first."""
    last = (var.bound - 1) // var.step
    steps = np.unique(
        np.concatenate([np.arange(1, min(last, _MOST_VALUES) + 1), np.arange(max(1, last - _MOST_VALUES), last + 1)])
    )
    turns = [n for x in parts if isinstance(x, Formula) for n in _list_thresholds(var, x, {})]
    values = np.union1d(steps.astype(np.int64) * var.step, np.array(turns, np.int64))
    shape = values.shape
    each = [np.broadcast_to(np.asarray(evaluate(x, {var.name: values}), np.int64), shape) for x in parts]
    found = {default: None}
    for outcomes in [*(x[:, None] for x in each), np.stack(each, axis=1)]:  # of each part, and of all together
        for first in (0, int(np.searchsorted(values, default + 1))):
            kinds, at = np.unique(outcomes[first:], axis=0, return_index=True)
            if len(kinds) <= _MOST_OUTCOMES:
                found |= dict.fromkeys(values[first + at].tolist())
    return [*found]


# ---------------------------------------------------------------- what is asked of parameters with others
def reaching_cases(spec: Spec, asked: Sequence[Question], default: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """A case for each outcome that a comparison of a parameter with CTAs, trips or threads has at all.

    Small values of each parameter are looked at, beside the defaults of the others, and beside values of theirs that
    turn what the same question compares of them alone. Of those with which both outcomes occur, and of those with one
    alone, the least is taken, and the least above the default.
    """
    own = {p.name: p.var for p in spec.params if p.var is not None and p.launched is None}
    for name, var in own.items():
        beside: dict[tuple[tuple[str, int], ...], list[Question]] = {}
        for q in asked:
            for others in _list_others(q, {n: v for n, v in own.items() if n != name}, _without(default, name)):
                beside.setdefault(tuple(sorted(others.items())), []).append(q)
        for items, questions in beside.items():
            others = dict(items)
            compared = dict.fromkeys(
                replace(q, x=c, guards=tuple(g for g in q.guards if g != x))
                for q in questions for x in (q.x, *q.guards) for c in parts_with(substitute(x, others), _DECIDING)
                if name in (named := {v.name for v in variables(c)}) and len(named) > 1
            )  # fmt: skip
            found = dict.fromkeys(n for q in compared for n in _reaching_values(spec, var, q, others, default[name]))
            yield from (case for case in ({**others, name: n} for n in found) if is_sized(spec, case))


def _list_others(q: Question, own: Mapping[str, Var], default: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """The defaults, and values of some parameters with which what a question compares of them alone turns."""
    asked = [x for x in _asked_alone(q, {*own}) if isinstance(x, Formula) and x.symbol in COMPARING]
    values = [
        [(name, n) for n in _turns(var, [substitute(x, _without(default, name)) for x in asked], default[name])]
        for name, var in own.items() if asked
    ]  # fmt: skip
    yield from ({**default, **dict(row)} for row in islice(product(*values), _MOST_OTHERS))


def _reaching_values(spec: Spec, var: Var, q: Question, others: Mapping[str, int], default: int) -> Iterator[int]:
    """The least value of a parameter for each set of outcomes of a comparison, and the least above its default.

    Where small values show one outcome alone, the ends of those with the other.
    """
    looked_at = (_look_at_small(spec, var, q, others, most) for most in _SMALL)
    rows = next((rows for rows in looked_at if rows is not None), None)
    if rows is None:
        return
    sets = (rows == 0).any(axis=1) + 2 * (rows == 1).any(axis=1)
    values = np.arange(len(rows)) * var.step
    possible = (values >= max(1, var.least)) & (sets > 0)
    for first in (0, default + 1):
        for own in (1, 2, 3):
            yield from map(int, values[possible & (values >= first) & (sets == own)][:1])
    shown = {n for n in (0, 1) if (sets[possible] & (1 << n)).any()}
    beyond = []
    largest = {**others, var.name: (var.bound - 1) // var.step * var.step}
    for value in [] if len(shown) == 2 else _list_thresholds(var, q.x, {**others, **_axes_of(spec, largest)}):
        at = {**others, var.name: value}
        found = look_at(q, [substitute(q.x, at)], Var("once", 1), {**at, **_axes_of(spec, at)}, _MOST_SEEN)
        if found is not None and not {0, 1} & {*found.outcomes.ravel().tolist()} <= shown:
            beyond.append(value)
    yield from dict.fromkeys((*beyond[:1], *beyond[-1:]))


def _look_at_small(
    spec: Spec, var: Var, q: Question, others: Mapping[str, int], most: int
) -> NDArray[np.int64] | None:  # fmt: skip
    """(values, all else): the outcomes of a comparison for values of a parameter up to ``most``; None for too many."""
    steps = Var(f"{var.name}_steps", min(-(-var.bound // var.step), max(most // var.step, _LEAST_SMALL) + 1))
    if steps.bound < 2:
        return None
    numbers: dict[str, Index] = {**others, var.name: mul(steps, var.step)}
    grid = [substitute(n, numbers) for n in spec.grid]
    numbers |= _axes_of(spec, numbers)
    inside = tuple(less(numbers[axis], n) for axis, n in zip(CTA_AXES, grid, strict=True))
    seen = look_at(replace(q, guards=(*q.guards, *inside)), [substitute(q.x, numbers)], steps, numbers, _MOST_SEEN)
    return None if seen is None else seen.outcomes.reshape(steps.bound, -1)


def _axes_of(spec: Spec, case: Mapping[str, Index]) -> dict[str, Index]:
    """The axes of CTAs, in the largest grid of a case."""
    grid = {axis: bound(substitute(n, case)) - 1 for axis, n in zip(CTA_AXES, spec.grid, strict=True)}
    return {axis: Var(axis, n) if n > 1 else 0 for axis, n in grid.items()}


def thresholds_of(spec: Spec, var: Var, asked: Sequence[Index], default: Mapping[str, int]) -> list[int]:
    """Values of a parameter at which a comparison in one of the expressions turns, or the smaller of two sides does; of
    all else but the other parameters, which have their defaults, the values are looked at.
    """
    largest = {**default, var.name: (var.bound - 1) // var.step * var.step}
    others = {**_without(default, var.name), **_axes_of(spec, largest)}
    compared = dict.fromkeys(
        c for x in asked for part in parts_with(x, (*COMPARING, "min", "max"))
        for c in ([part] if part.symbol in COMPARING else map(less, part.args, part.args[1:]))
    )  # fmt: skip
    named = (c for c in compared if var.name in {v.name for v in variables(c)})
    return [*dict.fromkeys(n for c in named for n in _list_thresholds(var, c, others))]


def _list_thresholds(var: Var, compared: Index, numbers: Mapping[str, Index]) -> list[int]:
    """The least and the greatest value of a parameter at which a comparison turns that is linear in it, and beside
    them. Of all else the values are looked at, or where these are too many the ends.
    """
    assert isinstance(compared, Formula)
    if compared.symbol not in COMPARING:
        return []
    apart = substitute(sub(*compared.args[:2]), numbers)
    others = {v.name: v.bound for v in variables(apart) if v.name != var.name}
    is_small = prod(others.values()) <= _MOST_SEEN
    values = [np.arange(n) if is_small else np.array([0, n - 1]) for n in others.values()]
    axes = dict(zip(others, np.meshgrid(*values, indexing="ij", sparse=True), strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):  # where a loop does not get
        places = ({**axes, var.name: np.array(n * var.step)} for n in (1, 2, _FAR))
        first, second, last = (np.asarray(evaluate(apart, at), np.int64) for at in places)
    rise = np.asarray(second - first)
    turns = _divide(-first, rise, (rise != 0) & (last == first + (_FAR - 1) * rise), compared.symbol)
    around = sorted({(n + 1 + k) * var.step for n in turns for k in (-1, 0, 1, 2)})
    return [n for n in around if max(1, var.least) <= n < var.bound]


def _divide(way: NDArray[np.int64], rise: NDArray[np.int64], is_line: NDArray[np.bool_], symbol: str) -> set[int]:
    """After how many steps a line is at 0 first and last; of an equality only those that are whole."""
    way, rise = way[is_line], rise[is_line]
    counts = way // rise
    counts = counts[(counts >= -1) & ((symbol == "<") | (counts * rise == way))]
    return {int(counts.min()), int(counts.max())} if len(counts) else set()


def _without(case: Mapping[str, int], name: str) -> dict[str, int]:
    return {other: value for other, value in case.items() if other != name}


def is_sized(spec: Spec, case: Mapping[str, int]) -> bool:
    """Can it be launched, on arrays that NumPy can count?"""
    sizes = (prod(int(evaluate(n, case)) for n in b.shape) for b in spec.buffers if b.scope == "global")
    return is_possible(spec, case) and all(size <= _MOST_ELEMENTS for size in sizes)


def say_case(case: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in case.items())
