"""The steps of a plan: what a kernel does, as plain frozen data.

No step is rewritten, searched or unrolled after it is built. Nothing is assigned twice, loops stay loops, and a
register index may use only constants and unrolled variables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Union

from tilegen.arithmetic import Node
from tilegen.arithmetic.values import Values
from tilegen.index import Index, Var, bound, equal, least, multiple
from tilegen.plan.instructions import MOVE, TMA_LOAD, TMA_MULTICAST, TMA_REDUCE, TMA_STORE, Instruction
from tilegen.plan.memories import Memory, Peers, Ref, Slot, TensorMap
from tilegen.plan.products import Fence, Mma, TensorCopy, TensorFence, TensorMma, Wgmma


# ---- structure: what a C programmer would write around statements
@dataclass(frozen=True)
class Let:
    """const int var = value;  Make it with ``let``, which infers what is known of the variable."""

    var: Var
    value: Index

    @property
    def names(self) -> tuple[str, ...]:
        """The name that it defines."""
        return (self.var.name,)


@dataclass(frozen=True)
class PromiseTest:
    """What a kernel does with an element of a table that it does not trust.

    ``raw`` is the element as memory has it, ``kept`` is 1 where it keeps the promise of its array: where ``holds``, an
    expression over ``raw``. Where it does not, the variable has the value ``instead``, which keeps it.
    """

    raw: Var
    kept: Var
    holds: Index
    instead: Index

    @property
    def is_kept(self) -> Index:
        """The condition that the element keeps its promise. No range of a variable decides it."""
        return equal(self.kept, 1)


@dataclass(frozen=True)
class Fetch:
    """const int var = src;  An element of a table: an array of integers that no step of the kernel writes.

    Where ``where`` does not hold nothing is read, and the value is ``otherwise``. ``number``: which element it is, row
    by row. ``values``: what its array promises. ``known``: what holds of the variable beyond what it says itself.
    ``test``: how what the array promises is looked at, None where it is trusted.
    """

    var: Var
    src: Ref
    number: Index
    values: Values
    where: Index = True
    otherwise: Index = 0
    known: tuple[Index, ...] = ()
    test: PromiseTest | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it defines."""
        return (self.var.name, *((self.test.kept.name, self.test.raw.name) if self.test else ()))


@dataclass(frozen=True)
class Pick:
    """const int var = src;  An integer that the thread holds, which the places after it may name.

    ``known``: what holds of the variable beyond what it says itself. No other name decides it: it is a base variable.
    """

    var: Var
    src: Ref
    known: tuple[Index, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The name that it defines."""
        return (self.var.name,)


@dataclass(frozen=True)
class Repeat:
    """for (int var = 0; var < count; ++var) { body }

    ``loop``: the number of the spec's loop that it is, -1 for one that an op adds.
    """

    var: Var
    count: Index
    body: tuple[Step, ...]
    unroll: bool = False
    loop: int = field(default=-1, compare=False)


@dataclass(frozen=True)
class When:
    """if (condition) { body }"""

    condition: Index
    body: tuple[Step, ...]


@dataclass(frozen=True)
class Block:
    """A ``__device__`` function called here; equal names must have equal bodies.

    An argument binds a formal Memory to a Ref: the formal's element ``at`` is the actual's element at the Ref plus
    ``at`` (same pitches where the ranks agree; a flat formal is offset by the Ref's flat offset).
    Variables that the body names and no argument binds are passed under their own names. ``registers`` live inside.
    """

    name: str
    args: tuple[tuple[Memory, Ref], ...]
    body: tuple[Step, ...]
    registers: tuple[Memory, ...] = ()
    note: str = ""
    op: int = -1  # which of the plan's operations it carries out


# ---- data
@dataclass(frozen=True)
class Move:
    """Each thread copies ``elems`` consecutive elements in one access on each side, by the instruction ``via``.

    Where ``valid`` is false nothing is read and the destination receives zeros (registers, and cp.async). Both sides
    have element types of one size.

    cp.async goes from global to shared memory; the data lands at a ``Wait``. ldmatrix and stmatrix move 8 x 8 matrices
    of 2-byte elements between shared memory and the registers of a whole warp: ``elems`` is 2 for each of 1, 2 or 4
    matrices, and the shared Ref of lane 8 k + r says where row r of matrix k (8 elements, 16 bytes) begins; those of
    other lanes are not read.
    """

    dst: Ref
    src: Ref
    elems: int = 1
    valid: Index = True
    via: Instruction = MOVE


@dataclass(frozen=True)
class Map:
    """dst[e] = fn(srcs[0][e], ..) for e in range(elems), in registers; ``value`` is a constant that fn takes."""

    fn: Instruction
    dst: Ref
    srcs: tuple[Ref, ...] = ()
    elems: int = 1
    value: float | int | complex | bool | None = None


@dataclass(frozen=True)
class Compute:
    """Each thread sets ``dst`` to the value of ``tree``, rounded to the type of its element.

    ``srcs`` are the tree's elements and ``wholes`` its integers, by number. All are registers of the thread.
    """

    dst: Ref
    tree: Node
    srcs: tuple[Ref, ...] = ()
    wholes: tuple[Index, ...] = ()


@dataclass(frozen=True)
class Shuffle:
    """Each lane of a warp takes ``elems`` elements from ``src`` on of the lane that is ``lanes`` away.

    ``way``: xor, the lane whose number is its own xor ``lanes``; down, its own plus that; up, its own minus that; set,
    its own with those bits set; clear, without them. A lane that has none takes its own. Several elements are 4 or 8
    bytes.
    """

    dst: Ref
    src: Ref
    lanes: int
    elems: int = 1
    way: str = "xor"


@dataclass(frozen=True)
class Tma:
    """One thread starts the copy of a box between an array and shared memory, where it begins at ``shared``.

    ``at``: the first element of the box, a coordinate for each of ``map.dims``. What lies before the array's beginning
    or beyond its end is read as zeros and not written. A load reports its bytes to ``done``; without that it is a
    store, of the queue bulk. A load for ``peers`` goes to the same place, and is reported to the same mbarrier, in each
    of these CTAs. ``rank``: the load is reported to the mbarrier of the CTA of this rank, the even one of a pair.
    ``function``: of a store, by which it updates the elements of the array.
    """

    map: TensorMap
    at: tuple[Index, ...]
    shared: Ref
    done: Slot | None = None
    peers: Peers | None = None
    function: str = ""
    rank: Index | None = None

    def __post_init__(self) -> None:
        if self.rank is not None and (self.peers or not self.done):
            raise ValueError("a load that is reported to another CTA goes to its own alone")
        if self.function and self.done:
            raise ValueError("a load of TMA updates nothing")

    @property
    def instruction(self) -> Instruction:
        if self.function:
            return TMA_REDUCE[self.function]
        if self.peers:
            return TMA_MULTICAST
        return TMA_LOAD if self.done else TMA_STORE


# ---- meeting
@dataclass(frozen=True)
class Sync:
    """Threads of the scope meet, and what each wrote before is seen by all after.

    warp | warpgroup | role | cta | cluster; roles: those that ``roles`` names. async: nobody meets; what each thread
    wrote to shared memory before is seen by TMA after. Raises ValueError for roles that another scope names.
    """

    scope: str
    line: int = field(default=0, compare=False)  # of the spec that says so; 0: an op does
    roles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.scope == "roles") != bool(self.roles):
            raise ValueError(f"a sync of scope {self.scope} names the roles {self.roles}: 'roles' does, and no other")

    @property
    def who(self) -> str:
        """Who meets, as a spec says it."""
        return f"[{', '.join(self.roles)}]" if self.roles else self.scope


@dataclass(frozen=True)
class Commit:
    """What each thread has started since its last Commit becomes one group of the queue: cp.async | bulk | mma."""

    queue: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Wait:
    """Each thread goes on when at most ``pending`` of its committed groups of the queue are in flight."""

    queue: str
    pending: int = 0
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Follow:
    """Each thread goes on when the kernels launched before have ended; what they wrote is there for all threads."""


@dataclass(frozen=True)
class Arrive:
    """Each thread arrives at the mbarrier; before, it announces ``bytes`` that TMA will bring.

    ``rank``: at that of another CTA of the cluster, by its rank; None: of its own. ``landed``: a queue, and the arrival
    comes by itself when the copies that the thread has started there have landed; at the mbarrier of each of ``peers``,
    where they are given. Raises ValueError for two of the first three, and for peers of an arrival of threads.
    """

    slot: Slot
    bytes: int = 0
    rank: Index | None = None
    landed: str = ""
    line: int = field(default=0, compare=False)
    peers: Peers | None = None

    def __post_init__(self) -> None:
        if self.peers and not self.landed:
            raise ValueError("a thread arrives at one mbarrier at a time")
        if bool(self.bytes) + (self.rank is not None) + bool(self.landed) > 1:
            raise ValueError("an arrival announces bytes, or is at another CTA, or comes when copies have landed")


@dataclass(frozen=True)
class Await:
    """Each thread goes on when the phase of this parity has completed."""

    slot: Slot
    parity: Index
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Stamp:
    """One thread of each warpgroup of the role reads its clock.

    ``number``: of the site that begins here (``tracing.sites``), 0 for none. No memory of the plan is touched, and all
    threads of the role come here.
    """

    number: int


Step = Union[  # noqa: UP007 - a runtime alias
    Let,
    Fetch,
    Pick,
    Repeat,
    When,
    Block,
    Move,
    Map,
    Compute,
    Shuffle,
    Mma,
    Wgmma,
    TensorMma,
    TensorCopy,
    Tma,
    Sync,
    Fence,
    TensorFence,
    Commit,
    Wait,
    Follow,
    Arrive,
    Await,
    Stamp,
]


def list_ranks(step: Tma | Arrive) -> tuple[Index, ...]:
    """The expressions by which a step names other CTAs of the cluster: the first of its peers, or a rank."""
    named = (step.peers.first if step.peers else None, step.rank)
    return tuple(x for x in named if x is not None)


# ---- building
def let(name: str, value: Index, floor: int | None = None) -> Let:
    """A constant of the kernel, its range and step inferred from its value; where it stands it is ``floor`` or more.

    >>> let("row", Var("tx", 256) // 16 * 4).var
    Var(name='row', bound=61, step=4, least=0)
    """
    low = least(value) if floor is None else max(floor, least(value))
    return Let(Var(name, bound(value), max(1, multiple(value)), low), value)


def when(condition: Index, *body: Step) -> tuple[Step, ...]:
    """``body``, guarded unless the condition always holds; nothing if it never does."""
    if condition is True:
        return body
    return () if condition is False else (When(condition, body),)


def repeat(var: Var, body: Iterable[Step], unroll: bool = True) -> tuple[Step, ...]:
    """``body`` for each value of ``var`` (a Var that may be the constant 0 is the caller's business)."""
    return (Repeat(var, var.bound, tuple(body), unroll),)
