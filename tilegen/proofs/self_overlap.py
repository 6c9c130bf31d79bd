"""Which elements of a global array a CTA touches more than once, and in which trips; or the CTAs of its cluster.

What it does there depends on the order of its own threads and trips, and on what the others load for it. Where CTAs
differ in that, one that is right says nothing of another, although both go along with the spec.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.index.rows import sort_distinct
from tilegen.interpret.threads import Cta
from tilegen.kept import keep
from tilegen.plan import Plan, default_values
from tilegen.proofs.bids import CoveredCells, Thinned, name_cta
from tilegen.proofs.owned_boxes import Owned, touched_boxes
from tilegen.proofs.partition import LinedUp, line_up
from tilegen.scopes import CTA_AXES
from tilegen.spec.data import Spec
from tilegen.spec.outline import written_roots

_MOST_BOXES = 1 << 21
_SOME_VALUES = 8  # of a loop or an axis, beyond which it is asked which are enough


@dataclass(frozen=True)
class SelfOverlap:
    """Of each CTA that touches an element of an array twice a name for how it does: the same for the same.

    ``thinned``: of an axis the values that were looked at, of all if it is not there. ``is_large``: none was.
    """

    array: str
    names: Mapping[Cta, bytes]
    thinned: Mapping[str, Thinned] = field(default_factory=dict)
    is_large: bool = False

    def name(self, cta: Cta) -> object:
        """The same for CTAs that do the same to the array; of what is too large to compare each is like no other."""
        if self.is_large:
            return self.array, cta
        x, y, z = (self.thinned[axis].stand_in(n) if axis in self.thinned else n
                   for axis, n in zip(CTA_AXES, cta, strict=True))  # fmt: skip
        return self.array, self.names.get((x, y, z), b"")

    def ends(self, grid: Cta) -> list[Cta]:
        """The first and the last CTA of each name, and of those without one: there nothing is touched twice."""
        first = {name: cta for cta, name in reversed([*self.names.items()])}
        last = {name: cta for cta, name in self.names.items()}
        return [*first.values(), *last.values(), *([] if self.is_large else self._find_free(grid))]

    def _find_free(self, grid: Cta) -> list[Cta]:
        each = [self.thinned[axis].values if axis in self.thinned else np.arange(n)
                for axis, n in zip(CTA_AXES, grid, strict=True)]  # fmt: skip
        numbers = np.ravel_multi_index(np.meshgrid(*each, indexing="ij"), grid).ravel()
        named = np.ravel_multi_index(np.array([*self.names]).reshape(-1, 3).T, grid)
        free = np.sort(numbers[~np.isin(numbers, named)])
        free = free[[0, -1]] if len(free) else free
        return [(int(x), int(y), int(z)) for x, y, z in zip(*np.unravel_index(free, grid), strict=True)]


def find_self_overlap(spec: Spec, plan: Plan, case: Mapping[str, int]) -> tuple[SelfOverlap, ...]:
    """How CTAs touch elements twice, of each array that is written of which some do, or may do: what is too large to
    compare counts as different in each.
    """
    boxes = tuple(box for box in touched_boxes(spec) if box.memory.name in written_roots(spec))
    return _find_self_overlap(plan, boxes, tuple(case.items()))


@keep
def _find_self_overlap(plan: Plan, boxes: Sequence[Owned], case: Sequence[tuple[str, int]]) -> tuple[SelfOverlap, ...]:
    values = default_values(plan.params) | dict(case)
    found = []
    for name in dict.fromkeys(box.memory.name for box in boxes):
        own = [box for box in boxes if box.memory.name == name]
        if len(own) == 1 and not own[0].loops and plan.cluster == (1, 1, 1):
            continue  # nothing to overlap
        lined = line_up(plan, own, values, _MOST_BOXES, _SOME_VALUES)
        if isinstance(lined, LinedUp):
            names = _name_ctas(lined, plan.cluster)
            thinned = {axis: t for axis, t in lined.thinned.items() if axis in CTA_AXES}
            found += [SelfOverlap(name, names, thinned)] if names else []
        else:
            found.append(SelfOverlap(name, {}, is_large=True))
    return tuple(found)


def _name_ctas(lined: LinedUp, cluster: Cta) -> dict[Cta, bytes]:
    """Of each CTA with boxes that overlap, or in a trip those of its cluster, a name for which do, and how they lie."""
    cells, grid = lined.cells, lined.bids[0].grid
    at = np.stack([cells.cta % grid[0], cells.cta // grid[0] % grid[1], cells.cta // grid[0] // grid[1]])
    ranks, place = at % np.reshape(cluster, (3, 1)), at // np.reshape(cluster, (3, 1))
    whole = np.ravel_multi_index(tuple(place), tuple(-(-n // c) for n, c in zip(grid, cluster, strict=True)))
    rank = np.ravel_multi_index(tuple(ranks), cluster)
    trip = cells.trip[cells.box]
    in_cta = _find_neighbours((cells.cell, whole, rank), (cells.bid, trip))
    in_cluster = _find_neighbours((cells.cell, whole, trip, cells.bid), (rank,))
    first, second = np.concatenate([in_cta, in_cluster], axis=1)
    if not len(first):
        return {}
    overlaps = _describe_overlaps(cells, first, second)
    rows = sort_distinct([whole[first], rank[first], rank[second], *overlaps])
    firsts = np.flatnonzero(np.diff(rows[:, 0], prepend=-1))
    parts = np.split(rows[:, 1:], firsts[1:])
    name = {int(n): hashlib.sha256(part.tobytes()).digest() for n, part in zip(rows[firsts, 0], parts, strict=True)}
    ctas = dict(zip(cells.cta.tolist(), whole.tolist(), strict=True))
    return {name_cta(cta, grid): name[n] for cta, n in ctas.items() if n in name}


def _find_neighbours(same: Sequence[NDArray[Any]], others: Sequence[NDArray[Any]]) -> NDArray[np.intp]:
    """(2, pairs): which have all in common of one list, and come one after the other by the other list."""
    order = np.lexsort((*others[::-1], *same[::-1]))
    alike = np.all([column[order[1:]] == column[order[:-1]] for column in same], axis=0)
    return np.stack([order[:-1][alike], order[1:][alike]])


def _describe_overlaps(
    cells: CoveredCells, first: NDArray[np.intp], second: NDArray[np.intp]
) -> list[NDArray[np.int64]]:  # fmt: skip
    """Of boxes that cover one cell which ops, trips and threads they are of, and how far apart they begin."""
    boxes = [cells.box[k] for k in (first, second)]
    of = [column for k, box in zip((first, second), boxes, strict=True) for column in (cells.bid[k], cells.trip[box])]
    return [*of, *(low[boxes[1]] - low[boxes[0]] for low in np.ascontiguousarray(cells.low.T))]
