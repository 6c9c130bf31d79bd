"""The runs in NumPy that prove a plan: for each case of the parameters its CTAs, and the trips of their loops; and a
sample, drawn at random beside them. What that alone finds is a bug of the choice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from tilegen.errors import ProofError
from tilegen.index import bound, substitute
from tilegen.index.recurrences import ALL_TRIPS, Recurrence, Trips, join_recurrences
from tilegen.interpret import Unsteady, corners
from tilegen.interpret.threads import Cta
from tilegen.kept import keep_of_two
from tilegen.plan import Plan
from tilegen.proofs.boundary_sizes import (
    boundary_sizes,
    edge_cases,
    group_observed,
    is_sized,
    largest_cases,
    list_untold,
    pair_observed,
    say_case,
)
from tilegen.proofs.columns import list_sized_overlaps, list_sized_places
from tilegen.proofs.cta_classes import CtaClasses, cover_classes, exchanges, find_cta_classes
from tilegen.proofs.meaning import check_meaning, parameter_cases
from tilegen.proofs.observed import list_observed
from tilegen.proofs.table import Namer
from tilegen.proofs.trips import Cut, choose_trips, count_work, is_affordable, too_long, trip_cases
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of, outline
from tilegen.spec.printing import print_spec

Wanted = tuple[Mapping[str, int], CtaClasses]  # a case, and what its CTAs do
_MOST_SPARE_WORK = 1 << 25  # threads that carry out steps in a run beyond the usual: a second
_MOST_WORK = 1 << 29  # in all runs behind the first, but for those: a minute
_MOST_RUN = 256  # CTAs that differ, of the default sizes
_OTHER_CTAS = "not proven: that the CTAs which did not run do as those that did"
_DRAWN_CTAS = 3  # of a sample
_MOST_DRAWN_WORK = 1 << 22  # threads that carry out steps: an eighth of a second
_DRAWS = 16  # of sizes, until a run is short enough


@dataclass(frozen=True)
class ProofRun:
    """Values of the runtime parameters, the CTAs that run with them, and which trips of their loops do.

    ``is_spare``: it shows sizes beyond the usual, and is left out where it takes too long.
    """

    case: Mapping[str, int]
    ctas: tuple[Cta, ...]
    cut: Cut
    is_spare: bool = False


@dataclass(frozen=True)
class Runs:
    """All runs that the proof of a plan consists of, and what they leave unproven."""

    runs: tuple[ProofRun, ...]
    notes: tuple[str, ...]


def list_runs(spec: Spec, plan: Plan) -> tuple[ProofRun, ...]:
    """Every run that the proof of a plan consists of: no CTA does what another did in a run before."""
    return choose_runs(spec, plan).runs


@keep_of_two
def choose_runs(spec: Spec, plan: Plan) -> Runs:
    """Every run, with what none shows: of the usual sizes, counts of trips, the largest sizes, and ends of arrays."""
    asked, usual = list_observed(spec, plan), parameter_cases(spec)
    default, namer = usual[0], Namer()
    trips = choose_trips(spec, plan, corners(launch_of(spec, default).grid), default, few=0, looks=False).trips

    def classify(cases: Iterable[Mapping[str, int]], some: Sequence[Cta] = ()) -> list[Wanted]:
        return [(case, find_cta_classes(spec, plan, case, trips, namer, some)) for case in cases]

    wanted = classify(usual)
    lengths = trip_cases(spec, plan, cover_classes([own for _, own in wanted[:1]], 1)[0], default)
    wanted += classify(_new(lengths.cases, wanted))
    overlaps = list_sized_overlaps(spec, plan)
    sized = [*asked, *overlaps, *list_sized_places(spec, plan)]
    groups = [*group_observed(spec, sized), *pair_observed(spec, asked, overlaps)]
    boundaries = boundary_sizes(spec, groups, default, [case for case, _ in wanted])
    wanted += classify(_new(boundaries.cases, wanted))
    wanted += classify(_new(edge_cases(spec, asked, default), wanted))
    firm, notes = _list_firm_runs(spec, plan, wanted, len(usual))
    enough = max([_MOST_SPARE_WORK, *(count_run(plan, run) for run in firm)])
    spare, long = [], []
    for case in _new(largest_cases(spec, default), wanted):
        ends = corners(launch_of(spec, case).grid)
        more = classify([case], ends)
        own = ends if exchanges(spec, plan) else cover_classes([own for _, own in (*wanted, *more)], len(usual))[-1]
        if not own:
            continue
        run = ProofRun(case, tuple(own), choose_trips(spec, plan, own, case), is_spare=True)
        if count_run(plan, run) > enough:
            long.append(say_untried(case))
        else:
            wanted += more
            spare.append(run)
    untold = list_untold(spec, sized, boundaries, [run.case for run in (*firm, *spare)])
    return Runs((*firm, *spare), tuple(dict.fromkeys([*lengths.notes, *notes, *long, *untold])))


def _list_firm_runs(
    spec: Spec, plan: Plan, wanted: Sequence[Wanted], usual: int
) -> tuple[list[ProofRun], list[str]]:  # fmt: skip
    """A run of each size with CTAs that do what none before does, and the note on what is left out."""
    notes = [] if all(own.are_all for _, own in wanted) else [_OTHER_CTAS]
    if exchanges(spec, plan):
        left = [list(own.ctas) for _, own in wanted]
    else:
        left = cover_classes([own for _, own in wanted], usual)
    if len(left[0]) > _MOST_RUN:
        left[0], notes = left[0][:: -(-len(left[0]) // _MOST_RUN)], [*notes, _OTHER_CTAS]
    runs = []
    for (case, _), own in zip(wanted, left, strict=True):
        if own:
            cut = choose_trips(spec, plan, own, case)
            some = _afford(spec, plan, own, case, cut)
            notes += [_OTHER_CTAS] if len(some) < len(own) else []
            runs.append(ProofRun(case, tuple(some), cut))
    shared = _share_out(plan, runs)
    return shared, notes if shared == runs else [*notes, _OTHER_CTAS]


def _share_out(plan: Plan, runs: Sequence[ProofRun]) -> list[ProofRun]:
    """The runs; where those behind the first would take minutes together, with fewer of their CTAs, from all over."""
    others = sum(count_run(plan, run) for run in runs[1:])
    if others <= _MOST_WORK:
        return list(runs)
    each = [max(1, len(run.ctas) * _MOST_WORK // others) for run in runs]
    step = [1 if k == 0 else -(-len(run.ctas) // each[k]) for k, run in enumerate(runs)]
    return [replace(run, ctas=run.ctas[::n]) for run, n in zip(runs, step, strict=True)]


def _afford(spec: Spec, plan: Plan, ctas: Sequence[Cta], case: Mapping[str, int], cut: Cut) -> Sequence[Cta]:
    """As many of the CTAs, from all over the grid, as a run can carry out; all where it could not even one."""
    some = ctas
    while len(some) > 1 and not is_affordable(spec, plan, some, case, cut.trips):
        some = ctas[:: -(-len(ctas) // (len(some) * 3 // 4))]
    return some if is_affordable(spec, plan, some, case, cut.trips) else ctas


def count_run(plan: Plan, run: ProofRun) -> int:
    """Threads that carry out steps in a run."""
    return count_work(plan, run.ctas, run.case, run.cut.trips)


def say_untried(case: Mapping[str, int]) -> str:
    return f"not proven: what CTAs do with {say_case(case)}, which would take too long"


def _new(cases: Iterable[Mapping[str, int]], known: Sequence[Wanted]) -> list[Mapping[str, int]]:
    """The cases that are not among those known, each once."""
    before, found = [case for case, _ in known], [*cases]
    return [case for k, case in enumerate(found) if case not in before and case not in found[:k]]


def check_run(spec: Spec, plan: Plan, run: ProofRun, seed: int = 1) -> tuple[int, Trips]:
    """Carry out a run and compare it with the spec's meaning: the steps that it took, and the trips that ran.

    What is wrong with a few trips is looked at again with all of them, if that takes no more than a minute or so. A
    spare run of which a few do not show all is given up: it took no steps.
    Raises ProofError for what is wrong, and for a kernel that takes too many steps (TG426).
    """
    trips = run.cut.trips
    if not is_affordable(spec, plan, run.ctas, run.case, trips):
        raise ProofError(too_long(spec, plan, run.ctas, run.case, run.cut))
    try:
        return check_meaning(spec, plan, run.ctas, run.case, seed, trips), trips
    except Unsteady:
        if run.is_spare:
            return 0, trips
        if not is_affordable(spec, plan, run.ctas, run.case, ALL_TRIPS):
            raise ProofError(too_long(spec, plan, run.ctas, run.case, Cut())) from None
    except ProofError:
        if trips == ALL_TRIPS or not is_affordable(spec, plan, run.ctas, run.case, ALL_TRIPS):
            raise
    return check_meaning(spec, plan, run.ctas, run.case, seed), ALL_TRIPS


def draw_sample(spec: Spec, plan: Plan, runs: Sequence[ProofRun]) -> ProofRun | None:
    """A run of a few CTAs with sizes of any magnitude, and of each loop that is cut one more trip.

    The printed spec is the seed, so a comment changes no verdict.
    None where CTAs depend on one another, where one CTA alone takes too long, and for what is among ``runs``.
    """
    if exchanges(spec, plan):
        return None
    random = np.random.default_rng(list(hashlib.sha256(print_spec(spec).encode()).digest()))
    cases = [_draw_case(spec, random) for _ in range(_DRAWS if any(p.var for p in spec.params) else 0)]
    for case in (*(case for case in cases if is_sized(spec, case)), parameter_cases(spec)[0]):
        grid = launch_of(spec, case).grid
        ctas: list[Cta] = [(x, y, z) for x, y, z in random.integers(grid, size=(_DRAWN_CTAS, 3)).tolist()]
        for few in (tuple(sorted({*ctas})), tuple(ctas[:1])):
            trips = _draw_trips(spec, choose_trips(spec, plan, few, case).trips, case, random)
            run = ProofRun(case, few, Cut(trips), is_spare=True)
            if count_run(plan, run) <= _MOST_DRAWN_WORK:
                is_known = any(run.case == one.case and {*few} <= {*one.ctas} for one in runs) and not trips.loops
                return None if is_known else run
    return None


def _draw_case(spec: Spec, random: np.random.Generator) -> dict[str, int]:
    """A value of each parameter, of any magnitude as likely as of another."""
    return {
        p.name: int(exp(random.uniform(log(max(p.var.least, p.var.step)), log(p.var.bound)))) // p.var.step * p.var.step
        for p in spec.params if p.var is not None
    }  # fmt: skip


def _draw_trips(spec: Spec, trips: Trips, case: Mapping[str, int], random: np.random.Generator) -> Trips:
    """The trips that run, and one more of each loop that is cut."""
    most = {one.trip.name: bound(substitute(one.count, case)) - 1 for one in outline(spec).loops}
    loops = {}
    for name, (common, head) in trips.loops.items():
        trip = int(random.integers(max(1, most.get(name, 1))))
        joined = join_recurrences([common, Recurrence(breakpoints=((trip, trip),))])
        assert joined is not None
        loops[name] = joined, head
    return Trips(loops)
