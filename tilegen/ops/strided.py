"""Global arrays with one stride a dimension: where their elements lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen import layouts
from tilegen.index import Index, evaluate
from tilegen.spec.data import Buffer


def plain_strides(buffer: Buffer) -> tuple[Index, ...] | None:
    """The stride of each dimension, in elements; None where the layout is more than strides."""
    layout = buffer.layout
    if not isinstance(layout, layouts.TileLayout) or layout.replica or layout.offset:
        return None
    if len(layout.shard) != len(buffer.shape) or any(i.axis != "m" for i in layout.shard):
        return None
    if any(i.extent != n for i, n in zip(layout.shard, buffer.shape, strict=True)):
        return None
    return tuple(i.stride for i in layout.shard)


def find_coordinates(buffer: Buffer, offsets: NDArray[Any], params: Mapping[str, int]) -> list[NDArray[Any]]:
    """Coordinates of flat offsets: what each stride, from the largest, leaves over.

    Rows that lie between one another, such as 17 rows 13 apart of 13 elements 2 apart, are looked up in a list of all.
    """
    extents = [int(evaluate(n, dict(params))) for n in buffer.shape]
    strides = [int(evaluate(s, dict(params))) for s in plain_strides(buffer) or ()]
    at: list[NDArray[Any]] = [np.zeros(offsets.shape, np.int64) for _ in extents]
    rest = offsets.astype(np.int64)
    dims = [d for d in sorted(range(len(extents)), key=lambda d: (-strides[d], -extents[d])) if extents[d] > 1]
    # Is a stride beyond all that those after it reach together?
    apart = [strides[d] > sum((extents[e] - 1) * strides[e] for e in dims[k + 1 :]) for k, d in enumerate(dims)]
    between = [k for k, is_apart in enumerate(apart) if not is_apart]
    begin, end = (between[0], between[-1] + 1) if between else (len(dims), len(dims))
    for d in dims[:begin]:
        at[d], rest = np.divmod(rest, strides[d])
    if begin < end:
        listed, end = _list_offsets(dims, begin, end, extents, strides)
        order = np.argsort(listed)
        found = order[np.searchsorted(listed[order], rest, side="right") - 1]
        rest = rest - listed[found]
        tangled = dims[begin:end]
        for d, x in zip(tangled, np.unravel_index(found, [extents[d] for d in tangled]), strict=True):
            at[d] = x
    for d in dims[end:]:
        at[d], rest = np.divmod(rest, strides[d])
    return at


def _list_offsets(
    dims: Sequence[int], begin: int, end: int, extents: Sequence[int], strides: Sequence[int]
) -> tuple[NDArray[Any], int]:
    """Offsets of all coordinates of ``dims[begin:end]``, or of a few dimensions more, so that what those after them
    reach lies between two of them; and which dimensions these are.
    """
    for last in range(end, len(dims) + 1):
        shape = [extents[d] for d in dims[begin:last]]
        scaled = (x * strides[d] for x, d in zip(np.indices(shape, sparse=True), dims[begin:last], strict=True))
        listed = np.asarray(sum(scaled), np.int64).ravel()
        if np.diff(np.sort(listed)).min() > sum((extents[d] - 1) * strides[d] for d in dims[last:]):
            return listed, last
    return listed, len(dims)


def find_offsets(buffer: Buffer, at: Sequence[Any], params: Mapping[str, int]) -> NDArray[Any]:
    """Flat offsets of coordinates, which broadcast."""
    strides = plain_strides(buffer) or ()
    total = sum(x * int(evaluate(s, dict(params))) for x, s in zip(at, strides, strict=True))
    return np.asarray(total, np.int64)
