"""Runs of several sizes, carried out at once where each makes all trips of its loops.

What they show is what each shows alone: no CTA meets one of another size (``interpret/sizes``). Where anything is wrong
they run one by one, and the first that is wrong says what.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilegen.arithmetic.modular import Modular
from tilegen.errors import ProofError
from tilegen.index.recurrences import ALL_TRIPS, Trips
from tilegen.interpret import SizedCtas, interpret_sizes, may_join_sizes
from tilegen.interpret.threads import Cta
from tilegen.plan import Plan
from tilegen.proofs.meaning import compare_outcome, list_apart, proving_domain, proving_inputs
from tilegen.proofs.run_integers import find_run
from tilegen.proofs.runs import ProofRun, check_run, count_run
from tilegen.proofs.trips import has_room, is_affordable
from tilegen.scopes import whole_clusters
from tilegen.spec.data import Spec

Checked = tuple[int, Trips]  # the steps that a run took, and the trips that it made

_MOST_JOINED = 64  # CTAs that run at once
_LEAST_SHARE = 1 << 28  # threads that carry out steps, of runs that would take less time at once than in parts


def share_out(plan: Plan, runs: Sequence[ProofRun], processes: int) -> list[Sequence[ProofRun]]:
    """The runs in parts of about the same work, in order: one for each process, where it has enough to do."""
    done = np.cumsum([1 + count_run(plan, run) for run in runs])
    share = (done - 1) * max(1, min(processes, done[-1] // _LEAST_SHARE)) // done[-1]
    ends = [*np.flatnonzero(np.diff(share)).tolist(), len(runs) - 1]
    return [runs[first + 1 : last + 1] for first, last in zip([-1, *ends], ends, strict=False)]


def check_runs(spec: Spec, plan: Plan, runs: Sequence[ProofRun]) -> list[Checked]:
    """What ``check_run`` says of each of the runs. Raises what it raises of the first that is wrong."""
    known: dict[int, Checked] = {}
    try:
        for part in _join(spec, plan, runs):
            known |= zip(part, _check_at_once(spec, plan, [runs[k] for k in part]), strict=True)
    except ProofError:
        known = {}
    return [known[k] if k in known else check_run(spec, plan, run) for k, run in enumerate(runs)]


def _join(spec: Spec, plan: Plan, runs: Sequence[ProofRun]) -> list[list[int]]:
    """The numbers of runs that are carried out at once, those that take longest first: they go on where others end."""
    if not isinstance(proving_domain(spec), Modular) or find_run(spec) or not may_join_sizes(plan):
        return []
    able = [k for k, run in enumerate(runs)
            if run.cut.trips == ALL_TRIPS and is_affordable(spec, plan, run.ctas, run.case, ALL_TRIPS)]  # fmt: skip
    parts: list[list[int]] = []
    ctas: list[Cta] = []
    for k in sorted(able, key=lambda k: -count_run(plan, runs[k])):
        own = whole_clusters(runs[k].ctas, plan.cluster)
        if not parts or len(ctas) + len(own) > _MOST_JOINED or not has_room(spec, [*ctas, *own]):
            parts, ctas = [*parts, []], []
        parts[-1].append(k)
        ctas += own
    return [part for part in parts if len(part) > 1]


def _check_at_once(spec: Spec, plan: Plan, runs: Sequence[ProofRun]) -> list[Checked]:
    (inputs,) = proving_inputs(spec, plan, runs[0].case)  # of hashes, which are the same at all sizes
    parts = [(k, own) for k, run in enumerate(runs) for own in list_apart(spec, run.ctas)]
    sized = [SizedCtas(own, runs[k].case) for k, own in parts]
    steps = [0] * len(runs)
    for (k, _), outcome in zip(parts, interpret_sizes(plan, sized, inputs, proving_domain(spec)), strict=True):
        compare_outcome(spec, outcome, inputs, runs[k].case, ALL_TRIPS)
        steps[k] += outcome.steps
    return [(taken, ALL_TRIPS) for taken in steps]
