"""docs/tutorial.md, followed from its first line to its last."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.pages.consoles import Command, follow_page, rewrite_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "meaning", raising=False)  # the page's own, and no other test's
    text = PAGE.read_text(encoding="utf-8")
    commands = list(follow_page(text, tmp_path))
    if os.environ.get("UPDATE_GOLDEN") == "1":
        PAGE.write_text(rewrite_page(text, commands), encoding="utf-8")
    for command in commands:
        assert command.agrees, f"$ {command.line}\n{command.printed}\n--- the page has\n{command.said}"
    assert {"init", "explain", "build", "verify"} <= {command.line.split()[1] for command in commands}


def test_what_the_page_shows_of_files_is_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of the spec that `tilegen init` writes, which nobody is asked to save."""
    start = (ROOT / "tilegen" / "templates" / "start" / "transpose.yaml").read_text(encoding="utf-8")
    shown = re.findall(r"(?<!-->\n)^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    assert len(shown) == 2
    for piece in shown:
        assert piece in start


def test_ci_installs_as_the_page_says() -> None:
    assert "<!-- run by .ci/wheel -->\n```sh\n" in PAGE.read_text(encoding="utf-8")
    assert "docs/tutorial.md" in (ROOT / ".ci" / "wheel").read_text(encoding="utf-8")


def test_a_page_that_is_stale_is_seen_and_rewritten() -> None:
    stale = Command("tilegen x", "one\n...\ntwo 4 five\n...\n", "zero\none\nand\ntwo 5 five\nend\n")
    assert not stale.agrees
    assert (
        rewrite_page("$ tilegen x\none\n...\ntwo 4 five\n...\n", [stale]) == "$ tilegen x\none\n...\ntwo 5 five\n...\n"
    )
    assert Command("", "...\none\n...\ntwo ... five\n...\n", stale.printed).agrees
    assert not Command("", "one\n", "one\ntwo\n").agrees
