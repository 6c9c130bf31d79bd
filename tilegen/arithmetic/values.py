"""Which values the elements of an array have, as its caller promises, and some of them drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic.formats import largest, least_normal
from tilegen.arithmetic.hashes import mix, salt
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.index import Index, evaluate

Array = NDArray[Any]
_TILE = 64  # rows: tiles of kernels have as many, or a multiple
_DRAWN = 1 << 13  # floats that elements are drawn from: a power of two
_ENDS = 8  # one element in so many is an end of the range, or a number that comes again
_ALL = (1 << 64) - 1  # the largest number of 64 bits
_STRETCH = 97  # distinct elements that are near their index: a prime, so that no tile is as long
_WIDE = 1e3  # of positive numbers: from here on each order of magnitude is drawn as often


@dataclass(frozen=True)
class Values:
    """``low <= x < high`` of each element, in steps of ``step`` from ``low`` on: integers of sizes, or floats.

    ``is_distinct``: no value of 0 or more stands twice. ``pieces``: of offsets, how many pieces they part: element
    0 is ``low``, element ``pieces`` is ``high - 1``, and none is less than the one before.
    """

    low: Index | float
    high: Index | float
    step: int = 1
    is_distinct: bool = False
    pieces: Index | None = None

    def at(self, case: Mapping[str, int]) -> Values:
        """The range at values of the params.

        >>> from tilegen.index import Var
        >>> print(Values(-1, Var("N", 99)).at({"N": 8}))
        -1 : 8
        """
        low, high = (x if isinstance(x, int | float) else int(evaluate(x, dict(case))) for x in (self.low, self.high))
        pieces = None if self.pieces is None else int(evaluate(self.pieces, dict(case)))
        return replace(self, low=low, high=high, pieces=pieces)

    def __str__(self) -> str:
        return " : ".join(map(str, (self.low, self.high, *([self.step] if self.step > 1 else []))))

    @property
    def places(self) -> tuple[Index, Index]:
        """Both ends of a range of integers."""
        assert not isinstance(self.low, float) and not isinstance(self.high, float)
        return self.low, self.high

    @property
    def promise(self) -> str:
        """What the caller promises, in words."""
        if self.pieces is not None:
            return f"offsets of {self.pieces} pieces, rising from 0 to {self.high - 1}"
        return f"values {self}" + (", each of 0 or more once" if self.is_distinct else "")


def draw_values(
    values: Values, dtype: str, name: str, seed: int, is_dense: bool = False
) -> Callable[[Array], Array]:  # fmt: skip
    """Elements by index, all within the range (whose ends are numbers): both ends of it are among them.

    ``is_dense``: distinct ones are near their index, so that two arrays of them hold the same numbers at other places.

    >>> draw_values(Values(-1, 3), "int32", "labels", 1)(np.arange(12)).tolist()
    [-1, -1, 2, 0, 2, 1, 1, 1, 0, 0, -1, -1]
    """
    word, kind = salt(f"values {name} {seed}"), DTYPES[dtype].kind

    def draw(index: Array) -> Array:
        drawn = mix(np.asarray(index).astype(np.uint64), word)
        if kind == "float":
            floats = list_floats(float(values.low), float(values.high), dtype)  # type: ignore[arg-type]
            found: Array = floats[(drawn & np.uint64(_DRAWN - 1)).astype(np.intp)]
            return found
        if values.pieces is not None:
            return _draw_offsets(values, np.asarray(index), int(word)).astype(numpy_dtype(dtype))
        if values.is_distinct:
            return _draw_distinct(values, np.asarray(index), drawn, int(word), is_dense).astype(numpy_dtype(dtype))
        low, count = int(values.low), count_integers(values)  # type: ignore[arg-type]
        place = mix(drawn, word)
        place = place if count > _ALL else place % np.uint64(count)
        ends = np.where(drawn // np.uint64(_ENDS) % np.uint64(2) == 0, np.uint64(0), np.uint64(count - 1))
        place = np.where(drawn % np.uint64(_ENDS) == 0, ends, place)
        with np.errstate(over="ignore"):  # modulo 2^64, as two's complement has it
            found = (place * np.uint64(values.step) + np.uint64(low % (1 << 64))).astype(numpy_dtype(dtype))
        return found

    return draw


def _draw_distinct(values: Values, index: Array, drawn: Array, word: int, is_dense: bool) -> Array:
    """Numbers of 0 or more, each once, in no order; where the range goes below 0 some of its least between them.

    ``word``: of the array, so that another one holds other numbers.
    """
    low, count = int(values.low), count_integers(values)  # type: ignore[arg-type]
    below = max(0, -(low // values.step)) if low < 0 else 0
    positive = max(1, count - below)
    if is_dense:  # turned round within stretches
        first = index // _STRETCH * _STRETCH
        place = first + (index - first + word % _STRETCH) % np.maximum(1, np.minimum(_STRETCH, positive - first))
    else:
        factor = next(n for n in range(max(1, positive * 5 // 8), 2 * positive + 2) if gcd(n, positive) == 1)
        wide = index.astype(object) if positive >= 1 << 31 else index
        place = (wide * factor + word % positive) % positive
    found = low + values.step * (below + place.astype(np.int64))
    is_low = (index >= positive) | (drawn % np.uint64(_ENDS) == 0)
    return np.where(is_low, low, found) if low < 0 else found


def _draw_offsets(values: Values, index: Array, word: int) -> Array:
    """Ends of pieces: nearly even ones, a few of them empty; in the first half of long ones lengths of whole tiles, and
    of an element less and more.

    >>> ends = draw_values(Values(0, 1001, pieces=5), "int32", "offsets", 1)(np.arange(6))
    >>> ends.tolist(), (np.diff(ends) % _TILE).tolist()
    ([0, 320, 383, 384, 982, 1000], [0, 63, 1, 22, 18])
    """
    pieces, end = int(values.pieces), int(values.high) - 1  # type: ignore[arg-type]

    def near(at: Array) -> Array:
        own = at - ((at % 2 == 1) & (at < pieces) & (at // 2 % 3 == 1))  # the same as the one before
        jitter = mix(own.astype(np.uint64), np.uint64(word)) % np.uint64(max(1, end))
        return np.asarray((own * end + jitter.astype(np.int64)) // max(1, pieces))

    found = near(index)
    if end >= _TILE * pieces:
        whole = found // _TILE * _TILE
        less = np.maximum(whole - 1, near(np.maximum(index - 1, 0)) // _TILE * _TILE)
        found = np.where(index > (pieces + 1) // 2, found, np.where(index % 3 == 2, less, whole))
    return np.where(index <= 0, 0, np.where(index >= pieces, end, found))


def count_integers(values: Values) -> int:
    """How many integers there are in a range of known ends.

    >>> count_integers(Values(0, 20, 8))
    3
    """
    return -(-(int(values.high) - int(values.low)) // values.step)  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def list_floats(low: float, high: float, dtype: str) -> Array:
    """Numbers of a float type with ``low <= x < high``, as many as elements are drawn from; none where there are none.

    Evenly over the range; over many orders of magnitude of one sign, as many of each. One in eight is an end of the
    range, or a number that comes again, so that two which are compared may be equal.
    """
    part = (np.arange(_DRAWN) + 0.5) / _DRAWN
    even = low + (high - low) * part
    if low > 0 and high / low > _WIDE:
        even = low * (high / low) ** part
    ends = _ends_of(low, high, dtype)
    if not len(ends):
        return ends
    rounded = even.astype(numpy_dtype(dtype))
    wide = rounded.astype(np.float64)
    found = np.where((wide >= low) & (wide < high), rounded, ends[0])
    again = np.array([x for x in (0.0, 1.0, -1.0, 0.5) if low <= x < high]).astype(numpy_dtype(dtype))
    known = np.concatenate([ends, again])
    found[::_ENDS] = np.resize(known, len(found[::_ENDS]))
    return found


def _ends_of(low: float, high: float, dtype: str) -> Array:
    """The least and the largest number of a float type in a range, with all their digits if there are such; none
    where it holds none.
    """
    target, tiny = numpy_dtype(dtype), least_normal(dtype)
    up, down = (np.array(sign * largest(dtype)).astype(target) for sign in (1, -1))
    with np.errstate(all="ignore"):
        first, last = (np.array(x).astype(target) for x in (low, high))
        first = np.nextafter(first, up).astype(target) if float(first) < low else first
        last = np.nextafter(last, down).astype(target) if float(last) >= high else last
    if 0 < float(first) < tiny < high:
        first = np.array(tiny).astype(target)
    if low < -tiny < float(last) < 0:
        last = np.array(-tiny).astype(target)
    return np.array([first, last]).astype(target) if low <= float(first) <= float(last) < high else np.zeros(0, target)
