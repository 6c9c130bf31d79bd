"""A long loop proved by a few of its trips: whatever the full run finds, they find."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

import tilegen
from tests.faults.verdicts import proof_code
from tests.proofs.looped import COUNT, judged, print_counts
from tilegen.errors import ProofError
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.runs import list_runs

DOCS = Path(__file__).parents[2] / "docs" / "how-it-works.md"
LOOP = """kernel: looped
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [%(rows)d, 32]}
  Y: {scope: global, dtype: float32, shape: [%(rows)d, 32], partial: true}
  A: {scope: shared, dtype: float32, shape: [3, 32]}
ops:
  - for: {t: %(trips)s}
    do:
      - copy: {src: "X[t]", dst: "A[%(slot)s]"}
      - sync: cta
      - copy: {src: "A[%(slot)s]", dst: "Y[%(row)s]"%(more)s}
      - sync: cta
"""


def text(rows: int = 10_000, trips: str = "10000", slot: str = "t % 3", row: str = "t", more: str = "") -> str:
    return LOOP % {"rows": rows, "trips": trips, "slot": slot, "row": row, "more": more}


# ---------------------------------------------------------------- against the full run
@pytest.mark.slow
def test_no_fault_that_the_full_run_finds_is_missed() -> None:
    missed = [j for j in judged() if j.full and j.cut == ""]
    assert missed == []


@pytest.mark.slow
def test_no_right_kernel_is_refused() -> None:
    assert [j for j in judged() if not j.full and j.cut] == []


@pytest.mark.slow
def test_most_are_cut_and_many_faults_are_planted() -> None:
    right = [j for j in judged() if j.is_right]
    assert len(right) == COUNT and not any(j.full for j in right)
    assert sum(j.cut is not None for j in right) > 0.8 * COUNT  # all but the squares
    assert sum(bool(j.full) for j in judged()) > 0.5 * COUNT


@pytest.mark.slow
def test_the_figures_of_the_docs() -> None:
    text = DOCS.read_text(encoding="utf-8")
    counted = re.compile(r"(<!-- counted: trips -->\n).*?(<!-- end -->)", re.S)
    wanted = counted.sub(lambda m: f"{m[1]}{print_counts()}\n{m[2]}", text)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        DOCS.write_text(wanted, encoding="utf-8")
        text = wanted
    assert counted.search(text) and text == wanted, "`make golden` rewrites it"


# ---------------------------------------------------------------- what is cut, and what is not
def notes(source: str) -> tuple[str, ...]:
    return tilegen.build(source).proof.notes


def test_the_trips_that_ran_are_said() -> None:
    (note,) = notes(text())
    assert note == "of the loop over t, 7 of 10000 trips were run: in between, every 3 trips go as the last 3"


def test_a_loop_of_a_million_trips_takes_as_many_steps_as_one_of_a_hundred() -> None:
    steps = {n: tilegen.build(text(n, str(n))).proof.steps for n in (99, 999, 999_999)}
    assert steps[999] == steps[999_999] == steps[99]


@pytest.mark.parametrize(("change", "word"), [
    ({"more": ', when: "t * t % 5 < 3"'}, "follows no rule"),
    ({"slot": "t * t % 3"}, "follows no rule"),
    ({"row": "t * t % 40"}, "trips may write the same elements of Y"),
])  # fmt: skip
def test_what_no_rule_is_known_for_runs_in_full(change, word) -> None:
    spec = tilegen.load(text(trips="50", **change))
    (run,) = list_runs(spec, plan_spec(spec))
    assert not run.cut.trips.loops
    assert word in run.cut.uncut[0].what


@pytest.mark.slow
def test_a_run_in_full_beyond_the_budget_is_an_error() -> None:
    with pytest.raises(ProofError, match=r"TG426.*all trips of 't'.*follows no rule"):
        tilegen.build(text(1_000_000, "1000000", more=', when: "t * t % 5 < 3"'))


@pytest.mark.parametrize("change", [{"more": ', when: "t * t < 900"'}, {"row": "t * t % 9999"}])
def test_what_was_seen_in_all_trips_is_cut(change) -> None:
    """A condition that turns once, and places that go along with the spec in whatever order."""
    spec = tilegen.load(text(trips="50", **change))
    (run,) = list_runs(spec, plan_spec(spec))
    assert run.cut.trips.count("t", 50) < 20


def test_a_turn_in_the_middle_runs() -> None:
    source = text(more=', when: "t < 5000"')
    spec = tilegen.load(source)
    (run,) = list_runs(spec, plan_spec(spec))
    ran = [t for stretch in run.cut.trips.stretches("t", 10_000) for t in stretch]
    assert {0, 1, 4999, 5000, 9998, 9999} <= set(ran) and len(ran) < 80


def test_a_loop_that_a_parameter_bounds_runs_with_every_count_that_can_differ() -> None:
    source = text(trips="N").replace("threads: 32", "threads: 32\nparams: {N: {default: 1000, max: 10000}}")
    runs = tilegen.build(source).proof.runs
    counts = {dict(case)["N"] for case, _ in runs}
    assert counts == {*range(1, 7), 11, 1000}  # 10000 trips go as 1000 do


def test_parameters_of_the_lengths_that_are_tried_are_multiples() -> None:
    """With a large N the pitch must be large too: as large as can be, and still a multiple of 8."""
    source = (
        "kernel: multiples\nthreads: 64\ngrid: {bx: M // 4}\nparams:\n  M: {default: 8, multiple_of: 8, max: 100}\n"
        "  N: {default: 32, multiple_of: 32, max: 5000}\n  ld: {default: 40, multiple_of: 8, max: 6001}\nbuffers:\n"
        "  X: {scope: global, dtype: float32, shape: [M, N]}\n"
        '  Y: {scope: global, dtype: float32, shape: [M, N], layout: "S[(M,N):(ld,1)]"}\n'
        "ops:\n  - for: {j: N // 32}\n    do:\n"
        '      - copy: {src: "X[bx*4 : +4, j*32 : +32]", dst: "Y[bx*4 : +4, j*32 : +32]"}\n'
    )
    cases = [dict(case) for case, _ in tilegen.build(source).proof.runs]
    assert {"M": 96, "N": 64, "ld": 6000} in cases


def test_an_array_that_is_also_written_outside_of_the_loop_is_looked_at() -> None:
    """The place that is written again lies in the middle of the loop, by another thread and without a sync."""
    source = text(200, "200") + '  - copy: {src: "A[0, 0:1]", dst: "Y[100, 31:32]"}\n'
    spec = tilegen.load(source)
    (run,) = list_runs(spec, plan_spec(spec))
    assert "outside of the loop" in run.cut.uncut[0].what


def test_a_loop_whose_trips_differ_between_ctas_runs_near_the_end_of_each() -> None:
    source = text(10_000, "bx * 1000 + 40", row="bx * 1999 + t").replace("threads: 32", "threads: 32\ngrid: {bx: 4}")
    spec = tilegen.load(source)
    (run,) = list_runs(spec, plan_spec(spec))
    ran = {t for stretch in run.cut.trips.stretches("t", 3040) for t in stretch}
    assert {0, 1, 39, 40, 1039, 1040, 2039, 3038, 3039} <= ran and len(ran) < 100
    for own in (40, 1040, 2040):  # the reference, which may run a CTA by itself, takes the same
        assert {t for stretch in run.cut.trips.stretches("t", own) for t in stretch} == {t for t in ran if t < own}


def test_a_loop_whose_trips_an_outer_loop_says_runs_in_full() -> None:
    source = text(5000, "100").replace("- for: {t: 100}", "- for: {o: 2, t: o*50 + 40}").replace("X[t]", "X[o*90 + t]")
    spec = tilegen.load(source.replace('"Y[t]"', '"Y[o*90 + t]"'))
    (run,) = list_runs(spec, plan_spec(spec))
    assert not run.cut.trips.loops and "o * 50" in run.cut.uncut[0].what


def test_a_count_of_ctas_and_of_a_parameter_is_run_from_no_trip_on() -> None:
    source = text(10_000, '"min(N, bx*2 + 1)"', row="bx * 2999 + t").replace(
        "threads: 32", "threads: 32\nparams: {N: {default: 1000, max: 2000}}\ngrid: {bx: 3}")  # fmt: skip
    runs = tilegen.build(source).proof.runs
    assert {min(dict(case)["N"], 2 * bx + 1) for case, ctas in runs for bx, _, _ in ctas} == {1, 2, 3, 4, 5}


@pytest.mark.slow
def test_a_loop_as_long_as_one_around_it_says_is_refused_at_once() -> None:
    nested = (
        "kernel: nested\nthreads: 64\ngrid: {bx: 4}\nbuffers:\n  X: {scope: global, dtype: float32, shape: [4, 64]}\n"
        "  Y: {scope: global, dtype: float32, shape: [4, 64]}\nops:\n  - for: {k: 1000000}\n    do:\n"
        '      - for: {j: k}\n        do:\n          - copy: {src: "X[bx]", dst: "Y[bx]"}\n'
    )
    with pytest.raises(ProofError, match=r"^<text>:10:9: TG426: .* since it has k of them \(give it a length"):
        tilegen.build(nested)


def test_more_elements_in_one_cta_than_a_proof_has_room_for_are_refused_at_once() -> None:
    array = {"scope": "global", "dtype": "uint8", "shape": [100_000_000]}
    spec = {
        "kernel": "big",
        "threads": 1024,
        "buffers": {"X": array, "Y": array},
        "ops": [{"copy": {"src": "X", "dst": "Y"}}],
    }
    with pytest.raises(ProofError, match=r"TG426: .* 100000000 elements of X in 1 CTA, .*let more CTAs share"):
        tilegen.build(spec)


GROUPED = """kernel: grouped
threads: 32
grid: {bx: 12}
params: {N: {default: 96, max: 5000, multiple_of: 6}}
buffers:
  X: {scope: global, dtype: float32, shape: [N, 32]}
  Y: {scope: global, dtype: float32, shape: [N, 32]}
  A: {scope: shared, dtype: float32, shape: [5, 32]}
ops:
  - for: {t: [bx, N, 12]}
    do:
      - let: {rows: "max(min(4, N // 6 - t // 24 * 4), 1)"}
      - let: {row: (t // 24 * 4 + t %% 24 %% rows) * 6 + t %% 24 // rows}
      - copy: {src: "X[%s]", dst: "A[%s]"}
      - sync: cta
      - copy: {src: "A[t %% 5]", dst: "Y[row]"}
      - sync: cta
"""


@pytest.mark.slow
@pytest.mark.parametrize("places", [
    ("row", "where(t == 245, (t + 1) % 5, t % 5)"), ("row", "where(t == 2403, (t + 1) % 5, t % 5)"),
    ("row + where(t == 2403 and N == 4998, 1, 0)", "t % 5"),
])  # fmt: skip
def test_one_wrong_trip_of_an_order_without_a_rule_is_found_at_the_largest_size(places: tuple[str, str]) -> None:
    """With the default size it has 8 trips; how many lengths are tried is looked up at the largest."""
    spec, other = (tilegen.load(GROUPED % own) for own in (("row", "t % 5"), places))
    assert proof_code(lambda: prove(spec, plan_spec(other))) in ("TG414", "TG420")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_one_wrong_trip_of_one_cta_in_groups_is_found_at_every_size_that_is_tried(seed: int) -> None:
    """Of its row, its slot, or whether it is written; CTAs that do the same as others are left out before."""
    rng = random.Random(seed)
    spec = tilegen.load(GROUPED % ("row", "t % 5"))
    case = rng.choice(list_runs(spec, plan_spec(spec))).case["N"]
    wrong = f"t == {rng.randrange(case)} and N == {case}"
    places = [
        (f"where({wrong}, where(row == 0, 1, row - 1), row)", "t % 5"),
        ("row", f"where({wrong}, (t + 1) % 5, t % 5)"),
    ]
    faulty = [GROUPED % own for own in places]
    faulty.append((GROUPED % ("row", "t % 5")).replace('dst: "Y[row]"', f'dst: "Y[row]", when: not ({wrong})'))
    for text in faulty:
        assert proof_code(lambda text=text: prove(spec, plan_spec(tilegen.load(text)))), text


@pytest.mark.slow
def test_a_loop_in_an_order_without_a_rule_is_proved_with_few_lengths() -> None:
    spec = tilegen.load(GROUPED % ("row", "t % 5"))
    lengths = {run.case["N"] for run in list_runs(spec, plan_spec(spec)) if run.case["N"] < 4000}
    assert max(lengths) < 12 * 32
