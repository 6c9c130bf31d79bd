"""An expression as a tree: its variables, its operators, and other values for its names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from tilegen.index.conditions import any_of, differ, equal, every
from tilegen.index.expressions import Index, Op, Var, div, less, masked, mod, mul, sub, terms, total, xor


def variables(x: Index) -> frozenset[Var]:
    """The variables of an expression."""
    if isinstance(x, Var):
        return frozenset([x])
    return frozenset().union(*(variables(a) for a in x.args)) if isinstance(x, Op) else frozenset()


def count_operators(x: Index) -> int:
    """Operators in the printed text: the address operations of a cost."""
    return len(x.args) - 1 + sum(count_operators(a) for a in x.args) if isinstance(x, Op) else 0


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
    if not isinstance(x, Op):
        return x
    args = [substitute(a, values) for a in x.args]
    return x if all(a is b for a, b in zip(args, x.args, strict=True)) else _REBUILD[x.symbol](*args)
