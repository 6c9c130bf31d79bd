"""Several trips of unrolled loops as one wider step: every operand has a row for each thread and trip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tilegen.index import Var
from tilegen.interpret.threads import Array
from tilegen.plan import Effects, Step, Touch


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

    ``columns``: of each operand in registers, by its id, the elements in each trip: (trips, elements).
    """

    variables: tuple[Var, ...]
    trips: tuple[tuple[int, ...], ...]
    columns: Mapping[int, Array]
    fold: Fold | None = None
    slices: dict[int, slice | Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.trips)

    def is_fixed(self, touch: Touch) -> bool:
        """Has a register operand the same place in every trip?"""
        columns = self.columns[id(touch)]
        return bool((columns == columns[0]).all())

    def where(self, touch: Touch) -> slice | Array:
        """The columns of a register operand in all trips, one behind the other."""
        found = self.slices.get(id(touch))
        if found is None:
            found = self.slices[id(touch)] = _as_slice(self.columns[id(touch)].ravel())
        return found


def _as_slice(columns: Array) -> slice | Array:
    first = int(columns[0])
    is_run = np.array_equal(columns, np.arange(first, first + len(columns)))
    return slice(first, first + len(columns)) if is_run else columns
