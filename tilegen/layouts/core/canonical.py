"""Layouts in other words: the shortest form, threads by other names, storage alone, variables bound, inverses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

from tilegen.errors import LayoutError
from tilegen.index import Index, bound, div, mod, mul, multiple, substitute
from tilegen.layouts.core.iters import (
    AXES,
    AXIS_ORDER,
    THREADS_IN,
    Iter,
    Iters,
    product,
    row_major_strides,
    spell,
)
from tilegen.layouts.core.rows import drop_units, extent_reached, fuse_neighbours
from tilegen.layouts.core.values import (
    ComposeLayout,
    Layout,
    ShapedLayout,
    SwizzleLayout,
    TileLayout,
    swizzle_of,
    tile_of,
    with_tile,
)
from tilegen.scopes import OP_SCOPES

# axis -> (outer, inner, how many of the inner make one of the outer), coarsest first
_SPLITS = (
    ("tx", "wgid", "tid_in_wg", 128), ("tx", "warpid", "laneid", 32), ("warpid", "wgid", "wid_in_wg", 4),
    ("tid_in_wg", "wid_in_wg", "laneid", 32),
)  # fmt: skip


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


def is_trivial(layout: Layout) -> bool:
    """Whether element x lies at x: dense row-major on m, no replica, offset or swizzle.

    >>> from tilegen.layouts.notation import parse
    >>> is_trivial(parse("S[(8, 64)]")), is_trivial(parse("S[(8, 64):(1, 8)]"))
    (True, False)
    """
    swizzle = swizzle_of(layout)
    if not isinstance(layout, (TileLayout, SwizzleLayout, ComposeLayout)) or (swizzle and swizzle.swizzle_len):
        return False
    tile = tile_of(canonicalize(layout))
    only, *others = tile.shard
    dense = not others and (only.extent == 1 or (only.stride == 1 and only.axis == "m"))
    return dense and not tile.replica and not tile.offset


# ---------------------------------------------------------------- threads by other names
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
    first = last = min(steps, key=OP_SCOPES.index)
    visited = 0
    while last in steps:
        last, visited = steps[last], visited + 1
    if visited != len(steps):
        raise LayoutError(f"the thread axes of {tile} do not connect: {first} to {last}, then a gap")
    return first, last


def _fuse_thread_axes(tile: TileLayout, scope: str) -> TileLayout:
    if scope not in OP_SCOPES[1:]:
        raise LayoutError(f"threads fuse up to a scope of {', '.join(OP_SCOPES[1:])}, not {scope!r}")
    inside = OP_SCOPES[: OP_SCOPES.index(scope) + 1]
    fusable = {a.name for a in AXES.values() if a.kind == "thread" and a.scope in inside}
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
    return {name for name in _axis_names(tile) if AXES[name].kind == "thread"}


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


# ---------------------------------------------------------------- parts of a layout, and its inverse
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


def inverse(layout: Layout, axes: Sequence[str] | None = None) -> TileLayout | SwizzleLayout | ComposeLayout:
    """From places back to elements: over the shape of the places on ``axes``, the flat logical index on m.

    inverse(L).apply(*place, shape=places)[0]["m"] is the x with L(x) = place. ``axes`` (default: those that L uses, in
    the order of the table of axes) gives the order of the dimensions. Raises LayoutError where no such layout exists:
    replicas (one element, several places), an offset or a gap (a place without an element), two elements in one
    place, a swizzle over anything but a dense tile.

    >>> from tilegen.layouts.notation import parse
    >>> print(inverse(parse("S[(8, 4, 2):(2@laneid, 1, 1@laneid)]")))
    S[(8, 2, 4):(8, 1, 2)]
    >>> inverse(parse("S[(8, 6):(8, 1)]"))
    Traceback (most recent call last):
    ...
    tilegen.errors.LayoutError: S[(8, 6):(8, 1)] has no inverse: places of m from 6 to 7 hold no element
    """
    if isinstance(layout, SwizzleLayout):
        return layout  # the bits that choose stay, so that exchanging twice restores
    if not isinstance(layout, (TileLayout, ComposeLayout)):
        raise LayoutError(f"{layout} is inverted as a linear layout")
    tile = tile_of(canonicalize(layout))
    if isinstance(layout, ComposeLayout) and layout.swizzle.swizzle_len:
        if not is_trivial(tile):
            raise _no_inverse(layout, "a swizzle comes after a tile that is not dense; its inverse would come before")
        return ComposeLayout(layout.swizzle, tile)
    if tile.replica:
        raise _no_inverse(layout, "replicas put one element in several places")
    if tile.offset:
        raise _no_inverse(layout, "an offset leaves places before it without an element")
    return TileLayout(_invert_iters(layout, tile, _order_axes(tile, axes)))


def _no_inverse(layout: Layout, reason: str) -> LayoutError:
    return LayoutError(f"{layout} has no inverse: {reason}")


def _order_axes(tile: TileLayout, axes: Sequence[str] | None) -> list[str]:
    used = sorted({i.axis for i in tile.shard}, key=AXIS_ORDER.__getitem__)
    if axes is not None and sorted(axes, key=lambda a: AXIS_ORDER.get(a, -1)) != used:
        raise LayoutError(f"axes {tuple(axes)} are not those of {tile}: {', '.join(used)}")
    return list(axes) if axes is not None else used


def _invert_iters(layout: Layout, tile: TileLayout, axes: Sequence[str]) -> tuple[Iter, ...]:
    """On each axis, iters of falling strides; each steps through the logical index as its place there says."""
    steps = row_major_strides([i.extent for i in tile.shard])
    result: list[Iter] = []
    for axis in axes:
        on_axis = [(i, step) for i, step in zip(tile.shard, steps, strict=True) if i.axis == axis]
        on_axis.sort(key=lambda pair: (bound(pair[0].stride), bound(pair[0].extent)))
        covered: Index = 1
        found: list[Iter] = []
        for i, step in on_axis:
            if i.extent != 1 and i.stride != covered:
                raise _no_inverse(layout, _describe_misfit(i, covered))
            covered = product((covered, i.extent))
            found.append(Iter(i.extent, step))
        result += reversed(found)
    return fuse_neighbours(tuple(result))


def _describe_misfit(i: Iter, covered: Index) -> str:
    if isinstance(i.stride, int) and isinstance(covered, int) and i.stride < covered:
        return f"two elements share a place of {i.axis} (stride {i.stride} inside {covered} places)"
    if isinstance(i.stride, int) and isinstance(covered, int):
        return f"places of {i.axis} from {covered} to {i.stride - 1} hold no element"
    return f"whether stride {spell(i.stride)} of {i.axis} continues {spell(covered)} places is not known"
