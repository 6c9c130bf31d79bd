"""Faults that only a CTA with more trips than its neighbours shows, or one in which other reads meet."""

from __future__ import annotations

import pytest

from tests.proofs.test_few_ctas import takes_for

# Threads copy whole rows, so that places keep their distance from the spec's regions.
HEAD = """kernel: few
threads: 64
grid: {bx: 12}
buffers:
  X: {scope: global, dtype: float32, shape: [1000, 256]}
  Y: {scope: global, dtype: float32, shape: [1000, 256], partial: true}
  A: {scope: shared, dtype: float32, shape: [2, 256]}
ops:
"""
LOOP = (
    HEAD
    + """  - for: {t: "%s"}
    do:
      - copy: {src: "X[bx*80 + %s]", dst: "A[t %% 2]"}
      - sync: cta
      - copy: {src: "A[%s]", dst: "Y[bx*80 + t]", when: "%s"}
      - sync: cta
"""
)
COUNTS = ["where(bx == 5, 40, 20 + bx)", "20 + bx + bx * bx % 11 // 9 * 20"]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("few", ["t == 33", "t > 33 and t < 36"])
@pytest.mark.parametrize("count", COUNTS)
def test_a_trip_that_one_cta_alone_gets_to_is_looked_at(count: str, few: str) -> None:
    """What goes wrong there depends on the trip alone: a slot, a condition, or a place."""
    right = ("t", "t % 2", "bx >= 0")
    meant = LOOP % (count, *right)
    for wrong in (("t", f"where({few}, (t + 1) % 2, t % 2)", "bx >= 0"), ("t", "t % 2", f"not ({few})"),
                  (f"t + where({few}, 1, 0)", *right[1:])):  # fmt: skip
        assert not takes_for(meant, LOOP % (count, *wrong))


@pytest.mark.parametrize("few", ["where(bx == 5, 1, 0)", "bx * bx % 11 // 9"])
def test_a_trip_more_that_the_spec_makes_in_a_cta_is_not_left_out(few: str) -> None:
    """The plan's loop of that name has as many trips in all."""
    nest = LOOP.replace('- for: {t: "%s"}', '- for: {o: 5, t: "%s"}').replace("Y[bx*80 + t]", "Y[bx*80 + o*7 + t]")
    rest = "o*7 + t", "t % 2", "bx >= 0"
    assert not takes_for(nest % (f"6 + {few}", *rest), nest % ("6", *rest))
