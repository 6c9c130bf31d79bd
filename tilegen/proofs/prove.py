"""All that is proved of a plan before it is rendered, and what the user reads of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilegen.errors import Diagnostic, ProofError
from tilegen.plan import Plan
from tilegen.proofs.finding import NO_OWNER, Finding
from tilegen.proofs.meaning import mark_of, parameter_cases
from tilegen.proofs.needless_syncs import find_needless_syncs
from tilegen.proofs.partition import check_partition, find_unowned
from tilegen.proofs.ranges import unproven_ranges
from tilegen.proofs.runs import ProofRun, check_run, list_runs
from tilegen.proofs.trips import describe_trips
from tilegen.spec.data import Spec


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
    for case in parameter_cases(spec):
        for f in check_partition(plan, case):
            if f.code == NO_OWNER and not _may_be_partial(spec, plan, f.memory):
                errors.append(_unowned(spec, plan, f, case))
            elif f.severity == "error":
                errors.append(_finding(spec, f))
            else:
                notes.append(f.message)
        if errors:
            break
    if errors:
        raise ProofError(errors)
    runs, steps = list_runs(spec, plan), []
    for run in runs:
        taken, trips = check_run(spec, plan, run)
        steps.append(taken)
        notes += [note for note in describe_trips(spec, run.case, trips) if note not in notes]
    done = tuple((tuple(run.case.items()), run.ctas) for run in runs)
    first = sum(steps[: len(parameter_cases(spec))])
    return Proof(done, sum(steps), needless_syncs(spec, plan, runs, first), tuple(dict.fromkeys(notes)))


def _may_be_partial(spec: Spec, plan: Plan, name: str) -> bool:
    """Elements of an array that is also read keep what they are; of an output, only where the spec says so."""
    is_output = any(m.name == name and m.access == "out" for m in plan.memories)
    return spec.whole is None and (spec.buffer(name).partial or not is_output)


def _unowned(spec: Spec, plan: Plan, finding: Finding, case: Mapping[str, int]) -> Diagnostic:
    first = find_unowned(plan, finding.memory, case)
    named = f", the first is {finding.memory}{first}" if first is not None else ""
    used = ", ".join(f"{name} = {value}" for name, value in case.items())
    hint = "write every element, or say 'partial: true' on the buffer"
    message = f"{finding.message}{used and f' with {used}'}{named}"
    return Diagnostic(finding.code, message, spec.buffer(finding.memory).mark, hint)


def _finding(spec: Spec, finding: Finding) -> Diagnostic:
    return Diagnostic(finding.code, finding.message, mark_of(spec, finding.op))


def needless_syncs(spec: Spec, plan: Plan, runs: Sequence[ProofRun], steps: int) -> tuple[Diagnostic, ...]:
    """Warnings for syncs of the spec that order nothing: the CTAs that were proved are as right without them.

    ``steps``: of the runs that come first, which most drops do not survive.
    The sync of an op on whole arrays is not the spec's own: nobody could take it out.
    """
    if spec.whole is not None:
        return ()

    def is_sound(without: Plan) -> bool:
        try:
            for run in runs:
                check_run(spec, without, run)
        except ProofError:
            return False
        return True

    return find_needless_syncs(spec, plan, steps, max(len(run.ctas) for run in runs), is_sound)
