"""Expressions mean what Python means by the same text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.session import examples
from tilegen.errors import Mark
from tilegen.index import Var, bound, dividends, evaluate, least
from tilegen.spec.expressions import parse_value
from tilegen.spec.findings import Flawed, Passage
from tilegen.spec.names import Names

NAMES = Names({"a": Var("a", 40), "b": Var("b", 9, 1, 1), "c": Var("c", 65, 8, 8), "K": 6})


def parse(text: str) -> Any:
    return parse_value(Passage(text, lambda start, end: Mark("t", 1, start + 1, end - start, text)), NAMES)


def numbers(depth: int) -> st.SearchStrategy[str]:
    leaf = st.sampled_from(["a", "b", "c", "K", "0", "1", "2", "7", "16"])
    if depth == 0:
        return leaf
    inner = numbers(depth - 1)
    chosen = st.tuples(inner, st.sampled_from([" < ", " == "]), inner, inner, inner)
    return st.one_of(
        leaf,
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda x: f"{x[0]}({x[1]}, {x[2]})"),
        chosen.map(lambda x: f"where({x[0]}{x[1]}{x[2]}, {x[3]}, {x[4]})"),
        st.tuples(inner, st.sampled_from([" + ", "*", " // ", " % ", " - "]), inner).map("".join),
        inner.map(lambda x: f"({x})"),
        st.tuples(inner, inner).map(lambda xy: f"ceil(({xy[0]}) / ({xy[1]}))"),
    )


def conditions(depth: int) -> st.SearchStrategy[str]:
    inner = numbers(2)
    leaf = st.tuples(inner, st.sampled_from([" < ", " <= ", ">", " >= ", " == ", "!="]), inner).map("".join)
    if depth == 0:
        return leaf
    deeper = conditions(depth - 1)
    return st.one_of(
        leaf,
        st.tuples(deeper, st.sampled_from([" and ", " or "]), deeper).map("".join),
        deeper.map(lambda x: f"not ({x})"),
    )


class _Negative(Exception):
    """Something negative was divided."""


class _Whole(int):
    """An int whose @ divides and rounds up, as the slash in ceil does; what is divided is never negative."""

    def up(self) -> _Whole:
        return self

    def __add__(self, other: int) -> _Whole:
        return _Whole(int(self) + int(other))

    def __sub__(self, other: int) -> _Whole:
        return _Whole(int(self) - int(other))

    def __mul__(self, other: int) -> _Whole:
        return _Whole(int(self) * int(other))

    def _divided(self, other: int) -> tuple[int, int]:
        if self < 0:
            raise _Negative
        return divmod(int(self), int(other))

    def __floordiv__(self, other: int) -> _Whole:
        return _Whole(self._divided(other)[0])

    def __mod__(self, other: int) -> _Whole:
        return _Whole(self._divided(other)[1])

    def __matmul__(self, other: int) -> _Whole:
        return _Whole(-(-int(self) // int(other))) if self._divided(other) else self


VALUES = st.fixed_dictionaries({"a": st.integers(0, 39), "b": st.integers(1, 8), "c": st.sampled_from(range(8, 65, 8))})


def python_value(text: str, values: dict[str, int]) -> Any:
    """What Python makes of the text; raises _Negative where something negative is divided, in any arm."""
    spelled = re.sub(r"\b(\d+)\b", r"_(\1)", text.replace(") / (", ") @ ("))
    calls = {"_": _Whole, "ceil": lambda x: x.up(), "min": min, "max": max, "where": lambda c, a, b: a if c else b}
    return eval(spelled, {"__builtins__": {}}, {k: _Whole(v) for k, v in {**values, "K": 6}.items()} | calls)


@settings(max_examples=examples(600), deadline=None)
@given(st.one_of(numbers(3), conditions(2)), VALUES)
def test_an_expression_means_what_python_means(text: str, values: dict[str, int]) -> None:
    try:
        index = parse(text).index
        expected = python_value(text, values)
    except Flawed:
        return  # it may divide by 0, or what is divided is always negative
    except _Negative:
        return
    assert int(evaluate(index, values)) == int(expected)
    assert least(index) <= int(expected) < bound(index)
    arrays = {k: np.array([v, v]) for k, v in values.items()}
    assert np.all(evaluate(index, arrays) == int(expected))


@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(numbers(3), conditions(2)), VALUES)
def test_what_is_divided_and_negative_is_told(text: str, values: dict[str, int]) -> None:
    """Where no dividend that is said to count is negative, the value is that of Python, which divides downwards."""
    try:
        index = parse(text).index
    except Flawed:
        return
    counted = [(part, when) for part, when in dividends(index) if evaluate(when, values)]
    if any(evaluate(part, values) < 0 for part, _ in counted):
        with pytest.raises(_Negative):
            python_value(text, values)


@pytest.mark.parametrize(
    ("text", "code", "column", "length"),
    [
        ("", "TG111", 1, 0),
        ("a +", "TG111", 4, 1),
        ("a b", "TG111", 3, 1),
        ("a / 2", "TG111", 3, 1),
        ("ceil(a)", "TG111", 7, 1),
        ("ceil(a / b / 2)", "TG111", 12, 1),
        ("a && b", "TG111", 3, 2),
        ("-a", "TG111", 1, 1),
        ("08 + a", "TG111", 1, 2),
        ("0x10", "TG111", 1, 4),
        ("1.5 * a", "TG111", 1, 3),
        ("a * (b", "TG111", 7, 1),
        ("a and b == 1", "TG111", 1, 1),
        ("(a == 1) + 1", "TG111", 1, 8),
        ("1 < a < 2", "TG111", 7, 1),
        ("2 // a", "TG112", 6, 1),
        ("a % (K - 6)", "TG112", 5, 7),
        ("(K - 7) // 2", "TG112", 1, 7),
        ("ceil((K - 7) / 2)", "TG112", 6, 7),
        ("min(a)", "TG111", 1, 6),
        ("where(a, 1, 2)", "TG111", 7, 1),
        ("max(a < b, 2)", "TG111", 5, 5),
        ("where(a < b, a == 1, 2)", "TG111", 14, 6),
        ("min(a, b", "TG111", 9, 1),
        ("99999999999999999999", "TG112", 1, 20),
        ("a * 4611686018427387903", "TG112", 1, 23),
        ("a + q", "TG105", 5, 1),
        ("a.b", "TG111", 2, 1),
        ("a\u0661", "TG111", 2, 1),
    ],
)
def test_errors_point_at_their_characters(text: str, code: str, column: int, length: int) -> None:
    with pytest.raises(Flawed) as caught:
        parse(text)
    finding = caught.value.diagnostic
    assert finding is not None
    assert finding.mark is not None
    assert (finding.code, finding.mark.column, finding.mark.length) == (code, column, length)
