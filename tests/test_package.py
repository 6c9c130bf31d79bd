"""What is installed: its licence, its metadata, and that CI tries the wheel outside of the checkout."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path

import yaml

import tilegen

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_licence_is_the_one_that_is_named() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert PROJECT["license-files"] == ["LICENSE"]
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert re.search(r"Apache License\s+Version 2\.0, January 2004", text)
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_classifiers_name_the_pythons_that_are_allowed() -> None:
    named = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", c)}
    least = re.fullmatch(r">=(3\.\d+)", PROJECT["requires-python"])
    assert least
    assert min(named, key=lambda version: int(version.split(".")[1])) == least[1]


def test_the_version_is_one() -> None:
    assert PROJECT["version"] == tilegen.__version__


def test_ci_tries_the_wheel() -> None:
    assert re.search(r"^\.ci/wheel\b", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.M)
    assert os.access(ROOT / ".ci" / "wheel", os.X_OK)


def test_security_says_what_the_committed_run_of_changed_specs_found() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    run = json.loads((ROOT / "docs" / "results" / "fuzz" / "specs.json").read_text(encoding="utf-8"))
    assert run["built"] + run["refused"] + run["exceptions"] == run["texts"]
    row = f"| {run['texts']} | {run['built']} | {run['refused']} | {run['exceptions']} | {run['over_10_s']}, both built"
    assert row in text and f"| {run['slowest_s']} s |" in text


def test_the_citation_has_the_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
