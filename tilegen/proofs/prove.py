"""All that is proved of a plan before it is rendered, and what the user reads of it."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.errors import Diagnostic, ProofError
from tilegen.plan import Plan
from tilegen.proofs.ctas import choose_ctas
from tilegen.proofs.finding import NO_OWNER, Finding
from tilegen.proofs.meaning import check_meaning, mark_of, parameter_cases
from tilegen.proofs.needless_syncs import find_needless_syncs
from tilegen.proofs.partition import check_partition
from tilegen.proofs.ranges import unproven_ranges
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of


@dataclass(frozen=True)
class Proof:
    """What was proved: the CTAs and parameters that ran in NumPy, and notes worth a reader's time."""

    runs: tuple[tuple[tuple[tuple[str, int], ...], tuple[tuple[int, int, int], ...]], ...]
    steps: int
    warnings: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()


def prove(spec: Spec, plan: Plan) -> Proof:
    """Ranges and partition over the whole grid, then the corner CTAs in NumPy against the spec's own meaning."""
    unproven = unproven_ranges(plan)
    errors = [_finding(spec, f) for f in unproven if f.severity == "error"]
    notes = [f.message for f in unproven if f.severity != "error"]
    runs = parameter_cases(spec)
    for f in check_partition(plan, dict(runs[0])):
        if f.severity == "error" or (spec.whole and f.code == NO_OWNER):  # a whole array is written whole
            errors.append(_finding(spec, f))
        else:
            notes.append(f.message)
    if errors:
        raise ProofError(errors)
    done, steps = [], 0
    for case in runs:
        ctas = choose_ctas(spec, launch_of(spec, case).grid, case)
        steps += check_meaning(spec, plan, ctas, case)
        done.append((tuple(case.items()), tuple(ctas)))
    return Proof(tuple(done), steps, needless_syncs(spec, plan, steps), tuple(notes))


def _finding(spec: Spec, finding: Finding) -> Diagnostic:
    return Diagnostic(finding.code, finding.message, mark_of(spec, finding.op))


def needless_syncs(spec: Spec, plan: Plan, steps: int) -> tuple[Diagnostic, ...]:
    """Warnings for syncs of the spec that order nothing: the CTAs that were proved are as right without them.

    The sync of an op on whole arrays is not the spec's own: nobody could take it out.
    """
    if spec.whole is not None:
        return ()
    runs = [(choose_ctas(spec, launch_of(spec, case).grid, case), case) for case in parameter_cases(spec)]

    def is_sound(without: Plan) -> bool:
        try:
            for ctas, case in runs:
                check_meaning(spec, without, ctas, case)
        except ProofError:
            return False
        return True

    return find_needless_syncs(spec, plan, steps, max(len(ctas) for ctas, _ in runs), is_sound)
