"""What an expression is made of, and what is known of its values."""

from __future__ import annotations

from functools import cached_property
from math import gcd
from typing import Any, Union


class Name:
    """A C variable as printing sees it: ``least <= value < bound``, always a multiple of ``step``."""

    name: str
    bound: int
    step: int
    least: int

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.bound, self.step, self.least))

    def __str__(self) -> str:
        return self.name


class Tree:
    """An operator between texts as printing sees it; ``bound`` is one more than its largest value.

    What else is known of its values is found out when it is first asked for, and kept.
    """

    symbol: str
    args: tuple[Any, ...]
    bound: int

    @cached_property
    def _hash(self) -> int:
        return hash((self.symbol, self.args))

    @cached_property
    def names(self) -> frozenset[str]:
        """Of the variables in it."""
        return frozenset().union(*(names_of(a) for a in self.args))

    @cached_property
    def least(self) -> int:
        return _least(self)

    @cached_property
    def step(self) -> int:
        return _multiple(self)

    @cached_property
    def has_signs(self) -> bool:
        return self.least < 0 or any(map(has_signs, self.args))


Text = Union[int, Name, Tree]  # noqa: UP007 - a runtime alias


def names_of(x: Text) -> frozenset[str]:
    """The names of the variables of an expression.

    >>> from tilegen.index import Var
    >>> sorted(names_of(Var("bx", 8) * 4 + Var("tx", 4)))
    ['bx', 'tx']
    """
    return x.names if isinstance(x, Tree) else frozenset([x.name]) if isinstance(x, Name) else frozenset()


def bound(x: Text) -> int:
    """One more than the largest value.

    >>> from tilegen.index import Var
    >>> bound(Var("laneid", 32) // 8)
    4
    """
    return int(x) + 1 if isinstance(x, int) else x.bound


def least(x: Text) -> int:
    """A value that ``x`` never goes below; quotients and remainders are never negative, as their dividends are not.

    >>> from tilegen.index import Var
    >>> least(Var("k", 8) - 1), least((Var("k", 8) - 1) % 4)
    (-1, 0)
    """
    return int(x) if isinstance(x, int) else x.least


def _least(x: Tree) -> int:
    if x.symbol == "+":
        return sum(least(a) for a in x.args)
    if x.symbol == "-":
        return least(x.args[0]) - (bound(x.args[1]) - 1)
    if x.symbol == "*":
        return span_of_product(*x.args)[0]
    if x.symbol == "/":
        return max(0, least(x.args[0])) // max(1, bound(x.args[1]) - 1)
    if x.symbol == "min":
        return min(least(a) for a in x.args)
    if x.symbol == "max":
        return max(least(a) for a in x.args)
    if x.symbol == "?":
        return min(least(a) for a in x.args[1:])
    if x.symbol == "table":
        return least(x.args[3])
    return 0


def span_of_product(a: Text, b: Text) -> tuple[int, int]:
    """The least and the largest value of a product."""
    ends = [x * y for x in (least(a), bound(a) - 1) for y in (least(b), bound(b) - 1)]
    return min(ends), max(ends)


def has_signs(x: Text) -> bool:
    """May ``x``, or any part of it, be negative as far as ranges tell?

    >>> from tilegen.index import Var
    >>> has_signs(Var("k", 8) + 1 - Var("j", 3)), has_signs(Var("k", 8, 1, 2) - Var("j", 3))
    (True, False)
    """
    return x.has_signs if isinstance(x, Tree) else least(x) < 0


def multiple(x: Text) -> int:
    """The largest known divisor of every value (0 for the constant 0).

    >>> from tilegen.index import Var
    >>> multiple(Var("bx", 8) * 64 + Var("c", 64, 4))
    4
    """
    return abs(int(x)) if isinstance(x, int) else x.step


def _multiple(x: Tree) -> int:
    parts = [multiple(a) for a in x.args]
    if x.symbol == "*":
        return parts[0] * parts[1]
    if x.symbol in ("+", "-", "%", "min", "max"):
        return gcd(*parts)
    if x.symbol == "?":
        return gcd(*parts[1:])
    if x.symbol == "/" and parts[1] and parts[0] % parts[1] == 0 and isinstance(x.args[1], int):
        return parts[0] // parts[1]
    if x.symbol == "^":
        return gcd(gcd(*parts), 1 << 62)
    if x.symbol == "table":
        return gcd(parts[3], parts[5])
    return 1


def is_element_below(a: Any, b: Any) -> bool:
    """Is ``b`` the end of the range of an element of a table, whose sizes are not known? Or of the largest of such."""
    if not isinstance(a, Tree) or a.symbol not in ("table", "max"):
        return False
    if a.symbol == "table":
        return bool(a.args[4] == b)
    return all(is_element_below(x, b) or bound(x) <= least(b) for x in a.args)
