"""Numbers of a text as elements: which of them a dtype has."""

from __future__ import annotations

import math

import numpy as np

from tilegen.arithmetic.formats import largest
from tilegen.dtypes import DTYPES, numpy_dtype

WORDS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}  # texts in YAML, which writes .inf, -.inf and .nan


def read_word(value: object) -> object:
    """The number that ``inf``, ``-inf`` or ``nan`` is; anything else as it is given.

    >>> read_word("-inf"), read_word("nan"), read_word(3)
    (-inf, nan, 3)
    """
    return WORDS.get(value, value) if isinstance(value, str) else value


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
