"""What the Moves of a plan cost, from their addresses: exact, without running the plan.

An access's address is evaluated for all threads at once. CTA axes and loop variables are not enumerated one by one:
values that leave the same residue (of a bank line or a sector) and the same guards behave alike, so one of each class
(cost/classes.py) is evaluated and weighted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from math import gcd

import numpy as np
from numpy.typing import NDArray

from tilegen import access
from tilegen.cost.accesses import Access, find_accesses, visit_role
from tilegen.cost.asynchronous import (
    CP_ASYNC,
    TMA,
    WHOLE,
    bytes_floor_cp_async,
    count_boxes,
    count_cp_async,
    floor_cp_async,
)
from tilegen.cost.classes import list_classes
from tilegen.decisions import Cost
from tilegen.index import Index, Var, bound, evaluate, substitute, variables
from tilegen.index.runs import counter
from tilegen.plan import Launch, Step, flat_memory, register_memory
from tilegen.scopes import thread_variables
from tilegen.spaces import SPACES

_LINE_BYTES = 128  # shared memory: 32 banks of 4 bytes repeat after this many
_SECTOR_BYTES = 32
_BANK_BYTES = 4
_LANES = 32
_NOWHERE = register_memory("", "uint8", 1)  # of instructions that touch no memory
_UNNAMED = {name: flat_memory("", "uint8", 1, name) for name, space in SPACES.items() if space.figure}


@dataclass(frozen=True)
class Counted:
    """Totals of one access: warp instructions, wavefronts (shared) or sectors (global), and what they could be."""

    buffer: str
    space: str
    kind: str
    width_bytes: int
    instructions: int
    wavefronts: int
    floor: int
    bytes_floor: int
    sectors: int
    operators: int
    op: int


# ---------------------------------------------------------------- counting them
@cache
def values_of_threads(count: int) -> dict[str, NDArray[np.int64]]:
    """The thread axes of so many threads, an entry for each."""
    tx = np.arange(count, dtype=np.int64)
    return {name: np.asarray(evaluate(x, {"tx": tx})) for name, x in thread_variables(count).items()}


def count_access(a: Access, launch: Launch, cta: tuple[int, int, int] | None) -> Counted:
    """Totals of one access over one CTA, or over the whole grid when ``cta`` is None; the least that they may be, where
    memory decides its places.
    """
    in_shared = a.memory.traits.has_banks
    first = a if in_shared or a.partner is None else replace(a.partner, partner=a)
    instructions, wavefronts, floor, bytes_floor, sectors = count_unnamed(_without_names(first), launch, cta)
    if a.picked_bytes is not None:
        wavefronts = floor
    if a.partner is not None:  # wavefronts on the shared side, sectors on the global one
        seen = (wavefronts, floor, bytes_floor, 0) if in_shared else (0, 0, 0, sectors)
        wavefronts, floor, bytes_floor, sectors = seen
    return Counted(
        a.memory.name, a.memory.space, a.kind, a.width_bytes, instructions, wavefronts, floor, bytes_floor, sectors,
        a.operators, a.op,
    )  # fmt: skip


@lru_cache(maxsize=1 << 13)
def count_unnamed(a: Access, launch: Launch, cta: tuple[int, int, int] | None) -> tuple[int, ...]:
    """(instructions, wavefronts, floor, bytes_floor, sectors) of an access, whatever memory of its space it is of.

    Of cp.async both sides' together; ``a`` is the shared one.
    """
    totals = np.zeros(5, np.int64)
    period = _SECTOR_BYTES if a.memory.traits.has_sectors else _LINE_BYTES
    for sides, weights in weigh_lanes(a, launch, cta, period):
        totals += _count_lanes(a, sides, weights, launch)
    return tuple(totals.tolist())


def count_worst(a: Access, launch: Launch, cta: tuple[int, int, int]) -> int | None:
    """Wavefronts (or sectors) of an access whose places memory decides, where these are as bad as can be; None for any
    other.

    In shared memory lanes can meet in a bank where their places are the same but for multiples of what is picked, and
    lanes that load one word do not: a memory has one word of a bank in each 128 bytes. Of a global array each lane may
    have a sector of its own.
    """
    if a.picked_bytes is None:
        return None
    in_shared, total = a.memory.traits.has_banks, 0
    for sides, weights in weigh_lanes(replace(a, partner=None), launch, cta, None):
        lanes = sides[0]
        if not in_shared:
            total += int(weights @ (lanes >= 0).sum(1))
            continue
        unit = max(_BANK_BYTES, gcd(a.picked_bytes, _LINE_BYTES))
        classes = lanes % unit // _BANK_BYTES
        ways = [max(np.bincount(own[row >= 0]).max(initial=0), 0) for own, row in zip(classes, lanes, strict=True)]
        most = np.array(ways, np.int64)
        if a.kind == "ld":
            most = np.minimum(most, -(-(bound(a.memory.span) - 1) * a.memory.elem_bytes // _LINE_BYTES))
        total += int(weights @ most) * max(1, a.width_bytes // _BANK_BYTES)
    return total


def _without_names(a: Access) -> Access:
    """The access as all that are counted alike are: of no memory by name, of no op, however its offset is printed."""
    partner = None if a.partner is None else _without_names(replace(a.partner, partner=None))
    return replace(a, memory=_UNNAMED[a.memory.space], operators=0, op=0, partner=partner, needed=(), text_bytes=0,
                   picked_bytes=None)  # fmt: skip


def list_lanes(
    a: Access, launch: Launch, cta: tuple[int, int, int]
) -> tuple[tuple[NDArray[np.int64], ...], NDArray[np.int64]]:
    """Every warp access of one CTA: byte offsets (n, 32), -1 where a lane is inactive, and how often each occurs (n,).

    The offsets are those of the access and, if it has one, of its partner. They are exact, not residues: what another
    layout makes of them depends on all their bits.
    """
    found = list(weigh_lanes(a, launch, cta, None))
    if not found:  # a loop around has no trip
        return tuple(np.zeros((0, _LANES), np.int64) for _ in _both(a)), np.zeros(0, np.int64)
    sides = zip(*(both for both, _ in found), strict=True)
    return tuple(np.concatenate(side) for side in sides), np.concatenate([weights for _, weights in found])


def weigh_lanes(
    a: Access, launch: Launch, cta: tuple[int, int, int] | None, period: int | None
) -> Iterable[tuple[list[NDArray[np.int64]], NDArray[np.int64]]]:
    """Byte offsets of warp accesses, one of each class of equal behaviour, and how many each stands for.

    They are those of the access and, if it has one, of its partner. Addresses that differ by multiples of ``period``
    bytes behave alike; None: only equal ones do.
    """
    fixed, axes = split_axes(launch, cta)
    extents = axes | {v.name: trips_of(count, launch, fixed) for v, count in a.loops}
    named = frozenset[Var]().union(*(variables(x) for side in _both(a) for x in (side.byte, *side.conditions)))
    outer = [n for n in extents if any(v.name == n for v in named)]
    alike = 1  # warps that do the same: where no thread's number but laneid is named, all of them
    if a.threads % _LANES == 0 and not {v.name for v in named} & values_of_threads(a.threads).keys() - {"laneid"}:
        alike = a.threads // _LANES
    threads = a.threads // alike
    weight = alike * int(np.prod([extents[n] for n in extents if n not in outer], dtype=np.int64))
    known = {**fixed, **values_of_threads(threads)}
    for values, counts in list_classes(_both(a), {n: extents[n] for n in outer}, known, period):
        env = {**known, **{n: v[:, None] for n, v in values.items()}}
        sides = [lane_offsets(side, env, (len(counts), threads)) for side in _both(a)]
        weights = np.repeat(counts, sides[0].shape[0] // len(counts)) * weight
        issued = np.any([(side >= 0).any(1) for side in sides], axis=0)
        yield [side[issued] for side in sides], weights[issued]


def split_axes(launch: Launch, cta: tuple[int, int, int] | None) -> tuple[dict[str, int], dict[str, int]]:
    """What has one value, which is params and the axes of ``cta``; and the extents of the axes, if it is None."""
    fixed, axes = dict(launch.params), dict(zip(("bx", "by", "bz"), launch.grid, strict=True))
    return (fixed, axes) if cta is None else (fixed | dict(zip(axes, cta, strict=True)), {})


def _both(a: Access) -> tuple[Access, ...]:
    return (a,) if a.partner is None else (a, a.partner)


def trips_of(count: Index, launch: Launch, fixed: Mapping[str, int]) -> int:
    """Trips of a loop; one whose count depends on more than params runs to its bound under its own condition."""
    if isinstance(count, int):
        return count
    if all(v.name in fixed for v in variables(count)):
        return int(evaluate(count, fixed))
    known: dict[str, Index] = {**fixed}
    for axis, extent in zip(("bx", "by", "bz"), launch.grid, strict=True):
        known.setdefault(axis, counter(axis, extent))
    return bound(substitute(count, known)) - 1


def _count_lanes(
    a: Access, sides: Sequence[NDArray[np.int64]], weights: NDArray[np.int64], launch: Launch
) -> NDArray[np.int64]:
    """(instructions, wavefronts, floor, bytes_floor, sectors) of weighted warp accesses."""
    lanes = sides[0]
    if not len(lanes):
        return np.zeros(5, np.int64)
    if a.kind in WHOLE:
        rows = tuple((n, int(evaluate(stride, dict(launch.params)))) for n, stride in a.rows)
        return count_boxes(a.memory.traits, a.width_bytes, rows, lanes.max(1), weights)
    if a.partner is not None:
        return _count_both(a, sides[0], sides[1], weights)
    if a.memory.traits.has_sectors:
        return np.array([weights.sum(), 0, 0, 0, (weights * access.sectors(a.width_bytes, lanes)).sum()])
    parts = (
        access.wavefronts(a.kind, a.width_bytes, lanes), access.phases(a.kind, a.width_bytes, lanes),
        access.bytes_floor(a.width_bytes, lanes),
    )  # fmt: skip
    return np.array([weights.sum(), *((weights * p).sum() for p in parts), 0])


def _count_both(
    a: Access, shared: NDArray[np.int64], source: NDArray[np.int64], weights: NDArray[np.int64]
) -> NDArray[np.int64]:
    """What cp.async counts: wavefronts on the shared side, sectors on the global one."""
    wavefronts, sectors = count_cp_async(a.kind, a.width_bytes, shared, source)
    floors = (floor(a.kind, a.width_bytes, shared, source) for floor in (floor_cp_async, bytes_floor_cp_async))
    return np.array([weights.sum(), weights @ wavefronts, *(weights @ f for f in floors), weights @ sectors])


# ---------------------------------------------------------------- one warp of one of them
@dataclass(frozen=True)
class WarpOffsets:
    """One access of one warp: byte offsets from the start of the memory, -1 where a lane is inactive.

    ``partner``: those of its other side, if it has one.
    """

    cta: tuple[int, int, int]
    warp: int
    loops: tuple[tuple[str, int], ...]
    offsets: tuple[int, ...]
    partner: tuple[int, ...] = ()


def first_warp_offsets(a: Access, launch: Launch, cta: tuple[int, int, int]) -> WarpOffsets | None:
    """The first warp of a CTA that carries out an access, at the first trips of the loops at which one does.

    None where the whole CTA leaves it out.
    """
    fixed = {**dict(launch.params), **dict(zip(("bx", "by", "bz"), cta, strict=True))}
    trips = [range(trips_of(count, launch, fixed)) for _, count in a.loops]
    for values in product(*trips):
        loops = {v.name: k for (v, _), k in zip(a.loops, values, strict=True)}
        env = {**fixed, **values_of_threads(a.threads), **loops}
        sides = [lane_offsets(side, env, (a.threads,)) for side in _both(a)]
        for warp, lanes in enumerate(zip(*sides, strict=True)):
            if (np.stack(lanes) >= 0).any():
                named = tuple((name.rsplit("_", 1)[0], k) for name, k in loops.items())
                return WarpOffsets(cta, warp, named, *(tuple(side.tolist()) for side in lanes))
    return None


def lane_offsets(a: Access, env: Mapping[str, object], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Byte offsets of an access, 32 lanes a row, -1 where a lane is inactive; the last of ``shape`` are threads."""
    active = np.ones(shape, bool)
    for c in a.conditions:
        active &= np.broadcast_to(np.asarray(evaluate(c, env), bool), shape)
    offsets = np.where(active, np.broadcast_to(evaluate(a.byte, env), shape), -1)
    if shape[-1] % 32:
        offsets = np.pad(offsets, [(0, 0)] * (len(shape) - 1) + [(0, -shape[-1] % 32)], constant_values=-1)
    return offsets.reshape(-1, 32)


def count_steps(steps: Iterable[Step], launch: Launch, cta: tuple[int, int, int] | None) -> tuple[Counted, ...]:
    """Every access of the steps, counted over one CTA (``launch.interior``, say) or the whole grid (None)."""
    return tuple(count_access(a, launch, cta) for a in find_accesses(steps, launch.threads, launch.cluster))


def count_issues(steps: Iterable[Step], launch: Launch, is_wanted: Callable[[Step], bool]) -> int:
    """Warp instructions of one interior CTA for steps of any kind, each as often as loops and conditions around say.

    >>> from tilegen.plan import Repeat, Sync
    >>> count_issues((Repeat(Var("k", 4), 4, (Sync("warp"),)),), Launch(64, (1, 1, 1)), lambda s: isinstance(s, Sync))
    8
    """
    total = 0
    for visit in visit_role(steps, launch.threads, launch.cluster):
        if is_wanted(visit.step):
            position = visit.position
            issue = Access(_NOWHERE, "issue", 1, 0, position.guards, position.loops, 0, position.op, position.threads)
            total += sum(int(weights.sum()) for _, weights in weigh_lanes(issue, launch, launch.interior, None))
    return total


def cost_of(counted: Iterable[Counted], shared_bytes: int = 0) -> Cost:
    """The sum of counted accesses as a Cost. The two sides of cp.async, and of TMA, are one instruction."""
    rows = tuple(counted)
    issued = sum(c.instructions for c in rows if SPACES[c.space].has_banks or c.kind not in (*CP_ASYNC, TMA))
    return Cost(
        sum(c.sectors for c in rows), sum(c.wavefronts for c in rows), issued, shared_bytes,
        sum(c.operators * c.instructions for c in rows),
    )  # fmt: skip
