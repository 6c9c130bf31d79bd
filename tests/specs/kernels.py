"""Every spec of specs/, built once: what the tests of this folder run over. A new spec needs no line of test code."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tilegen.arch import ARCHES
from tilegen.pipeline import Built, build

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs").glob("*.yaml"))
every_spec = pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)


@cache
def build_spec(path: Path, arch: str | None = None) -> Built:
    """The proved kernel of a spec, for its own arch or another."""
    return build(path, arch)


def needs(path: Path, arch: str) -> bool:
    """Whether a spec is for a later generation than ``arch``: it uses what that has not."""
    return ARCHES[build_spec(path).spec.arch].compute_capability > ARCHES[arch].compute_capability
