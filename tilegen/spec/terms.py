"""What a spec declares beside buffers: roles of threads, mbarriers and their slots."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.errors import Mark
from tilegen.index import Index


@dataclass(frozen=True)
class RoleTerms:
    """A part of the threads: whole warps, which lie in the CTA from thread ``first`` on.

    ``registers`` of a thread while the role runs, 0: as many as the launch gives.
    """

    name: str
    threads: int
    registers: int = 0
    first: int = 0
    mark: Mark | None = field(default=None, compare=False)


@dataclass(frozen=True)
class BarrierTerms:
    """Declared mbarriers. ``open``: a wait for phase E is for the one before; the first of all passes.

    ``pair``: those of the even CTA of a pair serve both.
    """

    name: str
    slots: int
    open: bool = False
    pair: bool = False
    mark: Mark | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SlotName:
    """An mbarrier: one of the array that is declared, or that copies declare by naming it.

    ``count``: E where it is written as ``E % slots``; phase E // slots of it is meant. None for another spelling.
    """

    name: str
    index: Index = 0
    count: Index | None = None
    slots: int = 0
    mark: Mark | None = field(default=None, compare=False)
