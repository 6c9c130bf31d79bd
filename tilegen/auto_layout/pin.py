"""A spec with another layout for one of its buffers; views that follow the buffer, and regions of all of them, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Any

from tilegen import layouts
from tilegen.dtypes import DTYPES
from tilegen.index import Index
from tilegen.kept import hand_on
from tilegen.planner import find_surroundings
from tilegen.spec.auto import AUTO
from tilegen.spec.data import Buffer, Call, Region, Spec
from tilegen.spec.outline import map_calls
from tilegen.spec.phases import barriers_of


def pin_layout(spec: Spec, name: str, layout: Any, text: str = "") -> Spec:
    """The spec with this layout for a buffer that is no view, written as ``text``; AUTO takes the layout away."""
    changed: dict[str, Buffer] = {}
    root = replace(spec.buffer(name), layout=layout, layout_text=text or str(layout))
    changed[name] = root
    for buffer in _by_parents(spec, name):
        changed[buffer.name] = _follow(buffer, changed[buffer.parent])
    buffers = tuple(changed.get(b.name, b) for b in spec.buffers)
    pinned = replace(spec, buffers=buffers, ops=map_calls(spec.ops, lambda call: _with_buffers(call, changed)))
    hand_on(find_surroundings, spec, pinned)
    hand_on(barriers_of, spec, pinned)  # no layout has a say in what arrives
    return pinned


def family_of(spec: Spec, name: str) -> frozenset[str]:
    """A buffer and all views of its bytes."""
    return frozenset(b.name for b in spec.buffers if b.root == name)


def can_follow(spec: Spec, name: str) -> bool:
    """Whether all views of a buffer follow its layout, so that it may be another one."""
    return len(_by_parents(spec, name)) == len(family_of(spec, name)) - 1


def list_views(spec: Spec, name: str) -> tuple[Buffer, ...]:
    """The views between a buffer that has no view's layout of its own and the view of this name, which is the last."""
    found: list[Buffer] = []
    buffer = spec.buffer(name)
    while buffer.root != buffer.name:
        found.append(buffer)
        buffer = spec.buffer(buffer.parent)
    return tuple(reversed(found))


def follow(root: Buffer, views: Sequence[Buffer]) -> Buffer:
    """The last of the views (of list_views), or the root without any, as the root's layout makes it."""
    for view in views:
        root = _follow(view, root)
    return root


def trace_dims(root: Buffer, views: Sequence[Buffer]) -> tuple[int, ...]:
    """Which dimension of the root each dimension of the last view is; -1 where a view has another shape."""
    dims = tuple(range(len(root.shape)))
    for parent, view in pairwise((root, *views)):
        if view.axes:
            dims = tuple(dims[d] for d in view.axes)
        elif view.shape != parent.shape:
            same = list(takewhile(lambda pair: pair[0] == pair[1], zip(view.shape, parent.shape, strict=False)))
            dims = tuple(dims[d] if d < len(same) else -1 for d in range(len(view.shape)))
    return dims


def _by_parents(spec: Spec, name: str) -> list[Buffer]:
    """The views that follow a buffer, each after what it is a view of."""
    found, known = [], {name}
    waiting = [b for b in spec.buffers if b.root == name and b.name != name]
    while ready := [b for b in waiting if b.parent in known]:
        found += ready
        known |= {b.name for b in ready}
        waiting = [b for b in waiting if b not in ready]
    return found


def _follow(view: Buffer, parent: Buffer) -> Buffer:
    layout = parent.layout
    if not parent.is_auto and view.axes:
        layout = _turn(layout, parent.counted_shape, view.axes)
    if not parent.is_auto and view.traits.has_cells and view.dtype != parent.dtype:
        layout = layouts.retype_cells(layout, DTYPES[parent.dtype].bits, DTYPES[view.dtype].bits)
        return replace(view, layout=layout, layout_text=str(layout))
    return replace(view, layout=AUTO if parent.is_auto else layout, layout_text=parent.layout_text)


@lru_cache(maxsize=4096)
def _turn(layout: Any, shape: tuple[Index, ...], axes: tuple[int, ...]) -> Any:
    """``permute_dims``, of which the same is asked for each op that names a view."""
    return layouts.permute_dims(layout, shape, axes)


def _with_buffers(call: Call, changed: Mapping[str, Buffer]) -> Call:
    def change(regions: Mapping[str, Region]) -> dict[str, Region]:
        return {k: replace(r, buffer=changed.get(r.buffer.name, r.buffer)) for k, r in regions.items()}

    expression = call.expression
    if expression is not None:
        expression = replace(expression, operands=change(expression.operands))
    return replace(call, regions=change(call.regions), expression=expression)
