"""Layouts in other words: the shortest form, thread axes fused, one thread's storage, variables bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import overload

from tilegen.errors import LayoutError
from tilegen.index import Index, bound, mul, substitute
from tilegen.layouts.core.axes import AXES, AXIS_ORDER, SCOPES, THREADS_IN
from tilegen.layouts.core.iters import Iter, Iters, drop_units, fuse_neighbours
from tilegen.layouts.core.values import (
    ComposeLayout,
    Layout,
    ShapedLayout,
    SwizzleLayout,
    TileLayout,
    tile_of,
    with_tile,
)


@overload
def canonicalize(
    layout: TileLayout | SwizzleLayout | ComposeLayout, fuse_threads: str | None = None
) -> TileLayout | ComposeLayout: ...
@overload
def canonicalize(layout: Layout, fuse_threads: str | None = None) -> Layout: ...
def canonicalize(layout: Layout, fuse_threads: str | None = None) -> Layout:
    """The same map in its shortest form: units dropped, neighbours fused, replicas by falling stride.

    With ``fuse_threads`` (warpgroup or cta), thread axes that count inside each other become one: warpid and laneid
    become tx = 32 * warpid + laneid, wid_in_wg and laneid become tid_in_wg. A bare swizzle becomes one period of it;
    a padded layout is its own shortest form. Raises LayoutError for a scope that is none.

    >>> from tilegen.layouts.notation import parse
    >>> print(canonicalize(parse("S[(8, 1, 4, 2):(4@laneid, 2, 1@laneid, 1)]")))
    S[(32, 2):(1@laneid, 1)]
    >>> print(canonicalize(parse("S[(2, 32):(1@warpid, 1@laneid)]"), fuse_threads="cta"))
    S[64:1@tx]
    """
    if isinstance(layout, ShapedLayout):
        return layout
    tile = tile_of(layout)
    first = Iter(1, 1, tile.shard[0].axis)
    tile = TileLayout(drop_units(tile.shard) or (first,), drop_units(tile.replica), tile.offset)
    if fuse_threads is not None:
        tile = _fuse_thread_axes(tile, fuse_threads)
    replica = tuple(sorted(tile.replica, key=_by_falling_stride))
    return with_tile(layout, TileLayout(fuse_neighbours(tile.shard), replica, tile.offset))


def _by_falling_stride(i: Iter) -> tuple[int, int, str]:
    return AXIS_ORDER[i.axis], -bound(i.stride), str(i)


def get_scope(layout: Layout) -> tuple[str, str] | None:
    """What the shard's thread axes distribute over what: ("thread", "cta"), or None without thread axes.

    The axes must connect, each counting units of one scope inside the next. Raises LayoutError when they do not.

    >>> from tilegen.layouts.notation import parse
    >>> get_scope(parse("S[(2, 32):(1@wid_in_wg, 1@laneid)]"))
    ('thread', 'warpgroup')
    """
    tile = tile_of(layout)
    if all(AXES[i.axis].kind != "thread" for i in tile.shard):
        return None
    return _connect(_axis_names(tile), tile)


def _axis_names(tile: TileLayout) -> list[str]:
    return [i.axis for i in (*tile.shard, *tile.replica)] + [axis for axis, _ in tile.offset]


def _connect(names: list[str], tile: TileLayout) -> tuple[str, str]:
    steps: dict[str, str] = {}
    for name in dict.fromkeys(n for n in names if AXES[n].kind == "thread"):
        sub_scope, scope = AXES[name].sub, AXES[name].scope
        if steps.setdefault(sub_scope, scope) != scope:
            raise LayoutError(f"{tile} counts {sub_scope}s in a {steps[sub_scope]} and in a {scope}")
    first = last = min(steps, key=SCOPES.index)
    visited = 0
    while last in steps:
        last, visited = steps[last], visited + 1
    if visited != len(steps):
        raise LayoutError(f"the thread axes of {tile} do not connect: {first} to {last}, then a gap")
    return first, last


def _fuse_thread_axes(tile: TileLayout, scope: str) -> TileLayout:
    if scope not in SCOPES[1:]:
        raise LayoutError(f"threads fuse up to a scope of {', '.join(SCOPES[1:])}, not {scope!r}")
    fusable = {a.name for a in AXES.values() if a.kind == "thread" and SCOPES.index(a.scope) <= SCOPES.index(scope)}
    if not any(i.axis in fusable for i in tile.shard):
        return tile
    try:
        sub_scope, outer = _connect([n for n in _axis_names(tile) if n in fusable], tile)
    except LayoutError:
        return tile  # axes that do not connect have no common axis
    target = next(a.name for a in AXES.values() if (a.sub, a.scope) == (sub_scope, outer))

    def fuse(axis: str, value: Index) -> tuple[str, Index]:
        if axis not in fusable:
            return axis, value
        return target, mul(value, THREADS_IN[AXES[axis].sub] // THREADS_IN[sub_scope])

    def fuse_iters(iters: Iters) -> Iters:
        return tuple(Iter(i.extent, stride, axis) for i in iters for axis, stride in [fuse(i.axis, i.stride)])

    return TileLayout(fuse_iters(tile.shard), fuse_iters(tile.replica), tuple(fuse(*o) for o in tile.offset))


def storage(layout: Layout) -> Layout:
    """What one thread stores: the iters, replicas and offsets on memory axes alone.

    >>> from tilegen.layouts.notation import parse
    >>> print(storage(parse("S[(8, 4, 2):(4@laneid, 1@laneid, 1)]")))
    S[2:1]
    """
    if isinstance(layout, ShapedLayout):
        return layout.of_one_block()
    if not isinstance(layout, TileLayout):
        return layout
    shard, replica = (tuple(i for i in iters if _is_memory(i.axis)) for iters in (layout.shard, layout.replica))
    return TileLayout(shard or (Iter(1, 1),), replica, tuple(o for o in layout.offset if _is_memory(o[0])))


def _is_memory(axis: str) -> bool:
    return AXES[axis].kind == "memory"


def bind(layout: Layout, values: Mapping[str, Index]) -> Layout:
    """The layout with runtime variables replaced by name.

    Raises LayoutError when a value makes an extent < 1.

    >>> from tilegen.index import Var
    >>> print(bind(TileLayout((Iter(Var("M", 100), 8), Iter(8, 1))), {"M": 4}))
    S[(4, 8):(8, 1)]
    """
    if isinstance(layout, (SwizzleLayout, ShapedLayout)):
        return layout
    tile = tile_of(layout)
    shard, replica = (
        tuple(Iter(substitute(i.extent, values), substitute(i.stride, values), i.axis) for i in iters)
        for iters in (tile.shard, tile.replica)
    )
    offset = {axis: substitute(value, values) for axis, value in tile.offset}
    return with_tile(layout, TileLayout.from_iters(shard, replica, offset))
