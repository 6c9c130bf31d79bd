"""Several trips of unrolled loops as one wider step: every operand has a row for each thread and trip."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilegen.index import Var
from tilegen.interpret.threads import Array
from tilegen.plan import Effects, Step, Touch

Columns = tuple[tuple[Touch, Array], ...]  # of operands in registers: of each, as it stands in its step


@dataclass(frozen=True)
class Unrolled:
    """Unrolled loops one right inside the other, with nothing else but steps that write registers.

    ``names``: the variables that places of operands use, but for the loops' own.
    """

    variables: tuple[Var, ...]
    counts: tuple[int, ...]
    body: tuple[tuple[Step, Effects], ...]
    memories: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def touches(self) -> list[Touch]:
        return [t for _, touched in self.body for t in touched.touches]


@dataclass(frozen=True)
class Fold:
    """Trips of one step that fold elements into a few results: the columns of those, and of what goes into each.

    ``taken``: (results, elements), each result before what is folded into it, in order.
    """

    function: str
    dtype: str
    taken: Array


@dataclass(frozen=True)
class Together:
    """Trips that are carried out as one: the values of the loops' variables in each of them, in order.

    ``grid``: how many trips along each loop, or of all loops in one number. ``columns``: of each operand in registers,
    the elements in each trip, (trips, elements).
    """

    variables: tuple[Var, ...]
    trips: tuple[tuple[int, ...], ...]
    grid: tuple[int, ...]
    columns: Columns
    fold: Fold | None = None
    taken: dict[int, tuple[slice | Array, tuple[int, ...]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.trips)

    def holds(self, touch: Touch) -> bool:
        """Is an operand in registers?"""
        return any(own is touch for own, _ in self.columns)

    def find(self, touch: Touch) -> tuple[slice | Array, tuple[int, ...]]:
        """The columns of a register operand, one trip's behind another's, and the grid of those trips.

        Along a loop in which its place stays the same it is there once.
        """
        number = next(k for k, (own, _) in enumerate(self.columns) if own is touch)
        found = self.taken.get(number)
        if found is None:
            columns = self.columns[number][1].reshape(*self.grid, -1)
            for axis in range(len(self.grid)):
                first = columns.take([0], axis)
                columns = first if (columns == first).all() else columns
            found = self.taken[number] = _as_slice(columns.ravel()), columns.shape[:-1]
        return found


def _as_slice(columns: Array) -> slice | Array:
    first = int(columns[0])
    is_run = np.array_equal(columns, np.arange(first, first + len(columns)))
    return slice(first, first + len(columns)) if is_run else columns
