"""What a spec means, executed on physical images without a plan: every op gathers, computes and scatters in NumPy.

Shared memory and registers are bytes and registers of one CTA; an element lies where its buffer's layout puts it. So an
in-place permute through a view, a swizzled tile and a fragment all mean what their layouts say, and nothing of the
plan's partitions, vectors or addresses is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, pairwise
from math import prod
from typing import Any

import numpy as np

from tilegen.arithmetic import TYPED, Domain
from tilegen.dtypes import DTYPES
from tilegen.errors import Diagnostic, ProofError
from tilegen.index import Formula, Index, evaluate, variables
from tilegen.index.recurrences import ALL_TRIPS, Trips
from tilegen.kept import keep
from tilegen.ops import OPS
from tilegen.ops.op import Here
from tilegen.reference.clusters import list_whole, multiply_in_pairs
from tilegen.reference.indexed import carry_by_index, check_claims
from tilegen.reference.machine import Array, CtaBatch, Input, NotUniform, Writes, forget_names, numbers_in_sight
from tilegen.reference.places import find_written, gather, owe, scatter
from tilegen.reference.signals import Blocks, Signals
from tilegen.reference.updates import accumulate, join_updates, lay_updates
from tilegen.scopes import SCOPES
from tilegen.spec.data import (
    ArriveStatement,
    Call,
    LetStatement,
    Loop,
    RoleBlock,
    Spec,
    Statement,
    SyncStatement,
    WaitStatement,
    WhenStatement,
)
from tilegen.spec.form import name_of_result
from tilegen.spec.outline import outline, trip_of
from tilegen.spec.pads import pad_of
from tilegen.spec.pairs import is_of_pair

_MOST_MARKED = 1 << 26  # of numbers that are marked one by one
_BATCH_ELEMS = 1 << 20  # elements of one region over the CTAs that run together


def run_reference(
    spec: Spec, ctas: Sequence[tuple[int, int, int]], inputs: Mapping[str, Input], params: Mapping[str, int],
    trips: Trips = ALL_TRIPS, domain: Domain = TYPED,
) -> dict[str, tuple[Array, Array]]:  # fmt: skip
    """What the CTAs write: per global array, sorted flat element offsets and their values (as raw bits).

    ``inputs``: per global array, a function from flat offsets to elements as ``domain`` stores them. ``trips``: those
    that run.
    """
    found = {}
    for name, writes in _collect(spec, ctas, inputs, params, trips, domain).items():
        if writes[0].function:  # all that is put there at once: no order of it is known
            found[name] = lay_updates(writes, inputs[name], domain.of(name), spec.buffer(name).dtype)
        else:
            last = _last_write(writes)
            found[name] = last.at, last.bits
    return found


def run_with_writers(
    spec: Spec, ctas: Sequence[tuple[int, int, int]], inputs: Mapping[str, Input], params: Mapping[str, int],
    trips: Trips = ALL_TRIPS, domain: Domain = TYPED,
) -> dict[str, Writes]:  # fmt: skip
    """The same, and which of the CTAs writes each element last; of arrays that are updated atomically, what each of
    them puts to each element.
    """
    found = _collect(spec, ctas, inputs, params, trips, domain)
    return {
        name: join_updates(writes, domain.of(name), spec.buffer(name).dtype)
        if writes[0].function
        else _last_write(writes)
        for name, writes in found.items()
    }


def _collect(
    spec: Spec, ctas: Sequence[tuple[int, int, int]], inputs: Mapping[str, Input], params: Mapping[str, int],
    trips: Trips, domain: Domain,
) -> dict[str, list[Writes]]:  # fmt: skip
    """All writes of the CTAs, per global array in the order of the ops."""
    parts: dict[str, list[Writes]] = {}
    for written in run_batches(spec, ctas, inputs, params, trips, domain):
        for name, writes in written.items():
            parts.setdefault(name, []).extend(writes)
    for writes in parts.values():
        check_claims(writes)
    return parts


def run_batches(
    spec: Spec,
    ctas: Sequence[tuple[int, int, int]],
    inputs: Mapping[str, Input],
    params: Mapping[str, int],
    trips: Trips = ALL_TRIPS,
    domain: Domain = TYPED,
) -> Iterator[dict[str, list[Writes]]]:
    """The writes of the CTAs, some CTAs at a time: per global array in the order of the ops."""

    numbers = {cta: k for k, cta in enumerate(ctas)}
    ctas, whole = list_whole(spec, ctas)
    asked = np.array([numbers.get(cta, -1) for cta in ctas], np.int64)

    def batch(own: range) -> CtaBatch:
        return CtaBatch(spec, [ctas[k] for k in own], inputs, dict(params), trips, domain)

    size = max(1, _BATCH_ELEMS // (_widest(spec) * domain.scale) // whole) * whole
    for first in range(0, len(ctas), size):
        written = _run_batch(batch, range(first, min(first + size, len(ctas))), whole)
        yield written if whole == 1 else {name: list(_keep_asked(writes, asked)) for name, writes in written.items()}


def _keep_asked(writes: Sequence[Writes], asked: Array) -> Iterator[Writes]:
    """The writes of the CTAs that were asked for. ``asked``: the number of each that runs among those, -1 for none."""
    for one in writes:
        cta = np.broadcast_to(asked[one.cta], np.shape(one.at))
        is_asked = cta >= 0
        if is_asked.any():
            yield one._replace(at=one.at[is_asked], bits=one.bits[is_asked], cta=cta[is_asked])


def _widest(spec: Spec) -> int:
    """Elements of the largest region over all instances of its op."""
    sizes = [1]
    for call in outline(spec).calls:
        threads = spec.threads_of(call.role)
        instances = -(-threads // SCOPES[call.scope].size(threads))
        sizes += [instances * prod(r.lengths) for r in call.regions.values()]
    return max(sizes)


def _run_batch(batch: Callable[[range], CtaBatch], own: range, whole: int) -> dict[str, list[Writes]]:
    """The writes of those CTAs that have numbers in ``own``; ``whole``: so many are run together at least."""
    machine = batch(own)
    try:
        if machine.spec.roles:
            _run_roles(machine, whole)
        else:
            for _ in _run(machine, machine.spec.ops):
                pass
    except NotUniform:
        out: dict[str, list[Writes]] = {}
        for k in own[::whole]:
            for name, writes in _run_batch(batch, range(k, k + whole), whole).items():
                out.setdefault(name, []).extend(writes)
        return out
    written = machine.written
    return {name: [one._replace(cta=one.cta + own.start) for one in writes] for name, writes in written.items()}


def _last_write(writes: Sequence[Writes]) -> Writes:
    at, bits, cta = (np.concatenate(parts)[::-1] for parts in zip(*(one[:3] for one in writes), strict=True))
    unique, first = np.unique(at, return_index=True)
    return Writes(unique, bits[first], cta[first])


# ---------------------------------------------------------------- statements
def _run_roles(machine: CtaBatch, whole: int) -> None:
    """Every role in turn, each until it must wait; raises ProofError TG413 where all wait for one another.

    ``whole``: CTAs that need each other, NotUniform of more than these.
    """
    signals = Signals(machine)
    live = {
        r.name: _run(replace(machine, role=r.name, named=[], guards=[], sight={}),
                     machine.spec.ops, signals)
        for r in machine.spec.roles
    }  # fmt: skip
    while live:
        waiting: dict[str, WaitStatement | SyncStatement] = {}
        moved = False
        for role, turn in list(live.items()):
            found = next(turn, None)
            if found is None:
                del live[role]
                moved = True
            else:
                waiting[role], has_moved = found
                moved |= has_moved
        if not moved:
            if len(machine.ctas) > whole:
                raise NotUniform  # those of one CTA may wait for others of another
            names = " and ".join(f"'{role}'" for role in waiting)
            first = next(iter(waiting.values())).mark
            raise ProofError(Diagnostic("TG413", f"the roles {names} wait for one another", first))


def _run(
    machine: CtaBatch, statements: Sequence[Statement], signals: Signals | None = None
) -> Iterator[tuple[WaitStatement | SyncStatement, bool]]:
    """Carry out a list; yields where a role must wait, and whether it has moved since it last did."""
    outside = len(machine.named)
    for s in statements:
        if isinstance(s, Loop):
            yield from _run_loop(machine, s, signals)
        elif isinstance(s, LetStatement):
            machine.named += [(var.name, value) for var, value in s.entries]
        elif isinstance(s, WhenStatement):
            machine.guards.append(s.when)
            if _may_hold(machine, s.when):
                yield from _run(machine, s.body, signals)
            machine.guards.pop()
        elif isinstance(s, RoleBlock):
            if s.role == machine.role:
                yield from _run(machine, s.body, signals)
        elif isinstance(s, Call):
            _call(machine, s, signals)
        elif signals is not None and isinstance(s, ArriveStatement | WaitStatement | SyncStatement):
            blocked, moved = _signal(machine, s, signals), True
            while blocked is not None and blocked():
                assert isinstance(s, WaitStatement | SyncStatement)
                yield s, moved
                moved = False
    forget_names(machine, outside)


def _signal(machine: CtaBatch, s: ArriveStatement | WaitStatement | SyncStatement, signals: Signals) -> Blocks | None:
    """What a statement about roles does; what it must wait for, if anything."""
    if isinstance(s, SyncStatement):
        waits = s.scope in ("roles", "cta", "cluster") and _may_hold(machine, s.when)
        return signals.meet(machine, s) if waits else None
    if isinstance(s, ArriveStatement):
        env = _narrow(machine, s.scope, s.when)
        if env is not None:
            signals.arrive(machine, s, env)
        return None
    here = _narrow(machine, "warp", True)
    if s.barrier is None or here is None:
        return None
    env, counted = _narrow(machine, "warp", s.when), np.flatnonzero(np.bincount(here["block"]))
    none = {name: x[:0] if isinstance(x, np.ndarray) and x.ndim else x for name, x in here.items()}
    return signals.wait(machine, s, none if env is None else env, counted)


def _narrow(machine: CtaBatch, scope: str, condition: Index) -> Mapping[str, Any] | None:
    """The numbers of the instances for which a condition and those around hold, None if there are none."""
    env = numbers_in_sight(machine, scope)
    conditions = [c for c in (*machine.guards, condition) if c is not True]
    if not conditions:
        return env
    runs = np.ones(len(env["instance"]), bool)
    for one in conditions:
        runs = runs & np.asarray(evaluate(one, env), bool)
    if not runs.any():
        return None
    if runs.all():
        return env
    return {k: v[runs] if isinstance(v, np.ndarray) else v for k, v in env.items()}


def _may_hold(machine: CtaBatch, condition: Index) -> bool:
    """Whether a condition holds in any CTA; one on threads may."""
    env = numbers_in_sight(machine)
    return any(v.name not in env for v in variables(condition)) or bool(np.any(evaluate(condition, env)))


def _run_loop(
    machine: CtaBatch, loop: Loop, signals: Signals | None
) -> Iterator[tuple[WaitStatement | SyncStatement, bool]]:
    """The trips of the CTA that makes most of them; the others sit out where they have ended."""
    starts, steps, stops = (_values(machine, x) for x in (loop.start, loop.step, loop.stop))
    counts = {len(range(*one)) for one in zip(starts, stops, steps, strict=True)}
    if len(set(steps)) > 1:
        raise NotUniform
    outside = len(machine.named)
    start, step = starts[0] if len(set(starts)) == 1 else np.array(starts, np.int64), steps[0]
    name = trip_of(loop, outline(machine.spec).names)[0].name
    differ = len(counts) > 1
    if differ:
        machine.guards.append(Formula("<", (loop.var, loop.stop), 2))
    stretches = machine.trips.stretches(name, max(counts))
    gaps: dict[int, tuple[Any, int]] = {}
    period = machine.trips.period(name) if len(stretches) > 1 else 0
    marks = {s.stop - period: after.start for s, after in pairwise(stretches)}  # the last trips before a gap
    for trip in chain.from_iterable(stretches):
        if signals is not None and trip in gaps:
            signals.skip(machine.role, *gaps.pop(trip))
        if signals is not None and trip in marks:
            gaps[marks[trip]] = signals.count(machine.role), (marks[trip] - trip) // period - 1
        machine.named.append((loop.var.name, start + trip * step))
        yield from _run(machine, loop.body, signals)
        forget_names(machine, outside)
    if differ:
        machine.guards.pop()


def _values(machine: CtaBatch, x: Index) -> list[int]:
    """The value of an expression in each of the CTAs that run together."""
    found = np.asarray(evaluate(x, numbers_in_sight(machine)))
    return [int(value) for value in np.broadcast_to(found.ravel(), len(machine.ctas))]


def _call(machine: CtaBatch, call: Call, signals: Signals | None) -> None:
    env = _narrow(machine, call.scope, call.when)
    if env is None:
        return
    if is_of_pair(machine.spec, call):
        multiply_in_pairs(machine, call, env)
        return
    form, op, here = call.form, OPS[call.op], Here(env, machine.scalars, machine.domain)
    pad = pad_of(call)
    check_results(machine, call, env)
    put = call.fields_written if call.accumulates else ()
    late = (*form.updates, *put, form.indexed)
    values = {n: gather(machine, call.regions[n], env, pad) for n in call.fields_read if n not in late}
    if form.index:
        carry_by_index(machine, call, env, op.reference(call, values, here))
        return
    factors = op.factors(call, values, here) if machine.domain.adds_freely else None
    if factors is None or not owe(machine, call.regions[form.updates[0]], env, factors):
        updated = [name for name in form.updates if name in call.regions]
        values |= {name: gather(machine, call.regions[name], env) for name in updated}
        results, count = op.reference(call, values, here), len(env["instance"])
        for name in call.fields_written:
            dst, result = call.regions[name], results[name]
            has_instances = bool(values) or result.size == count * prod(dst.lengths)
            full = (count, *dst.lengths)
            result = result.reshape(full) if has_instances else np.broadcast_to(result, full)
            if call.accumulates:
                accumulate(machine, dst, env, result, call.accumulates)
            else:
                scatter(machine, dst, env, result)
    if signals is not None and call.barrier is not None:
        signals.arrive(machine, call, env)


def check_results(machine: CtaBatch, call: Call, env: Mapping[str, Any]) -> None:
    """Raises ProofError TG408 at the first byte that two results of a call have in common, in some CTA of ``env``."""
    for one, other in _list_rivals(call):
        known = _found_apart(machine.spec)
        key = (outline(machine.spec).number_of(call), one, other, env["instance"].tobytes())
        is_fixed = all(_lies_fixed(call, name) for name in (one, other))
        if is_fixed and key in known:
            continue
        known |= {key} if is_fixed else set()
        a, b = (_list_bytes(machine, call, name, env) for name in (one, other))
        if len(common := _find_common(a, b)):
            where = call.regions[one].buffer.root
            message = f"results '{name_of_result(one)}' and '{name_of_result(other)}' both write byte {common[0]}"
            message += f" of {where}"
            raise ProofError(Diagnostic("TG408", message, call.mark_of(other), "each result has elements of its own"))


def _find_common(a: Array, b: Array) -> Array:
    """The numbers that are in both, in order."""
    if not a.size or not b.size or max(a.max(), b.max()) > _MOST_MARKED:
        return np.intersect1d(a, b)
    marked = np.zeros(int(a.max()) + 1, bool)
    marked[a] = True
    return np.unique(b[(b < len(marked)) & marked[np.minimum(b, len(marked) - 1)]])


@keep
def _found_apart(spec: Spec) -> set[tuple[object, ...]]:
    """Results of calls that were found to have no byte in common, wherever their loops are."""
    return set()


def _lies_fixed(call: Call, name: str) -> bool:
    """Does a result lie at the same bytes of what each CTA has in every trip?"""
    region = call.regions[name]
    return not region.buffer.traits.is_array and all(isinstance(begin, int) for begin in region.begins)


@keep
def _list_rivals(call: Call) -> tuple[tuple[str, str], ...]:
    """The pairs of fields that are written to the bytes of one buffer."""
    pairs = combinations(call.fields_written, 2)
    return tuple((a, b) for a, b in pairs if call.regions[a].buffer.root == call.regions[b].buffer.root)


def _list_bytes(machine: CtaBatch, call: Call, name: str, env: Mapping[str, Any]) -> Array:
    """The bytes that a result takes, numbered through all CTAs for what each has of its own."""
    region = call.regions[name]
    size = DTYPES[region.buffer.dtype].bytes
    at = find_written(machine, region, env)
    return np.asarray((at.reshape(-1, 1) * size + np.arange(size)).ravel())
