"""Where the elements of a region lie, and their values there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from tilegen import layouts
from tilegen.dtypes import DTYPES
from tilegen.index import Index, evaluate
from tilegen.kept import keep
from tilegen.layouts.core.cells import COLUMN_BYTES
from tilegen.ops.op import Factors
from tilegen.reference.machine import Array, CtaBatch, Writes
from tilegen.scopes import THREAD_AXES
from tilegen.spec.data import Buffer, Region, Spec
from tilegen.spec.tensor_memory import cells_of

_POISON = 0xA5
_MOST_KEPT = 1 << 22  # elements whose places are kept
_MOST_OWED = 512  # of K, of products that are made as one


# ---------------------------------------------------------------- where elements lie
def _starts(region: Region, env: Mapping[str, Any]) -> list[int | Array]:
    """Where the region begins, by dimension: one number, or one for each instance."""
    return [begin if isinstance(begin, int) else evaluate(begin, env) for begin in region.begins]


def _coordinates(region: Region, starts: Sequence[int | Array], count: int) -> list[Array]:
    """Absolute coordinates, one array per dimension, broadcasting to (instances, *lengths)."""
    rank, out = len(region.lengths), []
    for d, (start, length) in enumerate(zip(starts, region.lengths, strict=True)):
        steps = np.arange(length, dtype=np.int64).reshape([-1 if k == d else 1 for k in range(rank)])
        out.append(np.broadcast_to(start, (count,)).reshape(-1, *[1] * rank) + steps)
    return out


def _number(x: Index, env: Mapping[str, Any]) -> int:
    return int(evaluate(x, {k: v for k, v in env.items() if not isinstance(v, np.ndarray)}))


def _each(x: Index, env: Mapping[str, Any], rank: int) -> Any:
    """A number, or one for each instance, which broadcasts to (instances, *lengths)."""
    found = np.asarray(evaluate(x, env))
    return found.reshape(-1, *[1] * (rank - 1)) if found.ndim else int(found)


@dataclass(frozen=True)
class Elements:
    """Where a region's elements lie, (instances, *lengths), and which are inside the buffer (None: all).

    ``at``: offsets in a global array, or in the image of the buffer in shared memory or registers.
    """

    at: Array
    inside: Array | None


@keep
def _kept_elements(spec: Spec) -> dict[object, Elements]:
    """What was found out of shared memory and registers, by buffer and where a region of it begins and ends."""
    return {}


def find_elements(machine: CtaBatch, region: Region, env: Mapping[str, Any]) -> Elements:
    """The elements of a region, as they were found before where it began there before."""
    starts = _starts(region, env)
    if region.buffer.traits.is_array:
        return _place_elements(machine, region, env, starts)
    kept = _kept_elements(machine.spec)
    begins = tuple(start if isinstance(start, int) else start.tobytes() for start in starts)
    key = machine.role, region.buffer.name, region.lengths, begins, env["instance"].tobytes()
    if key not in kept:
        found = _place_elements(machine, region, env, starts)
        if sum(e.at.size for e in kept.values()) > _MOST_KEPT:
            kept.clear()
        kept[key] = found
    return kept[key]


def _place_elements(
    machine: CtaBatch, region: Region, env: Mapping[str, Any], starts: Sequence[int | Array]
) -> Elements:  # fmt: skip
    at = _coordinates(region, starts, len(env["instance"]))
    return find_places(machine, region, env, at, region.lengths)


def find_places(
    machine: CtaBatch, region: Region, env: Mapping[str, Any], coordinates: list[Array], lengths: tuple[int, ...]
) -> Elements:  # fmt: skip
    """Where elements at coordinates of a region's buffer lie, and which are inside it; (instances, *lengths)."""
    buffer = region.buffer
    place, inside = _places(region, env, coordinates, lengths)
    at = place.get("m", np.zeros(1, np.int64))
    if buffer.traits.has_cells:
        width = _bytes_of_lane(machine.spec.buffer(buffer.root)) // DTYPES[buffer.dtype].bytes
        at = place.get("TLane", np.zeros(1, np.int64)) * width + place.get("TCol", np.zeros(1, np.int64))
    if not buffer.traits.is_array:
        row, column = _slots(place, env) if buffer.traits.is_held else (block_of(env, at), at)
        at = row * _image_of(machine, buffer).shape[1] + column
    return Elements(at, inside)


def _places(
    region: Region, env: Mapping[str, Any], at: list[Array], lengths: tuple[int, ...]
) -> tuple[dict[str, Array], Array | None]:
    """(axis -> coordinates, inside): where elements lie, and which are inside the buffer (None: all)."""
    buffer = region.buffer
    shape = tuple(_number(n, env) for n in buffer.shape)
    full = (len(env["instance"]), *lengths)
    inside = None
    ends = [_each(n, env, len(full)) for n in region.ends] if region.limits else shape
    if any(np.any(x >= n) or x.min(initial=0) < 0 for x, n in zip(at, ends, strict=True)):
        inside = np.ones(full, bool)
        for x, n in zip(at, ends, strict=True):
            inside &= (x >= 0) & (x < n)
        at = [np.clip(x, 0, n - 1) for x, n in zip(at, shape, strict=True)]
    numbers = {k: v for k, v in env.items() if not isinstance(v, np.ndarray)}
    layout = layouts.bind(buffer.layout, numbers) if buffer.traits.is_array else buffer.layout
    counted = buffer.counted_shape if buffer.traits.is_held else shape
    place = layout.place(at, counted)
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
def gather(
    machine: CtaBatch, region: Region, env: Mapping[str, Any], pad: float = 0, found: Elements | None = None
) -> Array:  # fmt: skip
    """The elements of a region, or those ``found`` in its buffer, ``pad`` where they lie outside."""
    buffer = region.buffer
    dtype = machine.domain.stored(buffer.dtype)
    found = find_elements(machine, region, env) if found is None else found
    if not buffer.traits.is_array:
        values = _elements_of(machine, buffer, found.at).take(found.at)
    else:
        values = _read_global(machine, buffer, found.at)
    if found.inside is None:
        return np.ascontiguousarray(values)
    raw = machine.domain.bits(DTYPES[buffer.dtype].bytes)
    outside = machine.domain.fill(pad, buffer.dtype).reshape(1) if pad else np.zeros(1, dtype)
    return np.where(found.inside, np.ascontiguousarray(values).view(raw), outside.view(raw)).view(dtype)


def scatter(
    machine: CtaBatch, region: Region, env: Mapping[str, Any], values: Array, found: Elements | None = None,
    claim: Any = None,
) -> None:  # fmt: skip
    """Write elements to a region, or to ``found`` in its buffer, which a call claims to be distinct."""
    buffer = region.buffer
    found = find_elements(machine, region, env) if found is None else found
    bits = machine.domain.bits(DTYPES[buffer.dtype].bytes)  # NumPy moves plain bits faster than pairs of floats
    raw = np.ascontiguousarray(values).view(bits)
    places = np.broadcast_to(found.at, raw.shape)
    inside = ... if found.inside is None else found.inside
    if not buffer.traits.is_array:
        own = ... if claim is None else inside
        _elements_of(machine, buffer, found.at).view(bits)[places[own]] = raw[own]
        return
    at, new, cta = (x[inside].ravel() for x in (places, raw, block_of(env, raw)))
    machine.written.setdefault(buffer.root, []).append(Writes(at, new, cta, claim=claim))


def find_written(machine: CtaBatch, region: Region, env: Mapping[str, Any]) -> Array:
    """Where elements of a region are written: offsets in a global array, or in the image of what each CTA has."""
    found = find_elements(machine, region, env)
    full = (len(env["instance"]), *region.lengths)
    at = np.broadcast_to(found.at, full)
    return at if found.inside is None else at[np.broadcast_to(found.inside, full)]


# ---------------------------------------------------------------- sums that are made when somebody looks
@dataclass
class OwedProducts:
    """Elements of a buffer, and the products of matrices that are still to be put on top of them.

    One product of matrices put side by side along K is their sum, where the domain adds freely.
    """

    buffer: Buffer
    at: Array
    products: list[Factors]
    depth: int = 0  # of K, of all of them

    def goes_on(self, at: Array, more: Factors) -> bool:
        """Whether a product is one more of the same elements."""
        first = self.products[-1]
        is_alike = (first.multiplied, first.summed) == (more.multiplied, more.summed)
        return at is self.at and is_alike and self.depth < _MOST_OWED

    def put(self, more: Factors) -> None:
        self.products.append(more)
        self.depth += more.a.shape[-1]


def owe(machine: CtaBatch, region: Region, env: Mapping[str, Any], more: Factors) -> bool:
    """Put a product on top of a region's elements when somebody looks; False, and nothing done, where it cannot be."""
    buffer, found = region.buffer, find_elements(machine, region, env)
    if buffer.traits.is_array or found.inside is not None:
        return False
    owed = machine.owed.get(buffer.root)
    if owed is None or not owed.goes_on(found.at, more):
        _pay(machine, buffer.root)
        owed = machine.owed[buffer.root] = OwedProducts(buffer, found.at, [])
    owed.put(more)
    return True


def _pay(machine: CtaBatch, root: str) -> None:
    """What is owed to a buffer is put where it belongs."""
    owed = machine.owed.pop(root, None)
    if owed is not None:
        held, first = _elements_of(machine, owed.buffer, owed.at), owed.products[0]
        a, b = (np.concatenate(x, k) for x, k in (([p.a for p in owed.products], 2), ([p.b for p in owed.products], 1)))
        before = held.take(owed.at).reshape(len(a), a.shape[1], b.shape[2])
        total = machine.domain.matmul(a, b, before, first.multiplied, first.summed)
        held[owed.at] = total.reshape(owed.at.shape).view(held.dtype)


def _elements_of(machine: CtaBatch, buffer: Buffer, at: Array) -> Array:
    """The image of a buffer in registers or shared memory as one row of elements, with nothing owed to those ``at``."""
    _pay(machine, buffer.root)
    _settle(machine, buffer, at)
    return _row_of(machine, buffer)


def _row_of(machine: CtaBatch, buffer: Buffer) -> Array:
    row = machine.rows.get(buffer.name)
    if row is None:
        row = machine.rows[buffer.name] = _image_of(machine, buffer).reshape(-1)
    return row


# ---------------------------------------------------------------- updates that are made when somebody looks
@dataclass(frozen=True)
class Put:
    """Elements that are put to those of a buffer in shared memory by a function, at their places in its image."""

    buffer: Buffer
    function: str
    at: Array
    values: Array

    @property
    def kind(self) -> tuple[str, str, str]:
        return self.buffer.name, self.buffer.dtype, self.function


def _settle(machine: CtaBatch, buffer: Buffer, at: Array) -> None:
    """Put what is kept for elements at ``at`` of a buffer to them: all that one function does at once."""
    left, taken = list[Put](), list[Put]()
    for one in machine.put.pop(buffer.root, []):
        mine = np.isin(one.at, at) if one.buffer.dtype == buffer.dtype else np.ones(len(one.at), bool)
        for found, some in ((taken, mine), (left, ~mine)):
            if some.any():
                found.append(replace(one, at=one.at[some], values=one.values[some]))
    if left:
        machine.put[buffer.root] = left
    for _, same in groupby(taken, lambda one: one.kind):
        parts = list(same)
        view = parts[0].buffer
        held, stored = _row_of(machine, view), machine.domain.stored(view.dtype)
        where, places = np.unique(np.concatenate([p.at for p in parts]), return_inverse=True)
        new = np.concatenate([p.values for p in parts]).view(stored)
        domain = machine.domain.of(buffer.root)
        total = domain.accumulate(parts[0].function, held[where].view(stored), new, places, view.dtype)
        held[where] = total.view(held.dtype)


def block_of(env: Mapping[str, Any], like: Array) -> Array:
    """The CTA (in this batch) of each element."""
    return np.broadcast_to(env["block"].reshape(-1, *[1] * (like.ndim - 1)), like.shape)


def _register_file(machine: CtaBatch, buffer: Buffer) -> Array:
    root = machine.spec.buffer(buffer.root)
    if root.name not in machine.registers:
        slots = max(
            max(1, _number(layouts.extent_of(b.layout, "m"), {})) for b in machine.spec.buffers if b.root == root.name
        )
        dtype = machine.domain.stored(root.dtype)
        image = np.full((len(machine.ctas) * machine.spec.threads, slots * dtype.itemsize), _POISON, np.uint8)
        machine.registers[root.name] = image.view(dtype)
    return machine.registers[root.name].view(machine.domain.stored(buffer.dtype))


def _bytes_of_lane(root: Buffer) -> int:
    """Bytes of a lane of tensor memory in the image of a buffer and of its views: whole columns."""
    return cells_of(root).reach * COLUMN_BYTES


def _image(machine: CtaBatch, buffer: Buffer) -> Array:
    """The bytes of a root in shared or tensor memory, seen as the buffer's elements; lane by lane in tensor memory."""
    root = machine.spec.buffer(buffer.root)
    if root.name not in machine.shared:
        family = [b for b in machine.spec.buffers if b.root == root.name]
        if root.traits.has_cells:
            size = _number(layouts.extent_of(root.layout, "TLane"), {}) * _bytes_of_lane(root)
        else:
            size = max(_number(layouts.extent_of(b.layout, "m"), {}) * DTYPES[b.dtype].bytes for b in family)
        bytes_ = -(-size // 16) * 16 * machine.domain.scale
        machine.shared[root.name] = np.full((len(machine.ctas), bytes_), _POISON, np.uint8)
    return machine.shared[root.name].view(machine.domain.stored(buffer.dtype))


def _image_of(machine: CtaBatch, buffer: Buffer) -> Array:
    """All that the CTAs, or their threads, have of a buffer: a row of elements for each of them."""
    if buffer.traits.is_held:
        return _register_file(machine, buffer)
    if buffer.traits.is_pooled or buffer.traits.has_cells:
        return _image(machine, buffer)
    raise TypeError(f"reference/places.py does not know {buffer.traits.words}")


def _read_global(machine: CtaBatch, buffer: Buffer, offsets: Array) -> Array:
    """The input, with what was written since laid over it."""
    dtype = machine.domain.stored(buffer.dtype)
    given = machine.inputs.get(buffer.root)
    values = (
        given(offsets) if given else np.full((*offsets.shape, dtype.itemsize), _POISON, np.uint8).view(dtype)[..., 0]
    )
    values = np.array(values, dtype)
    raw = values.view(machine.domain.bits(DTYPES[buffer.dtype].bytes))
    for at, written, *_ in (one for one in machine.written.get(buffer.root, ()) if one.at.size):
        order = np.argsort(at, kind="stable")
        where = np.searchsorted(at[order], offsets, side="right") - 1
        hit = (where >= 0) & (at[order][np.maximum(where, 0)] == offsets)
        raw[hit] = written[order][where[hit]]
    return values
