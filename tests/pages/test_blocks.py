"""Every block of code on every page runs somewhere in the tests, or is a piece of a spec that they build."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tests.pages.reference import SPEC_PAGE, whole_specs
from tilegen.cli import cli

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
# Who runs the blocks of a page, by their language; pieces of YAML are looked for in specs.
RUNNERS = {
    ("README", "pycon"): "tests/test_docs.py",
    ("README", "sh"): "tests/test_docs.py",
    ("access-model", "pycon"): "tests/test_access.py",
    ("calling", "python"): "tests/test_calling_docs.py",
    ("calling", "cpp"): "tests/test_calling_docs.py",
    ("cli", "toml"): "tests/pages/test_blocks.py",
    ("gemm", "python"): "tests/test_calling_docs.py",
    ("layouts", "console"): "tests/test_layout_docs.py",
    ("layouts", "yaml"): "tests/spec/test_tensor_memory.py",
    ("passes", "cpp"): "tests/programs/test_page.py",
    ("passes", "yaml"): "tests/programs/test_page.py",
    ("permutation", "console"): "tests/test_layout_docs.py",
    ("ptx", "sh"): "tests/ptx/test_specs.py",
    ("torch", "python"): "tests/gpu/test_gpu_torch.py",
    ("torch", "yaml"): "tests/operators/page.py",
    ("tuning", "sh"): "tests/tuning/test_engine.py",
    ("tutorial", "console"): "tests/pages/test_tutorial.py",
    ("tutorial", "diff"): "tests/pages/test_tutorial.py",
    ("tutorial", "python"): "tests/pages/test_tutorial.py",
    ("tutorial", "yaml"): "tests/pages/test_tutorial.py",
    ("tutorial", "sh"): ".ci/wheel",
    ("spec", "yaml"): "tests/pages/test_reference.py",
    ("viewer", "sh"): "tests/viewing/test_pictures.py",
    ("viewer", "python"): "tests/viewing/test_pictures.py",
}
# Blocks that are neither code nor commands: sums, and pictures of how things follow one another.
PICTURES = {"text"}


def written_by_hand(page: Path) -> str:
    """A page without the parts that the product prints."""
    return re.sub(r"<!-- generated.*?<!-- end -->", "", page.read_text(encoding="utf-8"), flags=re.S)


def fences(page: Path) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w*)\n(.*?)^```$", written_by_hand(page), re.S | re.M)


@every_page
def test_every_block_is_run(page: Path) -> None:
    for language, body in fences(page):
        runner = RUNNERS.get((page.stem, language))
        if runner:
            named = (ROOT / runner).read_text(encoding="utf-8")
            assert page.name in named or page.stem in named or "SPEC_PAGE" in named, runner
        elif language == "yaml":
            assert list(pieces(body)), body
            for piece in pieces(body):
                assert piece in all_pieces(), f"no spec that is built has {piece}"
        else:
            assert language in PICTURES, f"nobody runs this {language or 'block'}:\n{body}"


@every_page
def test_code_stands_in_fences(page: Path) -> None:
    """An indented block would be overlooked here."""
    text = re.sub(r"^```.*?^```$", "", written_by_hand(page), flags=re.S | re.M)
    for block in re.findall(r"(?:^|\n)\n((?: {4}[^\n]*\n)+)", text):
        assert re.match(r" *(\*|[0-9]+\.) ", block), f"put it between fences:\n{block}"


def pieces(text: str) -> Iterator[str]:
    """The statements, or the entries of a mapping, that a piece of YAML says; as text that can be compared."""
    found = yaml.safe_load(text)
    for key, value in found.items() if isinstance(found, dict) else ():
        yield from pieces_of_entry(str(key), value)
    for statement in found if isinstance(found, list) else ():
        yield repr(statement)


def pieces_of_entry(key: str, value: Any) -> Iterator[str]:
    if key in ("ops", "do"):
        yield from map(repr, value)
    else:
        yield f"{key}: {value!r}"


@cache
def all_pieces() -> frozenset[str]:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "specs").glob("*.yaml")]
    found: set[str] = set()
    for text in (*texts, *whole_specs(SPEC_PAGE)):
        found.update(walk(yaml.safe_load(text)))
    return frozenset(found)


def walk(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield f"{key}: {value!r}"
            yield from walk(value)
    elif isinstance(node, list):
        for one in node:
            yield repr(one)
            yield from walk(one)


# ---------------------------------------------------------------- commands that a sentence names
COMMAND = re.compile(r"`tilegen ([^`]+)`|^\$ tilegen (.*)$", re.M)


@every_page
def test_commands_in_sentences_exist(page: Path) -> None:
    for match in COMMAND.finditer(page.read_text(encoding="utf-8")):
        check_command((match[1] or match[2]).replace("\n", " "))


def check_command(line: str) -> None:
    """The command and each of its options are there; files that are named by a path are too."""
    name, *words = re.split(r"\s+", line.partition(" > ")[0].strip())
    if name.startswith("-") or name == "COMMAND":
        return
    assert name in cli.commands, line
    known = {option for parameter in cli.commands[name].params for option in parameter.opts} | {"--help", "-h"}
    for word in words:
        option = word.split("=")[0].rstrip(",.")
        if re.match(r"--?[a-z]", option):
            assert option in known, f"tilegen {line}: {option}"
        if word.startswith("specs/"):
            assert [*ROOT.glob(word)], line


def test_a_command_that_is_none_is_seen() -> None:
    for line in ("bild SPEC", "build --outptu x", "explain specs/nothing.yaml"):
        with pytest.raises(AssertionError):
            check_command(line)
    assert isinstance(cli, click.Group) and shlex.split("a b") == ["a", "b"]


def test_the_configuration_of_the_page_is_one(tmp_path: Path) -> None:
    from tilegen.cli.configuration import KEYS, read_configuration

    (example,) = [body for language, body in fences(ROOT / "docs" / "cli.md") if language == "toml"]
    (tmp_path / "pyproject.toml").write_text(example, encoding="utf-8")
    assert set(read_configuration(tmp_path)) == set(KEYS)


# ---------------------------------------------------------------- links
def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", text):
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found), f"{target}#{anchor}"


def test_the_index_lists_every_page() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "index.md").read_text(encoding="utf-8")))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}


def test_the_cookbook_lists_every_spec() -> None:
    listed = re.findall(r"\]\(\.\./specs/(\w+)\.yaml\) \|", (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "specs").glob("*.yaml"))
