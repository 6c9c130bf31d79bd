"""What a reduction of whole arrays means: every result from all of its elements, whatever tiles carry it out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.dtypes import DTYPES
from tilegen.index import evaluate
from tilegen.ops.op import WholeHere
from tilegen.ops.reduce_array.axes import list_axes, name_operands
from tilegen.ops.reduce_array.problem import FUNCTIONS, Elements, identity_of, read_elements
from tilegen.ops.strided import find_coordinates, find_offsets
from tilegen.spec.data import Buffer, WholeCall

Array = NDArray[Any]

_PIECE = 1 << 18  # elements that are read at a time


def reduce_whole(call: WholeCall, offsets: Array, here: WholeHere) -> dict[str, Array]:
    """The results at flat offsets of dst, each of all of its elements."""
    dst = call.arrays["dst"]
    at = find_coordinates(dst, offsets, here.params)
    kept = np.sum(at, axis=0)  # the others are 0, of extents of 1
    elements = read_elements(call, here.scalar_types)
    found = fold_elements(call, kept, range(count_reduced(call, here)), here)
    made = here.domain.convert(found, elements.sums, dst.dtype)
    return {"dst": np.ascontiguousarray(made).view(here.domain.bits(DTYPES[dst.dtype].bytes))}


def count_reduced(call: WholeCall, here: WholeHere) -> int:
    """Elements of a result."""
    source = _source_of(call)
    count = 1
    for d in list_axes(call.fields, len(source.shape)):
        count *= int(evaluate(source.shape[d], dict(here.params)))
    return count


def fold_elements(call: WholeCall, kept: Array, along: range, here: WholeHere) -> Array:
    """What some of the elements come to, for results of these numbers, in the type in which that is done."""
    elements = read_elements(call, here.scalar_types)
    function, sums = FUNCTIONS[call.fields.op], elements.sums
    numbers, which = np.unique(kept, return_inverse=True)
    if not len(along):
        identity = here.domain.fill(identity_of(call.fields.op, sums), sums)
        return np.ascontiguousarray(np.broadcast_to(identity, kept.shape))
    size, total = max(1, _PIECE // len(numbers)), None
    for first in range(along.start, along.stop, size):
        some = np.arange(first, min(first + size, along.stop))
        values = _read(call, elements, numbers[:, None], some[None, :], here)
        found = here.domain.fold(function, values, 1, sums)
        total = found if total is None else here.domain.combine(function, total, found, sums)
    assert total is not None
    return np.ascontiguousarray(total[:, 0][which.reshape(-1)]).reshape(kept.shape)


def _read(call: WholeCall, elements: Elements, kept: Array, along: Array, here: WholeHere) -> Array:
    """What is reduced: of the results ``kept`` the elements ``along``, as a matrix."""
    fields, values = name_operands(call), []
    for name in elements.names:
        array = call.arrays[fields[name]]
        axes = list_axes(call.fields, len(array.shape))
        if len(axes) == len(array.shape):  # all of a dense array: elements as they lie
            offsets = np.broadcast_to(along, (len(kept), along.shape[1]))
        else:
            at = [along if d in axes else kept for d in range(2)]
            offsets = np.broadcast_to(find_offsets(array, at, here.params), (len(kept), along.shape[1]))
        values.append(here.inputs[fields[name]](np.ascontiguousarray(offsets)))
    return here.domain.compute(elements.tree, values, [], here.scalars, elements.sums)


def _source_of(call: WholeCall) -> Buffer:
    return next(call.arrays[field] for field in name_operands(call).values())
