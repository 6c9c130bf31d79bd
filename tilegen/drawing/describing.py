"""What a layout is and where its elements lie, as JSON data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilegen import layouts
from tilegen.drawing.reading import Subject
from tilegen.errors import LayoutError
from tilegen.layouts import AXES
from tilegen.layouts.core.measures import BANK_BYTES, BANKS

MOST_COPIES = 1 << 12
ADDRESSES = ("m", "offset")  # the axes that count elements of a memory: tilegen's and LinearLayout's


def describe_layout(subject: Subject) -> dict[str, Any]:
    """Canonical text, kind, shape, axes with extents and spans, scope and injectivity.

    ``scope`` is [sub, scope] or null, ``injective`` true, false or null where it is not decided; a reason stands in
    ``scope_reason`` or ``injective_reason``.

    >>> from tilegen.drawing.reading import read_subject
    >>> describe_layout(read_subject("S[(2, 32):(1@warpid, 1@laneid)]"))["scope"]
    ['thread', 'cta']
    """
    layout = subject.layout
    head = {
        "layout": str(subject.given), "kind": subject.kind,
        "places": None if layout is subject.given else str(layout),
        "shape": list(subject.shape), "elements": prod(subject.shape), "copies": count_copies(layout),
    }  # fmt: skip
    if not isinstance(layout, _TILED):
        return head | _describe_linear(layout)
    scope, scope_reason = _try(lambda: layouts.get_scope(layout))
    injective, injective_reason = _try(lambda: layouts.is_injective(layout))
    return head | {
        "axes": [_describe_axis(layout, axis, subject.shape) for axis in axes_of(layout)],
        "scope": list(scope) if scope else None, "scope_reason": scope_reason,
        "injective": injective, "injective_reason": injective_reason,
    }  # fmt: skip


_INPUTS = {  # of a LinearLayout, as axes
    "lane": layouts.Axis("lane", "thread", "warp", "thread"),
    "warp": layouts.Axis("warp", "thread", "cta", "warp"),
    "block": layouts.Axis("block", "cluster"),
}
_TILED = (layouts.TileLayout, layouts.SwizzleLayout, layouts.ComposeLayout, layouts.PaddedSharedLayout)


def axes_of(layout: Any) -> list[str]:
    """The axes that a layout names, in the order of the table of axes.

    >>> axes_of(layouts.parse("S[(2, 8):(1, 4@laneid)] + 5@warpid"))
    ['warpid', 'laneid', 'm']
    """
    if not isinstance(layout, _TILED):
        return list(layout.names)
    tile = layouts.tile_of(layout)
    named = {i.axis for i in (*tile.shard, *tile.replica)} | {axis for axis, _ in tile.offset}
    return [axis for axis in AXES if axis in named]


def _describe_axis(layout: Any, name: str, shape: Sequence[int]) -> dict[str, Any]:
    axis = AXES[name]
    # a bare swizzle has the extent of its shape, not of its period
    placed = layouts.over_shape(layout, shape)
    return {
        "axis": name, "kind": axis.kind, "scope": axis.scope or None, "sub": axis.sub or None,
        "extent": layouts.extent_of(placed, name), "span": layouts.span(placed, name),
    }  # fmt: skip


def _describe_linear(layout: Any) -> dict[str, Any]:
    """An XOR-linear layout: from places to elements, so no place holds two."""
    sizes = layout.in_sizes
    axes = [_describe_input(name, n) for name, n in sizes.items()]
    scope = None if "lane" not in sizes else ["thread", "cta" if sizes.get("warp", 1) > 1 else "warp"]
    held = layouts.linear.is_surjective(layout)
    return {
        "axes": axes, "scope": scope, "scope_reason": None, "injective": True, "injective_reason": None, "held": held
    }  # fmt: skip


def _describe_input(name: str, n: int) -> dict[str, Any]:
    axis = _INPUTS.get(name, AXES.get(name, layouts.Axis(name, "memory")))
    places = {"scope": axis.scope or None, "sub": axis.sub or None, "extent": n, "span": n}
    return {"axis": name, "kind": axis.kind, **places}


def count_copies(layout: Any) -> int:
    """The places of each element.

    >>> count_copies(layouts.parse("S[8:1] + R[2:8]"))
    2
    """
    if isinstance(layout, _TILED):
        return prod(i.extent for i in layouts.tile_of(layout).replica if isinstance(i.extent, int))
    return 1 << len(layouts.linear.kernel(layout))


def _try(ask: Any) -> tuple[Any, str | None]:
    try:
        return ask(), None
    except LayoutError as error:
        return None, str(error)


def locate(subject: Subject, coord: Sequence[int], bits: int | None = None) -> dict[str, Any]:
    """Every copy of the element at a coordinate of the shape; with the bits of an element also byte, bank and line.

    Raises LayoutError for a coordinate outside.

    >>> from tilegen.drawing.reading import read_subject
    >>> locate(read_subject("Swizzle(3,3,3) o S[(8,64):(64,1)]"), (5, 0), 16)["places"]
    [{'m': 360, 'byte': 720, 'bank': 20, 'line': 5}]
    """
    if len(coord) == 1 != len(subject.shape):  # a flat index
        coord = tuple(_unflatten(coord[0], subject.shape))
    if (copies := count_copies(subject.layout)) > MOST_COPIES:
        raise LayoutError(f"each element has {copies} copies; at most {MOST_COPIES} are listed")
    found = subject.layout.apply(*coord, shape=subject.shape)
    places = [{axis: int(place[axis]) for axis in axes_of(subject.layout) if axis in place} for place in found]
    return {"coord": list(coord), "places": [place | _shared(place, bits) for place in places]}


def _unflatten(flat: int, shape: Sequence[int]) -> list[int]:
    if not 0 <= flat < prod(shape):
        raise LayoutError(f"index {flat} is not below {prod(shape)}")
    coord: list[int] = []
    for n in reversed(shape):
        flat, x = divmod(flat, n)
        coord.append(x)
    return coord[::-1]


def _shared(place: dict[str, int], bits: int | None) -> dict[str, int]:
    address = next((place[axis] for axis in ADDRESSES if axis in place), None)
    if bits is None or address is None:
        return {}
    byte = address * bits // 8
    return {"byte": byte, "bank": byte // BANK_BYTES % BANKS, "line": byte // (BANK_BYTES * BANKS)}
