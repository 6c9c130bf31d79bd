"""Plan: a kernel as plain frozen data. No step is rewritten, searched or unrolled after it is built.

Nothing is assigned twice, loops stay loops, and a register index may use only constants and unrolled variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any, Union

from tilegen.choices import Candidate as Candidate
from tilegen.choices import Choice as Choice
from tilegen.choices import Cost as Cost
from tilegen.choices import Operation as Operation
from tilegen.choices import Refusal as Refusal
from tilegen.dtypes import DTYPES
from tilegen.index import Index, Var, add, bound, least, mul, multiple


@dataclass(frozen=True)
class Memory:
    """A named array: element ``at`` lies ``sum(at[d] * pitches[d])`` elements from its start.

    ``shape`` holds the extents of the coordinates that a Ref uses: one flat dimension for shared memory and registers,
    the dimensions of the layout for global arrays. Registers are private to a thread. Shared memories are views of one
    pool of bytes, so two may overlap. Global pointers are aligned to ``align_bytes``. ``cache`` of a function's
    parameter is "stream" where each element of the array is touched once: its accesses ask the L2 to keep nothing.
    """

    name: str
    dtype: str
    shape: tuple[Index, ...]
    pitches: tuple[Index, ...]
    space: str  # global | shared | register
    access: str = "inout"  # global only: in | out | inout
    offset_bytes: int = 0  # shared only: place in the pool
    align_bytes: int = 16
    note: str = ""  # what a reader should know, e.g. the layout
    cache: str = ""  # global only: "" | stream

    def __getitem__(self, at: Index | tuple[Index, ...]) -> Ref:
        coordinates = at if isinstance(at, tuple) else (at,)
        return Ref(self, coordinates + (0,) * (len(self.shape) - len(coordinates)))

    @property
    def elem_bytes(self) -> int:
        return DTYPES[self.dtype].bytes

    @property
    def span(self) -> Index:
        """Elements from the first to the last, both counted."""
        last: Index = 0
        for extent, pitch in zip(self.shape, self.pitches, strict=True):
            last = add(last, mul(add(extent, -1) if isinstance(extent, int) else extent - 1, pitch))
        return add(last, 1)


def flat_memory(name: str, dtype: str, elems: int, space: str, **more: Any) -> Memory:
    """A memory addressed by one element offset."""
    return Memory(name, dtype, (elems,), (1,), space, **more)


@dataclass(frozen=True)
class Ref:
    """An element of a memory, by its coordinates."""

    memory: Memory
    at: tuple[Index, ...]

    @property
    def offset(self) -> Index:
        """Elements from the start of the memory: the address that is printed."""
        result: Index = 0
        for x, pitch in zip(self.at, self.memory.pitches, strict=True):
            result = add(result, mul(x, pitch))
        return result


TMA_ALIGN_BYTES = 128
BARRIER_BYTES = 8  # PTX ISA, mbarrier: a .b64 object in shared memory


@dataclass(frozen=True)
class Barrier:
    """An array of mbarriers in shared memory: a phase completes with ``arrivals`` and all the bytes announced."""

    name: str
    slots: int
    arrivals: int

    def __getitem__(self, at: Index) -> Slot:
        return Slot(self, at)


@dataclass(frozen=True)
class Slot:
    """One mbarrier of an array."""

    barrier: Barrier
    at: Index


@dataclass(frozen=True)
class TensorMap:
    """A TMA descriptor of a global array: it moves boxes of ``box`` elements, one extent for each of ``dims``.

    ``dims`` are dimensions of the memory, outermost first, the last of pitch 1. In shared memory a box is row-major,
    and 16-byte chunks are permuted in rows of ``swizzle_bytes`` (0: not at all).
    """

    name: str
    memory: Memory
    dims: tuple[int, ...]
    box: tuple[int, ...]
    swizzle_bytes: int = 0

    @property
    def box_bytes(self) -> int:
        return prod(self.box) * self.memory.elem_bytes

    @property
    def align_bytes(self) -> int:
        """What a box in shared memory begins at a multiple of: 128 bytes, or where the swizzle's pattern repeats.

        Source: PTX ISA, cp.async.bulk.tensor; CUDA Programming Guide, "Swizzle Modes": 256, 512, 1024 bytes.
        """
        return max(TMA_ALIGN_BYTES, 8 * self.swizzle_bytes)


# ---- structure: what a C programmer would write around statements
@dataclass(frozen=True)
class Let:
    """const int var = value;  Make it with ``let``, which infers what is known of the variable."""

    var: Var
    value: Index


@dataclass(frozen=True)
class Repeat:
    """for (int var = 0; var < count; ++var) { body }"""

    var: Var
    count: Index
    body: tuple[Step, ...]
    unroll: bool = False


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
    """Each thread copies ``elems`` consecutive elements in one access on each side.

    Where ``valid`` is false nothing is read and the destination receives zeros (registers, and ``cp.async``). Both
    sides have element types of one size.

    ``via`` names the instruction where it is no plain load or store: "" | "cp.async" | "ldmatrix" | "ldmatrix.trans" |
    "stmatrix" | "stmatrix.trans". cp.async goes from global to shared memory, 4, 8 or 16 bytes; the data lands at a
    ``Wait``. The matrix ones move 8 x 8 matrices of 2-byte elements between shared memory and the registers of a whole
    warp: ``elems`` is 2 for each of 1, 2 or 4 matrices, and the shared Ref of lane 8 k + r says where row r of matrix k
    (8 elements, 16 bytes) begins; other lanes' are not read.
    """

    dst: Ref
    src: Ref
    elems: int = 1
    valid: Index = True
    via: str = ""


@dataclass(frozen=True)
class Map:
    """dst[e] = fn(src[e]) for e in range(elems), in registers. fn: ``fill`` (with ``value``) or ``cast``.

    ``byte_permute`` takes two words of ``elems`` elements: byte k of the result is the one that nibble k of ``value``
    names, 0 to 3 of the first word and 4 to 7 of the second.
    """

    fn: str
    dst: Ref
    srcs: tuple[Ref, ...] = ()
    elems: int = 1
    value: float | int | complex | bool | None = None


@dataclass(frozen=True)
class Tma:
    """One thread starts the copy of a box between an array and shared memory, where it begins at ``shared``.

    ``at``: the first element of the box, a coordinate for each of ``map.dims``. What lies outside the array is read as
    zeros and not written. A load reports its bytes to ``done``; without that it is a store, of the queue bulk.
    """

    map: TensorMap
    at: tuple[Index, ...]
    shared: Ref
    done: Slot | None = None


# ---- meeting
@dataclass(frozen=True)
class Sync:
    """Threads of the scope meet, and what each wrote before is seen by all after: warp | warpgroup | cta | cluster.

    async: nobody meets; what each thread wrote to shared memory before is seen by TMA after.
    """

    scope: str


@dataclass(frozen=True)
class Commit:
    """Each thread's asynchronous copies since its last Commit become one group of the queue: cp.async | bulk."""

    queue: str


@dataclass(frozen=True)
class Wait:
    """Each thread goes on when at most ``pending`` of its committed groups of the queue are in flight."""

    queue: str
    pending: int = 0


@dataclass(frozen=True)
class Arrive:
    """Each thread arrives at the mbarrier; before, it announces ``bytes`` that TMA will bring."""

    slot: Slot
    bytes: int = 0


@dataclass(frozen=True)
class Await:
    """Each thread goes on when the phase of this parity has completed."""

    slot: Slot
    parity: Index


Step = Union[  # noqa: UP007 - a runtime alias
    Let, Repeat, When, Block, Move, Map, Tma, Sync, Commit, Wait, Arrive, Await
]


@dataclass(frozen=True)
class Role:
    """Consecutive warps that run one list of steps."""

    name: str
    threads: int
    steps: tuple[Step, ...]


# ---- the whole
@dataclass(frozen=True)
class Owned:
    """A box of a global array that this CTA alone writes: start and extent per dimension of the memory.

    ``loops`` are the variables other than the CTA's that the start ranges over, each with its count.
    """

    memory: Memory
    start: tuple[Index, ...]
    box: tuple[int, ...]
    loops: tuple[tuple[Var, Index], ...] = ()
    condition: Index = True
    op: int = -1  # which of the plan's operations writes it


@dataclass(frozen=True)
class Param:
    """A runtime parameter of the kernel: an int (``var``), passed by value after the pointers."""

    name: str
    dtype: str
    default: int | float
    var: Var | None = None


@dataclass(frozen=True)
class Plan:
    """The whole kernel. ``builtins`` names the variables that exist at its start: tx, laneid, ..., bx, by, bz."""

    name: str
    arch: str
    grid: tuple[Index, Index, Index]
    memories: tuple[Memory, ...]
    roles: tuple[Role, ...]
    params: tuple[Param, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    owns: tuple[Owned, ...] = ()
    operations: tuple[Operation, ...] = ()
    notes: tuple[str, ...] = field(default=())
    choices: tuple[Choice, ...] = ()  # for the kernel as a whole, such as the layouts of shared buffers
    barriers: tuple[Barrier, ...] = ()

    @property
    def threads(self) -> int:
        return sum(r.threads for r in self.roles)


MATRIX_ROW_ELEMS = 8


def matrices(move: Move) -> int:
    """How many 8 x 8 matrices a move through ldmatrix or stmatrix takes; 0 for any other move."""
    return move.elems // 2 if "matrix" in move.via else 0


# ---- building
def let(name: str, value: Index) -> Let:
    """A constant of the kernel, its range and step inferred from its value.

    >>> let("row", Var("tx", 256) // 16 * 4).var
    Var(name='row', bound=61, step=4, least=0)
    """
    return Let(Var(name, bound(value), max(1, multiple(value)), least(value)), value)


def when(condition: Index, *body: Step) -> tuple[Step, ...]:
    """``body``, guarded unless the condition always holds; nothing if it never does."""
    if condition is True:
        return body
    return () if condition is False else (When(condition, body),)


def repeat(var: Var, body: Iterable[Step], unroll: bool = True) -> tuple[Step, ...]:
    """``body`` for each value of ``var`` (a Var that may be the constant 0 is the caller's business)."""
    return (Repeat(var, var.bound, tuple(body), unroll),)


def walk(steps: Iterable[Step]) -> Iterator[Step]:
    """Every step, depth first."""
    for step in steps:
        yield step
        yield from walk(getattr(step, "body", ()))


def arrays(plan: Plan) -> tuple[Memory, ...]:
    """The kernel's global arrays, in order. A view is another form of the array whose name it has, after it."""
    return tuple({m.name: m for m in reversed(plan.memories) if m.space == "global"}.values())[::-1]


def tensor_maps(plan: Plan) -> tuple[TensorMap, ...]:
    """The descriptors that the plan's steps use, in order of first use."""
    steps = (s for role in plan.roles for s in walk(role.steps))
    return tuple(dict.fromkeys(s.map for s in steps if isinstance(s, Tma)))


def thread_variables(threads: int) -> dict[str, Index]:
    """The axes that number threads, as functions of tx: the kernel's own variables.

    >>> str(thread_variables(256)["wid_in_wg"])
    '(tx >> 5) & 3'
    """
    tx = Var("tx", threads)
    return {
        "tx": tx, "warpid": tx // 32, "laneid": tx % 32, "wgid": tx // 128, "tid_in_wg": tx % 128,
        "wid_in_wg": tx // 32 % 4,
    }  # fmt: skip


CTA_AXES = ("bx", "by", "bz")
CLUSTER_AXES = ("cbx", "cby", "cbz")
