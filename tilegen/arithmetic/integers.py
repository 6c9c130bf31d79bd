"""What functions of integers are in NumPy, in the type of their arguments: shifts, bits, upper halves of products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def shift_left(x: Any, count: Any) -> Array:
    """x << count. The count is taken without a sign, and from the type's bits on all are gone (PTX ISA, ``shl``).

    >>> shift_left(np.uint32([1, 1, 1]), np.uint32([31, 32, 40])).tolist()
    [2147483648, 0, 0]
    """
    return _shift(np.left_shift, x, count, lambda wide: np.zeros_like(wide))


def shift_right(x: Any, count: Any) -> Array:
    """x >> count: of a signed type its sign comes in. The count as of ``shift_left`` (PTX ISA, ``shr``).

    >>> shift_right(np.int32([-8, -8, 8]), np.int32([1, 99, -1])).tolist()
    [-4, -1, 0]
    """
    return _shift(np.right_shift, x, count, lambda wide: np.where(wide < 0, -1, 0).astype(wide.dtype))


def _shift(function: Callable[..., Any], x: Any, count: Any, gone: Callable[[Array], Array]) -> Array:
    wide, n = np.broadcast_arrays(np.asarray(x), np.asarray(count))
    bits = wide.dtype.itemsize * 8
    is_far = (n < 0) | (n >= bits)
    near = np.where(is_far, 0, n).astype(wide.dtype)
    return np.where(is_far, gone(wide), function(wide, near))


def multiply_high(a: Any, b: Any) -> Array:
    """The upper half of the product, as long as both factors together: floor(a * b / 2^bits).

    >>> multiply_high(np.uint32([0xD2511F53]), 0xFFFFFFFF).tolist(), multiply_high(np.int32([-1]), 1).tolist()
    ([3528531794], [-1])
    """
    x, y = np.broadcast_arrays(np.asarray(a), np.asarray(b).astype(np.asarray(a).dtype))
    type_ = x.dtype
    if type_.itemsize == 4:
        wide: Any = np.int64 if type_.kind == "i" else np.uint64
        return np.asarray(x.astype(wide) * y.astype(wide) >> wide(32)).astype(type_)
    u, v, half, low = x.astype(np.uint64), y.astype(np.uint64), np.uint64(32), np.uint64(0xFFFFFFFF)
    (u1, u0), (v1, v0) = ((w >> half, w & low) for w in (u, v))
    middle = u1 * v0 + (u0 * v0 >> half)
    carry = (middle & low) + u0 * v1
    high = u1 * v1 + (middle >> half) + (carry >> half)
    if type_.kind == "i":
        high = high - np.where(x < 0, v, np.uint64(0)) - np.where(y < 0, u, np.uint64(0))
    return np.asarray(high).astype(type_)


def count_ones(x: Any) -> Array:
    """How many bits of a number are 1.

    >>> count_ones(np.int32([-1, 5])).tolist()
    [32, 2]
    """
    bits, found = _as_bits(x), np.zeros(np.shape(x), np.uint8)
    for k in range(bits.dtype.itemsize * 8):
        found = found + (bits >> bits.dtype.type(k) & bits.dtype.type(1)).astype(np.uint8)
    return found


def count_leading_zeros(x: Any) -> Array:
    """How many bits of a number are 0 before its first 1; all of 0.

    >>> count_leading_zeros(np.uint32([0, 1, 1 << 31])).tolist()
    [32, 31, 0]
    """
    bits = _as_bits(x)
    found = np.full(np.shape(x), bits.dtype.itemsize * 8, np.uint8)
    for k in range(bits.dtype.itemsize * 8):
        found = np.where(bits >> bits.dtype.type(k) != 0, bits.dtype.itemsize * 8 - 1 - k, found)
    return found


def _as_bits(x: Any) -> Array:
    own = np.asarray(x)
    return own.astype(np.uint32 if own.dtype.itemsize == 4 else np.uint64)
