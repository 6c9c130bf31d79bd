"""Mutated specs: whatever the text, the loader answers with a Spec or with a TilegenError that can be printed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilegen.errors import TilegenError, format_error
from tilegen.ops import ALL_OPS
from tilegen.spec import load
from tilegen.spec.rules import RULES

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.yaml"))
RICH = """\
kernel: rich
arch: sm_90
params: {N: {default: 64, multiple_of: 8, max: 4096}, C: 3, a: {dtype: float32, default: 1.5}}
grid: {bx: ceil(N / 64), by: C}
cluster: {cbx: 1}
threads: 128
buffers:
  X: {scope: global, dtype: float32, shape: [C, N, 4, 32], layout: "S[(C,N,4,32):(N*128,128,32,1)]", align: 8}
  s: {scope: shared, dtype: float32, shape: [4, 4, 32], layout: "Swizzle(2,3,3) o S[(4,4,32):(128,32,1)]"}
  t: {view: s, axes: [0, 2, 1]}
  u: {view: s, dtype: uint8, shape: [4, 512], layout: row}
  r: {scope: register, dtype: float32, shape: [4, 32], layout: "S[(4,32):(1,1@laneid)] + R[2:1] + 0@laneid"}
ops:
  - for: {k: [0, C, 1], h: 2}
    unroll: true
    do:
      - copy: {scope: warp, src: "X[by, bx*64 + warpid]", dst: "s[warpid]", when: warpid == 0 and not k > 1}
      - sync: warp
        when: warpid < 2
      - copy: {scope: warp, src: "s[warpid, :, 0 : +32]", dst: r}
      - fill: {dst: "s[0:2]", value: 0.5}
  - sync: cta
"""
TEXTS = [RICH, *(path.read_text() for path in SPECS)]
PIECES = [
    *"()[]{}:,'\"|>&*!%@`#-+~?\\/ \t\n0", "null", "true", "010", "0x1F", "1e400", "-1", "99999999999999999999", "4:32",
    "on", "<<: ", "&a ", "*a", "!!python/object:os.system ", "---\n", "- ", ": ", "S[(4,4):(1@laneid,1)]", "1@m",
    "Swizzle(3,3,3)", "auto", "M", "//", "ceil(", "bx", "laneid", "X[0:1]", "\x00", "\ufeff", "\u2028", "\xe9",
    "\u0663", "tmem", "for", "view: s", "when: k == 0", "[[[[[[", "{a: b}", "1000000000000", "2147483648", ".inf",
    ".nan", "not ", " and ", "float64", "warpgroup", "R[2:1]", "^", "\r", "\x85", "cta", "0.5",
]  # fmt: skip


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


def test_the_unchanged_texts_load() -> None:
    for text in TEXTS:
        load(text, ALL_OPS)
