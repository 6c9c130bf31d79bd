"""What the statements of a spec do in a launch: each counted as often as it runs, in numbers and not by a model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import prod
from typing import Any

import numpy as np

from tilegen.access import WARP_LANES
from tilegen.cost.tally import BY_CP_ASYNC, BY_THREADS, BY_TMA, Tally
from tilegen.dtypes import DTYPES
from tilegen.index import Index, evaluate, less, substitute, variables
from tilegen.kept import keep
from tilegen.layouts import MmaTiling
from tilegen.layouts.constructors import list_owned
from tilegen.ops import mma
from tilegen.ops.mma.atoms import ctas_of, extents_of
from tilegen.ops.mma.flows import find_tiling
from tilegen.plan import CP_ASYNC, MBARRIER, Launch
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, SCOPES
from tilegen.spaces import GLOBAL, REGISTER, SHARED, TMEM
from tilegen.spec.data import (
    ArriveStatement,
    Call,
    CommitStatement,
    FollowStatement,
    LetStatement,
    Nest,
    Region,
    Spec,
    SyncStatement,
    WaitStatement,
)
from tilegen.spec.outline import Placed, launch_of, outline

_GLOBAL, _SHARED, _REGISTER = GLOBAL.state, SHARED.state, REGISTER.state
_KINDS = {MBARRIER: BY_TMA, CP_ASYNC.queue: BY_CP_ASYNC, "": BY_THREADS}


def tally_spec(spec: Spec, params: Mapping[str, int] | None = None) -> Tally:
    """The counts of a launch with the default parameters, or with ``params`` in their place.

    Raises TypeError for a statement that is none of those that this module knows how to count.
    """
    launch, found = launch_of(spec, params), Tally()
    for placed in outline(spec).placed:
        s = placed.statement
        if isinstance(s, Call):
            found += _tally_call(spec, s, _count_runs(placed, launch, s.when))
        elif isinstance(s, WaitStatement) and s.barrier is not None:
            found += Tally(waits=_count_runs(placed, launch, s.when))
        elif isinstance(s, ArriveStatement):
            each = _count_instances(spec, s.scope, placed.role) * (_count_peers(launch, s.to))
            found += Tally(arrivals=each * _count_runs(placed, launch, s.when))
        elif not isinstance(s, (Nest, LetStatement, WaitStatement, SyncStatement, CommitStatement, FollowStatement)):
            raise TypeError(f"ops/tally.py does not know {type(s).__name__}")
    return found


# ---------------------------------------------------------------- how often
def _count_runs(placed: Placed, launch: Launch, when: Index) -> int:
    """How often a statement runs, summed over CTAs: trips of the loops around for which all conditions hold.

    Loops whose variable nothing asks for are counted by their trips; others, and CTAs where it is they, are gone
    through.
    """
    meant = placed.meant
    own = {less(one.trip, one.count) for one in meant.loops if not isinstance(one.count, int)}
    conditions = [c for c in (*meant.guards, substitute(when, meant.values)) if c is not True and c not in own]
    asked = {v.name for x in (*conditions, *(one.count for one in meant.loops)) for v in variables(x)}
    env: dict[str, Any] = dict(launch.params)
    ctas = np.indices(launch.grid).reshape(3, -1)
    is_split = bool(asked & {*CTA_AXES, *CLUSTER_AXES})
    if is_split:
        env |= dict(zip(CTA_AXES, ctas, strict=True))
        for name, axis, n in zip(CLUSTER_AXES, CTA_AXES, launch.cluster, strict=True):
            env[name] = env[axis] % n
    weights: Any = np.ones(ctas.shape[1], np.int64) if is_split else np.array([prod(launch.grid)], np.int64)
    for one in meant.loops:
        trips = np.broadcast_to(np.asarray(evaluate(one.count, env), np.int64), weights.shape)
        if one.trip.name not in asked:
            weights = weights * trips
            continue
        again = np.repeat(np.arange(len(weights)), trips)
        env = {n: x[again] if isinstance(x, np.ndarray) else x for n, x in env.items()}
        first = np.repeat(np.cumsum(trips) - trips, trips)
        env[one.trip.name] = np.arange(len(again)) - first
        weights = weights[again]
    holds = np.ones(len(weights), bool)
    for condition in conditions:
        holds &= np.broadcast_to(np.asarray(evaluate(condition, env), bool), holds.shape)
    return int(weights[holds].sum())


def _count_instances(spec: Spec, scope: str, role: str) -> int:
    """Instances of a scope in a CTA."""
    threads = spec.threads_of(role)
    return threads // SCOPES[scope].size(threads)


def _count_peers(launch: Launch, axis: str) -> int:
    """CTAs of a cluster along an axis, 1 for none."""
    return launch.cluster[CLUSTER_AXES.index(axis)] if axis else 1


# ---------------------------------------------------------------- what each time
def _tally_call(spec: Spec, call: Call, runs: int) -> Tally:
    """What a call does in so many runs of a CTA's. Raises TypeError for a move between memories that is not known."""
    times = runs * _count_instances(spec, call.scope, call.role)
    found = Tally(stored=times * sum(_bytes(r) for r in call.written if r.buffer.traits.is_array))
    if call.op == mma.OP.name:
        m, n, k = extents_of(call)
        taken = ctas_of(call) * sum(_bytes(r) for r in call.read if r.buffer.traits.is_pooled)
        return found + Tally(products=times * m * n * k, read=times * taken)
    to = {r.buffer.traits.state for r in call.written}
    for region in call.sources:
        here = region.buffer.traits.state
        if (here, to) == (_GLOBAL, {_SHARED}):
            fetched = times * _bytes(region)
            kind = _KINDS[call.queue]
            found += Tally({kind: fetched // _count_peers(launch_of(spec), call.peers)}, fetched)
        elif (here, to) == (_GLOBAL, {_REGISTER}):
            waits = any(r.buffer.root in _find_waiting(spec) for r in call.written)
            found += Tally({BY_THREADS: times * _bytes(region)}) if waits else Tally(aside=times * _bytes(region))
        elif (here, to) == (_REGISTER, {_SHARED}) and region.buffer.root in _find_waiting(spec):
            found += Tally(staged=times * _bytes(region))
        elif (here, to) == (_SHARED, {_REGISTER}) and region.buffer.root in _find_joined(spec):
            found += Tally(joined=times * _bytes(region))
        elif (here, to) == (_SHARED, {_REGISTER}):
            found += Tally(read=times * _count_read(spec, call, region))
        elif here not in (_REGISTER, TMEM.state) and (here, to) != (_SHARED, {_GLOBAL}):
            raise TypeError(f"ops/tally.py does not know what goes from {here} memory to {', '.join(sorted(to))}")
    return found


@keep
def _find_waiting(spec: Spec) -> frozenset[str]:
    """Registers in which elements of global memory are on their way into shared memory."""
    moves = [(call.read[0].buffer, r.buffer) for call in outline(spec).calls if call.read for r in call.written]
    come = {dst.root for src, dst in moves if src.traits.is_array and dst.traits.is_held}
    return frozenset(src.root for src, dst in moves if src.root in come and dst.traits.is_pooled)


@keep
def _find_joined(spec: Spec) -> frozenset[str]:
    """Shared memory to which warps bring what products have made, to be added up."""
    made = {call.regions["c"].buffer.root for call in outline(spec).calls if call.op == mma.OP.name}
    brought = ((call.read, r.buffer) for call in outline(spec).calls if call.scope == "warp" for r in call.written)
    return frozenset(b.root for read, b in brought if b.traits.is_pooled and made & {r.buffer.root for r in read})


def _bytes(region: Region) -> int:
    return prod(region.lengths) * DTYPES[region.buffer.dtype].bytes


def _count_read(spec: Spec, call: Call, region: Region) -> int:
    """Bytes that the warps of one instance read of a region that is an operand of a product, each warp's once."""
    threads = SCOPES[call.scope].size(spec.threads_of(call.role))
    if threads <= WARP_LANES:
        return _bytes(region)
    for product in outline(spec).calls:
        if product.op == mma.OP.name:
            for name in ("a", "b"):
                if product.regions[name].buffer in [r.buffer for r in call.written]:
                    tiling = find_tiling(product, threads)
                    if tiling is not None:
                        return _count_owned(tiling, name.upper()) * DTYPES[region.buffer.dtype].bytes
    raise TypeError(f"ops/tally.py does not know who owns what of {call.written[0].text}")


@cache
def _count_owned(tiling: MmaTiling, operand: str) -> int:
    """Elements of an operand that each warp has, each once, summed over warps."""
    owned = list_owned(tiling, operand)
    rows, columns = owned[..., 0], owned[..., 1]
    warps = (rows * (int(columns.max()) + 1) + columns).reshape(-1, WARP_LANES * owned.shape[1])
    return sum(len(np.unique(warp)) for warp in warps)
