"""What other implementations answered: the cases of tests/data (its README says whose they are)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[1] / "data"


@cache
def load_document(file: str) -> dict[str, Any]:
    return dict(json.loads((DATA / file).read_text(encoding="utf-8")))


def load_cases(file: str) -> list[dict[str, Any]]:
    return list(load_document(file)["cases"])


def parameters(cases: Iterable[dict[str, Any]]) -> list[Any]:
    """The cases as pytest parameters; none at all is an error, for pytest would skip the test."""
    found = [pytest.param(c, id=c.get("id", str(k))) for k, c in enumerate(cases)]
    assert found, "no cases"
    return found


def select(file: str, kind: str) -> list[Any]:
    """The cases of a kind as pytest parameters."""
    return parameters(c for c in load_cases(file) if c["kind"] == kind)
