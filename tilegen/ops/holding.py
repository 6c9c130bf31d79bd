"""Who holds an element that a thread needs: registers of other tensors, read under the ownership of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Index, Var, add, div, evaluate, mod, mul, variables
from tilegen.layouts import tile_of
from tilegen.ops.operand import Context, Operand, Refused, absolute, join_operands
from tilegen.ops.ownership import Ownership, as_int
from tilegen.scopes import SCOPES, THREAD_AXES, thread_variables

Ints = NDArray[np.int64]
_MOST_PLACES = 16  # of the loops around an op at which ownership is compared; it repeats after a few


def find_slot(context: Context, owned: Ownership, other: Operand, scope: str, number: Index) -> Index:
    """The register of ``other`` (a tensor over the same region, or stretched over it) that belongs to an element.

    Raises Refused where a thread does not hold the elements of ``other`` that it needs beside its own.
    """
    lengths = owned.operand.counted_lengths
    place = other.buffer.layout.place(other.region.begins, other.buffer.counted_shape)
    slot: Index = place.get("m", 0)
    at, _ = owned.element(number)
    for digit in join_operands((owned.operand, other), lengths):
        stride = digit.strides[1]
        if stride is None:
            raise Refused(f"the region {other.region.text} cuts across the iters of {other.buffer.name}'s layout")
        if digit.axes[1] == "m" and stride != 0:
            (d, weight, extent), *_ = digit.places
            slot = add(slot, mul(_digit_of(at[d], weight, extent, lengths[d]), stride))
    if any(v.name in THREAD_AXES or v.name in owned.names - {owned.step} for v in _variables(slot)):
        raise Refused(_say_apart(owned, other))
    _check_held(context, owned, other, scope, number, slot)
    return slot


def _digit_of(x: Index, weight: int, extent: int, length: int) -> Index:
    high = div(x, weight)
    return high if weight * extent == length else mod(high, extent)


def _check_held(context: Context, owned: Ownership, other: Operand, scope: str, number: Index, slot: Index) -> None:
    """Every thread holds what it reads, in the register that it reads: looked up thread by thread."""
    threads = context.launch.threads
    tx = np.arange(SCOPES[scope].size(threads))[:, None]
    env: dict[str, Any] = {name: np.asarray(evaluate(x, {"tx": tx})) for name, x in thread_variables(threads).items()}
    env |= {v.name: np.arange(v.bound)[None, :] for v in _variables(number)}
    for extra in _places(owned, other, env):
        known = env | extra
        for n in owned.numbers:
            known[n.var.name] = np.maximum(evaluate(n.value, known), 0)
        held = np.asarray(evaluate(owned.enter, known), bool) & np.asarray(evaluate(owned.held, known), bool)
        at, _ = owned.element(number)
        held = held & np.asarray(evaluate(owned.holds(at), known), bool)
        coordinates = [np.broadcast_to(evaluate(x, known), _shape(tx, env)) for x in absolute(other, at)]
        place = other.buffer.layout.place(coordinates, other.buffer.counted_shape)
        owner = sum((np.asarray(v) * THREAD_AXES[a].unit for a, v in place.items() if a != "m"), np.zeros(1, np.int64))
        held = np.broadcast_to(held, _shape(tx, env))
        mine = np.isin(tx - owner, _copies(other)) if _has_threads(other) else np.True_
        register = np.broadcast_to(place.get("m", np.zeros(1, np.int64)), _shape(tx, env))
        if not (np.where(held, mine, True).all() and (register == evaluate(slot, known))[held].all()):
            raise Refused(_say_apart(owned, other))


def list_held(context: Context, owned: Ownership, scope: str, lost: int = -1) -> tuple[Ints, list[Ints]]:
    """What threads of an instance of a scope hold: the number of each, once for each element, and its coordinates.

    Along the dimension ``lost``, threads count that pass its end too: what is reduced along it is theirs as well.
    """
    threads = context.launch.threads
    tx = np.arange(SCOPES[scope].size(threads))[:, None]
    known: dict[str, Any] = {name: np.asarray(evaluate(x, {"tx": tx})) for name, x in thread_variables(threads).items()}
    known[owned.step] = np.arange(owned.count)[None, :]
    for n in owned.numbers:
        known[n.var.name] = np.maximum(evaluate(n.value, known), 0)
    is_held = np.asarray(evaluate(owned.enter, known), bool) & np.asarray(evaluate(owned.held, known), bool)
    shape = (len(tx), owned.count)
    at, _ = owned.element(owned.number())
    is_held = is_held & np.asarray(
        evaluate(owned.holds([0 if d == lost else x for d, x in enumerate(at)]), known), bool
    )
    is_held = np.broadcast_to(is_held, shape)
    coordinates = [np.broadcast_to(np.asarray(evaluate(x, known)), shape)[is_held] for x in at]
    return np.broadcast_to(tx, shape)[is_held], coordinates


def is_held_alike(context: Context, scope: str, owned: Ownership, result: Ownership, axis: int = -1) -> bool:
    """Does each thread that holds elements hold the results that they are of, and no other thread any result?

    ``axis``: the dimension that is reduced to a result, -1 where each element has its own.
    """
    found = []
    for ownership, lost in ((owned, axis), (result, -1)):
        threads, at = list_held(context, ownership, scope, lost)
        left = [d for d in range(len(at)) if d != lost]
        places = [threads, *(at[d] for d in left)]
        lengths = [context.launch.threads, *(ownership.operand.lengths[d] for d in left)]
        found.append(np.unique(np.ravel_multi_index(places, lengths)))
    return np.array_equal(found[0], found[1])


def check_held_alike(context: Context, scope: str, owned: Ownership, result: Ownership) -> None:
    """Raises Refused where other threads hold a result than those that make it."""
    if not is_held_alike(context, scope, owned, result):
        raise Refused(_say_apart(owned, result.operand))


def _say_apart(owned: Ownership, other: Operand) -> str:
    layouts = f"{other.buffer.layout} against {owned.operand.buffer.layout}"
    return f"{other.region.text} and {owned.operand.region.text} are owned by different threads ({layouts})"


def _shape(tx: Any, env: Mapping[str, Any]) -> tuple[int, ...]:
    return np.broadcast_shapes(tx.shape, *(np.shape(v) for v in env.values()))


def _has_threads(other: Operand) -> bool:
    tile = tile_of(other.buffer.layout)
    return any(i.axis != "m" for i in (*tile.shard, *tile.replica)) or bool(tile.offset)


def _copies(other: Operand) -> Any:
    """What the replicas add to the number of the thread that holds copy 0."""
    offsets = [0]
    for i in tile_of(other.buffer.layout).replica:
        unit = THREAD_AXES[i.axis].unit if i.axis in THREAD_AXES else 0
        offsets = [o + k * as_int(i.stride) * unit for o in offsets for k in range(as_int(i.extent))]
    return np.array(sorted(set(offsets)))


def _variables(x: Index) -> list[Var]:
    return [] if isinstance(x, int) else list(variables(x))


def _places(owned: Ownership, other: Operand, env: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Values of what the begins of both regions name beside threads: loops around the op."""
    begins = (*owned.operand.region.begins, *other.region.begins)
    named = {v.name: v for x in begins for v in _variables(x) if v.name not in env}
    spans: list[Sequence[int]] = [range(v.least, v.bound, max(1, v.step)) for v in named.values()]
    picked = [s if prod(map(len, spans)) <= _MOST_PLACES else sorted({s[0], s[len(s) // 2], s[-1]}) for s in spans]
    for values in islice(product(*picked), 4 * _MOST_PLACES):
        yield dict(zip(named, values, strict=True))
