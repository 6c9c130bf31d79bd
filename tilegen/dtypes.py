"""Element types: NumPy's names, their size, what NumPy computes with, and what CUDA C++ calls them without headers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np


@dataclass(frozen=True)
class DType:
    """``bits`` of storage; ``c`` the CUDA type; ``typedef`` its definition where CUDA C++ has no such type built in."""

    name: str
    bits: int
    c: str
    typedef: str = ""
    kind: str = "float"  # float | int | uint | bool | complex

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def storage(self) -> str:
        """The built-in type that ``c`` is, or is another name of."""
        return self.typedef.partition(";")[0].removeprefix("typedef ").rpartition(" ")[0] or self.c


FACTOR = "float8_e8m0fnu"  # of scale factors: powers of two alone, from 2^-127 to 2^127; no sign, no zero; 255 is NaN
_TABLE = (
    DType("bool", 8, "bool", kind="bool"),
    DType("int8", 8, "signed char", kind="int"),
    DType("uint8", 8, "unsigned char", kind="uint"),
    DType("int16", 16, "short", kind="int"),
    DType("uint16", 16, "unsigned short", kind="uint"),
    DType("int32", 32, "int", kind="int"),
    DType("uint32", 32, "unsigned", kind="uint"),
    DType("int64", 64, "long long", kind="int"),
    DType("uint64", 64, "unsigned long long", kind="uint"),
    DType("float16", 16, "half_t", "typedef unsigned short half_t;  // the 16 bits of an IEEE half"),
    DType("bfloat16", 16, "bfloat16_t", "typedef unsigned short bfloat16_t;  // the upper 16 bits of a float"),
    DType("float8_e4m3fn", 8, "float8_e4m3_t", "typedef unsigned char float8_e4m3_t;  // 4 exponent, 3 mantissa bits"),
    DType("float8_e5m2", 8, "float8_e5m2_t", "typedef unsigned char float8_e5m2_t;  // 5 exponent, 2 mantissa bits"),
    DType(FACTOR, 8, "float8_e8m0_t", "typedef unsigned char float8_e8m0_t;  // an exponent: 2 to the power x - 127"),
    DType("float32", 32, "float"),
    DType("float64", 64, "double"),
    DType("complex64", 64, "float2", kind="complex"),
    DType("complex128", 128, "double2", kind="complex"),
)
DTYPES = {d.name: d for d in _TABLE}


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of an element type (bfloat16 and float8 from ml_dtypes, imported only when asked for).

    >>> numpy_dtype("bfloat16").itemsize
    2
    """
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return found


def powers_of_two(numbers: Any) -> np.ndarray[Any, Any]:
    """Factors near 1 by whole numbers: powers of two from 2^-4 to 2^3, whose products with others are exact.

    >>> powers_of_two(np.array([4, 5, 12])).astype("f4").tolist()
    [1.0, 2.0, 1.0]
    """
    found: np.ndarray[Any, Any] = np.ldexp(1.0, np.asarray(numbers) % 8 - 4).astype(numpy_dtype(FACTOR))
    return found


@cache
def bits_dtype(width_bytes: int) -> np.dtype[Any]:
    """An unsigned (or opaque) NumPy dtype of that many bytes, to compare images bit for bit.

    >>> bits_dtype(2)
    dtype('uint16')
    """
    return np.dtype({1: "u1", 2: "u2", 4: "u4", 8: "u8"}.get(width_bytes, f"V{width_bytes}"))


def is_held(value: float, dtype: str) -> bool:
    """Whether a dtype of floats rounds a number neither to infinity nor to 0; infinities and 0 are held as they are.

    >>> is_held(1e39, "float32"), is_held(1e39, "float64"), is_held(float("inf"), "float32"), is_held(1e-50, "float32")
    (False, True, True, False)
    """
    with np.errstate(all="ignore"):
        kept = float(np.float64(value).astype(numpy_dtype(dtype)))
    return abs(kept) not in (0, float("inf")) or kept == value


def say_range(dtype: str) -> str:
    """From where to where a dtype of floats holds numbers.

    >>> say_range("float32")
    'float32 holds 1.4e-45 to 3.4e+38'
    """
    of = np.finfo(dtype)
    return f"{dtype} holds {of.smallest_subnormal:.2g} to {of.max:.2g}"
