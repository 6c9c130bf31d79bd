"""Expressions mean what Python means by the same text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilegen.errors import Mark
from tilegen.index import Var, evaluate
from tilegen.spec.expressions import parse_value
from tilegen.spec.findings import Flaw, Passage
from tilegen.spec.names import Names

NAMES = Names({"a": Var("a", 40), "b": Var("b", 9, 1, 1), "c": Var("c", 65, 8, 8), "K": 6})


def parse(text: str) -> Any:
    return parse_value(Passage(text, lambda start, end: Mark("t", 1, start + 1, end - start, text)), NAMES)


def numbers(depth: int) -> st.SearchStrategy[str]:
    leaf = st.sampled_from(["a", "b", "c", "K", "0", "1", "2", "7", "16"])
    if depth == 0:
        return leaf
    inner = numbers(depth - 1)
    return st.one_of(
        leaf,
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


class _Whole(int):
    """An int whose @ divides and rounds up, as the slash in ceil does."""

    def up(self) -> _Whole:
        return self

    def __matmul__(self, other: int) -> _Whole:
        return _Whole(-(-int(self) // int(other)))

    def __rmatmul__(self, other: int) -> _Whole:
        return _Whole(-(-int(other) // int(self)))


VALUES = st.fixed_dictionaries({"a": st.integers(0, 39), "b": st.integers(1, 8), "c": st.sampled_from(range(8, 65, 8))})


@settings(max_examples=400, deadline=None)
@given(st.one_of(numbers(3), conditions(2)), VALUES)
def test_an_expression_means_what_python_means(text: str, values: dict[str, int]) -> None:
    assume(" - " not in text)  # values below 0 are another test's
    try:
        index = parse(text).index
    except Flaw:
        return  # it may divide by 0
    spelled = text.replace("ceil((", "ceil(_(")
    expected = eval(
        spelled.replace(") / (", ") @ _("),
        {"__builtins__": {}},
        {**values, "K": 6, "_": _Whole, "ceil": lambda x: x.up()},
    )
    assert int(evaluate(index, values)) == int(expected)


@settings(max_examples=200, deadline=None)
@given(numbers(3), VALUES)
def test_differences_that_stay_at_zero_or_above_are_exact(text: str, values: dict[str, int]) -> None:
    whole = f"1000000 + {text} - b" if "-" not in text else "c - b"
    try:
        index = parse(whole).index
    except Flaw:
        return
    spelled = whole.replace("ceil((", "ceil(_(").replace(") / (", ") @ _(")
    expected = eval(spelled, {"__builtins__": {}}, {**values, "K": 6, "_": _Whole, "ceil": lambda x: x.up()})
    assert int(evaluate(index, values)) == int(expected)


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
        ("K - 7", "TG112", 1, 5),
        ("99999999999999999999", "TG112", 1, 20),
        ("a * 4611686018427387903", "TG112", 1, 23),
        ("a + q", "TG105", 5, 1),
        ("a.b", "TG111", 2, 1),
        ("a\u0661", "TG111", 2, 1),
    ],
)
def test_errors_point_at_their_characters(text: str, code: str, column: int, length: int) -> None:
    with pytest.raises(Flaw) as caught:
        parse(text)
    finding = caught.value.diagnostic
    assert finding is not None
    assert finding.mark is not None
    assert (finding.code, finding.mark.column, finding.mark.length) == (code, column, length)
