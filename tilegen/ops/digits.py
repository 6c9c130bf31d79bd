"""Regions as digits: how the strides of two operands line up, so that addresses come out as a person writes them.

Each operand splits a dimension of its region into parts (weight, extent, stride): coordinate ``i`` has the digit
``i / weight % extent``, which moves the operand by ``stride`` along an axis. ``join`` refines the parts of several
operands until they agree. Digits are runs: ``fuse`` joins neighbours that are contiguous for every operand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import gcd

from tilegen.index import Index, add, div, mod, mul, multiple
from tilegen.index.runs import Run, fuse
from tilegen.layouts import Iter

Place = tuple[int, int, int]  # what a number counts: a dimension or a digit, how many of it at a time, and how often


@dataclass(frozen=True)
class DigitPart:
    """One digit of one dimension of one operand; ``stride`` is None where the operand is not affine in it."""

    weight: int
    extent: int
    stride: Index | None
    axis: str = "m"


@dataclass(frozen=True)
class Digit(Run[Index | None]):
    """A digit that all operands share, with their strides and axes.

    ``places``: the dimensions that it counts, outermost first. Digits of dimensions whose ends are
    asked for do not fuse with those of others.
    """

    extent: int
    places: tuple[Place, ...] = ()
    axes: tuple[str, ...] = ()

    def follow(self, outer: Digit) -> Digit:
        return replace(self, extent=outer.extent * self.extent, places=outer.places + self.places)


def single_digit(sides: int) -> Digit:
    """The innermost digit of a single element."""
    return Digit(1, (1,) * sides, places=((0, 1, 1),), axes=("m",) * sides)


@lru_cache(maxsize=4096)
def split_dimension(begin: Index, length: int, iters: tuple[Iter, ...]) -> tuple[DigitPart, ...]:
    """The parts of ``begin .. begin + length`` in a dimension whose iters stand outermost first.

    Where a carry runs across the iters inside the region, what lies above the carry is one part without a stride.

    >>> split_dimension(0, 64, (Iter(4, 512), Iter(32, 1)))
    (DigitPart(weight=32, extent=2, stride=512, axis='m'), DigitPart(weight=1, extent=32, stride=1, axis='m'))
    >>> split_dimension(16, 32, (Iter(4, 512), Iter(32, 1)))
    (DigitPart(weight=16, extent=2, stride=None, axis='m'), DigitPart(weight=1, extent=16, stride=1, axis='m'))
    """
    parts: list[DigitPart] = []
    weight, rest = 1, length
    for i in reversed(iters[1:]):
        if rest == 1:
            break
        extent, stride, axis = i.extent, i.stride, i.axis
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
        parts.append(DigitPart(weight, rest, iters[0].stride, iters[0].axis))
    return tuple(p for p in reversed(parts) if p.extent > 1)


def _stays_inside(start: Index, length: int, extent: Index) -> bool:
    """Do ``length`` steps from ``start`` end before the next carry, for every value of ``start``?"""
    if not isinstance(extent, int):
        return False
    if isinstance(start, int):
        return start + length <= extent
    return extent % length == 0 and multiple(start) % length == 0


def join(
    sides: Sequence[Sequence[tuple[DigitPart, ...]]], lengths: Sequence[int], guarded: frozenset[int] = frozenset()
) -> tuple[Digit, ...]:
    """The digits of all dimensions, outermost first, for operands given as parts per dimension.

    Where the splits of a dimension do not nest, the first operand's are kept, with stride None for those that they cut.
    ``guarded`` dimensions keep their own digits.
    """
    return tuple(
        digit for d, length in enumerate(lengths) if length > 1
        for digit in _join_dimension(d, length, [side[d] for side in sides], d if d in guarded else None)
    )  # fmt: skip


def _join_dimension(
    d: int, length: int, chains: Sequence[tuple[DigitPart, ...]], guard: int | None
) -> list[Digit]:  # fmt: skip
    weights = sorted({p.weight for chain in chains for p in chain})
    nests = all(b % a == 0 for a, b in pairwise([*weights, length]))
    if not nests or any(_covering(chain, w, e) is None for chain in chains for w, e in pairwise([*weights, length])):
        weights = sorted(p.weight for p in chains[0])
    digits: list[Digit] = []
    for weight, end in reversed(list(pairwise([*weights, length]))):
        found = [_covering(chain, weight, end) or DigitPart(weight, end // weight, None) for chain in chains]
        strides = tuple(None if p.stride is None else mul(p.stride, weight // p.weight) for p in found)
        axes = tuple(p.axis for p in found)
        digits.append(Digit(end // weight, strides, (axes, guard), ((d, weight, end // weight),), axes))
    return digits


def _covering(chain: Sequence[DigitPart], weight: int, end: int) -> DigitPart | None:
    for p in chain:
        if p.weight <= weight and end <= p.weight * p.extent and weight % p.weight == 0:
            return p
    return None


def split_digit(digit: Digit, count: int) -> tuple[tuple[Digit, ...], Digit]:
    """A digit in two: the outer part (none where nothing is left of it), and the inner ``count`` of its values.

    ``count`` divides the extent of the digit's last place.

    >>> split_digit(Digit(12, (1, 128), places=((0, 1, 12),)), 4)[1]
    Digit(extent=4, strides=(1, 128), guard=None, places=((0, 1, 4),), axes=())
    """
    *places, (d, weight, extent) = digit.places
    inner = replace(digit, extent=count, places=((d, weight, count),))
    places += [(d, weight * count, extent // count)] if extent > count else []
    strides = tuple(None if s is None else mul(s, count) for s in digit.strides)
    outer = replace(digit, extent=digit.extent // count, strides=strides, places=tuple(places))
    return ((outer,) if places else ()), inner


def coordinates(digits: Sequence[Digit], values: Sequence[Index], rank: int) -> tuple[Index, ...]:
    """The region's coordinates, relative to its begins, of the element with these digits.

    >>> digit = Digit(128, (1, 1), places=((0, 1, 4), (1, 1, 32)))
    >>> coordinates([digit], [77], 2)
    (2, 13)
    """
    at: list[Index] = [0] * rank
    for digit, value in zip(digits, values, strict=True):
        at = spread(value, digit.places, at)
    return tuple(at)


def spread(number: Index, places: Sequence[Place], at: Sequence[Index]) -> list[Index]:
    """``at`` with a number added that counts ``places``, outermost first.

    >>> spread(77, ((0, 1, 4), (1, 2, 32)), (0, 1))
    [2, 27]
    """
    out = list(at)
    for (d, weight, _), part in zip(places, split_number(number, [p[2] for p in places]), strict=True):
        out[d] = add(out[d], mul(part, weight))
    return out


def fuse_places(places: Iterable[Place]) -> tuple[Place, ...]:
    """Neighbours, outermost first, joined where one value of the outer is all values of the inner.

    >>> fuse_places([(1, 4, 2), (1, 1, 4), (0, 1, 8)])
    ((1, 1, 8), (0, 1, 8))
    """
    runs = fuse(Run(extent, (weight,), d) for d, weight, extent in places)
    return tuple((run.guard, run.strides[0], run.extent) for run in runs)  # type: ignore[misc]


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


def keep_digits(number: Index, extents: Sequence[int], kept: Sequence[int]) -> Index:
    """Some digits of a number, by their positions, as a number of their own.

    >>> keep_digits(77, (4, 8, 4), [0, 2]), spread_digits(9, (4, 8, 4), [0, 2])
    (9, 65)
    """
    values = split_number(number, extents)
    return join_number([values[k] for k in kept], [extents[k] for k in kept])


def spread_digits(number: Index, extents: Sequence[int], kept: Sequence[int]) -> Index:
    """The number whose digits at some positions are those of ``number``, and the others 0: of these the least."""
    values = dict(zip(kept, split_number(number, [extents[k] for k in kept]), strict=True))
    return join_number([values.get(k, 0) for k in range(len(extents))], extents)
