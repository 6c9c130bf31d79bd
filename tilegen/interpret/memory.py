"""Where values lie: a pool of shared bytes per CTA, registers per thread, and virtual global arrays.

Every store keeps plain bits of one element size, as wide as the domain of the run stores it: a Move copies bits, only
what computes knows what they mean. Places are counted in bytes of the hardware. An element of a
global array that nothing wrote is a function of its flat index, and only written pages exist, so an array of 10**11
elements costs what is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tilegen.access import distinct
from tilegen.arithmetic import Domain
from tilegen.interpret.clocks import Clocks
from tilegen.interpret.fault import SAME_STEP, UNWRITTEN
from tilegen.interpret.order import TOGETHER, Shadow
from tilegen.interpret.reporting import Reporter, refuse_double_write, report
from tilegen.interpret.threads import Array, Crew, Group
from tilegen.kept import keep
from tilegen.plan import Memory

Input = Callable[[Array], Array]
_PAGE = 64  # granules: small, so that a row of a tile wastes little
_POISON = 0xCD


class Store(Protocol):
    """A place for the elements of a Memory: bits in, bits out, (threads, elems) at flat offsets per thread."""

    def read(self, flat: Array, elems: int, group: Group, site: Reporter) -> Array: ...

    def write(self, flat: Array, bits: Array, group: Group, site: Reporter) -> None: ...


class Owed(Protocol):
    """Products of which the sum has not been made."""

    group: Group

    @property
    def columns(self) -> slice | Array: ...

    def total(self) -> Array:
        """The bits of the elements, (threads, columns)."""
        ...


class Registers:
    """Elements private to each thread; ``flat`` is uniform, so the accesses are slices.

    ``everywhere``: which elements every thread is known to have written. Of what is ``owed`` to an accumulator the sum
    is made when somebody looks at the registers.
    """

    def __init__(self, memory: Memory, crew: Crew, elems: int, domain: Domain):
        self.name, self.shape = memory.name, (len(crew.ctas), crew.threads, elems)
        self.bits = np.zeros(self.shape, domain.bits(memory.elem_bytes))
        self.known = np.zeros(self.shape, bool)
        self.everywhere = np.zeros(elems, bool)
        self.owed: Owed | None = None

    def read(self, flat: int, elems: int, group: Group, site: Reporter) -> Array:
        return self.read_columns(slice(flat, flat + elems), group, site)

    def write(self, flat: int, bits: Array, group: Group, site: Reporter) -> None:
        self.write_columns(slice(flat, flat + bits.shape[1]), bits, group, site)

    def read_columns(self, columns: slice | Array, group: Group, site: Reporter) -> Array:
        """The bits of each thread's elements, (threads, columns); a copy."""
        self.check_columns(columns, group, site)
        return self.held(columns, group)

    def check_columns(self, columns: slice | Array, group: Group, site: Reporter) -> None:
        """Refuse a read of elements, as ``read_columns`` does, without one."""
        if not self.everywhere[columns].all():
            known = self.known[places_of(columns, group)]
            if not known.all():
                thread, e = (int(x[0]) for x in np.nonzero(~known.reshape(len(group), -1)))
                element = e + columns.start if isinstance(columns, slice) else int(columns[e])
                site.fail(UNWRITTEN, f"register {self.name}[{element}] is read before anything wrote it", thread)

    def held(self, columns: slice | Array, group: Group) -> Array:
        """The bits of elements that were written; nothing is owed then."""
        self.pay()
        at = places_of(columns, group)
        if not group.box:
            held = self.bits[at]
        else:
            held = self.bits[at].copy() if isinstance(columns, slice) else self.bits[group.box].take(columns, axis=2)
        result: Array = held.reshape(len(group), -1)
        return result

    def write_columns(self, columns: slice | Array, bits: Array, group: Group, site: Reporter) -> None:
        """Store bits (threads, columns)."""
        self.settle(columns, bits, group)

    def settle(self, columns: slice | Array, bits: Array, group: Group) -> None:
        """The elements are these bits, whoever writes them; nothing is owed then."""
        self.pay()
        self.put(columns, bits, group)

    def owe(self, owed: Owed) -> None:
        """From now on these elements, which were written, are what is owed."""
        self.pay()
        self.owed = owed

    def pay(self) -> None:
        """What is owed is put where it belongs."""
        if self.owed is not None:
            owed, self.owed = self.owed, None
            self.put(owed.columns, owed.total(), owed.group)

    def put(self, columns: slice | Array, bits: Array, group: Group) -> None:
        """The elements are these bits (threads, columns)."""
        at = places_of(columns, group)
        self.bits[at] = bits.reshape(*group.shape, -1)
        if not self.everywhere[columns].all():
            self.known[at] = True
            self.everywhere[columns] = group.is_everyone

    def save(self) -> Any:
        """What it holds, to be put back."""
        self.pay()
        return self.bits.copy(), self.known.copy(), self.everywhere.copy()

    def restore(self, state: Any) -> None:
        """Be again as when it was saved."""
        self.owed = None
        self.bits[:], self.known[:], self.everywhere[:] = state


def places_of(columns: slice | Array, group: Group) -> tuple[Any, Any, Any]:
    """Indices of elements in a table over (CTAs, threads, elements): slices, and so a view, wherever they can be."""
    ctas, threads = group.places
    if group.box is None and not isinstance(columns, slice):
        return ctas[:, None], threads[:, None], columns
    return ctas, threads, columns


class Pool:
    """The shared memory of every simulated CTA. Memories are views of it, so two may overlap."""

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


class Shared:
    """One shared memory: a typed view of the pool."""

    def __init__(self, memory: Memory, pool: Pool):
        self.name, self.pool = memory.name, pool
        self.size, self.offset = memory.elem_bytes, memory.offset_bytes
        self.family = pool.families.setdefault(memory.family, len(pool.families))

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
        unwritten = shadow.is_unwritten(granules)
        if unwritten.any():
            thread, what = self.where(int(np.flatnonzero(unwritten)[0]), granules)
            site.fail(UNWRITTEN, f"reads {what}, which nothing wrote", thread)
        report(shadow, shadow.read(granules, group, site.op, by_many), "reads", granules, self.where, site)
        if self.family:
            self.refuse_others(granules, site)
        return self.pool.cells[width][cell].view(self.pool.domain.bits(self.size)).reshape(-1, elems)

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


class Virtual:
    """A global array that the plan never writes: a function of the flat index."""

    def __init__(self, memory: Memory, values: Input, domain: Domain):
        self.memory, self.values, self.domain = memory, values, domain

    def read(self, flat: Array, elems: int, group: Group, site: Reporter) -> Array:
        index = flat[:, None] + np.arange(elems) if elems > 1 else flat[:, None]
        return fetch(self.memory, self.values, index, self.domain)

    def read_later(self, flat: Array, elems: int, group: Group, site: Reporter) -> tuple[Array, Array | None]:
        """As ``read``; nothing ever writes here."""
        return self.read(flat, elems, group, site), None

    def write(self, flat: Array, bits: Array, group: Group, site: Reporter) -> None:
        raise AssertionError(f"{self.memory.name} is written, but no step of the plan writes it")


class Paged:
    """A global array that the plan writes: pages of what was touched, over an input or over nothing."""

    def __init__(
        self, memory: Memory, clocks: Clocks, grain_elems: int, reads: bool, values: Input | None, domain: Domain
    ):
        self.memory, self.name, self.values, self.domain = memory, memory.name, values, domain
        self.grain, self.page_elems = grain_elems, _PAGE * grain_elems
        self.pages, self.slots = np.zeros(0, np.int64), np.zeros(0, np.int64)  # sorted page numbers, where each lies
        self.bits = np.zeros(0, domain.bits(memory.elem_bytes))
        self.shadow = Shadow(clocks, 0, reads, shared_by_all=True)

    def _slot(self, flat: Array) -> Array:
        """The place of each element in ``bits``; pages that are touched first are added."""
        every = flat // self.page_elems
        runs = np.flatnonzero(np.diff(every, prepend=every[:1] - 1))  # neighbours mostly lie in one page
        page = every[runs]
        at = np.searchsorted(self.pages, page)
        missing = at == len(self.pages)
        if len(self.pages):
            missing |= self.pages[np.minimum(at, len(self.pages) - 1)] != page
        if missing.any():
            self._add_pages(distinct(page[missing]))
            at = np.searchsorted(self.pages, page)
        ahead = np.repeat((self.slots[at] - page) * self.page_elems, np.diff(runs, append=len(every)))
        result: Array = flat + ahead
        return result

    def _add_pages(self, pages: Array) -> None:
        used, room = len(self.pages), len(self.bits) // self.page_elems
        if used + len(pages) > room:
            room = max(2 * room, used + len(pages))
            self.bits = np.concatenate([self.bits, np.zeros(room * self.page_elems - len(self.bits), self.bits.dtype)])
            self.shadow.grow(room * _PAGE)
        slots = np.concatenate([self.slots, np.arange(used, used + len(pages))])
        merged = np.concatenate([self.pages, pages])
        order = np.argsort(merged, kind="stable")
        self.pages, self.slots = merged[order], slots[order]

    def _place(self, flat: Array, elems: int) -> tuple[Array, Array]:
        """(index in ``bits`` per element, granules per thread); an aligned vector never leaves its page."""
        slot = self._slot(flat)
        index = slot[:, None] + np.arange(elems) if elems > 1 else slot[:, None]
        return index, (slot // self.grain)[:, None] + np.arange(elems // self.grain)

    def _where(self, entry: int, granules: Array) -> tuple[int, str]:
        slot, inside = divmod(int(granules.ravel()[entry]) * self.grain, self.page_elems)
        page = int(self.pages[np.flatnonzero(self.slots == slot)[0]])
        return entry // granules.shape[1], f"global {self.name} (element {page * self.page_elems + inside})"

    def read(self, flat: Array, elems: int, group: Group, site: Reporter) -> Array:
        index, granules = self._place(flat, elems)
        unwritten = self.shadow.is_unwritten(granules)
        if self.values is None and unwritten.any():
            thread, what = self._where(int(np.flatnonzero(unwritten)[0]), granules)
            site.fail(UNWRITTEN, f"reads {what}, which nothing wrote and is no input", thread)
        report(self.shadow, self.shadow.read(granules, group, site.op), "reads", granules, self._where, site)
        bits = self.bits[index]
        if self.values is not None and unwritten.any():
            initial = np.repeat(unwritten, self.grain, axis=1)
            index = (flat[:, None] + np.arange(elems))[initial]
            bits[initial] = fetch(self.memory, self.values, index, self.domain)
        return bits

    def read_later(self, flat: Array, elems: int, group: Group, site: Reporter) -> tuple[Array, Array | None]:
        """As ``read``, and the granules where nobody may write until the copies have landed."""
        bits, granules = self.read(flat, elems, group, site), self._place(flat, elems)[1]
        self.shadow.start_read(granules)
        return bits, granules

    def write(self, flat: Array, bits: Array, group: Group, site: Reporter) -> None:
        index, granules = self._place(flat, bits.shape[1])
        report(self.shadow, self.shadow.write(granules, group, site.op), "writes", granules, self._where, site)
        refuse_double_write(self.shadow, granules, group, self._where, site)
        self.bits[index] = bits

    def write_later(self, flat: Array, bits: Array, group: Group, site: Reporter) -> None:
        """As ``write``, by TMA: nothing in the kernel is ordered after it."""
        self.write(flat, bits, group, site)
        self.shadow.start_write(self._place(flat, bits.shape[1])[1])

    def written(self) -> tuple[Array, Array, Array]:
        """(sorted flat offsets, values, CTAs by number) of every element that was written, by whom last."""
        used = self.slots[:, None] * _PAGE + np.arange(_PAGE)
        keep = np.repeat(~self.shadow.is_unwritten(used), self.grain, axis=1)
        flat = self.pages[:, None] * self.page_elems + np.arange(self.page_elems)
        bits = self.bits.reshape(-1, self.page_elems)[self.slots]
        writer = np.repeat(self.shadow.writer[used], self.grain, axis=1)[keep]
        return flat[keep], bits[keep].view(self.domain.stored(self.memory.dtype)), self.shadow.crew.cta_of[writer]


def fetch(memory: Memory, values: Input, index: Array, domain: Domain) -> Array:
    """The bits of an input at flat indices."""
    return np.ascontiguousarray(values(index), domain.stored(memory.dtype)).view(domain.bits(memory.elem_bytes))
