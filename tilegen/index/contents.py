"""What the elements of a table are taken to be where none are at hand: values by which element it is.

Each kind is one function of the element's number. Most repeat after a few elements: all that a kernel does with a value
is done near the beginning of its arrays, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

TURNS, LEAST, LARGEST, UPWARDS, HOLED, OFFSETS, SPREAD = range(7)
NAMES = {
    TURNS: "all of their range in turns", LEAST: "their least value", LARGEST: "their largest value",
    HOLED: "one element that names no place", SPREAD: "each another value than its neighbours",
}  # fmt: skip
HOLE = 1  # the element that names no place, of distinct ones that may name none
_TURN = 8  # values of a range in turns, before those near numbers of the text


def period_of(kind: int, marks: Sequence[int]) -> int:
    """Elements after which the contents of a kind repeat. Raises KeyError for a kind that does not.

    >>> period_of(LEAST, ()), period_of(TURNS, (3, 4, 5))
    (1, 11)
    """
    return {LEAST: 1, LARGEST: 1, TURNS: _TURN + len(marks)}[kind]


def content(*table: Any) -> Any:
    """The value of an element of ``table``: its kind and key, the element's number, low, high, step, and its marks.

    The value is ``low`` or a multiple of ``step`` above it, below ``high``: an int, or an array for one of numbers.

    ``key`` tells tables apart. ``marks``: numbers that values are near; of OFFSETS how many pieces there are, then
    their lengths in turn.

    >>> content(TURNS, 0, np.arange(9), 10, 20, 1).tolist(), content(HOLED, 0, np.arange(5), -1, 3, 1).tolist()
    ([10, 19, 11, 15, 18, 12, 14, 17, 10], [0, -1, 2, -1, -1])
    >>> content(OFFSETS, 0, np.arange(6), 0, 21, 1, 5, 0, 7, 1).tolist()
    [0, 0, 7, 8, 8, 20]
    >>> content(SPREAD, 0, np.arange(6), -1, 3, 1).tolist()
    [-1, 0, 1, 2, -1, 0]
    """
    kind, key, number, low, high, step, *marks = table
    if kind in (UPWARDS, HOLED):
        return _upwards(number + shift_of(key), (low, high, step), (number == HOLE) & (kind == HOLED))
    if kind == OFFSETS:
        return _offsets(number, high - 1, *marks)
    if kind == SPREAD:  # as UPWARDS, of values that are promised to be nothing but in the range
        return low + (number + shift_of(key)) % ((high - low + step - 1) // step) * step
    last = (high - low - 1) // step  # the largest multiple
    if kind == TURNS:
        places = [0, last, 1, (last + 1) // 2, last - 1, 2, last // 2, last - 2]
        places += [-((low - mark) // step) for mark in marks]
        turn = (number + key % len(places)) % len(places)
        chosen = np.select([turn == k for k in range(len(places))], places)
    else:
        chosen = {LEAST: 0, LARGEST: last}[kind] + 0 * number
    return low + step * np.clip(chosen, 0, last)


def first_place(low: Any, step: int) -> Any:
    """The least value of 0 or more, of those in steps from ``low`` on.

    >>> int(first_place(-5, 2)), int(first_place(3, 4))
    (1, 3)
    """
    return low - np.minimum(low, 0) // step * step


def shift_of(key: int) -> int:
    """By how many values contents that go up begin behind the first: tables differ."""
    return key % 5


def _upwards(place: Any, values: tuple[Any, Any, int], is_hole: Any) -> Any:
    """Each place the next value of 0 or more; below 0 one of the first, and those behind the end of the range."""
    low, high, step = values
    first = first_place(low, step)
    count = (high - first + step - 1) // step
    is_none = (low < 0) & (is_hole | (place >= count))
    return np.where(is_none, low, first + place % np.maximum(count, 1) * step)[()]  # of one number a number


def _offsets(number: Any, end: Any, pieces: Any, *lengths: int) -> Any:
    """Pieces of these lengths in turn, as far as there is room; the last takes what is left."""
    before = np.cumsum([0, *lengths[:-1]])
    found = number // len(lengths) * sum(lengths) + before[np.asarray(number) % len(lengths)]
    return np.where(number >= pieces, end, np.minimum(found, end))[()]
