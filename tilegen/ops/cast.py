"""cast: the elements of one region as another dtype, in registers or between any two memories through registers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from tilegen.arithmetic.intervals import ValueRange, fit_range, has_range
from tilegen.dtypes import DTYPES, FACTOR
from tilegen.ops.accumulating import AccumulateField, check_accumulate, refuse_update
from tilegen.ops.computing import Computed, Made, plan_computed, refuse_dtype
from tilegen.ops.op import CONVERTS, Array, Here, Op, Planned, Variant
from tilegen.ops.operand import Context
from tilegen.ops.pins import MostWidth, Pad, SharePin
from tilegen.ops.registers import plan_convert
from tilegen.ops.tensor_moves import flow_of_sides, is_of_cells, need_cells, plan_cells, refuse_cells
from tilegen.plan import CAST, Map
from tilegen.spec.data import Call
from tilegen.spec.form import OpFields

_LATER = {"async": "copy, wait, cast: 'copy: {.., async: true}', a wait for it, and a cast of registers"}


class CastFields(OpFields):
    src: str = Field(description="region read")
    dst: str = Field(description="region written; registers on both sides give every thread the same elements")
    edge: Literal["error", "clip"] = Field(
        default="error", description="clip: past an edge of a global array reads give 0 and writes are dropped"
    )
    pad: Pad = None
    cache: Literal["default", "stream"] = Field(
        default="default", description="stream: no element is touched again, so the L2 need not keep global ones"
    )
    accumulate: AccumulateField = None
    width: MostWidth = None
    partition: SharePin = None


def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The elements of src, converted as NumPy does (round to nearest even; floats to integers truncate)."""
    src, dst = (call.regions[field].buffer.dtype for field in ("src", "dst"))
    return {"dst": here.domain.convert(values["src"], src, dst)}


def _range(call: Call, values: Mapping[str, ValueRange | None], params: frozenset[str]) -> dict[str, ValueRange]:
    """Integers are taken modulo the type's size; of floats nothing is known."""
    src, dst = values["src"], call.regions["dst"].buffer.dtype
    return {"dst": fit_range(src, dst)} if src is not None and has_range(dst) else {}


def _refuse_registers(call: Call, context: Context) -> str | None:
    src, dst = (call.regions[f].buffer for f in ("src", "dst"))
    if not (src.traits.is_held and dst.traits.is_held):
        return f"both sides must be in registers, not {src.scope} -> {dst.scope}"
    return _refuse_dtypes(call, context)


def _refuse_memory(call: Call, context: Context) -> str | None:
    src, dst = (call.regions[f].buffer for f in ("src", "dst"))
    if src.traits.is_held and dst.traits.is_held:
        return "neither side is in memory"
    if is_of_cells(call):
        return "threads address no tensor memory"
    return _refuse_dtypes(call, context) or refuse_update(call, context.arch)


def _refuse_dtypes(call: Call, context: Context) -> str | None:
    for buffer in (call.regions[f].buffer for f in ("src", "dst")):
        if DTYPES[buffer.dtype].kind == "complex" or buffer.dtype == FACTOR:
            return f"{buffer.dtype} is not converted"
        if (reason := refuse_dtype(buffer.dtype, context.arch)) is not None:
            return reason
    return None


def _plan(call: Call, context: Context) -> Planned:
    return plan_convert(context, call, context.operand(call, "src"), context.operand(call, "dst"), CAST)


def _plan_memory(call: Call, context: Context) -> Planned:
    src, dst = (context.operand(call, f, call.fields.cache) for f in ("src", "dst"))
    computed = Computed(dst.lengths, (src,))
    verb = f"{call.accumulates}_cast" if call.accumulates else "cast"
    name = f"{verb}_{src.buffer.name}_{dst.buffer.name}"
    made = Made(dst, lambda to, srcs, wholes: Map(CAST, to, srcs))
    return plan_computed(context, call, [made], computed, name)


def _plan_cells(call: Call, context: Context) -> Planned:
    return plan_cells(context, call, CAST)


OP = Op(
    "cast", CastFields, reads=("src",), writes=("dst",), tensor=("src",), edge="edge", pad="pad", reference=_reference,
    exactness=CONVERTS, accumulates="accumulate", check_dtypes=check_accumulate(("dst",), lambda fields, regions: None),
    variants=(
        Variant("registers", 20, _refuse_registers, _plan),
        Variant("memory", 20, _refuse_memory, _plan_memory, pins=("width", "partition"), has_scratch=True),
        Variant("tensor", 20, refuse_cells, _plan_cells),
    ),
    flows=flow_of_sides, ranges=_range, cells=need_cells, later=_LATER,
)  # fmt: skip
