"""fill: one value to every element of a region."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from tilegen.arithmetic.formats import largest
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.ops.op import MOVES, Array, Here, Op, Planned, Variant
from tilegen.ops.operand import Context
from tilegen.ops.partition import Fill
from tilegen.ops.partition_choice import TilePins, plan_tile
from tilegen.ops.pins import OneWidth, Partition, read_width
from tilegen.ops.registers import plan_register_fill
from tilegen.spec.data import Call, Region
from tilegen.spec.form import OpFields

INFINITIES = {"inf": math.inf, "-inf": -math.inf}  # texts in YAML, which writes numbers as .inf and -.inf


def _read_infinity(value: object) -> object:
    return INFINITIES.get(value, value) if isinstance(value, str) else value


class FillFields(OpFields):
    dst: str = Field(description="region written")
    value: Annotated[int | float | bool, BeforeValidator(_read_infinity)] = Field(
        description="the value, inf and -inf too: integers must be exact in the buffer's dtype, decimals are rounded",
        json_schema_extra={"anyOf": [{"type": ["integer", "number", "boolean"]}, {"enum": list(INFINITIES)}]},
    )
    edge: Literal["error", "clip"] = Field(
        default="error", description="clip: writes past the edge of a global array are dropped"
    )
    width: OneWidth = None
    partition: Partition = None

    def __eq__(self, other: object) -> bool:
        """0.0 and -0.0 are two values: what is known of a fill is known of its equals."""
        return isinstance(other, FillFields) and super().__eq__(other) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash((self.dst, repr(self.value)))


def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The value, in the shape of dst's region."""
    dst = call.regions["dst"]
    return {"dst": np.broadcast_to(here.domain.fill(call.fields.value, dst.buffer.dtype), dst.lengths)}


def _check_value(fields: FillFields, regions: Mapping[str, Region]) -> tuple[str, str, str, str] | None:
    dtype = regions["dst"].buffer.dtype
    reason = _reject_value(fields.value, dtype)
    return ("TG214", reason, "value", _say_range(dtype)) if reason else None


def _say_range(dtype: str) -> str:
    """The values that a dtype has."""
    kind = DTYPES[dtype].kind
    if kind in ("int", "uint"):
        return f"{dtype} holds {np.iinfo(numpy_dtype(dtype)).min} to {np.iinfo(numpy_dtype(dtype)).max}"
    return f"{dtype} holds up to {largest(dtype):g}" if kind == "float" else ""


def _reject_value(value: float, dtype: str) -> str | None:
    """Integers must be stored as they are; other numbers may be rounded, but not to 0, infinity or NaN."""
    try:
        with np.errstate(all="ignore"):
            stored = np.array([value]).astype(numpy_dtype(dtype))[0]
            kept = stored.item() if isinstance(stored, np.generic) else float(stored)
    except (OverflowError, ValueError, TypeError):
        return f"{value} is not a value of {dtype}"
    if isinstance(value, float) and math.isinf(value) and kept != value:
        return f"{dtype} has no infinity"
    if value != value or kept == value:
        return None if (kept != kept) == (value != value) else f"{value} is not a value of {dtype}"
    rounds = isinstance(value, float) and DTYPES[dtype].kind in ("float", "complex")
    keeps_size = rounds and kept == kept and abs(kept) not in (0, float("inf"))
    return None if keeps_size else f"{value} is not a value of {dtype}, which would hold {kept}"


def _refuse_registers(call: Call, context: Context) -> str | None:
    if call.regions["dst"].buffer.scope != "register":
        return f"{call.regions['dst'].buffer.name} is not in registers"
    return None


def _plan_registers(call: Call, context: Context) -> Planned:
    return plan_register_fill(context, call, context.operand(call, "dst"), call.fields.value)


def _refuse_tile(call: Call, context: Context) -> str | None:
    if call.regions["dst"].buffer.scope == "register":
        return "it writes a memory, not registers"
    return None


def _plan_tile(call: Call, context: Context) -> Planned:
    dst = context.operand(call, "dst")
    pins = TilePins(read_width(call.fields.width), call.fields.partition)
    value = Fill(call.fields.value, dst.buffer.dtype)
    return plan_tile(context, (dst,), call.scope, f"fill_{dst.buffer.name}", value, pins=pins)


OP = Op(
    "fill", FillFields, writes=("dst",), edge="edge", check_dtypes=_check_value, reference=_reference, exactness=MOVES,
    variants=(
        Variant("registers", 20, _refuse_registers, _plan_registers),
        Variant("tile", 20, _refuse_tile, _plan_tile, pins=("width", "partition")),
    ),
)  # fmt: skip
