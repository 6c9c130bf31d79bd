"""Who owns what at every size: sizes with which the owners of all elements are counted, and what that shows.

Owners change with a size where a condition on their boxes has another outcome, and from residue to residue of what is
divided: a size is taken for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np

from tilegen.index import Index, Var, evaluate, mul, to_c, total, variables
from tilegen.index.linear import linear
from tilegen.index.recurrences import join_recurrences, recurrence
from tilegen.plan import Plan
from tilegen.proofs.bids import MOST_BOXES
from tilegen.proofs.boundary_sizes import boundary_sizes, group_observed, halve_sizes, is_sized, largest_cases, say_case
from tilegen.proofs.claims import claimed_arrays
from tilegen.proofs.finding import NO_OWNER, NOT_PARTITIONED, Finding
from tilegen.proofs.meaning import few_counts, parameter_cases
from tilegen.proofs.observed import Observed, parts_with
from tilegen.proofs.owned_boxes import Owned, read_boxes, written_boxes
from tilegen.proofs.partition import check_partition, check_reads
from tilegen.proofs.tables import own_by_number
from tilegen.spec.data import Spec

_FEW_RESIDUES = 8  # of a parameter of more values than these, where no rule is known
_MOST_VALUES = 1 << 10
_MOST_RESIDUES = 64
_MOST_CELLS = 1 << 20  # residues, times values of all else that an expression names
_FEW_BOXES = 1 << 18  # of one array, where its owners are counted at many sizes

Case = Mapping[str, int]


@dataclass(frozen=True)
class CountedOwners:
    """What counting owners has shown with each of some sizes, up to the first with an error.

    ``usual``: those that every proof takes. ``unlooked``: arrays that these leave open, which has a warning.
    ``unsure``: workspaces of which it is not shown at every size who owns what, and why not.
    """

    usual: tuple[Case, ...]
    found: tuple[tuple[Case, Finding], ...]
    unlooked: tuple[Finding, ...]
    notes: tuple[str, ...]
    unsure: tuple[tuple[str, str], ...] = ()


def check_owners(spec: Spec, plan: Plan, boxes: Sequence[Owned] | None = None) -> CountedOwners:
    """Count the owners of all elements: at the usual sizes, the largest, and wherever owners may change.

    ``boxes``: those that are written, in place of all of the spec's, and none is read.
    """
    by_number = own_by_number(written_boxes(spec) if boxes is None else boxes)
    usual, owns, reads = parameter_cases(spec), by_number.boxes, read_boxes(spec) if boxes is None else ()
    usual += [case for case in launch_cases(spec, usual[0]) if case not in usual]
    sizes = owner_sizes(spec, owns, usual[0])
    found: list[tuple[Case, Finding]] = [(usual[0], f) for f in by_number.wrong]
    for name in sorted(by_number.arrays):
        if not may_be_partial(spec, plan, name):
            message = f"a table decides which elements of {name} are written, and others may have no owner"
            hint = f"say 'partial: true' on '{name}'"
            found.append((usual[0], Finding(NO_OWNER, message, "error", -1, name, hint=hint)))
    unlooked, notes, unsure = list[Finding](), list(sizes.notes), _list_unsure(spec, owns, usual[0])

    claimed = claimed_arrays(spec)

    def count(case: Case, most: int) -> list[Finding]:
        own = [*check_partition(plan, owns, case, most), *check_reads(plan, owns, reads, case, most)]
        own = [f for f in own if f.code != NO_OWNER or f.memory not in by_number.arrays | claimed]
        found.extend((case, f) for f in own if f.code != NOT_PARTITIONED)
        for f in own:
            if f.code == NOT_PARTITIONED and spec.buffer(f.memory).traits.is_brought:
                unsure.setdefault(f.memory, f.message)
        return [f for f in own if f.code == NOT_PARTITIONED]

    def is_wrong() -> bool:
        return any(
            f.severity == "error" or (f.code == NO_OWNER and not may_be_partial(spec, plan, f.memory)) for _, f in found
        )

    for case in usual:
        unlooked += [] if is_wrong() else count(case, MOST_BOXES)
    for case in (case for case in sizes.cases if case not in usual):
        notes += [] if is_wrong() else [f"{f.message}, with {say_case(case)}" for f in count(case, _FEW_BOXES)]
    for largest in largest_cases(spec, usual[0], with_counts=True):
        size: Case | None = None if is_wrong() else largest
        while size is not None and size not in usual and count(size, _FEW_BOXES):
            size = halve_sizes(spec, usual[0], size)
    said = tuple(dict.fromkeys(unlooked)), tuple(dict.fromkeys(notes)), tuple(unsure.items())
    return CountedOwners(tuple(usual), tuple(found), *said)


def _list_unsure(spec: Spec, owns: Sequence[Owned], default: Case) -> dict[str, str]:
    """Workspaces whose boxes have sizes that nothing here speaks for, each with the first note."""
    names = [b.name for b in spec.buffers if b.traits.is_brought]
    notes = {name: owner_sizes(spec, [o for o in owns if o.memory.name == name], default).notes for name in names}
    return {name: said[0] for name, said in notes.items() if said}


def may_be_partial(spec: Spec, plan: Plan, name: str) -> bool:
    """Elements of an array that is also read keep what they are; of an output, only where the spec says so."""
    is_output = any(m.name == name and m.access == "out" for m in plan.memories)
    buffer = spec.buffer(name)
    return buffer.traits.is_brought or (spec.whole is None and (buffer.partial or not is_output))


def launch_cases(spec: Spec, default: Case) -> list[dict[str, int]]:
    """The usual sizes with other counts of CTAs, where the launch alone knows how many there are: fewer, more, few."""
    cases: list[dict[str, int]] = []
    for p in spec.params:
        if p.launched is not None and p.var is not None:
            near = [default[p.name] + k * p.var.step for k in (-1, 1)]
            found = [n for n in (*few_counts(p), *near) if p.var.least <= n < p.var.bound]
            cases += [{**default, p.name: n} for n in found]
    return [case for case in cases if is_sized(spec, case)]


@dataclass(frozen=True)
class OwnerSizes:
    """Sizes beside the usual and the largest with which owners are counted, and what these leave unproven."""

    cases: tuple[dict[str, int], ...]
    notes: tuple[str, ...]


def owner_sizes(spec: Spec, owns: Sequence[Owned], default: Case) -> OwnerSizes:
    """A size for each outcome of the conditions on owned boxes, and for each residue that a parameter has a say by.

    Where no rule is known along a parameter, each of its values, or where these are many a few, with a note.
    """
    boundaries = boundary_sizes(spec, group_observed(spec, _ask_owners(owns)), default, [default])
    cases, notes = [*boundaries.cases], []
    said = "not proven: who owns what at every size, {} of the {} values of {} were looked at"
    for name, var in ((p.name, p.var) for p in spec.params if p.var is not None):
        every = range(-(-max(1, var.least) // var.step) * var.step, var.bound, var.step)
        values = _residues_of(owns, var, default)
        if values is None and len(every) <= _MOST_VALUES:
            values = [*every]
        elif values is None or len(values) > _MOST_RESIDUES:
            few = _FEW_RESIDUES if values is None else _MOST_RESIDUES
            values = [default[name] + k * var.step for k in range(1, few)]
            notes.append(said.format(few, len(every), name))
        cases += [{**default, name: value} for value in values if value < var.bound]
    notes += [f"not proven: who owns what where '{to_c(x)}' comes out otherwise" for x in boundaries.unshown]
    return OwnerSizes(tuple(case for case in cases if is_sized(spec, case)), tuple(notes))


def _ask_owners(owns: Sequence[Owned]) -> Iterator[Observed]:
    """Where each owned box lies, and when it is written."""
    return (Observed(x, o.loops, (o.condition,)) for o in owns for x in o.start)


def _residues_of(owns: Sequence[Owned], var: Var, default: Case) -> Sequence[int] | None:
    """Values of a parameter behind its default at which what the owned boxes depend on changes, within a period after
    which it repeats; None where no rule is known.
    """
    asked = dict.fromkeys(x for o in owns for x in (*o.start, o.condition, *(count for _, count in o.loops)))
    named = [x for x in asked if not isinstance(x, int) and var in variables(x)]
    courses = [None if _moves_apart(x, var) else recurrence(x, replace(var, step=1)) for x in named]
    common = join_recurrences(courses)
    if common is None:
        return None
    steps = range(
        default[var.name], default[var.name] + common.period * var.step // gcd(common.period, var.step), var.step
    )
    repeating = [x for x, own in zip(named, courses, strict=True) if own is not None and own.period > 1]
    found = set[int]()
    for x in repeating:
        changes = find_changes(x, var, default, steps)
        if changes is None:
            return steps[1:]
        found.update(changes)
    found |= {value - var.step for value in found}
    return sorted(found - {default[var.name]})


def _moves_apart(x: Index, var: Var) -> bool:
    """Do the sides of a minimum or a maximum in an expression rise by different steps along a parameter?

    Then it moves with some values and not with others, so no residue shows all of them.
    """
    for part in parts_with(x, ("min", "max")):
        rules = [recurrence(a, replace(var, step=1)) for a in part.args]
        if None in rules or len({rule.over(join_recurrences(rules).period) for rule in rules}) > 1:  # type: ignore[union-attr]
            return True
    return False


def find_changes(x: Index, var: Var, default: Case, values: range) -> Sequence[int] | None:
    """The values of a parameter at which an expression is not what it was before, for some value of all else; None for
    too many to look at.
    """
    x = total((c, f) for f, c in linear(x).items() if f != 1 and _names(f, var))  # the other terms stay
    fixed = {name: value for name, value in default.items() if name != var.name}
    others = sorted({v for v in variables(x) if v.name not in default}, key=lambda v: v.name)
    extents = [-(-(v.bound - v.least) // v.step) for v in others]
    if not others and (rises_alone(x, var) or rises_alone(mul(x, -1), var)):
        return _bisect_changes(lambda value: int(evaluate(x, {**fixed, var.name: value})), values)
    if len(values) * prod(extents) > _MOST_CELLS:
        return None
    ranges = [np.arange(v.least, v.bound, v.step) for v in others]
    axes = np.meshgrid(np.array(values), *ranges, indexing="ij", sparse=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = evaluate(x, {**fixed, var.name: axes[0], **dict(zip((v.name for v in others), axes[1:], strict=True))})
    rows = np.broadcast_to(np.asarray(found, np.int64), (len(values), *extents)).reshape(len(values), -1)
    return [values[int(k) + 1] for k in np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1))]


def rises_alone(x: Index, var: Var) -> bool:
    """Does an expression never fall along a variable: sums of quotients by positive numbers, of sums that rise?

    >>> n = Var("n", 1 << 30)
    >>> rises_alone((n + 8191) // 8192 * 2 + 1, n), rises_alone(n % 3, n), rises_alone(9 - n, n)
    (True, False, False)
    """
    if isinstance(x, (int, Var)) or not _names(x, var):
        return True
    first, *rest = x.args
    is_positive = all(isinstance(n, int) and n > 0 for n in rest)
    if x.symbol in ("+", "min", "max"):
        return all(rises_alone(a, var) for a in x.args)
    return x.symbol in ("*", "/") and is_positive and rises_alone(first, var)


def _names(x: Index, var: Var) -> bool:
    return any(v.name == var.name for v in variables(x))


def _bisect_changes(at: Callable[[int], int], values: range) -> Sequence[int] | None:
    """Where a function that never falls, or never rises, changes, by halves; None where that is too often."""
    found, left = list[int](), [(0, len(values) - 1, at(values[0]), at(values[-1]))]
    while left:
        low, high, first, last = left.pop()
        if first == last:
            continue
        if high == low + 1:
            found.append(values[high])
            if len(found) > _MOST_RESIDUES:
                return None
            continue
        middle = (low + high) // 2
        between = at(values[middle])
        left += [(low, middle, first, between), (middle, high, between, last)]
    return found
