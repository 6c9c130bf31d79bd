"""scan_array: of each element of a whole array, what it and all before it in its row or column come to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from numpy.typing import NDArray
from pydantic import Field

from tilegen.dtypes import DTYPES
from tilegen.errors import Flaw
from tilegen.ops.op import WholeHere, WholeOp, fields_picked, find_uncomputed
from tilegen.ops.strided import plain_strides
from tilegen.spec.data import Buffer, Spec, WholeCall
from tilegen.spec.form import WholeFields
from tilegen.spec.program import Program
from tilegen.spec.spelling import spell_shape

_OF_TILES = "take the tile op 'scan', which has it"
_LATER = dict.fromkeys(("expr", "with", "carry"), _OF_TILES)


class ScanArrayFields(WholeFields):
    src: str = Field(description="the array read: [M, N], or [N]")
    dst: str = Field(description="the array written, of its shape")
    axis: int = Field(description="along what elements follow each other: 1, each row; 0, each column, or all of [N]")
    op: Literal["sum", "max", "min", "prod"] = Field(description="what is made of an element and those before it")
    exclusive: bool = Field(default=False, description="true: of those before it alone")
    reverse: bool = Field(default=False, description="true: from the end, so that 'before' is behind")
    threads: int | None = Field(default=None, ge=32, le=1024, description="threads of a CTA, instead of those chosen")
    passes: Literal[1, 3, "auto"] = Field(
        default="auto",
        description="3: CTAs share a line: sums of its chunks, a scan of these, then the chunks again; 1: one kernel",
    )


def _check(fields: ScanArrayFields, arrays: Mapping[str, Buffer]) -> Flaw | None:
    """What is wrong with a call."""
    src, dst = arrays["src"], arrays["dst"]
    for name, array in arrays.items():
        if len(array.shape) > 2:
            message = f"scan_array of {len(array.shape)} dimensions is not yet supported: '{array.name}' has"
            hint = "declare it with dimensions that lie together as one, [B*M, N]"
            return Flaw("TG190", f"{message} {spell_shape(array.shape)}", name, hint)
        if plain_strides(array) is None:
            return Flaw("TG301", f"scan_array takes arrays with one stride a dimension, not {array.layout}", name)
    if src.shape != dst.shape:
        message = f"'{dst.name}' has the shape {spell_shape(dst.shape)}, and '{src.name}' {spell_shape(src.shape)}"
        return Flaw("TG212", message, "dst", f"give '{dst.name}' the shape {spell_shape(src.shape)}")
    if src.name == dst.name:
        message = f"'{dst.name}' cannot be scanned into itself yet: passes read it after others may have written it"
        return Flaw("TG205", message, "dst", "write another array")
    rank = len(src.shape)
    if not 0 <= fields.axis < rank:
        near = f"'{fields.axis + rank}' counts from the first; " if -rank <= fields.axis < 0 else ""
        message = f"'axis' is {fields.axis}, and '{src.name}' has {rank} dimension{'s' * (rank > 1)}"
        return Flaw("TG106", message, "axis", f"{near}it is {'0 or 1' if rank == 2 else '0'}")
    if fields.threads is not None and fields.threads & (fields.threads - 1):
        return Flaw("TG106", f"'threads' must be a power of two, not {fields.threads}", "threads", "128, 256, 512")
    return _check_types(fields, arrays)


def _check_types(fields: ScanArrayFields, arrays: Mapping[str, Buffer]) -> Flaw | None:
    """What is wrong with element types: floats make floats, integers integers; dst holds what has nothing before it."""
    src, dst = arrays["src"], arrays["dst"]
    if flaw := find_uncomputed(arrays):
        return flaw
    for name, array in arrays.items():
        if array.dtype == "bool":
            return Flaw("TG212", f"'{array.name}': scan_array takes numbers, not bool", name, "declare it as uint8")
    kinds = [DTYPES[array.dtype].kind == "float" for array in (src, dst)]
    if kinds[0] != kinds[1]:
        wanted = "float32" if kinds[0] else "int32"
        message = f"scan_array does not turn {src.dtype} into {dst.dtype}"
        return Flaw("TG212", message, "dst", f"give '{dst.name}' {wanted}")
    if fields.exclusive and fields.op in ("max", "min"):
        from tilegen.ops.scan_array.problem import find_type

        type_ = find_type(src, dst)
        holds_it = dst.dtype == type_ if not kinds[0] else not dst.dtype.startswith("float8")
        if not holds_it:
            message = f"the first element has nothing before it, and {dst.dtype} does not hold what stands for that"
            return Flaw("TG212", message, "dst", f"give '{dst.name}' {type_}")
    return None


def _divides(fields: ScanArrayFields) -> str:
    return "" if fields.passes in (1, "auto") else "passes"


def _expand(spec: Spec, call: WholeCall) -> Spec | Program:
    from tilegen.ops.scan_array.expand import expand_scan  # specs that are only read do without

    return expand_scan(spec, call)


def _reference(call: WholeCall, offsets: NDArray[Any], here: WholeHere) -> dict[str, NDArray[Any]]:
    from tilegen.ops.scan_array.meant import scan_whole

    return scan_whole(call, offsets, here)


OP = WholeOp(
    "scan_array", ScanArrayFields, ("src",), ("dst",), _check, later=_LATER, divides=_divides, joined={"passes": 1},
    on_tiles="scan", expand=_expand, reference=_reference, pins=fields_picked,
)  # fmt: skip
