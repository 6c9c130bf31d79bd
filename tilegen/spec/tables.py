"""An element of an integer array that a let reads: the one place where a spec's integers come from memory.

An op, a bound or a condition takes the name that the let gives. So each read is a statement of its own, in sight.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.arithmetic.values import Values
from tilegen.errors import Mark
from tilegen.index import Index, names_of


@dataclass(frozen=True)
class Read:
    """The element of a global integer array at ``at``, where ``when`` holds; elsewhere the least of its ``values``.

    ``known``: what holds of its variable. ``is_inside``: it is a part of the expression that the let has next.
    """

    array: str
    at: tuple[Index, ...]
    values: Values
    when: Index = True
    known: tuple[Index, ...] = ()
    is_inside: bool = True
    mark: Mark | None = field(default=None, compare=False)

    @property
    def names(self) -> frozenset[str]:
        """The names that decide which element is read, and whether."""
        return frozenset[str]().union(*(names_of(x) for x in (*self.at, self.when)))

    @property
    def otherwise(self) -> Index:
        """What stands for the element where it is not read."""
        return self.values.places[0]
