"""Mutated specs: whatever the text, the loader answers with a Spec or with a TilegenError that can be printed."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.session import examples
from tests.spec.fuzz import PIECES, RICH, TEXTS, answer, change, mutate
from tilegen.ops import ALL_OPS
from tilegen.spec import load

FUZZ = int(os.environ.get("TILEGEN_FUZZ", examples(300)))


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """One of the texts with up to eight changes of a character, a word or a line."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 8))):
        text = change(lambda first, last: draw(st.integers(first, last)), text)
    return text


def check_answer(text: str) -> None:
    """Loads, or says what is wrong in known codes, at places that exist."""
    assert answer(text + "\n", lambda text: load(text, ALL_OPS))


@settings(
    max_examples=FUZZ,
    deadline=None,
    derandomize="TILEGEN_FUZZ" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
@given(mutated())
def test_a_mutated_spec_loads_or_is_refused(text: str) -> None:
    check_answer(text)


@settings(max_examples=FUZZ // 3, deadline=None, derandomize=True)
@given(st.text(max_size=80))
def test_any_text_loads_or_is_refused(text: str) -> None:
    check_answer(text)


@settings(max_examples=FUZZ // 3, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([*PIECES, "X", "s", "k", "1", "2", "32", "+", "=="]), max_size=30), st.booleans())
def test_any_region_and_condition_loads_or_is_refused(words: list[str], is_region: bool) -> None:
    quoted = "".join(words).replace("\\", "").replace('"', "").replace("\n", " ").replace("\x00", "")
    old, new = ('"s[warpid, :, 0 : +32]"', f'"{quoted}"') if is_region else ("warpid < 2", f'"{quoted}"')
    check_answer(RICH.replace(old, new))


@pytest.mark.slow
@pytest.mark.parametrize("part", [*range(4), *(pytest.param(part, marks=pytest.mark.slow) for part in range(4, 8))])
def test_a_mutated_spec_is_built_or_refused(part: int) -> None:
    """``python -m tests.spec.fuzz`` tries as many as are wanted."""
    for number in range(part, 400, 8):
        assert answer(mutate(number))


@pytest.mark.slow
def test_the_unchanged_texts_load() -> None:
    for text in TEXTS:
        load(text, ALL_OPS)
