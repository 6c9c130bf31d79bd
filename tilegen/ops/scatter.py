"""scatter: elements to the places of a region that other elements name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from tilegen.arithmetic import Element
from tilegen.errors import Flaw
from tilegen.ops.accumulating import AccumulateField, check_accumulate, refuse_update
from tilegen.ops.computing import refuse_dtype
from tilegen.ops.flows import Flow
from tilegen.ops.index_places import (
    IndexLoop,
    TreeHolder,
    find_place,
    find_target,
    lie_on_index,
    plan_by_index,
    see_operand,
)
from tilegen.ops.indexed import (
    check_axis,
    check_index,
    check_operands,
    evaluate_index,
    evaluate_tree,
    is_apart,
    shape_of,
    shape_of_call,
)
from tilegen.ops.op import COMPUTES, Array, Here, Op, Planned, Variant, refuse_uncomputed
from tilegen.ops.operand import Context
from tilegen.ops.pins import MostWidth, SharePin
from tilegen.plan import Block, Move, when
from tilegen.spec.data import Call, Expression, Region
from tilegen.spec.form import OpFields, operand_field

_SOURCE = ".src"  # the operand that is the region of this field


class ScatterFields(OpFields):
    src: str | None = Field(default=None, description="region whose elements are written, in any memory")
    expr: str | int | float | None = Field(
        default=None, description="in place of src: what is written, as of elementwise; index(d) counts in the index"
    )
    named: dict[str, str] = Field(
        default={}, alias="with", description="name: region, for names that expr and index use"
    )
    index: str = Field(
        description="where in dst each element goes, along axis: a region of integers, or an expression of such"
    )
    dst: str = Field(
        description="region written, in global or shared memory; of a dimension with an extent of the launch all of it"
    )
    axis: int | None = Field(
        default=None, ge=0, description="the dimension of dst that index counts along, where dst has several"
    )
    edge: Literal["error", "clip"] = Field(
        default="error",
        description="clip: what an index outside of dst names is dropped, and what lies past the edge of an array that "
        "is read",
    )
    accumulate: AccumulateField = None
    cache: Literal["default", "stream"] = Field(
        default="default", description="stream: no element that is read is touched again"
    )
    width: MostWidth = None
    partition: SharePin = None


def _extents(fields: Any, regions: Mapping[str, Region], operands: Sequence[Region]) -> tuple[int, ...]:
    return shape_of(fields, regions["dst"], operands)


# ---------------------------------------------------------------- what is wrong
def _check(fields: Any, regions: Mapping[str, Region], expression: Expression | None) -> Flaw | None:
    if expression is None:
        return None
    dst, operands = regions["dst"], expression.operands
    if dst.buffer.traits.is_held:
        message = f"'{dst.buffer.name}' is in registers, and other threads' are out of reach"
        return Flaw("TG212", message, "dst", "scatter into shared memory, and copy from there")
    if (flaw := check_axis(fields, dst, "dst")) is not None:
        return flaw
    if not operands:
        return Flaw("TG212", "neither the elements nor their places have a shape", "index", "name a buffer of integers")
    shape, rule = shape_of(fields, dst, tuple(operands.values())), "any shape, right-aligned with the others"
    flaw = check_index(expression) or _check_elements(fields, dst, expression)
    return flaw or check_operands(fields, dst, shape, operands, rule if len(dst.shape) == 1 else "")


def _check_elements(fields: Any, dst: Region, expression: Expression) -> Flaw | None:
    src, own = expression.trees[0], dst.buffer.dtype
    if isinstance(src, Element) and _SOURCE in expression.operands and src.dtype != own:
        message = f"dtypes differ, and 'src' is written as it is: it is {src.dtype}, '{dst.buffer.name}' is {own}"
        hint = f"write 'expr: {expression.operands[_SOURCE].buffer.name}', which converts"
        return Flaw("TG213", message, "src", hint)
    if fields.accumulate is None and not is_apart(expression):
        message = "two elements may go to one place: nothing says that no two of the index are the same"
        hint = "say 'distinct: true' of the registers or the array that the index is, or 'accumulate: add'"
        return Flaw("TG218", message, "index", hint)
    return None


# ---------------------------------------------------------------- meaning
def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The elements, and the index of each as it is stored, over the shape of the index."""
    assert call.expression is not None
    elements = evaluate_tree(call, call.expression.trees[0], values, here, call.regions["dst"].buffer.dtype)
    return {"dst": elements, "index": evaluate_index(call, values, here)}


# ---------------------------------------------------------------- plan
def _refuse(call: Call, context: Context) -> str | None:
    dtypes = (region.buffer.dtype for region in (*call.written, *call.read))
    reason = next(filter(None, (refuse_dtype(dtype, context.arch) for dtype in dtypes)), None)
    return reason or refuse_update(call, context.arch)


def _plan(call: Call, context: Context) -> Planned:
    assert call.expression is not None
    target = find_target(call, context)
    sources = tuple(see_operand(call, context, name) for name in call.expression.operands)
    return plan_by_index(context, call, sources, target, _build)


def _build(loop: IndexLoop, name: str) -> Block:
    """The function in which each thread writes its elements where its integers say: of copies the first alone."""
    expression, into = loop.call.expression, loop.target.operand
    assert expression is not None
    holder = TreeHolder(loop)
    place = holder.hold_index()
    new = holder.hold(expression.trees[0], "value", into.buffer.dtype)
    found = find_place(loop, place)
    store = when(found.guard, Move(found.ref, new, via=into.via))
    inside = (*loop.access(loop.parts[1], is_load=True), *loop.repeat((*holder.steps, found.pick, *store)))
    body = loop.owned.guard(inside, stores=True)
    return loop.formals.block(name, body, loop.context.op, tuple(holder.registers))


def _list_flows(call: Call) -> tuple[Flow, ...]:
    assert call.expression is not None
    sides = {operand_field(name): lie_on_index(call, region) for name, region in call.expression.operands.items()}
    return (Flow(shape_of_call(call), sides),)


OP = Op(
    "scatter", ScatterFields, writes=("dst",), edge="edge", expression="expr", source="src", index="index",
    indexed="dst", named="with", extents=_extents, check=_check,
    check_dtypes=check_accumulate(("dst",), refuse_uncomputed),
    accumulates="accumulate", reference=_reference,
    exactness=COMPUTES, variants=(Variant("threads", 20, _refuse, _plan, pins=("width", "partition")),),
    flows=lambda call, threads: _list_flows(call),
)  # fmt: skip
