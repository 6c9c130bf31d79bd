"""Layouts that a shared buffer may take: none (row-major), padded rows, and every XOR swizzle of the dense tile.

All of them are one form, ``swizzle(sum of coordinate * stride)``, so that the addresses of many layouts are one NumPy
expression: ``place_elements``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.layouts import ComposeLayout, Iter, SwizzleLayout, TileLayout, row_major

Ints = NDArray[np.int64]

BANK_BYTES = 4  # the banks of shared memory are words of 4 bytes (docs/access-model.md)
MOST_PAD_WORDS = 32  # a pad of 32 words moves a row by all 32 banks: longer pads repeat shorter ones
FAMILIES = ("none", "padding", "swizzle")


@dataclass(frozen=True)
class FamilyLayout:
    """One layout of a family, as a value and as numbers: element strides, the swizzle's (M, B, S), B = 0 for none."""

    family: str  # one of FAMILIES
    layout: TileLayout | ComposeLayout
    strides: tuple[int, ...]
    bits: tuple[int, int, int] = (0, 0, 0)

    @property
    def text(self) -> str:
        """The layout as a spec writes it."""
        return "row" if self.family == "none" else str(self.layout)


def enumerate_layouts(shape: Sequence[int], elem_bytes: int) -> tuple[FamilyLayout, ...]:
    """Every layout of the families for a buffer of ``shape``, the simplest first.

    Pads are 1 to 32 words behind a row (of a shape of more dimensions also behind one of the outer ones), as far as
    they are whole elements; swizzles are all with M + B + S <= log2(elements) and B >= 1.

    >>> found = enumerate_layouts((16, 32), 4)
    >>> [sum(f.family == name for f in found) for name in FAMILIES]
    [1, 32, 70]
    >>> print(found[1].text, "...", found[-1].text)
    S[(16, 32):(33, 1)] ... Swizzle(0, 4, 5) o S[(16, 32):(32, 1)]
    """
    dense = row_major(shape)
    strides = tuple(int(i.stride) for i in dense.shard)  # type: ignore[arg-type]
    swizzles = [
        FamilyLayout("swizzle", ComposeLayout(SwizzleLayout(*bits), dense), strides, bits)
        for bits in _swizzle_bits(prod(shape).bit_length() - 1)
    ]
    return (FamilyLayout("none", dense, strides), *_padded(shape, elem_bytes), *swizzles)


def _padded(shape: Sequence[int], elem_bytes: int) -> list[FamilyLayout]:
    found: dict[tuple[int, ...], FamilyLayout] = {}
    for words in range(1, MOST_PAD_WORDS + 1):
        if words * BANK_BYTES % elem_bytes:
            continue
        for d in range(len(shape) - 2, -1, -1):
            strides = _padded_strides(shape, d, words * BANK_BYTES // elem_bytes)
            tile = TileLayout(tuple(Iter(n, s) for n, s in zip(shape, strides, strict=True)))
            found.setdefault(strides, FamilyLayout("padding", tile, strides))
    return list(found.values())


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
    """The element address that each layout gives to row-major element numbers; -1 stays -1.

    ``elements`` has any shape (...), the result (layouts, ...).

    >>> import numpy as np
    >>> place_elements(enumerate_layouts((2, 4), 4)[:2], (2, 4), np.array([3, 4, -1])).tolist()
    [[3, 4, -1], [3, 5, -1]]
    """
    active = elements >= 0
    coordinates = np.stack(np.unravel_index(np.where(active, elements, 0), tuple(shape)))
    strides = np.array([f.strides for f in layouts], np.int64).reshape(len(layouts), len(shape))
    address = np.tensordot(strides, coordinates.astype(np.int64), axes=1)
    m, b, s = (_column(layouts, k, address.ndim) for k in range(3))
    if b.any():
        address ^= ((address >> (m + s)) & ((1 << b) - 1)) << m
    return np.where(active, address, -1)


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
