"""What a spec means, and what its plan does, is the same however it is worked out: products at once or late, CTAs
together or alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.verdicts import refusal_of
from tilegen import load
from tilegen.arithmetic.modular import Modular
from tilegen.interpret import FaultFound, corners, interpret
from tilegen.interpret.fault import UNWRITTEN
from tilegen.plan import Plan
from tilegen.planner import plan_spec
from tilegen.proofs.meaning import proving_domain, proving_inputs
from tilegen.reference import run_reference
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of

SPECS = Path(__file__).parents[1] / "specs"
PERSISTENT = """
kernel: products
arch: sm_80
grid: {bx: 3}
threads: 32
buffers:
  A: {scope: global, dtype: float16, shape: [96, 64]}
  B: {scope: global, dtype: float16, shape: [64, 16]}
  D: {scope: global, dtype: float32, shape: [96, 16]}
  a: {scope: register, dtype: float16, shape: [16, 16], layout: auto}
  b: {scope: register, dtype: float16, shape: [16, 16], layout: auto}
  sums: {scope: register, dtype: float32, shape: [16, 16], layout: auto}
ops:
  - for: {t: [bx, 6, 3]}
    do:
      - let: {row: t * 16}
      - fill: {dst: sums, value: 0}
      - for: {k: 4}
        do:
          - copy: {src: "A[row : +16, k*16 : +16]", dst: a}
          - copy: {src: "B[k*16 : +16]", dst: b}
          - mma: {a: a, b: b, c: sums, atom: mma.m16n8k16.f32.f16.f16.f32, accumulate: k != 2}
      - copy: {src: sums, dst: "D[row : +16]"}
"""


def mean(spec: Spec, plan: Plan, ctas: list[tuple[int, int, int]]) -> dict[str, tuple[Any, Any]]:
    (inputs,) = proving_inputs(spec, plan, {})
    return run_reference(spec, ctas, inputs, {}, domain=proving_domain(spec))


def are_equal(one: dict[str, tuple[Any, Any]], other: dict[str, tuple[Any, Any]]) -> bool:
    each = (np.array_equal(a, b) for name in one for a, b in zip(one[name], other[name], strict=True))
    return one.keys() == other.keys() and all(each)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The depth of every product of matrices that is made."""
    depths: list[int] = []
    multiply = Modular.matmul

    def matmul(self: Modular, a: Any, *others: Any) -> Any:
        depths.append(a.shape[-1])
        return multiply(self, a, *others)

    monkeypatch.setattr(Modular, "matmul", matmul)
    yield depths


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sgemm_step1", "hgemm_step4", "mma_tile", "PERSISTENT"])
def test_products_that_are_made_late(name: str, monkeypatch: pytest.MonkeyPatch, counted: list[int]) -> None:
    spec = load(PERSISTENT if name == "PERSISTENT" else str(SPECS / f"{name}.yaml"))
    plan, ctas = plan_spec(spec), corners(launch_of(spec).grid)[:2]
    late = mean(spec, plan, ctas)
    few, total = len(counted), sum(counted)
    monkeypatch.setattr(Modular, "adds_freely", False)
    counted.clear()
    assert are_equal(late, mean(spec, plan, ctas)) and late
    assert sum(counted) == total and few <= len(counted)
    assert few < len(counted) or name == "mma_tile"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemm_mma", "hgemm_step4", "PERSISTENT"])
def test_fragments_that_are_summed_late(name: str, monkeypatch: pytest.MonkeyPatch, counted: list[int]) -> None:
    spec = load(PERSISTENT if name == "PERSISTENT" else str(SPECS / f"{name}.yaml"))
    plan, ctas, domain = plan_spec(spec), corners(launch_of(spec).grid)[:2], proving_domain(spec)
    (inputs,) = proving_inputs(spec, plan, {})
    late = interpret(plan, ctas, inputs, domain=domain)
    few = len(counted)
    monkeypatch.setattr(Modular, "adds_freely", False)
    counted.clear()
    once = interpret(plan, ctas, inputs, domain=domain)
    assert are_equal(dict(late.written), dict(once.written)) and late.steps == once.steps
    assert 0 < few < len(counted)


def test_an_accumulator_that_nothing_wrote() -> None:
    text = PERSISTENT.replace("      - fill: {dst: sums, value: 0}\n", "").replace(", accumulate: k != 2", "")
    spec = load(text)
    plan = plan_spec(spec)
    (inputs,) = proving_inputs(spec, plan, {})
    found = refusal_of(FaultFound, interpret, plan, [(0, 0, 0)], inputs, domain=proving_domain(spec))
    assert found.fault.code == UNWRITTEN


def test_what_is_owed_counts_where_it_is_begun_anew(counted: list[int]) -> None:
    """Of four products the third leaves nothing of the first two: it is made at once, and the fourth on top of it."""
    spec = load(PERSISTENT)
    mean(spec, plan_spec(spec), [(0, 0, 0)])
    assert counted == [32, 16, 16] * 2


def test_ctas_that_begin_elsewhere_run_together(counted: list[int]) -> None:
    spec = load(PERSISTENT)
    plan, ctas = plan_spec(spec), corners(launch_of(spec).grid)
    together = mean(spec, plan, ctas)
    products = len(counted)
    alone = [mean(spec, plan, [cta]) for cta in ctas]
    assert len(counted) - products == products * len(ctas)
    at, values = (np.concatenate([one["D"][part] for one in alone]) for part in (0, 1))
    order = np.argsort(at)
    assert are_equal(together, {"D": (at[order], values[order])})
