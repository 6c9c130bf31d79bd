"""What the Moves of a plan cost, from their addresses: exact, without running the plan.

An access's address is evaluated for all threads at once. CTA axes and loop variables are not enumerated one by one:
values that leave the same residue (of a bank line or a sector) and the same guards behave alike, so one of each class
is evaluated and weighted. Where an address does not separate, every value is its own class: slower, still exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tilegen import access
from tilegen.index import (
    INT_LIMIT,
    Index,
    Op,
    Var,
    add,
    bound,
    conjuncts,
    count_operators,
    evaluate,
    less,
    mod,
    mul,
    substitute,
    terms,
    total,
    variables,
)  # fmt: skip
from tilegen.plan import (
    CLUSTER_AXES,
    CTA_AXES,
    MATRIX_ROW_ELEMS,
    Block,
    Cost,
    Let,
    Memory,
    Move,
    Ref,
    Repeat,
    Step,
    When,
    matrices,
    thread_variables,
)

_LINE_BYTES = 128  # shared memory: 32 banks of 4 bytes repeat after this many
_SECTOR_BYTES = 32
_CHUNK = 1 << 20  # outer values classified at a time


@dataclass(frozen=True)
class Launch:
    """Numbers that a plan's text leaves open: threads, grid, and the values of the runtime parameters."""

    threads: int
    grid: tuple[int, int, int]
    params: tuple[tuple[str, int], ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)

    @property
    def interior(self) -> tuple[int, int, int]:
        """A CTA away from the edges, where there is one."""
        return (self.grid[0] // 2, self.grid[1] // 2, self.grid[2] // 2)


@dataclass(frozen=True)
class Access:
    """One side of one Move: its byte address in terms of threads, CTA axes, loops and params."""

    memory: Memory
    kind: str  # one of access.KINDS
    width_bytes: int
    byte: Index
    conditions: tuple[Index, ...]
    loops: tuple[tuple[Var, Index], ...]
    operators: int  # in the printed offset
    op: int


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


# ---------------------------------------------------------------- finding them
@dataclass(frozen=True)
class _Scope:
    values: Mapping[str, Index]
    memories: Mapping[str, Ref]
    conditions: tuple[Index, ...]
    loops: tuple[tuple[Var, Index], ...]
    op: int


def find_accesses(steps: Iterable[Step], cluster: tuple[int, int, int] = (1, 1, 1)) -> tuple[Access, ...]:
    """Every shared or global access of the steps, addresses written out in base variables."""
    found: list[Access] = []
    axes = zip(CLUSTER_AXES, CTA_AXES, cluster, strict=True)
    values = {inside: mod(Var(axis, INT_LIMIT), n) for inside, axis, n in axes}
    _visit(steps, _Scope(values, {}, (), (), -1), found)
    return tuple(found)


def _visit(steps: Iterable[Step], scope: _Scope, found: list[Access]) -> None:
    for step in steps:
        if isinstance(step, Let):
            scope = replace(scope, values={**scope.values, step.var.name: substitute(step.value, scope.values)})
        elif isinstance(step, Repeat):
            count = substitute(step.count, scope.values)
            var = Var(f"{step.var.name}__{len(scope.loops)}", max(1, bound(count) - 1))  # a name that no spec may give
            extra = () if isinstance(count, int) else (less(var, count),)
            inner = replace(
                scope, values={**scope.values, step.var.name: var}, loops=(*scope.loops, (var, count)),
                conditions=(*scope.conditions, *extra),
            )  # fmt: skip
            _visit(step.body, inner, found)
        elif isinstance(step, When):
            held = tuple(substitute(c, scope.values) for c in conjuncts(step.condition))
            _visit(step.body, replace(scope, conditions=(*scope.conditions, *held)), found)
        elif isinstance(step, Block):
            bindings = {formal.name: _resolve(ref, scope) for formal, ref in step.args}
            op = step.op if step.op >= 0 else scope.op
            _visit(step.body, replace(scope, memories={**scope.memories, **bindings}, op=op), found)
        elif isinstance(step, Move):
            found.extend(_sides(step, scope))


def _resolve(ref: Ref, scope: _Scope) -> Ref:
    """A reference in terms of the plan's own memories and base variables, as one flat offset."""
    offset = substitute(ref.offset, scope.values)
    base = scope.memories.get(ref.memory.name)
    if base is None:
        return Ref(replace(ref.memory, shape=(ref.memory.span,), pitches=(1,)), (offset,))
    return Ref(base.memory, (add(base.at[0], offset),))


def _sides(move: Move, scope: _Scope) -> list[Access]:
    sides = []
    count = matrices(move)
    for kind, ref, guard in (("ld", move.src, move.valid), ("st", move.dst, True)):
        if ref.memory.space == "register":
            continue
        where = _resolve(ref, scope)
        size = ref.memory.elem_bytes
        width, held = move.elems, tuple(substitute(c, scope.values) for c in conjuncts(guard))
        if count:  # a row for each of the lanes whose addresses are read
            kind, width, held = f"{kind}matrix{count}", MATRIX_ROW_ELEMS, conjuncts(_gives_row(count))
        sides.append(
            Access(
                where.memory, kind, width * size, mul(where.at[0], size), (*scope.conditions, *held), scope.loops,
                count_operators(ref.offset), scope.op,
            )
        )  # fmt: skip
    return sides


def _gives_row(count: int) -> Index:
    return less(Var("laneid", access.WARP_LANES), MATRIX_ROW_ELEMS * count)


# ---------------------------------------------------------------- counting them
@cache
def _threads(count: int) -> dict[str, NDArray[np.int64]]:
    tx = np.arange(count, dtype=np.int64)
    return {name: np.asarray(evaluate(x, {"tx": tx})) for name, x in thread_variables(count).items()}


def count_access(a: Access, launch: Launch, cta: tuple[int, int, int] | None) -> Counted:
    """Totals of one access over one CTA, or over the whole grid when ``cta`` is None."""
    totals = np.zeros(5, np.int64)
    for lanes, weights in _weighted_lanes(a, launch, cta, _LINE_BYTES if a.memory.space == "shared" else _SECTOR_BYTES):
        totals += _count_lanes(a, lanes, weights)
    instructions, wavefronts, floor, bytes_floor, sectors = map(int, totals)
    return Counted(
        a.memory.name, a.memory.space, a.kind, a.width_bytes, instructions, wavefronts, floor, bytes_floor, sectors,
        a.operators, a.op,
    )  # fmt: skip


def list_lanes(a: Access, launch: Launch, cta: tuple[int, int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every warp access of one CTA: byte offsets (n, 32), -1 where a lane is inactive, and how often each occurs (n,).

    Offsets are exact, not residues: what another layout makes of them depends on all their bits.
    """
    found = list(_weighted_lanes(a, launch, cta, None))
    return np.concatenate([lanes for lanes, _ in found]), np.concatenate([weights for _, weights in found])


def _weighted_lanes(
    a: Access, launch: Launch, cta: tuple[int, int, int] | None, period: int | None
) -> Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Byte offsets of warp accesses, one of each class of equal behaviour, and how many each stands for.

    Addresses that differ by multiples of ``period`` bytes behave alike; None: only equal ones do.
    """
    fixed: dict[str, int] = dict(launch.params)
    axes = dict(zip(("bx", "by", "bz"), launch.grid, strict=True))
    if cta is not None:
        fixed |= dict(zip(axes, cta, strict=True))
        axes = {}
    extents = dict(axes) | {v.name: _extent(count, launch, fixed) for v, count in a.loops}
    named = variables(a.byte).union(*(variables(c) for c in a.conditions))
    outer = [n for n in extents if any(v.name == n for v in named)]
    weight = int(np.prod([extents[n] for n in extents if n not in outer], dtype=np.int64))
    for values, counts in _classes(a, outer, [extents[n] for n in outer], fixed, launch, period):
        env = {**fixed, **_threads(launch.threads), **{n: v[:, None] for n, v in values.items()}}
        lanes = _lane_offsets(a, env, (len(counts), launch.threads))
        weights = np.repeat(counts, lanes.shape[0] // len(counts)) * weight
        issued = (lanes >= 0).any(1)
        yield lanes[issued], weights[issued]


def _extent(count: Index, launch: Launch, fixed: Mapping[str, int]) -> int:
    """Trips of a loop; one whose count depends on more than params runs to its bound under its own condition."""
    if isinstance(count, int):
        return count
    if all(v.name in fixed for v in variables(count)):
        return int(evaluate(count, fixed))
    return bound(count) - 1


def _classes(
    a: Access, outer: Sequence[str], extents: Sequence[int], fixed: Mapping[str, int], launch: Launch,
    period: int | None,
) -> Iterable[tuple[dict[str, NDArray[np.int64]], NDArray[np.int64]]]:
    """Values of the outer variables, one per class of equal behaviour, and how many each stands for."""
    if not outer:
        yield {}, np.ones(1, np.int64)
        return
    size = int(np.prod(extents, dtype=np.int64))
    for first in range(0, size, _CHUNK):
        flat = np.arange(first, min(size, first + _CHUNK), dtype=np.int64)
        values = dict(zip(outer, np.unravel_index(flat, extents), strict=True))
        keys = np.stack(_keys(a, values, fixed, launch, period), axis=1)
        _, index, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
        yield {n: np.asarray(v, np.int64)[index] for n, v in values.items()}, counts


def _keys(
    a: Access, values: Mapping[str, NDArray[np.int64]], fixed: Mapping[str, int], launch: Launch, period: int | None
) -> list[NDArray[np.int64]]:
    everything = [np.asarray(v, np.int64) for v in values.values()]
    zero = np.zeros(len(everything[0]), np.int64)
    split = _separate(a.byte, values)
    if split is None:
        return everything
    base = zero + evaluate(split[0], {**fixed, **values})
    keys = [base % period if period else base]
    for c in a.conditions:
        if not any(v.name in values for v in variables(c)):
            continue
        sides = [_separate(x, values) for x in c.args] if isinstance(c, Op) and c.symbol == "<" else [None]
        if any(s is None for s in sides):
            return everything
        (left, right) = (s for s in sides if s is not None)
        limit = zero + evaluate(right[0], {**fixed, **values}) - evaluate(left[0], {**fixed, **values})
        env = {**fixed, **_threads(launch.threads)}
        inner = np.asarray(evaluate(left[1], env) - evaluate(right[1], env))
        keys.append(np.clip(limit, inner.min(), inner.max() + 1))  # holds where inner < limit
    return keys


def _separate(x: Index, outer: Mapping[str, object]) -> tuple[Index, Index] | None:
    """``x`` as a sum of a part over the outer variables and a part without any, or None."""
    over: list[tuple[int, object]] = []
    rest: list[tuple[int, object]] = []
    threads = thread_variables(1024)
    for c, f in terms(x):
        names = {v.name for v in variables(f)} if not isinstance(f, int) else set()
        if names & set(outer):
            if names & set(threads):
                return None
            over.append((c, f))
        else:
            rest.append((c, f))
    return total(over), total(rest)


def _count_lanes(a: Access, lanes: NDArray[np.int64], weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """(instructions, wavefronts, floor, bytes_floor, sectors) of weighted warp accesses."""
    if not len(lanes):
        return np.zeros(5, np.int64)
    if a.memory.space == "global":
        return np.array([weights.sum(), 0, 0, 0, (weights * access.sectors(a.width_bytes, lanes)).sum()])
    parts = (
        access.wavefronts(a.kind, a.width_bytes, lanes), access.phases(a.kind, a.width_bytes, lanes),
        access.bytes_floor(a.width_bytes, lanes),
    )  # fmt: skip
    return np.array([weights.sum(), *((weights * p).sum() for p in parts), 0])


# ---------------------------------------------------------------- one warp of one of them
@dataclass(frozen=True)
class WarpOffsets:
    """One access of one warp: byte offsets from the start of the memory, -1 where a lane is inactive."""

    cta: tuple[int, int, int]
    warp: int
    loops: tuple[tuple[str, int], ...]
    offsets: tuple[int, ...]


def first_warp_offsets(a: Access, launch: Launch, cta: tuple[int, int, int]) -> WarpOffsets | None:
    """The first warp of a CTA that carries out an access, at the first trips of the loops at which one does.

    None where the whole CTA leaves it out.
    """
    fixed = {**dict(launch.params), **dict(zip(("bx", "by", "bz"), cta, strict=True))}
    trips = [range(_extent(count, launch, fixed)) for _, count in a.loops]
    for values in product(*trips):
        loops = {v.name: k for (v, _), k in zip(a.loops, values, strict=True)}
        lanes = _lane_offsets(a, {**fixed, **_threads(launch.threads), **loops}, (launch.threads,))
        for warp, offsets in enumerate(lanes):
            if (offsets >= 0).any():
                named = tuple((name.rsplit("_", 1)[0], k) for name, k in loops.items())
                return WarpOffsets(cta, warp, named, tuple(map(int, offsets)))
    return None


def _lane_offsets(a: Access, env: Mapping[str, object], shape: tuple[int, ...]) -> NDArray[np.int64]:
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
    return tuple(count_access(a, launch, cta) for a in find_accesses(steps, launch.cluster))


def cost_of(counted: Iterable[Counted], shared_bytes: int = 0) -> Cost:
    """The sum of counted accesses as a Cost."""
    rows = tuple(counted)
    return Cost(
        sum(c.sectors for c in rows), sum(c.wavefronts for c in rows), sum(c.instructions for c in rows), shared_bytes,
        sum(c.operators * c.instructions for c in rows),
    )  # fmt: skip
