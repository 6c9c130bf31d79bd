"""Composition, complement, inverses and common vectors. Each refuses a result that would break its law."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any, Union, overload

import numpy as np

from tilegen.errors import LayoutError
from tilegen.layouts.cute.swizzles import ComposedLayout, Swizzle
from tilegen.layouts.cute.values import (
    CuteLayout,
    Modes,
    coalesce,
    flat_modes,
    from_modes,
    fuse_digits,
    join,
    modes_of,
    size,
)

ENUMERABLE = 1 << 22  # elements that a check of a law may enumerate

Tiler = Union[CuteLayout, int, None, Sequence["Tiler"]]  # noqa: UP007 - a runtime alias


def as_layout(tiler: Any) -> CuteLayout:
    """A layout itself; an int n as n:1.

    Raises LayoutError for anything else.

    >>> print(as_layout(4))
    4:1
    """
    if isinstance(tiler, CuteLayout):
        return tiler
    if isinstance(tiler, int):
        return CuteLayout(tiler, 1)
    raise LayoutError(f"a tiler is a CuteLayout, an int, None or a tuple of them, not {tiler!r}")


def modes_under(layout: CuteLayout, tiler: Sequence[Tiler]) -> tuple[CuteLayout, ...]:
    """The modes of a layout, at least one for each part of a tuple of tilers.

    Raises LayoutError when there are fewer.

    >>> [str(mode) for mode in modes_under(CuteLayout((4, 2)), (2, None))]
    ['4:1', '2:4']
    """
    modes = modes_of(layout)
    if not 0 < len(tiler) <= len(modes):
        raise LayoutError(f"a tuple of {len(tiler)} tilers for the {len(modes)} modes of {layout}")
    return modes


# ---------------------------------------------------------------- composition
@overload
def composition(a: CuteLayout, b: Tiler) -> CuteLayout: ...
@overload
def composition(a: Swizzle | ComposedLayout, b: Tiler) -> ComposedLayout: ...
def composition(a: CuteLayout | Swizzle | ComposedLayout, b: Tiler) -> CuteLayout | ComposedLayout:
    """A o B: (A o B)(i) = A(B(i)) for all i < size(B), nested like B with leaves split where A needs it.

    A tuple composes mode by mode, None leaves a mode as it is. B may reach past the size of A, which then goes on along
    its last leaf that is no unit. Raises LayoutError where a stride or an extent of B does not divide into those of A,
    and where B's modes together carry over an extent of A so that the sum of their compositions is not A(B(i)).

    >>> print(composition(CuteLayout((6, 2), (8, 2)), CuteLayout((4, 3), (3, 1))))
    ((2,2),3):((24,2),8)
    >>> composition(CuteLayout((6, 2), (1, 7)), CuteLayout((3, 2), (2, 3)))
    Traceback (most recent call last):
        ...
    tilegen.errors.LayoutError: (6,2):(1,7) o (3,2):(2,3) would be (3,2):(2,3), which is 7 at 5, but A(B(5)) = A(7) = 8
    """
    if isinstance(a, Swizzle):
        return ComposedLayout(a, 0, as_layout(b))
    if isinstance(a, ComposedLayout):
        return ComposedLayout(a.swizzle, a.offset, composition(a.layout, b))
    if b is None:
        return a
    if isinstance(b, (tuple, list)):
        modes = modes_under(a, b)
        return join([*map(composition, modes, b), *modes[len(b) :]])
    return _compose(a, as_layout(b))


def _compose(a: CuteLayout, b: CuteLayout) -> CuteLayout:
    digits = fuse_digits(flat_modes(a))
    reached = [0] * len(digits)  # the largest value of each digit of A that B's leaves add up to
    result = _compose_tree(digits, b, reached)
    if any(largest >= extent for largest, (extent, _) in zip(reached[:-1], digits, strict=False)):
        _require_law(a, b, result)
    return result


def _compose_tree(digits: Modes, b: CuteLayout, reached: list[int]) -> CuteLayout:
    if not isinstance(b.shape, int):
        return join(_compose_tree(digits, mode, reached) for mode in modes_of(b))
    ((extent, stride),) = flat_modes(b)
    if extent == 1:
        return CuteLayout(1, _stride_of_unit(digits, stride))
    steps = _walk(digits, extent, stride)
    for k, count, step in steps:
        reached[k] += (count - 1) * step
    return from_modes((count, step * digits[k][1]) for k, count, step in steps)


def _stride_of_unit(digits: Modes, stride: int) -> int:
    """CuTe's choice for a mode that places nothing: ceil(d / (n_0 * ... * n_(last-1))) * d_last."""
    for extent, _ in digits[:-1]:
        stride = -(-stride // extent)
    return stride * digits[-1][1]


def _walk(digits: Modes, extent: int, stride: int) -> list[tuple[int, int, int]]:
    """i * stride for i < extent in A's digits, as (digit, count, step): count values, step apart, of each digit."""
    steps: list[tuple[int, int, int]] = []
    rest, step = extent, stride
    for k, (n, _) in enumerate(digits[:-1]):
        if (rest - 1) * step < n:
            return [*steps, (k, rest, step)]
        if step % n == 0:
            step //= n
            continue
        if n % step or rest % (n // step):
            raise _cannot_compose(digits, extent, stride, n, rest, step)
        steps.append((k, n // step, step))
        rest, step = rest // (n // step), 1
    return [*steps, (len(digits) - 1, rest, step)]


def _cannot_compose(digits: Modes, extent: int, stride: int, n: int, rest: int, step: int) -> LayoutError:
    what = f"{from_modes(digits)} o {extent}:{stride} is no layout"
    if n % step:
        return LayoutError(f"{what}: steps of {step} do not divide the extent {n}, nor it them")
    return LayoutError(f"{what}: {rest} steps are no whole number of rounds of {n // step} through the extent {n}")


def _require_law(a: CuteLayout, b: CuteLayout, result: CuteLayout) -> None:
    """Where digits carry, only looking at every element tells whether the composition is lawful all the same."""
    what = f"{a} o {b} would be {result}"
    if size(b) > ENUMERABLE:
        raise LayoutError(f"{what}, where digits carry; with {size(b)} elements that is not checked one by one")
    i = np.arange(size(b))
    inner = b(i)
    wrong = np.flatnonzero(result(i) != a(inner))
    if wrong.size:
        at = int(wrong[0])
        place = int(inner[at])
        raise LayoutError(f"{what}, which is {result(at)} at {at}, but A(B({at})) = A({place}) = {a(place)}")


# ---------------------------------------------------------------- complement
def complement(layout: CuteLayout, cotarget: int = 1) -> CuteLayout:
    """The ordered layout of the places that L leaves free below ``cotarget``: L* such that (L, L*) is injective.

    With the modes (n_k, d_k) of L by rising stride and c_k = n_(k-1) * d_(k-1), c_0 = 1: extents d_k // c_k at strides
    c_k, and last ceil(cotarget / c) at c. (L, L*) covers [0, cotarget) when every c_k divides d_k. Raises LayoutError
    when the modes of L interleave or overlap: d_k < c_k.

    >>> print(complement(CuteLayout(4, 2), 24))
    (2,3):(1,8)
    """
    if type(cotarget) is not int or cotarget < 1:
        raise LayoutError(f"the cotarget of a complement is an int >= 1, not {cotarget!r}")
    free, covered = [], 1
    for extent, stride in _by_stride(layout):
        if stride < covered:
            raise LayoutError(f"{layout} has no complement: mode {extent}:{stride} meets the places below {covered}")
        free.append((stride // covered, covered))
        covered = extent * stride
    free.append((-(-cotarget // covered), covered))
    return coalesce(from_modes(free))


def _by_stride(layout: CuteLayout) -> Modes:
    """The modes that place something, by rising stride."""
    return sorted((mode for mode in flat_modes(layout) if mode[0] != 1 and mode[1]), key=lambda mode: mode[1])


# ---------------------------------------------------------------- inverses
def right_inverse(layout: CuteLayout) -> CuteLayout:
    """R with L(R(i)) = i for all i < size(R): where the first consecutive places of L come from.

    Takes the modes of L by rising stride as long as each continues the ones before: d_k = n_(k-1) * d_(k-1), d_0 = 1.
    1:0 where nothing of L is at place 1.

    >>> print(right_inverse(CuteLayout((16, 4), (4, 1))))
    (4,16):(16,1)
    """
    found, covered = [], 1
    for stride, extent, step in _dense_modes(layout):
        if stride != covered:
            break
        found.append((extent, step))
        covered = extent * stride
    return coalesce(from_modes(found))


def _dense_modes(layout: CuteLayout) -> list[tuple[int, int, int]]:
    """(stride, extent, place in the flat index) of the coalesced modes that place something, by rising stride."""
    modes, step = [], 1
    for extent, stride in flat_modes(coalesce(layout)):
        if extent != 1 and stride:
            modes.append((stride, extent, step))
        step *= extent
    return sorted(modes, key=lambda mode: mode[0])


def left_inverse(layout: CuteLayout) -> CuteLayout:
    """I with I(L(i)) = i for all i < size(L): from a place back to the flat index.

    The place is read as digits, one for each mode by rising stride. A gap before a stride d_k that c = n_(k-1) *
    d_(k-1) divides is a digit too, which counts on past size(L), so that I stays injective; where only d_(k-1) divides
    d_k, the digit of mode k - 1 takes the gap. Raises LayoutError when L is not injective and when neither divides.

    >>> print(left_inverse(CuteLayout(4, 2)))
    (2,4):(4,1)
    >>> print(left_inverse(CuteLayout((4, 2), (1, 10))))
    (10,2):(1,4)
    """
    if any(stride == 0 and extent != 1 for extent, stride in flat_modes(layout)):
        raise LayoutError(f"{layout} has no left inverse: a stride of 0 puts many elements on one place")
    digits: Modes = []
    covered, below, past = 1, 1, size(layout)
    for stride, extent, step in _dense_modes(layout):
        if stride < covered:
            raise LayoutError(f"{layout} has no left inverse here: the mode {extent}:{stride} meets others")
        if stride % covered == 0:
            digits.append((stride // covered, past))
            past *= stride // covered
        elif stride % below == 0:
            digits[-1] = (stride // below, digits[-1][1])
        else:
            raise LayoutError(f"{layout} has no left inverse as a layout: {below} does not divide stride {stride}")
        digits.append((extent, step))
        covered, below = extent * stride, stride
    return coalesce(from_modes(digits))


# ---------------------------------------------------------------- how wide two layouts can be copied at once
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
