"""elementwise: every element of a region from the elements of others at its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any
from typing import Literal as Word

from pydantic import Field

from tilegen.arithmetic import Element, Literal, Node
from tilegen.arithmetic.formats import reject_value, say_range
from tilegen.arithmetic.functions import INTS
from tilegen.arithmetic.intervals import ValueRange, clip_range, has_range
from tilegen.arithmetic.measuring import Known, measure_tree
from tilegen.dtypes import DTYPES
from tilegen.errors import Flaw
from tilegen.index import Index, least, sub
from tilegen.ops.accumulating import AccumulateField, check_accumulate, refuse_update
from tilegen.ops.computing import Computed, Made, MakeStep, plan_computed, refuse_dtype, stretch, stretch_all
from tilegen.ops.flows import broadcast
from tilegen.ops.op import COMPUTES, Array, Here, Op, Planned, Variant, refuse_uncomputed
from tilegen.ops.operand import Context
from tilegen.ops.pins import MostWidth, Pad, Several, SharePin
from tilegen.plan import Compute, Ref, Step
from tilegen.spec.data import Call, Expression, Region
from tilegen.spec.form import OpFields, list_fields, name_of_result, operand_field
from tilegen.spec.pads import is_clipped
from tilegen.spec.shapes import ELSEWHERE, align_shapes, drop_ones, is_same_place


class ElementwiseFields(OpFields):
    dst: str | Several = Field(description="region written; or a name and a region for each result")
    expr: str | int | float = Field(
        description="what each element is, 'NAME = value;' for each name of dst: numbers, names of buffers, of 'with' "
        "entries, of params and of the integers of the place, index(d), + - * / // %, & | ^ ~ << >>, comparisons, and "
        "or not, where, mulhi, popcount, clz, uint32(x) and its kin, min, max, abs, floor, sqrt, rsqrt, exp, exp2, "
        "log, log2, tanh, erf, sigmoid, fma, inf"
    )
    named: dict[str, str] = Field(default={}, alias="with", description="name: region, for names that expr uses")
    edge: Word["error", "clip"] = Field(
        default="error", description="clip: past an edge of a global array reads give 0 and writes are dropped"
    )
    pad: Pad = None
    cache: Word["default", "stream"] = Field(
        default="default", description="stream: no element is touched again, so the L2 need not keep global ones"
    )
    accumulate: AccumulateField = None
    width: MostWidth = None
    partition: SharePin = None


def check_broadcast(shape: tuple[int, ...], operands: Mapping[str, Region], place: str) -> Flaw | None:
    """What is wrong with operands that are to be stretched over a shape, or None."""
    for name, region in operands.items():
        if align_shapes(region.shape, shape) is None:
            own = list(region.shape)
            message = f"'{name}' has the shape {own}, which does not stretch over the result's {list(shape)}"
            return Flaw("TG212", message, place, "shapes are compared from the right, extents of 1 stretch")
    return None


def _check(fields: Any, regions: Mapping[str, Region], expression: Expression | None) -> Flaw | None:
    if expression is None:
        return None
    read, written = list(expression.operands.values()), list_fields(regions, ("dst",))
    shape = regions[written[0]].shape
    for name, tree in zip(written, expression.trees, strict=True):
        dst = regions[name]
        if isinstance(tree, Element) and is_same_place(read[tree.number], dst):
            message = f"this elementwise writes '{dst.text}' onto itself, which changes nothing"
            return Flaw("TG212", message, "expr", ELSEWHERE)
        is_number = isinstance(tree, Literal) and tree.type in INTS and DTYPES[dst.buffer.dtype].kind in ("int", "uint")
        if isinstance(tree, Literal) and is_number and (reason := reject_value(tree.value, dst.buffer.dtype)):
            return Flaw("TG214", reason, "expr", say_range(dst.buffer.dtype))
        if drop_ones(dst.shape) != drop_ones(shape):
            message = f"results have one shape, and '{name_of_result(name)}' has {list(dst.shape)}"
            message += f" where '{name_of_result(written[0])}' has {list(shape)}"
            return Flaw("TG212", message, name, "extents of 1 do not count; another shape is an op of its own")
    return check_broadcast(shape, expression.operands, "expr")


def _shape_of(call: Call) -> tuple[int, ...]:
    """The shape of the first result, in which index(d) counts; others may have other extents of 1."""
    return call.written[0].shape


def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The tree of each result over the elements at each place."""
    assert call.expression is not None
    found = {}
    for name, tree in zip(call.fields_written, call.expression.trees, strict=True):
        dst = call.regions[name]
        computed = evaluate_call(call, tree, values, here, _shape_of(call), dst.buffer.dtype)
        found[name] = computed.reshape(*computed.shape[:1], *dst.shape)
    return found


def evaluate_call(
    call: Call, tree: Node, values: Mapping[str, Array], here: Here, shape: tuple[int, ...], dtype: str
) -> Array:
    """A tree over what a call's expression names, over a region of a shape, instances first, in ``dtype``."""
    expression = call.expression
    assert expression is not None
    elements = []
    for name, region in expression.operands.items():
        own = values[operand_field(name)]
        aligned = align_shapes(region.shape, shape)
        assert aligned is not None
        elements.append(own.reshape(-1, *(1 if d is None else region.shape[d] for d in aligned)))
    return here.compute(tree, elements, expression.wholes, shape, dtype)


def measure_trees(
    call: Call, values: Mapping[str, ValueRange | None], params: frozenset[str]
) -> tuple[ValueRange | None, ...]:
    """The range of each result of a call's expression in the type of its tree, None for one of floats."""
    expression = call.expression
    assert expression is not None
    elements = [values[operand_field(name)] for name in expression.operands]
    rises = {} if is_clipped(call) else _list_rises(tuple(expression.operands.values()))
    known = Known(elements, expression.wholes, params, rises)
    return tuple(measure_tree(tree, known) for tree in expression.trees)


def _list_rises(regions: Sequence[Region]) -> dict[tuple[int, int], ValueRange]:
    """By how much an offset exceeds an earlier one of the same array: offsets never fall."""
    found = {}
    for (i, a), (j, b) in permutations(enumerate(regions), 2):
        promise = a.buffer.values
        if a.buffer != b.buffer or promise is None or promise.pieces is None or a.lengths != b.lengths:
            continue
        if least(sub(a.begins[0], b.begins[0])) >= 0:
            found[i, j] = ValueRange(0, promise.places[1])
    return found


def _range(call: Call, values: Mapping[str, ValueRange | None], params: frozenset[str]) -> dict[str, ValueRange]:
    """What each tree comes to, its type's last value beyond dst's type."""
    trees = zip(call.fields_written, measure_trees(call, values, params), strict=True)
    return {
        name: clip_range(x, dtype) for name, x in trees if x and has_range(dtype := call.regions[name].buffer.dtype)
    }


def _refuse(call: Call, context: Context) -> str | None:
    dtypes = (region.buffer.dtype for region in (*call.written, *call.read))
    reason = next(filter(None, (refuse_dtype(dtype, context.arch) for dtype in dtypes)), None)
    return reason or refuse_update(call, context.arch)


def _plan(call: Call, context: Context) -> Planned:
    expression = call.expression
    assert expression is not None
    shape, cache = _shape_of(call), call.fields.cache
    results = [
        Made(stretch(context.operand(call, name, cache), shape), compute_step(tree))
        for name, tree in zip(call.fields_written, expression.trees, strict=True)
    ]
    computed = Computed(shape, stretch_all(call, context, shape, cache), expression.wholes)
    return plan_computed(context, call, results, computed, name_of(call))


def compute_step(tree: Node) -> MakeStep:
    """The step that computes a tree from places."""

    def make(dst: Ref, srcs: tuple[Ref, ...], wholes: tuple[Index, ...]) -> Step:
        return Compute(dst, tree, srcs, wholes)

    return make


def name_of(call: Call) -> str:
    """The name of an op's function: what it computes from what."""
    written = dict.fromkeys(r.buffer.name for r in call.written)
    read = dict.fromkeys(r.buffer.name for r in call.read if r.buffer.name not in written)
    return "_".join([*([call.accumulates] if call.accumulates else []), call.op, *read, *written])


OP = Op(
    "elementwise", ElementwiseFields, writes=("dst",), several=("dst",), edge="edge", pad="pad", expression="expr",
    named="with", extents=lambda fields, regions, operands: regions[list_fields(regions, ("dst",))[0]].shape,
    check=_check, reference=_reference, exactness=COMPUTES,
    variants=(Variant("threads", 20, _refuse, _plan, pins=("width", "partition"), has_scratch=True),),
    flows=lambda call, threads: broadcast(call, (*call.fields_written, *call.fields_read), _shape_of(call)),
    accumulates="accumulate", check_dtypes=check_accumulate(("dst",), refuse_uncomputed), ranges=_range,
)  # fmt: skip
