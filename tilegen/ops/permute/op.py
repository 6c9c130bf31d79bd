"""permute: a whole global array with its dimensions in another order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from numpy.typing import NDArray
from pydantic import Field

from tilegen import layouts
from tilegen.arch import ARCHES
from tilegen.dtypes import DTYPES
from tilegen.errors import Diagnostic, Flaw, LayoutError, SpecError
from tilegen.index import evaluate
from tilegen.ops.op import WholeHere, WholeOp, fields_picked
from tilegen.ops.permute.choose import TILE_PINS, choose_tiles, rank_candidates, say_tile
from tilegen.ops.permute.dims import Dims, merge_dims
from tilegen.ops.permute.expand import PLAIN_LAYOUTS, tile_statements
from tilegen.ops.permute.tiles import TileChoice
from tilegen.ops.strided import find_coordinates, find_offsets, plain_strides
from tilegen.plan import default_values
from tilegen.scopes import GRID_LIMITS
from tilegen.spec.buffer_models import MAX_RANK
from tilegen.spec.data import Buffer, Spec, WholeCall
from tilegen.spec.form import WholeFields


class PermuteFields(WholeFields):
    src: str = Field(description="the array read")
    dst: str = Field(description="the array written: its dimension i is dimension axes[i] of src")
    axes: list[int] = Field(min_length=1, max_length=MAX_RANK, description="for each dimension of dst, that of src")
    variant: Literal["auto", "direct", "tiled", "scalar"] = Field(
        default="auto",
        description="direct: through registers alone; tiled: through a tile in shared memory; scalar: one by one",
    )
    box: list[int] | None = Field(
        default=None, min_length=1, max_length=MAX_RANK,
        description="what a CTA takes of each dimension that explain lists under 'dims', instead of the chosen box",
    )  # fmt: skip
    threads: int | None = Field(default=None, ge=32, le=1024, description="threads of a CTA, instead of those chosen")
    turn: Literal["auto", "load", "store"] = Field(
        default="auto", description="whether tiles turn over on their way into shared memory, or out of it"
    )
    layout: str = Field(
        default="auto",
        description="the layout of the shared tile, instead of the chosen one: over the box, in the order of dst where "
        "tiles turn over on the load, of src where on the store",
    )
    cache: Literal["default", "stream"] = Field(
        default="default", description="stream: no element is touched again, so the L2 need not keep any"
    )


def _check(fields: PermuteFields, arrays: Mapping[str, Buffer]) -> Flaw | None:
    """What is wrong with a call."""
    src, dst = arrays["src"], arrays["dst"]
    rank, axes = len(src.shape), fields.axes
    if sorted(axes) != list(range(rank)):
        hint = f"for example {list(range(rank))[::-1]}"
        message = f"axes must name each of the {rank} dimensions of '{src.name}' once, not {axes}"
        return Flaw("TG106", message, "axes", hint)
    wanted = tuple(src.shape[a] for a in axes)
    if wanted != dst.shape:
        has, due = (f"[{', '.join(map(str, s))}]" for s in (dst.shape, wanted))
        message = f"'{dst.name}' has shape {has}, but these axes of '{src.name}' give {due}"
        return Flaw("TG212", message, "dst", f"give '{dst.name}' the shape {due}")
    if src.dtype != dst.dtype:
        message = f"permute does not convert {src.dtype} to {dst.dtype}"
        return Flaw("TG212", message, "dst", f"give '{dst.name}' {src.dtype}")
    if src.name == dst.name:
        return Flaw("TG205", f"'{src.name}' cannot be permuted into itself: CTAs would read what others wrote", "dst")
    for name, buffer in (("src", src), ("dst", dst)):
        if plain_strides(buffer) is None:
            return Flaw("TG301", f"permute takes arrays with one stride a dimension, not {buffer.layout}", name)
    return _check_pins(fields)


def _check_pins(fields: PermuteFields) -> Flaw | None:
    if fields.box is not None and min(fields.box) < 1:
        return Flaw("TG106", f"a box has at least one element of each dimension, not {fields.box}", "box")
    pinned = next((name for name in TILE_PINS if getattr(fields, name) != "auto"), None)
    if fields.variant in ("direct", "scalar") and pinned:
        message = f"a {fields.variant} permute has no tile in shared memory, so '{pinned}' says nothing"
        return Flaw("TG302", message, pinned, "remove it, or take 'variant: tiled'")
    if fields.layout in ("auto", *PLAIN_LAYOUTS):
        return None
    try:
        layouts.parse(fields.layout)
    except LayoutError as error:
        return Flaw("TG200", f"{error}, in the layout of the tile", "layout")
    return None


def dims_of(call: WholeCall) -> Dims:
    """The merged dimensions of a call."""
    src, dst = call.arrays["src"], call.arrays["dst"]
    src_strides, dst_strides = plain_strides(src), plain_strides(dst)
    assert src_strides is not None and dst_strides is not None
    moved = [dst_strides[call.fields.axes.index(a)] for a in range(len(src.shape))]
    return merge_dims(src.shape, src_strides, moved)


def _expand(spec: Spec, call: WholeCall) -> Spec:
    """The tiles that carry out a call: a spec with a launch, copies and a shared tile.

    Raises SpecError (TG302) for pins that cannot be.
    """
    dims, arch = dims_of(call), ARCHES[spec.arch]
    dtype = DTYPES[call.arrays["src"].dtype]
    defaults = default_values(spec.params)
    chosen, choices = choose_tiles(call, dims, dtype.bytes, defaults, arch)
    expanded = tile_statements(spec, call, dims, chosen)
    ctas = int(evaluate(expanded.grid[0], defaults))
    if ctas > GRID_LIMITS[0]:  # more than three axes, and longer ones, are folded into x
        raise SpecError(_too_many_ctas(spec, call, ctas, chosen))
    notes = (*spec.notes, describe_tiles(call, chosen))
    return replace(expanded, choices=(*spec.choices, *choices), whole=call, notes=notes)


def _too_many_ctas(spec: Spec, call: WholeCall, ctas: int, chosen: TileChoice) -> Diagnostic:
    used = ", ".join(f"{name} = {value}" for name, value in default_values(spec.params).items())
    message = f"boxes of {list(chosen.box)} take {ctas} CTAs{used and f' with {used}'}"
    return Diagnostic("TG302", f"{message}; {GRID_LIMITS[0]} can be launched", call.mark_of("box"), "take a larger box")


def describe_tiles(call: WholeCall, chosen: TileChoice) -> str:
    """What is carried out and how, for the head of the CUDA file."""
    axes, box = (", ".join(map(str, x)) for x in (call.fields.axes, chosen.box))
    how = {
        "direct": "through registers alone", "scalar": "element by element",
        "tiled": f"through a tile in shared memory, turned over on the {chosen.turn}",
    }[chosen.variant]  # fmt: skip
    text = f"permute {call.arrays['src'].name} -> {call.arrays['dst'].name}, axes [{axes}]"
    return f"{text}: boxes of [{box}] elements of src's dimensions, {how}"


def _reference(call: WholeCall, offsets: NDArray[Any], here: WholeHere) -> dict[str, NDArray[Any]]:
    """dst[y] = src[x] with y[i] = x[axes[i]], by the meaning of ``axes`` alone."""
    src, dst = call.arrays["src"], call.arrays["dst"]
    at = find_coordinates(dst, offsets, here.params)
    own = [at[call.fields.axes.index(a)] for a in range(len(src.shape))]
    return {"dst": here.inputs["src"](find_offsets(src, own, here.params))}


def _pins(call: WholeCall, spec: Spec) -> dict[str, Any]:
    """The choices that fields of the op say, and the layout of the tile that it goes through."""
    tile = next((b for b in spec.buffers if b.traits.is_pooled and b.root == b.name), None)
    return fields_picked(call, spec) | ({"layout": tile.layout_text or "row"} if tile else {})


def _list_candidates(call: WholeCall, spec: Spec) -> list[tuple[dict[str, Any], float]]:
    """The boxes of ``rank_candidates``; of a call that pins one of its fields, those that have it."""
    size, arch = DTYPES[call.arrays["src"].dtype].bytes, ARCHES[spec.arch]
    ranked = rank_candidates(dims_of(call), size, default_values(spec.params), arch)
    said = call.fields.model_dump(exclude_unset=True)
    every = ((say_tile(choice), estimate.seconds) for choice, estimate in ranked)
    return [(fields, s) for fields, s in every if all(fields[n] == said[n] for n in fields if n in said)]


OP = WholeOp(
    "permute", PermuteFields, ("src",), ("dst",), _check, expand=_expand, reference=_reference, pins=_pins,
    axes=lambda call: tuple(call.fields.axes), candidates=_list_candidates,
)  # fmt: skip
