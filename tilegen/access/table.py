"""One access in full, for a table that a person reads: every bank's words, and the lanes that touch them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tilegen.access.warp import BANK_BYTES, BANKS, RED, merges, phase_lanes, read_access


@dataclass(frozen=True)
class Word:
    """A word of shared memory (bytes ``4 * index`` to ``4 * index + 3``) and the lanes that touch it."""

    index: int
    lanes: tuple[int, ...]

    @property
    def row(self) -> int:
        """Which 128-byte row of the banks it lies in."""
        return self.index // BANKS


@dataclass(frozen=True)
class Phase:
    """Lanes that are served together; ``banks[b]`` holds the distinct words that they touch in bank b."""

    lanes: tuple[int, ...]
    banks: tuple[tuple[Word, ...], ...]
    takes_turns: bool = False  # each lane of a word by itself

    @property
    def wavefronts(self) -> int:
        return max(sum(len(w.lanes) if self.takes_turns else 1 for w in words) for words in self.banks)


@dataclass(frozen=True)
class BankTable:
    """One shared-memory access, phase by phase; only phases with an active lane are listed."""

    kind: str
    width_bytes: int
    phases: tuple[Phase, ...]
    merged: bool  # two phases of the width were served as one

    @property
    def wavefronts(self) -> int:
        return sum(phase.wavefronts for phase in self.phases)

    @property
    def conflicts(self) -> int:
        """Wavefronts above the floor of one per phase."""
        return self.wavefronts - len(self.phases)


def bank_table(kind: str, width_bytes: int, offsets: ArrayLike) -> BankTable:
    """The words and lanes in every bank, for each phase of one access.

    >>> table = bank_table("ld", 4, [128 * (lane % 2) for lane in range(32)])
    >>> table.wavefronts, table.conflicts
    (2, 1)
    >>> [(word.index, len(word.lanes)) for word in table.phases[0].banks[0]]
    [(0, 16), (32, 16)]
    """
    access = read_access(kind, width_bytes, offsets)
    if np.ndim(offsets) != 1:
        raise ValueError(f"a bank table is of one access: offsets of shape (32,), not {np.shape(offsets)}")
    merged = bool(merges(kind, width_bytes, access)[0])
    size = phase_lanes(width_bytes) * (2 if merged else 1)
    at = [int(x) for x in access[0]]
    groups = [[lane for lane in range(first, first + size) if at[lane] >= 0] for first in range(0, len(at), size)]
    phases = tuple(_phase(group, at, width_bytes, kind == RED) for group in groups if group)
    return BankTable(kind, width_bytes, phases, merged)


def _phase(lanes: list[int], offsets: list[int], width_bytes: int, takes_turns: bool) -> Phase:
    touched: dict[int, list[int]] = {}
    for lane in lanes:
        for word in range(offsets[lane] // BANK_BYTES, (offsets[lane] + width_bytes - 1) // BANK_BYTES + 1):
            touched.setdefault(word, []).append(lane)
    words = [Word(index, tuple(by)) for index, by in sorted(touched.items())]
    banks = tuple(tuple(w for w in words if w.index % BANKS == bank) for bank in range(BANKS))
    return Phase(tuple(lanes), banks, takes_turns)
