"""CTAs of different sizes that run at once do what those of each size do alone; and a fault of one size shows."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.faults.mutants import plant, sample_mutants
from tilegen.errors import ProofError
from tilegen.index.recurrences import ALL_TRIPS
from tilegen.interpret import SizedCtas, interpret, interpret_sizes, may_join_sizes
from tilegen.pipeline import load
from tilegen.plan import Plan
from tilegen.planner import plan_spec
from tilegen.proofs.joined_runs import check_runs, share_out
from tilegen.proofs.meaning import proving_domain, proving_inputs
from tilegen.proofs.runs import ProofRun, check_run, list_runs
from tilegen.spec.data import Spec

SPECS = Path(__file__).parents[2] / "specs"
NAMES = ("column_sum", "gemm_f32", "quantize_rows", "softmax_short_rows", "swiglu")
MUTANTS = 10


@cache
def planned(name: str) -> tuple[Spec, Plan, tuple[ProofRun, ...]]:
    spec = load(SPECS / f"{name}.yaml")
    assert isinstance(spec, Spec)
    plan = plan_spec(spec)
    return spec, plan, tuple(run for run in list_runs(spec, plan) if run.cut.trips == ALL_TRIPS)


@pytest.mark.parametrize("name", NAMES)
def test_outcomes_and_steps_are_those_of_each_size_alone(name: str) -> None:
    spec, plan, runs = planned(name)
    assert len(runs) > 2 and may_join_sizes(plan)
    (inputs,), domain = proving_inputs(spec, plan, runs[0].case), proving_domain(spec)
    joined = interpret_sizes(plan, [SizedCtas(run.ctas, run.case) for run in runs], inputs, domain)
    for run, got in zip(runs, joined, strict=True):
        want = interpret(plan, run.ctas, inputs, run.case, domain=domain)
        assert (got.ctas, got.steps, sorted(got.written)) == (want.ctas, want.steps, sorted(want.written))
        for array, (at, values) in want.written.items():
            assert np.array_equal(got.written[array][0], at)
            assert np.array_equal(got.written[array][1], values)
            assert np.array_equal(got.writers[array], want.writers[array])


@pytest.mark.parametrize("name", NAMES)
def test_of_a_wrong_plan_the_first_run_that_is_wrong_says_what(name: str) -> None:
    spec, plan, runs = planned(name)
    for mutant in sample_mutants(name, [*plant(plan)], MUTANTS):
        assert say(spec, mutant.plan, runs, at_once=True) == say(spec, mutant.plan, runs, at_once=False), mutant


def say(spec: Spec, plan: Plan, runs: tuple[ProofRun, ...], at_once: bool) -> object:
    try:
        return check_runs(spec, plan, runs) if at_once else [check_run(spec, plan, run) for run in runs]
    except ProofError as error:
        return str(error)


def test_runs_are_shared_out_in_order_and_none_is_left_out() -> None:
    _, plan, runs = planned("softmax_short_rows")
    for processes in (1, 2, 5):
        assert tuple(run for part in share_out(plan, runs, processes) for run in part) == runs
