"""No element of an output has two owners, and none is read by another CTA than its owner: the boxes of the whole grid,
compared exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from tilegen.index import evaluate
from tilegen.interpret.fault import TWO_CTAS
from tilegen.plan import Memory, Plan, default_values
from tilegen.proofs.bids import (
    MOST_BOXES,
    Bid,
    CoveredCells,
    Thinned,
    count_boxes,
    cover_cells,
    is_same_form,
    list_boxes,
    list_rows,
    make_bid,
    name_cta,
    thin,
)
from tilegen.proofs.finding import NO_OWNER, NOT_PARTITIONED, TWO_OWNERS, Finding
from tilegen.proofs.owned_boxes import Owned
from tilegen.scopes import CTA_AXES

_CHUNK = 1 << 18  # elements looked at together


def check_partition(
    plan: Plan, owns: Sequence[Owned], params: Mapping[str, int] | None = None, most_boxes: int = MOST_BOXES
) -> tuple[Finding, ...]:
    """Elements that two CTAs own (errors), how many nobody owns, and what was too large to compare (notes).

    Only the boxes' expressions are evaluated, over CTAs, loops and threads; boxes are compared on the grid of the
    breakpoints of each dimension, so the answer is exact whatever their sizes. Of a long axis along which the boxes
    only move on, the values in the middle are left out: they show nothing that those kept have not shown.
    """
    values = default_values(plan.params) | dict(params or {})
    found: list[Finding] = []
    for name in dict.fromkeys(owned.memory.name for owned in owns):
        found += _check_memory(plan, [o for o in owns if o.memory.name == name], values, most_boxes)
    return tuple(found)


def _check_memory(plan: Plan, owns: Sequence[Owned], params: Mapping[str, int], most_boxes: int) -> list[Finding]:
    name = owns[0].memory.name
    lined = line_up(plan, owns, params, most_boxes)
    if isinstance(lined, str):
        return [Finding(NOT_PARTITIONED, f"not proven: {lined}", "note", memory=name)]
    cover = _cover(lined.bids, lined.cells)
    if cover.twice is not None:
        element, first, second, op = cover.twice
        message = f"{_say_element(name, element, owns[0])} is owned by CTA {first} and by CTA {second}"
        return [Finding(TWO_OWNERS, message, op=op, memory=name, witness=dict(zip(CTA_AXES, second, strict=True)))]
    if nobody := _count_bare(cover, lined.bids, lined.thinned):
        return [Finding(NO_OWNER, f"{nobody} of {cover.elems} elements of {name} have no owner", "note", memory=name)]
    return []


@dataclass(frozen=True)
class LinedUp:
    """Boxes of one array beside one another: ``thinned`` axes with the values that show all, and covered cells."""

    bids: list[Bid]
    thinned: Mapping[str, Thinned]
    cells: CoveredCells


def line_up(
    plan: Plan, boxes: Sequence[Owned], params: Mapping[str, int], most_boxes: int, some: int | None = None
) -> LinedUp | str:
    """Boxes of one array, over the whole grid; if they cannot be compared, in words what cannot."""
    name, as_rows = boxes[0].memory.name, len({(o.memory.shape, o.memory.pitches) for o in boxes}) > 1
    if as_rows and not all(any(is_same_form(o.memory, m) for m in plan.memories) for o in boxes):
        return f"views of {name} split dimensions"
    bids = [make_bid(plan, one, params) for one in boxes]
    thinned = {} if as_rows else thin(bids, some)
    if (count := count_boxes(bids, thinned)) > most_boxes:
        return f"{count} boxes of {name}"
    cells = cover_cells(bids, {axis: t.values for axis, t in thinned.items()}, as_rows=as_rows)
    return f"{cells} of {name}" if isinstance(cells, str) else LinedUp(bids, thinned, cells)


def _say_element(name: str, element: Sequence[int], owned: Owned) -> str:
    """An element by its place, or where views are compared by its offset."""
    is_place = len(element) == len(owned.memory.shape)
    return f"{name}{element}" if is_place else f"{name} at element offset {element[0]}"


def check_reads(
    plan: Plan, owns: Sequence[Owned], reads: Sequence[Owned], params: Mapping[str, int] | None = None,
    most_boxes: int = MOST_BOXES,
) -> tuple[Finding, ...]:  # fmt: skip
    """Elements that a CTA reads and another one owns (errors), and what was too large to compare (notes).

    ``reads``: boxes of arrays that are written too. That no element has two owners is proved.
    """
    values = default_values(plan.params) | dict(params or {})
    found: list[Finding] = []
    for name in dict.fromkeys(r.memory.name for r in reads):
        own = [o for o in owns if o.memory.name == name]
        found += _check_reads(plan, own, [r for r in reads if r.memory.name == name], values, most_boxes)
    return tuple(found)


def _check_reads(
    plan: Plan, owns: Sequence[Owned], reads: Sequence[Owned], params: Mapping[str, int], most_boxes: int
) -> list[Finding]:
    name = reads[0].memory.name
    if are_own(reads, owns):
        return []
    lined = line_up(plan, (*owns, *reads), params, most_boxes)
    if isinstance(lined, str):
        return [Finding(NOT_PARTITIONED, f"not proven: who reads what others write, {lined}", "note", memory=name)]
    bids, cells = lined.bids, lined.cells
    own, read = np.flatnonzero(cells.bid < len(owns)), np.flatnonzero(cells.bid >= len(owns))
    if not len(own):
        return []
    own = own[np.argsort(cells.cell[own], kind="stable")]
    owner = own[np.minimum(np.searchsorted(cells.cell[own], cells.cell[read]), len(own) - 1)]
    wrong = np.flatnonzero((cells.cell[owner] == cells.cell[read]) & (cells.cta[owner] != cells.cta[read]))
    if not len(wrong):
        return []
    first = int(read[wrong[0]])
    reader, other = (name_cta(int(cells.cta[k]), bids[0].grid) for k in (first, owner[wrong[0]]))
    which = _say_element(name, cells.element(first), owns[0])
    message = f"CTA {reader} reads {which}, which CTA {other} writes: no sync orders CTAs"
    witness = dict(zip(CTA_AXES, reader, strict=True))
    return [Finding(TWO_CTAS, message, op=bids[cells.bid[first]].op, memory=name, witness=witness)]


def are_own(reads: Sequence[Owned], owns: Sequence[Owned]) -> bool:
    """Is every box that a CTA reads one that it owns?"""
    return all(any(_covers(own, read) for own in owns) for read in reads)


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
            cells = cover_cells(bids, values, thinned)
            assert isinstance(cells, CoveredCells)
            owned += share * _cover(bids, cells).owned
    return owned


def find_unowned(plan: Plan, owns: Sequence[Owned], name: str, params: Mapping[str, int]) -> list[int] | None:
    """The first element of an array, in row-major order, that no CTA owns; None where that is not known.

    Dimension by dimension, halving: up to where does every element have an owner? Where views are written, whose
    dimensions are not the array's, element by element.
    """
    values = default_values(plan.params) | dict(params)
    bids = [make_bid(plan, owned, values) for owned in owns if owned.memory.name == name]
    array, *views = (m for m in plan.memories if m.name == name)
    written = [o.memory for o in owns if o.memory.name == name]
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
    if sum(int((b.high - b.low).prod(axis=1).sum()) for b in boxes) > MOST_BOXES:
        return None
    rows = [list_rows(part, b.pitches) for part, b in zip(boxes, bids, strict=True)]
    start, end = (np.concatenate(ends)[:, 0] for ends in ([row.low for row in rows], [row.high for row in rows]))
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
    cells = cover_cells(bids, {n: t.values for n, t in thinned.items()})
    return None if isinstance(cells, str) else _count_bare(_cover(bids, cells), bids, thinned)


def _count_bare(cover: _Cover, bids: Sequence[Bid], thinned: Mapping[str, Thinned]) -> int:
    return cover.elems - (_count_owned(bids, thinned) if thinned else cover.owned)


# ---------------------------------------------------------------- who owns what
@dataclass(frozen=True)
class _Cover:
    """``owned`` of the array's ``elems`` elements have one; ``twice``: an element, two CTAs and an operation."""

    elems: int
    owned: int
    twice: tuple[list[int], tuple[int, int, int], tuple[int, int, int], int] | None = None


def _cover(bids: Sequence[Bid], cells: CoveredCells) -> _Cover:
    """The owners of all elements."""
    elems = prod(n - least for n, least in zip(bids[0].shape, bids[0].least, strict=True))  # of views: may have gaps
    order = np.lexsort((cells.cta, cells.cell))
    cell, owner = cells.cell[order], cells.cta[order]
    new_cell = np.ones(len(cell), bool)
    new_cell[1:] = cell[1:] != cell[:-1]
    double = np.flatnonzero(~new_cell & (owner != np.roll(owner, 1)))
    twice = None
    if len(double):
        first, second = (name_cta(int(owner[i]), bids[0].grid) for i in (double[0] - 1, double[0]))
        k = int(order[double[0]])
        twice = cells.element(k), first, second, bids[cells.bid[k]].op
    return _Cover(elems, cells.count_elements(cell[new_cell]), twice)
