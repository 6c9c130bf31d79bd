"""CuTe's Swizzle<B,M,S> and layouts under it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilegen.errors import LayoutError
from tilegen.layouts.core.values import SwizzleLayout
from tilegen.layouts.cute.values import CuteLayout
from tilegen.notebooks import Shown

UNITS = ("elements", "bytes")


@dataclass(frozen=True)
class Swizzle(Shown):
    """Swizzle<B,M,S>: f(x) = x ^ ((x & Y) >> S), Y the B bits from bit M + S; S < 0 shifts the bits from M up.

    ``unit`` says what x counts, elements or bytes; it is always printed, because Sw<3,4,3> of bytes is Sw<3,3,3> of
    2-byte elements. Raises LayoutError for B < 0, M < 0, |S| < B and other units.

    >>> swizzle = Swizzle(3, 4, 3, "bytes")
    >>> print(swizzle, swizzle(128), swizzle.in_elements(16))
    Sw<3,4,3> bytes 144 Sw<3,3,3> elements
    """

    bits: int
    base: int
    shift: int
    unit: str = "elements"

    def __post_init__(self) -> None:
        if any(type(x) is not int for x in (self.bits, self.base, self.shift)) or min(self.bits, self.base) < 0:
            raise LayoutError(f"Swizzle<B,M,S> takes ints B >= 0, M >= 0 and S, not {self.bits, self.base, self.shift}")
        if abs(self.shift) < self.bits:
            raise LayoutError(
                f"Sw<{self.bits},{self.base},{self.shift}>: |S| = {abs(self.shift)} is less than B = {self.bits}, "
                "so the bit groups would overlap"
            )
        if self.unit not in UNITS:
            raise LayoutError(f"a swizzle counts {' or '.join(UNITS)}, not {self.unit!r}")
        as_swizzle_layout(self)  # refuses more address bits than there are

    def __call__(self, x: Any) -> Any:
        """The permuted address of an int, an array or an Index, in the swizzle's unit.

        Raises LayoutError for negative ones.
        """
        return as_swizzle_layout(self).apply(x)[0]["m"]

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}> {self.unit}"

    @property
    def size(self) -> int:
        """One period, in the swizzle's unit: 2**(B + M + |S|)."""
        return 1 << (self.bits + self.base + abs(self.shift))

    def in_elements(self, elem_bits: int) -> Swizzle:
        """The same swizzle counting elements of ``elem_bits``: M + log2(8 / elem_bits).

        Raises LayoutError where it would permute parts of one element.
        """
        return self if self.unit == "elements" else self._recount(3 - _log2(elem_bits), "elements", elem_bits)

    def in_bytes(self, elem_bits: int) -> Swizzle:
        """The same swizzle counting bytes: M - log2(8 / elem_bits).

        Raises LayoutError where it would permute parts of one byte.
        """
        return self if self.unit == "bytes" else self._recount(_log2(elem_bits) - 3, "bytes", elem_bits)

    def _recount(self, up: int, unit: str, elem_bits: int) -> Swizzle:
        if self.base + up < 0 and self.bits:
            raise LayoutError(f"{self} does not count {unit}: it permutes less than one of {elem_bits}-bit elements")
        return Swizzle(self.bits, max(0, self.base + up), self.shift, unit)


def _log2(bits: int) -> int:
    if type(bits) is not int or bits < 1 or bits & (bits - 1):
        raise LayoutError(f"an element has a power of two of bits, not {bits!r}")
    return bits.bit_length() - 1


def as_swizzle_layout(swizzle: Swizzle) -> SwizzleLayout:
    """Sw<B,M,S> as SwizzleLayout(per_element=M, swizzle_len=B, atom_len=|S|), both counting the swizzle's own unit.

    >>> print(as_swizzle_layout(Swizzle(2, 3, -3)))
    Swizzle(3, 2, 3, inner=False)
    """
    return SwizzleLayout(swizzle.base, swizzle.bits, abs(swizzle.shift), inner=swizzle.shift >= 0)


@dataclass(frozen=True)
class ComposedLayout(Shown):
    """``Sw<B,M,S> o offset o layout``: c -> swizzle(offset + layout(c)), all in the swizzle's unit.

    Raises LayoutError for a negative offset.

    >>> composed = ComposedLayout(Swizzle(3, 3, 3), 0, CuteLayout((8, 64), (64, 1)))
    >>> print(composed, "at 1,0:", composed(1, 0))
    Sw<3,3,3> elements o 0 o (8,64):(64,1) at 1,0: 72
    """

    swizzle: Swizzle
    offset: int
    layout: CuteLayout

    def __post_init__(self) -> None:
        if not isinstance(self.swizzle, Swizzle) or not isinstance(self.layout, CuteLayout):
            raise LayoutError("a ComposedLayout is a Swizzle over an offset and a CuteLayout")
        if type(self.offset) is not int or self.offset < 0:
            raise LayoutError(f"an offset is at least 0, not {self.offset!r}")

    def __call__(self, *coord: Any) -> Any:
        """The place of a coordinate, which is one of the layout below."""
        return self.swizzle(self.layout(*coord) + self.offset)

    def __str__(self) -> str:
        return f"{self.swizzle} o {self.offset} o {self.layout}"
