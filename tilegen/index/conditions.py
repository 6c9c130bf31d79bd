"""Conditions, which are True or False where the ranges decide them, and expressions as trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, reduce

from tilegen.index.expressions import (
    Formula,
    Index,
    Var,
    add,
    bound,
    div,
    least,
    less,
    masked,
    mod,
    mul,
    sub,
    terms,
    total,
    xor,
)


def equal(a: Index, b: Index) -> Index:
    """a == b; decided when the ranges do not meet."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return False if bound(a) <= least(b) or bound(b) <= least(a) else Formula("==", (a, b), 2)


def differ(a: Index, b: Index) -> Index:
    """a != b."""
    return not_(equal(a, b))


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


def _disjuncts(c: Index) -> tuple[Index, ...]:
    return () if c is False else c.args if isinstance(c, Formula) and c.symbol == "||" else (c,)


# ---------------------------------------------------------------- an expression as a tree
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
}  # fmt: skip


def substitute(x: Index, values: Mapping[str, Index]) -> Index:
    """``x`` with variables replaced by name, simplified again."""
    if isinstance(x, Var):
        return values.get(x.name, x)
    if not isinstance(x, Formula):
        return x
    args = [substitute(a, values) for a in x.args]
    return x if all(a is b for a, b in zip(args, x.args, strict=True)) else _REBUILD[x.symbol](*args)
