"""Which numbers an element type holds: every one of another type, one that a text has; and how far they lie apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.dtypes import DTYPES, FACTOR, numpy_dtype

NUMBER_WORDS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}  # texts in YAML, which writes .inf, -.inf and .nan


@dataclass(frozen=True)
class FloatFormat:
    """Bits of the significand with the hidden one, exponent of the largest power of two, and of the least number."""

    precision: int
    most: int
    least: int


FLOAT_FORMATS = {
    "float64": FloatFormat(53, 1023, -1074),
    "float32": FloatFormat(24, 127, -149),
    "float16": FloatFormat(11, 15, -24),
    "bfloat16": FloatFormat(8, 127, -133),
    "float8_e4m3fn": FloatFormat(4, 8, -9),
    "float8_e5m2": FloatFormat(3, 15, -16),
    FACTOR: FloatFormat(1, 127, -127),
}


@cache
def holds_all(dtype: str, of: str) -> bool:
    """Is every number of the type ``of`` one of ``dtype``? A conversion is the identity then. Unsigned has no -1.

    >>> holds_all("float32", "bfloat16"), holds_all("bfloat16", "float16"), holds_all("float16", "uint8")
    (True, False, True)
    """
    if dtype == of:
        return True
    if dtype == FACTOR:  # which has no 0
        return False
    wide, narrow = DTYPES[dtype].kind, DTYPES[of].kind
    if "complex" in (wide, narrow):
        return False
    if wide == "float":
        f = FLOAT_FORMATS[dtype]
        if narrow == "float":
            g = FLOAT_FORMATS[of]
            return f.precision >= g.precision and f.most >= g.most and f.least <= g.least
        return _digits(of) <= f.precision and _digits(of) <= f.most
    if narrow == "float" or (narrow == "int" and wide != "int"):
        return False
    return _digits(of) <= _digits(dtype)


def _digits(dtype: str) -> int:
    """Binary digits of the largest number of an integer type."""
    d = DTYPES[dtype]
    return {"bool": 1, "int": d.bits - 1, "uint": d.bits}[d.kind]


def half_ulp(dtype: str) -> float:
    """Half the distance of 1 from the next number; 0 for integers.

    >>> half_ulp("float16"), half_ulp("int32")
    (0.00048828125, 0.0)
    """
    return 2.0 ** -FLOAT_FORMATS[dtype].precision if dtype in FLOAT_FORMATS else 0.0


@cache
def largest(dtype: str) -> float:
    """The largest number of a float type; infinity for integers, which wrap.

    >>> largest("float16"), largest("int32")
    (65504.0, inf)
    """
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo  # which says nothing of its types
    return float(finfo(numpy_dtype(dtype)).max) if dtype in FLOAT_FORMATS else float("inf")


def least_normal(dtype: str) -> float:
    """The least number of a float type that has all its digits.

    >>> least_normal("float16") == 2.0**-14
    True
    """
    f = FLOAT_FORMATS[dtype]
    return float(2.0 ** (f.least + f.precision - 1))


def distance_at(size: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The distance of neighbouring numbers of a float type at (and above) sizes.

    >>> distance_at(np.array([1.0, 3.0]), "float16").tolist()
    [0.0009765625, 0.001953125]
    """
    f = FLOAT_FORMATS[dtype]
    _, exponent = np.frexp(size)
    result: NDArray[Any] = np.ldexp(1.0, np.maximum(exponent - f.precision, f.least))
    return result


def read_word(value: object) -> object:
    """The number that ``inf``, ``-inf`` or ``nan`` is; anything else as it is given.

    >>> read_word("-inf"), read_word("nan"), read_word(3)
    (-inf, nan, 3)
    """
    return NUMBER_WORDS.get(value, value) if isinstance(value, str) else value


def say_range(dtype: str) -> str:
    """The values that a dtype has.

    >>> say_range("int8")
    'int8 holds -128 to 127'
    """
    kind = DTYPES[dtype].kind
    if kind in ("int", "uint"):
        return f"{dtype} holds {np.iinfo(numpy_dtype(dtype)).min} to {np.iinfo(numpy_dtype(dtype)).max}"
    return f"{dtype} holds up to {largest(dtype):g}" if kind == "float" else ""


def reject_value(value: float, dtype: str) -> str | None:
    """Why a number is no value of a dtype, or None.

    Integers must be stored as they are; other numbers may be rounded, but not to 0, infinity or NaN.

    >>> reject_value(300, "uint8")
    '300 is not a value of uint8, which would hold 44'
    >>> reject_value(0.1, "float16") is None
    True
    """
    try:
        with np.errstate(all="ignore"):
            stored = np.array([value]).astype(numpy_dtype(dtype))[0]
            kept = stored.item() if isinstance(stored, np.generic) else float(stored)
    except (OverflowError, ValueError, TypeError):
        return f"{value} is not a value of {dtype}"
    if isinstance(value, float) and math.isinf(value) and kept != value:
        return f"{dtype} has no infinity"
    if value != value or kept == value:
        return None if (kept != kept) == (value != value) else f"{value} is not a value of {dtype}"
    rounds = isinstance(value, float) and DTYPES[dtype].kind in ("float", "complex")
    keeps_size = rounds and kept == kept and abs(kept) not in (0, float("inf"))
    return None if keeps_size else f"{value} is not a value of {dtype}, which would hold {kept}"
