"""The bytes of a CTA that memories are views of: shared memory, and what copies in flight do with it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from tilegen.arithmetic import Domain
from tilegen.interpret.clashes import TOGETHER
from tilegen.interpret.clocks import Clocks
from tilegen.interpret.fault import SAME_STEP, UNWRITTEN
from tilegen.interpret.order import Shadow
from tilegen.interpret.reporting import Reporter, refuse_double_write, report
from tilegen.interpret.threads import Array, Group
from tilegen.kept import keep
from tilegen.plan import Memory

_POISON = 0xCD


class Pool:
    """The shared (or the tensor) memory of every simulated CTA. Memories are views of it, so two may overlap."""

    def __init__(self, clocks: Clocks, pool_bytes: int, grain_bytes: int, domain: Domain, updates: bool = False):
        self.bytes, self.grain, self.domain = -(-pool_bytes // 16) * 16, grain_bytes, domain
        total = len(clocks.crew.ctas) * self.bytes
        cells = np.full(total * domain.scale, _POISON, np.uint8)
        self.cells = {width: cells.view(domain.bits(width)) for width in (1, 2, 4, 8, 16)}
        self.chunks = cells.reshape(-1, 16 * domain.scale)
        self.shadow = Shadow(clocks, total // grain_bytes, updates=updates)
        self.families: dict[str, int] = {"": 0}  # of memories that lie on each other, by number
        self.holds = np.zeros(total // grain_bytes, np.int64)  # whose bytes a granule holds


@dataclass(frozen=True)
class Filling:
    """Words on their way to cells: one, and a row of granules, per thread."""

    shadow: Shadow
    cells: Array
    at: Array
    words: Array
    granules: Array

    def land(self, some: Array | slice = slice(None)) -> None:
        """The words (of some of the threads) arrive."""
        self.cells[self.at[some]] = self.words[some]


@dataclass(frozen=True)
class Holding:
    """What copies in flight read, for the ``rows`` of their step that read: nobody may write there."""

    shadow: Shadow
    granules: Array
    rows: Array

    def land(self, rows: Array, who: Group, op: int) -> None:
        """Those of ``rows`` (a mask over ``who``) have read by now."""
        mine = rows[self.rows]
        if mine.any():
            at = np.zeros(len(rows), bool)
            at[self.rows[mine]] = True
            self.shadow.land_read(self.granules[mine], who.where(at), op)

    def hand_over(self, rows: Array, who: Group, agent: Array, op: int) -> None:
        """Those of ``rows`` have read by now, as the work of an agent for each of ``who``."""
        mine = rows[self.rows]
        if mine.any():
            self.shadow.land_read_by_agent(self.granules[mine], agent[self.rows[mine]], op)


class Pooled:
    """One memory of a pool: a typed view of it."""

    def __init__(self, memory: Memory, pool: Pool):
        self.name, self.pool = memory.name, pool
        self.size, self.offset = memory.elem_bytes, memory.offset_bytes
        self.family = pool.families.setdefault(memory.family, len(pool.families))

    @abstractmethod
    def where(self, entry: int, granules: Array) -> tuple[int, str]:
        """(thread, what) of an entry of a table of granules, a row for each thread."""

    def refuse_unwritten(self, granules: Array, site: Reporter) -> None:
        """Raise where a thread reads what nothing wrote."""
        unwritten = self.pool.shadow.is_unwritten(granules)
        if unwritten.any():
            thread, what = self.where(int(np.flatnonzero(unwritten)[0]), granules)
            site.fail(UNWRITTEN, f"reads {what}, which nothing wrote", thread)

    def refuse_others(self, granules: Array, site: Reporter) -> None:
        """What another memory wrote on these bytes is nothing that this one wrote."""
        found = self.pool.holds[granules]
        other = found != self.family
        if other.any():
            thread, what = self.where(int(np.flatnonzero(other)[0]), granules)
            name = next(n for n, number in self.pool.families.items() if number == found[other][0])
            site.fail(UNWRITTEN, f"reads {what}, which nothing wrote since '{name}' was written on these bytes", thread)

    def own(self, granules: Array | slice) -> None:
        """From now on these granules hold what this memory wrote, and nothing of one that lies on the same bytes."""
        self.pool.holds[granules] = self.family


class Shared(Pooled):
    """One shared memory."""

    def _place(self, flat: Array, elems: int, group: Group) -> tuple[int, Array, Array]:
        """(access width, its index in cells of that width, granules per thread)."""
        width, byte = elems * self.size, group.cta * self.pool.bytes + self.offset + flat * self.size
        count = width // self.pool.grain
        return width, byte // width, (byte // self.pool.grain)[:, None] + np.arange(count)

    def granules(self, flat: Array, elems: int, group: Group) -> Array:
        """The granules of each thread's access, a row for each."""
        return self._place(flat, elems, group)[2]

    def where(self, entry: int, granules: Array) -> tuple[int, str]:
        """(thread, what) of an entry of a table of granules, a row for each thread."""
        byte = int(granules.ravel()[entry]) * self.pool.grain % self.pool.bytes
        element = (byte - self.offset) // self.size
        return entry // granules.shape[1], f"shared {self.name} (element {element}, byte {byte})"

    def read(self, flat: Array, elems: int, group: Group, site: Reporter, by_many: bool = False) -> Array:
        width, cell, granules = self._place(flat, elems, group)
        shadow = self.pool.shadow
        self.refuse_unwritten(granules, site)
        report(shadow, shadow.read(granules, group, site.op, by_many), "reads", granules, self.where, site)
        if self.family:
            self.refuse_others(granules, site)
        return self.pool.cells[width][cell].view(self.pool.domain.bits(self.size)).reshape(-1, elems)

    def write(self, flat: Array, bits: Array, group: Group, site: Reporter) -> None:
        self._write(flat, bits, group, site).land()

    def write_later(self, flat: Array, bits: Array, group: Group, site: Reporter) -> Filling:
        """As ``write``, but the data is nobody's until the filling lands."""
        filling = self._write(flat, bits, group, site)
        self.pool.shadow.start_write(filling.granules)
        return filling

    def _write(self, flat: Array, bits: Array, group: Group, site: Reporter) -> Filling:
        width, cell, granules = self._place(flat, bits.shape[1], group)
        shadow, words = self.pool.shadow, np.ascontiguousarray(bits).view(self.pool.domain.bits(width)).ravel()
        report(shadow, shadow.write(granules, group, site.op), "writes", granules, self.where, site)
        refuse_double_write(shadow, granules, group, self.where, site)
        self.own(granules)
        return Filling(shadow, self.pool.cells[width], cell, words, granules)

    def read_rows(self, flat: Array, elems: int, group: Group, site: Reporter) -> Array:
        """``read`` by whole warps together: no lane of them is ordered with a write by any other access."""
        return self.read(flat, elems, crowd(group), site, by_many=True)

    def write_rows(self, flat: Array, bits: Array, group: Group, site: Reporter) -> None:
        """``write`` by whole warps together; each thread of the group gives the address of a row."""
        together, granules = crowd(group), self._place(flat, bits.shape[1], group)[2]
        ordered = np.sort(granules.ravel())
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(twice):
            thread, what = self.where(int(np.flatnonzero(granules.ravel() == twice[0])[1]), granules)
            site.fail(SAME_STEP, f"writes {what}, which another row of the same step writes too", thread)
        self.write(flat, bits, together, site)
        self.pool.shadow.spread(granules, together)


@keep
def crowd(group: Group) -> Group:
    """The threads of a group as parts of their warps, no lane told from another."""
    return replace(group, lane=np.full(len(group), TOGETHER))
