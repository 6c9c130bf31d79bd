"""Words of 64 bits that tell what they are made of apart: what a domain has in the place of a function it cannot do."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ODD64 = 0x9E3779B97F4A7C15


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
        x = (a ^ (b * np.uint64(_ODD64))) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


@dataclass(frozen=True)
class WordFactors:
    """What the words of a stored value are multiples of, and what gives the value back from the first."""

    own: NDArray[Any]
    inverse: Any


@cache
def factors_of(kind: str, size: int) -> WordFactors:
    """Odd factors, other ones for another kind of value; one of ``size`` bytes has a word of 4, or some of 8.

    >>> one = factors_of("float16", 8)
    >>> int(one.own[0]) * int(one.inverse) % 2**64, bool(one.own[0] != factors_of("bfloat16", 8).own[0])
    (1, True)
    """
    bits, word = (32, np.uint32) if size == 4 else (64, np.uint64)
    first = int(salt(f"kind {kind}")) | 1
    own = [first * _ODD64 * (2 * k + 1) % (1 << bits) for k in range(max(1, size // 8))]
    return WordFactors(np.array(own, word), word(pow(own[0], -1, 1 << bits)))
