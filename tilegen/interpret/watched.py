"""Registers that wgmma reads and writes: between its start and its wait they are nobody else's.

PTX ISA, wgmma.wait_group: accessing the accumulator, or the registers with A, before a wait for the group is undefined;
wgmma.fence: it stands between any other access of a register and a wgmma of it, and before the first wgmma, but not
between wgmmas of one shape that go on with an accumulator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilegen.arithmetic import Domain
from tilegen.interpret.fault import REGISTERS_IN_FLIGHT, REGISTERS_UNFENCED
from tilegen.interpret.memory import Registers, Reporter
from tilegen.interpret.threads import Array, Group
from tilegen.plan import Memory

_FENCED, _TOUCHED, _TAKEN = 0, -1, -2  # by nobody since the last fence, by the thread, as A; else a shape's number


class Watched(Registers):
    """Registers of a kernel with wgmma: who touched each last, and which are accumulators or A of one in flight."""

    def __init__(self, memory: Memory, threads: int, elems: int, domain: Domain):
        super().__init__(memory, threads, elems, domain)
        self.last = np.full((threads, elems), _TOUCHED, np.int16)
        self.shape = np.zeros((threads, elems), np.int16)  # of the wgmma whose accumulator an element is, or was
        self.summing = np.zeros((threads, elems), np.int16)  # wgmmas in flight that add to it
        self.lent = np.zeros((threads, elems), np.int16)  # wgmmas in flight that read it as A

    # ---- by the threads themselves
    def read_columns(self, columns: slice | Array, group: Group, site: Reporter) -> Array:
        at = _each(columns, group)
        self._refuse_flying("reads", at, self.summing[at] > 0, "is still adding to", site)
        self._refuse_flying("reads", at, self.lent[at] > 0, "still has as A", site)
        self.last[at] = _TOUCHED
        return super().read_columns(columns, group, site)

    def write_columns(self, columns: slice | Array, bits: Array, group: Group, site: Reporter) -> None:
        at = _each(columns, group)
        self._refuse_flying("writes", at, self.summing[at] > 0, "is still adding to", site)
        self._refuse_flying("writes", at, self.lent[at] > 0, "still has as A", site)
        self.last[at] = _TOUCHED
        super().write_columns(columns, bits, group, site)

    def fence(self, group: Group) -> None:
        """What these threads did is done before the wgmmas after this."""
        self.last[group.thread] = _FENCED

    # ---- by wgmma
    def lend(self, columns: slice, group: Group, site: Reporter) -> Array:
        """The bits of A, which nobody may touch until ``land``."""
        at = _each(columns, group)
        self._refuse_flying("takes as A", at, self.summing[at] > 0, "is still adding to", site)
        self._refuse_unfenced("takes as A", at, ~np.isin(self.last[at], (_FENCED, _TAKEN)), site)
        bits = super().read_columns(columns, group, site)
        self.last[at] = _TAKEN
        self.lent[at] += 1
        return bits

    def sum_up(self, columns: slice, shape: int, group: Group, site: Reporter) -> Any:
        """The elements become the accumulator of a wgmma of that shape; nobody else may touch them until ``land``."""
        at = _each(columns, group)
        other = (self.summing[at] > 0) & (self.shape[at] != shape)
        self._refuse_flying("adds to", at, other, "of another shape is still adding to", site)
        self._refuse_flying("adds to", at, self.lent[at] > 0, "still has as A", site)
        own = (self.last[at] == _FENCED) | (self.last[at] == shape)
        self._refuse_unfenced("adds to", at, ~own, site)
        self.last[at] = self.shape[at] = shape
        self.summing[at] += 1
        return at

    def known_of(self, columns: slice, group: Group, site: Reporter) -> Array:
        """The bits of an accumulator, for wgmma."""
        return super().read_columns(columns, group, site)

    def settle(self, columns: slice, bits: Array, group: Group, site: Reporter) -> None:
        """The sum, as it will be at the wait."""
        super().write_columns(columns, bits, group, site)

    def land(self, columns: slice, as_a: bool, group: Group) -> None:
        """A wgmma that was in flight is done, for these threads."""
        (self.lent if as_a else self.summing)[_each(columns, group)] -= 1

    def pending(self) -> object:
        """What a fence would change, to compare with another time."""
        return self.last.tobytes()

    # ---- refusals
    def _refuse_flying(self, verb: str, at: Any, bad: Array, why: str, site: Reporter) -> None:
        if bad.any():
            thread, element = self._first(at, bad)
            message = f"{verb} register {self.name}[{element}], which a wgmma {why}: it has not been waited for"
            due = site.awaiting_registers(self, int(np.broadcast_to(at[0], bad.shape)[bad][0]), element)
            site.fail(REGISTERS_IN_FLIGHT, message, thread, insert=due)

    def _refuse_unfenced(self, verb: str, at: Any, bad: Array, site: Reporter) -> None:
        if bad.any():
            thread, element = self._first(at, bad)
            message = f"{verb} register {self.name}[{element}] without a fence after what was done with it before"
            site.fail(REGISTERS_UNFENCED, message, thread)

    def _first(self, at: Any, bad: Array) -> tuple[int, int]:
        """(position in the group, element) of the first bad entry."""
        row, column = (int(x[0]) for x in np.nonzero(bad))
        return row, int(np.broadcast_to(at[1], bad.shape)[row, column])

    # ---- trips together
    def save(self) -> Any:
        return super().save(), self.last.copy()

    def restore(self, state: Any) -> None:
        super().restore(state[0])
        self.last[:] = state[1]


def _each(columns: slice | Array, group: Group) -> tuple[Array, Array]:
    """(threads, elements) as a table: a row for each thread of the group."""
    elements = np.arange(columns.start, columns.stop) if isinstance(columns, slice) else columns
    return group.thread[:, None], elements[None, :]
