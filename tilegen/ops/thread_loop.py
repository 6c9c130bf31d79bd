"""A thread's trips over a tile: how they are numbered and looped, and how many are loaded before any is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilegen.index import Index, Var, add, less, mul, not_
from tilegen.index.runs import counter
from tilegen.ops.edges import may_pass_end
from tilegen.ops.operand import Context, Operand
from tilegen.plan import Repeat, Step, let, when

UNROLL_LIMIT = 16
_STAGED_WORDS = 32  # registers of a thread for loads that its stores wait for


def over(var: Index, body: tuple[Step, ...]) -> tuple[Step, ...]:
    """``body`` for each value of ``var``, unrolled; once where ``var`` is no variable."""
    return (Repeat(var, var.bound, body, True),) if isinstance(var, Var) else body


def either(condition: Index, body: tuple[Step, ...], other: tuple[Step, ...]) -> tuple[Step, ...]:
    """``body`` where the condition holds, else the other."""
    return (*when(condition, *body), *when(not_(condition), *other))


@dataclass(frozen=True)
class ThreadLoop:
    """``count`` trips in chunks of at most ``limit``, all as long as can be: 19 of at most 16 are twice 10.

    A chunk is unrolled, several are a loop of them; ``step`` and ``chunk`` name the variables. Where trips are staged,
    all loads of a chunk come before its stores, so that each trip has registers of its own.
    """

    count: int
    limit: int
    step: str
    chunk: str
    is_staged: bool = False

    @property
    def chunks(self) -> int:
        return -(-self.count // self.limit)

    @property
    def unrolled(self) -> int:
        """Trips of a chunk.

        >>> ThreadLoop(19, 16, "i", "j").unrolled
        10
        """
        return -(-self.count // self.chunks)

    @property
    def sets(self) -> int:
        """Sets of registers that a chunk takes."""
        return self.unrolled if self.is_staged else 1

    @property
    def place(self) -> Index:
        """The number of a trip in its chunk."""
        return counter(self.step, self.unrolled)

    @property
    def number(self) -> Index:
        """The number of a trip.

        >>> print(ThreadLoop(40, 16, "i", "j").number)
        j * 14 + i
        """
        return self.place if self.chunks == 1 else add(mul(Var(self.chunk, self.chunks), self.unrolled), self.place)

    def build(
        self, start: tuple[Step, ...], *bodies: tuple[Step, ...], whole: Index = False, easy: tuple[Step, ...] = ()
    ) -> tuple[Step, ...]:  # fmt: skip
        """Each body, behind ``start``, for every trip of a chunk, one after the other, for every chunk.

        Where ``whole`` holds, which is the same for all trips, the first of them is ``easy``.
        """
        trips = [over(self.place, (*start, *body)) for body in bodies]
        trips[0] = either(whole, over(self.place, (*start, *easy)), trips[0])
        body = tuple(step for one in trips for step in one)
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


def stage_loop(loop: ThreadLoop, operands: Sequence[Operand], elems: int, is_whole: bool) -> ThreadLoop:
    """The loop, of trips of so many elements each, staged where that pays.

    A compiler does not move loads across branches, nor across atomic updates, so such trips would each wait for the one
    before. Several are loaded first where trips are guarded, by the ends of arrays or because the last is not
    ``is_whole``, or update what they store to, and where the loads are from global memory. (From shared memory the wait
    is short, and a condition that both a load and a store have is better asked once: docs/performance.md.)
    """
    is_guarded = not is_whole or any(may_pass_end(o) or o.via.function for o in operands)
    words = max(1, elems * operands[0].elem_bytes // 4)
    most = min(loop.count, UNROLL_LIMIT, _STAGED_WORDS // words)
    is_staged = is_guarded and operands[0].memory.traits.has_sectors and most > 1
    return replace(loop, limit=most, is_staged=True) if is_staged else loop
