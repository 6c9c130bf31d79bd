"""Expressions as sums of factors, and whether the type that they are computed in holds them."""

from __future__ import annotations

from typing import Any

from tilegen.index.expressions import Formula, Index
from tilegen.index.trees import bound, span_of_product


def linear(x: Index, sign: int = 1) -> dict[Any, int]:
    """``x`` as factor -> coefficient, differences taken apart; the constant has factor 1."""
    result: dict[Any, int] = {}
    stack: list[tuple[Index, int]] = [(x, sign)]
    while stack:
        part, c = stack.pop()
        if isinstance(part, int):
            result[1] = result.get(1, 0) + c * int(part)
        elif isinstance(part, Formula) and part.symbol == "+":
            stack += [(a, c) for a in part.args]
        elif isinstance(part, Formula) and part.symbol == "-":
            stack += [(part.args[0], c), (part.args[1], -c)]
        elif isinstance(part, Formula) and part.symbol == "*" and isinstance(part.args[1], int):
            stack.append((part.args[0], c * part.args[1]))
        else:
            result[part] = result.get(part, 0) + c
    return result


def has_room(x: Index) -> bool:
    """Is the bound that sums and products of an expression claim, and are computed by, as large as their parts ask?

    >>> from tilegen.index import Var
    >>> i, j = Var("i", 10), Var("j", 10)
    >>> has_room(Formula("*", (i + j, 8), 145)), has_room(Formula("*", (i + j, 8), 144))
    (True, False)
    """
    if not isinstance(x, Formula):
        return True
    need = x.bound
    if x.symbol == "+":
        need = sum(bound(a) - 1 for a in x.args) + 1
    elif x.symbol == "*":
        need = span_of_product(*x.args)[1] + 1
    return x.bound >= need and all(map(has_room, x.args))
