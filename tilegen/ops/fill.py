"""fill: one value to every element of a region."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.ops.op import MOVES, Array, Here, Op, Planned, Variant
from tilegen.ops.operand import Context
from tilegen.ops.partition import Fill, plan_tile
from tilegen.ops.registers import plan_register_fill
from tilegen.spec.data import Call
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


def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The value, in the shape of dst's region."""
    dst = call.regions["dst"]
    return {"dst": np.broadcast_to(here.domain.fill(call.fields.value, dst.buffer.dtype), dst.lengths)}


def _reject_value(call: Call) -> str | None:
    """Integers must be stored as they are; other numbers may be rounded, but not to 0, infinity or NaN."""
    dtype, value = call.regions["dst"].buffer.dtype, call.fields.value
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
    return _reject_value(call)


def _plan_registers(call: Call, context: Context) -> Planned:
    return plan_register_fill(context, call, context.operand(call, "dst"), call.fields.value)


def _refuse_tile(call: Call, context: Context) -> str | None:
    if call.regions["dst"].buffer.scope == "register":
        return "it writes a memory, not registers"
    return _reject_value(call)


def _plan_tile(call: Call, context: Context) -> Planned:
    dst = context.operand(call, "dst")
    return plan_tile(context, (dst,), call.scope, f"fill_{dst.buffer.name}", Fill(call.fields.value, dst.buffer.dtype))


OP = Op(
    "fill", FillFields, writes=("dst",), edge="edge", reference=_reference, exactness=MOVES,
    variants=(
        Variant("registers", 20, _refuse_registers, _plan_registers),
        Variant("tile", 20, _refuse_tile, _plan_tile),
    ),
)  # fmt: skip
