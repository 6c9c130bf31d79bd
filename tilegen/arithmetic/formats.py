"""Which numbers an element type holds: whether every one of another type is among them, and to what a number rounds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tilegen.dtypes import DTYPES


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
}


@cache
def holds_all(dtype: str, of: str) -> bool:
    """Is every number of the type ``of`` one of ``dtype``? A conversion is the identity then. Unsigned has no -1.

    >>> holds_all("float32", "bfloat16"), holds_all("bfloat16", "float16"), holds_all("float16", "uint8")
    (True, False, True)
    """
    if dtype == of:
        return True
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
