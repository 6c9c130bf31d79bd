"""Words of 64 bits that tell what they are made of apart: what a domain has in the place of a function it cannot do."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

ODD64 = 0x9E3779B97F4A7C15


@cache
def salt(text: str) -> np.uint64:
    """A text as a word.

    >>> bool(salt("a") != salt("b"))
    True
    """
    return np.uint64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))


def mix(a: Any, b: Any) -> Any:
    """A hash of two words, which do not commute: the finalizer of splitmix64.

    >>> one, two = np.uint64(1), np.uint64(2)
    >>> bool(mix(one, two) == mix(two, one))
    False
    """
    with np.errstate(over="ignore"):
        x = (a ^ (b * np.uint64(ODD64))) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


@cache
def odds(count: int) -> NDArray[np.uint64]:
    """Odd factors, one for each word of a stored value.

    >>> [int(x) % 2 for x in odds(3)]
    [1, 1, 1]
    """
    return np.array([ODD64 * (2 * k + 1) % (1 << 64) for k in range(count)], np.uint64)
