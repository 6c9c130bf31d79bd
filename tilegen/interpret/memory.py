"""Where values lie: a pool of shared bytes per CTA, registers per thread, and virtual global arrays.

Every store keeps plain bits of one element size, as wide as the domain of the run stores it: a Move copies bits, only
what computes knows what they mean. Places are counted in bytes of the hardware. An element of a
global array that nothing wrote is a function of its flat index, and only written pages exist, so an array of 10**11
elements costs what is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tilegen.access import distinct
from tilegen.arithmetic import Domain
from tilegen.interpret.clocks import Clocks
from tilegen.interpret.fault import UNWRITTEN
from tilegen.interpret.order import Shadow
from tilegen.interpret.reporting import Reporter, refuse_double_write, report
from tilegen.interpret.threads import Array, Crew, Group
from tilegen.plan import Memory

Input = Callable[[Array], Array]
MOST_OWED = 32  # products that are made as one: 512 bytes of K hold them for BLAS
_PAGE = 64  # granules: small, so that a row of a tile wastes little


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
