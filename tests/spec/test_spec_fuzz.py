"""Mutated specs: whatever the text, the loader answers with a Spec or with a TilegenError that can be printed."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.spec.fuzz import PIECES, RICH, TEXTS, answer, mutate
from tilegen.errors import TilegenError, format_error
from tilegen.ops import ALL_OPS
from tilegen.spec import load
from tilegen.spec.rules import RULES


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """One of the texts with up to eight changes of a character, a word or a line."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 8))):
        text = change(draw, text)
    return text


def change(draw: st.DrawFn, text: str) -> str:
    """One change."""
    kind = draw(
        st.sampled_from(["insert", "delete", "replace", "swap lines", "drop line", "double line", "swap words"])
    )
    at = draw(st.integers(0, max(0, len(text) - 1)))
    piece = draw(st.sampled_from(PIECES))
    if kind == "insert":
        return text[:at] + piece + text[at:]
    if kind == "delete":
        return text[:at] + text[at + draw(st.integers(1, 12)) :]
    if kind in ("replace", "swap words"):
        words = list(re.finditer(r"\w+|[^\w\s]", text))
        if not words:
            return piece
        word = words[at % len(words)]
        other = words[draw(st.integers(0, len(words) - 1))]
        return text[: word.start()] + (piece if kind == "replace" else other[0]) + text[word.end() :]
    lines = text.split("\n")
    line, target = at % len(lines), draw(st.integers(0, len(lines) - 1))
    if kind == "swap lines":
        lines[line], lines[target] = lines[target], lines[line]
    elif kind == "drop line":
        del lines[line]
    else:
        lines.insert(target, lines[line])
    return "\n".join(lines)


def check_answer(text: str) -> None:
    """Loads, or says what is wrong in known codes, at places that exist."""
    try:
        load(text + "\n", ALL_OPS)
    except TilegenError as error:
        assert error.diagnostics and format_error(error)
        for finding in error.diagnostics:
            assert finding.code in RULES, finding
            assert finding.mark is None or finding.mark.column <= len(finding.mark.text) + 1, finding


@settings(
    max_examples=int(os.environ.get("TILEGEN_FUZZ", "300")),
    deadline=None,
    derandomize="TILEGEN_FUZZ" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
@given(mutated())
def test_a_mutated_spec_loads_or_is_refused(text: str) -> None:
    check_answer(text)


@settings(max_examples=int(os.environ.get("TILEGEN_FUZZ", "300")) // 3, deadline=None, derandomize=True)
@given(st.text(max_size=80))
def test_any_text_loads_or_is_refused(text: str) -> None:
    check_answer(text)


@settings(max_examples=int(os.environ.get("TILEGEN_FUZZ", "300")) // 3, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([*PIECES, "X", "s", "k", "1", "2", "32", "+", "=="]), max_size=30), st.booleans())
def test_any_region_and_condition_loads_or_is_refused(words: list[str], is_region: bool) -> None:
    quoted = "".join(words).replace("\\", "").replace('"', "").replace("\n", " ").replace("\x00", "")
    old, new = ('"s[warpid, :, 0 : +32]"', f'"{quoted}"') if is_region else ("warpid < 2", f'"{quoted}"')
    check_answer(RICH.replace(old, new))


@pytest.mark.parametrize("part", range(4))
def test_a_mutated_spec_is_built_or_refused(part: int) -> None:
    """``python -m tests.spec.fuzz`` tries as many as are wanted."""
    for number in range(part, 400, 4):
        assert answer(mutate(number))


def test_the_unchanged_texts_load() -> None:
    for text in TEXTS:
        load(text, ALL_OPS)
