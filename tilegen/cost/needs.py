"""What an access takes part with and what it needs: threads, bytes, and the sectors that hold what a CTA touches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilegen.access import SECTOR_BYTES, distinct
from tilegen.cost.accesses import Access
from tilegen.cost.asynchronous import TMA, WHOLE, sectors_of_boxes
from tilegen.cost.classes import list_classes, list_joint_classes
from tilegen.cost.count import lane_offsets, split_axes, trips_of, values_of_threads, weigh_lanes
from tilegen.index import Var, evaluate, variables
from tilegen.plan import Launch

Ints = NDArray[np.int64]

MOST_ADDRESSES = 1 << 21  # looked at to find the sectors of one array under one op; beyond it they are not counted


@lru_cache(maxsize=1 << 10)
def find_threads(a: Access, launch: Launch, cta: tuple[int, int, int]) -> tuple[bool, ...]:
    """For each thread of the access's role: does it take part, in any trip of any loop, in this CTA?"""
    fixed, _ = split_axes(launch, cta)
    named = {v.name for c in a.conditions for v in variables(c)}
    extents = {v.name: trips_of(count, launch, fixed) for v, count in a.loops if v.name in named}
    known = {**fixed, **values_of_threads(a.threads)}
    conditions = replace(a, byte=0, partner=None)
    active = np.zeros(a.threads, bool)
    for values, counts in list_classes((conditions,), extents, known, 1):
        env = {**known, **{n: v[:, None] for n, v in values.items()}}
        offsets = lane_offsets(conditions, env, (len(counts), a.threads)).reshape(len(counts), -1)
        active |= (offsets[:, : a.threads] >= 0).any(axis=0)
    return tuple(active.tolist())


@lru_cache(maxsize=1 << 10)
def count_bytes(a: Access, launch: Launch, cta: tuple[int, int, int] | None) -> int:
    """Bytes that an access moves over one CTA, or over the grid: those that lanes of a warp share count once, those
    that several warps or trips ask for as often."""
    total = 0
    for sides, weights in weigh_lanes(a, launch, cta, SECTOR_BYTES):
        if a.kind in WHOLE:
            total += int(weights.sum()) * a.width_bytes * prod(n for n, _ in a.rows)
        else:
            ordered = np.sort(sides[0], axis=1)
            distinct = (np.diff(ordered, axis=1, prepend=-1) > 0).sum(axis=1)
            total += int(weights @ distinct) * a.width_bytes
    return total


@lru_cache(maxsize=1 << 10)
def count_needed_sectors(accesses: tuple[Access, ...], launch: Launch, cta: tuple[int, int, int] | None) -> int | None:
    """Sectors that hold the bytes of one global array that these accesses touch in a CTA, each counted once: no order
    of the same CTA's accesses takes fewer. Over the grid, the sum over its CTAs. None: more than MOST_ADDRESSES.
    """
    fixed, axes = split_axes(launch, cta)
    sides: list[tuple[Access, Mapping[str, object]]] = []
    sizes: list[tuple[int, int]] = []
    for a in accesses:
        known, trips = _spread_trips(a, launch, fixed)
        if trips * a.threads > MOST_ADDRESSES:
            return None
        if trips:  # of loops without a trip nothing is touched
            sides.append((a, known))
            sizes.append((trips, a.threads))
    if not sides:
        return 0
    named = {v.name for a, _ in sides for x in (a.byte, *a.conditions) for v in variables(x)}
    outer = {n: extent for n, extent in axes.items() if n in named}
    weight = prod(extent for n, extent in axes.items() if n not in named)
    each, looked_at, total = sum(map(prod, sizes)), 0, 0
    for values, counts in list_joint_classes(sides, outer, SECTOR_BYTES):
        looked_at += each * len(counts)
        if looked_at > MOST_ADDRESSES:
            return None
        env = {n: v[:, None, None] for n, v in values.items()}
        touched = [
            _sectors_touched(a, {**known, **env}, (len(counts), *size))
            for (a, known), size in zip(sides, sizes, strict=True)
        ]
        for row, count in enumerate(counts.tolist()):
            total += count * len(distinct(np.concatenate([t[row][t[row] >= 0] for t in touched])))
    return total * weight


def _spread_trips(a: Access, launch: Launch, fixed: Mapping[str, int]) -> tuple[dict[str, object], int]:
    """Threads side by side, and below each other the trips of the loops that matter; how many trips they are."""
    named = {v.name for x in (a.byte, *a.conditions) for v in variables(x)}
    loops: dict[Var, int] = {v: trips_of(count, launch, fixed) for v, count in a.loops if v.name in named}
    trips = prod(loops.values())
    if trips * a.threads > MOST_ADDRESSES:
        return {}, trips
    numbers = np.unravel_index(np.arange(trips), tuple(loops.values())) if loops else ()
    below = {v.name: number[:, None] for v, number in zip(loops, numbers, strict=True)}
    return {**fixed, **values_of_threads(a.threads), **below}, trips


def _sectors_touched(a: Access, env: Mapping[str, object], shape: tuple[int, int, int]) -> list[Ints]:
    """For each class the sectors of every address, -1 where a lane is inactive."""
    offsets = lane_offsets(a, env, shape).reshape(shape[0], -1)
    if a.kind != TMA:
        return list(np.where(offsets >= 0, offsets // SECTOR_BYTES, -1))
    params = {n: x for n, x in env.items() if isinstance(x, int)}
    rows = tuple((n, int(evaluate(stride, params))) for n, stride in a.rows)
    return [sectors_of_boxes(a.width_bytes, rows, row[row >= 0]) for row in offsets]


def group_by_array(accesses: Sequence[Access]) -> dict[tuple[int, str, bool], tuple[Access, ...]]:
    """The global accesses by the op that makes them, the array, and whether they write to it, in order."""
    groups: dict[tuple[int, str, bool], tuple[Access, ...]] = {}
    for a in accesses:
        if a.memory.traits.is_array:
            key = a.op, a.memory.name, a.writes
            groups[key] = (*groups.get(key, ()), a)
    return groups
