"""The tiles of a permute as statements: which CTA takes which box, and the copies that carry it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilegen import layouts
from tilegen.errors import Diagnostic, LayoutError, SpecError
from tilegen.index import Index, evaluate, mul, multiple
from tilegen.layouts.core.iters import divide_exactly
from tilegen.ops.copy.op import OP as COPY
from tilegen.ops.copy.op import CopyFields
from tilegen.ops.permute.dims import Dims, number_tiles
from tilegen.ops.permute.tiles import TileChoice
from tilegen.spaces import SHARED
from tilegen.spec.auto import AUTO, Auto
from tilegen.spec.data import Buffer, Call, Region, Spec, Statement, SyncStatement, WholeCall
from tilegen.spec.names import reserved_reason
from tilegen.spec.placing import find_crossing, repeat_atom
from tilegen.spec.spelling import spell_index

_LONGEST_STEM = 48  # characters: with an ending behind it, it is still a name
PLAIN_LAYOUTS = {"row": layouts.row_major, "col": layouts.column_major}


def tile_statements(spec: Spec, call: WholeCall, dims: Dims, chosen: TileChoice) -> Spec:
    """The spec that carries out a permute: the arrays over the merged dimensions, the launch, the copies."""
    src, dst = (_over_dims(call.arrays[name], dims, side) for side, name in enumerate(("src", "dst")))
    arrays = {src.name: src, dst.name: dst}
    buffers = tuple(arrays.get(b.name, b) for b in spec.buffers)
    grid = number_tiles(dims, chosen.box)
    begins = [mul(tile, b) for tile, b in zip(grid.tiles, chosen.box, strict=True)]
    regions = [_region(b, dims, side, begins, chosen.box) for side, b in enumerate((src, dst))]
    edge = "error" if all(_fits(dims, d, begins, chosen.box) for d in range(len(dims.dims))) else "clip"
    cache = call.fields.cache
    names = frozenset({spec.kernel, *(b.name for b in spec.buffers), *(p.name for p in spec.params)})
    names |= {c.name for c in spec.constants}
    if chosen.variant != "tiled":
        seen = _in_order_of_src(dst, dims, chosen.box, names)
        buffers += () if seen is dst else (seen,)
        target = regions[1] if seen is dst else _region(seen, dims, 0, begins, chosen.box)
        pins = {"variant": "scalar", "partition": "row-major"} if chosen.variant == "scalar" else {}
        ops: tuple[Statement, ...] = (_copy(call, regions[0], target, edge, cache, **pins),)
    else:
        tile, turned = _tile_buffers(call, dims, chosen, names)
        buffers += (tile,) if turned is tile else (tile, turned)
        into, out = (_whole_of(b) for b in ((turned, tile) if chosen.turn == "load" else (tile, turned)))
        ops = (
            _copy(call, regions[0], into, edge, cache), SyncStatement("cta", True, call.mark),
            _copy(call, out, regions[1], edge, cache),
        )  # fmt: skip
    return replace(spec, threads=chosen.threads, grid=grid.axes, buffers=buffers, ops=ops)


# ---------------------------------------------------------------- arrays and tiles
def name_buffer(stem: str, ending: str, taken: frozenset[str]) -> str:
    """A name for a buffer that a person could give it too: nobody's, not reserved, not too long.

    >>> name_buffer("tile", "_turned", frozenset()), name_buffer("Y_", "_turned", frozenset({"Y_turned"}))
    ('tile_turned', 'Y2_turned')
    """
    stem = stem[:_LONGEST_STEM].rstrip("_")
    names = (f"{stem}{number}{ending}" for number in ("", *range(2, len(taken) + 4)))
    return next(name for name in names if name not in taken and not reserved_reason(name))


def _over_dims(array: Buffer, dims: Dims, side: int) -> Buffer:
    """An array over the merged dimensions, in its own order."""
    own = [dims.dims[k] for k in (dims.order if side else range(len(dims.dims)))]
    shape = tuple(d.extent for d in own)
    layout = layouts.TileLayout(tuple(layouts.Iter(d.extent, d.strides[side]) for d in own))
    rows = layouts.row_major(shape)
    pairs = zip(layout.shard, rows.shard, strict=True)
    if all(divide_exactly(mine.stride, row.stride) == 1 for mine, row in pairs):  # if in another order of factors
        return replace(array, shape=shape, layout=rows, layout_text="")
    return replace(array, shape=shape, layout=layout, layout_text=str(layout))


def _in_order_of_src(dst: Buffer, dims: Dims, box: Sequence[int], names: frozenset[str]) -> Buffer:
    """dst with its dimensions in src's order, where a box reaches into several that are not in it already."""
    kept = [k for k in dims.order if box[k] > 1]
    if kept == sorted(kept):
        return dst
    axes = tuple(dims.order.index(k) for k in range(len(dims.dims)))
    return replace(
        dst, name=name_buffer(dst.name, "_turned", names), shape=tuple(dst.shape[a] for a in axes),
        layout=layouts.permute_dims(dst.layout, dst.shape, axes), parent=dst.name, axes=axes,
    )  # fmt: skip


def _tile_buffers(call: WholeCall, dims: Dims, chosen: TileChoice, names: frozenset[str]) -> tuple[Buffer, Buffer]:
    """The shared tile, and the view of it in the other order (itself where that is the same).

    It lies in src's order where elements turn over when they are stored, and in dst's where they do as they are loaded.
    """
    box = chosen.box
    orders = (dims.order, range(len(box))) if chosen.turn == "load" else (range(len(box)), dims.order)
    kept, other = ([k for k in order if box[k] > 1] or [orders[0][-1]] for order in orders)
    axes = tuple(kept.index(k) for k in other)
    shape = tuple(box[k] for k in kept)
    name = name_buffer("tile", "", names)
    text = call.fields.layout
    layout = AUTO if text == "auto" else _read_layout(call, shape, chosen.turn)
    tile = Buffer(name, SHARED.name, call.arrays["src"].dtype, shape, layout, name, 16, text, call.mark)
    if axes == tuple(range(len(axes))):
        return tile, tile
    turned = AUTO if isinstance(layout, Auto) else layouts.permute_dims(layout, shape, axes)
    view = replace(
        tile, name=name_buffer(name, "_turned", names), shape=tuple(shape[a] for a in axes), layout=turned,
        parent=tile.name, axes=axes,
    )  # fmt: skip
    return tile, view


def _read_layout(call: WholeCall, shape: tuple[int, ...], turn: str) -> layouts.Layout:
    """The layout that the call pins. Raises SpecError (TG302) for one that is not of such a tile."""
    if call.fields.layout in PLAIN_LAYOUTS:
        return PLAIN_LAYOUTS[call.fields.layout](shape)
    try:
        layout = repeat_atom(layouts.over_shape(layouts.parse(call.fields.layout), shape), shape)
        axes = {i.axis for i in layouts.tile_of(layout).shard}
        layout.place((0,) * len(shape), shape)
        crossing = find_crossing(layout, shape)
        if axes <= {"m"} and layouts.is_injective(layout) and crossing is None:
            return layout
        others = ", ".join(sorted(axes - {"m"}))
        why = f"it places elements on {others}" if others else "two elements share a place"
    except LayoutError as error:
        why, crossing = str(error), None
    also = "" if call.fields.box else ", or pin 'box' beside it"
    hint = f"leave 'layout' out to have it chosen{also}"
    if crossing is not None:
        side, other = ("dst", "store") if turn == "load" else ("src", "load")
        why = f"{crossing.message}; a tile that turns over on the {turn} lies in {side}'s order"
        hint = f"write the layout for {list(shape)}, or 'turn: {other}' for a tile in the other order"
    message = f"{call.fields.layout} is no layout of a shared tile of {list(shape)} elements: {why}"
    raise SpecError(Diagnostic("TG302", message, call.mark_of("layout"), hint))


def _whole_of(buffer: Buffer) -> Region:
    rank = len(buffer.shape)
    lengths = tuple(int(evaluate(n, {})) for n in buffer.shape)
    return Region(buffer, (0,) * rank, lengths, (True,) * rank, buffer.name, buffer.mark)


# ---------------------------------------------------------------- who takes what
def _fits(dims: Dims, d: int, begins: Sequence[Index], box: Sequence[int]) -> bool:
    """Does no box leave the arrays in this dimension?"""
    extent = dims.dims[d].extent
    return multiple(extent) % box[d] == 0 or (isinstance(extent, int) and extent <= box[d] and extent == box[d])


def _region(buffer: Buffer, dims: Dims, side: int, begins: Sequence[Index], box: Sequence[int]) -> Region:
    order = dims.order if side else tuple(range(len(box)))
    own, lengths = tuple(begins[k] for k in order), tuple(box[k] for k in order)
    text = f"{buffer.name}[{', '.join(f'{spell_index(b)} : +{n}' for b, n in zip(own, lengths, strict=True))}]"
    return Region(buffer, own, lengths, (True,) * len(box), text, buffer.mark)


def _copy(call: WholeCall, src: Region, dst: Region, edge: str, cache: str, **pins: Any) -> Call:
    fields = CopyFields(src=src.text, dst=dst.text, edge=edge, cache=cache, **pins)  # type: ignore[arg-type]
    return Call(COPY, "cta", fields, {"src": src, "dst": dst}, True, call.mark)
