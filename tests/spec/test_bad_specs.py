"""A broken spec gives exactly the text beside it. UPDATE_GOLDEN=1 writes the texts anew: read the difference."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.verdicts import refusal_of
from tilegen.errors import SpecError, format_error
from tilegen.pipeline import load
from tilegen.spec.rules import RULES

ROOT = Path(__file__).parents[2]
BAD = sorted((ROOT / "tests" / "bad_specs").glob("*.yaml"))


@pytest.mark.sweep(176)
@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_a_broken_spec_says_what_is_wrong(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    caught = refusal_of(SpecError, load, path.relative_to(ROOT).as_posix())
    golden = path.with_suffix(".txt")
    printed = format_error(caught) + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        golden.write_text(printed, encoding="utf-8")
    assert printed == golden.read_text(encoding="utf-8")
    assert {d.code for d in caught.diagnostics} <= set(RULES)


def test_every_code_of_the_loader_has_a_broken_spec() -> None:
    printed = "".join(path.with_suffix(".txt").read_text(encoding="utf-8") for path in BAD)
    needs_another_way = {"TG001", "TG012"}  # a file that is not there, a dict
    warns = {code for code, rule in RULES.items() if rule.explanation.endswith("A warning.")}
    codes = {code for code in RULES if code < "TG3"} - needs_another_way - warns
    assert {code for code in codes if f"[{code}]" not in printed} == set()


def test_no_golden_is_left_over() -> None:
    names = {path.stem for path in BAD}
    assert {path.stem for path in (ROOT / "tests" / "bad_specs").glob("*.txt")} == names
