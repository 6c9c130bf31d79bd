"""cast: convert the elements of one register tensor into another of a different dtype, owned alike."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import Field

from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.ops.op import CONVERTS, Array, Here, Op, Planned, Variant
from tilegen.ops.operand import Context
from tilegen.ops.registers import plan_convert
from tilegen.plan import CAST
from tilegen.spec.data import Call
from tilegen.spec.form import OpFields


class CastFields(OpFields):
    src: str = Field(description="register region read")
    dst: str = Field(description="register region written, whose threads own the same elements")


def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The elements of src, converted as NumPy does (round to nearest even; floats to integers truncate)."""
    with np.errstate(all="ignore"):
        return {"dst": values["src"].astype(numpy_dtype(call.regions["dst"].buffer.dtype))}


def _refuse(call: Call, context: Context) -> str | None:
    src, dst = (call.regions[f].buffer for f in ("src", "dst"))
    if (src.scope, dst.scope) != ("register", "register"):
        return f"both sides must be in registers, not {src.scope} -> {dst.scope}"
    for buffer in (src, dst):
        if DTYPES[buffer.dtype].kind == "complex":
            return f"{buffer.dtype} is not converted"
        if buffer.dtype.startswith("float8") and "mma_fp8" not in context.arch.features:
            return f"{context.arch.name} has no conversion for {buffer.dtype}"
    return None


def _plan(call: Call, context: Context) -> Planned:
    return plan_convert(context, call, context.operand(call, "src"), context.operand(call, "dst"), CAST)


OP = Op(
    "cast", CastFields, reads=("src",), writes=("dst",), reference=_reference, exactness=CONVERTS,
    variants=(Variant("registers", 20, _refuse, _plan),),
)  # fmt: skip
