"""Which trips of its loops a proof runs: all, or those that show what every other trip would.

Whole periods in the middle of a long loop are left out where everything goes on in the same way from one period to the
next: places in global memory move on by a constant, places in shared memory, slots, parities and counts are what they
were, and conditions turn only near trips that run. Whatever two trips can do to each other lies within a window of L
trips; every window of all trips is one of those that run, moved by whole periods. The spec's meaning is taken of the
same trips, so like is compared with like. Ranges and the partition are proved for all trips, whatever runs here.

Two trips meet at a place of an array within its reach, and at one of shared memory within a period: what touches it in
a steady stretch touches it once more a period later. What orders the two, and what of them is in flight, is decided by
the trips from one to the other. So L is one more than the farther of both, and as many more trips as land all that was
in flight before the loop.

How many trips of a stretch between two turns are enough: since whole periods are left out, those that run look like a
shorter stretch that was never cut. A window that reaches over a turn has at most L - 1 trips of the stretch beside it,
and in the midst of a stretch a window begins at each residue of the period: L - 1 + period trips hold all of them. A
stretch is never cut to fewer. The last period of them is its tail; the first L - 1 are its head, and the last period of
these must leave in flight what it found, or nothing is left out.

Tiles in an order without a rule are left out too, where all that a trip does is seen to go along with its tile
(``looking``).

Of a loop as long as a parameter says, one long run shows the windows in the midst of a stretch. Others are shown by few
trips: those over either turn by a stretch of L - 1 trips or more, one for each residue of its length, and those over
both by every stretch that is shorter. Where no rule says how many lengths that is, since tiles come in an order without
one, all trips with the largest size are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tilegen.errors import Diagnostic
from tilegen.index import Index, Var, bound, evaluate, names_of, substitute
from tilegen.index.recurrences import ALL_TRIPS, Recurrence, Trips, join_recurrences
from tilegen.interpret import corners
from tilegen.interpret.threads import Cta
from tilegen.plan import Let, Plan, Repeat, Step, Wait, all_steps, default_values, effects
from tilegen.proofs.boundary_sizes import largest_cases
from tilegen.proofs.dependence_distance import Places
from tilegen.proofs.looking import crowd_of, numbers_of, whole_grid
from tilegen.proofs.study import Study, Uncut, plain, study_plan, study_statement
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, whole_clusters
from tilegen.spec.data import Loop, Region, Spec
from tilegen.spec.outline import is_possible, launch_of, outline

TOO_LONG = "TG426"

_FEW = 16  # a loop of so many trips runs in full, unless it holds a longer one
_FEWEST = 3  # no loop is cut to fewer
_MOST_WORK = 1 << 30  # threads that carry out steps in one run: about a minute
_MOST_ELEMENTS = 1 << 25  # that CTAs touch in one run: each takes some 80 bytes where it is written, and 0.4 us
_MOST_CASES = 64  # lengths of one loop that are tried
_MOST_NAMED = 5  # parameters of a loop's length that are tried together: 3^5 times
_SOME_CASES = 32  # where no rule says how many are enough
_MOST_CTAS = 1 << 14  # along an axis that are asked how many trips they make
_INNER = "give it a length that no loop around it has a say in, or let more CTAs share the trips of those"
_LEAST_THREADS = 4096  # a step takes about as long as this many threads, however few it has


@dataclass(frozen=True)
class Cut:
    """The trips that a proof runs, with the reasons why long loops run in full."""

    trips: Trips = ALL_TRIPS
    uncut: tuple[Uncut, ...] = ()


def choose_trips(
    spec: Spec, plan: Plan, ctas: Sequence[Cta], case: Mapping[str, int], few: int = _FEW, looks: bool = True
) -> Cut:  # fmt: skip
    """The trips that speak for all others where these CTAs run with these parameters.

    A loop of up to ``few`` trips runs in full, unless it holds a longer one. ``looks``: where no rule is known, all
    trips that there are with these parameters are looked at.
    """
    places = [numbers_of(cta, plan.cluster, case) for cta in whole_clusters(ctas, plan.cluster)]
    counts = [(one.loop, one.trip.name, _counts(one.count, places)) for one in outline(spec).loops]
    most: dict[str, int] = {}
    for _, name, found in counts:
        most[name] = max([most.get(name, 0), *(bound(n) - 1 for n in found)])
    long = {name for name, n in most.items() if n > few}
    long |= {name for inner in long for name in _around(spec, inner) if most[name] > _FEWEST}
    long -= {name for s, name, _ in counts if s.unroll}  # one name, one way to run
    if not long:
        return Cut()
    crowd = crowd_of(places)
    grid = whole_grid([int(evaluate(n, case)) for n in plan.grid], plan.cluster, crowd.case) if looks else None
    study = Study(long, places, most, crowd if looks else None, grid)
    ends: dict[str, set[int]] = {}
    for s, name, of_ctas in [(s, name, of_ctas) for s, name, of_ctas in counts if name in long]:
        ends.setdefault(name, set()).update(max(0, n) for n in of_ctas if isinstance(n, int))
        for unknown in [n for n in of_ctas if not isinstance(n, int)][:1]:
            study.uncut.setdefault(name, Uncut(name, f"it has {plain(unknown)} of them", s.mark, _INNER))
    for name, own in ends.items():  # where the loop ends for some CTAs, or roles, and goes on for others
        stops = tuple((n, n) for n in sorted(own) if len(own) > 1)
        study.courses.setdefault(name, []).append(Recurrence(breakpoints=stops))
    for placed in outline(spec).placed:
        study_statement(study, placed)
    study_plan(study, spec, plan)
    pending = max((s.pending for s in all_steps(plan) if isinstance(s, Wait)), default=0)
    chosen: dict[str, tuple[Recurrence, int]] = {}
    for name in sorted(long - study.uncut.keys()):
        common = join_recurrences(study.courses.get(name, []))
        assert common is not None
        reach = max(1, study.reach.get(name, 0))  # periods within which two trips can meet
        head = common.period * reach + pending + 1
        exposed = study.find_exposed(name, common, head)
        both = join_recurrences([common, exposed])
        if both is None:
            study.refuse(name, "its places follow no rule, and are too many to look at", None)
        else:
            chosen[name] = both, head
    return Cut(Trips(chosen), tuple(study.uncut.values()))


def _around(spec: Spec, inner: str) -> set[str]:
    """The loops that hold one, by the names of their trips."""
    loops = outline(spec).loops
    holding = (p.meant.loops for p in outline(spec).placed
               if isinstance(p.statement, Loop) and loops[p.number].trip.name == inner)  # fmt: skip
    return {one.trip.name for around in holding for one in around}


def _counts(count: Index, places: Places) -> list[Index]:
    """The different counts that a loop has in some CTAs."""
    return list(dict.fromkeys(substitute(count, numbers) for numbers in places))


# ---------------------------------------------------------------- loops as long as a parameter says
@dataclass(frozen=True)
class Lengths:
    """Cases of the parameters with which loops have few trips, and what is not proven since not all that can differ are
    among them.
    """

    cases: tuple[dict[str, int], ...] = ()
    notes: tuple[str, ...] = ()


def trip_cases(spec: Spec, plan: Plan, ctas: Sequence[Cta], default: Mapping[str, int]) -> Lengths:
    """Values of each parameter with which a loop that it bounds has 0, 1, 2, ... trips, up to all that can differ.

    Of a loop whose trips differ between CTAs, the longest has so many. A longer loop begins and ends as one of these,
    and goes on in between as with the defaults, which the other parameters have; or their largest or least, or those
    of these three with which it has most trips.
    """
    counted = dict.fromkeys((one.loop.var.name, one.trip, one.count) for one in outline(spec).loops)  # roles share some
    if all(isinstance(count, int) for _, _, count in counted):
        return Lengths()
    cases, notes = [], []
    least = {p.name: p.var.step for p in spec.params if p.var is not None}
    largest = {p.name: (p.var.bound - 1) // p.var.step * p.var.step for p in spec.params if p.var is not None}
    trips = choose_trips(spec, plan, ctas, default, few=0, looks=False).trips
    for var, trip, count in counted:
        named = names_of(count)
        bounds = [p.var for p in spec.params if p.var is not None and p.launched is None and p.name in named]
        is_shared = any(p.launched is not None and p.name in named for p in spec.params)  # ``few_counts`` are tried
        if not bounds or is_shared or not named <= {*default, *CTA_AXES, *CLUSTER_AXES}:
            continue
        shown = _most_trips(spec, count, default)  # by the run with the defaults
        for param in bounds:
            if trip.name in trips.loops:
                enough = trips.most(trip.name, shown) + 1
            else:
                enough = _look_for_enough(spec, plan, trip.name, count, default, param.name)
            others = [default, largest, least, _find_longest(spec, count, [default, largest, least])]
            others = others[: 4 if len(default) > 1 else 1]
            mosts = [cache(partial(_most_with, spec, count, other, param.name)) for other in others]
            enough = min(enough, 1 + max(most(n) for most in mosts for n in (param.step, largest[param.name])))
            if enough > _MOST_CASES:
                notes.append(f"not proven: the loop over {var} with {_MOST_CASES} to {enough - 1} trips")
            for wanted in (n for n in range(min(enough, _MOST_CASES)) if n != shown):
                tried = ((other, _least_value(param, most, wanted)) for other, most in zip(others, mosts, strict=True))
                found = ({**other, param.name: value} for other, value in tried if value is not None)
                cases += [case for case in found if is_possible(spec, case)][:1]
    return Lengths(tuple(cases), tuple(notes))


def _find_longest(spec: Spec, count: Index, cases: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
    """The first of these cases, with the values that parameters have in any of them by which a loop has most trips."""
    first = cases[0]
    named = sorted(names_of(count) & first.keys())[:_MOST_NAMED]
    values = [dict.fromkeys(case[name] for case in cases) for name in named]
    found = ({**first, **dict(zip(named, some, strict=True))} for some in product(*values))
    return max(
        (case for case in found if is_possible(spec, case)), key=partial(_most_trips, spec, count), default=first
    )


def _look_for_enough(
    spec: Spec, plan: Plan, loop: str, count: Index, default: Mapping[str, int], param: str
) -> int:  # fmt: skip
    """How many lengths of a loop show what any length does, as far as all its trips with the largest value of a
    parameter tell: it begins, ends and turns as there. One whole stretch is among them, as that run may be left out.
    """
    cases = [case for case in largest_cases(spec, default) if case[param] != default[param]]
    case = cases[0] if cases else default
    found = choose_trips(spec, plan, corners(launch_of(spec, case).grid), case, few=0).trips
    if loop not in found.loops:
        return _SOME_CASES
    common, head = found.loops[loop]
    return found.most(loop, _most_trips(spec, count, case)) + head + common.period + 1


def _most_with(spec: Spec, count: Index, others: Mapping[str, int], name: str, value: int) -> int:
    return _most_trips(spec, count, {**others, name: value})


def _least_value(param: Var, most: Callable[[int], int], wanted: int) -> int | None:
    """A value of a parameter with which a loop has as many trips, the least where more have more; None if none has.

    ``most``: the trips that it has with a value, which rise or fall along them.
    """
    low, high = 1, (param.bound - 1) // param.step
    falls = most(high * param.step) < most(low * param.step)
    while low < high:
        middle = (low + high) // 2
        here = most(middle * param.step)
        if here > wanted if falls else here < wanted:
            low = middle + 1
        else:
            high = middle
    found = low * param.step
    return found if most(found) == wanted else None


def _most_trips(spec: Spec, count: Index, case: Mapping[str, int]) -> int:
    """The trips that a loop has in the CTA that makes most of them."""
    left = substitute(count, case)
    if isinstance(left, int):
        return max(0, left)
    values = default_values(spec.params) | dict(case)
    grid = [int(evaluate(g, values)) for g in spec.grid]
    named = names_of(left)
    axes: dict[str, Any] = {}
    for n, (axis, inner, extent) in enumerate(zip(CTA_AXES, CLUSTER_AXES, grid, strict=True)):
        many = min(extent, _MOST_CTAS) if axis in named or inner in named else 1
        each = np.arange(many) * (extent - 1) // max(1, many - 1)
        axes[axis] = each.reshape([-1 if d == n else 1 for d in range(3)])
        axes[inner] = axes[axis] % spec.cluster[n]
    return max(0, int(np.max(evaluate(left, axes))))


# ---------------------------------------------------------------- how long a run takes, and what it leaves out
def describe_trips(spec: Spec, case: Mapping[str, int], trips: Trips) -> tuple[str, ...]:
    """Of each loop that was cut, how many of its trips ran."""
    notes = []
    for one in outline(spec).loops:
        known = substitute(one.count, case)
        most = bound(known) - 1
        few = trips.count(one.trip.name, most)
        if few < most:
            period = trips.period(one.trip.name)
            ran = f"{few} of {most} trips" if isinstance(known, int) else f"{few} of up to {most} trips"
            what = "every trip goes as the last" if period == 1 else f"every {period} trips go as the last {period}"
            notes.append(f"of the loop over {one.loop.var.name}, {ran} were run: in between, {what}")
    return tuple(notes)


def count_steps(plan: Plan, case: Mapping[str, int], trips: Trips) -> int:
    """Steps that a run carries out at most, with only those trips."""
    return sum(_count(role.steps, dict(case), trips) for role in plan.roles)


def _count(steps: Sequence[Step], case: Mapping[str, Index], trips: Trips) -> int:
    total = 0
    for step in steps:
        if isinstance(step, Let):
            case = {**case, step.var.name: substitute(step.value, case)}
        inner = _count(effects(step).body, case, trips)
        if isinstance(step, Repeat):
            total += trips.count(step.var.name, max(0, bound(substitute(step.count, case)) - 1)) * (inner + 1)
        else:
            total += inner + 1
    return total


def count_work(plan: Plan, ctas: Sequence[Cta], case: Mapping[str, int], trips: Trips) -> int:
    """Threads that carry out steps in a run."""
    return count_steps(plan, case, trips) * max(_LEAST_THREADS, len(ctas) * plan.threads)


def find_largest(spec: Spec) -> Region | None:
    """The region of a global array that has most of the elements which one op takes at once."""
    regions = [r for call in outline(spec).calls for r in call.regions.values() if r.buffer.traits.is_array]
    return max(regions, key=lambda r: prod(r.lengths), default=None)


def has_room(spec: Spec, ctas: Sequence[Cta]) -> bool:
    """Whether what an op takes in all CTAs of a run fits in memory, element by element."""
    largest = find_largest(spec)
    return largest is None or len(ctas) * prod(largest.lengths) <= _MOST_ELEMENTS


def is_affordable(
    spec: Spec, plan: Plan, ctas: Sequence[Cta], case: Mapping[str, int], trips: Trips, most: int | None = None
) -> bool:
    """Whether a run takes no longer than a minute or so: at most so many threads that carry out steps."""
    return has_room(spec, ctas) and count_work(plan, ctas, case, trips) <= (most or _MOST_WORK)


def too_long(spec: Spec, plan: Plan, ctas: Sequence[Cta], case: Mapping[str, int], cut: Cut) -> Diagnostic:
    """The error for a kernel that no run can prove."""
    largest = find_largest(spec)
    if largest is not None and not has_room(spec, ctas):
        each = f"{prod(largest.lengths)} elements of {largest.buffer.name} in {len(ctas)} CTA{'s' * (len(ctas) > 1)}"
        message = f"the proof would run an op on {each}, and has room for {_MOST_ELEMENTS} elements"
        hint = "let more CTAs share the work, `grid: {bx: N}`, and each take a part of the array"
        return Diagnostic(TOO_LONG, message, largest.mark, hint)
    message = f"the proof would run {count_steps(plan, case, cut.trips)} steps"
    if not cut.uncut:
        return Diagnostic(TOO_LONG, f"{message}, which is too many", hint="let more CTAs share the work")
    why = cut.uncut[0]
    return Diagnostic(TOO_LONG, f"{message}: all trips of '{why.loop}', since {why.what}", why.mark, why.hint)
