"""Loads that are left out: what was read before is the same, but for a few CTAs."""

from __future__ import annotations

import pytest

import tilegen
from tests.proofs.test_few_ctas import refuses, takes_for
from tests.proofs.test_old_data import PAIRS, send_to_both
from tests.proofs.test_trips_of_few_ctas import HEAD
from tilegen.planner import plan_spec
from tilegen.proofs import prove

FEW = ["where(bx == 5, 1, 0)", "bx * bx % 11 // 9"]  # 1 in a CTA or two, elsewhere 0
TRIP = """      - copy: {src: "X[%s]", dst: "A[%s]"%s}
      - sync: cta
      - copy: {src: "A[%s]", dst: "Y[%s]"}
      - sync: cta
"""
TWICE = HEAD + TRIP.replace("      -", "  -") % ("bx*2", 0, "", 0, "bx*2") + TRIP.replace("      -", "  -")
TWO_LOOPS = (
    HEAD
    + "  - for: {t: 3}\n    do:\n"
    + TRIP % ("bx*6 + t", 0, "", 0, "bx*6 + t")
    + "  - for: {s: 3}\n    do:\n"
    + TRIP
)
NEST = HEAD + '  - for: {o: 3, t: "%s"}\n    do:\n' + TRIP
TURNED = HEAD + "  - for: {t: 6}\n    do:\n" + TRIP
LAST = (
    HEAD + '  - for: {t: "30 + %s"}\n    do:\n' + TRIP % ("%s", 0, "", 0, "bx*80 + t") + TRIP.replace("      -", "  -")
)


@pytest.mark.parametrize("few", FEW)
def test_a_second_load_of_what_most_ctas_have_is_not_left_out(few: str) -> None:
    row = f"bx*2 + {few}"
    assert not takes_for(TWICE % (row, 0, "", 0, "bx*2 + 1"), TWICE % (row, 0, ", when: bx < 0", 0, "bx*2 + 1"))


@pytest.mark.parametrize("few", FEW)
def test_the_first_load_of_a_second_loop_is_not_left_out(few: str) -> None:
    row = f"bx*6 + 2 + s + {few}"
    assert not takes_for(
        TWO_LOOPS % (row, 0, "", 0, "bx*6 + 3 + s"), TWO_LOOPS % (row, 0, ", when: s > 0", 0, "bx*6 + 3 + s")
    )


@pytest.mark.parametrize(("count", "row"), [
    ("3", "bx*6 + t + o*(2 + {few})"), ("4 + {few} * (1 - (o + 1) // 2)", "bx*80 + t + o*3"),
])  # fmt: skip
@pytest.mark.parametrize("few", FEW)
def test_the_first_load_of_a_pass_is_not_left_out(few: str, count: str, row: str) -> None:
    """The last one of the pass before is the same row, but in a few CTAs, or where that had a trip more."""
    given = count.format(few=few), row.format(few=few), 0
    own = 0, "bx*80 + o*10 + t"
    assert not takes_for(NEST % (*given, "", *own), NEST % (*given, ", when: t > 0 or o == 0", *own))


def test_a_load_of_what_lies_two_trips_back_is_not_left_out() -> None:
    """What a trip before and what an earlier trip read are compared with all others."""
    row = "bx*6 + where(t == 5, where(bx == 5, 4, 0), t)"
    slot = "where(t == 5, 0, where(t == 0, 0, 1))"
    assert not takes_for(
        TURNED % (row, slot, "", slot, "bx*6 + t"), TURNED % (row, slot, ", when: t < 5", slot, "bx*6 + t")
    )


@pytest.mark.sweep(2)
@pytest.mark.parametrize("base", ["", "bx*80 + ", "bx + "])
@pytest.mark.parametrize("few", FEW)
def test_a_load_of_what_the_last_of_many_trips_read_is_not_left_out(few: str, base: str) -> None:
    given = few, f"{base}t", f"{base}29", 0
    assert not takes_for(LAST % (*given, "", 0, "bx*80 + 70"), LAST % (*given, ", when: bx < 0", 0, "bx*80 + 70"))


@pytest.mark.parametrize("few", ["bx // 2 == 10", "(bx // 2) * (bx // 2) % 97 == 3"])
def test_what_the_other_cta_of_a_cluster_had_a_trip_before_is_told_apart(few: str) -> None:
    """The first CTA loads for both; the second takes its row of the trip before, which is another one in a cluster."""
    row = f"bx // 2 * 8 + where(bx % 2 == 0, t, where(t == 0, 0, where({few}, 5, 0)))"
    text = PAIRS % (40, 2, row, 4)
    text = text.replace("shape: [256]}", "shape: [2, 256]}").replace("dst: A,", 'dst: "A[t]",')
    meant, planned = (
        text.replace("src: A,", 'src: "A[t]",'),
        text.replace("src: A,", 'src: "A[where(cbx == 1, 0, t)]",'),
    )
    assert refuses(tilegen.load(meant), send_to_both(plan_spec(tilegen.load(planned))))


SIZED = """kernel: sized
threads: 64
params: {N: {default: 40, max: 5000}}
buffers:
  X: {scope: global, dtype: float32, shape: [64, 64]}
  Y: {scope: global, dtype: float32, shape: [2, 64]}
  A: {scope: shared, dtype: float32, shape: [64]}
ops:
  - copy: {src: "X[0]", dst: "A"}
  - sync: cta
  - copy: {src: "A", dst: "Y[0]"}
  - sync: cta
  - copy: {src: "X[%s]", dst: "A"%s}
  - sync: cta
  - copy: {src: "A", dst: "Y[1]"}
"""


@pytest.mark.sweep(2)
@pytest.mark.parametrize("row", ["N % 97 // 96", "where(N > 4321, 1, 0)", "N // 4321", "min(max(N, 4320) - 4320, 3)"])
def test_a_load_of_what_most_sizes_have_already_is_not_left_out(row: str) -> None:
    assert not takes_for(SIZED % (row, ""), SIZED % (row, ", when: N < 0"))


def test_a_row_of_which_no_rule_tells_at_which_size_it_is_another_leaves_a_note() -> None:
    row = "N * N % 1009 // 1000"
    meant, planned = (tilegen.load(SIZED % (row, when)) for when in ("", ", when: N < 0"))
    plan = plan_spec(planned)
    assert refuses(meant, plan) or any("1009" in note for note in prove(meant, plan).notes)
