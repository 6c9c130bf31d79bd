"""CTAs that touch elements twice in one way: a few trips tell them apart as all trips do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import tilegen
from tests.specs.kernels import SPECS
from tilegen.interpret.threads import Cta
from tilegen.planner import plan_spec
from tilegen.proofs import self_overlap
from tilegen.proofs.owned_boxes import touched_boxes
from tilegen.proofs.self_overlap import SelfOverlap
from tilegen.scopes import CTA_AXES

LOOPED = """kernel: looped
threads: 32
grid: {bx: 12}
buffers:
  X: {scope: global, dtype: float32, shape: [4096, 32]}
  Y: {scope: global, dtype: float32, shape: [12, 32]}
  A: {scope: shared, dtype: float32, shape: [4, 32]}
ops:
  - for: {s: 4}
    do:
      - copy: {src: "X[FIRST]", dst: "A[s]", variant: scalar}
  - for: {k: 200}
    do:
      - copy: {src: "X[THEN]", dst: "A[k % 4]", variant: scalar}
  - sync: cta
  - copy: {src: "A[0]", dst: "Y[bx]"}
"""
PLACES = [
    ("bx * 8 + s", "bx * 8 + k + 4"),  # the boxes of a loop go on behind those before it
    ("s", "k + 4"),
    ("bx * 16 + s", "k"),  # they pass by those before it, each CTA's elsewhere
    ("bx % 3 * 50 + s", "k + bx // 6"),
    ("500 + s", "k * 2 + bx"),
    ("(bx + s) * 20", "k // 2 + bx"),
    ("204 - s", "204 - k"),
]


def group(found: tuple[SelfOverlap, ...], looked_at: Mapping[str, Mapping[str, frozenset[int]]]) -> dict[str, object]:
    """Of each array the CTAs of each name, of those that were looked at; of an array that is touched once none."""
    groups: dict[str, object] = {}
    for one in found:
        known = looked_at.get(one.array, {})
        names: dict[bytes, list[Cta]] = {}
        for cta, name in one.names.items():
            if all(x in known[axis] for axis, x in zip(CTA_AXES, cta, strict=True) if axis in known):
                names.setdefault(name, []).append(cta)
        groups[one.array] = sorted(map(sorted, names.values()))
    return groups


def compare_with_all(source: str | Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tilegen.load(source)
    plan = plan_spec(spec)
    boxes = touched_boxes(spec)
    few = self_overlap._find_self_overlap(plan, boxes, ())
    monkeypatch.setattr(self_overlap, "_SOME_VALUES", 1 << 40)
    looked_at = {one.array: {axis: frozenset(t.values.tolist()) for axis, t in one.thinned.items()} for one in few}
    assert group(few, looked_at) == group(self_overlap._find_self_overlap(replace(plan), boxes, ()), looked_at)


@pytest.mark.parametrize(("first", "then"), PLACES)
def test_some_trips_tell_ctas_apart_as_all_do(first: str, then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_with_all(LOOPED.replace("FIRST", first).replace("THEN", then), monkeypatch)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_some_trips_of_every_spec_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_with_all(path, monkeypatch)
