"""Values in float64 with how far from each a right kernel's may be, and which of a kernel's are further."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Bound:
    """Values and how far a kernel's may be from them. Of truth values: 0 or 1, and 1 where it may be the other."""

    value: Array
    error: Array


def find_beyond(got: Array, want: Bound) -> tuple[Array, Array]:
    """(which are wrong, how much of its bound each takes) of a kernel's values; of the latter -1 where none is claimed.

    >>> wrong, part = find_beyond(np.array([1.0, 2.0]), Bound(np.array([1.5, 5.0]), np.array([1.0, 1.0])))
    >>> wrong.tolist(), part.tolist()
    ([False, True], [0.5, 3.0])
    """
    with np.errstate(all="ignore"):
        values = got.astype(np.float64)
        same = (values == want.value) | (np.isnan(values) & np.isnan(want.value))
        off = np.where(same, 0.0, np.abs(values - want.value))
        off = np.where(np.isnan(off), np.inf, off)
        free = np.isinf(want.error)
        part = np.where(free, -1.0, np.where(off == 0, 0.0, off / want.error))
        return ~free & (off > want.error), part
