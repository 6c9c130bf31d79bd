"""Ranges of integers, and what functions of the table make of them: interval arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.index import Index, add, bound, count_operators, div, least, maximum, minimum, mul, sub, total
from tilegen.index.bounds import is_below
from tilegen.index.linear import linear

_MOST_OPERATORS = 8  # of an end; a longer one is a number
_MOST_END = 1 << 62  # of an end that params decide: index expressions hold no more
Ends = tuple[Index, Index]  # the least and the largest value


@dataclass(frozen=True)
class ValueRange:
    """``low <= x < high`` of integers. The ends are numbers, or expressions over params.

    >>> print(ValueRange(-1, 8))
    -1 : 8
    """

    low: Index
    high: Index

    def __str__(self) -> str:
        return f"{self.low} : {self.high}"

    @property
    def ends(self) -> Ends:
        """The least and the largest value."""
        return self.low, sub(self.high, 1)

    @property
    def numbers(self) -> tuple[int, int]:
        """The least and the largest value with any params.

        >>> from tilegen.index import Var
        >>> ValueRange(0, Var("N", 99)).numbers
        (0, 97)
        """
        return least(self.low), bound(self.high) - 2


def range_of_type(dtype: str) -> ValueRange:
    """The values that a type of integers or bool holds. Raises ValueError for a type of other numbers.

    >>> print(range_of_type("uint8"))
    0 : 256
    """
    if dtype == "bool":
        return ValueRange(0, 2)
    if DTYPES[dtype].kind not in ("int", "uint"):
        raise ValueError(f"{dtype} is no type of integers")
    info = np.iinfo(numpy_dtype(dtype))
    return ValueRange(int(info.min), int(info.max) + 1)


def has_range(dtype: str) -> bool:
    """Has a type values of which a ``ValueRange`` may be said?"""
    return DTYPES[dtype].kind in ("int", "uint", "bool")


def between(low: Index, top: Index) -> ValueRange:
    """The range of two ends, both in it; a long expression becomes a number.

    >>> print(between(-1, 7))
    -1 : 8
    """
    return ValueRange(_shorten(low, least), _shorten(add(top, 1), lambda x: bound(x) - 1))


def _shorten(x: Index, number: Callable[[Index], int]) -> Index:
    parts = {} if isinstance(x, int) else linear(x)
    if parts:  # N - 1 + 1 is N
        x = sub(total((c, f) for f, c in parts.items() if c > 0), total((-c, f) for f, c in parts.items() if c < 0))
    is_plain = isinstance(x, int) or (count_operators(x) <= _MOST_OPERATORS and bound(x) <= _MOST_END)
    return x if is_plain else number(x)


def is_at_most(a: Index, b: Index) -> bool:
    """Is ``a`` surely no more than ``b``?"""
    ends = least(a), bound(a) - 1, least(b), bound(b) - 1
    if ends[1] <= ends[2] or ends[0] > ends[3]:
        return ends[1] <= ends[2]
    is_number = isinstance(a, int) and isinstance(b, int)
    return not is_number and max(map(abs, ends)) <= _MOST_END and is_below(a, add(b, 1), ())


def least_of(a: Index, b: Index) -> Index:
    """The smaller of two expressions, one of them where it always is.

    >>> from tilegen.index import Var
    >>> N = Var("N", 99)
    >>> print(least_of(N, N + 1), largest_of(N, 4), largest_of(N, 200))
    N max(N, 4) 200
    """
    return a if is_at_most(a, b) else b if is_at_most(b, a) else minimum(a, b)


def largest_of(a: Index, b: Index) -> Index:
    """The larger of two expressions."""
    return a if is_at_most(b, a) else b if is_at_most(a, b) else maximum(a, b)


def join_ranges(ranges: Iterable[ValueRange]) -> ValueRange:
    """The least range that has all of some, of which there is one.

    >>> print(join_ranges([ValueRange(0, 3), ValueRange(-1, 2)]))
    -1 : 3
    """
    first, *others = ranges
    low, top = first.ends
    for one in others:
        low, top = least_of(low, one.ends[0]), largest_of(top, one.ends[1])
    return between(low, top)


def meet_ranges(a: ValueRange, b: ValueRange) -> ValueRange:
    """The values that are in both."""
    return between(largest_of(a.low, b.low), least_of(a.ends[1], b.ends[1]))


def is_empty(x: ValueRange) -> bool:
    """Is there surely no value in a range?"""
    return is_at_most(x.high, x.low)


def is_within(x: ValueRange, other: ValueRange) -> bool:
    """Is every value of a range in another, with any params?

    >>> is_within(ValueRange(0, 3), ValueRange(-1, 3)), is_within(ValueRange(0, 4), ValueRange(-1, 3))
    (True, False)
    """
    return is_at_most(other.low, x.low) and is_at_most(x.high, other.high)


def fit_range(x: ValueRange, dtype: str) -> ValueRange:
    """What a type holds of values computed in it: all that it has where they may wrap.

    >>> print(fit_range(ValueRange(0, 300), "uint8"), "and", fit_range(ValueRange(3, 7), "uint8"))
    0 : 256 and 3 : 7
    """
    own = range_of_type(dtype)
    (low, top), (first, last) = x.numbers, own.numbers
    return x if first <= low and top <= last else own


def clip_range(x: ValueRange, dtype: str) -> ValueRange:
    """Values that take the last one of a type beyond it.

    >>> print(clip_range(ValueRange(-5, 300), "uint8"), "and", clip_range(ValueRange(300, 400), "uint8"))
    0 : 256 and 255 : 256
    """
    (low, top), (first, last) = x.ends, range_of_type(dtype).numbers
    return between(least_of(largest_of(low, first), last), largest_of(least_of(top, last), first))


def sum_range(x: ValueRange, count: int) -> ValueRange:
    """Of the sum of so many values.

    >>> print(sum_range(ValueRange(0, 2), 64))
    0 : 65
    """
    low, top = x.ends
    return between(mul(low, count), mul(top, count))


# ---------------------------------------------------------------- functions of numbers
def apply_to_ranges(function: str, args: list[ValueRange], type_: str) -> ValueRange:
    """The range of a function of integers or truth values, in the type that it gives.

    Raises KeyError for a function of which nothing is known here.

    >>> print(apply_to_ranges("%", [ValueRange(-9, 9), ValueRange(4, 5)], "int32"))
    0 : 4
    """
    if function in ("<", "<=", ">", ">=", "==", "!=", "and", "or", "not"):
        return ValueRange(0, 2)
    if function == type_:  # a conversion, modulo the type's size
        return fit_range(args[0], type_)
    if function in _OF_ENDS:
        return fit_range(between(*_OF_ENDS[function](*(a.ends for a in args))), type_)
    if function == "//" and least(args[0].low) >= 0 and (divisor := _number_of(args[1])) > 0:
        return between(*(div(x, divisor) for x in args[0].ends))  # which stay expressions
    found = _OF_NUMBERS[function](range_of_type(type_).numbers, *(a.numbers for a in args))
    return range_of_type(type_) if found is None else fit_range(between(*found), type_)


def _number_of(x: ValueRange) -> int:
    """The only number of a range; 0 where there are others."""
    return x.low if isinstance(x.low, int) and x.high == x.low + 1 else 0


def _multiply(a: Ends, b: Ends) -> Ends:
    for one, other in ((a, b), (b, a)):
        if one[0] == one[1] and isinstance(one[0], int) and one[0] >= 0:
            return mul(other[0], one[0]), mul(other[1], one[0])
    return _corners(lambda x, y: x * y, _numbers(a), _numbers(b))


def _numbers(x: Ends) -> tuple[int, int]:
    return least(x[0]), bound(x[1]) - 1


def _corners(function: Callable[[int, int], int], a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The ends of a function that rises or falls along each argument."""
    found = [function(x, y) for x in a for y in b]
    return min(found), max(found)


_OF_ENDS: dict[str, Callable[..., Ends]] = {
    "+": lambda a, b: (add(a[0], b[0]), add(a[1], b[1])),
    "-": lambda a, b: (sub(a[0], b[1]), sub(a[1], b[0])),
    "*": _multiply,
    "neg": lambda a: (sub(0, a[1]), sub(0, a[0])),
    "min": lambda a, b: (least_of(a[0], b[0]), least_of(a[1], b[1])),
    "max": lambda a, b: (largest_of(a[0], b[0]), largest_of(a[1], b[1])),
}
Numbers = tuple[int, int]


def _absolute(own: Numbers, a: Numbers) -> Numbers:
    return (0 if a[0] <= 0 <= a[1] else min(map(abs, a))), max(map(abs, a))


def _quotient(own: Numbers, a: Numbers, b: Numbers) -> Numbers | None:
    return None if b[0] <= 0 <= b[1] else _corners(lambda x, y: x // y, a, b)


def _remainder(own: Numbers, a: Numbers, b: Numbers) -> Numbers | None:
    if b[0] <= 0 <= b[1]:
        return None
    if b[0] > 0:
        return a if a[0] >= 0 and a[1] < b[0] else (0, min(a[1], b[1] - 1) if a[0] >= 0 else b[1] - 1)
    return b[0] + 1, 0


def _and(own: Numbers, a: Numbers, b: Numbers) -> Numbers:
    tops = [x[1] for x in (a, b) if x[0] >= 0]
    return (0, min(tops)) if tops else (_signed(a, b)[0], max(a[1], b[1], -1))


def _or(own: Numbers, a: Numbers, b: Numbers) -> Numbers:
    low, top = _signed(a, b)
    return (max(a[0], b[0]) if min(a[0], b[0]) >= 0 else low), top


def _xor(own: Numbers, a: Numbers, b: Numbers) -> Numbers:
    return _signed(a, b)


def _signed(a: Numbers, b: Numbers) -> Numbers:
    """From where to where numbers go that have no more bits than either."""
    bits = max((x if x >= 0 else ~x).bit_length() for x in (*a, *b))
    return (0 if min(a[0], b[0]) >= 0 else -(1 << bits)), (1 << bits) - 1


def _shifted_left(own: Numbers, a: Numbers, b: Numbers) -> Numbers | None:
    bits = _bits(own)
    return _corners(lambda x, n: x << n, a, b) if b[0] >= 0 and b[1] < bits else None


def _shifted_right(own: Numbers, a: Numbers, b: Numbers) -> Numbers:
    last = _bits(own) - 1 + (own[0] == 0)  # a negative number keeps its sign, others become 0
    low, top = (max(0, min(n, last)) if own[0] == 0 or b[0] >= 0 else n for n in b)
    if b[0] < 0:
        return min(a[0], -1 if a[0] < 0 else 0), max(a[1], 0)
    return _corners(lambda x, n: x >> n, a, (low, top))


def _bits(own: Numbers) -> int:
    return (own[1] - own[0]).bit_length()


def _high_half(own: Numbers, a: Numbers, b: Numbers) -> Numbers:
    return _corners(lambda x, y: x * y >> _bits(own), a, b)


_OF_NUMBERS: dict[str, Callable[..., Numbers | None]] = {
    "abs": _absolute, "//": _quotient, "%": _remainder, "&": _and, "|": _or, "^": _xor,
    "~": lambda own, a: (own[0] + own[1] - a[1], own[0] + own[1] - a[0]),
    "<<": _shifted_left, ">>": _shifted_right, "mulhi": _high_half, 
    "popcount": lambda own, a: (0, _bits(own)), "clz": lambda own, a: (0, _bits(own)),
}  # fmt: skip
