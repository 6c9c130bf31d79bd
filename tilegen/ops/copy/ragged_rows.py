"""Rows of a global array that begin at any element: where their vectors lie, and of which words these are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.access import SECTOR_BYTES
from tilegen.index import Index, add, div, evaluate, mod, mul, multiple, terms, total, variables
from tilegen.index.runs import counter
from tilegen.ops.copy.shifted_tile import Rows
from tilegen.ops.operand import Operand

WORD_BYTES = 4
_LANES = 32


@dataclass(frozen=True)
class Words:
    """Words of ``unit`` elements that vectors are made of. Rows whose numbers lie ``apart`` begin alike behind a word.

    ``missing``: for each of the first rows, how many elements it begins before a word.
    """

    unit: int
    missing: tuple[int, ...]

    @property
    def apart(self) -> int:
        return len(self.missing)


@dataclass(frozen=True)
class RaggedRows:
    """The rows of a tile in the order of its global ``side``, in vectors of ``elems`` elements.

    ``any_row``: a variable that stands for the number of a row; 0 where there is one.
    """

    rows: Rows
    side: int
    elems: int
    any_row: Index

    @property
    def vectors(self) -> int:
        """The most that a row has."""
        return self.rows.length // self.elems

    @property
    def array(self) -> Operand:
        return self.rows.tile.operands[self.side]

    @property
    def elem_bytes(self) -> int:
        return self.array.elem_bytes

    @property
    def instructions(self) -> int:
        """Accesses of warps: a vector's elements are accesses of shared memory each, what is at the ends of both."""
        vectors, ends = (-(-self.rows.count * each // _LANES) for each in (self.vectors, self.elems))
        return vectors * (1 + self.elems) + 2 * ends * 2

    @property
    def sectors(self) -> int:
        """What the accesses of a CTA's rows touch in global memory, were each row's vectors one access."""
        start = self.rows.ref(self.side, self.any_row, 0).offset
        known: dict[str, Any] = {v.name: np.int64(v.least) for v in variables(start)}
        known |= {v.name: np.arange(self.rows.count) for v in variables(self.any_row)}
        first = np.broadcast_to(evaluate(start, known), self.rows.count)
        head = -first % self.elems
        end = head + (self.rows.length - head) // self.elems * self.elems
        runs = (first, first + head), (first + head, first + end), (first + end, first + self.rows.length)
        sector = SECTOR_BYTES // self.elem_bytes
        return int(sum(np.where(b > a, (b - 1) // sector - a // sector + 1, 0).sum() for a, b in runs))

    def lead(self, row: Index) -> Index:
        """How far behind a vector a row begins."""
        return self._residue(row, 1)

    def head(self, row: Index) -> Index:
        """How many elements of a row come before its first vector."""
        return self._residue(row, -1)

    def word_head(self, row: Index, missing: int) -> Index:
        """The head of a row without the elements that are missing to a word: a multiple of words, as can be seen."""
        return self._residue(row, -1, missing)

    def _residue(self, row: Index, sign: int, less_by: int = 0) -> Index:
        """The row's beginning, or what is missing from there, as a sum of no differences, modulo a vector."""
        start = self.rows.ref(self.side, row, 0).offset
        summed = total((sign * c % self.elems, factor) for c, factor in terms(start))
        return mod(total((c % self.elems, factor) for c, factor in terms(add(summed, -less_by))), self.elems)

    def find_words(self, inside: int) -> Words | None:
        """How vectors are made of whole words of the side ``inside``; None where they are not."""
        side, size = self.rows.tile.operands[inside], self.elem_bytes
        unit = WORD_BYTES // size
        if unit < 2 or side.chunk_elems % unit or self.rows.length % unit or self.elems % unit:
            return None
        row, number = counter("row", self.rows.count), counter("number", self.rows.length // unit)
        begin = self.rows.ref(inside, row, mul(number, unit)).offset
        if side.memory.widest_bytes < WORD_BYTES or multiple(begin) % unit:
            return None
        for apart in (n for n in (1, 2, 4) if n <= unit and self.rows.count % n == 0):
            number = counter("number", self.rows.count // apart)
            starts = (self.rows.ref(self.side, add(mul(number, apart), c), 0).offset for c in range(apart))
            found = [_find_missing(start, unit) for start in starts]
            if (None not in found and apart > 1) or found == [0]:
                return Words(unit, tuple(n for n in found if n is not None))
        return None

    def end(self, row: Index) -> Index:
        """Where the vector begins, counted from the one in which a row begins, in which the row ends."""
        return mul(div(add(self.lead(row), self.rows.length), self.elems), self.elems)


def _find_missing(start: Index, unit: int) -> int | None:
    """How many elements a beginning lacks to a multiple of ``unit``; None where that is no constant."""
    return next((n for n in range(unit) if multiple(add(start, n)) % unit == 0), None)
