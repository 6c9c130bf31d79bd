"""A sample of the mutants of every spec, and the committed table of all of them."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import Any

import pytest

import tilegen
from tests.mutants.plant import KINDS, judge, plant
from tests.mutants.table import PAGE, SPECS
from tilegen.plan import Plan, Sync, all_steps
from tilegen.planner import plan_spec
from tilegen.spec.data import Spec

SAMPLE = 3  # of each spec; more of the kinds that are rare


@cache
def planned(path: Any) -> tuple[Spec, Plan]:
    spec = tilegen.load(path)
    return spec, plan_spec(spec)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_a_sample_of_mutants_is_found(path):
    spec, plan = planned(path)
    mutants = list(plant(plan))
    pick = random.Random(path.stem)
    sample = pick.sample(mutants, min(SAMPLE, len(mutants)))
    sample += [m for m in mutants if m.kind == "sync dropped" and m not in sample][:1]
    for mutant in sample:
        verdict = judge(spec, plan, mutant)
        assert not verdict.survives, f"{mutant.kind}: {mutant.where}"
        if not verdict.reason and mutant.kind != "sync dropped":
            assert verdict.found and verdict.run, f"{mutant.kind}: {mutant.where} is found only by {verdict}"


FAR = """kernel: far
threads: 64
grid: {{bx: {ctas}}}
buffers:
  X: {{scope: global, dtype: {dtype}, shape: [{ctas}, 1024]}}
  Y: {{scope: global, dtype: {dtype}, shape: [{ctas}, 1024], layout: "{layout}"}}
  t: {{scope: shared, dtype: {dtype}, shape: [1024], layout: auto}}
ops:
  - copy: {{src: "X[bx]", dst: t}}
  - sync: cta
  - copy: {{src: t, dst: "Y[bx]"}}
"""


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "float8_e4m3fn", "float16"])
@pytest.mark.parametrize("layout", ["row", "Swizzle(4,3,4) o S[(5,1024):(1024,1)]"])
def test_the_wrong_element_of_a_narrow_type_is_found(dtype, layout):
    """512 elements away, where one byte says the same again; in every CTA, or in one of three."""
    spec = tilegen.load(FAR.format(dtype=dtype, ctas=5, layout=layout))
    plan = plan_spec(spec)
    mutants = [m for m in plant(plan) if m.kind in ("half away", "one residue", "swizzle dropped")]
    assert {m.kind for m in mutants} >= {"half away", "one residue"}
    assert [m.where for m in mutants if judge(spec, plan, m).survives] == []


def test_every_sync_and_address_is_planted_once():
    for path in SPECS:
        plan = planned(path)[1]
        mutants = list(plant(plan))
        steps = list(all_steps(plan))
        assert sum(m.kind == "sync dropped" for m in mutants) == sum(isinstance(s, Sync) for s in steps)
        assert len({m.where for m in mutants}) == len(mutants)
        assert all(m.plan != plan for m in mutants)


def test_the_table_is_of_these_specs():
    """Its numbers follow the plans, which change; it is written anew when they drift apart."""
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in PAGE.read_text().splitlines() if "|" in line]
    by_spec = [r for r in rows if len(r) == 8 and r[2].isdigit()]
    totals = {r[0]: r for r in rows if len(r) == 7 and r[1].isdigit()}
    assert {r[0] for r in by_spec} == {p.stem for p in SPECS}, "python -m tests.mutants.table"
    assert set(totals) <= {*KINDS, "all"}
    for column in range(1, 6):
        assert sum(int(r[column + 1]) for r in by_spec) == int(totals["all"][column])
    planted, found, _, equivalent, surviving = map(int, totals["all"][1:6])
    assert surviving == 0 and planted == found + equivalent and planted >= 500
    now = Counter(m.kind for p in SPECS for m in plant(planned(p)[1]))
    assert set(now) <= set(totals), "python -m tests.mutants.table"
    assert abs(now.total() - planted) <= planted // 10, "the plans have changed: python -m tests.mutants.table"
