"""Conditions: expressions that are True or False where the ranges decide them."""

from __future__ import annotations

from tilegen.index.expressions import Index, Op, add, bound, least, less


def equal(a: Index, b: Index) -> Index:
    """a == b; decided when the ranges do not meet."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return False if bound(a) <= least(b) or bound(b) <= least(a) else Op("==", (a, b), 2)


def differ(a: Index, b: Index) -> Index:
    """a != b."""
    return not_(equal(a, b))


def not_(c: Index) -> Index:
    """The opposite of a condition."""
    if isinstance(c, (bool, int)):
        return not c
    assert isinstance(c, Op)
    if c.symbol == "<":
        return less(c.args[1], add(c.args[0], 1))
    if c.symbol in ("==", "!="):
        return Op("!=" if c.symbol == "==" else "==", c.args, 2)
    return (any_of if c.symbol == "&&" else every)(*(not_(a) for a in c.args))


def every(*conditions: Index) -> Index:
    """Conjunction; conditions that always hold are dropped."""
    left = tuple(dict.fromkeys(p for c in conditions for p in conjuncts(c)))
    if any(isinstance(c, bool) and not c for c in left):
        return False
    return True if not left else left[0] if len(left) == 1 else Op("&&", left, 2)


def any_of(*conditions: Index) -> Index:
    """Disjunction; True if one always holds."""
    left = tuple(dict.fromkeys(c for c in conditions if c is not False))
    if any(c is True for c in left):
        return True
    return False if not left else left[0] if len(left) == 1 else Op("||", left, 2)


def conjuncts(c: Index) -> tuple[Index, ...]:
    """The conditions that ``c`` joins with and."""
    return () if c is True else c.args if isinstance(c, Op) and c.symbol == "&&" else (c,)
