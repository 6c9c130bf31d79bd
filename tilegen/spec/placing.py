"""Layouts as a spec writes them: read, and checked against the buffer that they place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilegen import layouts
from tilegen.arch import ARCHES
from tilegen.dtypes import DTYPES
from tilegen.errors import Flaw, LayoutError, Mark
from tilegen.index import Index, bound, evaluate, mul
from tilegen.layouts import AXES, PaddedSharedLayout
from tilegen.layouts.constructors import ARGUMENTS, CONSTRUCTORS
from tilegen.layouts.core.values import with_tile
from tilegen.near_words import find_near, suggest
from tilegen.scopes import OP_SCOPES, SCOPES, THREAD_AXES
from tilegen.spaces import Space
from tilegen.spec.absent import refuse_later_gluon, refuse_later_layout
from tilegen.spec.buffer_models import PaddedFields
from tilegen.spec.data import Buffer
from tilegen.spec.findings import Findings, Flawed, shorten
from tilegen.spec.models import check_fields
from tilegen.spec.names import instance_variables
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence
from tilegen.spec.params import Params
from tilegen.spec.regions import show_shape
from tilegen.spec.tensor_memory import check_apart, check_cells, find_axis, say_placement

MAX_ELEMS = 1 << 36  # of a global array at the defaults of its params; no GPU holds more
MAX_REPLICAS = 1024  # as many as a CTA has threads
MAX_REGISTER_BYTES = 255 * 4  # what one thread has


@dataclass
class Setting:
    """What a layout may depend on: the params, and what the CTA and the GPU have."""

    params: Params
    threads: int
    arch: str


def multiply(shape: Iterable[Index]) -> Index:
    """The product of the extents."""
    elems: Index = 1
    for extent in shape:
        elems = mul(elems, extent)
    return elems


def read_layout(node: Node, shape: tuple[Index, ...], setting: Setting, what: str, findings: Findings) -> Any:
    """The layout that a node writes: row, col, notation or Gluon's names; raises TG190, TG201 and TG104."""
    if isinstance(node, Mapping):
        return read_gluon(node, shape, what, findings)
    if is_auto(node):
        message = f"'auto' chooses layouts of buffers, but {what} shows the bytes of another"
        raise Flawed("TG209", message, node.mark, "write 'layout: auto' at the buffer itself")
    refuse_later_layout(node)
    assert isinstance(node, Scalar)
    if node.text.strip() in ("row", "col"):
        return layouts.row_major(shape) if node.text.strip() == "row" else layouts.column_major(shape)
    names = setting.params.names
    try:
        layout = layouts.parse(node.passage.text, names.values)
    except LayoutError as error:
        raise _place_layout_error(error, node, setting, what) from None
    if isinstance(layout, layouts.SwizzleLayout):
        return layouts.ComposeLayout(layout, layouts.row_major(shape))
    if not isinstance(layout, (layouts.TileLayout, layouts.ComposeLayout, layouts.PaddedSharedLayout)):
        return _as_buffer_layout(layout, shape, node, what)
    return repeat_atom(layout, shape)


def is_auto(node: Node | None) -> bool:
    """Does a node leave the layout to tilegen?"""
    return isinstance(node, Scalar) and node.text.strip() == "auto"


def _as_buffer_layout(layout: Any, shape: tuple[Index, ...], node: Node, what: str) -> Any:
    """A linear or a Gluon layout as the tile, or the swizzled tile, that it is."""
    extents = tuple(n for n in shape if isinstance(n, int))
    if len(extents) < len(shape):
        raise Flawed("TG201", f"the layout of {what} needs extents that are known when it is built", node.mark)
    try:
        return layouts.linear.as_buffer_layout(layout, extents)
    except LayoutError as error:
        raise Flawed("TG201", f"{shorten(error, 200)}, in the layout of {what}", node.mark) from None


def repeat_atom(layout: layouts.Layout, shape: tuple[Index, ...]) -> layouts.Layout:
    """A swizzle over n elements in a row, on a buffer of a multiple of n elements: it repeats, as in TIRx."""
    if not isinstance(layout, layouts.ComposeLayout) or not all(isinstance(n, int) for n in shape):
        return layout
    n, elems = layouts.size(layout), multiply(shape)
    if not isinstance(n, int) or not isinstance(elems, int) or layout.tile != layouts.row_major((n,)):
        return layout
    if n % layouts.period(layout.swizzle) or elems % n:
        return layout
    return layouts.ComposeLayout(layout.swizzle, layouts.row_major(shape))


def _place_layout_error(error: LayoutError, node: Scalar, setting: Setting, what: str) -> Flawed:
    is_word = node.text.strip().isidentifier()
    start, end = error.span if error.span and not is_word else (0, len(node.text))
    code, hint = error.rule, error.hint
    if node.text[start:end] in setting.params.broken:
        return Flawed()
    if str(error).endswith("is not defined"):
        code, hint = "TG105", suggest(node.text[start:end], setting.params.names.values)
    if is_word:
        hint = _say_word(node.text.strip())
    if code == "TG104":
        hint = suggest(node.text[start:end], AXES) or hint
    message = f"{shorten(error, 200)}, in the layout of {what}"
    message = f"'{shorten(node.text)}' is no layout, in the layout of {what}" if is_word else message
    if code in ("TG104", "TG105"):
        message = f"unknown {'axis' if code == 'TG104' else 'name'} '{node.text[start:end]}' in layout of {what}"
    return Flawed(code, message, node.locate(start, end), hint)


def _say_word(word: str) -> str:
    """What to write instead of a word alone: one that is a layout, or the arguments that a constructor takes."""
    words = ("row", "col", "auto")
    if not find_near(word, words) and word in CONSTRUCTORS:
        return f"write {word}({', '.join(ARGUMENTS[word])})"
    return suggest(word, words)


def check_layout_fits(
    layout: Any, shape: tuple[Index, ...], setting: Setting, what: str, space: Space, dtype: str, node: Node
) -> None:
    """Size, axes, reach and bytes of a layout; raises TG201 to TG203, TG210, in tensor memory TG204 too."""
    fix = say_placement(shape, dtype) if space.has_cells else ""
    try:
        _check_tiling(shape, setting, what, node)
        shape = _count_unevenly(layout, shape) if space.is_held else shape
        _check_size(layout, shape, setting, what, node, fix)
        if space.has_cells:
            check_cells(layout, shape, dtype, setting.arch, what, node)
        else:
            _check_axes(layout, setting, what, space, node)
        _check_reach(layout, setting, what, node)
        _check_dimensions(layout, shape, what, node, fix)
        if space.has_cells:
            check_apart(layout, shape, dtype, what, node)
        elif not space.is_array:
            _check_bytes(layout, what, space, dtype, setting, node)
    except LayoutError as error:
        raise Flawed("TG201", f"{shorten(error, 200)}, in the layout of {what}", node.mark, fix) from None


def _check_size(layout: Any, shape: tuple[Index, ...], setting: Setting, what: str, node: Node, fix: str) -> None:
    has, needs = layouts.size(layout), multiply(shape)
    for values in (setting.params.defaults, setting.params.lowest):
        size, elems = int(evaluate(has, values)), int(evaluate(needs, values))
        if size != elems:
            message = f"the layout of {what} places {size} elements, but its shape {show_shape(shape)} has {elems}"
            raise Flawed("TG202", message, node.mark, fix)


def _count_unevenly(layout: Any, shape: tuple[Index, ...]) -> tuple[Index, ...]:
    """The extents that a register layout counts, or the shape where it places another number of elements."""
    try:
        return layouts.counted_shape(layout, shape)
    except LayoutError:
        return shape


def _check_tiling(shape: tuple[Index, ...], setting: Setting, what: str, node: Node) -> None:
    """A tiled_mma knows the rows and columns that it is over, not only how many elements."""
    found = layouts.read_mma(node.passage.text, setting.params.names.values) if isinstance(node, Scalar) else None
    if found is None or not all(isinstance(n, int) for n in shape):
        return
    covered = layouts.covered_shape(*found)
    if [n for n in shape if n != 1] != [n for n in covered if n != 1]:
        tiling, operand = found
        modes = " x ".join(layouts.MODES[d] for d in layouts.OPERANDS[operand])
        over = f"{operand} of {modes} = {show_shape(covered)}"
        message = f"the layout of {what} is over {over}, its shape is {show_shape(shape)}"
        raise Flawed("TG202", message, node.mark, layouts.suggest_whole(tiling, operand))


def _check_dimensions(layout: Any, shape: tuple[Index, ...], what: str, node: Node, fix: str) -> None:
    crossing = find_crossing(layout, shape)
    if crossing is not None:
        raise Flawed(crossing.code, f"{crossing.message}, the shape of {what}", node.mark, fix or crossing.hint)


def find_crossing(layout: layouts.Layout, shape: tuple[Index, ...]) -> Flaw | None:
    """Why a layout has no iters of their own for each dimension of a shape, and what has; None where it does."""
    tile = layouts.tile_of(layout)
    try:
        layouts.group_fused(tile, shape)
    except LayoutError:
        message = f"the iters of {layout} cross the dimensions of {show_shape(shape)}"
        return Flaw("TG201", message, hint=_say_in_order(layout, shape))
    return None


def _say_in_order(layout: layouts.Layout, shape: tuple[Index, ...]) -> str:
    """What to write instead: the same iters in the order of the dimensions, or a form where they are others."""
    tile = layouts.tile_of(layout)
    waiting, own = list(tile.shard), []
    for n in shape:
        found = next((i for i in waiting if i.extent == n), None)
        if found is None:
            break
        waiting.remove(found)
        own.append(found)
    if waiting or len(own) < len(shape):
        example = f", as {layouts.row_major(shape)} does" if all(i.axis == "m" for i in tile.shard) else ""
        return f"give each dimension iters of its own{example}"
    kept = show_shape(tuple(i.extent for i in tile.shard))
    return f"{with_tile(layout, replace(tile, shard=tuple(own)))} has them in order, or give it the shape {kept}"


def _check_axes(layout: Any, setting: Setting, what: str, space: Space, node: Node) -> None:
    if isinstance(layout, layouts.PaddedSharedLayout):
        _check_padded(layout, what, space, node)
    allowed = ["m", *instance_variables(1)] if space.is_held else ["m"]
    for axis in layout_axes(layout):
        if axis not in allowed:
            kind = (
                f"a {space.name} buffer has only the axis 'm'"
                if len(allowed) == 1
                else f"registers have {', '.join(allowed)}"
            )
            message = f"the axis '{axis}' has no place in the layout of {what}"
            raise Flawed("TG203", message, find_axis(node, axis), kind)
    if space.is_held and setting.threads:
        units = instance_variables(setting.threads)
        for axis in layout_axes(layout):
            reach = layouts.extent_of(layout, axis)
            if axis in units and bound(reach) - 1 > units[axis].bound:
                has = f"{setting.threads} threads have {axis} up to {units[axis].bound - 1}"
                raise Flawed(
                    "TG203",
                    f"the layout of {what} reaches {axis} {shorten(bound(reach) - 2)}",
                    find_axis(node, axis),
                    has,
                )
        last = last_thread(layout)
        if last >= setting.threads:
            message = f"the layout of {what} has elements of thread {last}, and there are {setting.threads}"
            raise Flawed("TG203", message, node.mark, "let the layout name threads that exist, or raise 'threads'")


def last_thread(layout: Any) -> int:
    """The last thread of a CTA that a register layout gives an element to, its axes taken together."""
    units = {axis: THREAD_AXES[axis].unit for axis in layout_axes(layout) if axis in THREAD_AXES}
    most = sum((bound(layouts.extent_of(layout, axis)) - 2) * unit for axis, unit in units.items())
    if len(units) < 2 or layouts.tile_of(layout).replica:
        return most
    size = int(evaluate(layouts.size(layout), {}))
    place = layout.place([np.arange(size)], (size,))
    return int(np.max(sum(np.asarray(place.get(axis, 0)) * unit for axis, unit in units.items())))


def _check_padded(layout: layouts.PaddedSharedLayout, what: str, space: Space, node: Node) -> None:
    if not space.has_banks:
        message = f"a PaddedSharedLayout is one of shared memory, but {what} is in {space.words}"
        raise Flawed("TG203", message, node.mark, "write padding as strides: S[(32,32):(33,1)]")
    if layout.blocks > 1:
        message = f"the layout of {what} divides it among {layout.blocks} CTAs, but a shared buffer is one CTA's"
        raise Flawed("TG203", message, node.mark, f"a CTA has {show_shape(layout.block_shape)}; cga_layout is []")


def _check_reach(layout: Any, setting: Setting, what: str, node: Node) -> None:
    """No layout spans more than a GPU has, at the defaults: whoever launches it with other sizes has such an array."""
    reach = layouts.extent_of(layout, "m")
    replicas = multiply(i.extent for i in layouts.tile_of(layout).replica)
    if int(evaluate(reach, setting.params.defaults)) > MAX_ELEMS:
        raise Flawed("TG210", f"the layout of {what} reaches further than {MAX_ELEMS} elements", node.mark)
    if bound(replicas) - 1 > MAX_REPLICAS:
        raise Flawed("TG210", f"the layout of {what} has more than {MAX_REPLICAS} replicas", node.mark)


def layout_axes(layout: Any) -> list[str]:
    """The axes that a layout places elements on."""
    tile = layouts.tile_of(layout)
    named = [i.axis for i in (*tile.shard, *tile.replica)] + [axis for axis, _ in tile.offset]
    return list(dict.fromkeys(named))


def owner_scope(layout: Any) -> str:
    """The narrowest scope that the thread axes of a register layout need.

    >>> owner_scope(layouts.row_major((4, 8)))
    'thread'
    """
    scopes = [AXES[a].scope for a in layout_axes(layout) if AXES[a].kind == "thread"]
    return max(scopes, key=OP_SCOPES.index, default="thread")


def _check_bytes(layout: Any, what: str, space: Space, dtype: str, setting: Setting, node: Node) -> None:
    size_bytes = int(bound(layouts.extent_of(layout, "m")) - 1) * DTYPES[dtype].bytes
    limit = MAX_REGISTER_BYTES if space.is_held else ARCHES[setting.arch].max_shared_bytes_per_cta
    if size_bytes > limit:
        whose = "a thread" if space.is_held else f"a CTA on {setting.arch}"
        hint = "take a smaller shape, several times over"
        raise Flawed("TG210", f"{what} takes {size_bytes} bytes; {whose} has {limit}", node.mark, hint)


# ---------------------------------------------------------------- Gluon's argument names
_PLACE = re.compile(r"(\w+)(?:\[(\d+)\])?")  # how messages about a padded layout start


def read_gluon(node: Mapping, shape: tuple[Index, ...], what: str, findings: Findings) -> PaddedSharedLayout:
    """The padded layout of a mapping: bases, or an order for none; ``shape`` is the buffer's unless it names one.

    Raises TG101 to TG103 for keys and values, TG201 for Gluon's other layouts and for what is no layout.
    """
    refuse_later_gluon(node)
    fields = check_fields(node, PaddedFields, f"the layout of {what}", findings)
    if fields is None:
        raise Flawed()  # reported
    if fields.offset_bases is None and fields.order is None:
        message = f"the layout of {what} needs the key 'offset_bases' or 'order'"
        raise Flawed("TG102", message, node.mark, f"rows one after the other: order: {list(range(len(shape)))[::-1]}")
    if fields.offset_bases is not None and fields.order is not None:
        message = f"the layout of {what} has 'offset_bases' and 'order'"
        raise Flawed(
            "TG201", message, node.key("order").mark, "remove one: an order stands for bases that reorder nothing"
        )
    extents: Any = shape if fields.shape is None else fields.shape
    try:
        if fields.order is not None:
            return PaddedSharedLayout.with_identity_for(
                fields.interval_padding_pairs, extents, fields.order, fields.cga_layout
            )
        return PaddedSharedLayout(fields.interval_padding_pairs, fields.offset_bases, fields.cga_layout, extents)  # type: ignore[arg-type]
    except LayoutError as error:
        text = f"{shorten(error, 200)}, in the layout of {what}"
        raise Flawed("TG201", text, _find_mark(node, str(error)), error.hint) from None


def _find_mark(node: Mapping, message: str) -> Mark:
    """The argument that a message starts with, and its entry, as far as the mapping writes them."""
    found = _PLACE.match(message)
    argument: Node | None = node.get(found[1]) if found else None
    if found and found[2] and isinstance(argument, Sequence) and int(found[2]) < len(argument.items):
        return argument.items[int(found[2])].mark
    return argument.mark if argument else node.mark


def check_same_registers(layout: Any, root: Buffer, threads: int, what: str, node: Node) -> None:
    """A view of registers names the same registers of the same threads, each by one element; raises TG115."""
    if owner_scope(layout) != owner_scope(root.layout):
        raise Flawed("TG115", f"{what} and '{root.name}' belong to different threads", node.mark)
    mine, others = (_registers_of(x, owner_scope(layout), threads) for x in (layout, root.layout))
    for found, name in ((mine, what), (others, f"'{root.name}'")):
        if len(np.unique(found)) < len(found):
            message = f"two elements of {name} lie in one register of a thread, so none has a place that it keeps"
            raise Flawed("TG115", message, node.mark, "a view of registers under another layout is one-to-one")
    if not np.array_equal(np.sort(mine), np.sort(others)):
        message = f"{what} names other registers than '{root.name}': its threads, or the registers of one, differ"
        raise Flawed("TG115", message, node.mark, "each thread keeps its registers, and only their coordinates change")


def _registers_of(layout: Any, scope: str, threads: int) -> Any:
    """Every (thread, register) that an element or a copy of it lies in, as one number each, in no order."""
    tile = layouts.tile_of(layout)
    whole = layouts.TileLayout((*tile.shard, *tile.replica), (), tile.offset)
    count = int(evaluate(layouts.size(whole), {}))
    place = whole.place([np.arange(count)], (count,))
    registers = place.get("m", 0) if (finish := layouts.finish_of(layout)) is None else finish(place.get("m", 0))
    named = sorted({axis for axis in layout_axes(layout) if axis != "m"}, key=list(THREAD_AXES).index)
    thread = sum((np.asarray(place.get(axis, 0)) * THREAD_AXES[axis].unit for axis in named), np.zeros(count, np.int64))
    rest = _threads_beside(named, SCOPES[scope].size(threads))
    held = np.add.outer(np.broadcast_to(thread, count), rest)
    return (held * (MAX_REGISTER_BYTES + 1) + np.broadcast_to(registers, count)[:, None]).ravel()


def _threads_beside(named: list[str], threads: int) -> Any:
    """The threads of an instance that are 0 on every named axis: all of them hold what the axes say."""
    number = np.arange(threads)
    for axis in named:
        row = THREAD_AXES[axis]
        at = number // row.unit
        number = number[(at % (row.span // row.unit) if row.span else at) == 0]
    return number
