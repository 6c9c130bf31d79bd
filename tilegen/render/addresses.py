"""Where an element lies, as C: its subscript, itself, a pointer to it."""

from __future__ import annotations

from typing import Any

from tilegen.index import Index, Op, bound, mul, to_c
from tilegen.plan import Ref


def subscript(ref: Ref) -> Index:
    """What stands between the brackets: the flat offset, or per dimension (coordinate) * pitch, kept factored.

    >>> from tilegen.index import Var
    >>> from tilegen.plan import Memory
    >>> X = Memory("X", "float32", (6400, 8000), (8000, 1), "global")
    >>> print(subscript(X[Var("by", 100) * 64 + Var("row", 64), Var("bx", 125) * 64]))
    (by * 64 + row) * 8000 + bx * 64
    """
    if len(ref.at) < 2:
        return ref.offset
    parts: list[Any] = []
    for x, pitch in zip(ref.at, ref.memory.pitches, strict=True):
        term = _factored(x, pitch)
        parts += term.args if isinstance(term, Op) and term.symbol == "+" else [term]
    constant = sum(p for p in parts if isinstance(p, int))
    parts = [p for p in parts if not isinstance(p, int)] + ([constant] if constant else [])
    if len(parts) < 2:
        return parts[0] if parts else 0
    return Op("+", tuple(parts), sum(bound(p) - 1 for p in parts) + 1)


def _factored(x: Index, pitch: Index) -> Index:
    """x * pitch, a sum not distributed."""
    if isinstance(x, int) or (isinstance(pitch, int) and pitch in (0, 1)):
        return mul(x, pitch)
    if isinstance(x, Op) and x.symbol == "+":
        return Op("*", (x, pitch), (bound(x) - 1) * (bound(pitch) - 1) + 1)
    return mul(x, pitch)


def element(ref: Ref) -> str:
    """The C lvalue of an element.

    >>> from tilegen.index import Var
    >>> from tilegen.plan import Memory
    >>> element(Memory("A", "float32", (256,), (1,), "shared")[Var("s", 2) * 128])
    'A[s * 128]'
    """
    return f"{ref.memory.name}[{to_c(subscript(ref))}]"


def pointer(ref: Ref) -> str:
    """The address of an element: ``A``, or ``&A[s * 128]``."""
    return ref.memory.name if is_zero(subscript(ref)) else f"&{element(ref)}"


def is_zero(x: Index) -> bool:
    """The constant 0: not an expression that may happen to be 0."""
    return isinstance(x, int) and x == 0
