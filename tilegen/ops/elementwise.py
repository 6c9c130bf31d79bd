"""elementwise: every element of a region from the elements of others at its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from tilegen.arithmetic import Element, Node
from tilegen.index import Index
from tilegen.ops.computing import Computed, MakeStep, plan_computed, refuse_dtype, stretch, stretch_all
from tilegen.ops.flows import broadcast
from tilegen.ops.op import COMPUTES, Array, Here, Op, Planned, Variant, refuse_uncomputed
from tilegen.ops.operand import Context
from tilegen.ops.pins import MostWidth, Pad, SharePin
from tilegen.plan import Compute, Ref, Step
from tilegen.spec.data import Call, Expression, Region, operand_field
from tilegen.spec.form import OpFields
from tilegen.spec.formulas import coordinate
from tilegen.spec.shapes import ELSEWHERE, align_shapes, is_same_place


class ElementwiseFields(OpFields):
    dst: str = Field(description="region written")
    expr: str | int | float = Field(
        description="what each element is: numbers, names of buffers, of 'with' entries, of params and of the integers "
        "of the place, index(d), + - * / // %, comparisons, and or not, where, min, max, abs, floor, sqrt, rsqrt, exp, "
        "exp2, log, log2, tanh, erf, sigmoid, fma, inf"
    )
    named: dict[str, str] = Field(default={}, alias="with", description="name: region, for names that expr uses")
    edge: Literal["error", "clip"] = Field(
        default="error", description="clip: past an edge of a global array reads give 0 and writes are dropped"
    )
    pad: Pad = None
    cache: Literal["default", "stream"] = Field(
        default="default", description="stream: no element is touched again, so the L2 need not keep global ones"
    )
    width: MostWidth = None
    partition: SharePin = None


def check_broadcast(shape: tuple[int, ...], operands: Mapping[str, Region], place: str) -> tuple[str, str, str] | None:
    """What is wrong with operands that are to be stretched over a shape, or None."""
    for name, region in operands.items():
        if align_shapes(region.shape, shape) is None:
            own = list(region.shape)
            message = f"'{name}' has the shape {own}, which does not stretch over the result's {list(shape)}"
            return message, place, "shapes are compared from the right, extents of 1 stretch"
    return None


def _check(fields: Any, regions: Mapping[str, Region], expression: Expression | None) -> tuple[str, str, str] | None:
    if expression is None:
        return None
    read = list(expression.operands.values())
    if isinstance(expression.tree, Element) and is_same_place(read[0], regions["dst"]):
        return f"this elementwise writes '{regions['dst'].text}' onto itself, which changes nothing", "expr", ELSEWHERE
    return check_broadcast(regions["dst"].shape, expression.operands, "expr")


def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The tree over the elements at each place."""
    dst = call.regions["dst"]
    assert call.expression is not None
    computed = evaluate_call(call, call.expression.tree, values, here, dst.shape, dst.buffer.dtype)
    return {"dst": np.broadcast_to(computed, (*computed.shape[:1], *dst.shape))}


def evaluate_call(
    call: Call, tree: Node, values: Mapping[str, Array], here: Here, shape: tuple[int, ...], dtype: str
) -> Array:
    """A tree over what a call's expression names, over a region of a shape, instances first, in ``dtype``."""
    expression = call.expression
    assert expression is not None
    rank, elements = len(shape), []
    for name, region in expression.operands.items():
        own = values[operand_field(name)]
        aligned = align_shapes(region.shape, shape)
        assert aligned is not None
        elements.append(own.reshape(-1, *(1 if d is None else region.shape[d] for d in aligned)))
    axes = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij", sparse=True)
    coordinates = {coordinate(d, n).name: axes[d] for d, n in enumerate(shape) if n > 1}
    wholes = [here.whole(x, coordinates, rank) for x in expression.wholes]
    computed = here.domain.compute(tree, elements, wholes, here.scalars, dtype)
    count = len(here.env["instance"])
    return np.broadcast_to(computed, (count, *shape))


def _refuse(call: Call, context: Context) -> str | None:
    dtypes = (call.regions[name].buffer.dtype for name in ("dst", *call.fields_read))
    return next(filter(None, (refuse_dtype(dtype, context.arch) for dtype in dtypes)), None)


def _plan(call: Call, context: Context) -> Planned:
    expression = call.expression
    assert expression is not None
    dst = context.operand(call, "dst", call.fields.cache)
    shape = dst.region.shape
    operands = stretch_all(call, context, shape, call.fields.cache)
    computed = Computed(shape, operands, expression.wholes)
    return plan_computed(context, call, stretch(dst, shape), computed, compute_step(expression.tree), name_of(call))


def compute_step(tree: Node) -> MakeStep:
    """The step that computes a tree from places."""

    def make(dst: Ref, srcs: tuple[Ref, ...], wholes: tuple[Index, ...]) -> Step:
        return Compute(dst, tree, srcs, wholes)

    return make


def name_of(call: Call) -> str:
    """The name of an op's function: what it computes from what."""
    names = [r.buffer.name for r in call.read if r.buffer.name != call.regions["dst"].buffer.name]
    return "_".join([call.op, *dict.fromkeys(names), call.regions["dst"].buffer.name])


OP = Op(
    "elementwise", ElementwiseFields, writes=("dst",), edge="edge", pad="pad", expression="expr", named="with",
    check=_check, reference=_reference, exactness=COMPUTES,
    variants=(Variant("threads", 20, _refuse, _plan, pins=("width", "partition")),),
    flows=lambda call, threads: broadcast(call, ("dst", *call.fields_read), call.regions["dst"].shape),
    check_dtypes=refuse_uncomputed,
)  # fmt: skip
