"""Answers that are kept with what was asked about, so that nothing is computed twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

Subject = TypeVar("Subject")
Other = TypeVar("Other")
Answer = TypeVar("Answer")
More = ParamSpec("More")


class _Answers(dict[Any, Any]):
    """Answers by what was asked; an object that goes to another process leaves them behind."""

    def __reduce__(self) -> tuple[type[_Answers], tuple[()]]:
        return _Answers, ()


def keep(function: Callable[Concatenate[Subject, More], Answer]) -> Callable[Concatenate[Subject, More], Answer]:
    """A function of a frozen object that is carried out once for each object, as long as that lives.

    Of what else it is given, which is hashable, it is carried out once for each value.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Square:
    ...     side: int
    >>> asked = []
    >>> area = keep(lambda square: asked.append(square) or square.side**2)
    >>> square = Square(3)
    >>> area(square), area(square), len(asked)
    (9, 9, 1)
    >>> times = keep(lambda square, count: asked.append(square) or square.side * count)
    >>> times(square, 2), times(square, 2), times(square, 5), len(asked)
    (6, 6, 15, 3)
    """
    name = _name(function)

    @wraps(function)
    def kept(subject: Subject, /, *more: More.args, **named: More.kwargs) -> Answer:
        known = vars(subject).get("_kept")
        if known is None:
            known = vars(subject)["_kept"] = _Answers()
        key = (name, more, *named.items()) if more or named else name
        if key not in known:
            known[key] = function(subject, *more, **named)
        return known[key]  # type: ignore[no-any-return]

    return kept


def keep_of_two(function: Callable[[Other, Subject], Answer]) -> Callable[[Other, Subject], Answer]:
    """A function of two frozen objects, carried out once for each pair of them, as long as the second lives.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Square:
    ...     side: int
    >>> asked = []
    >>> both = keep_of_two(lambda one, other: asked.append(one) or one.side + other.side)
    >>> one, other = Square(3), Square(4)
    >>> both(one, other), both(one, other), both(Square(3), other), len(asked)
    (7, 7, 7, 2)
    """

    @wraps(function)
    def answers(subject: Subject) -> list[tuple[Other, Answer]]:
        return []

    known = keep(answers)

    @wraps(function)
    def kept(other: Other, subject: Subject) -> Answer:
        for own, answer in known(subject):
            if own is other:
                return answer
        known(subject).append((other, function(other, subject)))
        return known(subject)[-1][1]

    return kept


def hand_on(function: Callable[[Subject], Any], before: Subject, after: Subject) -> None:
    """What a function that keeps its answers has said of an object, if anything, it says of another too.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Square:
    ...     side: int
    ...     color: str
    >>> asked = []
    >>> area = keep(lambda square: asked.append(square) or square.side**2)
    >>> red, green = Square(3, "red"), Square(3, "green")
    >>> area(red), hand_on(area, red, green), area(green), len(asked)
    (9, None, 9, 1)
    """
    name, known = _name(function), vars(before).get("_kept", {})
    if name in known:
        vars(after).setdefault("_kept", _Answers())[name] = known[name]


def _name(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '')}.{function.__qualname__}"
