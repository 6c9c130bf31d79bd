"""The page's own model computes what Python computes: random layouts and accesses, in node and in Chromium."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.viewing.browser import VIEWER, Watched, needs_browser, needs_node, open_browser
from tests.viewing.cases import draw_cases
from tilegen.viewing import layout_page

COUNT = 1000
_ASK = """cases => ({
  layouts: cases.layouts.map(tilegen.answerLayout), accesses: cases.accesses.map(tilegen.answerAccess)
})"""


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    return draw_cases(COUNT)


def test_the_cases_are_of_every_kind(cases: dict[str, Any]) -> None:
    answers = [case["answer"] for case in cases["layouts"]]
    refused = sum("error" in answer for answer in answers)
    counted = sum(isinstance(p, dict) for answer in answers for p in answer.get("patterns", ()))
    copied = sum(any(len(copies) > 1 for copies in answer.get("places", ())) for answer in answers)
    assert len(answers) == len(cases["accesses"]) == COUNT
    assert 100 < refused < COUNT // 3 and counted > COUNT // 2 and copied > COUNT // 20
    for form in ("S[", "Swizzle(", "Sw<", "PaddedShared", "Blocked", "SwizzledShared", "NVMMAShared", "LinearLayout"):
        found = [case for case in cases["layouts"] if case["text"].startswith(form)]
        assert sum("error" not in case["answer"] for case in found) >= 5, form


@needs_node
def test_node(cases: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(cases), encoding="utf-8")
    done = subprocess.run(
        ["node", "--test", "tests/"], cwd=VIEWER, env={**os.environ, "TILEGEN_CASES": str(path)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert "# skipped 0" in done.stdout


@pytest.mark.slow
@needs_browser
def test_chromium(cases: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(layout_page(), encoding="utf-8")
    with open_browser() as browser:
        opened = Watched(browser, path)
        found = opened.page.evaluate(_ASK, cases)
        assert opened.said == []
    for kind in ("layouts", "accesses"):
        for case, answer in zip(cases[kind], found[kind], strict=True):
            assert answer == case["answer"], case
