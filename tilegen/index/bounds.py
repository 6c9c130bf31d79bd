"""x < n for every value of the variables: from their ranges, from guards, or by trying every value of a few."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from tilegen.index import (
    Formula,
    Index,
    Var,
    add,
    bound,
    conjuncts,
    div,
    evaluate,
    least,
    less,
    mul,
    multiple,
    not_,
    replace_part,
    selections,
    substitute,
    total,
    variables,
)
from tilegen.index.linear import linear

TRY_ALL = 1 << 18  # values tried for one condition
_MOST_CASES = 6  # selections that are taken apart, one inside of the other


def highest(*signed: tuple[Index, int]) -> int:
    """The largest value that a signed sum of expressions can have; equal terms cancel.

    >>> i = Var("i", 10)
    >>> highest((i * 2, 1), (i + 1, -1))
    8
    """
    merged = _merge(linear(x, sign) for x, sign in signed)
    return min(_highest(merged), _highest(_without_quotients(merged)))


def _merge(sums: Iterable[Mapping[Any, int]]) -> dict[Any, int]:
    merged: dict[Any, int] = {}
    for factor, c in chain.from_iterable(one.items() for one in sums):
        merged[factor] = merged.get(factor, 0) + c
    return merged


def _highest(merged: Mapping[Any, int]) -> int:
    return sum(c if f == 1 else c * (_top(f) if c > 0 else least(f)) for f, c in merged.items() if c)


def _top(f: Any) -> int:
    """A value that a factor never exceeds; of a XOR, the bits that only one side has are no more than that side's."""
    most = bound(f) - 1
    if isinstance(f, Formula) and f.symbol == "^" and len(f.args) == 2:
        for x, y in (f.args, f.args[::-1]):
            most = min(most, _highest(linear(x)) | (1 << (bound(y) - 1).bit_length()) - 1)
    return most


def _without_quotients(merged: Mapping[Any, int]) -> dict[Any, int]:
    """An upper bound that sees through divisions: ``d * (y / d) <= y``, and ``y - y % d`` where y % d is known."""
    parts: list[Mapping[Any, int]] = []
    for f, c in merged.items():
        d = f.args[1] if isinstance(f, Formula) and f.symbol == "/" and isinstance(f.args[1], int) else 0
        y = linear(f.args[0]) if d and c % d == 0 else {}
        rest = y.get(1, 0) % d if y and all(k * multiple(g) % d == 0 for g, k in y.items() if g != 1) else None
        is_seen = y and (c > 0 or rest is not None)
        parts.append({g: k * (c // d) for g, k in _merge([y, {1: -(rest or 0)}]).items()} if is_seen else {f: c})
    return _merge(parts)


def narrow(guards: Iterable[Index]) -> dict[str, Index]:
    """Variables that a guard bounds on its own, with that range.

    >>> narrow([Var("tx", 256) // 32 < 2])
    {'tx': Var(name='tx', bound=64, step=1, least=0)}
    """
    found: dict[str, Index] = {}
    for guard in guards:
        names = variables(guard)
        if len(names) != 1:
            continue
        (var,) = names
        old = found.get(var.name, var)
        if not isinstance(old, Var):
            continue
        if (old.bound - old.least) // old.step <= 4096:
            values = np.arange(-(-old.least // old.step) * old.step, old.bound, old.step)
            values = values[np.broadcast_to(evaluate(guard, {var.name: values}), values.shape)]
            if len(values):
                found[var.name] = Var(var.name, int(values[-1]) + 1, old.step, int(values[0]))
        elif isinstance(guard, Formula) and guard.symbol == "<":
            up, down = linear(guard.args[0]), linear(guard.args[1])
            if up.get(var) == 1 and var not in down:
                top = down.get(1, 0) - up.get(1, 0)
                found[var.name] = replace(old, bound=min(old.bound, max(top, old.least + 1)))
            elif down.get(var) == 1 and var not in up:
                found[var.name] = replace(old, least=max(old.least, up.get(1, 0) - down.get(1, 0) + 1))
    return found


@lru_cache(maxsize=1 << 13, typed=True)
def is_below(x: Index, n: Index, guards: tuple[Index, ...]) -> bool:
    """x < n wherever the guards hold.

    >>> group, rows = Var("group", 320), Var("rows", 1 << 20, 1, 1)
    >>> is_below(group // 19 * 100 + 99, 1600, (group < 304,))
    True
    >>> is_below(group % rows, rows, ())
    True
    >>> ctas = Var("ctas", 1 << 16, 2, 2)
    >>> is_below((ctas // 2 * group + 5) // (ctas // 2), 7, (ctas // 2 * group + 5 < 7,))
    True
    """
    return _is_below(x, n, guards, _MOST_CASES)


def _is_below(x: Index, n: Index, guards: tuple[Index, ...], cases: int) -> bool:
    if any(guard is False for guard in guards):
        return True  # nobody is here
    known = narrow(guards)
    x, n = substitute(x, known), substitute(n, known)
    if highest((x, 1), (n, -1)) < 0 or _is_digit_below(x, n, guards):
        return True
    picked = sorted(selections(x) | selections(n), key=str)
    if picked and cases > 0:
        guards = tuple(substitute(g, known) for g in guards)  # else a selection would be another one in them
        return all(
            _is_below(
                replace_part(x, picked[0], value), replace_part(n, picked[0], value),
                _conditions(picked[0], value, (*guards, *when)), cases - 1,
            )
            for value, when in _cases(picked[0])
        )  # fmt: skip
    divisors = sorted(_divisors(x) | _divisors(n))
    own, floored = (_sides(part, known) for part in (guards, _floored(guards, divisors)))
    by_one = (_follows(x, n, a, b, d) for a, b in (*own, *floored) for d in (1, *divisors))
    if any(by_one) or _follows_from_two(x, n, own):
        return True
    simpler = chain(
        _divide_out(x, n), _take_out(x, n, own), _drop_low_bits(x, n), _drop_divisors(x, n), _multiply_up(x, n)
    )
    if cases >= 0 and any(_is_below(*sides, guards, -1) for sides in simpler):
        return True
    domain = domains(variables(x) | variables(n))
    return prod(len(d) for d in domain.values()) <= TRY_ALL and _holds_always(undecided(x, n), guards, domain)


def _conditions(part: Formula, value: Index, conditions: Iterable[Index]) -> tuple[Index, ...]:
    """Conditions with a selection replaced by what it is, taken apart."""
    return tuple(one for c in conditions for one in conjuncts(replace_part(c, part, value)))


def _divide_out(x: Index, n: Index) -> Iterator[tuple[Index, Index]]:
    """Comparisons that x < n follows from: in units of a factor of its terms, those without it at their worst.

    >>> i, k, t = Var("i", 9), Var("k", 9), Var("t", 4)
    >>> [[str(side) for side in sides] for sides in _divide_out(i * 16 + 3, k * 16 + t)]
    [['i', 'k']]
    >>> [[str(side) for side in sides] for sides in _divide_out(i * 4, 13)]
    [['i', '4']]
    """
    merged = _merge([linear(n), linear(x, -1)])
    rest = merged.pop(1, 0)
    for g in sorted({abs(c) for c in merged.values()} - {0, 1}, reverse=True):
        fine = {f: c for f, c in merged.items() if c % g}
        worst = rest - _highest({f: -c for f, c in fine.items()})
        least_room = -((worst - 1) // g)  # g * w + worst > 0 where w is at least this
        whole = {f: c // g for f, c in merged.items() if c % g == 0}
        up, down = (total((s * c, f) for f, c in whole.items() if s * c > 0) for s in (1, -1))
        yield add(down, max(0, least_room - 1)), add(up, max(0, 1 - least_room))


def _take_out(x: Index, n: Index, guards: Sequence[tuple[Index, Index]]) -> Iterator[tuple[Index, Index]]:
    """Comparisons that x < n follows from: what is multiplied by a factor is so often less in x than in n, at least.

    >>> row, k, K = Var("row", 8), Var("k", 99), Var("K", 99)
    >>> [[str(side) for side in sides] for sides in _take_out(row * K + k, K * 10, ())]
    [['k', 'K * 3']]
    >>> chunks = (K + 7) // 8
    >>> is_below(row * chunks + k, chunks * 8, (k < chunks,))
    True
    """
    merged = _merge([linear(n), linear(x, -1)])
    for v in (f for f in linear(n) if f != 1 and least(f) >= 0):
        often = {f: cofactor for f in merged if (cofactor := _cofactor(f, v)) is not None}
        more = _merge(linear(mul(cofactor, -merged[f])) for f, cofactor in often.items())
        room = -min([_highest(more), *(_highest_under(more, a, b) for a, b in guards)])
        if room > 0:
            rest = {f: c for f, c in merged.items() if f not in often}
            up, down = (total((s * c, f) for f, c in rest.items() if s * c > 0) for s in (1, -1))
            yield down, add(mul(v, room), up)


def _highest_under(sums: Mapping[Any, int], a: Index, b: Index) -> int:
    """A value that a sum never exceeds where a < b: what cancels a term of it is taken from it, k(a - b) <= -k."""
    given = _merge([linear(a), linear(b, -1)])
    left = {k: _merge([sums, {f: -k * c for f, c in given.items()}]) for k in _cancelling(sums, given)}
    return min((_highest(rest) - k for k, rest in left.items()), default=_highest(sums))


def _drop_divisors(x: Index, n: Index) -> Iterator[tuple[Index, Index]]:
    """A comparison that x < n follows from: a remainder or a quotient is at most what is divided.

    >>> tile, rows = Var("tile", 99), Var("rows", 9, 1, 1)
    >>> [[str(side) for side in sides] for sides in _drop_divisors(tile % rows + 3, 80)]
    [['tile + 3', '80']]
    """
    merged = linear(x)
    if any(c > 0 and _dividend(f) is not f for f, c in merged.items()):
        yield total((c, _dividend(f) if c > 0 else f) for f, c in merged.items()), n


def _multiply_up(x: Index, n: Index) -> Iterator[tuple[Index, Index]]:
    """Comparisons that are x < n: what is below a quotient, so often as it is by, is below what is divided.

    >>> a, b = Var("a", 999), Var("b", 9)
    >>> [[str(side) for side in sides] for sides in _multiply_up(b, a // 4)]
    [['b * 4 + 3', 'a']]
    """
    merged = _merge([linear(n), linear(x, -1)])
    for f, c in merged.items():
        d = f.args[1] if isinstance(f, Formula) and f.symbol == "/" else 0
        if c == 1 and isinstance(d, int) and d > 1:
            rest = {g: k for g, k in merged.items() if g is not f}
            up, down = (total((s * k * d, g) for g, k in rest.items() if s * k > 0) for s in (1, -1))
            yield add(down, d - 1), add(f.args[0], up)


def _dividend(f: Any) -> Any:
    """What is divided, where it is 0 or more and the divisor at least 1; else what is given."""
    while isinstance(f, Formula) and f.symbol in ("/", "%") and least(f.args[0]) >= 0 < least(f.args[1]):
        f = f.args[0]
    return f


def _drop_low_bits(x: Index, n: Index) -> Iterator[tuple[Index, Index]]:
    """Comparisons that x < n follows from: of a XOR with some low bits, the other side below a multiple of their unit,
    the other terms at their worst.

    >>> a, b = Var("a", 999), Var("b", 4)
    >>> [[str(side) for side in sides] for sides in _drop_low_bits((a ^ b) * 8, 1913)]
    [['a', '240'], ['b', '0']]
    """
    merged = _merge([linear(n), linear(x, -1)])
    for f, c in merged.items():
        if c < 0 and isinstance(f, Formula) and f.symbol == "^" and len(f.args) == 2 and min(map(least, f.args)) >= 0:
            room = -_highest({g: -k for g, k in merged.items() if g is not f})
            for a, b in (f.args, f.args[::-1]):
                unit = 1 << (bound(b) - 1).bit_length()
                yield a, -(room // c) // unit * unit


def _cofactor(f: Any, v: Index) -> Index | None:
    """What ``v`` is multiplied by in a term, if it is a factor of it."""
    if f == v:
        return 1
    if not isinstance(f, Formula) or f.symbol != "*":
        return None
    a, b = f.args
    if (own := _cofactor(a, v)) is not None:
        return mul(own, b)
    return mul(a, own) if (own := _cofactor(b, v)) is not None else None


def _cases(x: Formula) -> list[tuple[Index, tuple[Index, ...]]]:
    """What a selection may be, and when it is that."""
    if x.symbol == "?":
        condition, a, b = x.args
        return [(a, (condition,)), (b, (not_(condition),))]
    a, b = x.args
    first, second = (a, b) if x.symbol == "min" else (b, a)
    return [(a, (less(first, add(second, 1)),)), (b, (less(second, add(first, 1)),))]


def _follows(x: Index, n: Index, a: Index, b: Index, d: int) -> bool:
    """Does d * x < d * n follow from a < b? d(x - n) = (dx - ka) + k(a - b) + (kb - dn), and a - b <= -1."""
    scales = {1} | _cancelling(_merge([linear(x, d), linear(n, -d)]), _merge([linear(a), linear(b, -1)]))
    return any(highest((x, d), (a, -k), (b, k), (n, -d)) - k < 0 for k in scales)


def _follows_from_two(x: Index, n: Index, guards: Sequence[tuple[Index, Index]]) -> bool:
    """Does x < n follow from two guards a < b, the second of which says enough of what the first leaves open?

    >>> i, first, n, most = Var("i", 99), Var("first", 99), Var("n", 999), Var("most", 99)
    >>> pages = (n + 15) // 16
    >>> _follows_from_two(i + first, most, [(i, pages - first), (n, most * 16 + 1)])
    True
    """
    for a, b in guards:
        wanted, given = _merge([linear(x), linear(n, -1)]), _merge([linear(a), linear(b, -1)])
        for k in _cancelling(wanted, given):
            left = _merge([wanted, {f: -k * c for f, c in given.items()}, {1: -k}])  # to be below 0
            up, down = (total((s * c, f) for f, c in left.items() if s * c > 0) for s in (1, -1))
            divisors = sorted(_divisors(up) | _divisors(down))
            others = (other for other in guards if other != (a, b))
            if any(_follows(up, down, *other, d) for other in others for d in (1, *divisors)):
                return True
    return False


def _sides(guards: Iterable[Index], known: Mapping[str, Index]) -> list[tuple[Index, Index]]:
    """Of each guard a < b the two sides, with what is known of variables."""
    found = (guard.args for guard in guards if isinstance(guard, Formula) and guard.symbol == "<")
    return [(substitute(a, known), substitute(b, known)) for a, b in found]


def _is_digit_below(x: Index, n: Index, guards: tuple[Index, ...]) -> bool:
    """x < n for a digit to a base m that is known at launch, 1 or more: y % m < m, and y / m < n where y < m * n."""
    if not isinstance(x, Formula) or x.symbol not in ("%", "/") or isinstance(x.args[1], int) or least(x.args[1]) < 1:
        return False
    y, m = x.args
    return bool(m == n) if x.symbol == "%" else is_below(y, mul(m, n), guards)


def _floored(guards: Iterable[Index], divisors: Iterable[int]) -> Iterator[Index]:
    """What the guards say of quotients: a / d < ceil(b / d) where a < b."""
    for guard in guards:
        if isinstance(guard, Formula) and guard.symbol == "<" and isinstance(guard.args[1], int):
            for d in divisors:
                yield undecided(div(guard.args[0], d), -(-guard.args[1] // d))


def _divisors(x: Index) -> frozenset[int]:
    """Numbers that something in ``x`` is divided by."""
    if not isinstance(x, Formula):
        return frozenset()
    own = {x.args[1]} if x.symbol in ("/", "%") and isinstance(x.args[1], int) else ()
    return frozenset(own).union(*(_divisors(a) for a in x.args))


def _cancelling(wanted: Mapping[Any, int], given: Mapping[Any, int]) -> set[int]:
    """How often a guard may count for what is wanted of a difference: so that a term of both cancels."""
    return {wanted[f] // c for f, c in given.items() if f != 1 and c and wanted.get(f, 0) // c > 0}


def undecided(x: Index, n: Index) -> Index:
    """x < n as an expression to evaluate, undecided by ranges."""
    return Formula("<", (x, n), 2) if variables(x) or variables(n) else x < n  # type: ignore[operator]


def domains(names: Iterable[Var]) -> dict[str, range]:
    """Every value of each variable."""
    return {v.name: range(-(-v.least // v.step) * v.step, v.bound, v.step) for v in names}


def _holds_always(condition: Index, guards: tuple[Index, ...], domain: Mapping[str, range]) -> bool:
    """Tried for every value. Guards are weakened to the variables that are tried: that only makes it harder."""
    grids = np.meshgrid(*(np.arange(d.start, d.stop, d.step) for d in domain.values()), indexing="ij", sparse=True)
    values = dict(zip(domain, grids, strict=True))
    held = np.asarray(evaluate(condition, values))
    for guard in guards:
        weaker = project(guard, frozenset(domain))
        if not isinstance(weaker, int):
            held = held | np.logical_not(evaluate(weaker, values))
    return bool(np.all(held))


def project(guard: Index, names: frozenset[str]) -> Index:
    """What a guard says of the variables ``names`` alone: it holds wherever the guard does; True if it says nothing.

    Terms over other variables take the value that makes the guard easiest to meet.

    >>> print(project(Var("i", 9) * 24 + Var("tx", 24) < 100, frozenset({"i"})))
    i * 24 < 100
    """
    if {v.name for v in variables(guard)} <= names:
        return guard
    if not isinstance(guard, Formula) or guard.symbol != "<":
        return True
    merged = _merge([linear(guard.args[0]), linear(guard.args[1], -1)])
    room, kept = -merged.pop(1, 0), []
    for f, c in merged.items():
        named = {v.name for v in variables(f)}
        if named <= names:
            kept.append((c, f))
        elif named & names:
            return True
        else:
            room -= c * (least(f) if c > 0 else bound(f) - 1)
    up = total((c, f) for c, f in kept if c > 0)
    return Formula("<", (up, add(total((-c, f) for c, f in kept if c < 0), max(0, room))), 2)
