"""Accesses that the edge of a global array may cut: as one where all of it is inside, one by one what is left of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilegen.index import Index, Var, conjuncts, every, not_
from tilegen.plan import Move, Ref, Repeat, Step, when

Register = Callable[[Index], Ref]  # that of an element of an access, by its number


@dataclass(frozen=True)
class Tail:
    """The elements of an access that an edge cuts: ``cut`` says that it does, ``inside`` that one is in the array.

    ``e`` counts them, ``ref`` is where the one numbered so is.
    """

    cut: Index
    e: Var
    ref: Ref
    inside: Index


@dataclass(frozen=True)
class EdgeAccess:
    """An access of ``width`` elements: its place, whether its first element is inside, and whether its last one is."""

    width: int
    ref: Ref
    begins: Index
    ends: Index
    tail: Tail | None = None

    def asks(self, known: Index) -> Index:
        """What all of it being inside asks besides ``known``."""
        return drop_known(self.ends, known)

    def implied(self, asked: Index) -> Index:
        """What is left of ``asked`` where all of it is inside."""
        return drop_known(asked, self.begins) if self.tail else asked


def see_access(
    width: int, guard: Callable[[Index], Index], see: Callable[[Index], Ref], e: Var | None = None
) -> EdgeAccess:  # fmt: skip
    """The access of ``width`` neighbours: ``guard(k)`` says whether its element k is inside, ``see(k)`` is the
    reference to it. ``e`` counts them where an edge may cut it; without it none does.
    """
    begins = guard(0)
    if e is None or begins is True:
        return EdgeAccess(width, see(0), begins, begins)
    ends = guard(width - 1)
    cut = every(begins, not_(drop_known(ends, begins)))
    return EdgeAccess(width, see(0), begins, ends, Tail(cut, e, see(e), drop_known(guard(e), begins)))


def load_access(access: EdgeAccess, register: Register, asked: Index = True, known: Index = True) -> tuple[Step, ...]:
    """The access into registers, where ``asked`` holds; zeros beyond the edge. ``known``: what holds anyway."""
    whole = Move(register(0), access.ref, access.width, every(access.implied(asked), access.asks(known)))
    tail = access.tail
    if tail is None:
        return (whole,)
    return (whole, *_one_by_one(tail, asked, known, (Move(register(tail.e), tail.ref, 1, tail.inside),)))


def store_access(access: EdgeAccess, register: Register, asked: Index = True, known: Index = True) -> tuple[Step, ...]:
    """The access from registers, where ``asked`` holds, of what is inside. ``known``: what holds anyway."""
    condition = every(access.implied(asked), access.asks(known))
    whole = when(condition, Move(access.ref, register(0), access.width))
    tail = access.tail
    if tail is None:
        return whole
    return (*whole, *_one_by_one(tail, asked, known, when(tail.inside, Move(tail.ref, register(tail.e), 1))))


def _one_by_one(tail: Tail, asked: Index, known: Index, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return when(every(asked, drop_known(tail.cut, known)), Repeat(tail.e, tail.e.bound, steps, True))


def drop_known(condition: Index, known: Index) -> Index:
    """What a condition asks beside what is known to hold."""
    held = conjuncts(known)
    return every(*(c for c in conjuncts(condition) if c not in held))
