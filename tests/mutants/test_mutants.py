"""A sample of the mutants of every spec, and the committed table of them."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import tilegen
from tests.faults.mutants import KINDS, plant, sample_mutants
from tests.mutants.judging import judge
from tests.mutants.table import (
    JUDGED_PROGRAMS,
    MOST_OF_LARGE,
    MOST_OF_PASS,
    OF_PASSES,
    PAGE,
    SIZES,
    SPECS,
    load_passes,
    load_spec,
)
from tests.session import once
from tilegen.plan import Fence, Sync, all_steps
from tilegen.planner import plan_spec

SAMPLE = 2  # of each spec; more of the kinds that are rare
SAMPLE_OF_LARGE = 1  # of those that take seconds a mutant

planned = once(load_spec)


@pytest.mark.sweep(2)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_a_sample_of_mutants_is_found(path):
    spec, plan = planned(path)
    mutants = list(plant(plan))
    pick = random.Random(path.stem)
    if path.stem in SIZES:
        sample = pick.sample(mutants, SAMPLE_OF_LARGE)
    else:
        sample = pick.sample(mutants, min(SAMPLE, len(mutants)))
        sample += [m for m in mutants if m.kind == "sync dropped" and m not in sample][:1]
    for mutant in sample:
        verdict = judge(spec, plan, mutant)
        assert not verdict.survives, f"{mutant.kind}: {mutant.where}"
        if not verdict.reason and mutant.kind != "sync dropped":
            assert verdict.found and verdict.run, f"{mutant.kind}: {mutant.where} is found only by {verdict}"


@pytest.mark.sweep(2)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("path", JUDGED_PROGRAMS, ids=lambda p: p.stem)
def test_a_mutant_of_each_pass_is_found(path):
    for spec, plan in load_passes(path):
        (mutant,) = random.Random(plan.name).sample(list(plant(plan)), 1)
        assert not judge(spec, plan, mutant).survives, f"{mutant.kind}: {mutant.where}"


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


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "float8_e4m3fn", "float16"])
@pytest.mark.parametrize("layout", ["row", "Swizzle(4,3,4) o S[(5,1024):(1024,1)]"])
def test_the_wrong_element_of_a_narrow_type_is_found(dtype, layout):
    """512 elements away, where one byte says the same again; in every CTA, or in one of three."""
    spec = tilegen.load(FAR.format(dtype=dtype, ctas=5, layout=layout))
    plan = plan_spec(spec)
    mutants = [m for m in plant(plan) if m.kind in ("half away", "one residue", "swizzle dropped")]
    assert {m.kind for m in mutants} >= {"half away", "one residue"}
    assert [m.where for m in mutants if judge(spec, plan, m).survives] == []


REDUCED = """kernel: reduced
threads: 128
grid: {{bx: 2}}
buffers:
  X: {{scope: global, dtype: float32, shape: [2, 512]}}
  Y: {{scope: global, dtype: float32, shape: [2, 512]}}
  x: {{scope: register, dtype: float32, shape: [1, 512], layout: auto}}
  one: {{scope: register, dtype: float32, shape: [1, 1], layout: auto}}
ops:
  - copy: {{src: "X[bx : +1]", dst: x}}
  - reduce: {{src: x, dst: one, axis: 1, op: {op}}}
  - elementwise: {{dst: "Y[bx : +1]", expr: "x - one"}}
"""


@pytest.mark.sweep(1)
@pytest.mark.parametrize("op", ["max", "min"])
def test_an_element_that_a_reduction_forgets_is_missed(op):
    """Though the largest is most often another."""
    spec = tilegen.load(REDUCED.format(op=op))
    plan = plan_spec(spec)
    kinds = {"register index", "step dropped", "trip dropped"}
    mutants = [m for m in plant(plan) if m.kind in kinds]
    assert {m.kind for m in mutants} == kinds
    assert [m.where for m in mutants if judge(spec, plan, m).survives] == []


def test_a_sample_has_every_kind_and_is_the_same_in_every_run():
    path = next(p for p in SPECS if p.stem == "copy_staged")
    mutants = list(plant(planned(path)[1]))
    kinds = {m.kind for m in mutants}
    for most in (1, len(kinds), 40, 10**6):
        sample = sample_mutants(path.stem, mutants, most)
        assert {m.kind for m in sample} == kinds and len(sample) == min(max(most, len(kinds)), len(mutants))
        assert [m.where for m in sample] == [m.where for m in sample_mutants(path.stem, list(mutants), most)]
    few = [m.where for m in sample_mutants(path.stem, mutants, len(kinds))]
    assert few != [m.where for m in sample_mutants("another", mutants, len(kinds))]


@pytest.mark.slow
def test_every_sync_and_address_is_planted_once():
    for path in SPECS:
        plan = planned(path)[1]
        mutants = list(plant(plan))
        steps = list(all_steps(plan))
        assert sum(m.kind == "sync dropped" for m in mutants) == sum(isinstance(s, (Sync, Fence)) for s in steps)
        assert len({m.where for m in mutants}) == len(mutants)
        assert all(m.plan != plan for m in mutants)


def list_cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line]


@pytest.mark.slow
def test_the_table_is_of_these_specs():
    """Its numbers follow the plans, which change; it is written anew when they drift apart."""
    rows, of_passes = (list_cells(text) for text in PAGE.read_text().split(OF_PASSES))
    totals = {r[0]: [int(n) for n in r[1:7]] for r in rows if len(r) == 8 and r[0] in (*KINDS, "all")}
    by_spec = {r[0]: [int(n) for n in r[1:7]] for r in rows if len(r) == 8 and r[1].isdigit() and r[0] not in totals}
    by_kind = {(r[0], r[1]): [int(n) for n in r[2:8]] for r in rows if len(r) == 9 and r[2].isdigit()}
    assert set(by_spec) == {p.stem for p in SPECS}, "python -m tests.mutants.table"
    for column in range(6):
        for parts in (by_spec.values(), by_kind.values()):
            assert sum(part[column] for part in parts) == totals["all"][column]
    for name, (planted, judged, *_) in by_spec.items():
        assert judged == (min(planted, MOST_OF_LARGE) if name in SIZES else planted)
    assert all(judged for _, judged, *_ in by_kind.values())
    planted, judged, found, _, equivalent, surviving = totals["all"]
    assert surviving == 0 and judged == found + equivalent and judged >= 5000
    now = Counter((p.stem, m.kind) for p in SPECS for m in plant(planned(p)[1]))
    assert set(now) == set(by_kind), "python -m tests.mutants.table"
    assert abs(now.total() - planted) <= planted // 10, "the plans have changed: python -m tests.mutants.table"
    by_pass = {row[0]: [int(n) for n in row[1:7]] for row in of_passes if row[1].isdigit()}
    *_, equivalent, surviving = total = by_pass.pop("all")
    names = {plan.name for path in JUDGED_PROGRAMS for _, plan in load_passes(path)}
    assert set(by_pass) == names and surviving == 0, "python -m tests.mutants.table"
    assert all(row[1] >= min(row[0], MOST_OF_PASS) for row in by_pass.values())
    assert [sum(column) for column in zip(*by_pass.values(), strict=True)] == total and equivalent < total[1] // 2
