"""Layouts that a shared buffer may take: of each form (row-major, another order, panels) the dense tile, padded and
swizzled.

A form numbers the elements of a dense tile. All layouts of a form are ``swizzle(sum of digit * stride)`` over the
digits of that number, so that the addresses of many layouts are one NumPy expression: ``place_elements``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.auto_layout.forms import Form, rows_form
from tilegen.layouts import ComposeLayout, Iter, SwizzleLayout, TileLayout
from tilegen.layouts.constructors.shared_memory import ATOM_ROWS, SWIZZLES

Ints = NDArray[np.int64]

VECTOR_BYTES = 16  # the widest access of one thread, and what a descriptor's swizzle keeps together
BANK_BYTES = 4  # the banks of shared memory are words of 4 bytes (docs/access-model.md)
MOST_PAD_WORDS = 32  # a pad of 32 words moves a row by all 32 banks: longer pads repeat shorter ones
FAMILIES = ("none", "padding", "swizzle", "order", "panels")


@dataclass(frozen=True)
class FamilyLayout:
    """A layout of a form: the element stride of each digit, the swizzle's (M, B, S), B = 0 for none.

    ``change``: none, padding or swizzle. Most are only looked at as numbers, so that ``layout`` waits to be asked for.
    """

    change: str
    strides: tuple[int, ...]
    form: Form
    bits: tuple[int, int, int] = (0, 0, 0)

    @cached_property
    def layout(self) -> TileLayout | ComposeLayout:
        tile = TileLayout(tuple(Iter(self.form.extents[k], self.strides[k]) for k in self.form.places))
        return ComposeLayout(SwizzleLayout(*self.bits), tile) if self.change == "swizzle" else tile

    @property
    def family(self) -> str:
        """One of FAMILIES: the change where elements stay in the order of rows."""
        return "panels" if self.form.panel else self.change if self.form.is_rows else "order"

    @property
    def text(self) -> str:
        """The layout as a spec writes it."""
        return "row" if self.family == "none" else str(self.layout)


def enumerate_layouts(shape: Sequence[int], elem_bytes: int) -> tuple[FamilyLayout, ...]:
    """Every layout of a buffer of ``shape`` whose elements stay in the order of rows, the simplest first.

    >>> found = enumerate_layouts((16, 32), 4)
    >>> [sum(f.family == name for f in found) for name in FAMILIES]
    [1, 32, 70, 0, 0]
    >>> print(found[1].text, "...", found[-1].text)
    S[(16, 32):(33, 1)] ... Swizzle(0, 4, 5) o S[(16, 32):(32, 1)]
    """
    return enumerate_form(rows_form(shape), elem_bytes)


@lru_cache(maxsize=64)
def enumerate_form(form: Form, elem_bytes: int) -> tuple[FamilyLayout, ...]:
    """Every layout of a form, the simplest first.

    Of rows and other orders pads are 1 to 32 words behind the innermost dimension (with more dimensions also behind one
    of the outer ones), as far as they are whole elements; swizzles are all with M + B + S <= log2(elements) and B >= 1.
    Panels are dense, or have the swizzle of descriptors whose rows are as long as theirs.

    >>> [f.text for f in enumerate_form(Form((64, 128), (0, 1), panel=64), 2)]
    ['S[(64, 2, 64):(64, 4096, 1)]', 'Swizzle(3, 3, 3) o S[(64, 2, 64):(64, 4096, 1)]']
    """
    strides = _padded_strides(form.extents, -1, 0)
    dense = FamilyLayout("none", strides, form)
    if form.panel:
        bits, padded = _panel_bits(form, elem_bytes), []
    else:
        bits, padded = _swizzle_bits(prod(form.shape).bit_length() - 1), _padded(form, elem_bytes)
    swizzled = [FamilyLayout("swizzle", strides, form, own) for own in bits]
    return (dense, *padded, *swizzled)


def _padded(form: Form, elem_bytes: int) -> list[FamilyLayout]:
    found: dict[tuple[int, ...], FamilyLayout] = {}
    for words in range(1, MOST_PAD_WORDS + 1):
        if words * BANK_BYTES % elem_bytes:
            continue
        for d in range(len(form.extents) - 2, -1, -1):
            strides = _padded_strides(form.extents, d, words * BANK_BYTES // elem_bytes)
            found.setdefault(strides, FamilyLayout("padding", strides, form))
    return list(found.values())


def _panel_bits(form: Form, elem_bytes: int) -> list[tuple[int, int, int]]:
    """The swizzle whose rows are those of the panels, where each panel is a whole number of its 8 rows."""
    bits, chunk = SWIZZLES[form.panel * elem_bytes], VECTOR_BYTES // elem_bytes
    if not bits or form.rows % ATOM_ROWS:
        return []
    return [(chunk.bit_length() - 1, bits, ATOM_ROWS.bit_length() - 1)]


def _padded_strides(shape: Sequence[int], padded: int, elems: int) -> tuple[int, ...]:
    """Row-major strides with so many elements of padding after each step of dimension ``padded``."""
    strides, reach = [], 1
    for d in range(len(shape) - 1, -1, -1):
        reach += elems if d == padded else 0
        strides.append(reach)
        reach *= shape[d]
    return tuple(reversed(strides))


def _swizzle_bits(most: int) -> list[tuple[int, int, int]]:
    """Every (M, B, S) with B >= 1, S >= B and M + B + S <= most; short XORs and long chunks first."""
    return [
        (m, b, s)
        for b in range(1, most // 2 + 1)
        for m in range(most - 2 * b, -1, -1)
        for s in range(b, most - m - b + 1)
    ]


# ---------------------------------------------------------------- addresses
def place_elements(layouts: Sequence[FamilyLayout], shape: Sequence[int], elements: Ints) -> Ints:
    """The element address that each layout gives to element numbers of their form; -1 stays -1.

    ``shape``: the extents of the form, which of rows is the buffer's shape. ``elements`` has any shape (...), the
    result (layouts, ...).

    >>> import numpy as np
    >>> place_elements(enumerate_layouts((2, 4), 4)[:2], (2, 4), np.array([3, 4, -1])).tolist()
    [[3, 4, -1], [3, 5, -1]]
    """
    active = elements >= 0
    extents = tuple(shape)
    coordinates = np.stack(np.unravel_index(np.where(active, elements, 0), extents))
    strides = np.array([f.strides for f in layouts], np.int64).reshape(len(layouts), len(extents))
    most = int((strides @ (np.array(extents, np.int64) - 1)).max(initial=0))
    own = np.int32 if most * 2 * VECTOR_BYTES < 1 << 31 else np.int64  # as bytes, too; half as long is twice as fast
    is_one = len(strides) > 0 and bool((strides == strides[0]).all())  # as of all swizzles of a form
    address = np.tensordot((strides[:1] if is_one else strides).astype(own), coordinates.astype(own), axes=1)
    m, b, s = (_column(layouts, k, address.ndim).astype(own) for k in range(3))
    if b.any():
        address = address ^ ((address >> (m + s)) & ((1 << b) - 1)) << m
    address = np.broadcast_to(address, (len(layouts), *address.shape[1:]))
    return address if active.all() else np.where(active, address, own(-1))


def _column(layouts: Sequence[FamilyLayout], k: int, dimensions: int) -> Any:
    return np.array([f.bits[k] for f in layouts], np.int64).reshape(-1, *(1,) * (dimensions - 1))


def span_elems(layout: FamilyLayout, shape: Sequence[int]) -> int:
    """Elements to allocate: 1 + the largest address.

    >>> span_elems(enumerate_layouts((4, 8), 4)[1], (4, 8))
    35
    """
    elems = prod(shape)
    m, b, _ = layout.bits
    if b and elems % (1 << (m + b)):  # the last block is not whole: its elements move up inside of it
        return int(place_elements([layout], shape, np.arange(elems)).max()) + 1
    return 1 + sum((n - 1) * stride for n, stride in zip(shape, layout.strides, strict=True))
