"""Which CTAs a proof runs: the corners of the grid, one for each outcome of every condition on a block axis, and one
for each residue of a block axis after which addresses and conditions repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Index, Var, add, evaluate, less, substitute, variables
from tilegen.index.courses import Course, course, join_courses, pick_values
from tilegen.interpret import corners
from tilegen.interpret.threads import Cta
from tilegen.plan import Plan, begin, walk
from tilegen.scopes import CTA_AXES
from tilegen.spec.data import Call, Loop, Spec
from tilegen.spec.outline import Placed, deciding, outline, trip_of, write_out

_MOST_RESIDUES = 64  # CTAs that are taken for residues
_MOST_CTAS = 1 << 22  # that are looked at for an outcome


def choose_ctas(spec: Spec, plan: Plan, grid: Cta, case: Mapping[str, int]) -> list[Cta]:
    """First, second, second last and last CTA of each dimension, and one more per outcome that none of them shows.

    Then one for each residue of the block axes, where places in memory depend on more than a step along an axis.
    """
    chosen = list(dict.fromkeys([*corners(grid), *_residues(find_periods(spec, plan, grid, case), grid)]))
    asked = (x for p in outline(spec).placed for x in _decisions(spec, p))
    conditions = [c for c in dict.fromkeys(asked) if _is_of_ctas(c, case)]
    for condition in conditions:
        axes = _telling_ctas(substitute(condition, case), grid)
        everywhere = dict(zip(CTA_AXES, axes, strict=True))
        outcome = np.broadcast_to(np.asarray(evaluate(condition, {**case, **everywhere})), axes[0].shape)
        shown = {int(evaluate(condition, {**case, **dict(zip(CTA_AXES, c, strict=True))})) for c in chosen}
        values, first = np.unique(outcome.astype(np.int64), return_index=True)
        extremes = {0, len(values) - 1}  # of a loop's bound: the least and the greatest
        found = [int(first[k]) for k in extremes if int(values[k]) not in shown]
        chosen += [(int(axes[0][i]), int(axes[1][i]), int(axes[2][i])) for i in found]
    return list(dict.fromkeys(chosen))


def _decisions(spec: Spec, placed: Placed) -> list[Index]:
    """What decides whether, and how often, a statement runs, written out; of a loop, its count too."""
    s, values = placed.statement, write_out(placed, outline(spec).names).values
    counts = trip_of(s, outline(spec).names)[1:2] if isinstance(s, Loop) else ()
    return [substitute(x, values) for x in (*deciding(s), *counts)]


def find_periods(spec: Spec, plan: Plan, grid: Cta, case: Mapping[str, int]) -> tuple[int | None, ...]:
    """Of each block axis, after how many CTAs everything that names it has repeated; None where no rule is known.

    Both count, what the plan does and what the spec says: one may have forgotten what the other depends on.
    """
    found: list[list[Course | None]] = [[] for _ in CTA_AXES]
    for x in dict.fromkeys([*_said_by_spec(spec), *_done_by_plan(plan)]):
        for d, (axis, n) in enumerate(zip(CTA_AXES, grid, strict=True)):
            if n > 1 and any(v.name == axis for v in variables(x)):
                found[d].append(course(substitute(x, case), Var(axis, n)))
    joined = [join_courses(own) for own in found]
    return tuple(None if one is None else one.period for one in joined)


def _done_by_plan(plan: Plan) -> Iterator[Index]:
    for role in plan.roles:
        for visit in walk(role.steps, begin(role.threads)):
            yield from (visit.position.expand(x) for x in visit.effects.expressions)
            for touch in visit.effects.touches:
                yield visit.position.flat(touch.ref)[1]
                yield visit.position.expand(touch.where)


def _said_by_spec(spec: Spec) -> Iterator[Index]:
    for placed in outline(spec).placed:
        yield from _decisions(spec, placed)
        values = write_out(placed, outline(spec).names).values
        for region in placed.statement.regions.values() if isinstance(placed.statement, Call) else ():
            lengths = [Var(f"element{d}", n) if n > 1 else 0 for d, n in enumerate(region.lengths)]
            at = [add(substitute(x, values), e) for x, e in zip(region.begins, lengths, strict=True)]
            yield from (less(x, n) for x, n in zip(at, region.buffer.shape, strict=True))
            yield from region.buffer.layout.place(at, region.buffer.shape).values()


def _residues(periods: Sequence[int | None], grid: Cta) -> list[Cta]:
    """A CTA for each combination of residues; where those are too many, for those of each axis by itself."""
    values = [_spread(p, n) for p, n in zip(periods, grid, strict=True)]
    if prod(map(len, values)) <= _MOST_RESIDUES:
        return [(x, y, z) for z, y, x in product(*values[::-1])]
    return [(*(0,) * d, x, *(0,) * (2 - d)) for d in range(3) for x in values[d]]  # type: ignore[misc]


def _spread(period: int | None, extent: int) -> list[int]:
    """The residues of an axis, or as many values all over it as are affordable."""
    if period is not None and min(period, extent) <= _MOST_RESIDUES:
        return list(range(min(period, extent)))
    return sorted({k * (extent - 1) // (_MOST_RESIDUES - 1) for k in range(_MOST_RESIDUES)})


def _telling_ctas(condition: Index, grid: Cta) -> list[NDArray[np.int64]]:
    """CTAs, by their axes, among which each outcome of a condition occurs that occurs in the grid."""
    picked = []
    for name, n in zip(CTA_AXES, grid, strict=True):
        found = course(condition, Var(name, n))
        picked.append(np.arange(n) if found is None else pick_values(n, found)[0])
    shape = tuple(map(len, picked))
    split = np.unravel_index(np.arange(min(_MOST_CTAS, int(np.prod(shape, dtype=np.int64)))), shape)
    return [values[at] for values, at in zip(picked, split, strict=True)]


def _is_of_ctas(condition: Index, case: Mapping[str, int]) -> bool:
    """Does it name a block axis, and nothing but block axes and parameters?"""
    names = {v.name for v in variables(condition)}
    return bool(names & set(CTA_AXES)) and names <= set(CTA_AXES) | set(case)
