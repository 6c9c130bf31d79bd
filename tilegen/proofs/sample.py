"""CTAs, trips and sizes drawn at random, beside those that were chosen: what they alone find is a bug of the choice.

The printed spec is the seed, so a comment changes no verdict.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from math import exp, log

import numpy as np

from tilegen.index import bound, substitute
from tilegen.index.recurrences import Recurrence, Trips, join_recurrences
from tilegen.interpret.threads import Cta
from tilegen.plan import Plan
from tilegen.proofs.boundary_sizes import is_sized
from tilegen.proofs.cta_classes import exchanges
from tilegen.proofs.meaning import parameter_cases
from tilegen.proofs.runs import ProofRun, count_run
from tilegen.proofs.trips import Cut, choose_trips
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of, outline
from tilegen.spec.printing import print_spec

_CTAS = 3
_MOST_WORK = 1 << 22  # threads that carry out steps: an eighth of a second
_DRAWS = 16  # of sizes, until a run is short enough


def draw_sample(spec: Spec, plan: Plan, runs: Sequence[ProofRun]) -> ProofRun | None:
    """A run of a few CTAs with sizes of any magnitude, and of each loop that is cut one more trip.

    None where CTAs depend on one another, where one CTA alone takes too long, and for what is among ``runs``.
    """
    if exchanges(spec, plan):
        return None
    random = np.random.default_rng(list(hashlib.sha256(print_spec(spec).encode()).digest()))
    cases = [_draw_case(spec, random) for _ in range(_DRAWS if any(p.var for p in spec.params) else 0)]
    for case in (*(case for case in cases if is_sized(spec, case)), parameter_cases(spec)[0]):
        grid = launch_of(spec, case).grid
        ctas: list[Cta] = [(x, y, z) for x, y, z in random.integers(grid, size=(_CTAS, 3)).tolist()]
        for few in (tuple(sorted({*ctas})), tuple(ctas[:1])):
            trips = _draw_trips(spec, choose_trips(spec, plan, few, case).trips, case, random)
            run = ProofRun(case, few, Cut(trips), is_spare=True)
            if count_run(plan, run) <= _MOST_WORK:
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
