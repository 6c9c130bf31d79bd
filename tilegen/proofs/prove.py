"""All that is proved of a plan before it is rendered, and what the user reads of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tilegen.errors import Diagnostic, Mark, ProofError
from tilegen.index import variables
from tilegen.index.recurrences import ALL_TRIPS, Trips
from tilegen.interpret import FaultFound, Unsteady, corners
from tilegen.interpret.threads import Cta
from tilegen.plan import Plan, default_values
from tilegen.proofs.boundary_sizes import say_case
from tilegen.proofs.claims import check_scattered, find_zeros, unproven_picks
from tilegen.proofs.cta_classes import cover_outcomes
from tilegen.proofs.described_faults import describe_fault, mark_of
from tilegen.proofs.fillings import Filling, add_contents, fill_each, others_of, reads_tables
from tilegen.proofs.finding import NO_OWNER, TWO_OWNERS, Finding
from tilegen.proofs.floats import check_floats, computes, list_conditions, names_in_conditions
from tilegen.proofs.indices import unproven_indices
from tilegen.proofs.joined_runs import check_runs, share_out
from tilegen.proofs.lies import check_lies
from tilegen.proofs.limits import untaken_steps
from tilegen.proofs.meaning import (
    digest_meaning,
    digest_outcome,
    list_apart,
    parameter_cases,
)
from tilegen.proofs.meetings import unproven_meetings
from tilegen.proofs.needless_syncs import find_needless_syncs
from tilegen.proofs.owned_boxes import say_short_grid, written_boxes
from tilegen.proofs.owners import check_owners, may_be_partial
from tilegen.proofs.partition import find_unowned
from tilegen.proofs.ranges import unproven_ranges
from tilegen.proofs.run_integers import find_run
from tilegen.proofs.runs import ProofRun, check_run, choose_runs, draw_sample, list_runs, say_untried
from tilegen.proofs.terms import check_terms
from tilegen.proofs.trips import count_work, describe_trips, is_affordable
from tilegen.proofs.unlike_elements import check_unlike
from tilegen.proofs.value_ranges import check_claimed_values
from tilegen.proofs.whole import check_whole
from tilegen.scopes import CLUSTER_AXES, CTA_AXES
from tilegen.side_by_side import run_tasks
from tilegen.spec.data import LetStatement, Loop, Spec
from tilegen.spec.outline import launch_of, outline

_SHARED_WORK = 1 << 23  # threads that carry out steps: half a second; less is not worth other processes


RanWith = tuple[tuple[tuple[str, int], ...], tuple[Cta, ...]]  # parameters, and CTAs


@dataclass(frozen=True)
class Proof:
    """What was proved: the CTAs and parameters that ran in NumPy, and notes worth a reader's time.

    ``sample``: those that were drawn at random beside them (``draw_sample``), None where that would take too long.
    """

    runs: tuple[RanWith, ...]
    steps: int
    warnings: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()
    sample: RanWith | None = None
    unwritten: tuple[tuple[str, str], ...] = ()  # workspaces that are not written whole, or not surely, and why


def may_take_long(plan: Plan) -> bool:
    """May a proof be worth other processes, as far as the steps of a CTA tell? It may yet leave out many."""
    return count_work(plan, (), default_values(plan.params), ALL_TRIPS) > _SHARED_WORK


def prove(spec: Spec, plan: Plan, processes: int = 1) -> Proof:
    """Terms, ranges, meetings and partition over the whole grid, then the corner CTAs in NumPy against the spec's own
    meaning.

    Where the spec computes, the last CTA runs again with floats, against the bounds of their errors. Runs of kernels
    that take long are shared out over ``processes``.
    """
    notes = _check_places(spec, plan)
    if not reads_tables(spec, plan):
        return _prove_filled(Filling(spec, plan), processes, notes)
    proofs = []
    for filled in fill_each(spec, plan):
        try:
            proofs.append(_prove_filled(filled, processes, notes))
            if filled.sized:
                cases = [run.case for run in list_runs(filled.spec, filled.plan) if not run.is_spare]
                untried = check_unlike(spec, plan, filled.sized, others_of(spec), cases)
                proofs[-1] = replace(proofs[-1], notes=(*proofs[-1].notes, *untried))
        except ProofError as error:
            raise ProofError(add_contents(error.diagnostics, filled.words)) from None
    return _join_proofs(proofs)


def _check_places(spec: Spec, plan: Plan) -> list[str]:
    """What is worth a note of what is shown without a run, for all contents of tables: terms, ranges, meetings.

    Raises ProofError for what is not shown.
    """
    if negative := [*unproven_indices(spec, plan), *check_scattered(spec)]:
        raise ProofError(negative)
    if wrong := [*unproven_picks(spec, plan)]:
        raise ProofError([_finding(spec, f) for f in wrong])
    if beyond := check_claimed_values(spec):
        raise ProofError(beyond)
    found = *unproven_ranges(plan), *unproven_meetings(plan), *untaken_steps(plan)
    unproven = (*check_terms(spec, plan), *check_lies(spec, plan), *found)
    errors = [_finding(spec, f) for f in unproven if f.severity == "error"]
    if errors:
        raise ProofError(errors)
    return [f.message for f in unproven]


def _join_proofs(proofs: Sequence[Proof]) -> Proof:
    """What proofs with several contents of tables show together."""

    def join(parts: Iterable[Iterable[Any]]) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(x for part in parts for x in part))

    return Proof(
        join(p.runs for p in proofs), sum(p.steps for p in proofs), join(p.warnings for p in proofs),
        join(p.notes for p in proofs), proofs[0].sample, join(p.unwritten for p in proofs),
    )  # fmt: skip


def _prove_filled(filled: Filling, processes: int, notes: Sequence[str]) -> Proof:
    """Owners, then runs, of a kernel that reads no tables; ``notes`` are those so far."""
    proof = _prove_owners(filled.spec, filled.plan) if filled.has_owners else Proof((), 0)
    proof = replace(proof, notes=(*notes, *proof.notes))
    return _prove_runs(filled, processes, proof) if filled.has_runs else proof


def _prove_owners(spec: Spec, plan: Plan) -> Proof:
    """What counting owners shows, and the notes of that. Raises ProofError for an element of two owners, or of none."""
    errors: list[Diagnostic] = []
    owners = check_owners(spec, plan)
    unwritten = {name: f"may leave elements unwritten ({why})" for name, why in owners.unsure}
    warnings = [_unlooked(spec, f) for f in owners.unlooked if f.memory not in unwritten] + find_zeros(spec)
    notes = [*owners.notes]
    for case, f in owners.found:
        if f.severity == "error":
            errors.append(_finding(spec, f))
        elif f.code == NO_OWNER and spec.buffer(f.memory).traits.is_brought:
            unwritten.setdefault(f.memory, _say_unwritten(spec, plan, f, case))
        elif f.code == NO_OWNER and not may_be_partial(spec, plan, f.memory):
            errors.append(_unowned(spec, plan, f, case))
        elif case in owners.usual:
            notes.append(f.message)
    if errors:
        raise ProofError(errors)
    return Proof((), 0, tuple(warnings), tuple(notes), None, tuple(unwritten.items()))


def _prove_runs(filled: Filling, processes: int, owned: Proof) -> Proof:
    """Runs of a kernel that reads no tables; ``owned``: what is known of it before."""
    spec, plan = filled.spec, filled.plan
    chosen = choose_runs(spec, plan)
    runs, notes = chosen.runs, [*owned.notes, *chosen.notes]
    exact, of_floats = _carry_out_all(spec, plan, runs, processes)
    notes += of_floats
    if not exact[0][0]:
        raise ProofError(_say_too_many(spec))
    for run, (taken, trips) in zip(runs, exact, strict=True):
        notes += describe_trips(spec, run.case, trips) if taken else [say_untried(run.case)]
    sample = draw_sample(spec, plan, runs)
    if sample is not None:
        check_run(spec, plan, sample)
    done = tuple((tuple(run.case.items()), run.ctas) for run in runs)
    steps = [taken for taken, _ in exact]
    first = sum(steps[: len(parameter_cases(spec))])
    warnings = (*owned.warnings, *needless_syncs(spec, plan, runs, first))
    drawn = None if sample is None else (tuple(sample.case.items()), sample.ctas)
    return Proof(
        done, sum(steps), tuple(dict.fromkeys(warnings)), tuple(dict.fromkeys(notes)), drawn,
        owned.unwritten,
    )  # fmt: skip


def _say_too_many(spec: Spec) -> Diagnostic:
    """The passes before one make what names its places, and have too many CTAs for NumPy: nothing was run."""
    message = (
        f"places of '{spec.kernel}' depend on what passes before it make, which have too many CTAs to run them all"
    )
    return Diagnostic("TG426", message, spec.ops_mark, "give params smaller defaults")


def _carry_out_all(
    spec: Spec, plan: Plan, runs: Sequence[ProofRun], processes: int
) -> tuple[list[tuple[int, Trips]], list[str]]:  # fmt: skip
    """The steps of each run and the trips that it made; what is said of the floats of the first, which come with it,
    and of tiles.

    An op on whole arrays is compared with its tiles beside them. What floats show counts once the exact
    run is right. They make the trips that this is to make; where in the end it made others, they are looked at again.
    """
    with_floats = computes(spec)
    is_long = sum(count_work(plan, run.ctas, run.case, run.cut.trips) for run in runs) > _SHARED_WORK
    has_parts = (
        len(runs) == 1 and with_floats and is_long and processes > 1 and not spec.elements and not find_run(spec)
    )
    if has_parts and (done := _carry_out_in_parts(spec, plan, runs[0], processes)) is not None:
        return done
    processes = processes if is_long else 1
    parts = share_out(plan, runs, processes)
    tasks: list[Callable[[], Any]] = [partial(check_runs, spec, plan, part) for part in parts]
    if with_floats:
        tasks.insert(1, partial(_try_floats, spec, plan, runs[0], runs[0].cut.trips))
    before: list[Callable[[], Any]] = []
    if spec.whole is not None:
        before = [partial(check_whole, spec, plan, run) for run in runs if not run.is_spare]
    found = run_tasks([*before, *tasks], processes)
    notes, found = [note for said in found[: len(before)] for note in said], found[len(before) :]
    floats = found.pop(1) if with_floats else []
    first, *others = (one for part in found for one in part)
    if not with_floats:
        return [first, *others], notes
    if first[1] != runs[0].cut.trips:
        floats = _try_floats(spec, plan, runs[0], first[1])
    tried, sizes = [floats], runs[0].case.keys()
    is_of_sizes = any(names and names <= sizes for names in names_in_conditions(plan))
    for run, (_, made) in zip(runs[1:], others, strict=True) if is_of_sizes else ():
        tried += [] if run.is_spare else [_try_floats(spec, plan, run, made)]
    for wrong in tried:
        if isinstance(wrong, Exception):
            raise wrong
    return [first, *others], [*notes, *floats]


def _carry_out_in_parts(
    spec: Spec, plan: Plan, run: ProofRun, processes: int
) -> tuple[list[tuple[int, Trips]], list[str]] | None:  # fmt: skip
    """The same of a single run, the plan beside what it means; None where all is not well: what is wrong is said by
    the same checks one after another.
    """
    trips = run.cut.trips
    if not is_affordable(spec, plan, run.ctas, run.case, trips):
        return None
    of = spec, plan, run.ctas, run.case, trips
    tasks: list[Callable[[], Any]] = [partial(_try_floats, spec, plan, run, trips), partial(digest_outcome, *of)]
    tasks += [partial(check_whole, spec, plan, run)] if spec.whole is not None else []
    tasks += [partial(digest_meaning, *of)]  # the longest first
    try:
        floats, (steps, did), *whole, meant = run_tasks(tasks, processes)
    except (ProofError, Unsteady):
        return None
    if did != meant or isinstance(floats, Exception):
        return None
    return [(steps, trips)], [*(note for said in whole for note in said), *floats]


def _try_floats(spec: Spec, plan: Plan, run: ProofRun, trips: Trips) -> list[str] | Exception:
    """What is said of the floats of the last CTA, or what is wrong with them.

    Where what is computed depends on the CTA, a few run that show every condition both ways.
    """
    ctas: Sequence[Cta] = corners(launch_of(spec, run.case).grid)[-1:]
    if not all(names.isdisjoint((*CTA_AXES, *CLUSTER_AXES)) for names in names_in_conditions(plan)):
        ctas = cover_outcomes(plan, list_conditions(plan), run.case, run.ctas)
    try:
        parts = list_apart(spec, ctas)
        found = [one for own in parts for one in check_floats(spec, plan, own, run.case, trips=trips)]
        nearest = {one.name: one for one in sorted(found, key=lambda one: one.error / (one.bound or 1))}
        return [str(nearest[name]) for name in dict.fromkeys(one.name for one in found)]
    except FaultFound as found:
        return ProofError(describe_fault(spec, found))
    except (ProofError, Unsteady, AssertionError) as wrong:
        return wrong


def _unowned(spec: Spec, plan: Plan, finding: Finding, case: Mapping[str, int]) -> Diagnostic:
    first, sizes = _locate_unowned(spec, plan, finding, case)
    values = default_values(spec.params) | dict(case)
    short = say_short_grid(spec, finding.memory, values)
    hint = f"{short or 'write every element'}, or say 'partial: true' on the buffer"
    message = f"{finding.message}{sizes}{first and f', the first is {first}'}"
    return Diagnostic(finding.code, message, spec.buffer(finding.memory).mark, hint)


def _say_unwritten(spec: Spec, plan: Plan, finding: Finding, case: Mapping[str, int]) -> str:
    """Which element of a workspace a kernel leaves unwritten, and at which sizes."""
    first, sizes = _locate_unowned(spec, plan, finding, case)
    return f"leaves {first or 'elements of it'} unwritten{sizes}"


def _locate_unowned(spec: Spec, plan: Plan, finding: Finding, case: Mapping[str, int]) -> tuple[str, str]:
    """(the first element that no CTA writes, at which sizes), in words; "" where it is not found, or at any."""
    first, used = find_unowned(plan, written_boxes(spec), finding.memory, case), say_case(case)
    return f"{finding.memory}{first}" if first is not None else "", f" with {used}" if used else ""


def _unlooked(spec: Spec, finding: Finding) -> Diagnostic:
    """A warning that it is not known who owns the elements of an array."""
    hint = "let neighbouring CTAs write neighbouring boxes, of the array itself"
    return Diagnostic(finding.code, finding.message, spec.buffer(finding.memory).mark, hint, severity="warning")


def _finding(spec: Spec, finding: Finding) -> Diagnostic:
    hint = _say_owners(spec, finding.memory) if finding.code == TWO_OWNERS else finding.hint
    return Diagnostic(finding.code, finding.message, mark_of(spec, finding.op) or _mark_by_name(spec, finding), hint)


def _mark_by_name(spec: Spec, finding: Finding) -> Mark | None:
    """The place of a finding that is of no op: its array, the statement that gives a name which it says, or the ops."""
    if finding.memory in {b.name for b in spec.buffers}:
        return spec.buffer(finding.memory).mark
    words = re.findall(r"[A-Za-z_]\w*", finding.message)
    given: dict[str, Mark | None] = {}
    for placed in outline(spec).placed:
        s = placed.statement
        if isinstance(s, LetStatement):
            given |= {var.name: s.mark for var, _ in s.entries if var.name not in given}
        elif isinstance(s, Loop):
            given.setdefault(s.var.name, s.mark)
    return next((given[word] for word in words if word in given), None) or spec.ops_mark


def _say_owners(spec: Spec, name: str) -> str:
    """What may be meant where CTAs write the same elements of an array: an axis that no place in it depends on."""
    owns = [o for o in written_boxes(spec) if o.memory.name == name]
    used = {v.name for o in owns for x in (*o.start, o.condition) for v in variables(x)}
    for axis, inside, count in zip(CTA_AXES, CLUSTER_AXES, spec.grid, strict=True):
        if count != 1 and not used & {axis, inside}:
            return f"no place in {name} depends on {axis}, so all CTAs along it write the same elements"
    return f"let each CTA write elements of its own: compare what a CTA writes of {name} with how far the next one is"


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
