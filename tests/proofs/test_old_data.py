"""Plans that take data of an earlier trip, or of another CTA of the cluster, for their own: right as long as both are
the same, and wrong in the few trips or CTAs in which they are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tilegen
from tests.faults.steps import is_a, mutate
from tests.proofs.test_few_ctas import FEW_TRIPS, refuses, takes_for
from tilegen.index import Var, equal, variables
from tilegen.plan import Peers, Plan, Repeat, Tma, When
from tilegen.planner import plan_spec

SLOTS = """kernel: slots
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [210, 128]}
  Y: {scope: global, dtype: float32, shape: [210, 128], partial: true}
  A: {scope: shared, dtype: float32, shape: [2, 128]}
ops:
  - for: {t: 200}
    do:
      - copy: {src: "X[%s]", dst: "A[t %% 2]"}
      - sync: cta
      - copy: {src: "A[%s]", dst: "Y[t]"}
      - sync: cta
"""
ROWS = [*(f"where({few}, 1, 0)" for few in FEW_TRIPS), "t // 40 % 4", "min(t // 40, 4 - t // 40)", "t // 50"]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("row", ROWS)
def test_the_slot_of_the_trip_before_is_found(row: str) -> None:
    """Each trip loads its row, and stores that of the one before."""
    assert takes_for(SLOTS % (row, "t % 2"), SLOTS % (row, "t % 2"))
    assert not takes_for(SLOTS % (row, "t % 2"), SLOTS % (row, "where(t == 0, 0, (t + 1) % 2)"))


RING = """kernel: ring
arch: sm_90a
roles:
  load: {threads: 32}
  move: {threads: 64}
barriers:
  full: {slots: 4}
  free: {slots: 4, open: true}
buffers:
  X: {scope: global, dtype: float32, shape: [40, 256]}
  Y: {scope: global, dtype: float32, shape: [200, 256]}
  s: {scope: shared, dtype: float32, shape: [4, 256]}
ops:
  - role: load
    do:
      - for: {t: 200}
        do:
          - wait: {barrier: "free[t %% 4]"}
          - copy: {src: "X[%s]", dst: "s[t %% 4]", variant: tma, barrier: "full[t %% 4]"}
  - role: move
    do:
      - for: {t: 200}
        do:
          - wait: {barrier: "full[t %% 4]"}
          - copy: {src: "s[%s]", dst: "Y[t]"}
          - sync: role
          - arrive: {barrier: "free[(t - 1) %% 4]", when: t > 0}
"""


@pytest.mark.sweep(1)
@pytest.mark.parametrize("row", ROWS)
def test_the_stage_of_the_trip_before_is_found(row: str) -> None:
    """Stages are freed a trip late, so nobody writes the one that is read too late."""
    assert not takes_for(RING % (row, "t % 4"), RING % (row, "where(t == 0, 0, (t + 3) % 4)"))


def test_a_load_of_the_first_trips_of_an_outer_loop_is_found() -> None:
    nested = (
        SLOTS.replace("- for: {t: 200}", "- for: {o: 2, t: 200}")
        .replace("Y[t]", "Y[o*200 + t]")
        .replace("[210,", "[410,")
    )
    nested = nested.replace('dst: "A[t %% 2]"', 'dst: "A[0]"%s').replace("A[%s]", "A[0]")
    row = "where(o * t * t == 10000, 1, 0)"
    assert not takes_for(nested % (row, ""), nested % (row, ", when: o == 0"))


def test_a_second_loop_that_loads_nothing_is_found() -> None:
    head, loop = SLOTS.replace("[210,", "[410,").split("  - for")
    loop = "  - for" + loop.replace("A[t %% 2]", "A[0]").replace("A[%s]", "A[0]")
    row = "where(t * t == 10000, 1, 0)"
    spec = tilegen.load(head + loop % row + loop.replace("Y[t]", "Y[200 + t]") % row)
    plan = plan_spec(spec)
    is_outer = [step for step in plan.roles[0].steps if isinstance(step, Repeat)].__contains__
    assert refuses(spec, mutate(plan, is_outer, lambda step: (replace(step, body=step.body[1:]),), 1))


def test_a_slot_that_was_loaded_long_ago_is_found() -> None:
    """Two rows are loaded at once, and the right one is taken in the first trip that needs it; not in the second."""
    row = "where(t * t == 10000, 1, where(t * t == 22500, 2, 0))"
    text = SLOTS.replace(
        '"X[%s]", dst: "A[t %% 2]"}', '"X[%s]", dst: "A[0]"%s}\n      - copy: {src: "X[1]", dst: "A[1]", when: t == 0}'
    )
    assert not takes_for(text % (row, "", "0"), text % (row, ", when: t == 0", "where(t * t == 10000, 1, 0)"))


# ---------------------------------------------------------------- of another CTA
FAR_APART = """kernel: far_apart
threads: 64
grid: {bx: 1000}
buffers:
  X: {scope: global, dtype: float32, shape: [4100, 256]}
  Y: {scope: global, dtype: float32, shape: [4100, 256], partial: true}
  A: {scope: shared, dtype: float32, shape: [256]}
ops:
  - for: {t: 4}
    do:
      - copy: {src: "X[%s]", dst: A%s}
      - sync: cta
      - copy: {src: A, dst: "Y[bx*4 + t]"}
      - sync: cta
"""


@pytest.mark.parametrize("step", ["where(bx * bx % 997 == 4 and bx > 2 and bx < 998, 1, 0)", "bx * bx % 1009 // 1000"])
def test_a_load_that_all_trips_share_is_found_in_the_few_of_many_ctas_that_need_their_own(step: str) -> None:
    row = f"bx*4 + t * ({step})"
    assert not takes_for(FAR_APART % (row, ""), FAR_APART % (row, ", when: t == 0"))


TWO_WARPS = """kernel: two_warps
threads: 64
grid: {bx: 960}
buffers:
  X: {scope: global, dtype: float32, shape: [1920, 128]}
  Y: {scope: global, dtype: float32, shape: [1920, 128], partial: true}
ops:
  - for: {t: 2}
    do:
      - copy: {scope: warp, src: "X[bx*2 + t]", dst: "Y[bx*2 + where(bx == 100 or bx == 103 or bx == 202, 0, t)]",
               when: warpid == t}
      - when: %s
        do:
          - sync: cta
"""


def test_a_race_of_ctas_that_are_rare_in_two_ways_is_found() -> None:
    """Few CTAs write a row twice, and one in seven has no sync: CTA 103 is both."""
    assert not takes_for(TWO_WARPS % "bx >= 0", TWO_WARPS % "bx % 7 != 5")


PAIRS = """kernel: pairs
arch: sm_90a
threads: 64
cluster: {cbx: 2}
grid: {bx: %d}
buffers:
  X: {scope: global, dtype: float32, shape: [400, 256]}
  Y: {scope: global, dtype: float32, shape: [400, 256], partial: true}
  A: {scope: shared, dtype: float32, shape: [256]}
barriers:
  full: {slots: 2}
ops:
  - sync: cluster
  - for: {t: %d}
    do:
      - copy: {src: "X[%s]", dst: A, variant: tma, barrier: "full[t %% 2]"}
      - wait: {barrier: "full[t %% 2]"}
      - copy: {src: A, dst: "Y[bx*%d + t]"}
      - sync: cluster
"""


def send_to_both(plan: Plan) -> Plan:
    """Rank 0 loads for both CTAs of the cluster."""

    first = equal(Var("cbx", 2), 0)
    return mutate(plan, is_a(Tma), lambda step: (When(first, (replace(step, peers=Peers(bits=3, first=0)),)),))


@pytest.mark.parametrize("few", ["bx // 2 == 40", "(bx // 2) * (bx // 2) % 97 == 50"])
def test_a_box_that_the_ranks_of_a_few_clusters_do_not_share_is_found(few: str) -> None:
    spec = tilegen.load(PAIRS % (200, 1, f"bx // 2 + where({few}, bx % 2, 0)", 1))
    assert refuses(spec, send_to_both(plan_spec(spec)))


def test_a_box_that_the_ranks_of_a_cluster_do_not_share_in_a_trip_is_found() -> None:
    spec = tilegen.load(PAIRS % (2, 200, "where(t * t == 10000 and cbx == 0, 1, 0)", 200))
    assert refuses(spec, send_to_both(plan_spec(spec)))


# ---------------------------------------------------------------- of elsewhere, or of nowhere
CUT = """kernel: cut
arch: sm_90a
threads: 64
%s
buffers:
  X: {scope: global, dtype: float32, shape: [210, 13, 32]}
  Y: {scope: global, dtype: float32, shape: [210, 8, 32], partial: true}
  A: {scope: shared, dtype: float32, shape: [8, 32]}
barriers:
  full: {slots: 2}
ops:
  - for: {t: %d}
    do:
      - copy: {src: "X[%s + 1, 8 : +8, :]", dst: A, variant: tma, barrier: "full[t %% 2]", edge: clip}
      - wait: {barrier: "full[t %% 2]"}
      - copy: {src: A, dst: "Y[%s]"}
      - sync: cta
"""


@pytest.mark.parametrize("axis", ["bx", "t"])
def test_a_box_that_lies_outside_where_it_was_cut_is_found(axis: str) -> None:
    """It begins at the same offset, a row before and 13 further on, where all of it is outside."""
    spec = tilegen.load(CUT % (("grid: {bx: 200}", 1, "bx", "bx") if axis == "bx" else ("", 200, "t", "t")))
    plan = plan_spec(spec)

    def change(step: Tma) -> tuple[Tma]:
        row, column, rest = step.at
        (v,) = (v for v in variables(row) if v.bound == 200)
        hit = equal(v * v % 211, 49)
        return (replace(step, at=(row - hit, column + hit * 13, rest)),)

    assert refuses(spec, mutate(plan, is_a(Tma), change))


SIZED = """kernel: sized
threads: 64
params: {N: {default: 8, max: 5000}}
grid: {bx: 12}
buffers:
  X: {scope: global, dtype: float32, shape: [N + 60, 256]}
  Y: {scope: global, dtype: float32, shape: [N + 60, 256], partial: true}
ops:
  - copy: {src: "X[%s]", dst: "Y[bx]"}
"""


@pytest.mark.parametrize("size", [
    "N == bx + 1000", "N == bx*500 + 1000", "bx + 1000 < N and N < bx + 1003", "N < bx*64 + 1500 and bx*64 + 1436 < N",
])  # fmt: skip
def test_a_size_that_is_compared_with_ctas_runs_where_it_turns(size: str) -> None:
    assert not takes_for(SIZED % "bx", SIZED % f"bx + where({size}, 1, 0)")
