"""Which CTAs a proof runs: the corners of the grid, and one for each outcome of every condition on a block axis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Index, Var, evaluate, substitute, variables
from tilegen.index.courses import course, pick_values
from tilegen.interpret import corners
from tilegen.scopes import CTA_AXES
from tilegen.spec.data import Spec
from tilegen.spec.outline import deciding, outline

_MOST_CTAS = 1 << 22  # that are looked at for an outcome
Cta = tuple[int, int, int]


def choose_ctas(spec: Spec, grid: Cta, case: Mapping[str, int]) -> list[Cta]:
    """First, second, second last and last CTA of each dimension, and one more per outcome that none of them shows."""
    chosen = corners(grid)
    conditions = [c for p in outline(spec).placed for c in deciding(p.statement) if _is_of_ctas(c, case)]
    if not conditions:
        return chosen
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
