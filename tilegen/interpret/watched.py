"""Registers that wgmma, or moves of tensor memory, read and write: between start and wait they are nobody else's.

PTX ISA, wgmma.wait_group: accessing the accumulator, or the registers with A, before a wait for the group is undefined;
wgmma.fence: it stands between any other access of a register and a wgmma of it, and before the first wgmma, but not
between wgmmas of one shape that go on with an accumulator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilegen.arithmetic import Domain
from tilegen.interpret.fault import REGISTERS_IN_FLIGHT, REGISTERS_UNFENCED
from tilegen.interpret.memory import Registers, places_of
from tilegen.interpret.reporting import Reporter
from tilegen.interpret.threads import Array, Crew, Group
from tilegen.plan import Memory

_FENCED, _TOUCHED, _TAKEN = 0, -1, -2  # by nobody since the last fence, by the thread, as A; else a shape's number


class Flying(Registers):
    """Registers of which some are in the hands of what is in flight."""

    def _refuse_flying(
        self, verb: str, columns: slice | Array, group: Group, bad: Array, why: str, site: Reporter
    ) -> None:
        if bad.any():
            row, element = _first(columns, group, bad)
            message = f"{verb} register {self.name}[{element}], which a {why}: it has not been waited for"
            due = site.awaiting_registers(self, int(group.thread[row]), element)
            site.fail(REGISTERS_IN_FLIGHT, message, row, insert=due)

    def pending(self) -> object:
        """What is not seen from what is in flight, to compare with another time."""
        return ()


class Watched(Flying):
    """Registers of a kernel with wgmma: who touched each last, and which are accumulators or A of one in flight."""

    def __init__(self, memory: Memory, crew: Crew, elems: int, domain: Domain):
        super().__init__(memory, crew, elems, domain)
        self.last = np.full(self.shape, _TOUCHED, np.int16)
        self.number = np.zeros(self.shape, np.int16)  # the shape of the wgmma whose accumulator an element is, or was
        self.summing = np.zeros(self.shape, np.int16)  # wgmmas in flight that add to it
        self.lent = np.zeros(self.shape, np.int16)  # wgmmas in flight that read it as A

    # ---- by the threads themselves
    def check_columns(self, columns: slice | Array, group: Group, site: Reporter) -> None:
        self._touch("reads", columns, group, site)
        super().check_columns(columns, group, site)

    def write_columns(self, columns: slice | Array, bits: Array, group: Group, site: Reporter) -> None:
        self._touch("writes", columns, group, site)
        self.settle(columns, bits, group)

    def _touch(self, verb: str, columns: slice | Array, group: Group, site: Reporter) -> None:
        at = places_of(columns, group)
        self._refuse_flying(verb, columns, group, self.summing[at] > 0, "wgmma is still adding to", site)
        self._refuse_flying(verb, columns, group, self.lent[at] > 0, "wgmma still has as A", site)
        self.last[at] = _TOUCHED

    def fence(self, group: Group) -> None:
        """What these threads did is done before the wgmmas after this."""
        self.last[group.places] = _FENCED

    # ---- by wgmma
    def lend(self, columns: slice, group: Group, site: Reporter) -> Array:
        """The bits of A, which nobody may touch until ``land``."""
        at = places_of(columns, group)
        self._refuse_flying("takes as A", columns, group, self.summing[at] > 0, "wgmma is still adding to", site)
        own = (self.last[at] == _FENCED) | (self.last[at] == _TAKEN)
        self._refuse_unfenced("takes as A", columns, group, ~own, site)
        bits = self.known_of(columns, group, site)
        self.last[at] = _TAKEN
        self.lent[at] += 1
        return bits

    def sum_up(self, columns: slice, number: int, group: Group, site: Reporter) -> None:
        """The elements become the accumulator of a wgmma of the shape with that number; nobody else may touch them
        until ``land``.
        """
        at = places_of(columns, group)
        other = (self.summing[at] > 0) & (self.number[at] != number)
        self._refuse_flying("adds to", columns, group, other, "wgmma of another shape is still adding to", site)
        self._refuse_flying("adds to", columns, group, self.lent[at] > 0, "wgmma still has as A", site)
        own = (self.last[at] == _FENCED) | (self.last[at] == number)
        self._refuse_unfenced("adds to", columns, group, ~own, site)
        self.last[at] = self.number[at] = number
        self.summing[at] += 1

    def known_of(self, columns: slice | Array, group: Group, site: Reporter) -> Array:
        """The bits as they are, for wgmma; nothing is owed then."""
        super().check_columns(columns, group, site)
        return self.held(columns, group)

    def land(self, columns: slice, as_a: bool, group: Group) -> None:
        """A wgmma that was in flight is done, for these threads."""
        (self.lent if as_a else self.summing)[places_of(columns, group)] -= 1

    def pending(self) -> object:
        """What a fence would change, to compare with another time."""
        return self.last.tobytes()

    # ---- refusals
    def _refuse_unfenced(self, verb: str, columns: slice | Array, group: Group, bad: Array, site: Reporter) -> None:
        if bad.any():
            row, element = _first(columns, group, bad)
            message = f"{verb} register {self.name}[{element}] without a fence after what was done with it before"
            site.fail(REGISTERS_UNFENCED, message, row)

    # ---- trips together
    def save(self) -> Any:
        return super().save(), self.last.copy()

    def restore(self, state: Any) -> None:
        super().restore(state[0])
        self.last[:] = state[1]


class Carried(Flying):
    """Registers of a kernel with tensor memory: which a tcgen05.ld in flight fills, and which a tcgen05.st reads.

    PTX ISA, tcgen05.wait: what an ld has put into registers is there after wait::ld; st reads its own until wait::st.
    """

    def __init__(self, memory: Memory, crew: Crew, elems: int, domain: Domain):
        super().__init__(memory, crew, elems, domain)
        self.filling = np.zeros(self.shape, np.int16)
        self.lent = np.zeros(self.shape, np.int16)

    # ---- by the threads themselves
    def check_columns(self, columns: slice | Array, group: Group, site: Reporter) -> None:
        self._refuse_filled("reads", columns, group, site)
        super().check_columns(columns, group, site)

    def write_columns(self, columns: slice | Array, bits: Array, group: Group, site: Reporter) -> None:
        self._refuse_filled("writes", columns, group, site)
        lent = self.lent[places_of(columns, group)] > 0
        self._refuse_flying("writes", columns, group, lent, "tcgen05.st still reads", site)
        self.settle(columns, bits, group)

    def _refuse_filled(self, verb: str, columns: slice | Array, group: Group, site: Reporter) -> None:
        filled = self.filling[places_of(columns, group)] > 0
        self._refuse_flying(verb, columns, group, filled, "tcgen05.ld still fills", site)

    # ---- by moves of tensor memory
    def fill(self, columns: slice, bits: Array, group: Group, site: Reporter) -> None:
        """A load puts its bits here, which nobody may look at until it has landed."""
        self.write_columns(columns, bits, group, site)
        self.filling[places_of(columns, group)] += 1

    def lend(self, columns: slice, group: Group, site: Reporter) -> Array:
        """The bits that a store takes, which nobody may write until it has landed."""
        bits = self.read_columns(columns, group, site)
        self.lent[places_of(columns, group)] += 1
        return bits

    def land(self, columns: slice, is_load: bool, group: Group) -> None:
        """A move that was in flight is done, for these threads."""
        (self.filling if is_load else self.lent)[places_of(columns, group)] -= 1


def _first(columns: slice | Array, group: Group, bad: Array) -> tuple[int, int]:
    """(position in the group, element) of the first bad entry."""
    row, column = (int(x[0]) for x in np.nonzero(bad.reshape(len(group), -1)))
    return row, column + columns.start if isinstance(columns, slice) else int(columns[column])
