"""Regions as digits: how the strides of two operands line up, so that addresses come out as a person writes them.

Each operand splits a dimension of its region into parts (weight, extent, stride): coordinate ``i`` has the digit
``i / weight % extent``, which moves the operand by ``stride`` along an axis. ``join`` refines the parts of several
operands until they agree; ``fuse`` joins neighbours that are contiguous for every operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import gcd

from tilegen.index import Index, add, div, mod, mul, multiple

Iter = tuple[Index, Index, str]  # extent, stride, axis


@dataclass(frozen=True)
class DigitPart:
    """One digit of one dimension of one operand; ``stride`` is None where the operand is not affine in it."""

    weight: int
    extent: int
    stride: Index | None
    axis: str = "m"


@dataclass(frozen=True)
class Digit:
    """A digit that all operands share: its places (dimension, weight, extent; outermost first) and their strides."""

    places: tuple[tuple[int, int, int], ...]
    extent: int
    strides: tuple[Index | None, ...]
    axes: tuple[str, ...]


@lru_cache(maxsize=4096)
def split_dimension(begin: Index, length: int, iters: tuple[Iter, ...]) -> tuple[DigitPart, ...]:
    """The parts of ``begin .. begin + length`` in a dimension whose iters stand outermost first.

    Where a carry runs across the iters inside the region, what lies above the carry is one part without a stride.

    >>> split_dimension(0, 64, ((4, 512, "m"), (32, 1, "m")))
    (DigitPart(weight=32, extent=2, stride=512, axis='m'), DigitPart(weight=1, extent=32, stride=1, axis='m'))
    >>> split_dimension(16, 32, ((4, 512, "m"), (32, 1, "m")))
    (DigitPart(weight=16, extent=2, stride=None, axis='m'), DigitPart(weight=1, extent=16, stride=1, axis='m'))
    """
    parts: list[DigitPart] = []
    weight, rest = 1, length
    for extent, stride, axis in reversed(iters[1:]):
        if rest == 1:
            break
        start = mod(div(begin, weight), extent)
        if _stays_inside(start, rest, extent):
            parts.append(DigitPart(weight, rest, stride, axis))
            rest = 1
        elif isinstance(extent, int) and isinstance(start, int) and start == 0 and rest % extent == 0:
            parts.append(DigitPart(weight, extent, stride, axis))
            weight, rest = weight * extent, rest // extent
        else:
            kept = gcd(rest, multiple(start), extent) if isinstance(extent, int) else 1
            parts.append(DigitPart(weight, kept, stride, axis))
            parts.append(DigitPart(weight * kept, rest // kept, None))
            rest = 1
    if rest > 1:
        parts.append(DigitPart(weight, rest, iters[0][1], iters[0][2]))
    return tuple(p for p in reversed(parts) if p.extent > 1)


def _stays_inside(start: Index, length: int, extent: Index) -> bool:
    """Do ``length`` steps from ``start`` end before the next carry, for every value of ``start``?"""
    if not isinstance(extent, int):
        return False
    if isinstance(start, int):
        return start + length <= extent
    return extent % length == 0 and multiple(start) % length == 0


def join(sides: Sequence[Sequence[tuple[DigitPart, ...]]], lengths: Sequence[int]) -> tuple[Digit, ...]:
    """The digits of all dimensions, outermost first, for operands given as parts per dimension.

    Where the splits of a dimension do not nest, the first operand's are kept, with stride None for those that they cut.
    """
    return tuple(
        digit for d, length in enumerate(lengths) if length > 1
        for digit in _join_dimension(d, length, [side[d] for side in sides])
    )  # fmt: skip


def _join_dimension(d: int, length: int, chains: Sequence[tuple[DigitPart, ...]]) -> list[Digit]:
    weights = sorted({p.weight for chain in chains for p in chain})
    nests = all(b % a == 0 for a, b in pairwise([*weights, length]))
    if not nests or any(_covering(chain, w, e) is None for chain in chains for w, e in pairwise([*weights, length])):
        weights = sorted(p.weight for p in chains[0])
    digits: list[Digit] = []
    for weight, end in reversed(list(pairwise([*weights, length]))):
        found = [_covering(chain, weight, end) or DigitPart(weight, end // weight, None) for chain in chains]
        strides = tuple(None if p.stride is None else mul(p.stride, weight // p.weight) for p in found)
        digits.append(Digit(((d, weight, end // weight),), end // weight, strides, tuple(p.axis for p in found)))
    return digits


def _covering(chain: Sequence[DigitPart], weight: int, end: int) -> DigitPart | None:
    for p in chain:
        if p.weight <= weight and end <= p.weight * p.extent and weight % p.weight == 0:
            return p
    return None


def fuse(digits: Sequence[Digit], guarded: frozenset[int] = frozenset()) -> tuple[Digit, ...]:
    """Neighbours joined where every operand is contiguous across them; ``guarded`` dimensions keep their own digits."""
    out: list[Digit] = []
    for digit in digits:
        if out and _is_contiguous(out[-1], digit, range(len(digit.strides))) and not _crosses(out[-1], digit, guarded):
            outer = out.pop()
            digit = Digit(outer.places + digit.places, outer.extent * digit.extent, digit.strides, digit.axes)
        out.append(digit)
    return tuple(out)


def find_run(digits: Sequence[Digit], side: int, guarded: frozenset[int]) -> Digit:
    """The last digit with those before it, as far as one operand is contiguous across them.

    >>> rows, columns = Digit(((0, 1, 4),), 4, (8, 64), ("m", "m")), Digit(((1, 1, 8),), 8, (1, 1), ("m", "m"))
    >>> find_run([rows, columns], 0, frozenset()).extent, find_run([rows, columns], 1, frozenset()).extent
    (32, 8)
    """
    run = digits[-1]
    for outer in reversed(digits[:-1]):
        if not _is_contiguous(outer, run, (side,)) or _crosses(outer, run, guarded):
            break
        run = Digit(outer.places + run.places, outer.extent * run.extent, run.strides, run.axes)
    return run


def _is_contiguous(outer: Digit, inner: Digit, sides: Sequence[int]) -> bool:
    return all(
        outer.axes[k] == inner.axes[k] and a is not None and b is not None and a == mul(b, inner.extent)
        for k in sides for a, b in [(outer.strides[k], inner.strides[k])]
    )  # fmt: skip


def _crosses(outer: Digit, inner: Digit, guarded: frozenset[int]) -> bool:
    dims = {place[0] for place in outer.places + inner.places}
    return len(dims) > 1 and bool(dims & guarded)


def split_digit(digit: Digit, count: int) -> tuple[tuple[Digit, ...], Digit]:
    """A digit in two: the outer part (none where nothing is left of it), and the inner ``count`` of its values.

    ``count`` divides the extent of the digit's last place.

    >>> split_digit(Digit(((0, 1, 12),), 12, (1, 128), ("m", "m")), 4)[1]
    Digit(places=((0, 1, 4),), extent=4, strides=(1, 128), axes=('m', 'm'))
    """
    *places, (d, weight, extent) = digit.places
    inner = Digit(((d, weight, count),), count, digit.strides, digit.axes)
    places += [(d, weight * count, extent // count)] if extent > count else []
    strides = tuple(None if s is None else mul(s, count) for s in digit.strides)
    return ((Digit(tuple(places), digit.extent // count, strides, digit.axes),) if places else ()), inner


def coordinates(digits: Sequence[Digit], values: Sequence[Index], rank: int) -> tuple[Index, ...]:
    """The region's coordinates, relative to its begins, of the element with these digits.

    >>> digit = Digit(((0, 1, 4), (1, 1, 32)), 128, (1, 1), ("m", "m"))
    >>> coordinates([digit], [77], 2)
    (2, 13)
    """
    out: list[Index] = [0] * rank
    for digit, value in zip(digits, values, strict=True):
        for (d, weight, _), part in zip(digit.places, split_number(value, [p[2] for p in digit.places]), strict=True):
            out[d] = add(out[d], mul(part, weight))
    return tuple(out)


def split_number(number: Index, extents: Sequence[int]) -> tuple[Index, ...]:
    """A number as digits of the mixed radix ``extents``, outermost first; the outermost is not reduced.

    >>> split_number(77, (4, 32))
    (2, 13)
    """
    out: list[Index] = []
    for k in range(len(extents) - 1, -1, -1):  # no extents, no digits
        out.append(mod(number, extents[k]) if k else number)
        number = div(number, extents[k])
    return tuple(reversed(out))


def join_number(values: Sequence[Index], extents: Sequence[int]) -> Index:
    """Digits of the mixed radix ``extents``, outermost first, as one number: the inverse of ``split_number``.

    >>> join_number((2, 13), (4, 32))
    77
    """
    out: Index = 0
    for value, n in zip(values, extents, strict=True):
        out = add(mul(out, n), value)
    return out
