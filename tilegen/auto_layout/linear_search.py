"""An F2-linear layout of a shared tile without bank conflicts, searched: what no family of a spec's notation may reach.

Offset bits and element bits are vectors over F2. Two lanes of one phase that touch elements of difference d conflict
exactly when the offset of d has its bank bits at 0 and not its bits above. So a layout is free of conflicts when the
elements behind the offset bits above the banks span a space that meets no such difference. The space is built vector
by vector, backtracking; low bits of the element number stay low bits of the offset, so that vectors stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilegen import access
from tilegen.auto_layout.families import Ints
from tilegen.auto_layout.tile_access import TileAccess, first_elements, is_merged
from tilegen.layouts import LinearLayout

_NODES = 300  # partial spaces that the search extends before it gives up
_MOST_BITS = 16  # elements that a boolean table per difference may have, as a power of two
_LINE_BYTES = 128  # 32 banks of 4 bytes


@dataclass(frozen=True)
class LinearFound:
    """What the search for a linear layout came to: the layout and its wavefronts (None, -1 without one), and why."""

    layout: LinearLayout | None
    wavefronts: int
    reason: str


def find_linear(shape: Sequence[int], elem_bytes: int, accesses: Sequence[TileAccess]) -> LinearFound:
    """A linear layout of ``shape`` under which no access has a conflict, or the reason why none was found.

    >>> from tilegen.auto_layout.tile_access import tile_access
    >>> column = tile_access("ld", 1, [32 * lane for lane in range(32)])
    >>> found = find_linear((32, 32), 4, [column])
    >>> found.wavefronts, found.reason
    (1, 'free of conflicts')
    """
    bits = prod(shape).bit_length() - 1
    if any(a.source is not None for a in accesses):
        return LinearFound(None, -1, "what cp.async costs depends on more than conflicts")
    if any(n & (n - 1) for n in shape):
        return LinearFound(None, -1, "an extent is no power of two")
    if bits > _MOST_BITS:
        return LinearFound(None, -1, f"more than 2**{_MOST_BITS} elements were not searched")
    low = max([(4 // elem_bytes).bit_length() - 1, 0, *(a.width_elems.bit_length() - 1 for a in accesses)])
    line = (_LINE_BYTES // elem_bytes).bit_length() - 1
    if any((first_elements(a) % a.width_elems).any() for a in accesses):
        return LinearFound(None, -1, "a vector is not aligned")
    bad = _conflicts(bits, elem_bytes, accesses)
    high, complete = (None, True) if _is_too_full(bad, low, bits, bits - line) else _search(bad, low, bits, bits - line)
    if high is None:
        found = "no linear layout is free of conflicts" if complete else f"{_NODES} nodes of the search found none"
        return LinearFound(None, -1, f"{found}, vectors kept whole" if low else found)
    basis = _complete_basis(high, low, bits)
    offsets = np.stack(np.unravel_index(basis, tuple(shape)), axis=1)
    layout = LinearLayout(offset=offsets.tolist(), shape=list(shape))
    return LinearFound(layout, _count(basis, bits, elem_bytes, accesses), "free of conflicts")


def _conflicts(bits: int, elem_bytes: int, accesses: Sequence[TileAccess]) -> NDArray[np.bool_]:
    """Which differences of element numbers may not lie in the space above the banks, shape (2**bits,)."""
    bad = np.zeros(1 << bits, bool)
    for a in accesses:
        unit = max(a.width_elems, 4 // elem_bytes, 1)  # elements that are one word, or one vector: no conflict inside
        units = np.unique(_differences(a, elem_bytes) // unit)
        for k in range(unit):
            bad[units[units > 0] * unit + k] = True
    return bad


def _differences(a: TileAccess, elem_bytes: int) -> Ints:
    """XORs of the elements of any two lanes that are served in one phase."""
    lanes = access.MATRIX_ROWS.get(a.kind, access.WARP_LANES)
    found = [np.zeros(0, np.int64)]
    merged = is_merged(a, elem_bytes)
    for which, factor in ((merged, 2), (~merged, 1)):
        size = min(lanes, _LINE_BYTES // max(4, a.width_elems * elem_bytes) * factor)
        rows = a.elements[which, :lanes].reshape(-1, size)
        apart = rows[:, :, None] ^ rows[:, None, :]
        both = (rows[:, :, None] >= 0) & (rows[:, None, :] >= 0)
        found.append(np.unique(apart[both]))
    return np.unique(np.concatenate(found))


def _is_too_full(bad: NDArray[np.bool_], low: int, bits: int, dimension: int) -> bool:
    """Whether a space of bad differences leaves no room beside it: dimensions add up to more than there is.

    Counted among elements whose low bits are 0, where both spaces lie.
    """
    room = max(0, bits - low - dimension)
    return any(_grow(bad, first, bits) > room for first in range(low, bits))


def _grow(bad: NDArray[np.bool_], first: int, bits: int) -> int:
    """The dimension of a space of bad differences: from bit ``first`` on, single bits are added as long as all are."""
    space = np.zeros(1, np.int64)
    for k in range(first, bits):
        wider = np.concatenate([space, space ^ (1 << k)])
        space = wider if bad[wider[1:]].all() else space
    return len(space).bit_length() - 1


def _search(bad: NDArray[np.bool_], low: int, bits: int, dimension: int) -> tuple[tuple[int, ...] | None, bool]:
    """Vectors that span a space of the wanted dimension without bad members, and whether the search was complete."""
    numbers = np.arange(1 << bits)
    whole = numbers[:: 1 << low][::-1]  # the low bits stay where they are; high ones first
    preferred = whole[np.argsort(np.bitwise_count(whole), kind="stable")][1:]
    budget = [_NODES]

    def extend(space: tuple[int, ...], taken: NDArray[np.bool_], closed: NDArray[np.bool_]) -> tuple[int, ...] | None:
        if len(space) == dimension:
            return space
        budget[0] -= 1
        tried = taken.copy()
        for v in preferred:
            if budget[0] < 0:
                return None
            if closed[v] or tried[v]:
                continue
            tried |= taken[numbers ^ v]  # the same space again
            found = extend((*space, int(v)), taken | taken[numbers ^ v], closed | closed[numbers ^ v])
            if found is not None:
                return found
        return None

    taken = numbers < 1 << low  # what lies below the chosen vectors
    found = extend((), taken, bad)
    return found, budget[0] >= 0


def _complete_basis(high: Sequence[int], low: int, bits: int) -> list[int]:
    """The element behind each offset bit: the low bits, single bits that complete the basis, the high space."""
    taken = np.arange(1 << bits) < 1 << low
    numbers = np.arange(1 << bits)
    for v in high:
        taken = taken | taken[numbers ^ v]
    middle = []
    for k in range(low, bits):
        if not taken[1 << k]:
            middle.append(1 << k)
            taken = taken | taken[numbers ^ (1 << k)]
    return [*(1 << k for k in range(low)), *middle, *high]


def _count(basis: Sequence[int], bits: int, elem_bytes: int, accesses: Sequence[TileAccess]) -> int:
    """Wavefronts with element ``XOR of basis[k] over the set bits k`` at each offset."""
    element = np.zeros(1, np.int64)
    for v in basis:
        element = np.concatenate([element, element ^ v])
    offset = np.empty(1 << bits, np.int64)
    offset[element] = np.arange(1 << bits)
    total = 0
    for a in accesses:
        rows = np.where(a.elements >= 0, offset[a.elements] * elem_bytes, -1)
        total += int((access.wavefronts(a.kind, a.width_elems * elem_bytes, rows) * a.weights).sum())
    return total
