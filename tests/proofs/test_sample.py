"""CTAs, trips and sizes drawn at random: the same for the same spec, and right or wrong as the plan is."""

from __future__ import annotations

import pytest

import tilegen
from tests.proofs.test_few_ctas import HEAD
from tilegen.errors import ProofError
from tilegen.planner import plan_spec
from tilegen.proofs.runs import check_run, draw_sample

ROWS = (
    HEAD.replace("{bx: 12}", "{bx: 64}")
    + """  - copy: {src: "X[bx]", dst: "A[0]"}
  - sync: cta
  - copy: {src: "A[0]", dst: "Y[%s]"}
"""
)
SIZES = """kernel: sizes
threads: 32
params: {N: {default: 64, max: 100000}}
grid: {bx: "ceil(N / 32)"}
buffers:
  X: {scope: global, dtype: float32, shape: [N]}
  Y: {scope: global, dtype: float32, shape: [N]}
ops:
  - copy: {src: "X[bx*32 : +32]", dst: "Y[bx*32 : +32]", edge: clip}
"""


def test_a_comment_draws_the_same_sample() -> None:
    specs = [tilegen.load(text) for text in (SIZES, "# more is said here\n" + SIZES)]
    first, second = (draw_sample(spec, plan_spec(spec), ()) for spec in specs)
    assert first is not None
    assert second is not None
    assert (first.case, first.ctas) == (second.case, second.ctas)
    assert first.case["N"] != 64


def test_a_sample_finds_what_is_wrong_in_every_cta() -> None:
    meant, planned = (tilegen.load(ROWS.replace("80,", "130,") % row) for row in ("bx", "bx + 1"))
    run = draw_sample(meant, plan_spec(planned), ())
    assert run is not None
    with pytest.raises(ProofError):
        check_run(meant, plan_spec(planned), run)


def test_what_ran_already_is_not_drawn() -> None:
    spec = tilegen.load(ROWS.replace("64}", "1}").replace("80,", "130,") % "bx")
    plan = plan_spec(spec)
    run = draw_sample(spec, plan, ())
    assert run is not None
    assert draw_sample(spec, plan, [run]) is None


def test_a_build_names_its_sample() -> None:
    proof = tilegen.build(SIZES).manifest["proof"]
    assert [*proof["sample"][0]["params"]] == ["N"]
