"""copy: the elements of one region to another of equal shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from tilegen.errors import Flaw
from tilegen.ops.accumulating import AccumulateField, check_accumulate, refuse_update
from tilegen.ops.copy.matrices import plan_matrices, refuse_matrices
from tilegen.ops.copy.register_tiles import refuse_turn
from tilegen.ops.copy.register_transpose import TurnPins, is_lane_order, plan_register_tile
from tilegen.ops.copy.row_vectors import plan_row_vectors, refuse_row_vectors
from tilegen.ops.copy.shifted import plan_shifted, refuse_shifted
from tilegen.ops.copy.tma import plan_load, plan_store, reject_layout
from tilegen.ops.op import MOVES, Array, Here, Op, Planned, Variant, refuse_conversion
from tilegen.ops.operand import Context, Operand
from tilegen.ops.partition import reject_carries
from tilegen.ops.partition_choice import TilePins, plan_tile
from tilegen.ops.pins import CopyWidth, Pad, Partition, read_width
from tilegen.ops.registers import plan_convert, plan_transfer
from tilegen.ops.tensor_copies import plan_tensor_copy, refuse_tensor_copy
from tilegen.ops.tensor_moves import flow_of_sides, is_of_cells, need_cells, plan_cells, refuse_cells
from tilegen.plan import (
    CP_ASYNC,
    TENSOR_COPY,
    TENSOR_LOAD,
    TENSOR_STORE,
    TMA_LOAD,
    TMA_MULTICAST,
    TMA_STORE,
    Arrive,
    Slot,
    find_box_type,
)
from tilegen.spaces import GLOBAL, SHARED, Space
from tilegen.spec.data import Call, Region
from tilegen.spec.form import OpFields

Refuse = Callable[[Call, Context], str | None]


class CopyFields(OpFields):
    src: str = Field(description="region read")
    dst: str = Field(description="region written; its shape equals the source's after dropping extents of 1")
    variant: Literal[
        "auto", "reg", "gmem_smem", "smem_smem", "gmem_gmem", "register_tile", "shifted", "row_vectors", "ldstmatrix",
        "reg_reg", "scalar", "cp_async", "tma", "tensor", "tensor_copy",
    ] = Field(default="auto", description="pin a variant instead of taking the cheapest")  # fmt: skip
    asynchronous: bool = Field(
        default=False, alias="async", description="true: the threads go on, and the data lands at a later wait"
    )
    edge: Literal["error", "clip"] = Field(
        default="error", description="clip: past an edge of a global array reads give 0 and writes are dropped"
    )
    pad: Pad = None
    cache: Literal["default", "stream"] = Field(
        default="default", description="stream: no element is touched again, so the L2 need not keep global ones"
    )
    accumulate: AccumulateField = None
    barrier: str | None = Field(
        default=None, description="the mbarrier that a TMA load, or cp.async, reports to; full[k % 3] is one of three"
    )
    round: Literal["tf32"] | None = Field(
        default=None, description="tf32: a TMA load rounds float32 to it, to nearest even, where wgmma only cuts off"
    )
    multicast: Literal["cbx", "cby", "cbz"] | None = Field(
        default=None, description="all CTAs along this axis of the cluster get the region, and each brings a part"
    )
    width: CopyWidth = None
    partition: Partition = None
    tile: list[int] | None = Field(
        default=None, min_length=2, max_length=2,
        description="of register_tile: [rows, columns], so many elements at once of dst and of src that a thread takes",
    )  # fmt: skip
    lanes: dict[str, int | str] | None = Field(
        default=None,
        description="of register_tile: {inner: src or dst, along_src: threads side by side in src, along_dst: in dst}",
    )
    matrices: Literal[1, 2, 4] | None = Field(
        default=None, description="of ldstmatrix: 8 x 8 matrices that an instruction moves, instead of the cheapest"
    )


def _check_fields(fields: CopyFields) -> Flaw | None:
    if fields.multicast and fields.barrier is None:
        message = "'multicast' is for TMA loads, each of which reports to an mbarrier in every CTA"
        return Flaw("TG212", message, "multicast", "name one: 'variant: tma, barrier: full'")
    if fields.round and fields.barrier is None:
        message = "'round' is for TMA loads, which alone round elements on their way"
        return Flaw("TG212", message, "round", "name the barrier of one: 'variant: tma, barrier: full'")
    if fields.lanes is not None and not is_lane_order(fields.lanes):
        message = "'lanes' says which side neighbouring threads follow first, and how many lie along each"
        return Flaw("TG106", message, "lanes", "for example {inner: src, along_src: 8, along_dst: 4}")
    return None


def _check_dtypes(fields: Any, regions: Mapping[str, Region]) -> Flaw | None:
    """One dtype, and float32 where elements are rounded to tf32."""
    src = regions["src"].buffer
    if fields.round and src.dtype != "float32":
        return Flaw("TG213", f"'round: tf32' rounds float32, '{src.name}' is {src.dtype}", "round", "remove it")
    return refuse_conversion("copy")(fields, regions)


def _rounds(call: Call) -> bool:
    return call.fields.round is not None


def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The elements of src, unchanged or rounded."""
    return {"dst": here.domain.round_to_tfloat32(values["src"]) if _rounds(call) else values["src"]}


_ASYNCHRONOUS = ("cp_async", "tma")  # variants whose data lands at a wait, whether 'async' is written or not


def is_asynchronous(call: Call) -> bool:
    """Does the data of this copy land at a later wait?"""
    return call.fields.asynchronous or call.fields.variant in _ASYNCHRONOUS or call.barrier is not None


def _queue_of(call: Call) -> str:
    """Where the copy is waited for: a queue of groups, an mbarrier, or "" if it is done when threads go on."""
    if not is_asynchronous(call):
        return ""
    if is_of_cells(call):
        ways = (row for row in (TENSOR_LOAD, TENSOR_STORE) if row.moves(*_spaces(call)))
        return next(ways, TENSOR_COPY).queue
    if call.barrier is not None and call.fields.variant != "cp_async":
        return TMA_LOAD.queue
    return TMA_STORE.queue if TMA_STORE.moves(*_spaces(call)) else CP_ASYNC.queue


def _spaces(call: Call) -> tuple[Space, Space]:
    return call.regions["src"].buffer.traits, call.regions["dst"].buffer.traits


def _say_way(call: Call) -> str:
    src, dst = _spaces(call)
    return f"{src.name} -> {dst.name}"


def _count_held(call: Call) -> int:
    """Sides that are in registers."""
    return sum(space.is_held for space in _spaces(call))


def _reject_stream(call: Call) -> str | None:
    return "'cache: stream' is for copies that threads carry out: remove it" if call.fields.cache == "stream" else None


def _refuse_reg(call: Call, context: Context) -> str | None:
    if _count_held(call) != 1:
        return f"exactly one side must be in registers, not {_say_way(call)}"
    return None


def _plan_reg(call: Call, context: Context) -> Planned:
    loads = call.regions["dst"].buffer.traits.is_held
    register, other = ("dst", "src") if loads else ("src", "dst")
    memory = context.operand(call, other, call.fields.cache)
    width = read_width(call.fields.width)
    return plan_transfer(context, call, context.operand(call, register), memory, loads, width)


def _refuse_matrices(call: Call, context: Context) -> str | None:
    if _count_held(call) != 1:
        return "exactly one side must be in registers"
    loads = _spaces(call)[1].is_held
    src, dst = call.regions["src"].buffer, call.regions["dst"].buffer
    register, other = (dst, src) if loads else (src, dst)
    return refuse_matrices(register, other, context, loads)


def _plan_matrices(call: Call, context: Context) -> Planned:
    src, dst = _operands(call, context)
    loads = dst.buffer.traits.is_held
    register, shared = (dst, src) if loads else (src, dst)
    return plan_matrices(context, call, register, shared, loads, call.fields.matrices)


def _refuse_tile(*ways: tuple[Space, Space]) -> Refuse:
    accepted = [(src.state, dst.state) for src, dst in ways]

    def refuse(call: Call, context: Context) -> str | None:
        src, dst = _spaces(call)
        if (src.state, dst.state) not in accepted:
            return f"it moves {' or '.join(f'{a} -> {b}' for a, b in accepted)}, not {_say_way(call)}"
        return reject_carries(_operands(call, context))

    return refuse


def _plan_tile(call: Call, context: Context) -> Planned:
    src, dst = _operands(call, context)
    return plan_tile(context, (src, dst), call.scope, _name(call), pins=_pins_of(call))


def _name(call: Call) -> str:
    """The name of the function that carries the copy out."""
    verb = f"{call.accumulates}_copy" if call.accumulates else "copy"
    return "_".join([verb, *(r.buffer.name for r in (*call.sources, *call.written))])


def _pins_of(call: Call) -> TilePins:
    return TilePins(read_width(call.fields.width), call.fields.partition)


def _refuse_register_tile(call: Call, context: Context) -> str | None:
    if _count_held(call):
        return "it moves tiles between memories, through registers of its own"
    return refuse_turn(_operands(call, context))


def _plan_register_tile(call: Call, context: Context) -> Planned:
    src, dst = _operands(call, context)
    name = f"copy_{src.buffer.name}_{dst.buffer.name}"
    pins = TurnPins(call.fields.tile and tuple(call.fields.tile), call.fields.lanes)
    return plan_register_tile(context, (src, dst), call.scope, name, pins)


def _refuse_shifted(call: Call, context: Context) -> str | None:
    if _count_held(call):
        return "it moves rows between memories, through registers of its own"
    return refuse_shifted(context, _operands(call, context), call.scope)


def _plan_shifted(call: Call, context: Context) -> Planned:
    src, dst = _operands(call, context)
    name = f"copy_{src.buffer.name}_{dst.buffer.name}"
    return plan_shifted(context, (src, dst), call.scope, name, read_width(call.fields.width))


def _refuse_row_vectors(call: Call, context: Context) -> str | None:
    src, dst = _spaces(call)
    if not ((src.is_array and dst.is_pooled) or (src.is_pooled and dst.is_array)):
        return "it moves rows of a global array to or from shared memory"
    return refuse_row_vectors(
        context, _operands(call, context), call.scope, call.fields.variant == "row_vectors"
    )  # fmt: skip


def _plan_row_vectors(call: Call, context: Context) -> Planned:
    src, dst = _operands(call, context)
    name = f"copy_{src.buffer.name}_{dst.buffer.name}"
    return plan_row_vectors(context, (src, dst), call.scope, name, read_width(call.fields.width))


def _operands(call: Call, context: Context) -> tuple[Operand, Operand]:
    cache = call.fields.cache
    return context.operand(call, "src", cache), context.operand(call, "dst", cache)


def _refuse_reg_reg(call: Call, context: Context) -> str | None:
    if _count_held(call) != 2:
        return "both sides must be in registers"
    return None


def _plan_reg_reg(call: Call, context: Context) -> Planned:
    return plan_convert(context, call, context.operand(call, "src"), context.operand(call, "dst"))


def _refuse_scalar(call: Call, context: Context) -> str | None:
    if _count_held(call):
        return "it walks memories, not registers"
    return None


def _plan_scalar(call: Call, context: Context) -> Planned:
    return plan_tile(context, _operands(call, context), call.scope, _name(call), scalar=True, pins=_pins_of(call))


def _refuse_cp_async(call: Call, context: Context) -> str | None:
    if not is_asynchronous(call):
        return "the copy is not asynchronous ('async: true')"
    if call.accumulates:
        return "it does not update memory atomically"
    if not CP_ASYNC.moves(*_spaces(call)):
        return f"cp.async moves global -> shared, not {_say_way(call)}"
    if call.barrier is not None and call.fields.variant != "cp_async":
        return "all its threads report to the mbarrier, so it is taken where it is written: 'variant: cp_async'"
    if call.peers or _rounds(call):
        return f"'{'multicast' if call.peers else 'round'}' is for TMA"
    if CP_ASYNC.feature not in context.arch.features:
        return f"{context.arch.name} has no cp.async"
    return _reject_stream(call) or reject_carries(_operands(call, context))


def _plan_cp_async(call: Call, context: Context) -> Planned:
    src, dst = _operands(call, context)
    name = f"start_{src.buffer.name}_{dst.buffer.name}"
    planned = plan_tile(context, (src, dst), call.scope, name, via=CP_ASYNC, pins=_pins_of(call))
    if call.barrier is None:
        return planned
    slot = Slot(context.barriers[call.barrier.name], call.barrier.index)
    return replace(planned, steps=(*planned.steps, Arrive(slot, landed=CP_ASYNC.queue)))


def _refuse_tma(call: Call, context: Context) -> str | None:
    if not is_asynchronous(call):
        return "the copy is not asynchronous ('async: true')"
    loads, stores = (row.moves(*_spaces(call)) for row in (TMA_LOAD, TMA_STORE))
    if not (loads or stores):
        return f"it moves between global and shared memory, not {_say_way(call)}"
    if TMA_LOAD.feature not in context.arch.features:
        return f"{context.arch.name} has no TMA, which came with sm_90"
    if call.peers and TMA_MULTICAST.feature not in context.arch.features:
        return f"multicast is slow on archs like {context.arch.name}, which later GPUs run too: 'arch: sm_90a'"
    if loads and call.barrier is None:
        return "a TMA load reports to an mbarrier: name one, 'barrier: full'"
    if stores and _rounds(call):
        return "TMA rounds what it loads, not what it stores"
    if call.accumulates and (loads or not find_box_type(call.accumulates, call.regions["dst"].buffer.dtype)):
        what = "what it loads" if loads else call.regions["dst"].buffer.dtype
        return f"TMA has no '{call.accumulates}' of {what}"
    if stores and call.barrier is not None:
        return "a TMA store is waited for with 'wait: N', not at an mbarrier"
    return _reject_stream(call)


def _plan_tma(call: Call, context: Context) -> Planned:
    src, dst = _operands(call, context)
    if call.barrier is None:
        return plan_store(context, call, src, dst)
    return plan_load(context, call, src, dst, context.barriers[call.barrier.name])


def _refuse_cells(call: Call, context: Context) -> str | None:
    if (reason := refuse_cells(call, context)) is not None:
        return reason
    if call.barrier is not None:
        return "it reports to no mbarrier: 'async: true', and 'wait: {tmem: 0}' behind it"
    return "it does not update memory atomically" if call.accumulates else refuse_update(call, context.arch)


_UPDATING = ("reg", "gmem_smem", "smem_smem", "gmem_gmem", "scalar")  # variants whose threads update dst atomically


def _synchronous(
    name: str, priority: int, refuse: Refuse, plan: Callable[[Call, Context], Planned], *pins: str
) -> Variant:
    """A variant that is done when its threads go on: it refuses asynchronous copies."""

    def refuse_others(call: Call, context: Context) -> str | None:
        if is_asynchronous(call):
            return "it is not asynchronous"
        if call.accumulates and name not in _UPDATING:
            return "it does not update memory atomically"
        if is_of_cells(call):
            return "threads address no tensor memory"
        return refuse(call, context) or refuse_update(call, context.arch)

    return Variant(name, priority, refuse_others, plan, pins=pins)


_TILED = ("width", "partition")  # what a spec can pin of a tile's copy
_VARIANTS = (
    _synchronous("reg", 20, _refuse_reg, _plan_reg, "width"),
    _synchronous("ldstmatrix", 30, _refuse_matrices, _plan_matrices, "matrices"),
    _synchronous("gmem_smem", 20, _refuse_tile((GLOBAL, SHARED), (SHARED, GLOBAL)), _plan_tile, *_TILED),
    _synchronous("smem_smem", 20, _refuse_tile((SHARED, SHARED)), _plan_tile, *_TILED),
    _synchronous("gmem_gmem", 20, _refuse_tile((GLOBAL, GLOBAL)), _plan_tile, *_TILED),
    _synchronous("register_tile", 10, _refuse_register_tile, _plan_register_tile, "tile", "lanes"),
    _synchronous("shifted", 10, _refuse_shifted, _plan_shifted, "width"),
    _synchronous("row_vectors", 10, _refuse_row_vectors, _plan_row_vectors, "width"),
    _synchronous("reg_reg", 20, _refuse_reg_reg, _plan_reg_reg),
    _synchronous("scalar", 0, _refuse_scalar, _plan_scalar, *_TILED),
    Variant("tensor", 20, _refuse_cells, lambda call, context: plan_cells(context, call)),
    Variant("cp_async", 20, _refuse_cp_async, _plan_cp_async, pins=_TILED),
    Variant("tma", 20, _refuse_tma, _plan_tma, constrain=reject_layout),
    Variant("tensor_copy", 20, refuse_tensor_copy, lambda call, context: plan_tensor_copy(context, call)),
)


def _axes(call: Call) -> tuple[int, ...]:
    """Dimensions stay where they are."""
    return tuple(range(len(call.regions["dst"].lengths)))


OP = Op(
    "copy", CopyFields, reads=("src",), writes=("dst",), barrier="barrier", peers="multicast", edge="edge", pad="pad",
    accumulates="accumulate", check_fields=_check_fields, check_dtypes=check_accumulate(("dst",), _check_dtypes),
    queue=_queue_of, reference=_reference,
    exactness=MOVES, rounds=_rounds, variants=_VARIANTS, axes=_axes, tensor=("src", "dst"), flows=flow_of_sides,
    cells=need_cells,
)  # fmt: skip
