"""Runs: counts of places at equal distances, on one side or on several at once; contiguous neighbours become one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from tilegen.index.expressions import Index, Var, mul

Number = TypeVar("Number", bound=Index | None)  # ints, or Index, or None too where a side may have no stride


@dataclass(frozen=True)
class Run(Generic[Number]):
    """``extent`` places that lie ``strides[k]`` apart on side k; None where they lie at no one distance there.

    Only runs of one ``guard`` fuse: an axis, a dimension, or whatever else a run may not reach across.
    """

    extent: Number
    strides: tuple[Number, ...]
    guard: Hashable = None

    def follow(self, outer: Self) -> Self:
        """The one run that this and an outer one are, which must be contiguous."""
        return replace(self, extent=mul(outer.extent, self.extent))  # type: ignore[arg-type]


Fused = TypeVar("Fused", bound=Run[Any])


def fuse(runs: Iterable[Fused], side: int | None = None) -> tuple[Fused, ...]:
    """Runs, outermost first, with neighbours joined where one step of the outer is all of the inner.

    That has to hold on every side, or on ``side`` alone.

    >>> fuse([Run(4, (8, 64)), Run(8, (1, 8)), Run(8, (0, 1))])
    (Run(extent=32, strides=(1, 8), guard=None), Run(extent=8, strides=(0, 1), guard=None))
    >>> [run.extent for run in fuse([Run(4, (8, 64)), Run(8, (1, 8)), Run(8, (0, 1))], side=1)]
    [256]
    """
    fused: list[Fused] = []
    for run in runs:
        fused.append(run.follow(fused.pop()) if fused and _is_contiguous(fused[-1], run, side) else run)
    return tuple(fused)


def _is_contiguous(outer: Run[Any], inner: Run[Any], side: int | None) -> bool:
    if outer.guard != inner.guard:
        return False
    sides = range(len(inner.strides)) if side is None else (side,)
    return all(
        a is not None and b is not None and a == mul(b, inner.extent)
        for k in sides for a, b in [(outer.strides[k], inner.strides[k])]
    )  # fmt: skip


def counter(name: str, count: int, step: int = 1) -> Index:
    """The variable that counts so many values, times ``step``; 0 where there is one value alone.

    >>> print(counter("i", 8, 4), counter("i", 1, 4))
    i * 4 0
    """
    return mul(Var(name, count), step) if count > 1 else 0
