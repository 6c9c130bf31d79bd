"""How wide two layouts can be copied at once: CuTe's rule for static layouts."""

from __future__ import annotations

from math import gcd

import numpy as np

from tilegen.errors import LayoutError
from tilegen.layouts.cute.algebra import ENUMERABLE, right_inverse
from tilegen.layouts.cute.values import CuteLayout, coalesce, flat_modes, from_modes, size


def max_common_layout(a: CuteLayout, b: CuteLayout) -> CuteLayout:
    """The elements that are consecutive in both: the largest R with a(R(i)) = b(R(i)) = i for all i < size(R).

    R is the right inverse of b, cut where a no longer agrees. Raises LayoutError for layouts of different sizes, and
    for more than 2**22 elements.

    >>> print(max_common_layout(CuteLayout((2, 2), (1, 8)), CuteLayout((2, 2))))
    2:1
    """
    if size(a) != size(b):
        raise LayoutError(f"{a} has {size(a)} elements, {b} has {size(b)}: they have no copy in common")
    if size(a) > ENUMERABLE:
        raise LayoutError(f"common vectors are found for at most {ENUMERABLE} elements, not {size(a)}")
    inverse = right_inverse(b)
    wrong = np.flatnonzero(a(inverse(np.arange(size(inverse)))) != np.arange(size(inverse)))
    return _cut(inverse, int(wrong[0]) if wrong.size else size(inverse))


def _cut(layout: CuteLayout, count: int) -> CuteLayout:
    """The first whole rows of at most ``count`` elements: extents n_0, ..., n_(k-1), count // (n_0 * ... * n_(k-1))."""
    kept = []
    for extent, stride in flat_modes(layout):
        kept.append((min(extent, count), stride))
        count //= extent
        if count <= 1:
            break
    return coalesce(from_modes(kept))


def max_common_vector(a: CuteLayout, b: CuteLayout) -> int:
    """The number of elements of max_common_layout.

    Raises LayoutError as it does.

    >>> max_common_vector(CuteLayout((8, 4), (1, 68)), CuteLayout((8, 4)))
    8
    """
    return size(max_common_layout(a, b))


def max_alignment(layout: CuteLayout) -> int:
    """The n such that the places of the layout fall into whole groups of n consecutive ones from multiples of n.

    n = gcd of the size of the right inverse, the consecutive places, and of the strides of all other modes.

    >>> max_alignment(CuteLayout((8, 4), (1, 68))), max_alignment(CuteLayout(4, 2))
    (4, 1)
    """
    inverse = right_inverse(layout)
    taken = {stride for _, stride in flat_modes(inverse)}
    others, step = [], 1
    for extent, stride in flat_modes(coalesce(layout)):
        others += [] if step in taken or extent == 1 else [stride]
        step *= extent
    return gcd(size(inverse), *others)


def common_vector_bits(src: CuteLayout, dst: CuteLayout, elem_bits: int, cap_bits: int = 128) -> int:
    """The bits of one access of a copy: gcd(common * bits, align(src) * bits, align(dst) * bits, cap).

    For pointers aligned to ``cap_bits``; one element where no two are consecutive in both. Raises LayoutError as
    max_common_layout does, and for widths that are no positive ints.

    >>> common_vector_bits(CuteLayout((8, 4), (1, 68)), CuteLayout((8, 4)), elem_bits=16)
    64
    """
    if any(type(x) is not int or x < 1 for x in (elem_bits, cap_bits)):
        raise LayoutError(f"widths are positive ints of bits, not {elem_bits!r} and {cap_bits!r}")
    common = max_common_vector(src, dst)
    if common == 1:
        return elem_bits
    return gcd(*(n * elem_bits for n in (common, max_alignment(src), max_alignment(dst))), cap_bits)
