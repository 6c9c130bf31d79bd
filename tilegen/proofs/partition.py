"""No element of an output has two owners, and none is read by another CTA than its owner: the boxes of the whole grid,
compared exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from tilegen.access import distinct
from tilegen.index import evaluate
from tilegen.interpret.fault import TWO_CTAS
from tilegen.plan import Memory, Owned, Plan, default_values
from tilegen.proofs.bids import (
    MOST_BOXES,
    Array,
    Bid,
    Thinned,
    count_boxes,
    find_cells,
    is_same_form,
    list_boxes,
    list_rows,
    make_bid,
    name_cta,
    thin,
)
from tilegen.proofs.finding import NO_OWNER, NOT_PARTITIONED, TWO_OWNERS, Finding
from tilegen.scopes import CTA_AXES

_CHUNK = 1 << 18  # elements looked at together


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
    if len(forms) > 1 and not all(any(is_same_form(o.memory, m) for m in plan.memories) for o in owns):
        return [Finding(NOT_PARTITIONED, f"not proven: views of {name} split dimensions", "note", memory=name)]
    bids = [make_bid(plan, owned, params) for owned in owns]
    thinned = thin(bids) if len(forms) == 1 else {}
    if (boxes := count_boxes(bids, thinned)) > most_boxes:
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
    if as_rows and not all(any(is_same_form(o.memory, m) for m in plan.memories) for o in both):
        return [_unread(f"views of {name} split dimensions", name)]
    bids = [make_bid(plan, one, params) for one in both]
    thinned = {} if as_rows else thin(bids)
    if (boxes := count_boxes(bids, thinned)) > most_boxes:
        return [_unread(f"{boxes} boxes of {name}", name)]
    values = {axis: t.values for axis, t in thinned.items()}
    parts = [list_boxes(bid, values, {}) for bid in bids]
    if as_rows:
        if sum(int((high - low).prod(axis=1).sum()) for _, low, high in parts) > MOST_BOXES:
            return [_unread(f"a large array with views of {name}", name)]
        parts = [list_rows(*part, bid.pitches) for part, bid in zip(parts, bids, strict=True)]
    cta, low, high = (np.concatenate(x) for x in zip(*parts, strict=True))
    is_owned = np.arange(len(cta)) < sum(len(part[0]) for part in parts[: len(owns)])
    edges = [distinct(np.concatenate([low[:, d], high[:, d]])) for d in range(low.shape[1])]
    covered = find_cells(low, high, edges)
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
    reader, other = (name_cta(int(number), bids[0].grid) for number in (cta[box[first]], owner[wrong[0]]))
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


def _count_owned(bids: Sequence[Bid], thinned: Mapping[str, Thinned]) -> int:
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
    bids = [make_bid(plan, owned, values) for owned in plan.owns if owned.memory.name == name]
    array, *views = (m for m in plan.memories if m.name == name)
    written = [o.memory for o in plan.owns if o.memory.name == name]
    if any(is_same_form(m, view) and not is_same_form(m, array) for m in written for view in views):
        return _find_unowned_of_views(array, bids, values)
    if not all(is_same_form(m, array) for m in written):
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


def _find_unowned_of_views(array: Memory, bids: Sequence[Bid], params: Mapping[str, int]) -> list[int] | None:
    """The same of an array that is written through views, by what of its memory they own."""
    if sum(prod(b.axes.values()) for b in bids) > MOST_BOXES:
        return None
    boxes = [list_boxes(b, {}, {}) for b in bids]
    if sum(int((high - low).prod(axis=1).sum()) for _, low, high in boxes) > MOST_BOXES:
        return None
    rows = [list_rows(*part, b.pitches) for part, b in zip(boxes, bids, strict=True)]
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


def _cut(bids: Sequence[Bid], d: int, low: int, high: int) -> list[Bid]:
    """What they own of the elements from ``low`` up to ``high`` along a dimension."""
    return [replace(b, shape=_put(b.shape, d, high), least=_put(b.least, d, low)) for b in bids]


def _put(numbers: tuple[int, ...], d: int, number: int) -> tuple[int, ...]:
    return (*numbers[:d], number, *numbers[d + 1 :])


def _count_unowned(bids: Sequence[Bid]) -> int | None:
    """How many elements nobody owns; None for too many boxes."""
    thinned = thin(bids)
    cover = _cover(bids, {n: t.values for n, t in thinned.items()})
    return None if isinstance(cover, str) else _count_bare(cover, bids, thinned)


def _count_bare(cover: _Cover, bids: Sequence[Bid], thinned: Mapping[str, Thinned]) -> int:
    return cover.elems - (_count_owned(bids, thinned) if thinned else cover.owned)


# ---------------------------------------------------------------- who owns what
@dataclass(frozen=True)
class _Cover:
    """``owned`` of the array's ``elems`` elements have one; ``twice``: an element, two CTAs and an operation."""

    elems: int
    owned: int
    twice: tuple[list[int], tuple[int, int, int], tuple[int, int, int], int] | None = None


def _cover(
    bids: Sequence[Bid],
    values: Mapping[str, Array],
    closed: Mapping[str, Thinned] | None = None,
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
        shape, part = bid.shape, list_boxes(bid, values, closed or {})
        if as_rows:
            if int((part[2] - part[1]).prod(axis=1).sum()) > MOST_BOXES:
                return "a large array with views"
            shape, begin = (sum((n - 1) * p for n, p in zip(shape, bid.pitches, strict=True)) + 1,), (0,)
            part = list_rows(*part, bid.pitches)
        parts.append(part)
    writer = np.repeat([b.op for b in bids], [len(p[0]) for p in parts])
    cta, low, high = (np.concatenate(x) for x in zip(*parts, strict=True))
    ends = enumerate(zip(begin, shape, strict=True))
    edges = [distinct(np.concatenate([low[:, d], high[:, d], both])) for d, both in ends]
    covered = find_cells(low, high, edges)
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
        first, second = (name_cta(int(owner[i]), bids[0].grid) for i in (double[0] - 1, double[0]))
        twice = element, first, second, int(writer[box[order][double[0]]])
    cells = np.unravel_index(cell[new_cell], counts)
    sizes = [np.diff(e)[i] for e, i in zip(edges, cells, strict=True)]
    return _Cover(elems, int(np.prod(sizes, axis=0).sum()), twice)
