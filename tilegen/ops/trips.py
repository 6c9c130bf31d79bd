"""The trips of a thread over a tile: how they are numbered and looped, and how many are loaded before any is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilegen.index import Index, Var, add, less, mul
from tilegen.ops.operand import Context, Operand, guarded_dims
from tilegen.plan import Repeat, Step, let

UNROLL_LIMIT = 16
_STAGED_WORDS = 32  # registers of a thread for loads that its stores wait for


@dataclass(frozen=True)
class Trips:
    """``count`` trips, ``most`` of them unrolled; more are a loop of so many unrolled ones.

    ``step`` and ``chunk`` name the variables of the unrolled loop and of the loop around it.
    """

    count: int
    most: int
    step: str
    chunk: str

    @classmethod
    def evenly(cls, count: int, most: int, step: str, chunk: str) -> Trips:
        """Chunks of at most so many trips, all as long as can be: 19 trips are twice 10, not 16 and 3.

        >>> Trips.evenly(19, 16, "i", "j").most
        10
        """
        return cls(count, -(-count // -(-count // most)), step, chunk)

    @property
    def chunks(self) -> int:
        return -(-self.count // self.most)

    @property
    def place(self) -> Index:
        """The number of a trip in its chunk."""
        inner = min(self.count, self.most)
        return Var(self.step, inner) if inner > 1 else 0

    @property
    def number(self) -> Index:
        """The number of a trip.

        >>> print(Trips(40, 16, "i", "j").number)
        j * 16 + i
        """
        return self.place if self.chunks == 1 else add(mul(Var(self.chunk, self.chunks), self.most), self.place)

    def loop(self, *bodies: tuple[Step, ...]) -> tuple[Step, ...]:
        """Each body for every trip of a chunk, one after the other, for every chunk."""
        if isinstance(self.place, Var):
            bodies = tuple((Repeat(self.place, self.place.bound, body, True),) for body in bodies)
        body = tuple(step for one in bodies for step in one)
        return body if self.chunks == 1 else (Repeat(Var(self.chunk, self.chunks), self.chunks, body, False),)


@dataclass(frozen=True)
class Entry:
    """What a trip begins with, the number of its group, the condition that there is one, and the number under that."""

    start: tuple[Step, ...]
    group: Index
    held: Index
    inside: Index


def enter_trip(context: Context, group: Index, groups: int) -> Entry:
    """The trip to number ``group`` of ``groups``, which gets a name if it may be beyond."""
    held = less(group, groups)
    if held is True or isinstance(group, Var):
        return Entry((), group, held, group)
    first = let(context.fresh("group"), group)
    return Entry((first,), first.var, less(first.var, groups), replace(first.var, bound=groups))


def staged_trips(operands: Sequence[Operand], trips: int, elems: int, is_whole: bool) -> int:
    """How many trips of so many elements a thread loads before it stores them; 1: it stores each at once.

    A compiler does not move loads across branches, so guarded trips would each wait for the one before. Several are
    loaded first where trips are guarded, by the ends of arrays or because the last is not ``is_whole``, and where the
    loads are from global memory. (From shared memory the wait is short, and a condition that both a load and a store
    have is better asked once: docs/performance.md.)
    """
    is_guarded = not is_whole or any(guarded_dims(o) for o in operands)
    if not is_guarded or operands[0].memory.space != "global":
        return 1
    words = max(1, elems * operands[0].elem_bytes // 4)
    return min(trips, UNROLL_LIMIT, max(1, _STAGED_WORDS // words))
