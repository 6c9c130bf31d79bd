"""gather: elements from the places of a region that other elements name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from tilegen.arithmetic.intervals import ValueRange, join_ranges
from tilegen.errors import Flaw
from tilegen.ops.computing import end_block, refuse_dtype, stretch
from tilegen.ops.flows import Flow
from tilegen.ops.holding import check_held_alike
from tilegen.ops.index_places import (
    IndexLoop,
    TreeHolder,
    find_place,
    find_target,
    lie_on_index,
    plan_by_index,
    see_operand,
)
from tilegen.ops.indexed import check_axis, check_index, check_operands, evaluate_index, shape_of_call
from tilegen.ops.op import MOVES, Array, Here, Op, Planned, Variant, refuse_conversion
from tilegen.ops.operand import Context, Operand
from tilegen.ops.ownership import Ownership, own
from tilegen.ops.pins import MostWidth, SharePin
from tilegen.plan import Block, Move
from tilegen.spec.data import Call, Expression, Region
from tilegen.spec.form import OpFields, operand_field
from tilegen.spec.pads import is_clipped


class GatherFields(OpFields):
    src: str = Field(
        description="region whose elements are read, in global or shared memory; of a dimension with an extent of the "
        "launch all of it"
    )
    index: str = Field(
        description="where in src each element of dst is, along axis: a region of integers, or an expression of such; "
        "index(d) counts in dst"
    )
    named: dict[str, str] = Field(default={}, alias="with", description="name: region, for names that index uses")
    dst: str = Field(description="region written, in any memory")
    axis: int | None = Field(
        default=None, ge=0, description="the dimension of src that index counts along, where src has several"
    )
    edge: Literal["error", "clip"] = Field(
        default="error",
        description="clip: an index outside of src gives 0, and what lies past the edge of an array; what is written "
        "past one is dropped",
    )
    cache: Literal["default", "stream"] = Field(
        default="default", description="stream: no element of index or dst is touched again; those of src may be"
    )
    width: MostWidth = None
    partition: SharePin = None


# ---------------------------------------------------------------- what is wrong
def _check(fields: Any, regions: Mapping[str, Region], expression: Expression | None) -> Flaw | None:
    if expression is None:
        return None
    src, dst = regions["src"], regions["dst"]
    if src.buffer.traits.is_held:
        message = f"'{src.buffer.name}' is in registers, and other threads' are out of reach"
        return Flaw("TG212", message, "src", "copy it into shared memory, and gather from there")
    if src.buffer.root == dst.buffer.root and not src.buffer.traits.is_array:
        message = f"'{dst.buffer.name}' is written while any of '{src.buffer.name}' may be read, by other threads too"
        return Flaw("TG212", message, "dst", "gather into registers, sync, and copy from there")
    flaw = check_axis(fields, src, "src") or check_index(expression) or _check_shapes(fields, src, dst)
    rule = "dst's shape, right-aligned, 1 stretches" if len(src.shape) == 1 else ""
    return flaw or check_operands(fields, dst, dst.shape, expression.operands, rule)


def _check_shapes(fields: Any, src: Region, dst: Region) -> Flaw | None:
    """An error in the dimensions of src beside the axis, which have the extents of dst or 1; None if there is none."""
    given, wanted, axis = src.shape, dst.shape, fields.axis or 0
    if len(given) == 1:
        return None
    message = f"'{src.text}' has the shape {list(given)}, and '{dst.text}' {list(wanted)}"
    if len(given) != len(wanted):
        hint = "an index into a region of one dimension gives any shape; else dst has as many dimensions as src"
        return Flaw("TG212", message, "dst", hint)
    if any(n not in (1, m) for d, (n, m) in enumerate(zip(given, wanted, strict=True)) if d != axis):
        return Flaw("TG212", f"{message}: they differ beside axis {axis}", "src", "the others are equal, 1 stretches")
    return None


# ---------------------------------------------------------------- meaning
def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The index of each element of dst as it is stored. Where it is in src is for ``reference`` to find."""
    return {"index": evaluate_index(call, values, here)}


def _find_range(
    call: Call, values: Mapping[str, ValueRange | None], params: frozenset[str]
) -> dict[str, ValueRange]:  # fmt: skip
    """What src holds, and 0 where an index may be outside of it."""
    own = values["src"]
    if own is None:
        return {}
    return {"dst": join_ranges([own, ValueRange(0, 1)]) if is_clipped(call) else own}


# ---------------------------------------------------------------- plan
def _refuse(call: Call, context: Context) -> str | None:
    assert call.expression is not None
    dtypes = (region.buffer.dtype for region in call.expression.operands.values())
    return next(filter(None, (refuse_dtype(dtype, context.arch) for dtype in dtypes)), None)


def _plan(call: Call, context: Context) -> Planned:
    assert call.expression is not None
    target = find_target(call, context)
    dst = stretch(context.operand(call, "dst", call.fields.cache), shape_of_call(call))
    operands = (dst, *(see_operand(call, context, name) for name in call.expression.operands))

    def check(owner: Operand, owned: Ownership) -> None:
        if dst.memory.traits.is_held and dst != owner:
            check_held_alike(context, call.scope, owned, own(context, dst, []))

    return plan_by_index(context, call, operands, target, _build, check)


def _build(loop: IndexLoop, name: str) -> Block:
    """The function in which each thread reads its elements where its integers say; 0 where these name no place."""
    holder = TreeHolder(loop)
    found = find_place(loop, holder.hold_index())
    load = Move(loop.see(0), found.ref, loop.together, found.guard)
    inside = (*loop.access(loop.parts[1], is_load=True), *loop.repeat((*holder.steps, found.pick, load)))
    return end_block(loop, inside, name, holder.registers)


def _list_flows(call: Call) -> tuple[Flow, ...]:
    assert call.expression is not None
    sides = {operand_field(name): lie_on_index(call, region) for name, region in call.expression.operands.items()}
    kept = (d for d, is_kept in enumerate(call.regions["dst"].kept) if is_kept)
    own = {"dst": tuple(d if n > 1 else None for d, n in zip(kept, shape_of_call(call), strict=True))}
    return (Flow(shape_of_call(call), own | sides),)


OP = Op(
    "gather", GatherFields, reads=("src",), writes=("dst",), edge="edge", index="index", indexed="src", named="with",
    check=_check, check_dtypes=refuse_conversion("gather"), reference=_reference, exactness=MOVES, ranges=_find_range,
    variants=(Variant("threads", 20, _refuse, _plan, pins=("width", "partition")),),
    flows=lambda call, threads: _list_flows(call),
)  # fmt: skip
