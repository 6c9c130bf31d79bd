"""No element of an output has two owners: the owned boxes of the whole grid, compared exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tilegen.index import Index, bound, evaluate, substitute, variables
from tilegen.plan import Memory, Owned, Plan
from tilegen.proofs.finding import NO_OWNER, NOT_PARTITIONED, TWO_OWNERS, Finding
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, thread_variables

Array = np.ndarray[Any, Any]
_MOST_BOXES = 20_000_000  # boxes, and cells that they cover


def check_partition(plan: Plan, params: Mapping[str, int] | None = None) -> tuple[Finding, ...]:
    """Elements that two CTAs own (errors), how many nobody owns, and what was too large to compare (notes).

    Only the boxes' expressions are evaluated, over every CTA, loop and thread; boxes are compared on the grid of the
    breakpoints of each dimension, so the answer is exact whatever their sizes.
    """
    values = {p.name: int(p.default) for p in plan.params} | dict(params or {})
    found: list[Finding] = []
    for name in dict.fromkeys(owned.memory.name for owned in plan.owns):
        found += _check_memory(plan, [o for o in plan.owns if o.memory.name == name], values)
    return tuple(found)


def _check_memory(plan: Plan, owns: Sequence[Owned], params: Mapping[str, int]) -> list[Finding]:
    name = owns[0].memory.name
    grid = tuple(int(evaluate(n, params)) for n in plan.grid)
    axes = [_axes(owned, plan, grid, params) for owned in owns]
    boxes = sum(prod(map(len, a.values())) for a in axes)
    if boxes > _MOST_BOXES:
        return [Finding(NOT_PARTITIONED, f"not proven: {boxes} boxes of {name}", "note", memory=name)]
    forms = {(o.memory.shape, o.memory.pitches) for o in owns}
    if len(forms) > 1 and not all(any(_same(o.memory, m) for m in plan.memories) for o in owns):
        return [Finding(NOT_PARTITIONED, f"not proven: views of {name} split dimensions", "note", memory=name)]
    shape: tuple[int, ...] = ()
    parts: list[tuple[Array, Array, Array]] = []
    for owned, a in zip(owns, axes, strict=True):
        shape = tuple(int(evaluate(n, params)) for n in owned.memory.shape)
        part = _boxes(owned, plan, a, grid, shape, params)
        if len(forms) > 1:  # views of one array: compared by flat offset
            pitches = tuple(int(evaluate(p, params)) for p in owned.memory.pitches)
            if int((part[2] - part[1]).prod(axis=1).sum()) > _MOST_BOXES:
                return [Finding(NOT_PARTITIONED, f"not proven: {name} is large and has views", "note", memory=name)]
            shape = (sum((n - 1) * p for n, p in zip(shape, pitches, strict=True)) + 1,)
            part = _rows(*part, pitches)
        parts.append(part)
    writer = np.repeat([o.op for o in owns], [len(p[0]) for p in parts])
    cta, low, high = (np.concatenate(x) for x in zip(*parts, strict=True))
    edges = [_distinct(np.concatenate([low[:, d], high[:, d], [0, n]])) for d, n in enumerate(shape)]
    covered = _cells(low, high, edges)
    if covered is None:
        return [Finding(NOT_PARTITIONED, f"not proven: {boxes} boxes of {name} overlap too much", "note", memory=name)]
    box, cell = covered
    order = np.lexsort((cta[box], cell))
    cell, owner = cell[order], cta[box][order]
    new_cell = np.ones(len(cell), bool)
    new_cell[1:] = cell[1:] != cell[:-1]
    double = np.flatnonzero(~new_cell & (owner != np.roll(owner, 1)))
    counts = [len(e) - 1 for e in edges]
    if len(double):
        element = [int(e[i]) for e, i in zip(edges, np.unravel_index(cell[double[0]], counts), strict=True)]
        first, second = (_name(int(owner[i]), grid) for i in (double[0] - 1, double[0]))
        message = f"{name}{element} is owned by CTA {first} and by CTA {second}"
        op = int(writer[box[order][double[0]]])
        return [Finding(TWO_OWNERS, message, op=op, memory=name, witness=dict(zip(CTA_AXES, second, strict=True)))]
    cells = np.unravel_index(cell[new_cell], counts)
    sizes = [np.diff(e)[i] for e, i in zip(edges, cells, strict=True)]
    nobody = prod(shape) - int(np.prod(sizes, axis=0).sum())
    if nobody:
        return [Finding(NO_OWNER, f"{nobody} of {prod(shape)} elements of {name} have no owner", "note", memory=name)]
    return []


def _same(a: Memory, b: Memory) -> bool:
    return (a.name, a.shape, a.pitches) == (b.name, b.shape, b.pitches)


def _axes(owned: Owned, plan: Plan, grid: tuple[int, ...], params: Mapping[str, int]) -> dict[str, range]:
    """What a box's start and condition range over: CTAs always, then loops, and tx if a thread variable is used."""
    axes = {name: range(n) for name, n in zip(CTA_AXES, grid, strict=True)}
    axes |= {var.name: range(_most(count, params)) for var, count in owned.loops}
    names = {v.name for x in (*owned.start, owned.condition) for v in variables(x)}
    if (names - set(axes)) & set(thread_variables(owned.threads)):
        axes["tx"] = range(owned.threads)
    return axes


def _most(count: Index, params: Mapping[str, int]) -> int:
    """Trips of a loop at most; one that differs between CTAs or outer trips is cut where the boxes are made."""
    known = all(v.name in params for v in variables(count))
    return int(evaluate(count, params)) if known else bound(count) - 1


def _boxes(
    owned: Owned, plan: Plan, axes: Mapping[str, range], grid: tuple[int, ...], shape: tuple[int, ...],
    params: Mapping[str, int],
) -> tuple[Array, Array, Array]:  # fmt: skip
    """(CTA number, low corners, high corners), clipped at the memory's shape."""
    values: dict[str, Any] = dict(zip(axes, np.meshgrid(*axes.values(), indexing="ij", sparse=True), strict=True))
    values |= {**params} | {c: values[b] % n for c, b, n in zip(CLUSTER_AXES, CTA_AXES, plan.cluster, strict=True)}
    full = tuple(len(a) for a in axes.values())
    threads = {k: v for k, v in thread_variables(owned.threads).items() if k not in axes}

    def spread(x: Index) -> Array:
        return np.broadcast_to(np.asarray(evaluate(substitute(x, threads), values)), full).ravel()

    keep = spread(owned.condition).astype(bool)
    for var, count in owned.loops:
        if not isinstance(count, int):
            keep &= spread(var) < spread(count)
    number = np.broadcast_to(values["bx"] + grid[0] * (values["by"] + grid[1] * values["bz"]), full).ravel()
    low = np.stack([spread(x) for x in owned.start], axis=1)
    high = np.minimum(low + np.array(owned.box), np.array(shape))
    keep &= (low < high).all(1)
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
    if int(count.prod(axis=1).sum()) > _MOST_BOXES:
        return None
    box, at = _spread_out(count)
    return box, np.ravel_multi_index(tuple((first[box] + at).T), tuple(len(e) - 1 for e in edges))


def _distinct(numbers: Array) -> Array:
    """Each number once, sorted. (np.unique imports numpy.ma at its first call, which takes longer than this proof.)"""
    ordered = np.sort(numbers)
    result: Array = ordered[np.diff(ordered, prepend=ordered[0] - 1) > 0]
    return result


def _name(number: int, grid: tuple[int, ...]) -> tuple[int, int, int]:
    return number % grid[0], number // grid[0] % grid[1], number // grid[0] // grid[1]
