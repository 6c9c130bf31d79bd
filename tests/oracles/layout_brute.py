"""Every layout of a shared tile by brute force: one after the other, from the definitions, nothing of the chooser's.

Rows or columns, padded by 0 to 32 words, every Swizzle(M, B, S) of them with M + B + S <= log2(elements), and none;
panels of 16, 32, 64 and 128 bytes of either, plain and with the swizzle of as many bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Placed:
    """A layout by the element address of every element of the tile, in row-major order."""

    name: str
    addresses: Ints

    @property
    def span(self) -> int:
        return int(self.addresses.max()) + 1


def every_layout(rows: int, columns: int, elem_bytes: int) -> Iterator[Placed]:
    row, column = np.divmod(np.arange(rows * columns), columns)
    yield from _in_order(row, column, columns, elem_bytes, "")
    yield from _in_order(column, row, rows, elem_bytes, "order ")
    for slow, fast, count, length in ((row, column, rows, columns), (column, row, columns, rows)):
        yield from _in_panels(slow, fast, count, length, elem_bytes)


def _in_order(slow: Ints, fast: Ints, length: int, elem_bytes: int, mark: str) -> Iterator[Placed]:
    """Lines of ``length`` elements one behind the other, padded or swizzled."""
    dense = slow * length + fast
    for words in range(33):
        if 4 * words % elem_bytes == 0:
            name = f"pad {words}" if words else "none"
            yield Placed(mark + name, dense + slow * (4 * words // elem_bytes))
    bits = floor(log2(len(dense)))
    for m in range(bits):
        for b in range(1, bits + 1):
            for s in range(b, bits - m - b + 1):
                yield Placed(f"{mark}Swizzle({m}, {b}, {s})", swizzle(dense, m, b, s))


def _in_panels(slow: Ints, fast: Ints, count: int, length: int, elem_bytes: int) -> Iterator[Placed]:
    """``count`` lines of ``length`` elements, cut into panels; 16-byte chunks of a line of 128 bytes go to 8 places."""
    for size in (16, 32, 64, 128):
        width = size // elem_bytes
        if width < 2 or length % width or length == width or count == 1:
            continue
        dense = fast // width * (count * width) + slow * width + fast % width
        yield Placed(f"panels {size}", dense)
        if size > 16 and count % 8 == 0:
            chunk, chunks = dense * elem_bytes // 16, size // 16
            moved = chunk ^ (dense * elem_bytes // 128 % chunks)
            yield Placed(f"panels {size} swizzled", (moved * 16 + dense * elem_bytes % 16) // elem_bytes)


def swizzle(address: Ints, m: int, b: int, s: int) -> Ints:
    """With x = address >> M, the bits [S, S+B) of x are XORed into its bits [0, B); the low M bits stay."""
    low, x = address % 2**m, address // 2**m
    return (x ^ (x // 2**s % 2**b)) * 2**m + low


def count(addresses: Ints, elem_bytes: int, accesses: list[Any]) -> int | None:
    """Weighted wavefronts; None where an access is not one contiguous, aligned vector for every lane."""
    total = 0
    for a in accesses:
        first = a.elements[a.elements >= 0]
        start = addresses[first]
        if (start % a.width_elems).any():
            return None
        if any((addresses[first + k] != start + k).any() for k in range(1, a.width_elems)):
            return None
        offsets = np.where(a.elements >= 0, addresses[a.elements] * elem_bytes, -1)
        total += int(wavefronts(a.kind, a.width_elems * elem_bytes, offsets) @ a.weights)
    return total


def wavefronts(kind: str, width: int, offsets: Ints) -> Ints:
    """Per access: over its phases, the most distinct words in one bank, added up."""
    phase = np.tile(np.arange(32) // max(1, min(32, 128 // width)), (len(offsets), 1))
    if kind == "ld" and width >= 8:
        merged = np.array([any(_agree(row, row[np.arange(32) ^ d]) for d in (1, 2)) for row in offsets])
        phase = np.where(merged[:, None], phase // 2, phase)
    result = np.zeros(len(offsets), np.int64)
    for n, (row, phases) in enumerate(zip(offsets, phase, strict=True)):
        for p in set(phases[row >= 0].tolist()):
            starts = row[(row >= 0) & (phases == p)].tolist()
            words = {w for x in starts for w in range(x // 4, (x + width - 1) // 4 + 1)}
            result[n] += max(np.bincount([w % 32 for w in words]))
    return result


def _agree(a: Ints, b: Ints) -> bool:
    return bool(((a == b) | (a < 0) | (b < 0)).all())
