"""The smaller, the larger, and the one that a condition picks."""

from __future__ import annotations

from tilegen.index.expressions import Formula, Index
from tilegen.index.trees import bound, least


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


def selections(x: Index) -> frozenset[Formula]:
    """The selections in ``x`` that hold no other."""
    if not isinstance(x, Formula):
        return frozenset()
    inner = frozenset[Formula]().union(*(selections(a) for a in x.args))
    return inner or (frozenset([x]) if x.symbol in ("min", "max", "?") else inner)
