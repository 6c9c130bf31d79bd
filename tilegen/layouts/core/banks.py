"""Where a shared-memory element lies: bank and 128-byte line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilegen.errors import LayoutError
from tilegen.index import Index
from tilegen.layouts.core.iters import quotient, remainder
from tilegen.layouts.core.values import Layout

BANKS = 32  # CUDA C++ Programming Guide, "Shared Memory": 32 banks, successive 32-bit words in successive banks
BANK_BYTES = 4


def bank_and_line(layout: Layout, coords: Sequence[Any], shape: Sequence[Index], elem_bytes: int) -> tuple[Any, Any]:
    """The bank of an element's first byte, and its 128-byte line.

    byte = m * elem_bytes, bank = (byte // 4) % 32, line = byte // 128. ``coords`` are ints, arrays or Index. Raises
    LayoutError when the layout does not map to m.

    >>> from tilegen.layouts.notation import parse
    >>> bank_and_line(parse("Swizzle(3,3,3) o S[(8,64):(64,1)]"), (5, 0), (8, 64), elem_bytes=2)
    (20, 5)
    """
    place = layout.place(coords, shape)
    if "m" not in place:
        raise LayoutError(f"{layout} has no coordinate on axis m, so no bank")
    m = place["m"]
    byte = (m.astype(np.int64) if isinstance(m, np.ndarray) else m) * elem_bytes
    return remainder(quotient(byte, BANK_BYTES), BANKS), quotient(byte, BANKS * BANK_BYTES)
