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
from tilegen.kept import keep
from tilegen.ops import OPS
from tilegen.ops.op import Here
from tilegen.scopes import SCOPES, THREAD_AXES, thread_variables
from tilegen.spec.data import Buffer, Call, Guarded, Loop, Naming, Region, Spec, Statement
from tilegen.spec.outline import outline, trip_of

Array = NDArray[Any]
Input = Callable[[Array], Array]

_POISON = 0xA5


_MOST_KEPT = 1 << 22  # elements whose places are kept
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
    instances: dict[str, dict[str, Any]] = field(default_factory=dict)  # the axes of each scope
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
    if not runs.all():
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
    if scope not in machine.instances:
        machine.instances[scope] = _number_instances(machine, scope)
    return machine.instances[scope]


def _number_instances(machine: _Machine, scope: str) -> dict[str, Any]:
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
def _starts(region: Region, env: Mapping[str, Any]) -> list[Array]:
    """Where the region begins, by dimension: one number, or one for each instance."""
    return [np.asarray(evaluate(begin, env), np.int64) for begin in region.begins]


def _coordinates(region: Region, starts: Sequence[Array], count: int) -> list[Array]:
    """Absolute coordinates, one array per dimension, broadcasting to (instances, *lengths)."""
    rank, out = len(region.lengths), []
    for d, (start, length) in enumerate(zip(starts, region.lengths, strict=True)):
        steps = np.arange(length, dtype=np.int64).reshape([-1 if k == d else 1 for k in range(rank)])
        out.append(np.broadcast_to(start, (count,)).reshape(-1, *[1] * rank) + steps)
    return out


def _number(x: Index, env: Mapping[str, Any]) -> int:
    return int(evaluate(x, {k: v for k, v in env.items() if not isinstance(v, np.ndarray)}))


@dataclass(frozen=True)
class _Elements:
    """Where a region's elements lie, (instances, *lengths), and which are inside the buffer (None: all).

    ``at``: offsets in a global array, or in the image of the buffer in shared memory or registers.
    """

    at: Array
    inside: Array | None


@keep
def _kept_elements(spec: Spec) -> dict[object, tuple[Region, _Elements]]:
    """What was found out of shared memory and registers, by region and where it begins; with the region."""
    return {}


def _find_elements(machine: _Machine, region: Region, env: Mapping[str, Any]) -> _Elements:
    """The elements of a region, as they were found before where it began there before."""
    starts = _starts(region, env)
    if region.buffer.scope == "global":
        return _place_elements(machine, region, env, starts)
    kept = _kept_elements(machine.spec)
    key = id(region), env["instance"].tobytes(), tuple(start.tobytes() for start in starts)
    if key not in kept:
        found = _place_elements(machine, region, env, starts)
        if sum(e.at.size for _, e in kept.values()) > _MOST_KEPT:
            kept.clear()
        kept[key] = region, found
    return kept[key][1]


def _place_elements(
    machine: _Machine, region: Region, env: Mapping[str, Any], starts: Sequence[Array]
) -> _Elements:  # fmt: skip
    place, inside = _places(region, env, starts)
    buffer = region.buffer
    at = place.get("m", np.zeros(1, np.int64))
    if buffer.scope in _IMAGES:
        row, column = _slots(place, env) if buffer.scope == "register" else (_block_of(env, at), at)
        at = row * _IMAGES[buffer.scope](machine, buffer).shape[1] + column
    return _Elements(at, None if inside.all() else inside)


def _places(region: Region, env: Mapping[str, Any], starts: Sequence[Array]) -> tuple[dict[str, Array], Array]:
    """(axis -> coordinates, inside): where the region's elements lie, and which are inside the buffer."""
    buffer = region.buffer
    at = _coordinates(region, starts, len(env["instance"]))
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
    found = _find_elements(machine, region, env)
    if buffer.scope in _IMAGES:
        values = _IMAGES[buffer.scope](machine, buffer).ravel()[found.at]
    else:
        values = _read_global(machine, buffer, found.at)
    if found.inside is None:
        return np.ascontiguousarray(values)
    raw = machine.domain.bits(DTYPES[buffer.dtype].bytes)
    return np.where(found.inside, np.ascontiguousarray(values).view(raw), np.zeros(1, dtype).view(raw)).view(dtype)


def _scatter(machine: _Machine, region: Region, env: Mapping[str, Any], values: Array) -> None:
    buffer = region.buffer
    found = _find_elements(machine, region, env)
    values = np.ascontiguousarray(values).view(machine.domain.stored(buffer.dtype))
    if buffer.scope in _IMAGES:
        _IMAGES[buffer.scope](machine, buffer).reshape(-1)[found.at] = values
        return
    raw = values.view(machine.domain.bits(DTYPES[buffer.dtype].bytes))
    inside = np.ones(found.at.shape, bool) if found.inside is None else found.inside
    machine.written.setdefault(buffer.root, []).append((found.at[inside], raw[inside]))


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


_IMAGES: dict[str, Callable[[_Machine, Buffer], Array]] = {"register": _register_file, "shared": _image}


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
