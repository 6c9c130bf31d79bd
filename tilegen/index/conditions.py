"""Conditions, which are True or False where the ranges decide them, what they pick, and expressions as trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce

from tilegen.index.contents import content
from tilegen.index.expressions import (
    Formula,
    Index,
    Var,
    add,
    div,
    less,
    masked,
    mod,
    mul,
    sub,
    terms,
    total,
    xor,
)
from tilegen.index.trees import bound, has_signs, least


def minimum(a: Index, b: Index) -> Index:
    """The smaller of two; decided where ranges decide it.

    >>> from tilegen.index import Var
    >>> print(minimum(Var("k", 100), 64), minimum(Var("k", 8), 64))
    min(k, 64) k
    """
    if bound(a) - 1 <= least(b) or a == b:
        return a
    if bound(b) - 1 <= least(a):
        return b
    return Formula("min", (a, b), min(bound(a), bound(b)))


def maximum(a: Index, b: Index) -> Index:
    """The larger of two."""
    if bound(a) - 1 <= least(b) or a == b:
        return b
    if bound(b) - 1 <= least(a):
        return a
    return Formula("max", (a, b), max(bound(a), bound(b)))


def select(condition: Index, a: Index, b: Index) -> Index:
    """``a`` where the condition holds, else ``b``; the arm that is not taken has no part in it.

    >>> from tilegen.index import Var
    >>> print(select(Var("k", 8) < 4, Var("k", 8) + 1, 0))
    k < 4 ? k + 1 : 0
    """
    if isinstance(condition, int) or a == b:
        return a if condition else b
    return Formula("?", (condition, a, b), max(bound(a), bound(b)))


def table_value(
    table: tuple[int, int], number: Index, low: Index, high: Index, step: int = 1, marks: tuple[Index, ...] = ()
) -> Index:  # fmt: skip
    """An element of a table, by its number: ``low <= value < high``, in steps.

    ``table``: its kind of contents, one of index.contents, and its key. Nothing else is known of the element, as of a
    variable: the same one has the same value.

    >>> from tilegen.index import Var
    >>> print(table_value((2, 77), Var("bx", 9), 0, 10))
    table(2, 77, bx, 0, 10, 1)
    """
    if all(isinstance(x, int) for x in (number, low, high, *marks)):
        return int(content(*table, number, low, high, step, *marks))
    return Formula("table", (*table, number, low, high, step, *marks), max(bound(high) - 1, least(low) + 1))


def selections(x: Index) -> frozenset[Formula]:
    """The selections in ``x`` that hold no other."""
    if not isinstance(x, Formula):
        return frozenset()
    inner = frozenset[Formula]().union(*(selections(a) for a in x.args))
    return inner or (frozenset([x]) if x.symbol in ("min", "max", "?") else inner)


def equal(a: Index, b: Index) -> Index:
    """a == b; decided when the ranges do not meet."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return False if bound(a) <= least(b) or bound(b) <= least(a) else Formula("==", (a, b), 2)


def differ(a: Index, b: Index) -> Index:
    """a != b."""
    return not_(equal(a, b))


COMPARISONS: dict[str, Callable[[Index, Index], Index]] = {
    "<": less, ">": lambda a, b: less(b, a), "==": equal, "!=": differ,
    "<=": lambda a, b: less(a, add(b, 1)), ">=": lambda a, b: less(b, add(a, 1)),
}  # fmt: skip


def not_(c: Index) -> Index:
    """The opposite of a condition."""
    if isinstance(c, (bool, int)):
        return not c
    assert isinstance(c, Formula)
    if c.symbol == "<":
        return less(c.args[1], add(c.args[0], 1))
    if c.symbol in ("==", "!="):
        return Formula("!=" if c.symbol == "==" else "==", c.args, 2)
    return (any_of if c.symbol == "&&" else every)(*(not_(a) for a in c.args))


def every(*conditions: Index) -> Index:
    """Conjunction; conditions that always hold are dropped."""
    left = tuple(dict.fromkeys(p for c in conditions for p in conjuncts(c)))
    if any(isinstance(c, bool) and not c for c in left):
        return False
    return True if not left else left[0] if len(left) == 1 else Formula("&&", left, 2)


def any_of(*conditions: Index) -> Index:
    """Disjunction; True if one always holds."""
    left = tuple(dict.fromkeys(p for c in conditions for p in _disjuncts(c)))
    if any(c is True for c in left):
        return True
    return False if not left else left[0] if len(left) == 1 else Formula("||", left, 2)


def conjuncts(c: Index) -> tuple[Index, ...]:
    """The conditions that ``c`` joins with and."""
    return () if c is True else c.args if isinstance(c, Formula) and c.symbol == "&&" else (c,)


def consequences(c: Index) -> tuple[Index, ...]:
    """The conditions that ``c`` joins with and, and what they say of the parts of a minimum, a maximum, a quotient.

    >>> k, n, m = Var("k", 64), Var("n", 64), Var("m", 64)
    >>> [str(part) for part in consequences(less(k + 1, minimum(n, div(m, 4))))]
    ['k + 1 < min(n, m >> 2)', 'k + 1 < n', 'k + 1 < m >> 2', 'k * 4 + 8 < m + 1']
    """
    found = dict.fromkeys(conjuncts(c))
    left = list(found)
    while left and len(found) < _MOST_CONSEQUENCES:
        more = [one for one in _derive(left.pop(0)) if one is not True and one not in found]
        found |= dict.fromkeys(more)
        left += more
    return tuple(found)


_MOST_CONSEQUENCES = 32


def _derive(c: Index) -> list[Index]:
    """What follows from one comparison."""
    if not isinstance(c, Formula) or c.symbol != "<":
        return []
    a, b = _move_signs(*c.args)
    found = [less(a, part) for parts in _alternatives(b, "min") for part in parts]
    found += [less(part, b) for parts in _alternatives(a, "max") for part in parts]
    for parts in _alternatives(b, "max"):  # below the larger, and not below all of its parts but one
        possible = [part for part in parts if bound(sub(part, a)) > 1]
        found += [less(a, part) for part in possible if len(possible) == 1]
    if isinstance(b, Formula) and b.symbol == "/":
        found.append(less(add(mul(a, b.args[1]), b.args[1]), add(b.args[0], 1)))
    return found


def _move_signs(a: Index, b: Index) -> tuple[Index, Index]:
    """The sides of a < b with what is taken away on one added on the other.

    >>> from tilegen.index import Var
    >>> n, bx, k = Var("n", 64), Var("bx", 64), Var("k", 64)
    >>> [str(x) for x in _move_signs(k, sub(minimum(n, 9) * 8, bx))]
    ['k + bx', 'min(n, 9) * 8']
    """
    left, right = _flatten(a), _flatten(b)
    more, less_ = ([(-c, f) for c, f in side if c < 0] for side in (right, left))
    return (total([*((c, f) for c, f in left if c > 0), *more]), total([*((c, f) for c, f in right if c > 0), *less_]))


def _flatten(x: Index, sign: int = 1) -> list[tuple[int, Index]]:
    """The terms of a sum, differences taken apart."""
    if isinstance(x, Formula) and x.symbol in ("+", "-"):
        signs = [sign, *(sign if x.symbol == "+" else -sign for _ in x.args[1:])]
        return [t for a, s in zip(x.args, signs, strict=True) for t in _flatten(a, s)]
    return [(sign * c, f) for c, f in terms(x)]


def _alternatives(x: Index, symbol: str) -> list[list[Index]]:
    """For each selection in a sum, the sum with each of what it selects from in its place."""
    pairs = terms(x)
    return [
        [total([*pairs[:i], *((k * c, g) for c, g in terms(arg)), *pairs[i + 1 :]]) for arg in f.args]
        for i, (k, f) in enumerate(pairs)
        if isinstance(f, Formula) and f.symbol == symbol and k > 0
    ]


def replace_part(x: Index, part: Index, by: Index) -> Index:
    """``x`` with one of its parts replaced, wherever it stands, simplified again."""
    if x == part:
        return by
    if not isinstance(x, Formula):
        return x
    args = [replace_part(a, part, by) for a in x.args]
    return x if all(a is b for a, b in zip(args, x.args, strict=True)) else rebuild(x, args)


def _disjuncts(c: Index) -> tuple[Index, ...]:
    return () if c is False else c.args if isinstance(c, Formula) and c.symbol == "||" else (c,)


# ---------------------------------------------------------------- an expression as a tree
@lru_cache(maxsize=1 << 16)
def dividends(x: Index) -> tuple[tuple[Index, Index], ...]:
    """The parts of ``x`` that must not be negative but may be, as far as ranges tell, each with when it is evaluated.

    >>> k = Var("k", 8)
    >>> [(str(part), str(when)) for part, when in dividends(select(less(0, k), (k - 1) % 3, 0))]
    [('k - 1', '0 < k')]
    """
    if not isinstance(x, Formula) or not has_signs(x):
        return ()
    found: list[tuple[Index, Index]] = []
    before: list[Index] = []  # what holds where an argument is evaluated
    for n, a in enumerate(x.args):
        here = every(*before)
        if x.symbol == "?" and n:
            here = x.args[0] if n == 1 else not_(x.args[0])
        found += [(part, every(here, when)) for part, when in dividends(a)]
        if x.symbol in ("&&", "||"):
            before.append(a if x.symbol == "&&" else not_(a))
    parts = x.args if x.symbol == "^" else x.args[:1] if x.symbol in ("/", "%", "&") else ()
    return (*found, *((part, True) for part in parts if least(part) < 0))


@lru_cache(maxsize=1 << 16)
def variables(x: Index) -> frozenset[Var]:
    """The variables of an expression."""
    if isinstance(x, Var):
        return frozenset([x])
    return frozenset().union(*(variables(a) for a in x.args)) if isinstance(x, Formula) else frozenset()


@lru_cache(maxsize=1 << 16)
def count_operators(x: Index) -> int:
    """Operators in the printed text: the address operations of a cost."""
    return len(x.args) - 1 + sum(count_operators(a) for a in x.args) if isinstance(x, Formula) else 0


def _fold(function: Callable[[Index, Index], Index]) -> Callable[..., Index]:
    return lambda *args: reduce(function, args)


_REBUILD: dict[str, Callable[..., Index]] = {
    "+": lambda *args: total(t for a in args for t in terms(a)), "-": sub, "*": _fold(mul), "/": div, "%": mod,
    "^": xor, "&": masked, "<": less, "==": equal, "!=": differ, "&&": every, "||": any_of,
    "min": _fold(minimum), "max": _fold(maximum), "?": select,
    "table": lambda kind, key, number, low, high, step, *marks: table_value(
        (kind, key), number, low, high, step, marks
    ),
}  # fmt: skip


def rebuild(x: Formula, args: Sequence[Index]) -> Index:
    """The same operator applied to other arguments, simplified."""
    return _REBUILD[x.symbol](*args)


def substitute(x: Index, values: Mapping[str, Index]) -> Index:
    """``x`` with variables replaced by name, simplified again."""
    if isinstance(x, Var):
        return values.get(x.name, x)
    if not isinstance(x, Formula) or x.names.isdisjoint(values):
        return x
    args = [a if a.__class__ is int else substitute(a, values) for a in x.args]
    for a, b in zip(args, x.args, strict=True):
        if a is not b:
            return rebuild(x, args)
    return x
