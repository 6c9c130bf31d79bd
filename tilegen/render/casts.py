"""Conversions as C: the value of an element in another type."""

from __future__ import annotations

from tilegen.dtypes import DTYPES
from tilegen.render.c_text import COMPLEX_PART
from tilegen.render.page import Page


def cast_text(page: Page, x: str, src: str, dst: str) -> str:
    """The value of ``x``, of element type ``src``, as ``dst``: what NumPy and ml_dtypes give.

    To an integer type: cut off, of what lies beyond it the last value, of a NaN 0 (NumPy leaves those two open).
    Different here: a NaN stays a NaN, but its sign and payload may change.
    """
    parts = (COMPLEX_PART.get(src), COMPLEX_PART.get(dst))
    return str(page.macros("casts.cu.j2").cast(x, DTYPES[src], DTYPES[dst], *parts)).strip("\n")
