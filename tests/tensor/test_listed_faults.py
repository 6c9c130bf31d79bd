"""The 33 faults that kernels for Blackwell are tried with: which stand in plans or specs, which in texts alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import tilegen
from tests.faults.parts import change_parts
from tests.faults.verdicts import proof_code
from tests.ptx.blackwell_faults import FAULTS
from tests.tensor.test_mistakes import RIGHT
from tilegen.index import div, mul
from tilegen.plan import TensorMma
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.spec.data import Spec

TESTS = Path(__file__).parents[1]
LISTED = set(range(1, 34))
OF_TEXTS = {  # what no plan can say, and why
    28: "the text gives columns back behind the last meeting of all threads",
    29: "the text gives columns back behind the last meeting of the cluster",
    31: "the text's number is made of the atom", 33: "a plan has one place for both CTAs",
}  # fmt: skip


def _exchange_offsets(x: TensorMma) -> TensorMma:
    lies = x.b_lies
    return replace(x, b_lies=replace(lies, leading_bytes=lies.stride_bytes, stride_bytes=lies.leading_bytes))


def _step_in_bytes(x: TensorMma) -> TensorMma:
    return replace(x, a=replace(x.a, at=tuple(mul(at, 2) for at in x.a.at)))


def _step_by_half(x: TensorMma) -> TensorMma:
    return replace(x, a=replace(x.a, at=tuple(div(at, 2) for at in x.a.at)))


DESCRIBED: dict[str, tuple[Callable[[TensorMma], TensorMma], str]] = {
    "22 offsets exchanged": (_exchange_offsets, "TG420"), "23 a step along K in bytes": (_step_in_bytes, "TG414"),
    "23 half a step along K": (_step_by_half, "TG420"),
}  # fmt: skip


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_product_that_reads_elsewhere_is_found(name: str) -> None:
    turn, code = DESCRIBED[name]
    spec = tilegen.load(RIGHT)
    assert isinstance(spec, Spec)
    plan = plan_spec(spec)
    wrong = change_parts(plan, lambda x: turn(x) if isinstance(x, TensorMma) else None)
    assert proof_code(lambda: prove(spec, plan)) == "" and proof_code(lambda: prove(spec, wrong)) == code


def test_every_listed_fault_is_planted() -> None:
    """In tables of tests a fault's name begins with its number; the machine of PTX tries all."""
    texts = [
        path.read_text(encoding="utf-8") for part in ("interpret", "tensor") for path in (TESTS / part).glob("*.py")
    ]
    named = re.compile(r'"(\d{1,2}) (?!bytes|columns|lanes|or |to )[a-z]')
    numbers = {int(found) for text in texts for found in named.findall(text)}
    assert numbers & LISTED == LISTED - OF_TEXTS.keys()
    assert {fault.number for fault in FAULTS} - {0} == LISTED and all(fault.said for fault in FAULTS if fault.number)
