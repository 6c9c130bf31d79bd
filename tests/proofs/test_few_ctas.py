"""Plans whose trips are those of the spec in most CTAs, or at most sizes, not in a few, which have to be found."""

from __future__ import annotations

from typing import Any

import pytest

import tilegen
from tests.faults.steps import mutate
from tests.faults.verdicts import proof_code
from tilegen.index import Var, equal, less
from tilegen.plan import Arrive, Plan, Step, When
from tilegen.planner import plan_spec
from tilegen.proofs import prove

HEAD = """kernel: few
threads: 64
grid: {bx: 12}
buffers:
  X: {scope: global, dtype: float32, shape: [80, 64]}
  Y: {scope: global, dtype: float32, shape: [80, 64], partial: true}
  A: {scope: shared, dtype: float32, shape: [4, 64]}
ops:
"""
THROUGH_SLOTS = """  - for: {%s: 4}
    do:
      - copy: {src: "X[%s]", dst: "A[%s]"}
  - sync: cta
  - for: {u: 4}
    do:
      - copy: {src: "A[u]", dst: "Y[bx*4 + u]"}
"""
EACH_TRIP = """  - for: {t: 4}
    do:
      - copy: {src: "X[%s]", dst: "A[0]"%s}
      - sync: cta
      - copy: {src: "A[0]", dst: "Y[%s]"%s}
      - sync: cta
"""
LONG = """kernel: looped
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [210, 32]}
  Y: {scope: global, dtype: float32, shape: [210, 32], partial: true}
  A: {scope: shared, dtype: float32, shape: [3, 32]}
ops:
  - for: {t: 200}
    do:
      - copy: {src: "X[%s]", dst: "A[t %% 3]"%s}
      - sync: cta
      - copy: {src: "A[t %% 3]", dst: "Y[%s]"}
      - sync: cta
"""
IN_PLACE = """kernel: in_place
threads: 64
grid: {bx: 12}
buffers:
  X: {scope: global, dtype: float32, shape: [60, 64], partial: true}
  kept: {scope: register, dtype: float32, shape: [32], layout: auto}
ops:
  - for: {t: 4}
    do:
      - copy: {scope: warp, src: "X[bx*4 + where(%(few)s, 0, t), (warpid+t) %% 2*32 : +32]", dst: kept}
      - elementwise: {scope: warp, dst: kept, expr: kept * 2}
      - copy: {scope: warp, src: kept, dst: "X[bx*4 + where(%(few)s, 0, t), (warpid+t) %% 2*32 : +32]"}
%(sync)s"""
FEW = ["bx == 5", "bx % 5 == 3", "bx * bx % 11 == 4"]
OF_TWO = " + where(t % 2 == 0, 1, 0) - where(t % 2 == 1, 1, 0)"  # trips 1, 0, 3, 2


def refuses(spec: Any, plan: Plan) -> bool:
    """Whether the proof finds that the plan is not that of the spec; the spec's own plan is proved."""
    assert proof_code(lambda: prove(spec, plan_spec(spec))) == ""
    return proof_code(lambda: prove(spec, plan)) != ""


def takes_for(meant: str, planned: str) -> bool:
    """Whether the plan of one text passes for another's."""
    return not refuses(tilegen.load(meant), plan_spec(tilegen.load(planned)))


@pytest.mark.parametrize("few", FEW)
def test_trips_in_another_order_than_the_spec_are_found(few: str) -> None:
    """A trip that another one of the plan makes up for in most CTAs."""
    turned = f"bx*4 + where({few}, 3 - t, t)"
    assert not takes_for(
        HEAD + THROUGH_SLOTS % ("t", turned, "t"), HEAD + THROUGH_SLOTS % ("t", turned + OF_TWO, "t" + OF_TWO)
    )


@pytest.mark.parametrize("few", FEW)
def test_a_loop_of_another_name_is_compared(few: str) -> None:
    row = f"bx*4 + t + where({few} and t == 1, 1, 0) - where({few} and t == 2, 1, 0)"
    assert not takes_for(HEAD + THROUGH_SLOTS % ("t", row, "t"), HEAD + THROUGH_SLOTS % ("s", "bx*4 + s", "s"))


@pytest.mark.parametrize("few", FEW)
def test_a_load_that_all_trips_share_is_found_where_a_few_ctas_need_their_own(few: str) -> None:
    row = f"bx*4 + where({few}, t, 0)"
    assert not takes_for(
        HEAD + EACH_TRIP % (row, "", "bx*4 + t", ""), HEAD + EACH_TRIP % (row, ", when: t == 0", "bx*4 + t", "")
    )


@pytest.mark.parametrize("few", FEW)
def test_a_store_of_the_last_trip_alone_is_found_where_a_few_ctas_store_in_each(few: str) -> None:
    row = f"bx*4 + where({few}, t, 0)"
    assert not takes_for(
        HEAD + EACH_TRIP % ("bx*4 + t", "", row, ""), HEAD + EACH_TRIP % ("bx*4 + t", "", row, ", when: t == 3")
    )


@pytest.mark.parametrize("few", FEW)
def test_a_row_that_a_few_ctas_change_again_needs_its_sync(few: str) -> None:
    meant = IN_PLACE % {"few": few, "sync": "      - sync: cta\n"}
    assert not takes_for(meant, IN_PLACE % {"few": few, "sync": ""})


@pytest.mark.parametrize(("loads", "is_right"), [
    ("t == 0 or (bx*4 + t) % 7 == 0", True), ("t == 0 or (bx*4 + t) % 7 == 0 and bx % 7 != 5", False),
])  # fmt: skip
def test_rows_that_several_trips_share_are_loaded_as_often_as_they_change(loads: str, is_right: bool) -> None:
    text = HEAD + EACH_TRIP.replace('%s]", dst: "A', '(bx*4 + t) // 7]", dst: "A', 1)
    assert takes_for(text % ("", "bx*4 + t", ""), text % (f', when: "{loads}"', "bx*4 + t", "")) == is_right


FEW_TRIPS = ["t >= 90 and t < 110", "t * t % 211 == 49", "t * t == 10000", "t * t % 151 == 16"]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("few", FEW_TRIPS)
def test_a_load_that_all_trips_share_is_found_where_a_few_trips_need_their_own(few: str) -> None:
    """Loaded in the first trip, or before the loop."""
    row = f"where({few}, 1, 0)"
    one_slot = LONG.replace("t %% 3", "0")
    meant = one_slot % (row, "", "t")
    assert not takes_for(meant, one_slot % (row, ", when: t == 0", "t"))
    before, load = one_slot.split("  - for")[0], '  - copy: {src: "X[0]", dst: "A[0]"}\n'
    loop = one_slot.split("    do:\n")[1].split("\n", 1)[1] % "t"
    assert not takes_for(meant, before + load + "  - for: {t: 200}\n    do:\n" + loop)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("shared", ["t == 0 or warpid == 0", "warpid == 1 and t == 0 or warpid == 0 and t % 2 == 0"])
@pytest.mark.parametrize("few", FEW_TRIPS)
def test_a_warp_that_shares_its_load_is_found_where_a_few_trips_need_their_own(few: str, shared: str) -> None:
    halves = LONG.replace("threads: 32", "threads: 64").replace("[210, 32]", "[210, 64]").replace("[3, 32]", "[3, 64]")
    by_warps = 'copy: {scope: warp, src: "X[%s, warpid*32 : +32]", dst: "A[0, warpid*32 : +32]"'
    halves = halves.replace('copy: {src: "X[%s]", dst: "A[t %% 3]"', by_warps).replace("A[t %% 3]", "A[0]")
    row = f"where({few}, 1, 0)"
    assert not takes_for(halves % (row, "", "t"), halves % (row, f', when: "{shared}"', "t"))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("few", FEW_TRIPS)
def test_a_half_that_is_loaded_before_a_loop_is_found_where_a_few_trips_need_their_own(few: str) -> None:
    row = f"where({few}, 1, 0)"
    one_slot = LONG.replace("t %% 3", "0").replace('"X[%s]", dst: "A[0]"', '"X[%s, :%s]", dst: "A[0, :%s]"')
    before, loop = one_slot.split("  - for")
    load = '  - copy: {src: "X[0, 16:]", dst: "A[0, 16:]"}\n'
    assert not takes_for(
        one_slot % (row, "32", "32", "", "t"), before + load + "  - for" + loop % (row, "16", "16", "", "t")
    )


def test_trips_of_a_long_loop_in_another_order_are_found() -> None:
    row = "where(t == 100, 101, where(t == 101, 100, t))"
    assert not takes_for(LONG % (row, "", "t"), LONG % (row + OF_TWO, "", "t" + OF_TWO))


@pytest.mark.parametrize("few", ["N % 7 == 5", "N == 27"])
def test_a_load_that_all_trips_share_is_found_at_the_sizes_that_need_more(few: str) -> None:
    head = HEAD.replace("threads: 64", "threads: 64\nparams: {N: {default: 8, max: 5000}}").replace(
        "[80, 64]", "[N + 60, 64]"
    )
    row = f"bx*4 + where({few}, t, 0)"
    assert not takes_for(
        head + EACH_TRIP % (row, "", "bx*4 + t", ""), head + EACH_TRIP % (row, ", when: t == 0", "bx*4 + t", "")
    )


CLUSTERS = """kernel: pairs
arch: sm_90a
threads: 64
cluster: {cbx: 2}
grid: {bx: 24}
buffers:
  X: {scope: global, dtype: float32, shape: [24, 64]}
  Y: {scope: global, dtype: float32, shape: [24, 64]}
barriers:
  full: {slots: 1}
ops:
  - sync: cluster
  - arrive: {barrier: full, scope: cta, to: cbx}
  - wait: {barrier: full}
  - copy: {src: "X[bx]", dst: "Y[bx]"}
  - sync: cluster
"""


def test_an_arrival_that_one_of_many_clusters_leaves_out_is_found() -> None:
    """The first CTA leaves it out in clusters 3 and 4, the second makes it twice in 4: alone, each does what some other
    CTA does, too; only cluster 3 waits for ever."""
    cluster, rank = Var("bx", 24) // 2, Var("cbx", 2)
    leaves_out = less((1 - rank) + equal(cluster, 3) + equal(cluster, 4), 2)
    makes_again = less(1, rank + equal(cluster, 4))

    def arrives(step: Step) -> bool:
        return isinstance(step, When) and isinstance(step.body[0], Arrive)

    spec = tilegen.load(CLUSTERS)
    wrong = mutate(plan_spec(spec), arrives, lambda step: (When(leaves_out, (step,)), When(makes_again, (step,))))
    assert refuses(spec, wrong)
