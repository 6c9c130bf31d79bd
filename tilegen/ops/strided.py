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
    """Coordinates of flat offsets: what each stride, from the largest, leaves over."""
    extents = [int(evaluate(n, dict(params))) for n in buffer.shape]
    strides = [int(evaluate(s, dict(params))) for s in plain_strides(buffer) or ()]
    at: list[NDArray[Any]] = [np.zeros(offsets.shape, np.int64) for _ in extents]
    rest = offsets.astype(np.int64)
    for d in sorted(range(len(extents)), key=lambda d: (-strides[d], -extents[d])):
        if extents[d] > 1:
            at[d], rest = np.divmod(rest, strides[d])
    return at


def find_offsets(buffer: Buffer, at: Sequence[Any], params: Mapping[str, int]) -> NDArray[Any]:
    """Flat offsets of coordinates, which broadcast."""
    strides = plain_strides(buffer) or ()
    total = sum(x * int(evaluate(s, dict(params))) for x, s in zip(at, strides, strict=True))
    return np.asarray(total, np.int64)
