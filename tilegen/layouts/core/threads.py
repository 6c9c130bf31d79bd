"""One thread, several names: tx = 32 * warpid + laneid = 128 * wgid + tid_in_wg, and so on."""

from __future__ import annotations

from tilegen.index import Index, div, mod, multiple
from tilegen.layouts.core.axes import AXES
from tilegen.layouts.core.canonical import canonicalize
from tilegen.layouts.core.iters import Iter, Iters, extent_reached
from tilegen.layouts.core.values import Layout, TileLayout

# axis -> (outer, inner, how many of the inner make one of the outer), coarsest first
_SPLITS = (
    ("tx", "wgid", "tid_in_wg", 128), ("tx", "warpid", "laneid", 32), ("warpid", "wgid", "wid_in_wg", 4),
    ("tid_in_wg", "wid_in_wg", "laneid", 32),
)  # fmt: skip


def spell_threads_as(layout: Layout, like: TileLayout) -> Layout:
    """The same threads on the axes that ``like`` uses, where that can be said with iters; else the layout itself.

    >>> print(spell_threads_as(TileLayout((Iter(8, 16, "tx"), Iter(16, 1, "tx"))), TileLayout((Iter(2, 1, "laneid"),))))
    S[(4, 2, 16):(1@warpid, 16@laneid, 1@laneid)]
    """
    if not isinstance(layout, TileLayout):
        return layout
    wanted = _thread_axes(like)
    if not wanted or wanted <= _thread_axes(layout):
        return layout
    for scope in ("warpgroup", "cta"):
        fused = canonicalize(layout, fuse_threads=scope)
        if isinstance(fused, TileLayout) and wanted <= _thread_axes(fused):
            return fused
    for axis, outer, inner, n in _SPLITS:
        if wanted & {outer, inner} and axis in _thread_axes(layout):
            layout = split_axis(layout, axis, outer, inner, n) or layout
    return layout


def _thread_axes(tile: TileLayout) -> set[str]:
    named = {i.axis for i in (*tile.shard, *tile.replica)} | {axis for axis, _ in tile.offset}
    return {name for name in named if AXES[name].kind == "thread"}


def split_axis(tile: TileLayout, axis: str, outer: str, inner: str, n: int) -> TileLayout | None:
    """``axis`` = n * ``outer`` + ``inner``, written out; None where an iter crosses a multiple of n.

    >>> print(split_axis(TileLayout((Iter(64, 1, "tx"),)), "tx", "warpid", "laneid", 32))
    S[(2, 32):(1@warpid, 1@laneid)]
    """
    shard, replica = (_split_iters(iters, axis, outer, inner, n) for iters in (tile.shard, tile.replica))
    if shard is None or replica is None:
        return None
    offset: list[tuple[str, Index]] = []
    for name, value in tile.offset:
        offset += [(outer, div(value, n)), (inner, mod(value, n))] if name == axis else [(name, value)]
    result = TileLayout(shard, replica, tuple(offset))
    reached = extent_reached(i for i in (*shard, *replica) if i.axis == inner)
    rest = dict(result.offset).get(inner, 0)
    return result if isinstance(reached, int) and isinstance(rest, int) and reached + rest <= n else None


def _split_iters(iters: Iters, axis: str, outer: str, inner: str, n: int) -> Iters | None:
    result: list[Iter] = []
    for i in iters:
        if i.axis != axis:
            result.append(i)
        elif multiple(i.stride) % n == 0:
            result.append(Iter(i.extent, div(i.stride, n), outer))
        elif not isinstance(i.stride, int) or not isinstance(i.extent, int):
            return None
        elif (i.extent - 1) * i.stride < n:
            result.append(Iter(i.extent, i.stride, inner))
        elif n % i.stride or i.extent % (n // i.stride):
            return None
        else:
            result += [Iter(i.extent * i.stride // n, 1, outer), Iter(n // i.stride, i.stride, inner)]
    return tuple(result)
