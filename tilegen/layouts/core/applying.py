"""Where elements lie: the coordinates that a layout gives to one element, or to arrays and expressions of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product as combinations
from typing import Any

import numpy as np

from tilegen.errors import LayoutError
from tilegen.index import Index
from tilegen.layouts.core.iters import (
    Iters,
    drop_units,
    extent_reached,
    flatten,
    fuse_neighbours,
    group_iters,
    is_symbolic,
    product,
    require_shape,
    split,
)
from tilegen.layouts.core.swizzling import permute_address
from tilegen.layouts.core.values import (
    Layout,
    ShapedLayout,
    SwizzleLayout,
    TileLayout,
    finish_of,
    over_shape,
    size,
    tile_of,
)


# ---------------------------------------------------------------- place
@lru_cache(maxsize=4096)
def _rows(shard: Iters, shape: tuple[Index, ...]) -> tuple[Iters, ...] | None:
    """Fused iters per dimension, or None where dimensions and iters do not align and the flat index must be split."""
    try:
        fused = fuse_neighbours(drop_units(shard)) or shard
        return tuple(drop_units(fuse_neighbours(row)) for row in group_iters(fused, shape))
    except LayoutError:
        if product(i.extent for i in shard) != product(shape):
            raise
        return None


def place_layout(layout: Layout, coords: Sequence[Any], shape: Sequence[Index]) -> dict[str, Any]:
    """``layout.place(coords, shape)``.

    >>> from tilegen.layouts.core.iters import Iter
    >>> place_layout(TileLayout((Iter(8, 4, "laneid"), Iter(2, 1))), (5, 1), (8, 2))
    {'laneid': 20, 'm': 1}
    """
    if len(coords) != len(shape):
        raise LayoutError(f"{len(coords)} coordinates for a shape of {len(shape)} dimensions")
    shape = require_shape(shape)
    layout = over_shape(layout, shape)
    tile, finish = tile_of(layout), finish_of(layout)
    coords, arrays = _prepare(coords, shape, layout)
    result = _place_tile(tile, coords, shape)
    if finish is not None:
        result["m"] = finish(result["m"])
    if arrays is None:
        return result
    return {axis: v if isinstance(v, np.ndarray) else np.broadcast_to(v, arrays) for axis, v in result.items()}


def _place_tile(tile: TileLayout, coords: Sequence[Any], shape: tuple[Index, ...]) -> dict[str, Any]:
    rows = _rows(tile.shard, shape)
    if rows is None:
        coords, rows = [flatten(coords, shape)], (fuse_neighbours(drop_units(tile.shard)),)
    result: dict[str, Any] = {i.axis: 0 for i in (*tile.shard, *tile.replica)}
    for x, row in zip(coords, rows, strict=True):
        for i, component in zip(row, split(x, [i.extent for i in row]), strict=False):
            result[i.axis] = result[i.axis] + component * i.stride
    for axis, value in tile.offset:
        result[axis] = result.get(axis, 0) + value
    return result


def _prepare(coords: Sequence[Any], shape: tuple[Index, ...], layout: Layout) -> tuple[list[Any], Any]:
    """Arrays as int32 where every intermediate fits, else int64; NumPy ints as ints; and the arrays' common shape."""
    if not any(isinstance(x, np.ndarray) for x in coords):
        return [int(x) if isinstance(x, np.integer) else x for x in coords], None
    tile = tile_of(layout)
    largest = extent_reached((*tile.shard, *tile.replica)) + product(shape) + sum(value for _, value in tile.offset)
    if isinstance(layout, ShapedLayout):
        largest += layout.allocated_elems  # padding comes on top
    if not isinstance(largest, int):
        raise LayoutError("a layout with runtime extents places arrays only after bind() gave them values")
    if largest >= 2**63:
        raise LayoutError(f"positions up to {largest} do not fit 64 bits")
    if any(np.asarray(x).dtype.kind not in "iu" for x in coords):
        raise LayoutError("coordinates beside arrays are integers")
    inside = all(_is_inside(x, n) for x, n in zip(coords, shape, strict=True))
    dtype = np.int32 if inside and largest < 2**31 else np.int64
    arrays = [np.asarray(x).astype(dtype, copy=False) for x in coords]
    return list(arrays), np.broadcast_shapes(*(a.shape for a in arrays))


def _is_inside(x: Any, n: Any) -> bool:
    x = np.asarray(x)
    return x.size == 0 or bool(x.min() >= 0 and x.max() < n)


# ---------------------------------------------------------------- apply
def apply_layout(layout: Layout, coord: tuple[Any, ...], shape: Sequence[int] | None) -> tuple[dict[str, Any], ...]:
    """``layout.apply(*coord, shape=shape)``.

    >>> from tilegen.layouts.core.iters import Iter
    >>> apply_layout(TileLayout((Iter(8, 1),), (Iter(2, 8),)), (5,), None)
    ({'m': 5}, {'m': 13})
    """
    domain = _domain(layout, coord, shape)
    if len(coord) != len(domain):
        raise LayoutError(f"{len(coord)} coordinates for {len(domain)} extents of {layout}")
    for x, n in zip(coord, domain, strict=True):
        _require_inside(x, n, layout)
    if isinstance(layout, SwizzleLayout):
        address = flatten(coord, shape) if shape is not None else coord[0]
        return ({"m": permute_address(layout, address)},)
    finish, tile = finish_of(layout), tile_of(layout)
    first = place_layout(tile, coord, domain)
    results = (_shift(first, tile.replica, steps) for steps in combinations(*(range(i.extent) for i in tile.replica)))  # type: ignore[arg-type]
    return tuple(results) if finish is None else tuple({**r, "m": finish(r["m"])} for r in results)


def _domain(layout: Layout, coord: tuple[Any, ...], shape: Sequence[int] | None) -> tuple[Any, ...]:
    """The extents that the coordinates count in; None where an extent has no end."""
    if shape is not None:
        extents = require_shape(shape)
        if not isinstance(layout, SwizzleLayout) and product(extents) != size(layout):
            raise LayoutError(f"shape {extents} has {product(extents)} elements, {layout} has {size(layout)}")
        return extents
    if isinstance(layout, SwizzleLayout):
        return (None,)
    if len(coord) == 1:
        return (size(layout),)
    return layout.shape if isinstance(layout, ShapedLayout) else tuple(i.extent for i in tile_of(layout).shard)


def _require_inside(x: Any, n: Any, layout: Layout) -> None:
    if is_symbolic(x) or is_symbolic(n):
        return  # ranges of expressions are proved where they are used
    values = np.asarray(x)
    if values.dtype.kind not in "iu":
        raise LayoutError(f"a coordinate is an integer, not {x!r}")
    if values.size and (values.min() < 0 or (n is not None and values.max() >= n)):
        outside = values.min() if values.min() < 0 else values.max()
        limit = "is negative" if n is None or outside < 0 else f"is not below {n}"
        raise LayoutError(f"coordinate {outside} {limit} in {layout}")


def _shift(first: dict[str, Any], replica: Iters, steps: tuple[int, ...]) -> dict[str, Any]:
    result = dict(first)
    for i, step in zip(replica, steps, strict=True):
        result[i.axis] = result[i.axis] + step * i.stride
    return result
