"""The steps of products of matrices, which a plan has beside the others: by warps, warpgroups and one thread."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.index import Index
from tilegen.plan.descriptors import MatrixDescriptor
from tilegen.plan.instructions import Instruction
from tilegen.plan.memories import Ref


@dataclass(frozen=True)
class Mma:
    """A warp adds the product of two matrices to a third: c += a b, by the instruction ``via``.

    Each lane has the elements of its fragments one after the other, from ``c``, ``a`` and ``b`` on; how many, and which
    of the matrices they are, is the instruction's (a row of ``layouts.ATOMS`` by its name).
    """

    via: Instruction
    c: Ref
    a: Ref
    b: Ref


@dataclass(frozen=True)
class Wgmma:
    """A warpgroup starts a product of matrices, c += a b, or c = a b where not ``accumulate``; it is done at a Wait.

    ``b_lies`` says how b lies in shared memory, where it begins at ``b``; ``a_lies`` the same of a, None where each
    lane has its fragment of a in registers from ``a`` on, as it has c's. The places in shared memory are those before
    chunks trade places. Which elements a lane has is the instruction's, ``b_lies.rows`` being its N.
    """

    via: Instruction
    c: Ref
    a: Ref
    b: Ref
    b_lies: MatrixDescriptor
    a_lies: MatrixDescriptor | None = None
    accumulate: Index = True


@dataclass(frozen=True)
class TensorMma:
    """One thread starts a product in tensor memory, c += a b, or c = a b where not ``accumulate``.

    ``a_lies`` and ``b_lies`` say how a and b lie in shared memory, where they begin at ``a`` and ``b``, the places
    before chunks trade places: a is M x K, b is N x K, of which the matrices' ``rows`` are M and N. ``a_lies`` is None
    where a is in tensor memory: row r in lane r, the 8 columns from ``a`` on. ``c`` is the first cell of the
    accumulator: its lane 0 and first column. ``atom``: a row of ``layouts.ATOMS`` by its name. What the thread has
    started is done when the arrival that it asks for comes (``Arrive``, ``landed``).

    ``sfa`` and ``sfb``: the scale factors of rows of a and of b, of the kinds that take them, whose a is in shared
    memory; the product takes byte ``factor`` of each column. Row r's are in column r / 32 from there on, lane r modulo
    32, and in each 32 lanes again.
    """

    via: Instruction
    atom: str
    c: Ref
    a: Ref
    b: Ref
    a_lies: MatrixDescriptor | None
    b_lies: MatrixDescriptor
    accumulate: Index = True
    sfa: Ref | None = None
    sfb: Ref | None = None
    factor: int = 0
    ctas: int = 1

    @property
    def columns(self) -> int:
        """Columns of the accumulator, in each CTA that has a part of it."""
        return self.b_lies.rows * self.ctas

    @property
    def factors(self) -> dict[str, tuple[Ref, int]]:
        """By field, where factors begin, and of how many rows they are."""
        rows = self.a_lies.rows if self.a_lies else 0
        given = {"sfa": (self.sfa, rows), "sfb": (self.sfb, self.columns)}
        return {name: (ref, count) for name, (ref, count) in given.items() if ref is not None and count}


def count_factors(rows: int) -> int:
    """Elements of a lane that hold the factors of so many rows: those of 32 are a byte of a column of 4.

    >>> count_factors(128), count_factors(224)
    (16, 28)
    """
    return -(-rows // 32) * 4


@dataclass(frozen=True)
class TensorCopy:
    """One thread starts a copy to tensor memory of 32 rows of 16 bytes, which ``src_lies`` finds in shared memory.

    Row r goes to lane r and to each 32nd lane after it, 16 bytes of each from ``dst`` on, which is lane 0's place.
    The copy is done when the arrival that its thread asks for comes (``Arrive``, ``landed``).
    """

    via: Instruction
    dst: Ref
    src: Ref
    src_lies: MatrixDescriptor


@dataclass(frozen=True)
class Fence:
    """What the threads of a warpgroup have done with their registers is done before its Wgmmas after this."""


@dataclass(frozen=True)
class TensorFence:
    """What a thread did with tensor memory is ordered with what other threads do there, by what it tells or hears.

    side before: what it did before is told with what it tells after this (an arrival, a sync). after: what it does
    after comes after what it has heard before this (a wait, a sync). Source: PTX ISA, tcgen05.fence.
    """

    side: str
