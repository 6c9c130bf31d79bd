"""Where values lie: memories and places in them, mbarriers, TMA's descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from tilegen.arithmetic.values import Values
from tilegen.dtypes import DTYPES
from tilegen.index import Formula, Index, add, bound, least, mul, multiple
from tilegen.index.trees import span_of_product
from tilegen.spaces import REGISTER, SPACES, Space

WIDEST_BYTES = 16  # of one access


@dataclass(frozen=True)
class Memory:
    """A named array: element ``at`` lies ``sum(at[d] * pitches[d])`` elements from its start.

    ``shape`` holds the extents of the coordinates that a Ref uses: one flat dimension for shared memory and registers,
    the dimensions of the layout for global arrays. Registers are private to a thread. Shared memories are views of one
    pool of bytes, so two may overlap. Callers keep global pointers aligned to ``align_bytes``; shared memories are
    declared so. ``cache`` of a function's parameter is "stream" where each element of the array is touched once: its
    accesses ask the L2 to keep nothing.
    """

    name: str
    dtype: str
    shape: tuple[Index, ...]
    pitches: tuple[Index, ...]
    space: str  # a row of spaces.SPACES
    access: str = "inout"  # of arrays: in | out | inout
    offset_bytes: int = 0  # of pooled ones: place in the pool
    align_bytes: int = 16
    note: str = ""  # what a reader should know, e.g. the layout
    cache: str = ""  # of arrays: "" | stream
    values: Values | None = None  # of arrays: what the caller promises of every element
    family: str = ""  # of pooled ones that lie on others: whose bytes they are while it holds what it wrote
    is_unwritten: bool = False  # of arrays: nobody has written it before the kernel, so only what it wrote is read

    def __getitem__(self, at: Index | tuple[Index, ...]) -> Ref:
        coordinates = at if isinstance(at, tuple) else (at,)
        return Ref(self, coordinates + (0,) * (len(self.shape) - len(coordinates)))

    @cached_property
    def traits(self) -> Space:
        """What its space is. Raises KeyError for a space that is none."""
        return SPACES[self.space]

    @property
    def elem_bytes(self) -> int:
        return DTYPES[self.dtype].bytes

    @property
    def widest_bytes(self) -> int:
        """The widest access of neighbours that its beginning allows."""
        return min(WIDEST_BYTES, self.traits.align_bytes or self.align_bytes)

    @property
    def begins_at(self) -> int:
        """A number of bytes that its address is a multiple of: registers are declared for the widest access of them."""
        if not self.traits.is_held or not isinstance(self.span, int):
            return self.align_bytes
        return min(WIDEST_BYTES, 1 << max(self.span * self.elem_bytes, 1).bit_length() - 1)

    @cached_property
    def span(self) -> Index:
        """Elements from the first to the last, both counted."""
        last: Index = 0
        for extent, pitch in zip(self.shape, self.pitches, strict=True):
            last = add(last, mul(add(extent, -1) if isinstance(extent, int) else extent - 1, pitch))
        return add(last, 1)


def flat_memory(name: str, dtype: str, elems: int, space: str, **more: Any) -> Memory:
    """A memory addressed by one element offset."""
    return Memory(name, dtype, (elems,), (1,), space, **more)


def register_memory(name: str, dtype: str, elems: int) -> Memory:
    """Registers of each thread that hold so many elements.

    >>> register_memory("r", "float32", 4).space
    'register'
    """
    return flat_memory(name, dtype, elems, REGISTER.name)


@dataclass(frozen=True)
class Ref:
    """An element of a memory, by its coordinates."""

    memory: Memory
    at: tuple[Index, ...]

    @cached_property
    def offset(self) -> Index:
        """Elements from the start of the memory, sums written out; what is printed is its ``subscript``."""
        result: Index = 0
        for x, pitch in zip(self.at, self.memory.pitches, strict=True):
            result = add(result, mul(x, pitch))
        return result


def subscript(ref: Ref) -> Index:
    """What stands between the brackets: the flat offset, or per dimension (coordinate) * pitch, kept factored.

    >>> from tilegen.index import Var
    >>> X = Memory("X", "float32", (6400, 8000), (8000, 1), "global")
    >>> print(subscript(X[Var("by", 100) * 64 + Var("row", 64), Var("bx", 125) * 64]))
    (by * 64 + row) * 8000 + bx * 64
    """
    if len(ref.at) < 2:
        return ref.offset
    parts: list[Any] = []
    for x, pitch in zip(ref.at, ref.memory.pitches, strict=True):
        term = _factored(x, pitch)
        parts += term.args if isinstance(term, Formula) and term.symbol == "+" else [term]
    constant = sum(p for p in parts if isinstance(p, int))
    parts = [p for p in parts if not isinstance(p, int)] + ([constant] if constant else [])
    if len(parts) < 2:
        return parts[0] if parts else 0
    return Formula("+", tuple(parts), sum(bound(p) - 1 for p in parts) + 1)


def _factored(x: Index, pitch: Index) -> Index:
    """x * pitch, a sum not distributed."""
    if isinstance(x, int) or (isinstance(pitch, int) and pitch in (0, 1)):
        return mul(x, pitch)
    if isinstance(x, Formula) and x.symbol == "+":
        return Formula("*", (x, pitch), span_of_product(x, pitch)[1] + 1)
    return mul(x, pitch)


TMA_UNIT_BYTES = 16  # strides and addresses of arrays, rows of boxes: CUDA Driver API, cuTensorMapEncodeTiled
TMA_ALIGN_BYTES = 128
ADDRESS_BYTES = 4  # of tensor memory: PTX ISA, tcgen05.alloc writes one to shared memory
BARRIER_BYTES = 8  # PTX ISA, mbarrier: a .b64 object in shared memory


@dataclass(frozen=True)
class Barrier:
    """An array of mbarriers in shared memory: a phase completes with ``arrivals`` and all the bytes announced.

    ``order``: how far arrivals order what threads did before with what those that wait do after, cta or cluster.
    ``pair``: those of the even CTA of a pair serve both CTAs.
    """

    name: str
    slots: int
    arrivals: int
    order: str = "cta"
    pair: bool = False

    def __getitem__(self, at: Index) -> Slot:
        return Slot(self, at)


@dataclass(frozen=True)
class Slot:
    """One mbarrier of an array."""

    barrier: Barrier
    at: Index


@dataclass(frozen=True)
class Peers:
    """CTAs of a cluster: those of rank ``first`` + k for every bit k of ``bits``. Ranks count cbx first, then cby."""

    bits: int
    first: Index = 0

    def ranks(self) -> tuple[Index, ...]:
        """The rank of each, in order."""
        return tuple(add(self.first, k) for k in range(self.bits.bit_length()) if self.bits >> k & 1)


def find_rows_apart(box: Sequence[int], elem_bytes: int, swizzle_bytes: int) -> str:
    """Why TMA does not put the rows of a box one behind the other, or "".

    With a swizzle, rows begin as many bytes apart as it permutes. Source: measured on an H200 (docs/access-model.md).

    >>> find_rows_apart((8, 64), 2, 128), find_rows_apart((8, 64), 1, 0), find_rows_apart((1, 64), 1, 128)
    ('', '', '')
    >>> find_rows_apart((8, 64), 1, 128)
    'a row of the box is 64 bytes, and with a 128-byte swizzle TMA puts rows 128 bytes apart'
    """
    row = box[-1] * elem_bytes
    if row >= swizzle_bytes or prod(box[:-1]) == 1:
        return ""
    apart = f"with a {swizzle_bytes}-byte swizzle TMA puts rows {swizzle_bytes} bytes apart"
    return f"a row of the box is {row} bytes, and {apart}"


@dataclass(frozen=True)
class TensorMap:
    """A TMA descriptor of a global array: it moves boxes of ``box`` elements, one extent for each of ``dims``.

    ``dims`` are dimensions of the memory, outermost first, the last of pitch 1. In shared memory a box is row-major,
    and 16-byte chunks are permuted in rows of ``swizzle_bytes`` (0: not at all). ``type``: the element type, where TMA
    computes with them; "" where it moves bits. ``rounds``: float32 elements are
    rounded to tf32 on their way. Raises ValueError for rows that TMA would put apart.
    """

    name: str
    memory: Memory
    dims: tuple[int, ...]
    box: tuple[int, ...]
    swizzle_bytes: int = 0
    rounds: bool = False
    type: str = ""

    def __post_init__(self) -> None:
        if problem := find_rows_apart(self.box, self.memory.elem_bytes, self.swizzle_bytes):
            raise ValueError(f"{self.name}: {problem}")

    def begins_whole(self, at: Index) -> bool:
        """Does a box that begins ``at`` an element of the last dimension begin at a multiple of 16 bytes there?

        TMA takes no other: the launch ends with an illegal instruction. Source: measured on an H200
        (docs/access-model.md).
        """
        return multiple(mul(at, self.memory.elem_bytes)) % TMA_UNIT_BYTES == 0

    def keeps_to_ends(self, at: Index) -> bool:
        """Does a store of a box that begins ``at`` an element of the last dimension write nothing behind its end?

        TMA stores whole 16 bytes of a row: where the array ends inside of them, it writes those behind it too. Source:
        measured on an H200 (docs/access-model.md).
        """
        extent = self.memory.shape[self.dims[-1]]
        is_whole = multiple(mul(extent, self.memory.elem_bytes)) % TMA_UNIT_BYTES == 0
        return is_whole or bound(at) - 1 + self.box[-1] <= least(extent)

    @property
    def box_bytes(self) -> int:
        return prod(self.box) * self.memory.elem_bytes

    @property
    def align_bytes(self) -> int:
        """What a box in shared memory begins at a multiple of: 128 bytes, or where the swizzle's pattern repeats.

        Source: PTX ISA, cp.async.bulk.tensor; CUDA Programming Guide, "Swizzle Modes": 256, 512, 1024 bytes.
        """
        return max(TMA_ALIGN_BYTES, 8 * self.swizzle_bytes)
