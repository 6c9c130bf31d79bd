"""Loops that are long only with several parameters at once, and plans that go wrong in a late trip of such a loop."""

from __future__ import annotations

import pytest

import tilegen
from tests.faults.steps import drop, is_a, mutate
from tests.faults.verdicts import proof_code
from tilegen.plan import Sync
from tilegen.planner import plan_spec
from tilegen.proofs import prove

# Trip k reads what four warps wrote five trips before. With the defaults, with the least values and with the largest
# there are two trips at most; so there are where one parameter is another of these.
LATE = """
kernel: late
arch: sm_80
threads: 128
params: {A: {default: 2, max: 4096}, B: {default: 1, max: 4096}, E: {default: 1, max: 4096}, D: {default: 2, max: 32}%s}
buffers:
  X: {scope: global, dtype: float32, shape: [128]}
  Y: {scope: global, dtype: float32, shape: [128]}
  s: {scope: shared, dtype: float32, shape: [40, 128]}
ops:
  - fill: {dst: s, value: 1}
  - sync: cta
  - for: {k: "%s"}
    do:
      - let: {o: (warpid + 1) %% 4}
      - elementwise: {scope: warp, dst: "s[k + 5, warpid*32 : +32]", expr: "a + 1", with: {a: "s[k, o*32 : +32]"}}
      - sync: cta
  - sync: cta
  - copy: {src: X, dst: "s[0]"}
  - sync: cta
  - elementwise: {dst: Y, expr: "a + b", with: {a: "s[36]", b: "s[0]"}}
"""
COUNTS = {
    "min(A // (B * E), D)": "",
    "min(min(A // (B * E), D), G * 2)": ", G: {default: 1, max: 64}",
    "max(min(A // B, D) - E + 1, 0)": "",
    "min(A // (B * E), D * G)": ", G: {default: 1, max: 1}",
}


@pytest.mark.parametrize("count", COUNTS)
def test_a_trip_that_several_parameters_make_is_looked_at(count: str) -> None:
    spec = tilegen.load(LATE % (COUNTS[count], count))
    plan = plan_spec(spec)
    prove(spec, plan)
    wrong = mutate(plan, is_a(Sync), drop, nth=1)  # of a trip
    assert proof_code(lambda: prove(spec, wrong)) == "TG403"
