"""Threads by one number: the axes that count lanes, warps and warpgroups as tx, where a launch says how they lie."""

from __future__ import annotations

from functools import reduce

from tilegen.errors import LayoutError
from tilegen.index import add, bound, mul
from tilegen.layouts.core.canonical import canonicalize
from tilegen.layouts.core.iters import Iter
from tilegen.layouts.core.rows import extent_reached
from tilegen.layouts.core.values import Layout, TileLayout, tile_of, with_tile
from tilegen.scopes import THREAD_AXES

WHOLE = "tx"  # the axis that numbers all threads of a CTA


def fuse_into_tx(layout: Layout, threads: int) -> Layout:
    """The same threads of a CTA of ``threads`` as numbers on tx alone; other axes stay as they are.

    In a launch of one warp laneid is tx; in one of a warpgroup tid_in_wg is. Elsewhere axes that count inside each
    other name a thread together: warpid and laneid are tx = 32 * warpid + laneid. So the hardware numbers them (PTX
    ISA, %tid, %laneid; CUDA Programming Guide, "Thread Hierarchy"). Raises LayoutError where axes leave open which
    thread it is, count the same threads twice, or reach threads that the launch, or a warp, has not.

    >>> from tilegen.layouts.notation import parse
    >>> print(fuse_into_tx(parse("S[(2, 8, 4, 2):(1@warpid, 4@laneid, 1@laneid, 1)]"), 64))
    S[(64, 2):(1@tx, 1)]
    >>> print(fuse_into_tx(parse("S[(32, 8):(1@laneid, 1)]"), 32))
    S[(32, 8):(1@tx, 1)]
    """
    tile = tile_of(layout)
    iters, offset = (*tile.shard, *tile.replica), dict(tile.offset)
    names = {i.axis for i in iters} | {*offset}
    own = sorted((axis for axis in THREAD_AXES.values() if axis.name in names), key=lambda axis: axis.unit)
    if not own:
        return canonicalize(layout)
    reach = 1  # threads that the axes so far tell apart
    for axis in own:
        if axis.unit < reach or reach < min(axis.unit, threads):
            raise LayoutError(_say_gap(axis.name, axis.unit, reach, tile))
        reach = min(axis.span, threads) if axis.span else threads
        _check_reach(tile, axis.name, max(1, -(-reach // axis.unit)), threads)
    if reach < threads:
        what = f"{tile} names one of {reach} threads, and a CTA of {threads} has several such groups"
        raise LayoutError(what, hint="an axis such as warpid or wgid says which")

    def fuse(i: Iter) -> Iter:
        return Iter(i.extent, mul(i.stride, THREAD_AXES[i.axis].unit), WHOLE) if i.axis in THREAD_AXES else i

    moved = {axis: value for axis, value in offset.items() if axis not in THREAD_AXES}
    if begins := [mul(value, THREAD_AXES[axis].unit) for axis, value in offset.items() if axis in THREAD_AXES]:
        moved[WHOLE] = reduce(add, begins)
    fused = TileLayout(tuple(map(fuse, tile.shard)), tuple(map(fuse, tile.replica)), tuple(moved.items()))
    _check_reach(fused, WHOLE, threads, threads)  # the last warpgroup, or the last warp, may be a part of one
    return canonicalize(with_tile(layout, fused))


def _check_reach(tile: TileLayout, axis: str, most: int, threads: int) -> None:
    """Raises LayoutError where a layout reaches ``most`` on an axis."""
    own = (i for i in (*tile.shard, *tile.replica) if i.axis == axis)
    last = bound(extent_reached(own)) - 2 + bound(dict(tile.offset).get(axis, 0)) - 1
    if last >= most:
        raise LayoutError(f"{axis} reaches {last} in {tile}", hint=f"with {threads} threads it is below {most}")


def _say_gap(axis: str, unit: int, reach: int, tile: TileLayout) -> str:
    """Why an axis does not go on where those before it ended."""
    if unit < reach:
        return f"{axis} counts threads in {tile} that another axis counts already"
    return f"{axis} counts groups of {unit} threads, and {tile} does not say which of them"
