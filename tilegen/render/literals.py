"""Constants as C text."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilegen.dtypes import DTYPES, DType, numpy_dtype

COMPLEX_PART = {"complex64": DTYPES["float32"], "complex128": DTYPES["float64"]}


def literal(value: Any, dtype: str) -> tuple[str, str]:
    """A constant as C text, exact to the last bit, and what to say beside it where the text alone does not.

    >>> literal(0.1, "float32"), literal(1, "float16"), literal(-(2**31), "int32")
    (('0.1f', ''), ('0x3c00', '1.0'), ('-2147483647 - 1', ''))
    """
    d, x = DTYPES[dtype], np.asarray(0 if value is None else value).astype(numpy_dtype(dtype))[()]
    if d.kind == "bool":
        return ("true" if x else "false"), ""
    if d.kind == "complex":
        parts = [literal(v, COMPLEX_PART[dtype].name)[0] for v in (x.real, x.imag)]
        return f"{d.c}{{{', '.join(parts)}}}", ""
    if d.kind != "float":
        suffix = ("u" if d.kind == "uint" and d.bits >= 32 else "") + ("ll" if d.bits == 64 else "")
        least = d.kind == "int" and d.bits >= 32 and int(x) == -(1 << d.bits - 1)  # C has no such literal
        return (f"{int(x) + 1}{suffix} - 1" if least else f"{int(x)}{suffix}"), ""
    if d.typedef:  # held as bits
        return f"0x{int.from_bytes(x.tobytes(), 'little'):0{d.bits // 4}x}", str(float(x))
    if np.isfinite(x):
        return str(x) + ("f" if d.bits == 32 else ""), ""  # the shortest text that reads back as x
    bits = int.from_bytes(x.tobytes(), "little")
    return (f"__uint_as_float(0x{bits:08x}u)" if d.bits == 32 else f"__longlong_as_double(0x{bits:016x}ll)"), str(x)


def zero_of(dtype: DType) -> str:
    """Zero as C text."""
    return "0" if dtype.typedef else f"{dtype.c}{{}}" if dtype.kind == "complex" else literal(0, dtype.name)[0]
