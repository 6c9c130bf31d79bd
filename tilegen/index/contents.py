"""What the elements of a table are taken to be where none are at hand: values by which element it is.

Each kind is one function of the element's number. Most repeat after a few elements: all that a kernel does with a value
is done near the beginning of its arrays, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

TURNS, LEAST, LARGEST, UPWARDS, HOLED, OFFSETS = range(6)
NAMES = {
    TURNS: "all of their range in turns", LEAST: "their least value", LARGEST: "their largest value",
    HOLED: "one element that names no place",
}  # fmt: skip
HOLE = 1  # the element that names no place, of distinct ones that may name none
_TURN = 8  # values of a range in turns, before those near numbers of the text


def period_of(kind: int, marks: Sequence[int]) -> int:
    """Elements after which the contents of a kind repeat. Raises KeyError for a kind that does not.

    >>> period_of(LEAST, ()), period_of(TURNS, (3, 4, 5))
    (1, 11)
    """
    return {LEAST: 1, LARGEST: 1, TURNS: _TURN + len(marks)}[kind]


def content(kind: int, key: int, number: Any, low: Any, high: Any, step: int, *marks: int) -> Any:
    """The value of an element: ``low``, a multiple of ``step`` above it, below ``high``. Ints, or NumPy arrays of them.

    ``key`` tells tables apart. ``marks``: numbers that values are near; of OFFSETS how many pieces there are, then
    their lengths in turn.

    >>> content(TURNS, 0, np.arange(9), 10, 20, 1).tolist(), content(HOLED, 0, np.arange(5), -1, 3, 1).tolist()
    ([10, 19, 11, 15, 18, 12, 14, 17, 10], [0, -1, 2, -1, -1])
    >>> content(OFFSETS, 0, np.arange(6), 0, 21, 1, 5, 0, 7, 1).tolist()
    [0, 0, 7, 8, 8, 20]
    """
    if kind in (UPWARDS, HOLED):
        return _upwards(number, key, low, high, step, kind == HOLED)
    if kind == OFFSETS:
        return _offsets(number, high - 1, *marks)
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


def _upwards(number: Any, key: int, low: Any, high: Any, step: int, has_hole: bool) -> Any:
    """Each element the next value of 0 or more; below 0 one of the first, and those behind the end of the range."""
    first = first_place(low, step)
    count = np.maximum(1, (high - first + step - 1) // step)
    place = number + shift_of(key)
    is_none = (low < 0) & ((has_hole & (number == HOLE)) | (place >= count))
    return np.where(is_none, low, first + place % count * step)


def _offsets(number: Any, end: Any, pieces: Any, *lengths: int) -> Any:
    """Pieces of these lengths in turn, as far as there is room; the last takes what is left."""
    before = np.cumsum([0, *lengths[:-1]])
    found = number // len(lengths) * sum(lengths) + before[np.asarray(number) % len(lengths)]
    return np.where(number >= pieces, end, np.minimum(found, end))
