"""What the elements of a table are taken to be where none are at hand: values by which element it is.

Each kind is one function of the element's number, and repeats after a few elements: all that a kernel does with a value
is done near the beginning of its arrays, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

LEAST, LARGEST, TURNS, PAIRS, MARKS = range(5)
NAMES = {
    TURNS: "all of their range in turns", LEAST: "their least value", LARGEST: "their largest value",
    PAIRS: "the same value twice, then another", MARKS: "values near the numbers of the text",
}  # fmt: skip
_TURN = 8  # elements after which contents in turns repeat


def period_of(kind: int, marks: Sequence[int]) -> int:
    """Elements after which the contents of a kind repeat. Raises KeyError for a kind that is none.

    >>> period_of(LEAST, ()), period_of(MARKS, (3, 4, 5))
    (1, 3)
    """
    return {LEAST: 1, LARGEST: 1, TURNS: _TURN, PAIRS: _TURN, MARKS: max(1, len(marks))}[kind]


def content(kind: int, number: Any, low: Any, high: Any, step: int, *marks: int) -> Any:
    """The value of an element: ``low``, a multiple of ``step`` above it, below ``high``. Ints, or NumPy arrays of them.

    >>> content(TURNS, np.arange(9), 10, 20, 1).tolist()
    [10, 19, 11, 15, 18, 12, 14, 17, 10]
    """
    last = (high - low - 1) // step  # the largest multiple
    turn = number % period_of(kind, marks)
    return low + step * np.clip(_PLACES[kind](turn, last, low, step, marks), 0, last)


def _in_turns(turn: Any, last: Any, low: Any, step: int, marks: Sequence[int]) -> Any:
    return _pick(turn, [0, last, 1, (last + 1) // 2, last - 1, 2, last // 2, last - 2])


def _pairs(turn: Any, last: Any, low: Any, step: int, marks: Sequence[int]) -> Any:
    return _pick(turn // 2, [last // 3, 0, last, 1])


def _marks(turn: Any, last: Any, low: Any, step: int, marks: Sequence[int]) -> Any:
    return _pick(turn, [-((low - mark) // step) for mark in marks] or [0])


def _pick(turn: Any, choices: Sequence[Any]) -> Any:
    return np.select([turn == k for k in range(len(choices))], choices)


_PLACES: dict[int, Callable[..., Any]] = {
    LEAST: lambda turn, last, low, step, marks: 0 * last,
    LARGEST: lambda turn, last, low, step, marks: last,
    TURNS: _in_turns, PAIRS: _pairs, MARKS: _marks,
}  # fmt: skip
