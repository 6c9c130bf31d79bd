"""No element of an output has two owners, and none is read by another CTA than its owner: the boxes of the whole grid,
compared exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tilegen.access import distinct
from tilegen.index import Index, Var, add, bound, evaluate, less, mod, substitute, variables
from tilegen.index.bounds import highest
from tilegen.index.courses import course, join_courses, pick_values
from tilegen.interpret.fault import TWO_CTAS
from tilegen.plan import Memory, Owned, Plan, default_values
from tilegen.proofs.finding import NO_OWNER, NOT_PARTITIONED, TWO_OWNERS, Finding
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, thread_variables

Array = np.ndarray[Any, Any]
MOST_BOXES = 20_000_000  # boxes, and cells that they cover
_MOST_VALUES = 1 << 20  # of an axis near an end or a turn
_MOST_GAPS = 6  # twice the work for each
_CHUNK = 1 << 18  # elements looked at together
_ALL = 64  # so many values of an axis are taken without asking which are enough


def check_partition(
    plan: Plan, params: Mapping[str, int] | None = None, most_boxes: int = MOST_BOXES
) -> tuple[Finding, ...]:
    """Elements that two CTAs own (errors), how many nobody owns, and what was too large to compare (notes).

    Only the boxes' expressions are evaluated, over CTAs, loops and threads; boxes are compared on the grid of the
    breakpoints of each dimension, so the answer is exact whatever their sizes. Of a long axis along which the boxes
    only move on, the values in the middle are left out: they show nothing that those kept have not shown.
    """
    values = default_values(plan.params) | dict(params or {})
    found: list[Finding] = []
    for name in dict.fromkeys(owned.memory.name for owned in plan.owns):
        found += _check_memory(plan, [o for o in plan.owns if o.memory.name == name], values, most_boxes)
    return tuple(found)


def _check_memory(plan: Plan, owns: Sequence[Owned], params: Mapping[str, int], most_boxes: int) -> list[Finding]:
    name = owns[0].memory.name
    forms = {(o.memory.shape, o.memory.pitches) for o in owns}
    if len(forms) > 1 and not all(any(_same(o.memory, m) for m in plan.memories) for o in owns):
        return [Finding(NOT_PARTITIONED, f"not proven: views of {name} split dimensions", "note", memory=name)]
    bids = [_bid(plan, owned, params) for owned in owns]
    thinned = _thin(bids) if len(forms) == 1 else {}
    if (boxes := _count_boxes(bids, thinned)) > most_boxes:
        return [Finding(NOT_PARTITIONED, f"not proven: {boxes} boxes of {name}", "note", memory=name)]
    cover = _cover(bids, {n: t.values for n, t in thinned.items()}, as_rows=len(forms) > 1)
    if isinstance(cover, str):
        return [Finding(NOT_PARTITIONED, f"not proven: {cover} of {name}", "note", memory=name)]
    if cover.twice is not None:
        element, first, second, op = cover.twice
        is_place = len(element) == len(owns[0].memory.shape)
        which = f"{name}{element}" if is_place else f"{name} at element offset {element[0]}"
        message = f"{which} is owned by CTA {first} and by CTA {second}"
        return [Finding(TWO_OWNERS, message, op=op, memory=name, witness=dict(zip(CTA_AXES, second, strict=True)))]
    if nobody := _count_bare(cover, bids, thinned):
        return [Finding(NO_OWNER, f"{nobody} of {cover.elems} elements of {name} have no owner", "note", memory=name)]
    return []


def check_reads(
    plan: Plan, reads: Sequence[Owned], params: Mapping[str, int] | None = None, most_boxes: int = MOST_BOXES
) -> tuple[Finding, ...]:
    """Elements that a CTA reads and another one owns (errors), and what was too large to compare (notes).

    ``reads``: boxes of arrays that the plan writes too. That no element has two owners is proved.
    """
    values = default_values(plan.params) | dict(params or {})
    found: list[Finding] = []
    for name in dict.fromkeys(r.memory.name for r in reads):
        owns = [o for o in plan.owns if o.memory.name == name]
        found += _check_reads(plan, owns, [r for r in reads if r.memory.name == name], values, most_boxes)
    return tuple(found)


def _check_reads(
    plan: Plan, owns: Sequence[Owned], reads: Sequence[Owned], params: Mapping[str, int], most_boxes: int
) -> list[Finding]:
    name, both = reads[0].memory.name, (*owns, *reads)
    if all(any(_covers(own, read) for own in owns) for read in reads):
        return []
    as_rows = len({(o.memory.shape, o.memory.pitches) for o in both}) > 1
    if as_rows and not all(any(_same(o.memory, m) for m in plan.memories) for o in both):
        return [_unread(f"views of {name} split dimensions", name)]
    bids = [_bid(plan, one, params) for one in both]
    thinned = {} if as_rows else _thin(bids)
    if (boxes := _count_boxes(bids, thinned)) > most_boxes:
        return [_unread(f"{boxes} boxes of {name}", name)]
    values = {axis: t.values for axis, t in thinned.items()}
    parts = [_boxes(bid, values, {}) for bid in bids]
    if as_rows:
        if sum(int((high - low).prod(axis=1).sum()) for _, low, high in parts) > MOST_BOXES:
            return [_unread(f"a large array with views of {name}", name)]
        parts = [_rows(*part, bid.pitches) for part, bid in zip(parts, bids, strict=True)]
    cta, low, high = (np.concatenate(x) for x in zip(*parts, strict=True))
    is_owned = np.arange(len(cta)) < sum(len(part[0]) for part in parts[: len(owns)])
    edges = [distinct(np.concatenate([low[:, d], high[:, d]])) for d in range(low.shape[1])]
    covered = _cells(low, high, edges)
    if covered is None:
        return [_unread(f"overlaps of {len(cta)} boxes of {name}", name)]
    box, cell = covered
    own, read = np.flatnonzero(is_owned[box]), np.flatnonzero(~is_owned[box])
    own = own[np.argsort(cell[own], kind="stable")]
    if not len(own):
        return []
    at = np.minimum(np.searchsorted(cell[own], cell[read]), len(own) - 1)
    owner = cta[box[own[at]]]
    wrong = np.flatnonzero((cell[own[at]] == cell[read]) & (owner != cta[box[read]]))
    if not len(wrong):
        return []
    first = read[wrong[0]]
    counts = [len(e) - 1 for e in edges]
    element = [int(e[i]) for e, i in zip(edges, np.unravel_index(cell[first], counts), strict=True)]
    reader, other = (_name(int(number), bids[0].grid) for number in (cta[box[first]], owner[wrong[0]]))
    which = f"{name} at element offset {element[0]}" if as_rows else f"{name}{element}"
    op = int(np.repeat([b.op for b in bids], [len(part[0]) for part in parts])[box[first]])
    message = f"CTA {reader} reads {which}, which CTA {other} writes: no sync orders CTAs"
    return [Finding(TWO_CTAS, message, op=op, memory=name, witness=dict(zip(CTA_AXES, reader, strict=True)))]


def _unread(what: str, name: str) -> Finding:
    return Finding(NOT_PARTITIONED, f"not proven: who reads what others write, {what}", "note", memory=name)


def _covers(own: Owned, read: Owned) -> bool:
    """Is what is read what the same CTA owns: the same box, wherever it is read?"""
    asked = read.condition if own.condition == read.condition else True
    return replace(own, op=0) == replace(read, condition=asked, op=0)


def _count_boxes(bids: Sequence[_Bid], thinned: Mapping[str, _Thinned]) -> int:
    sizes = (prod(len(thinned[n].values) if n in thinned else extent for n, extent in b.axes.items()) for b in bids)
    return sum(sizes)


@dataclass(frozen=True)
class _Bid:
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


def _bid(plan: Plan, owned: Owned, params: Mapping[str, int]) -> _Bid:
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
    return _Bid(start, owned.box, conditions, axes, shape, least, pitches, grid, owned.op)


def _most(count: Index, params: Mapping[str, int]) -> int:
    """Trips of a loop at most; one that differs between CTAs or outer trips is cut where the boxes are made."""
    known = all(v.name in params for v in variables(count))
    return max(0, int(evaluate(count, params)) if known else bound(substitute(count, params)) - 1)


# ---------------------------------------------------------------- fewer values of an axis
@dataclass(frozen=True)
class _Thinned:
    """Values of an axis that show every overlap of two boxes, in rising order, with gaps of whole periods.

    Over a period every box moves by ``moves``. ``gaps``: the last value before each, and how many periods it has.
    """

    values: Array
    period: int
    moves: tuple[int, ...]
    gaps: tuple[tuple[int, int], ...]


def _thin(bids: Sequence[_Bid]) -> dict[str, _Thinned]:
    """The axes of which some values are enough.

    Boxes must all move alike along the axis, or all stay where they are. Those that overlap then lie within a reach,
    and so many values are kept near the ends, and wherever a condition or an edge of the array makes a difference.
    """
    found: dict[str, _Thinned] = {}
    for name in dict.fromkeys(n for b in bids for n in b.axes):
        extents = {b.axes.get(name) for b in bids}
        (extent,) = extents if len(extents) == 1 else (None,)
        thinned = _thin_axis(bids, name, extent) if extent is not None and extent > _ALL else None
        if thinned is not None:
            found[name] = thinned
    return found if sum(len(t.gaps) for t in found.values()) <= _MOST_GAPS else {}


def _thin_axis(bids: Sequence[_Bid], name: str, extent: int) -> _Thinned | None:
    v = Var(name, extent)
    starts = [[course(x, v) for x in b.start] for b in bids]
    guards = [course(c, v) for b in bids for c in b.conditions]
    edges = [
        course(less(passed, edge + 1), v)
        for b in bids for x, size, ends in zip(b.start, b.box, zip(b.least, b.shape, strict=True), strict=True)
        for edge in ends if edge for passed in (x, add(x, size))
    ]  # fmt: skip
    common = join_courses([*(c for row in starts for c in row), *guards, *edges])
    if common is None:
        return None
    moves = {tuple(c.over(common.period) for c in row if c) for row in starts}
    if len(moves) > 1:
        return None
    (rises,) = moves
    within: dict[str, Index] = {name: Var(name, common.period) if common.period > 1 else 0}
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
    return _Thinned(values, common.period, rises, gaps) if gaps else None


def _count_owned(bids: Sequence[_Bid], thinned: Mapping[str, _Thinned]) -> int:
    """Elements that somebody owns: what one more period in a gap adds, each that the gap leaves out adds too."""
    gaps = [(name, last, count) for name, t in thinned.items() for last, count in t.gaps]
    owned = 0
    for kept in product((False, True), repeat=len(gaps)):
        share, more = 1, {name: [t.values] for name, t in thinned.items()}
        for (name, last, count), is_kept in zip(gaps, kept, strict=True):
            share *= count if is_kept else 1 - count
            more[name] += [np.arange(last + 1, last + 1 + thinned[name].period)] if is_kept else []
        if share:
            values = {name: np.sort(np.concatenate(parts)) for name, parts in more.items()}
            cover = _cover(bids, values, thinned)
            assert isinstance(cover, _Cover)
            owned += share * cover.owned
    return owned


def find_unowned(plan: Plan, name: str, params: Mapping[str, int]) -> list[int] | None:
    """The first element of an array, in row-major order, that no CTA owns; None where that is not known.

    Dimension by dimension, halving: up to where does every element have an owner? Where views are written, whose
    dimensions are not the array's, element by element.
    """
    values = default_values(plan.params) | dict(params)
    bids = [_bid(plan, owned, values) for owned in plan.owns if owned.memory.name == name]
    array, *views = (m for m in plan.memories if m.name == name)
    written = [o.memory for o in plan.owns if o.memory.name == name]
    if any(_same(m, view) and not _same(m, array) for m in written for view in views):
        return _find_unowned_of_views(array, bids, values)
    if not all(_same(m, array) for m in written):
        return None  # dimensions that are split otherwise: their coordinates are nobody's
    first: list[int] = []
    for d, n in enumerate(bids[0].shape):
        low, high = 0, n  # whatever lies before low has an owner; before high, something has none
        while low < high - 1:
            middle = (low + high) // 2
            some = _count_unowned(_cut(bids, d, low, middle))
            if some is None:
                return None
            low, high = (low, middle) if some else (middle, high)
        bids = _cut(bids, d, low, high)
        first.append(low)
    return first


def _find_unowned_of_views(array: Memory, bids: Sequence[_Bid], params: Mapping[str, int]) -> list[int] | None:
    """The same of an array that is written through views, by what of its memory they own."""
    if sum(prod(b.axes.values()) for b in bids) > MOST_BOXES:
        return None
    boxes = [_boxes(b, {}, {}) for b in bids]
    if sum(int((high - low).prod(axis=1).sum()) for _, low, high in boxes) > MOST_BOXES:
        return None
    rows = [_rows(*part, b.pitches) for part, b in zip(boxes, bids, strict=True)]
    start, end = (np.concatenate([row[k][:, 0] for row in rows]) for k in (1, 2))
    order = np.argsort(start, kind="stable")
    start, reached = start[order], np.maximum.accumulate(np.append(0, end[order]))
    shape, pitches = (tuple(int(evaluate(n, params)) for n in ns) for ns in (array.shape, array.pitches))
    for first in range(0, prod(shape), _CHUNK):  # those that have an owner are not many: one without is met soon
        at = np.unravel_index(np.arange(first, min(prod(shape), first + _CHUNK)), shape)
        offset = sum(x * p for x, p in zip(at, pitches, strict=True))
        nobody = np.flatnonzero(reached[np.searchsorted(start, offset, "right")] <= offset)
        if len(nobody):
            return [int(x[nobody[0]]) for x in at]
    return None


def _cut(bids: Sequence[_Bid], d: int, low: int, high: int) -> list[_Bid]:
    """What they own of the elements from ``low`` up to ``high`` along a dimension."""
    return [replace(b, shape=_put(b.shape, d, high), least=_put(b.least, d, low)) for b in bids]


def _put(numbers: tuple[int, ...], d: int, number: int) -> tuple[int, ...]:
    return (*numbers[:d], number, *numbers[d + 1 :])


def _count_unowned(bids: Sequence[_Bid]) -> int | None:
    """How many elements nobody owns; None for too many boxes."""
    thinned = _thin(bids)
    cover = _cover(bids, {n: t.values for n, t in thinned.items()})
    return None if isinstance(cover, str) else _count_bare(cover, bids, thinned)


def _count_bare(cover: _Cover, bids: Sequence[_Bid], thinned: Mapping[str, _Thinned]) -> int:
    return cover.elems - (_count_owned(bids, thinned) if thinned else cover.owned)


# ---------------------------------------------------------------- who owns what
@dataclass(frozen=True)
class _Cover:
    """``owned`` of the array's ``elems`` elements have one; ``twice``: an element, two CTAs and an operation."""

    elems: int
    owned: int
    twice: tuple[list[int], tuple[int, int, int], tuple[int, int, int], int] | None = None


def _cover(
    bids: Sequence[_Bid],
    values: Mapping[str, Array],
    closed: Mapping[str, _Thinned] | None = None,
    as_rows: bool = False,
) -> _Cover | str:
    """The owners of all elements, for some values of some axes; if it is too much, in words what is.

    ``closed``: gaps in the values of these axes are closed, what comes behind moved up. ``as_rows``: boxes of several
    views of one array are compared by flat offset.
    """
    shape, begin = bids[0].shape, bids[0].least
    elems = prod(n - least for n, least in zip(shape, begin, strict=True))  # of views too: offsets may have gaps
    parts: list[tuple[Array, Array, Array]] = []
    for bid in bids:
        shape, part = bid.shape, _boxes(bid, values, closed or {})
        if as_rows:
            if int((part[2] - part[1]).prod(axis=1).sum()) > MOST_BOXES:
                return "a large array with views"
            shape, begin = (sum((n - 1) * p for n, p in zip(shape, bid.pitches, strict=True)) + 1,), (0,)
            part = _rows(*part, bid.pitches)
        parts.append(part)
    writer = np.repeat([b.op for b in bids], [len(p[0]) for p in parts])
    cta, low, high = (np.concatenate(x) for x in zip(*parts, strict=True))
    ends = enumerate(zip(begin, shape, strict=True))
    edges = [distinct(np.concatenate([low[:, d], high[:, d], both])) for d, both in ends]
    covered = _cells(low, high, edges)
    if covered is None:
        return f"overlaps of {len(cta)} boxes"
    box, cell = covered
    order = np.lexsort((cta[box], cell))
    cell, owner = cell[order], cta[box][order]
    new_cell = np.ones(len(cell), bool)
    new_cell[1:] = cell[1:] != cell[:-1]
    double = np.flatnonzero(~new_cell & (owner != np.roll(owner, 1)))
    counts = [len(e) - 1 for e in edges]
    twice = None
    if len(double):
        element = [int(e[i]) for e, i in zip(edges, np.unravel_index(cell[double[0]], counts), strict=True)]
        first, second = (_name(int(owner[i]), bids[0].grid) for i in (double[0] - 1, double[0]))
        twice = element, first, second, int(writer[box[order][double[0]]])
    cells = np.unravel_index(cell[new_cell], counts)
    sizes = [np.diff(e)[i] for e, i in zip(edges, cells, strict=True)]
    return _Cover(elems, int(np.prod(sizes, axis=0).sum()), twice)


def _same(a: Memory, b: Memory) -> bool:
    return (a.name, a.shape, a.pitches) == (b.name, b.shape, b.pitches)


def _boxes(bid: _Bid, values: Mapping[str, Array], closed: Mapping[str, _Thinned]) -> tuple[Array, Array, Array]:
    """(CTA number, low corners, high corners), clipped at what is looked at of the memory."""
    axes = {name: values[name] if name in values else np.arange(extent) for name, extent in bid.axes.items()}
    at: dict[str, Any] = dict(zip(axes, np.meshgrid(*axes.values(), indexing="ij", sparse=True), strict=True))
    full = tuple(len(a) for a in axes.values())

    def spread(x: Index) -> Array:
        return np.broadcast_to(np.asarray(evaluate(x, at)), full).ravel()

    keep = np.ones(prod(full), bool)
    for condition in bid.conditions:
        keep &= spread(condition).astype(bool)
    number = np.broadcast_to(at["bx"] + bid.grid[0] * (at["by"] + bid.grid[1] * at["bz"]), full).ravel()
    low = np.stack([spread(x) for x in bid.start], axis=1)
    low, high = np.maximum(low, bid.least), np.minimum(low + np.array(bid.box), bid.shape)
    keep &= (low < high).all(1)
    for name, t in closed.items():
        left_out = (at[name] - np.arange(len(axes[name])).reshape(at[name].shape)) // t.period
        moved = np.broadcast_to(left_out, full).ravel()[:, None] * np.array(t.moves)
        low, high = low - moved, high - moved
    return number[keep], low[keep], high[keep]


def _rows(cta: Array, low: Array, high: Array, pitches: Sequence[int]) -> tuple[Array, Array, Array]:
    """Boxes as intervals of flat offsets, one for each row of each box."""
    count = high - low
    inner = pitches.index(1) if 1 in pitches else -1
    if inner >= 0:
        count[:, inner] = 1
    box, at = _spread_out(count)
    start = ((low[box] + at) * np.array(pitches)).sum(1)
    length = (high - low)[box, inner] if inner >= 0 else np.ones(len(box), np.int64)
    return cta[box], start[:, None], (start + length)[:, None]


def _spread_out(count: Array) -> tuple[Array, Array]:
    """(box, coordinates in it) of every point of boxes of these extents."""
    points = count.prod(axis=1)
    box = np.repeat(np.arange(len(count)), points)
    number = np.arange(len(box)) - np.repeat(np.cumsum(points) - points, points)
    at = np.zeros((len(box), count.shape[1]), np.int64)
    for d in reversed(range(count.shape[1])):
        number, at[:, d] = np.divmod(number, count[box, d])
    return box, at


def _cells(low: Array, high: Array, edges: Sequence[Array]) -> tuple[Array, Array] | None:
    """(box, cell) of each cell of the grid of edges that a box covers; None if there are too many."""
    first = np.stack([np.searchsorted(e, low[:, d]) for d, e in enumerate(edges)], axis=1)
    count = np.stack([np.searchsorted(e, high[:, d]) for d, e in enumerate(edges)], axis=1) - first
    if int(count.prod(axis=1).sum()) > MOST_BOXES:
        return None
    box, at = _spread_out(count)
    return box, np.ravel_multi_index(tuple((first[box] + at).T), tuple(len(e) - 1 for e in edges))


def _name(number: int, grid: tuple[int, ...]) -> tuple[int, int, int]:
    return number % grid[0], number // grid[0] % grid[1], number // grid[0] // grid[1]
