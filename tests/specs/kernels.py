"""Every spec of specs/, built once: what the tests of this folder run over. A new spec needs no line of test code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.session import once
from tilegen.arch import ARCHES
from tilegen.pipeline import Built, Source, build, describe_build, load
from tilegen.plan import Plan
from tilegen.planner import plan_spec
from tilegen.render import render
from tilegen.spec.data import Spec

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs").glob("*.yaml"))
every_spec = pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)


@once
def build_spec(path: Path) -> Built:
    """The proved kernel of a spec, for its own arch."""
    return build(path)


@dataclass(frozen=True)
class Draft:
    """A kernel whose proofs were not made: for what the text alone tells."""

    spec: Spec
    plan: Plan
    source: str


def draft(source: Source, arch: str | None = None, params: dict[str, int | float] | None = None) -> Draft:
    """What ``build`` would print. Where it is the text of a proved kernel, nothing is left to prove."""
    spec = load(source, arch, params)
    plan = plan_spec(spec)
    return Draft(spec, plan, render(plan, Path(spec.path).name if spec.path else ""))


@once
def draft_spec(path: Path, arch: str) -> Draft:
    """The text of a spec for another arch."""
    return draft(path, arch)


def build_again(source: Source, proved: Built) -> Built:
    """``build``, where the plan is that of a proved kernel: it is not proved twice."""
    again = draft(source)
    if again.plan.roles != proved.plan.roles:
        return build(source)
    manifest = describe_build(again.spec, again.plan, again.source, proved.proof)
    return Built(again.source, manifest, again.plan, again.spec, proved.proof)


def needs(path: Path, arch: str) -> bool:
    """Whether a spec is for a later generation than ``arch``: it uses what that has not."""
    return ARCHES[build_spec(path).spec.arch].compute_capability > ARCHES[arch].compute_capability
