"""Memory spaces are one table: every space of the language has its row, every question is asked of the row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache, cached_property
from pathlib import Path
from typing import get_args

import pytest

import tilegen
from tilegen.plan import INSTRUCTIONS, Memory
from tilegen.spaces import SPACES, Space
from tilegen.spec.buffer_models import BufferFields
from tilegen.spec.data import Buffer

PACKAGE = Path(tilegen.__file__).parent
QUESTIONS = [
    *(field.name for field in fields(Space)),
    *(name for name, one in vars(Space).items() if isinstance(one, cached_property)),
]
SPEC = """
kernel: through
threads: 128
grid: {bx: ceil(M / 128)}
params: {M: {dtype: int32, default: 500}}
buffers:
  X: {scope: global, dtype: float32, shape: [M, 64]}
  W: {scope: SCOPE, dtype: float32, shape: [M, 64]}
  s: {scope: shared, dtype: float32, shape: [128, 64], layout: auto}
ops:
  - copy: {scope: cta, src: "X[bx*128 : +128, :]", dst: s, edge: clip}
  - sync: cta
  - copy: {scope: cta, src: s, dst: "W[bx*128 : +128, :]", edge: clip}
"""


@cache
def texts() -> dict[str, str]:
    """Every module but the table itself, and those of PTX, which has state spaces of its own."""
    paths = (p for p in sorted(PACKAGE.rglob("*.py")) if p.name != "spaces.py" and p.parent.name != "ptx")
    return {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def names_in(node: ast.AST) -> Iterator[str]:
    """The spaces that an expression names, by their words or by their rows."""
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value in SPACES:
            yield one.value
        if isinstance(one, ast.Name) and one.id.lower() in SPACES and one.id.isupper():
            yield one.id


def is_of_a_space(node: ast.Compare) -> bool:
    words = {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in ast.walk(node)}
    return not words.isdisjoint(("scope", "space", "spaces", "scopes"))


def test_every_scope_of_the_schema_has_its_row() -> None:
    scopes = get_args(BufferFields.model_fields["scope"].annotation)
    assert set(scopes) == set(SPACES)
    assert all(name == space.name for name, space in SPACES.items())


def test_every_state_space_of_an_instruction_is_one_of_a_row() -> None:
    states = {state for row in INSTRUCTIONS.values() for operand in row.operands for state in operand.spaces}
    assert states <= {space.state for space in SPACES.values()}


def test_every_question_is_asked() -> None:
    asked = {word for text in texts().values() for word in re.findall(r"\.(\w+)", text)}
    assert set(QUESTIONS) - asked == set(), "what no reader asks is left out of the row"


def test_no_space_is_asked_by_its_name() -> None:
    named = re.compile("|".join([f'"{name}"|{name.upper()}' for name in SPACES]))
    found = [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path, text in texts().items() if named.search(text) for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Compare) and is_of_a_space(node) and any(names_in(node))
    ]  # fmt: skip
    assert found == [], "a property of a space is asked of its row: x.traits"


def test_an_unknown_space_raises() -> None:
    with pytest.raises(KeyError, match="texture"):
        Memory("T", "float32", (4,), (1,), "texture").traits  # noqa: B018
    with pytest.raises(KeyError, match="texture"):
        Buffer("T", "texture", "float32", (4,), None, "T").traits  # noqa: B018
