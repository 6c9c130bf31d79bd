"""Columns laid out over CTAs and trips, and numbers for their rows: the same for the same, over all sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Index, bound, evaluate, substitute, variables
from tilegen.index.rows import Ints, distinct_rows
from tilegen.kept import keep
from tilegen.plan import plain_name
from tilegen.proofs.columns import Column, names_in, uneven_loops
from tilegen.proofs.observed import NEVER, Loops
from tilegen.proofs.relative_places import stays_within
from tilegen.scopes import CTA_AXES

Case = Mapping[str, int]

_MOST_CELLS = 1 << 22  # of one column


@dataclass
class Namer:
    """Numbers for what is met, the same for equal things, over all sizes."""

    numbers: dict[object, int] = field(default_factory=dict)

    def number(self, thing: object) -> int:
        return self.numbers.setdefault(thing, len(self.numbers))


@dataclass(frozen=True)
class Filled:
    """A column's values: over CTAs that differ in it, the trips of loops of these names, and all else.

    ``row``: of each CTA which of the former it is, None where all are one.
    """

    loops: tuple[str, ...]
    values: Ints
    row: Ints | None


@dataclass(frozen=True)
class Table:
    """CTAs, of one size: the axes of each."""

    case: Case
    axes: Mapping[str, Ints]

    def fill(self, c: Column) -> Filled | None:
        """None for too much, and for a place that leaves the spec's region. What stands in trips that a CTA does not
        make has no meaning (``find_made``).
        """
        if c.apart is not None and not stays_within(c.apart, self.case):
            return None
        seen = [substitute(x, self.case) for x in c.seen]
        guards = [substitute(g, self.case) for g in c.guards]
        outer = self._count_trips(c.loops)
        extents = {trip.name: max(1, bound(n) - 1) for trip, n in outer}
        others = {v.name: v.bound for x in (*seen, *guards) for v in variables(x)
                  if v.name not in extents and v.name not in self.axes}  # fmt: skip
        counts = [n for _, n in outer] if c.apart is not None else []
        laid = self._lay_out([*seen, *guards, *counts], extents | others, _MOST_CELLS // max(1, len(seen)))
        if laid is None:
            return None
        shape, at, which = laid
        with np.errstate(divide="ignore", invalid="ignore"):  # where a loop does not get
            is_asked = np.ones(shape, bool)
            for guard in guards:
                is_asked &= np.asarray(evaluate(guard, at), bool)
            found = [np.where(is_asked, evaluate(x, at), NEVER) for x in seen] or [np.where(is_asked, 1, NEVER)]
            if c.apart is not None:
                is_asked &= _are_made(outer, at)
                if np.logical_and(np.not_equal(found[0], 0), is_asked).any():
                    return None
        values = np.stack(found, axis=-1).astype(np.int64).reshape(*shape[: 1 + len(outer)], -1)
        return Filled(tuple(plain_name(trip.name) for trip, _ in outer), values, which)

    @keep
    def find_made(self, loops: Loops) -> NDArray[np.bool_] | None:
        """(CTAs, *trips of loops with different counts): which trips are made; None for too many."""
        outer = self._count_trips(loops)
        extents = {trip.name: max(1, bound(n) - 1) for trip, n in outer}
        laid = self._lay_out([n for _, n in outer], extents, _MOST_CELLS)
        if laid is None:
            return None
        shape, at, which = laid
        with np.errstate(divide="ignore", invalid="ignore"):  # where a loop does not get
            is_made = np.broadcast_to(_are_made(outer, at), shape)
        return self.repeat(is_made, which)

    def repeat(self, rows: NDArray[Any], which: Ints | None) -> NDArray[Any]:
        """For each CTA its row; ``which``: as ``Filled.row`` has it."""
        many = len(self.axes[CTA_AXES[0]])
        return np.broadcast_to(rows, (many, *rows.shape[1:])) if which is None else rows[which]

    def _lay_out(
        self, asked: Sequence[Index], extents: Mapping[str, int], most: int
    ) -> tuple[tuple[int, ...], dict[str, Any], Ints | None] | None:  # fmt: skip
        """A shape over CTAs that differ in what is asked and over other variables, the values of all along it, and of
        each CTA which row it is. None for a shape of more than ``most`` cells.
        """
        axes, which = self._distinct_ctas(asked)
        shape = (len(next(iter(axes.values()), [0])), *extents.values())
        if prod(shape) > most:
            return None
        at: dict[str, Any] = {name: x.reshape(-1, *[1] * len(extents)) for name, x in axes.items()}
        for k, name in enumerate(extents, 1):
            at[name] = np.arange(shape[k]).reshape([-1 if d == k else 1 for d in range(len(shape))])
        return shape, at, which

    def _count_trips(self, loops: Loops) -> Loops:
        return tuple((trip, substitute(n, self.case)) for trip, n in uneven_loops(loops))

    def _distinct_ctas(self, asked: Sequence[Index]) -> tuple[dict[str, Ints], Ints | None]:
        """The axes that are asked for, each way in which CTAs have them once; and which way each CTA has."""
        named = names_in(asked)
        axes = {name: x for name, x in self.axes.items() if name in named}
        if not axes:
            return {}, None
        rows, which = np.unique(np.stack([*axes.values()], axis=1), axis=0, return_inverse=True)
        return dict(zip(axes, rows.T, strict=True)), which.reshape(-1)


def _are_made(outer: Loops, at: Mapping[str, Any]) -> NDArray[np.bool_]:
    is_made: NDArray[np.bool_] = np.ones((), bool)
    for trip, n in outer:
        is_made = is_made & (at[trip.name] < evaluate(n, at))
    return is_made


def number_rows(rows: Ints, key: object, namer: Namer) -> Ints:
    """A number for each row, the same for the same rows under one key."""
    firsts, which = distinct_rows(rows)
    return np.array([namer.number((key, rows[k].tobytes())) for k in firsts.tolist()])[which]


def spread(x: Ints, shape: tuple[int, ...]) -> Ints:
    """The array with -1 for trips that it does not have."""
    pads = [(0, n - size) for size, n in zip(x.shape, shape, strict=True)]
    return np.pad(x, pads, constant_values=-1) if any(pad for _, pad in pads) else x
