"""The shared-memory accesses of a warp that moves a tensor between registers and memory, both as linear layouts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilegen.errors import LayoutError
from tilegen.layouts.linear.matrices import Columns, span_basis
from tilegen.layouts.linear.operations import compose, inverse
from tilegen.layouts.linear.values import LinearLayout

WARP_LANES = 32
MOST_BYTES = 16  # PTX ISA, ld.shared and st.shared: .v4.b32 moves the most


def warp_accesses(
    registers: LinearLayout, shared: LinearLayout, elem_bytes: int, warp: int = 0
) -> tuple[int, NDArray[np.int64]]:
    """(bytes of each lane's access, byte offsets [access, lane]) when one warp moves all its registers.

    Offsets are those of shared^-1 o registers. A lane's vector is the largest aligned run of offsets, up to 16 bytes,
    whose bits are bits of the register number, in any order; a register that repeats another is not moved twice. Lanes
    that the layout does not have are -1. Raises LayoutError when elements are held by no offset, when lanes are more
    than 32, and for elements over 16 bytes.

    >>> from tilegen.layouts.gluon.distributed import BlockedLayout
    >>> from tilegen.layouts.gluon.shared import SwizzledSharedLayout
    >>> registers = BlockedLayout([1, 8], [32, 1], [1, 1], [1, 0]).to_linear((32, 8))
    >>> width, offsets = warp_accesses(registers, SwizzledSharedLayout(1, 1, 1, [1, 0]).to_linear((32, 8)), 2)
    >>> width, offsets[:, :4].tolist()
    (16, [[0, 16, 32, 48]])
    """
    if elem_bytes not in (1, 2, 4, 8, 16):
        raise LayoutError(f"an access moves elements of 1, 2, 4, 8 or 16 bytes, not {elem_bytes}")
    moves = compose(inverse(shared), registers)
    at = moves.outs.index("offset")
    columns = {name: tuple(vector[at] for vector in vectors) for name, vectors in moves.inputs}
    lanes = 1 << len(columns.get("lane", ()))
    if lanes > WARP_LANES:
        raise LayoutError(f"a warp has {WARP_LANES} lanes, not {lanes}")
    held = columns.get("register", ())
    unit = _vector(held, columns.get("lane", ()) + columns.get("warp", ()), MOST_BYTES // elem_bytes)
    first = _xor_all(np.zeros(1, np.int64), _beyond(held, unit))
    first = first ^ _pick(columns.get("warp", ()), warp)
    offsets = _xor_all(first, columns.get("lane", ())) * elem_bytes
    everything = np.full((len(first), WARP_LANES), -1, np.int64)
    everything[:, :lanes] = offsets.reshape(lanes, -1).T
    return unit * elem_bytes, everything


def _vector(held: Columns, other: Columns, most: int) -> int:
    """The largest aligned run of offsets, in elements, whose bits are bits of the register number."""
    unit = 1
    while unit < most and unit in held and not any(column & unit for column in (*held, *other) if column != unit):
        unit *= 2
    return unit


def _beyond(held: Columns, unit: int) -> Columns:
    """What selects the vectors of a lane: a basis of the offsets that it holds, in whole vectors."""
    return span_basis(column & -unit for column in held)


def _xor_all(values: NDArray[np.int64], columns: Sequence[int]) -> NDArray[np.int64]:
    """All combinations, the columns' bits above those of ``values``."""
    for column in columns:
        values = np.concatenate([values, values ^ column])
    return values


def _pick(columns: Columns, index: int) -> int:
    result = 0
    for k, column in enumerate(columns):
        result ^= column * (index >> k & 1)
    return result
