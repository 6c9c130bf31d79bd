"""Boxes of arrays over the whole grid, in numbers: where each CTA's lie, which values of an axis show all of them, and
the cells of a common grid that they cover.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilegen.access import distinct
from tilegen.index import Index, Var, add, bound, evaluate, least, less, mod, substitute, variables
from tilegen.index.bounds import highest
from tilegen.index.recurrences import join_recurrences, pick_values, recurrence
from tilegen.index.runs import counter
from tilegen.plan import Memory, Plan
from tilegen.proofs.owned_boxes import Owned
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, thread_variables

Array = np.ndarray[Any, Any]
MOST_BOXES = 20_000_000  # boxes, and cells that they cover
_MOST_VALUES = 1 << 20  # of an axis near an end or a turn
_MOST_GAPS = 6  # twice the work for each
_ALL = 64  # so many of an axis are taken without asking which are enough


@dataclass(frozen=True)
class Bid:
    """What an Owned says, in numbers and base variables: the axes that its boxes range over, with their extents.

    Of the array, the elements from ``least`` up to ``shape`` are looked at.
    """

    start: tuple[Index, ...]
    box: tuple[int, ...]
    conditions: tuple[Index, ...]
    axes: Mapping[str, int]
    shape: tuple[int, ...]
    least: tuple[int, ...]
    pitches: tuple[int, ...]
    grid: tuple[int, ...]
    op: int


def make_bid(plan: Plan, owned: Owned, params: Mapping[str, int]) -> Bid:
    """CTAs come first among the axes, always, then loops, and tx if a thread variable is used."""
    grid = tuple(int(evaluate(n, params)) for n in plan.grid)
    axes = dict(zip(CTA_AXES, grid, strict=True))
    numbered = thread_variables(owned.threads)
    axes |= {var.name: _most(count, params) for var, count in owned.loops}
    names = {v.name for x in (*owned.start, owned.condition) for v in variables(x)}
    if (names - set(axes)) & set(numbered):
        axes["tx"] = owned.threads
    known: dict[str, Index] = {k: v for k, v in numbered.items() if k not in axes} | dict(params)
    for c, b, n, extent in zip(CLUSTER_AXES, CTA_AXES, plan.cluster, grid, strict=True):
        known[c] = mod(Var(b, extent), n)
    guards = (owned.condition, *(less(var, count) for var, count in owned.loops if not isinstance(count, int)))
    shape, pitches = (tuple(int(evaluate(n, params)) for n in ns) for ns in (owned.memory.shape, owned.memory.pitches))
    start = tuple(substitute(x, known) for x in owned.start)
    conditions, least = tuple(substitute(c, known) for c in guards), (0,) * len(shape)
    return Bid(start, owned.box, conditions, axes, shape, least, pitches, grid, owned.op)


def _most(count: Index, params: Mapping[str, int]) -> int:
    """Trips of a loop at most; one that differs between CTAs or outer trips is cut where the boxes are made."""
    known = all(v.name in params for v in variables(count))
    return max(0, int(evaluate(count, params)) if known else bound(substitute(count, params)) - 1)


# ---------------------------------------------------------------- fewer values of an axis
@dataclass(frozen=True)
class Thinned:
    """Values of an axis that show every overlap of two boxes, in rising order, with gaps of whole periods.

    Over a period every box moves by ``moves``. ``gaps``: the last value before each, and how many periods it has.
    """

    values: Array
    period: int
    moves: tuple[int, ...]
    gaps: tuple[tuple[int, int], ...]

    def stand_in(self, value: int) -> int:
        """The value that shows what this one does: itself, or in a gap one of the period before."""
        last = int(self.values[np.searchsorted(self.values, value, side="right") - 1])
        return value - -(-(value - last) // self.period) * self.period


def thin(bids: Sequence[Bid], some: int | None = None) -> dict[str, Thinned]:
    """The axes of which some values are enough, of those that have more than ``some`` (64 if that is not said).

    Boxes must all move alike along the axis, or all stay where they are. Those that overlap then lie within a reach,
    and so many values are kept near the ends, and wherever a condition or an edge of the array makes a difference. With
    ``some``, boxes that know no such axis may stay where no value that is left out meets them.
    """
    found: dict[str, Thinned] = {}
    few = _ALL if some is None else some
    for name in dict.fromkeys(n for b in bids for n in b.axes):
        own, others = [b for b in bids if name in b.axes], [b for b in bids if name not in b.axes]
        extents = {b.axes[name] for b in own}
        (extent,) = extents if len(extents) == 1 else (0,)
        thinned = _thin_axis(own, name, extent) if extent > few and (some is not None or not others) else None
        if thinned is not None and (not others or _passes_by(own, others, Var(name, extent), thinned)):
            found[name] = thinned
    return found if sum(len(t.gaps) for t in found.values()) <= _MOST_GAPS else {}


def _thin_axis(bids: Sequence[Bid], name: str, extent: int) -> Thinned | None:
    v = Var(name, extent)
    starts = [[recurrence(x, v) for x in b.start] for b in bids]
    guards = [recurrence(c, v) for b in bids for c in b.conditions]
    edges = [
        recurrence(less(passed, edge + 1), v)
        for b in bids for x, size, ends in zip(b.start, b.box, zip(b.least, b.shape, strict=True), strict=True)
        for edge in ends if edge or least(x) < 0 for passed in (x, add(x, size))
    ]  # fmt: skip
    common = join_recurrences([*(c for row in starts for c in row), *guards, *edges])
    if common is None or any(c.breakpoints for row in starts for c in row if c):  # boxes meet across one
        return None
    moves = {tuple(c.over(common.period) for c in row if c) for row in starts}
    if len(moves) > 1:
        return None
    (rises,) = moves
    within: dict[str, Index] = {name: counter(name, common.period)}
    reaches = [0] if not any(rises) else []
    for d in [d for d, rise in enumerate(rises) if rise]:
        first = [substitute(b.start[d], within) for b in bids]
        room = max(highest((x, 1)) for x in first) + max(highest((x, -1)) for x in first)
        reaches.append(-(-(room + max(b.box[d] for b in bids)) // abs(rises[d])))
    margin = (min(reaches) + 2) * common.period
    if margin > _MOST_VALUES:
        return None
    values, _ = pick_values(extent, common, margin, margin)
    before = np.flatnonzero(np.diff(values) > 1)
    left_out = (values[before + 1] - values[before] - 1) // common.period
    gaps = tuple(zip(values[before].tolist(), left_out.tolist(), strict=True))
    return Thinned(values, common.period, rises, gaps) if gaps else None


def _passes_by(own: Sequence[Bid], others: Sequence[Bid], v: Var, thinned: Thinned) -> bool:
    """Does no box of a value that is left out meet one of the others, by one dimension along which it moves?

    In a gap a box lies between where it was a period before and where it is a period behind.
    """

    def span(bids: Sequence[Bid], d: int, values: Sequence[Mapping[str, Index]]) -> tuple[int, int]:
        starts = [(substitute(b.start[d], at), b.box[d]) for b in bids for at in values]
        return min(-highest((x, -1)) for x, _ in starts), max(highest((x, 1)) + size for x, size in starts)

    ends = [(last, last + 1 + count * thinned.period) for last, count in thinned.gaps]
    near = [
        [{v.name: n} for n in (*range(last, last - thinned.period, -1), *range(first, first + thinned.period))]
        for last, first in ends
    ]
    for d in (d for d, rise in enumerate(thinned.moves) if rise):
        low, high = span(others, d, [{}])
        hulls = [span(own, d, values) for values in near]
        if all(last <= low or high <= first for first, last in hulls):
            return True
    return False


def count_boxes(bids: Sequence[Bid], thinned: Mapping[str, Thinned]) -> int:
    sizes = (prod(len(thinned[n].values) if n in thinned else extent for n, extent in b.axes.items()) for b in bids)
    return sum(sizes)


# ---------------------------------------------------------------- boxes and the cells that they cover
def is_same_form(a: Memory, b: Memory) -> bool:
    return (a.name, a.shape, a.pitches) == (b.name, b.shape, b.pitches)


@dataclass(frozen=True)
class OwnedBoxes:
    """Boxes of one bid: of each the number of its CTA, that of its trips and threads, and both corners."""

    cta: Array
    trip: Array
    low: Array
    high: Array


def list_boxes(bid: Bid, values: Mapping[str, Array], closed: Mapping[str, Thinned]) -> OwnedBoxes:
    """All that there are, clipped at what is looked at of the memory."""
    axes = {name: values[name] if name in values else np.arange(extent) for name, extent in bid.axes.items()}
    at: dict[str, Any] = dict(zip(axes, np.meshgrid(*axes.values(), indexing="ij", sparse=True), strict=True))
    full = tuple(len(a) for a in axes.values())

    def spread(x: Index) -> Array:
        return np.broadcast_to(np.asarray(evaluate(x, at)), full).ravel()

    keep = np.ones(prod(full), bool)
    for condition in bid.conditions:
        keep &= spread(condition).astype(bool)
    number = np.broadcast_to(at["bx"] + bid.grid[0] * (at["by"] + bid.grid[1] * at["bz"]), full).ravel()
    trip: Any = np.zeros((1,) * len(full), np.int64)
    for name, extent in bid.axes.items():
        trip = trip * extent + at[name] if name not in CTA_AXES else trip
    trip = np.broadcast_to(trip, full).ravel()
    low = np.stack([spread(x) for x in bid.start], axis=1)
    low, high = np.maximum(low, bid.least), np.minimum(low + np.array(bid.box), bid.shape)
    keep &= (low < high).all(1)
    for name, t in closed.items():
        left_out = (at[name] - np.arange(len(axes[name])).reshape(at[name].shape)) // t.period
        moved = np.broadcast_to(left_out, full).ravel()[:, None] * np.array(t.moves)
        low, high = low - moved, high - moved
    return OwnedBoxes(number[keep], trip[keep], low[keep], high[keep])


def list_rows(boxes: OwnedBoxes, pitches: Sequence[int]) -> OwnedBoxes:
    """Boxes as intervals of flat offsets, one for each row of each box."""
    low, high = boxes.low, boxes.high
    count = high - low
    inner = pitches.index(1) if 1 in pitches else -1
    if inner >= 0:
        count[:, inner] = 1
    box, at = _spread_out(count)
    start = ((low[box] + at) * np.array(pitches)).sum(1)
    length = (high - low)[box, inner] if inner >= 0 else np.ones(len(box), np.int64)
    return OwnedBoxes(boxes.cta[box], boxes.trip[box], start[:, None], (start + length)[:, None])


def _spread_out(count: Array) -> tuple[Array, Array]:
    """(box, coordinates in it) of every point of boxes of these extents."""
    points = count.prod(axis=1)
    box = np.repeat(np.arange(len(count)), points)
    number = np.arange(len(box)) - np.repeat(np.cumsum(points) - points, points)
    at = np.zeros((len(box), count.shape[1]), np.int64)
    for d in reversed(range(count.shape[1])):
        number, at[:, d] = np.divmod(number, count[box, d])
    return box, at


@dataclass(frozen=True)
class CoveredCells:
    """Cells of the grid that all boxes' ends make: of each cell that a box covers the number of the bid, the CTA, the
    cell and the box. ``edges``: of the grid, along each dimension. ``trip``, ``low``: of each box.
    """

    edges: tuple[Array, ...]
    bid: Array
    cta: Array
    cell: Array
    box: Array
    trip: Array
    low: Array

    def element(self, k: int) -> list[int]:
        """The first element of the cell of entry ``k``."""
        return [int(e[i]) for e, i in zip(self.edges, self._at(self.cell[k]), strict=True)]

    def count_elements(self, cell: Array) -> int:
        """The elements of some cells, together."""
        sizes = [np.diff(e)[i] for e, i in zip(self.edges, self._at(cell), strict=True)]
        return int(np.prod(sizes, axis=0).sum())

    def _at(self, cell: Any) -> tuple[Array, ...]:
        return np.unravel_index(cell, [len(e) - 1 for e in self.edges])


def cover_cells(
    bids: Sequence[Bid],
    values: Mapping[str, Array],
    closed: Mapping[str, Thinned] | None = None,
    as_rows: bool = False,
) -> CoveredCells | str:
    """The cells that boxes cover, for some values of some axes; if it is too much, in words what is.

    ``closed``: gaps in the values of these axes are closed, what comes behind moved up. ``as_rows``: boxes of several
    views of one array are compared by flat offset.
    """
    shape, begin = bids[0].shape, bids[0].least
    parts: list[OwnedBoxes] = []
    for bid in bids:
        shape, part = bid.shape, list_boxes(bid, values, closed or {})
        if as_rows:
            if int((part.high - part.low).prod(axis=1).sum()) > MOST_BOXES:
                return "a large array with views"
            shape, begin = (sum((n - 1) * p for n, p in zip(shape, bid.pitches, strict=True)) + 1,), (0,)
            part = list_rows(part, bid.pitches)
        parts.append(part)
    number = np.repeat(np.arange(len(bids)), [len(part.cta) for part in parts])
    cta, trip, low, high = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("cta", "trip", "low", "high")
    )
    ends = enumerate(zip(begin, shape, strict=True))
    edges = tuple(distinct(np.concatenate([low[:, d], high[:, d], both])) for d, both in ends)
    first, last = (np.stack([np.searchsorted(e, x[:, d]) for d, e in enumerate(edges)], axis=1) for x in (low, high))
    if int((last - first).prod(axis=1).sum()) > MOST_BOXES:
        return f"overlaps of {len(cta)} boxes"
    box, at = _spread_out(last - first)
    cell = np.ravel_multi_index(tuple((first[box] + at).T), tuple(len(e) - 1 for e in edges))
    return CoveredCells(edges, number[box], cta[box], cell, box, trip, low)


def name_cta(number: int, grid: tuple[int, ...]) -> tuple[int, int, int]:
    return number % grid[0], number // grid[0] % grid[1], number // grid[0] // grid[1]
