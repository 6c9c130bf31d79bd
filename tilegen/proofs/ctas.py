"""Which CTAs a proof runs: the corners of the grid, and one for each outcome of every condition on a block axis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilegen.index import Index, evaluate, variables
from tilegen.interpret import corners
from tilegen.scopes import CTA_AXES
from tilegen.spec.data import Spec
from tilegen.spec.outline import deciding, outline

_MOST_CTAS = 1 << 22  # of the grid that are looked at for an outcome
Cta = tuple[int, int, int]


def choose_ctas(spec: Spec, grid: Cta, case: Mapping[str, int]) -> list[Cta]:
    """First, second, second last and last CTA of each dimension, and one more per outcome that none of them shows."""
    chosen = corners(grid)
    conditions = [c for p in outline(spec).placed for c in deciding(p.statement) if _is_of_ctas(c, case)]
    if not conditions:
        return chosen
    axes = np.unravel_index(np.arange(min(_MOST_CTAS, int(np.prod(grid, dtype=np.int64)))), grid)
    everywhere = dict(zip(CTA_AXES, axes, strict=True))
    for condition in conditions:
        outcome = np.broadcast_to(np.asarray(evaluate(condition, {**case, **everywhere})), axes[0].shape)
        shown = {int(evaluate(condition, {**case, **dict(zip(CTA_AXES, c, strict=True))})) for c in chosen}
        values, first = np.unique(outcome.astype(np.int64), return_index=True)
        extremes = {0, len(values) - 1}  # of a loop's bound: the least and the greatest
        found = [int(first[k]) for k in extremes if int(values[k]) not in shown]
        chosen += [(int(axes[0][i]), int(axes[1][i]), int(axes[2][i])) for i in found]
    return list(dict.fromkeys(chosen))


def _is_of_ctas(condition: Index, case: Mapping[str, int]) -> bool:
    """Does it name a block axis, and nothing but block axes and parameters?"""
    names = {v.name for v in variables(condition)}
    return bool(names & set(CTA_AXES)) and names <= set(CTA_AXES) | set(case)
