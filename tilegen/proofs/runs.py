"""The runs in NumPy that prove a plan: for each case of the parameters its CTAs, and the trips of their loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.errors import ProofError
from tilegen.index.courses import ALL_TRIPS, Trips
from tilegen.interpret import Unsteady, corners
from tilegen.interpret.threads import Cta
from tilegen.plan import Plan
from tilegen.proofs.ctas import choose_ctas, drop_alike
from tilegen.proofs.edges import edge_cases
from tilegen.proofs.meaning import check_meaning, parameter_cases
from tilegen.proofs.questions import list_questions
from tilegen.proofs.trips import Cut, choose_trips, is_affordable, too_long, trip_cases
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of


@dataclass(frozen=True)
class ProofRun:
    """Values of the runtime parameters, the CTAs that run with them, and which trips of their loops do."""

    case: Mapping[str, int]
    ctas: tuple[Cta, ...]
    cut: Cut


def list_runs(spec: Spec, plan: Plan) -> tuple[ProofRun, ...]:
    """Every run that the proof of a plan consists of: no CTA does what another did in a run before."""
    asked = list_questions(spec, plan)
    usual = [(case, choose_ctas(spec, asked, launch_of(spec, case).grid, case)) for case in parameter_cases(spec)]
    default, ctas = usual[0]
    known = [case for case, _ in usual]
    more = [case for case in trip_cases(spec, plan, ctas, default) if case not in known]
    wanted = usual + [(case, choose_ctas(spec, asked, launch_of(spec, case).grid, case)) for case in more]
    edges = [case for case in edge_cases(spec, asked, default) if case not in [*known, *more]]
    wanted += [(case, corners(launch_of(spec, case).grid)) for case in edges]
    left = drop_alike(plan, asked, wanted, len(usual))
    return tuple(
        ProofRun(case, tuple(own), choose_trips(spec, plan, own, case))
        for (case, _), own in zip(wanted, left, strict=True) if own
    )  # fmt: skip


def check_run(spec: Spec, plan: Plan, run: ProofRun, seed: int = 1) -> tuple[int, Trips]:
    """Carry out a run and compare it with the spec's meaning: the steps that it took, and the trips that ran.

    What is wrong with a few trips is looked at again with all of them, if that takes no more than a minute or so.
    Raises ProofError for what is wrong, and for a kernel that takes too many steps (TG426).
    """
    trips = run.cut.trips
    if not is_affordable(spec, plan, run.ctas, run.case, trips):
        raise ProofError(too_long(spec, plan, run.ctas, run.case, run.cut))
    try:
        return check_meaning(spec, plan, run.ctas, run.case, seed, trips), trips
    except Unsteady:
        if not is_affordable(spec, plan, run.ctas, run.case, ALL_TRIPS):
            raise ProofError(too_long(spec, plan, run.ctas, run.case, Cut())) from None
    except ProofError:
        if trips == ALL_TRIPS or not is_affordable(spec, plan, run.ctas, run.case, ALL_TRIPS):
            raise
    return check_meaning(spec, plan, run.ctas, run.case, seed), ALL_TRIPS
