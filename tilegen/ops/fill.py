"""fill: one value to every element of a region."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import Field

from tilegen.arithmetic.formats import reject_value, say_range
from tilegen.arithmetic.intervals import ValueRange, has_range
from tilegen.errors import Flaw
from tilegen.ops.op import MOVES, Array, Here, Op, Planned, Variant
from tilegen.ops.operand import Context
from tilegen.ops.partition import Fill
from tilegen.ops.partition_choice import TilePins, plan_tile
from tilegen.ops.pins import CONSTANT_SCHEMA, Constant, OneWidth, Partition, read_width
from tilegen.ops.registers import plan_register_fill
from tilegen.spec.data import Call, Region
from tilegen.spec.form import OpFields


class FillFields(OpFields):
    dst: str = Field(description="region written")
    value: Constant = Field(
        description="the value, inf and -inf too: integers must be exact in the buffer's dtype, decimals are rounded",
        json_schema_extra=CONSTANT_SCHEMA,
    )
    edge: Literal["error", "clip"] = Field(
        default="error", description="clip: writes past an edge of a global array are dropped"
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


def _range(call: Call, values: Mapping[str, ValueRange | None], params: frozenset[str]) -> dict[str, ValueRange]:
    if not has_range(call.regions["dst"].buffer.dtype):
        return {}  # floats, which may be infinite
    value = int(call.fields.value)
    return {"dst": ValueRange(value, value + 1)}


def _check_value(fields: FillFields, regions: Mapping[str, Region]) -> Flaw | None:
    dtype = regions["dst"].buffer.dtype
    reason = reject_value(fields.value, dtype)
    return Flaw("TG214", reason, "value", say_range(dtype)) if reason else None


def _refuse_registers(call: Call, context: Context) -> str | None:
    if not call.regions["dst"].buffer.traits.is_held:
        return f"{call.regions['dst'].buffer.name} is not in registers"
    return None


def _plan_registers(call: Call, context: Context) -> Planned:
    return plan_register_fill(context, call, context.operand(call, "dst"), call.fields.value)


def _refuse_tile(call: Call, context: Context) -> str | None:
    if call.regions["dst"].buffer.traits.is_held:
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
    ranges=_range,
)  # fmt: skip
