"""Differences that a spec means to stop at 0: what is said of them, and where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.steps import change_steps, with_steps
from tilegen.errors import ProofError
from tilegen.pipeline import build, load
from tilegen.plan import Let
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.indices import say_clamp

SHARE = """kernel: share
params: {N: {default: 40, max: 1000}, K: {default: 640, multiple_of: 64, max: 4096}}
threads: 32
grid: {bx: N}
buffers:
  X: {scope: global, dtype: float32, shape: [K, 32]}
  Y: {scope: global, dtype: float32, shape: [N, 32]}
  r: {scope: register, dtype: float32, shape: [1, 32], layout: auto}
ops:
  - let: {kt: K // 64, u0: bx * (K // 64) // N, q: "bx * 2 // N"}
  - let: {begin: "max(u0, q * kt) - q"}
  - copy: {src: "X[begin // 2 : +1]", dst: r}
  - copy: {src: r, dst: "Y[bx : +1]"}
"""


def test_a_difference_that_was_clamped_too_early_has_a_line_and_a_fix() -> None:
    with pytest.raises(ProofError) as error:
        build(SHARE)
    (found,) = error.value.diagnostics
    assert found.code == "TG414" and found.mark is not None and found.mark.text.strip().startswith("- copy: {src:")
    assert found.hint == (
        "'max(u0, q * kt) - q' has no range: write 'max(max(u0, q * kt) - q, 0)', or put a 'when' around"
    )
    assert len(found.message) < 400


@pytest.mark.parametrize(("written", "clamped"), [
    ("max(u0, q * kt) - q * kt", "max(u0 - q * kt, 0)"),
    ("max(q * kt, u0) - q * kt", "max(u0 - q * kt, 0)"),
    ("max(u0, kt) - q * kt // 2", "max(max(u0, kt) - q * kt // 2, 0)"),
])  # fmt: skip
def test_the_fix_is_one_that_is_read(written: str, clamped: str) -> None:
    """What is proposed is 0 or more by itself."""
    hint = say_clamp(load(SHARE.replace("max(u0, q * kt) - q", written)))
    assert f"write '{clamped}'" in hint
    fixed = load(SHARE.replace("max(u0, q * kt) - q", clamped))
    assert say_clamp(fixed) == ""


def test_what_is_proposed_is_proved() -> None:
    built = build(SHARE.replace("max(u0, q * kt) - q", "max(u0 - q, 0)").replace("N: {default: 40", "N: {default: 8"))
    assert built.warnings == ()


def test_another_index_that_may_be_negative_keeps_its_fix() -> None:
    """Of a spec that clamps rightly elsewhere."""
    text = SHARE.replace("dst: r}", 'dst: r, when: "(q - u0) % 4 == 0"}').replace("begin // 2", "begin % 2")
    text = text.replace("max(u0, q * kt) - q", "max(u0, q) - q")
    with pytest.raises(ProofError) as error:
        build(text)
    assert any("condition around" in d.hint for d in error.value.diagnostics)


def test_a_claim_of_no_op_has_the_place_of_the_name() -> None:
    """A planted range: `begin` of the plan claims to stay below 1."""
    spec = load(SHARE.replace("max(u0, q * kt) - q", "max(u0 - q, 0)"))
    plan = plan_spec(spec)

    steps = change_steps(
        plan.roles[0].steps, lambda s: isinstance(s, Let) and s.var.name == "begin",
        lambda s: [replace(s, var=replace(s.var, bound=1))],
    )  # fmt: skip
    with pytest.raises(ProofError) as error:
        prove(spec, with_steps(plan, *steps))
    first = error.value.diagnostics[0]
    assert first.code == "TG416" and first.mark is not None and "begin:" in first.mark.text
