"""Classes of CTAs and loop trips in which an access behaves alike, so that one of each is enough to count.

An address is a sum. Terms over these outer variables alone move a whole warp: only their residue matters. What stands
in one term with a thread's variable is told apart by its values: slower, as exact. Of an inner loop whose length an
outer one gives, the trips are counted by that length and not gone through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.cost.accesses import Access
from tilegen.errors import Diagnostic, ProofError
from tilegen.index import (
    Formula,
    Index,
    Var,
    bound,
    evaluate,
    least,
    multiple,
    names_of,
    substitute,
    terms,
    total,
    variables,
    xor,
)
from tilegen.index.recurrences import Recurrence, join_recurrences, pick_values, recurrence
from tilegen.plan import plain_name

Ints = NDArray[np.int64]

_CHUNK = 1 << 20  # outer values classified at a time
_FEW = 1 << 12  # values of tangled variables for which guards are evaluated to see how far threads differ
_TABLE = 1 << 22  # class numbers up to this are counted in a table, larger ones sorted
_SPARSE = 16  # so many times as many numbers as entries are sorted, too
_WIDE = 1 << 20
_EXACT = 1 << 53  # integers below this are what they are as float64
_ALL = 64  # so many values of a variable are looked at without asking which are enough
_MOST = 1 << 26  # outer values that are gone through: some ten seconds


def list_classes(
    sides: Sequence[Access], extents: Mapping[str, int], known: Mapping[str, object], period: int | None
) -> Iterable[tuple[dict[str, Ints], Ints]]:
    """Values of the outer variables, one per class of equal behaviour of all ``sides``, and how many each stands for.

    ``extents``: how many values each variable has; ``known``: all other variables, threads as arrays. Addresses that
    differ by multiples of ``period`` bytes behave alike; None: only equal ones do.
    """
    return _list([(a, known) for a in sides], extents, period, False)


def list_joint_classes(
    sides: Sequence[tuple[Access, Mapping[str, object]]], extents: Mapping[str, int], period: int
) -> Iterable[tuple[dict[str, Ints], Ints]]:
    """The same of accesses whose addresses are seen together: those of one class lie as far from each other, too.

    Each side comes with the variables that it knows: threads as arrays, and trips of loops as columns.
    """
    return _list(sides, extents, period, True)


def _list(
    sides: Sequence[tuple[Access, Mapping[str, object]]], extents: Mapping[str, int], period: int | None, joint: bool
) -> Iterable[tuple[dict[str, Ints], Ints]]:
    if not extents:
        yield {}, np.ones(1, np.int64)
        return
    limits = _find_limits([a for a, _ in sides], extents, {n for n, x in sides[0][1].items() if isinstance(x, int)})
    full = {v.name for _, stop in limits.values() for v in variables(stop)}
    sides = [(_drop_limits(a, limits), known) for a, known in sides]
    picked = {n: _all_of(n, e) if n in full else _pick(sides, n, e, period, joint) for n, e in extents.items()}
    shape = tuple(len(p.values) for p in picked.values())
    size = prod(shape)
    if size > _MOST:
        raise _too_many(extents, size)
    for first in range(0, size, _CHUNK):
        split = np.unravel_index(np.arange(first, min(size, first + _CHUNK), dtype=np.int64), shape)
        values = {n: p.values[at] for (n, p), at in zip(picked.items(), split, strict=True)}
        weights = {n: p.weights[at] for (n, p), at in zip(picked.items(), split, strict=True)}
        for n, (_, stop) in limits.items():
            below = evaluate(stop, {**sides[0][1], **values}) - values[n]
            weights[n] = np.clip(-(-below // picked[n].period), 0, weights[n])
        each: Ints = np.prod(list(weights.values()), axis=0)
        if limits:
            made = each > 0
            values, each = {n: v[made] for n, v in values.items()}, each[made]
            if not len(each):
                continue
        index, counts = find_classes(_keys_of_all(sides, values, period, joint), each)
        yield {n: v[index] for n, v in values.items()}, counts


@dataclass(frozen=True)
class _Picked:
    """Values of an outer variable that are enough; each stands for ``weights`` of them, a period apart."""

    values: Ints
    weights: Ints
    period: int = 1


def _all_of(name: str, extent: int) -> _Picked:
    if extent > _MOST:
        raise _too_many({name: extent}, extent)
    return _Picked(np.arange(extent), np.ones(extent, np.int64))


def _pick(
    sides: Sequence[tuple[Access, Mapping[str, object]]], name: str, extent: int, period: int | None, joint: bool
) -> _Picked:
    v = Var(name, extent)
    courses: list[Recurrence | None] = []
    rises = set()
    for a, known in sides if extent > _ALL else ():
        numbers = {n: int(x) for n, x in known.items() if isinstance(x, int)}
        moved = recurrence(substitute(a.byte, numbers), v)
        if moved is not None:
            rises.add((moved.period, moved.rise))
        if moved is not None and period is not None:
            moved = moved.repeat(period)
        courses.append(None if moved is None or (period is None and moved.rise) else moved)
        courses += [recurrence(substitute(c, numbers), v) for c in a.conditions]
    if joint and len(rises) > 1:  # they move apart
        courses.append(None)
    common = join_recurrences(courses) if courses else None
    if common is None or sum(stop - first for first, stop in common.breakpoints) > _MOST:
        return _all_of(name, extent)
    return _Picked(*pick_values(extent, common), common.period)


def _find_limits(
    accesses: Sequence[Access], extents: Mapping[str, int], known: set[str]
) -> dict[str, tuple[Index, Index]]:  # fmt: skip
    """Of each long loop whose length other outer variables give the condition that says so, and the length."""
    found: dict[str, tuple[Index, Index]] = {}
    for c in accesses[0].conditions:
        if isinstance(c, Formula) and c.symbol == "<" and isinstance(c.args[0], Var) and c.args[0].name in extents:
            name, stop = c.args[0].name, c.args[1]
            is_free = names_of(stop) <= {*extents, *known} - {name}
            if is_free and extents[name] > _ALL and all(c in a.conditions for a in accesses):
                found.setdefault(name, (c, stop))
    needed = frozenset[str]().union(*(names_of(stop) for _, stop in found.values()))
    return {name: limit for name, limit in found.items() if name not in needed}


def _drop_limits(a: Access, limits: Mapping[str, tuple[Index, Index]]) -> Access:
    dropped = [c for c, _ in limits.values()]
    return replace(a, conditions=tuple(c for c in a.conditions if c not in dropped)) if dropped else a


def _too_many(extents: Mapping[str, int], size: int) -> ProofError:
    """What an access costs is not counted where too many trips, or CTAs, differ in it."""
    named = " and ".join(f"{plain_name(n)} ({extent})" for n, extent in extents.items())
    what = f"counting what this costs would go through {size} different values of {named}"
    hint = "give loops lengths that do not depend on one another, or let more CTAs share the work"
    return ProofError(Diagnostic("TG426", f"{what}, which is too many", None, hint))


def find_classes(keys: Sequence[Ints], weights: Ints | None = None) -> tuple[Ints, Ints]:
    """Where each combination of keys stands first, and how often it occurs; combinations in rising order.

    ``weights``: how often each entry counts, once if not given.

    >>> find_classes([np.array([7, 5, 7, 5]), np.array([0, 1, 0, 2])])
    (array([1, 3, 0]), array([1, 1, 2]))
    """
    if weights is None:
        weights = np.ones(len(keys[0]), np.int64)
    number, size = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        number, size = _number_densely(number, size)
        digit, span = _number_densely(key - key.min(), int(key.max() - key.min()) + 1)
        number, size = number * span + digit, size * span
    if size > min(_TABLE, _SPARSE * len(number)):
        _, index, number = np.unique(number, return_index=True, return_inverse=True)
        return index, _add_up(weights, number.reshape(-1), len(index))
    firsts = np.full(size, -1, np.int64)
    firsts[number[::-1]] = np.arange(len(number))[::-1]
    found = np.flatnonzero(firsts >= 0)
    return firsts[found], _add_up(weights, number, size)[found]


def _add_up(weights: Ints, number: Ints, size: int) -> Ints:
    """The weights of each number together; where sums could round, in integers, which is slow."""
    if int(weights.max(initial=0)) * len(weights) < _EXACT:
        return np.bincount(number, weights, size).astype(np.int64)
    sums = np.zeros(size, np.int64)
    np.add.at(sums, number, weights)
    return sums


def _number_densely(number: Ints, size: int) -> tuple[Ints, int]:
    """Numbers below ``size`` in the same order, not more of them than there are values once they are wide."""
    if size <= _WIDE:
        return number, size
    found, dense = np.unique(number, return_inverse=True)
    return dense.reshape(-1), len(found)


# ---------------------------------------------------------------- what must be equal
def _keys_of_all(
    sides: Sequence[tuple[Access, Mapping[str, object]]], values: Mapping[str, Ints], period: int | None, joint: bool
) -> list[Ints]:
    """What must be equal for two of the outer values to behave alike; of addresses, the rest within the period."""
    keys: list[Ints] = []
    first: Ints | None = None
    for a, known in sides:
        own = _keys(a, values, known)
        if own is None:
            return list(values.values())
        base, *others = own
        keys += [base % period if period else base, *others]
        if joint:
            first = base if first is None else first
            keys.append(base - first)
    return keys


def _keys(a: Access, values: Mapping[str, Ints], known: Mapping[str, object]) -> list[Ints] | None:
    """The part of the address that moves all threads alike, what is tangled with them, and the limits of the guards as
    far as threads differ in them; None where only equal values behave alike. Threads are what ``known`` has arrays for.
    """
    guards = [c for c in a.conditions if not names_of(c).isdisjoint(values)]
    sides = [s for c in guards if isinstance(c, Formula) and c.symbol == "<" for s in c.args]
    threads = frozenset(n for n, x in known.items() if not isinstance(x, int))
    address, *split = (_separate(x, frozenset(values), threads) for x in (a.byte, *sides))
    zero, env = np.zeros(len(next(iter(values.values()))), np.int64), {**known, **values}
    tangled = [zero + evaluate(x, env) for x in dict.fromkeys(x for s in (address, *split) for x in s.tangled)]
    few = find_classes(tangled)[0] if tangled else np.zeros(1, np.int64)
    if len(sides) < 2 * len(guards) or len(few) > _FEW:
        return None
    keys = [zero + evaluate(address.outer, env), *tangled]
    inside = {**known, **{n: v[few, None, None] for n, v in values.items()}}
    for left, right in zip(split[::2], split[1::2], strict=True):
        limit = zero + evaluate(right.outer, env) - evaluate(left.outer, env)
        inner = np.asarray(evaluate(left.inner, inside) - evaluate(right.inner, inside))
        keys.append(np.clip(limit, inner.min(), inner.max() + 1))  # holds where inner < limit
    return keys


@dataclass(frozen=True)
class _Split:
    """A sum in two: the part over outer variables alone, and what threads have a say in.

    ``tangled``: what the second part sees of the outer variables.
    """

    outer: Index
    inner: Index
    tangled: tuple[Index, ...]


def _separate(x: Index, outer: frozenset[str], threads: frozenset[str]) -> _Split:
    alone: list[tuple[int, Any]] = []
    rest: list[tuple[int, Any]] = []
    for c, f in _free_terms(x):
        names = names_of(f)
        (alone if names & outer and not names & threads else rest).append((c, f))
    tangled = (part for _, f in rest for part in _list_parts(f, outer, threads))
    return _Split(total(alone), total(rest), tuple(dict.fromkeys(tangled)))


def _free_terms(x: Index) -> Iterable[tuple[int, Any]]:
    """``x`` as a sum; of an XOR with what is below 2 ** k, the multiples of 2 ** k stand by themselves."""
    for c, f in terms(x):
        for this, other in (f.args, f.args[::-1]) if isinstance(f, Formula) and f.symbol == "^" else ():
            unit = 1 << (bound(other) - 1).bit_length()
            high = [t for t in terms(this) if t[0] * multiple(t[1]) % unit == 0]
            if high and least(other) >= 0:
                low = total(t for t in terms(this) if t[0] * multiple(t[1]) % unit)
                yield from ((c * k, g) for k, g in _free_terms(total(high)))
                yield from ((c * k, g) for k, g in _free_terms(xor(low, other)))
                break
        else:
            yield c, f


def _list_parts(x: Index, outer: frozenset[str], threads: frozenset[str]) -> Iterable[Index]:
    """The largest parts of an expression that are over outer variables without those of threads."""
    names = names_of(x)
    if isinstance(x, int) or not names & outer:
        return
    if not names & threads:
        yield x
        return
    assert isinstance(x, Formula)
    apart = [t for t in terms(x) if not names_of(t[1]) & threads] if x.symbol == "+" else []
    if apart:
        yield from _list_parts(total(apart), outer, threads)
    others = [f for _, f in terms(x) if names_of(f) & threads] if x.symbol == "+" else x.args
    for part in others:
        yield from _list_parts(part, outer, threads)
