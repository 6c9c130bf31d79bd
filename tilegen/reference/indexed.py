"""Elements at places that other elements name: which these are, and that no two share one where elements are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.errors import Diagnostic, ProofError
from tilegen.index import evaluate
from tilegen.interpret.fault import NO_NUMBER
from tilegen.ops.indexed import align_in_call, axis_of, coordinates_in, find_extent, index_dtype
from tilegen.reference.machine import Array, CtaBatch, Writes
from tilegen.reference.places import Elements, find_elements, find_places, gather, scatter
from tilegen.reference.updates import accumulate
from tilegen.spec.data import Call
from tilegen.spec.pads import is_clipped

NOT_DISTINCT = "TG444"


def carry_by_index(machine: CtaBatch, call: Call, env: Mapping[str, Any], found: Mapping[str, Array]) -> None:
    """Read elements, write them, or put them to what is there, each where its index says.

    Raises ProofError: TG445 for an index that no run knows, TG207 for one outside of the region in which it counts,
    TG444 for two that are the same in what runs, where elements are stored.
    """
    dst, index = call.regions["dst"], _read_index(machine, call, found["index"])
    elements = _find_named(machine, call, env, index)
    if not call.stores_by_index:
        values = gather(machine, call.indexed, env, found=elements)
        scatter(machine, dst, env, np.broadcast_to(values, index.shape).reshape(len(index), *dst.lengths))
        return
    values = np.ascontiguousarray(found["dst"])
    if call.accumulates:
        accumulate(machine, dst, env, values, call.accumulates, elements)
        return
    at = np.broadcast_to(elements.at, index.shape)
    _refuse_equal(call, at if elements.inside is None else at[elements.inside])
    scatter(machine, dst, env, values, elements, call)


def _read_index(machine: CtaBatch, call: Call, stored: Array) -> NDArray[np.int64]:
    assert call.expression is not None
    try:
        return machine.domain.integers(stored, index_dtype(call.expression.trees[-1]))
    except TypeError:
        message = "an integer names a place, and comes of floats that are computed with"
        hint = "compare, choose or cast floats: sums and products of them differ in their last bits"
        raise ProofError(Diagnostic(NO_NUMBER, message, call.mark_of("index"), hint)) from None


def _find_named(machine: CtaBatch, call: Call, env: Mapping[str, Any], index: NDArray[np.int64]) -> Elements:
    """Where in the buffer in which the index counts each element is, and which lie in the region there."""
    region, axis = call.indexed, axis_of(call)
    kept = [d for d, is_kept in enumerate(region.kept) if is_kept]
    numbers = {k: v for k, v in env.items() if not isinstance(v, np.ndarray)}
    extent = int(evaluate(find_extent(region, kept[axis]), numbers))
    named = (index >= 0) & (index < extent)
    if not named.all() and not is_clipped(call):
        value = int(index[~named].ravel()[0])
        message = f"an index of '{region.text}' is {value}, and there are {extent} places along it"
        does = "drop what lies outside" if call.stores_by_index else "read 0 outside"
        raise ProofError(Diagnostic("TG207", message, call.mark_of("index"), f"{does} with 'edge: clip'"))
    within = dict(zip(kept, coordinates_in(call, np.clip(index, 0, extent - 1)), strict=True))
    coordinates = []
    for d, begin in enumerate(region.begins):
        start = np.broadcast_to(evaluate(begin, dict(env)), (len(env["instance"]),))
        coordinates.append(start.reshape(-1, *[1] * (index.ndim - 1)) + within.get(d, 0))
    found = find_places(machine, region, env, coordinates, index.shape[1:])
    inside = named if found.inside is None else named & found.inside
    inside = inside & _find_read(machine, call, env, index.shape)
    return Elements(found.at, None if inside.all() else inside)


def _find_read(machine: CtaBatch, call: Call, env: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
    """Which elements lie in every array that they are read from."""
    assert call.expression is not None
    result = np.ones(shape, bool)
    for region in call.expression.operands.values():
        inside = find_elements(machine, region, env).inside if region.buffer.traits.is_array else None
        if inside is not None:
            aligned = align_in_call(call, region)
            result &= inside.reshape(-1, *(1 if k is None else n for k, n in zip(aligned, shape[1:], strict=True)))
    return result


def check_claims(writes: Sequence[Writes]) -> None:
    """No element of an array is written twice by scatters in what runs, as is claimed. Raises ProofError TG444."""
    claimed = [one for one in writes if one.claim is not None]
    if claimed:
        _refuse_equal(claimed[-1].claim, np.concatenate([one.at for one in claimed]))


def _refuse_equal(call: Call, at: Array) -> None:
    """Raise ProofError TG444 for the first place that stands twice."""
    every = np.sort(at, axis=None)
    same = every[1:][every[1:] == every[:-1]]
    if len(same):
        name = call.regions["dst"].buffer.name
        message = f"two elements go to one place of '{name}', at element offset {int(same[0])}: they have one index"
        hint = "'distinct' says that no two have; 'accumulate' takes several"
        raise ProofError(Diagnostic(NOT_DISTINCT, message, call.mark_of("index"), hint))
