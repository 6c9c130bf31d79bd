"""What ptxas said of changed kernels becomes warnings at the ops of their specs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilegen.errors import Diagnostic
from tilegen.gpu.cubins import read_losses, read_ptxas_log
from tilegen.pipeline import load, note_losses
from tilegen.planner import plan_spec
from tilegen.spec.data import Spec
from tilegen.spec.program import Program

ROOT = Path(__file__).parents[1]
CASES = json.loads((ROOT / "tests" / "data" / "ptxas_losses.json").read_text(encoding="utf-8"))["cases"]
READ, WRITTEN = "an accumulator is read in flight", "an accumulator is written in flight"
PRODUCT = ("mma", "touch what a product adds to behind its wait alone")
# Of each change: the code, the word of the spec that is underlined, and how the hint begins; () where all is well.
EXPECTED: dict[tuple[str, str], tuple[str, str, str] | tuple[()]] = {
    ("hgemm_roles", READ): ("C7514", *PRODUCT),
    ("hgemm_roles", WRITTEN): ("C7515", *PRODUCT),
    ("hgemm_roles", "products in a function of their own"): ("C7510", *PRODUCT),
    ("hgemm_roles", "no launch bounds"): ("C7508", "math", "give the role more 'registers'"),
    ("hgemm_roles", "too few registers for a role"): ("C7507", "math", "give the role more 'registers'"),
    ("hgemm_roles", "as it is"): (),
    ("attention_backward_dkdv", READ): ("C7515", *PRODUCT),
    ("layernorm_backward_rows", "bounds for twice as many CTAs"): ("ptxas keeps 232 bytes", "reduce", "let a thread"),
}  # fmt: skip


def find_kernel(case: dict[str, Any]) -> Spec:
    """The spec of a kernel, of one with passes that of the pass."""
    spec = load(ROOT / "specs" / f"{case['spec']}.yaml")
    if isinstance(spec, Program):
        return next(one.spec for one in spec.passes if f"{case['spec']}_{one.name}" == case["kernel"])
    return spec


def note(case: dict[str, Any]) -> tuple[Diagnostic, ...]:
    spec, log = find_kernel(case), case["log"]
    found = read_ptxas_log(log, case["kernel"])
    spilled = found["spill_store_bytes"] + found["spill_load_bytes"]
    return note_losses(spec, plan_spec(spec), read_losses(log), spilled, found["registers"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kernel']}-{case['what']}-{case['compiler']}")
def test_a_loss_has_the_place_of_its_op(case: dict[str, Any]) -> None:
    losses, expected = note(case), EXPECTED[case["kernel"], case["what"]]
    assert len(losses) == bool(expected)
    for loss in losses:
        code, word, hint = expected
        mark = loss.mark
        assert mark is not None and mark.path.endswith(f"{case['spec']}.yaml")
        assert mark.text[mark.column - 1 :].startswith(word) and mark.length == len(word)
        assert (loss.code, loss.severity) == ("TG493", "warning")
        assert loss.message.startswith(f"{case['kernel']}: ") and code in loss.message and loss.hint.startswith(hint)
        assert "in line" not in loss.message, "of PTX that nobody has"


def test_of_several_products_all_are_named() -> None:
    case = next(case for case in CASES if case["kernel"] == "attention_backward_dkdv")
    (loss,) = note(case)
    lines = (ROOT / "specs" / "attention_backward.yaml").read_text(encoding="utf-8").splitlines()
    begun = next(n for n, line in enumerate(lines) if "- name: dkdv" in line)
    ended = next(n for n, line in enumerate(lines) if "- name: dq" in line)
    numbers = [n + 1 for n in range(begun, ended) if "- mma:" in lines[n]]
    assert f"one of the products at {', '.join(f'line {n}' for n in numbers)}, which" in loss.message
    assert len(numbers) == 4


def test_a_spill_is_shown_at_the_op_that_holds_the_most() -> None:
    spec = load(ROOT / "specs" / "hgemm_roles.yaml")
    (loss,) = note_losses(spec, plan_spec(spec), (), 8, 168)
    assert loss.message.startswith("hgemm_roles: ptxas keeps 8 bytes of a thread in memory instead of in 168 registers")
    assert loss.mark is not None and "acc" in loss.mark.text
