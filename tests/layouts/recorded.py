"""Recorded answers of other implementations, where they are: TILEGEN_ORACLES, default ../shared/data."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("TILEGEN_ORACLES", REPOSITORY.parent / "shared" / "data"))


@cache
def load_cases(file: str) -> tuple[dict[str, Any], ...]:
    """The cases of one file, none when it is absent."""
    path = FOLDER / file
    if not path.exists():
        return ()
    document = json.loads(path.read_text())
    lists = [v for v in document.values() if isinstance(v, list)]
    return tuple(case for cases in lists for case in cases)


def select(file: str, kind: str) -> list[Any]:
    """The cases of a kind as pytest parameters; one skipped parameter when there are none."""
    cases = [c for c in load_cases(file) if c["kind"] == kind]
    if cases:
        return [pytest.param(c, id=c["id"]) for c in cases]
    return [pytest.param(None, marks=pytest.mark.skip(reason=f"no {kind} cases: {FOLDER / file} is not there"))]
