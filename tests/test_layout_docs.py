"""docs/layouts.md and permutation.md show what the command prints, layouts-names.md what tilegen.layouts offers.

``UPDATE_GOLDEN=1`` rewrites the output under every ``$ tilegen ...`` line of a console block, and the table of names.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tilegen import layouts
from tilegen.cli import cli

ROOT = Path(__file__).parents[1]
PAGE, NAMES = ROOT / "docs" / "layouts.md", ROOT / "docs" / "layouts-names.md"
PERMUTATION = ROOT / "docs" / "permutation.md"
UPDATES = os.environ.get("UPDATE_GOLDEN") == "1"
BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=^```)", re.S | re.M)
PART = re.compile(r"(<!-- generated -->\n)(.*?)(<!-- end -->)", re.S)
# Heads by the module that a name comes from; a module that is not listed has its own name as head.
HEADS = {
    "core.iters": "Kinds", "core.values": "Kinds", "gluon.padded": "Kinds",
    "linear": "Linear and Gluon", "linear.values": "Linear and Gluon", "gluon.distributed": "Linear and Gluon",
    "gluon.shared": "Linear and Gluon", "notation": "Text", "core.measures": "Questions", "core.cells": "Questions",
    "core.canonical": "In other words", "core.dimensions": "Dimensions", "core.refinement": "Dimensions",
    "core.tiling": "Tiles and sums",
    "cute": "CuTe",
}  # fmt: skip
DATA = {
    "ATOMS": "The atoms of matrix products, a row each: (MmaAtom, ...).",
    "MODES": "The modes of a matrix product: M, N, K.",
    "OPERANDS": "Which modes the operands of a matrix product have: {name: (rows, columns)}.",
}


def run(command: str) -> str:
    """What a command prints, errors where a terminal would show them, in a terminal of 100 columns."""
    words = shlex.split(command)
    assert words[0] == "tilegen"
    environment = {"NO_COLOR": "1", "COLUMNS": "100", "LINES": "24"}
    return CliRunner().invoke(cli, words[1:], env=environment).output.strip("\n")


def rewrite(block: str) -> str:
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {command}\n{run(command)}\n" for command in commands)


@pytest.mark.parametrize(("page", "least"), [(PAGE, 10), (PERMUTATION, 9)], ids=["layouts", "permutation"])
def test_every_example_prints_what_the_page_shows(page: Path, least: int):
    text = page.read_text(encoding="utf-8")
    assert len(BLOCK.findall(text)) > least
    wanted = BLOCK.sub(lambda m: rewrite(m[1]), text)
    if UPDATES:
        page.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, "an example is stale: UPDATE_GOLDEN=1 rewrites it"
    assert "internal error" not in text


def head_of(name: str) -> str:
    found: Any = getattr(layouts, name)
    module = getattr(found, "__module__", None) or getattr(found, "__name__", "tilegen.layouts.core.values")
    path = module.removeprefix("tilegen.layouts.")
    if name in ("AXES", "Axis"):
        return "Axes"
    if name in ("row_major", "column_major"):
        return "Kinds"
    if path.startswith("constructors.") or name in DATA:
        return "Hardware"
    if path == "core.values" and inspect.isfunction(found):
        return "Questions"
    return HEADS.get(path, "Kinds" if name == "Layout" else path)


def sentence_of(name: str) -> str:
    """The first sentence of a docstring, on one line of a table."""
    found: Any = getattr(layouts, name)
    if name in DATA:
        return DATA[name]
    if isinstance(found, dict):
        return "The named axes: {name: Axis}."
    if not (inspect.isfunction(found) or inspect.isclass(found) or inspect.ismodule(found)):
        return "Any of the kinds."
    paragraph = " ".join((inspect.getdoc(found) or "").split("\n\n")[0].split())
    first = re.match(r".*?\.(?= |$)", paragraph)
    return (first[0] if first else paragraph).replace("``", "`").replace("|", "\\|")


def print_names() -> str:
    heads: dict[str, list[str]] = {}
    for name in layouts.__all__:
        heads.setdefault(head_of(name), []).append(name)
    order = [*dict.fromkeys(("Axes", *HEADS.values(), "Hardware"))]
    lines = []
    for head in sorted(heads, key=lambda h: order.index(h) if h in order else len(order)):
        lines += [f"| {head} | |", "|---|---|", *(f"| `{n}` | {sentence_of(n)} |" for n in heads[head]), ""]
    return "\n".join(lines)


def test_the_page_of_names_lists_what_is_public():
    text = NAMES.read_text(encoding="utf-8")
    wanted = PART.sub(lambda m: f"{m[1]}\n{print_names()}\n{m[3]}", text)
    if UPDATES:
        NAMES.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, "the table of names is stale: UPDATE_GOLDEN=1 rewrites it"
    assert sorted(re.findall(r"^\| `(\w+)` \|", text, re.M)) == sorted(layouts.__all__)


@pytest.mark.parametrize("path", [PAGE, NAMES, PERMUTATION], ids=["layouts", "names", "permutation"])
def test_links_lead_somewhere(path: Path):
    for target in re.findall(r"\]\((?!http)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target
