"""Tensor memory of simulated CTAs: 128 lanes of columns, 4 bytes each, and the sums that products make there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from tilegen.arithmetic import SCALED, TFLOAT32, TFLOAT32_CUT, Domain
from tilegen.interpret.clocks import Clocks
from tilegen.interpret.fault import MALFORMED, Fault, FaultFound
from tilegen.interpret.memory import MOST_OWED
from tilegen.interpret.pooled import Pool, Pooled
from tilegen.interpret.reporting import Reporter
from tilegen.interpret.threads import Array, Group
from tilegen.layouts import MmaAtom
from tilegen.plan import Memory

LANES, COLUMN_BYTES = 128, 4  # PTX ISA, "Tensor Memory Addressing"
ALLOCATED = (32, 64, 128, 256, 512)  # columns: PTX ISA, tcgen05.alloc


@dataclass(eq=False)  # one is itself alone: a list of them is searched for it
class TensorSum:
    """Accumulators, a row of ``at`` for each, as they were ``before``, with products that are still to be added.

    ``at``: where their elements lie, (accumulators, M * N), row by row. One product of matrices put side by side along
    K is their sum, where the domain adds freely.
    """

    atom: MmaAtom
    domain: Domain
    at: Array
    before: Array
    left: list[Array] = field(default_factory=list)
    right: list[Array] = field(default_factory=list)

    def goes_on(self, atom: MmaAtom, at: Array) -> bool:
        """Is a product into these places one more of its own?"""
        return atom is self.atom and len(self.left) < MOST_OWED and np.array_equal(at, self.at)

    def total(self) -> Array:
        """The bits of the elements, (accumulators, M * N)."""
        atom, (m, n, _) = self.atom, self.atom.shape
        dtype = TFLOAT32_CUT if atom.a == TFLOAT32 else SCALED if atom.factors else atom.a  # none rounds them before
        a, b = (x[0] if len(x) == 1 else np.concatenate(x, k) for x, k in ((self.left, 2), (self.right, 1)))
        before = self.before.view(self.domain.stored(atom.c)).reshape(-1, m, n)
        found = np.ascontiguousarray(self.domain.matmul(a, b, before, dtype, atom.c))
        return found.view(self.before.dtype).reshape(self.before.shape)


class TensorMemory:
    """The tensor memory of every simulated CTA, so many columns of it.

    ``chain``: of each granule the number of the accumulator that the last product wrote there, negative since somebody
    read it, 0 where no product wrote last. Products of one accumulator follow one another in order.
    """

    def __init__(self, clocks: Clocks, columns: int, grain_bytes: int, domain: Domain):
        if columns and columns not in ALLOCATED:
            message = f"{columns} columns of tensor memory: {', '.join(map(str, ALLOCATED))} can be allocated"
            raise FaultFound(Fault(MALFORMED, message))
        self.columns, self.lane_bytes, self.domain = columns, columns * COLUMN_BYTES, domain
        self.pool = Pool(clocks, LANES * self.lane_bytes, grain_bytes, domain)
        self.chain = np.zeros(len(self.pool.holds), np.int32)
        self.numbers: dict[object, int] = {}
        self.owed: list[TensorSum] = []

    def number(self, accumulator: object) -> int:
        """The number of an accumulator, told from others by whose it is, where it lies and what it adds up."""
        return self.numbers.setdefault(accumulator, len(self.numbers) + 1)

    def add(self, atom: MmaAtom, at: Array, adds: Array, a: Array, b: Array) -> None:
        """Put products of ``a`` and ``b`` to elements ``at``, or in their place where not ``adds`` (one each)."""
        cells = self.pool.cells[COLUMN_BYTES]
        owed = next((x for x in self.owed if x.goes_on(atom, at)), None)
        if owed is None or not adds.all():
            self.pay(at)
            before = np.where(adds[:, None], cells.take(at), np.zeros(1, cells.dtype))
            owed = TensorSum(atom, self.domain, at, before)
            self.owed.append(owed)
        owed.left.append(a)
        owed.right.append(b)
        if not self.domain.adds_freely:
            self.pay(at)

    def pay(self, at: Array) -> None:
        """What is owed to any of these elements is put there."""
        if not self.owed:
            return
        low, high = (f(at % self.columns, axis=1) for f in (np.min, np.max))
        for owed in list(self.owed):
            columns = owed.at % self.columns
            if low.min() <= columns.max() and columns.min() <= high.max():
                self.owed.remove(owed)
                self.pool.cells[COLUMN_BYTES][owed.at] = owed.total()


class Cells(Pooled):
    """One memory in tensor memory: elements one behind the other in each lane, from ``offset`` bytes on."""

    def __init__(self, memory: Memory, tensor: TensorMemory):
        super().__init__(memory, tensor.pool)
        self.tensor = tensor

    def place(self, lane: Array, first: Array, elems: int, group: Group) -> tuple[Array, Array]:
        """(index of its elements in cells of their size, granules) of each thread's run in a lane, a row for each."""
        byte = group.cta * self.pool.bytes + lane * self.tensor.lane_bytes + self.offset + first * self.size
        count = elems * self.size // self.pool.grain
        granules = (byte // self.pool.grain)[:, None] + np.arange(count)
        return (byte // self.size)[:, None] + np.arange(elems), granules

    def where(self, entry: int, granules: Array) -> tuple[int, str]:
        byte = int(granules.ravel()[entry]) * self.pool.grain % self.pool.bytes
        lane, inside = divmod(byte, self.tensor.lane_bytes)
        element = (inside - self.offset) // self.size
        return entry // granules.shape[1], f"tmem {self.name} (lane {lane}, element {element})"

    def settle(self, at: Array) -> None:
        """Nothing is owed to elements by their index: they are what they are."""
        self.tensor.pay(at * self.size // COLUMN_BYTES)

    # ---- no thread has an address in tensor memory
    def read(self, flat: Array, elems: int, group: Group, site: Reporter) -> Array:
        self._refuse(site)

    def write(self, flat: Array, bits: Array, group: Group, site: Reporter) -> None:
        self._refuse(site)

    def _refuse(self, site: Reporter) -> NoReturn:
        site.fail(MALFORMED, f"{self.name} is in tensor memory, which tcgen05.ld and tcgen05.st move to and from alone")
