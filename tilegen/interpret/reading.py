"""What names of memories, expressions and Refs stand for, read once before they are evaluated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilegen.index import INT_LIMIT, Formula, Index, Var, dividends, is_wide, variables
from tilegen.interpret.threads import Array, Group
from tilegen.kept import keep
from tilegen.plan import Memory, Ref, subscript


@dataclass(frozen=True)
class Text:
    """An expression ready to evaluate: its variables, and what of it is divided, which must not be negative."""

    value: Index
    variables: tuple[Var, ...]
    dividends: tuple[tuple[Index, Index], ...]  # each with when it is evaluated
    is_wide: bool  # computed in more than an int at least in part

    @property
    def names(self) -> frozenset[str]:
        return frozenset(v.name for v in self.variables)


@dataclass(frozen=True)
class Address:
    """A Ref's coordinates and the offset that is printed (None where it is the only coordinate itself)."""

    coordinates: tuple[Text, ...]
    offset: Text | None
    names: frozenset[str]


def read_text(x: Index) -> Text:
    """What evaluating ``x`` needs to know of it."""
    return _read_named(x) if isinstance(x, (Var, Formula)) else Text(x, (), (), False)


@keep
def _read_named(x: Var | Formula) -> Text:
    used = tuple(variables(x))
    return Text(x, used, dividends(x), is_wide(x) or max(v.bound for v in used) > INT_LIMIT)


@keep
def read_address(ref: Ref) -> Address:
    """A Ref's texts."""
    coordinates, offset = tuple(read_text(x) for x in ref.at), subscript(ref)
    names = frozenset[str]().union(*(c.names for c in coordinates))
    return Address(coordinates, None if ref.at == (offset,) else read_text(offset), names)


# ---------------------------------------------------------------- names of memories
@dataclass(frozen=True)
class Root:
    """A memory that exists, its extents as numbers, or as arrays where CTAs run with different sizes.

    An array has an entry for each CTA, and for each thread once ``seen_by`` has picked it. ``first``: where the store
    has the elements of each CTA's sizes, 0 where there are no others.
    """

    memory: Memory
    store: Any
    shape: tuple[Any, ...]
    pitches: tuple[Any, ...]
    first: Any = 0

    @property
    def span(self) -> Any:
        return sum((n - 1) * p for n, p in zip(self.shape, self.pitches, strict=True)) + 1

    @property
    def is_row(self) -> bool:
        """Does an offset say the same as the one coordinate?"""
        return len(self.pitches) == 1 and isinstance(self.pitches[0], int) and self.pitches[0] == 1

    def seen_by(self, group: Group) -> Root:
        """The root with an entry for each thread of a group."""
        if isinstance(self.first, int):
            return self
        of_all = self.shape, self.pitches
        shape, pitches = (tuple(n if isinstance(n, int) else n[group.cta] for n in x) for x in of_all)
        return replace(self, shape=shape, pitches=pitches, first=self.first[group.cta])

    def in_store(self, flat: Array) -> Array:
        """Where the store has elements at these offsets, a row for each thread that the root is ``seen_by``."""
        if isinstance(self.first, int):
            return flat
        result: Array = flat + self.first.reshape(-1, *[1] * (flat.ndim - 1))
        return result


@dataclass(frozen=True)
class MemoryPlace:
    """What a memory's name stands for: a root, and where in it the name begins (per role axis)."""

    root: Root
    coordinates: tuple[Any, ...] | None  # None: known only by its flat offset
    flat: Any
    is_formal: bool = True  # bound by a Block


def form(memory: Memory) -> tuple[object, ...]:
    """What two views of one array differ by."""
    return memory.name, memory.elem_bytes, memory.shape, memory.pitches
