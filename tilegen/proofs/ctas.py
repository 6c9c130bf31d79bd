"""Which CTAs a proof runs: the corners of the grid, one for each outcome of every condition on a block axis, and one
for each residue of a block axis after which addresses and conditions repeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Index, Var, evaluate, substitute, variables
from tilegen.index.courses import course, pick_values
from tilegen.interpret import corners
from tilegen.interpret.threads import Cta
from tilegen.kept import keep
from tilegen.plan import Plan, begin, walk
from tilegen.proofs.boxes import read_boxes, written_boxes
from tilegen.proofs.partition import are_own
from tilegen.proofs.questions import decisions_of
from tilegen.proofs.residues import MOST_RESIDUES, Residues, find_ends
from tilegen.proofs.rewriting import find_rewriting
from tilegen.scopes import CTA_AXES
from tilegen.spec.data import Spec
from tilegen.spec.outline import outline

MOST_LOOKED_AT = 1 << 12  # CTAs that are compared with one another where more than that may differ
_MOST_CTAS = 1 << 22  # that are looked at for an outcome


def choose_ctas(
    spec: Spec, plan: Plan, periods: Sequence[Residues], grid: Cta, case: Mapping[str, int], most: int = MOST_RESIDUES
) -> list[Cta]:  # fmt: skip
    """First, second, second last and last CTA of each dimension, and the first and last of each outcome of a condition
    and of each way in which elements are touched twice.

    Then one for each residue of the block axes, where places in memory depend on more than a step along an axis.
    ``periods``: what ``find_periods`` found, of each axis. ``most``: so many are taken for residues.
    """
    chosen = list(dict.fromkeys([*corners(grid), *_residues(periods, grid, most)]))
    conditions = [c for c in _list_decisions(spec) if _is_of_ctas(c, case)]
    for condition in conditions:
        axes = _telling_ctas(substitute(condition, case), grid)
        everywhere = dict(zip(CTA_AXES, axes, strict=True))
        outcome = np.broadcast_to(np.asarray(evaluate(condition, {**case, **everywhere})), axes[0].shape)
        first, last = find_ends(outcome.astype(np.int64))
        extremes = {0, len(first) - 1}  # of a loop's bound: the least and the greatest
        found = [int(ends[k]) for k in extremes for ends in (first, last)]
        chosen += [(int(axes[0][i]), int(axes[1][i]), int(axes[2][i])) for i in found]
    chosen += [cta for rewriting in find_rewriting(spec, plan, case) for cta in rewriting.ends()]
    return list(dict.fromkeys(chosen))


@keep
def _list_decisions(spec: Spec) -> tuple[Index, ...]:
    """All that decides whether and how often statements run, each once."""
    return tuple(dict.fromkeys(x for p in outline(spec).placed for x in decisions_of(spec, p)))


def exchanges(spec: Spec, plan: Plan) -> bool:
    """Do CTAs read of an array what others may write?

    Not where the spec has each read what it writes itself, the same box. A plan that reads elsewhere does not go along
    with the spec's places, and is run there.
    """
    names = {m.name for m in plan.memories if m.space == "global" and _is_read_and_written(plan, m.name)}
    return any(not _reads_own(spec, name) for name in names)


def _reads_own(spec: Spec, name: str) -> bool:
    """Is every box that the spec reads of an array one that the CTA owns? False where it reads none."""
    owns = [o for o in written_boxes(spec) if o.memory.name == name]
    reads = [r for r in read_boxes(spec) if r.memory.name == name]
    return bool(reads) and are_own(reads, owns)


def _is_read_and_written(plan: Plan, name: str) -> bool:
    """Does the plan read and write an array?"""
    found = [t for role in plan.roles for v in walk(role.steps, begin(role.threads)) for t in v.effects.touches
             if v.position.flat(t.ref)[0].name == name]  # fmt: skip
    return any(t.reads for t in found) and any(t.writes for t in found)


def shows_all(periods: Sequence[Residues], grid: Cta, most: int = MOST_RESIDUES) -> bool:
    """Does ``choose_ctas`` take so few CTAs that all which differ are among them?"""
    are_known = all(p.period is not None and min(p.period, n) <= most for p, n in zip(periods, grid, strict=True))
    return prod(grid) <= most or (
        are_known and prod(len(_spread(p, n, most)) for p, n in zip(periods, grid, strict=True)) <= most
    )


def _residues(periods: Sequence[Residues], grid: Cta, most: int) -> list[Cta]:
    """A CTA for each combination of residues; where those are too many, for those of each axis by itself."""
    if prod(grid) <= most and any(p.period is None for p in periods):
        return [(x, y, z) for z, y, x in product(*map(range, grid[::-1]))]
    values = [_spread(p, n, most) for p, n in zip(periods, grid, strict=True)]
    if prod(map(len, values)) <= most:
        return [(x, y, z) for z, y, x in product(*values[::-1])]
    return [(*(0,) * d, x, *(0,) * (2 - d)) for d in range(3) for x in values[d]]  # type: ignore[misc]


def _spread(found: Residues, extent: int, most: int) -> list[int]:
    """The residues of an axis, or as many values all over it as are affordable."""
    period = found.period
    if period is not None and min(period, extent) <= most:
        last = range(max(0, extent - period), extent) if found.twice else ()
        return sorted({*range(min(period, extent)), *last, *found.shown})
    return sorted({k * (extent - 1) // (MOST_RESIDUES - 1) for k in range(MOST_RESIDUES)})


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
