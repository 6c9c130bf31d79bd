"""What a spec means, executed on physical images without a plan: every op gathers, computes and scatters in NumPy.

Shared memory and registers are bytes and registers of one CTA; an element lies where its buffer's layout puts it. So an
in-place permute through a view, a swizzled tile and a fragment all mean what their layouts say, and nothing of the
plan's partitions, vectors or addresses is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen import layouts
from tilegen.arithmetic import TYPED, Domain
from tilegen.dtypes import DTYPES
from tilegen.index import Formula, Index, evaluate, variables
from tilegen.index.courses import ALL_TRIPS, Trips
from tilegen.ops import OPS
from tilegen.ops.op import Here
from tilegen.scopes import SCOPES, THREAD_AXES, thread_variables
from tilegen.spec.data import Buffer, Call, Guarded, Loop, Naming, Region, Spec, Statement
from tilegen.spec.outline import outline, trip_of

Array = NDArray[Any]
Input = Callable[[Array], Array]

_POISON = 0xA5


_BATCH_ELEMS = 1 << 20  # elements of one region over the CTAs that run together


class _NotUniform(Exception):
    """Where a loop begins, or its step, differs between the CTAs that run together."""


@dataclass
class _Machine:
    """CTAs run together: bytes of each shared root, registers of each register root, what was written to arrays."""

    spec: Spec
    ctas: Sequence[tuple[int, int, int]]
    inputs: Mapping[str, Input]
    env: dict[str, Any]  # numbers: runtime params and loop variables
    trips: Trips = ALL_TRIPS
    domain: Domain = TYPED
    lets: list[tuple[str, Index]] = field(default_factory=list)  # that are in sight, the outermost first
    guards: list[Index] = field(default_factory=list)  # conditions around
    shared: dict[str, Array] = field(default_factory=dict)
    registers: dict[str, Array] = field(default_factory=dict)
    written: dict[str, list[tuple[Array, Array]]] = field(default_factory=dict)

    @property
    def scalars(self) -> dict[str, float]:
        """The params of floating type."""
        return {p.name: float(p.default) for p in self.spec.params if p.var is None}


def run_reference(
    spec: Spec, ctas: Sequence[tuple[int, int, int]], inputs: Mapping[str, Input], params: Mapping[str, int],
    trips: Trips = ALL_TRIPS, domain: Domain = TYPED,
) -> dict[str, tuple[Array, Array]]:  # fmt: skip
    """What the CTAs write: per global array, sorted flat element offsets and their values (as raw bits).

    ``inputs``: per global array, a function from flat offsets to elements as ``domain`` stores them. ``trips``: those
    that run.
    """
    parts: dict[str, list[tuple[Array, Array]]] = {}
    for written in run_batches(spec, ctas, inputs, params, trips, domain):
        for name, writes in written.items():
            parts.setdefault(name, []).extend(writes)
    return {name: _last_write(writes) for name, writes in parts.items()}


def run_batches(
    spec: Spec, ctas: Sequence[tuple[int, int, int]], inputs: Mapping[str, Input], params: Mapping[str, int],
    trips: Trips = ALL_TRIPS, domain: Domain = TYPED,
) -> Iterator[dict[str, list[tuple[Array, Array]]]]:
    """The writes of the CTAs, some CTAs at a time: per global array (offsets, raw bits) in the order of the ops."""
    size = max(1, _BATCH_ELEMS // (_widest(spec) * domain.scale))
    for first in range(0, len(ctas), size):
        yield _run_batch(spec, ctas[first : first + size], inputs, params, trips, domain)


def _widest(spec: Spec) -> int:
    """Elements of the largest region over all instances of its op."""
    sizes = [1]
    for call in outline(spec).calls:
        instances = -(-spec.threads // SCOPES[call.scope].size(spec.threads))
        sizes += [instances * prod(r.lengths) for r in call.regions.values()]
    return max(sizes)


def _run_batch(
    spec: Spec, ctas: Sequence[tuple[int, int, int]], inputs: Mapping[str, Input], params: Mapping[str, int],
    trips: Trips, domain: Domain,
) -> dict[str, list[tuple[Array, Array]]]:  # fmt: skip
    machine = _Machine(spec, ctas, inputs, dict(params), trips, domain)
    try:
        _run(machine, spec.ops)
    except _NotUniform:
        out: dict[str, list[tuple[Array, Array]]] = {}
        for cta in ctas:
            for name, writes in _run_batch(spec, [cta], inputs, params, trips, domain).items():
                out.setdefault(name, []).extend(writes)
        return out
    return machine.written


def _last_write(writes: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    offsets = np.concatenate([w[0] for w in writes])[::-1]
    values = np.concatenate([w[1] for w in writes])[::-1]
    unique, first = np.unique(offsets, return_index=True)
    return unique, values[first]


# ---------------------------------------------------------------- statements
def _run(machine: _Machine, statements: Sequence[Statement]) -> None:
    outside = len(machine.lets)
    for s in statements:
        if isinstance(s, Loop):
            _run_loop(machine, s)
        elif isinstance(s, Naming):
            machine.lets += [(var.name, value) for var, value in s.entries]
        elif isinstance(s, Guarded):
            machine.guards.append(s.when)
            if _may_hold(machine, s.when):
                _run(machine, s.body)
            machine.guards.pop()
        elif isinstance(s, Call):
            _call(machine, s)
    del machine.lets[outside:]


def _may_hold(machine: _Machine, condition: Index) -> bool:
    """Whether a condition holds in any CTA; one on threads may."""
    env = _with_lets(machine, machine.env | _cta_axes(machine, 1))
    return any(v.name not in env for v in variables(condition)) or bool(np.any(evaluate(condition, env)))


def _with_lets(machine: _Machine, env: dict[str, Any]) -> dict[str, Any]:
    """The values of the lets in sight too, of those whose axes are known."""
    for name, value in machine.lets:
        if all(v.name in env for v in variables(value)):
            env[name] = evaluate(value, env)
    return env


def _run_loop(machine: _Machine, loop: Loop) -> None:
    """The trips of the CTA that makes most of them; the others sit out where they have ended."""
    starts, steps, stops = (_values(machine, x) for x in (loop.start, loop.step, loop.stop))
    if len(starts) > 1 or len(steps) > 1:
        raise _NotUniform
    start, step = starts[0], steps[0]
    name = trip_of(loop, outline(machine.spec).names)[0].name
    differ = len(stops) > 1
    if differ:
        machine.guards.append(Formula("<", (loop.var, loop.stop), 2))
    for trip in chain.from_iterable(machine.trips.stretches(name, len(range(start, max(stops), step)))):
        machine.env[loop.var.name] = start + trip * step
        _run(machine, loop.body)
    if differ:
        machine.guards.pop()
    machine.env.pop(loop.var.name, None)


def _values(machine: _Machine, x: Index) -> list[int]:
    """The different values of an expression in the CTAs that run together."""
    found = np.unique(np.asarray(evaluate(x, _with_lets(machine, machine.env | _cta_axes(machine, 1)))))
    return [int(value) for value in found]


def _call(machine: _Machine, call: Call) -> None:
    env = _with_lets(machine, _instances(machine, call.scope) | machine.env)
    count = len(env["instance"])
    runs = np.ones(count, bool)
    for condition in (*machine.guards, call.when):
        runs = runs & np.asarray(evaluate(condition, env), bool)
    if not runs.any():
        return
    env = {k: v[runs] if isinstance(v, np.ndarray) else v for k, v in env.items()}
    form = call.form
    values = {name: _gather(machine, call.regions[name], env) for name in call.fields_read}
    results = OPS[call.op].reference(call, values, Here(env, machine.scalars, machine.domain))
    count = len(env["instance"])
    for name in (*form.updates, *form.writes):
        dst, result = call.regions[name], results[name]
        has_instances = bool(values) or result.size == count * prod(dst.lengths)
        full = (count, *dst.lengths)
        result = result.reshape(full) if has_instances else np.broadcast_to(result, full)
        _scatter(machine, dst, env, result)


def _cta_axes(machine: _Machine, each: int) -> dict[str, Array]:
    """The axes that number CTAs, ``each`` times per CTA."""
    out = {}
    for axis, column, n in zip("xyz", np.array(machine.ctas, np.int64).T, machine.spec.cluster, strict=True):
        out[f"b{axis}"] = np.repeat(column, each)
        out[f"cb{axis}"] = out[f"b{axis}"] % n
    return out


def _instances(machine: _Machine, scope: str) -> dict[str, Any]:
    """The axes that number an op's instances, as arrays. ``instance`` is the first thread of each, over all CTAs."""
    threads = machine.spec.threads
    first = np.arange(0, threads, SCOPES[scope].size(threads), dtype=np.int64)
    axes = {
        name: np.broadcast_to(evaluate(x, {"tx": first}), first.shape) for name, x in thread_variables(threads).items()
    }
    ctas = len(machine.ctas)
    block = np.repeat(np.arange(ctas), len(first))
    numbered = {name: np.tile(axes[name], ctas) for name in SCOPES[scope].axes} | _cta_axes(machine, len(first))
    return {"instance": np.tile(first, ctas) + block * threads, "block": block} | numbered


# ---------------------------------------------------------------- where elements lie
def _coordinates(region: Region, env: Mapping[str, Any]) -> list[Array]:
    """Absolute coordinates, one array per dimension, broadcasting to (instances, *lengths)."""
    rank, out = len(region.lengths), []
    for d, (begin, length) in enumerate(zip(region.begins, region.lengths, strict=True)):
        start = np.broadcast_to(np.asarray(evaluate(begin, env), np.int64), (len(env["instance"]),))
        steps = np.arange(length, dtype=np.int64).reshape([-1 if k == d else 1 for k in range(rank)])
        out.append(start.reshape(-1, *[1] * rank) + steps)
    return out


def _number(x: Index, env: Mapping[str, Any]) -> int:
    return int(evaluate(x, {k: v for k, v in env.items() if not isinstance(v, np.ndarray)}))


def _places(region: Region, env: Mapping[str, Any]) -> tuple[dict[str, Array], Array]:
    """(axis -> coordinates, inside): where the region's elements lie, and which are inside the buffer."""
    buffer = region.buffer
    at = _coordinates(region, env)
    shape = tuple(_number(n, env) for n in buffer.shape)
    full = (len(env["instance"]), *region.lengths)
    inside = np.ones(full, bool)
    for x, n in zip(at, shape, strict=True):
        inside &= x < n
    at = [np.minimum(x, n - 1) for x, n in zip(at, shape, strict=True)]
    numbers = {k: v for k, v in env.items() if not isinstance(v, np.ndarray)}
    layout = layouts.bind(buffer.layout, numbers) if buffer.scope == "global" else buffer.layout
    place = layout.place(at, shape)
    return {axis: np.broadcast_to(np.asarray(x, np.int64), full) for axis, x in place.items()}, inside


def _slots(place: Mapping[str, Array], env: Mapping[str, Any]) -> tuple[Array, Array]:
    """(thread, register) of each element of a register tensor."""
    some = next(iter(place.values()))
    thread = np.zeros(some.shape, np.int64) + env["instance"].reshape(-1, *[1] * (some.ndim - 1))
    for axis, x in place.items():
        if axis != "m":
            thread = thread + x * THREAD_AXES[axis].unit
    return thread, np.broadcast_to(place.get("m", np.zeros(1, np.int64)), some.shape)


# ---------------------------------------------------------------- values
def _gather(machine: _Machine, region: Region, env: Mapping[str, Any]) -> Array:
    buffer = region.buffer
    dtype = machine.domain.stored(buffer.dtype)
    place, inside = _places(region, env)
    if buffer.scope == "register":
        values = _register_file(machine, buffer)[_slots(place, env)]
    elif buffer.scope == "shared":
        values = _image(machine, buffer)[_block_of(env, place["m"]), place["m"]]
    else:
        values = _read_global(machine, buffer, place["m"])
    raw = machine.domain.bits(DTYPES[buffer.dtype].bytes)
    return np.where(inside, np.ascontiguousarray(values).view(raw), np.zeros(1, dtype).view(raw)).view(dtype)


def _scatter(machine: _Machine, region: Region, env: Mapping[str, Any], values: Array) -> None:
    buffer = region.buffer
    place, inside = _places(region, env)
    values = np.ascontiguousarray(values).view(machine.domain.stored(buffer.dtype))
    if buffer.scope == "register":
        _register_file(machine, buffer)[_slots(place, env)] = values
    elif buffer.scope == "shared":
        _image(machine, buffer)[_block_of(env, place["m"]), place["m"]] = values
    else:
        raw = values.view(machine.domain.bits(DTYPES[buffer.dtype].bytes))
        machine.written.setdefault(buffer.root, []).append((place["m"][inside], raw[inside]))


def _block_of(env: Mapping[str, Any], like: Array) -> Array:
    """The CTA (in this batch) of each element."""
    return np.broadcast_to(env["block"].reshape(-1, *[1] * (like.ndim - 1)), like.shape)


def _register_file(machine: _Machine, buffer: Buffer) -> Array:
    root = machine.spec.buffer(buffer.root)
    if root.name not in machine.registers:
        slots = max(
            max(1, _number(layouts.extent_of(b.layout, "m"), {})) for b in machine.spec.buffers if b.root == root.name
        )
        dtype = machine.domain.stored(root.dtype)
        image = np.full((len(machine.ctas) * machine.spec.threads, slots * dtype.itemsize), _POISON, np.uint8)
        machine.registers[root.name] = image.view(dtype)
    return machine.registers[root.name].view(machine.domain.stored(buffer.dtype))


def _image(machine: _Machine, buffer: Buffer) -> Array:
    """A shared root's bytes, seen as the buffer's elements."""
    root = machine.spec.buffer(buffer.root)
    if root.name not in machine.shared:
        family = [b for b in machine.spec.buffers if b.root == root.name]
        size = max(_number(layouts.extent_of(b.layout, "m"), {}) * DTYPES[b.dtype].bytes for b in family)
        bytes_ = -(-size // 16) * 16 * machine.domain.scale
        machine.shared[root.name] = np.full((len(machine.ctas), bytes_), _POISON, np.uint8)
    return machine.shared[root.name].view(machine.domain.stored(buffer.dtype))


def _read_global(machine: _Machine, buffer: Buffer, offsets: Array) -> Array:
    """The input, with what was written since laid over it."""
    dtype = machine.domain.stored(buffer.dtype)
    given = machine.inputs.get(buffer.root)
    values = (
        given(offsets) if given else np.full((*offsets.shape, dtype.itemsize), _POISON, np.uint8).view(dtype)[..., 0]
    )
    values = np.array(values, dtype)
    raw = values.view(machine.domain.bits(DTYPES[buffer.dtype].bytes))
    for at, written in machine.written.get(buffer.root, ()):
        order = np.argsort(at, kind="stable")
        where = np.searchsorted(at[order], offsets, side="right") - 1
        hit = (where >= 0) & (at[order][np.maximum(where, 0)] == offsets)
        raw[hit] = written[order][where[hit]]
    return values
