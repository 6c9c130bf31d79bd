"""What comparisons compare with 0, and how that goes on along a variable: by never falling, or by repeating."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from tilegen.index import (
    Formula,
    Index,
    Var,
    add,
    least,
    mod,
    mul,
    replace_part,
    sub,
    substitute,
    total,
    variables,
)
from tilegen.index.linear import linear
from tilegen.index.recurrences import recurrence

COMPARING = ("<", "==", "!=")
MOST_PERIOD = 1 << 13  # of the remainders along one variable
MOST_CLASSES = 128  # of residues that outcomes tell apart
_MOST_ARMS = 16  # of the selections within one comparison
_MOST_PAIRS = 64  # of comparisons that are taken together


def comparisons(x: Index) -> Iterator[Formula]:
    """Every comparison in an expression."""
    if isinstance(x, Formula):
        for part in x.args:
            yield from comparisons(part)
        if x.symbol in COMPARING:
            yield x


def differences(x: Index) -> Iterator[Index]:
    """What is compared with 0 in an expression: sides of comparisons, and of the smaller or larger of two."""
    if not isinstance(x, Formula):
        return
    for part in x.args:
        yield from differences(part)
    if x.symbol in (*COMPARING, "min", "max"):
        for a, b in zip(x.args, x.args[1:], strict=False):
            yield from without_selections(sub(a, b))


def without_selections(x: Index) -> list[Index]:
    """The expression with each arm of what a condition, a minimum or a maximum picks, but for those in divisors."""
    found: list[Index] = []
    left = [x]
    while left and len(found) + len(left) <= _MOST_ARMS:
        one = left.pop()
        part = find_selection(one)
        if part is None:
            found.append(one)
        else:
            left += [replace_part(one, part, arm) for arm in (part.args[1:] if part.symbol == "?" else part.args)]
    return [*found, *left]


def find_selection(x: Index) -> Formula | None:
    """A selection that holds no other."""
    if not isinstance(x, Formula):
        return None
    inside = x.args[:1] if x.symbol in ("/", "%") else x.args
    inner = next((found for a in inside if (found := find_selection(a)) is not None), None)
    return inner or (x if x.symbol in ("min", "max", "?") else None)


@lru_cache(maxsize=1 << 12)
def slope(x: Index, v: Var) -> int | None:
    """1 if an expression never falls along a variable, -1 if it never rises, 0 if it stays; None if that is unknown."""
    if v.name not in {u.name for u in variables(x)}:
        return 0
    if isinstance(x, Var):
        return 1
    assert isinstance(x, Formula)
    if x.symbol in ("+", "-"):
        signs = [1, -1] if x.symbol == "-" else [1] * len(x.args)
        slopes = [None if (own := slope(a, v)) is None else own * sign for a, sign in zip(x.args, signs, strict=True)]
        if None in slopes or {1, -1} <= {*slopes}:
            return None
        return next((own for own in slopes if own), 0)
    if x.symbol == "*" and all(least(a) >= 0 for a in x.args):
        slopes = [slope(a, v) for a in x.args]
        return None if None in slopes or {1, -1} <= {*slopes} else next((own for own in slopes if own), 0)
    if x.symbol in ("*", "/") and least(x.args[1]) >= 0 and slope(x.args[1], v) == 0:
        return slope(x.args[0], v)
    return None


def combine(differences: Sequence[Index], names: set[str]) -> list[Index]:
    """Of pairs that share two variables what is compared once one of them is eliminated."""
    taken = [(x, linear(x)) for x in differences]
    found: dict[Index, None] = {}
    for (_, a), (_, b) in combinations(taken, 2):
        shared = [f for f in a.keys() & b.keys() if isinstance(f, Var) and f.name in names]
        for f in shared if len(shared) > 1 else ():
            merged = {g: a.get(g, 0) * b[f] - b.get(g, 0) * a[f] for g in a.keys() | b.keys()}
            x = total((c, g) for g, c in merged.items() if c)
            if variables(x) and len(found) < _MOST_PAIRS:
                found[x] = None
    return [x for x in found if x not in differences]


def divisibility(x: Index, names: set[str]) -> list[Index]:
    """What must be 0 for the sides of an equation to meet: for each variable the rest of all others by its factor."""
    found: list[Index] = []
    for part in comparisons(x):
        if part.symbol in ("==", "!="):
            merged = linear(sub(*part.args))
            for f, c in merged.items():
                by = abs(c) * (f.step if isinstance(f, Var) else 1)
                if by > 1 and not names.isdisjoint(u.name for u in variables(f)):
                    rest = total((k, g) for g, k in merged.items() if g != f and k)
                    found.append(mod(add(rest, -(min(0, least(rest)) // by) * by), by))
    return [x for x in found if isinstance(x, Formula)]


@lru_cache(maxsize=1 << 12)
def factors_in(x: Index) -> frozenset[str]:
    """Variables that are multiplied with others: with each of their values these have other thresholds."""
    if not isinstance(x, Formula):
        return frozenset()
    names = [frozenset(v.name for v in variables(a)) for a in x.args] if x.symbol == "*" else []
    own = frozenset[str]().union(*names) if sum(map(bool, names)) > 1 else frozenset[str]()
    return own.union(*map(factors_in, x.args))


def small_remainders(x: Index) -> list[Index]:
    """Remainders of one variable that are added up with others: together they come out as no end of a range shows."""
    if len(variables(x)) < 2:
        return []
    parts = [f for f in linear(x) if isinstance(f, Formula) and f.symbol in ("%", "&")]
    return [f for f in parts if len(variables(f)) == 1 and f.bound <= MOST_CLASSES]


@dataclass(frozen=True)
class Slope:
    """How an expression goes on along a variable, in its steps: it rises or falls (``slope``), or repeats (``period``).

    ``rise``: from each value to the next one, None where that differs.
    """

    slope: int = 0
    period: int = 0
    rise: int | None = None


@lru_cache(maxsize=1 << 12)
def rule_of(x: Index, v: Var) -> Slope | None:
    """None where neither is known."""
    steps = Var(v.name, (v.bound - 1) // v.step + 1)
    found = recurrence(substitute(x, {v.name: mul(steps, v.step)}), steps)
    is_even = found is not None and found.period == 1 and not found.breakpoints
    way = slope(x, v)
    if way is not None:
        return Slope(way, rise=found.rise if found is not None and is_even else None)
    if found is None or found.rise or found.breakpoints or found.period > MOST_PERIOD:
        return Slope(period=steps.bound) if steps.bound <= MOST_CLASSES else None
    return Slope(period=found.period)
