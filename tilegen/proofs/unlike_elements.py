"""Trips that read unlike elements of tables: what a trip leaves behind is no other trip's data.

Where elements are sizes all trips of a CTA read the same one, and find the same data. So each run with such elements is
made again with these in some trips, and other contents in the rest. Two elements differ in a digit of their numbers:
for each digit there is a run in which the one is as the sizes say, and the other is not, and a run the other way round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from math import prod

from tilegen.index import evaluate
from tilegen.interpret import corners
from tilegen.interpret.threads import Cta
from tilegen.plan import Plan, default_values
from tilegen.plan.contents import Contents
from tilegen.proofs.cta_classes import cover_classes, find_cta_classes
from tilegen.proofs.joined_runs import check_runs
from tilegen.proofs.runs import ProofRun, count_run
from tilegen.proofs.sized_elements import Some, size_elements
from tilegen.proofs.table import Namer
from tilegen.proofs.trips import choose_trips, is_affordable
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of

_MOST_WORK = 1 << 29  # threads that carry out steps: half a minute, or two where boxes are large
_MOST_CTAS = 16  # of a run
_NEAR = (16, 4, 2)  # CTAs along each axis that are looked at


def check_unlike(
    spec: Spec, plan: Plan, arrays: Collection[str], others: Contents, cases: Sequence[Mapping[str, int]]
) -> list[str]:  # fmt: skip
    """A note if not all can be shown. Raises ProofError for what is wrong where trips read unlike elements.

    ``cases``: sizes, and elements of ``arrays``, that show all that a trip may do.
    """
    left, are_all = _MOST_WORK, True
    for some in _list_some(spec, arrays):
        own = size_elements(spec, plan, arrays, others, some)
        runs = []
        for case, ctas in _choose_ctas(*own, cases):
            run = ProofRun(case, tuple(ctas[:: -(-len(ctas) // _MOST_CTAS)]), choose_trips(*own, ctas, case))
            work = count_run(own[1], run)
            is_short = work <= left and is_affordable(*own, run.ctas, case, run.cut.trips)
            are_all &= is_short and run.ctas == tuple(ctas)
            if is_short:
                left -= work
                runs.append(run)
        check_runs(*own, runs)
    names = ", ".join(sorted(arrays))
    return [] if are_all else [f"not proven: all that trips do which read unlike elements of {names}"]


def _list_some(spec: Spec, arrays: Collection[str]) -> Iterator[Some]:
    """The digits of an element's number, each both ways."""
    default = default_values(spec.params)
    most = max(int(prod(evaluate(n, default) for n in spec.buffer(name).shape)) for name in arrays)
    yield from (Some(1 << place, digit) for place in range((most - 1).bit_length()) for digit in (0, 1))


def _choose_ctas(
    spec: Spec, plan: Plan, cases: Sequence[Mapping[str, int]]
) -> Iterator[tuple[Mapping[str, int], list[Cta]]]:  # fmt: skip
    """The CTAs that do what none does before, of a long grid those near its first, with each case that has any."""
    default, namer = cases[0], Namer()
    trips = choose_trips(spec, plan, corners(launch_of(spec, default).grid), default, few=0, looks=False).trips
    near = [
        [(x, y, z) for x, y, z in product(*(range(min(n, _NEAR[d])) for d, n in enumerate(launch_of(spec, case).grid)))]
        for case in cases
    ]
    classes = [find_cta_classes(spec, plan, case, trips, namer, ctas) for case, ctas in zip(cases, near, strict=True)]
    return ((case, own) for case, own in zip(cases, cover_classes(classes, 1), strict=True) if own)
