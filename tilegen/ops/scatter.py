"""scatter: elements to the places of a region that other elements name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from tilegen.arithmetic import Element, Node
from tilegen.dtypes import DTYPES
from tilegen.errors import Flaw
from tilegen.index import Index, Var, add, bound, every, less
from tilegen.ops.accumulating import AccumulateField, check_accumulate, refuse_update
from tilegen.ops.computing import Computed, ElementLoop, prepare_share, refuse_dtype
from tilegen.ops.edges import edge_guard, guard_at, late_dims, may_pass_end
from tilegen.ops.elementwise import name_of
from tilegen.ops.flows import Flow
from tilegen.ops.indexed import (
    align,
    align_in_call,
    axis_along,
    axis_of,
    find_extent,
    index_dtype,
    is_apart,
    shape_of,
    shape_of_call,
)
from tilegen.ops.op import COMPUTES, Array, Here, Op, Planned, Variant, refuse_uncomputed
from tilegen.ops.operand import STRETCHED, Context, Operand, ref_at
from tilegen.ops.ownership import Ownership, own
from tilegen.ops.pins import MostWidth, SharePin
from tilegen.ops.shares import PreparedShare, Share, choose_share, list_shares
from tilegen.plan import Block, Compute, Move, Pick, Ref, Step, when
from tilegen.spec.data import Call, Expression, Region
from tilegen.spec.form import OpFields, operand_field
from tilegen.spec.formulas import coordinate
from tilegen.spec.pads import is_clipped

_SOURCE, _INDEX = ".src", ".index"  # operands that are regions of these fields


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
    if not dst.shape:
        message = f"'{dst.text}' is one element, and an index counts along a dimension"
        return Flaw("TG212", message, "dst", "keep a dimension: 'lo : +length'")
    if fields.axis is None and len(dst.shape) > 1:
        message = f"'{dst.text}' has {len(dst.shape)} dimensions, and nothing says along which the index counts"
        return Flaw("TG212", message, "dst", "add 'axis: 0'")
    if fields.axis is not None and fields.axis >= len(dst.shape):
        message = f"'axis' is {fields.axis}, and '{dst.text}' has the shape {list(dst.shape)}"
        return Flaw("TG212", message, "axis", f"0 to {len(dst.shape) - 1}")
    kept = [d for d, is_kept in enumerate(dst.kept) if is_kept]
    if beside := [d for d in dst.open if d != kept[axis_along(fields, dst)]]:
        extent = dst.buffer.shape[beside[0]]
        message = (
            f"'{dst.buffer.name}' has {extent} places in dimension {beside[0]}, as the launch alone knows, and no "
        )
        hint = "write 'lo : +length' with a constant length there"
        return Flaw("TG208", f"{message}index counts along these", "dst", hint)
    if not operands:
        return Flaw("TG212", "neither the elements nor their places have a shape", "index", "name a buffer of integers")
    return _check_index(fields, regions, expression) or _check_operands(fields, dst, operands)


def _check_index(fields: Any, regions: Mapping[str, Region], expression: Expression) -> Flaw | None:
    dst, tree = regions["dst"], expression.trees[1]
    dtype = index_dtype(tree)
    if DTYPES[dtype].kind not in ("int", "uint"):
        return Flaw("TG212", f"an index is an integer, and this one is {dtype}", "index", "cast it: 'dtype: int32'")
    if dtype == "uint64":
        return Flaw("TG212", "an index of uint64 has no place that is told from others", "index", "cast it to int64")
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


def _check_operands(fields: Any, dst: Region, operands: Mapping[str, Region]) -> Flaw | None:
    shape, axis = shape_of(fields, dst, tuple(operands.values())), axis_along(fields, dst)
    for name, region in operands.items():
        if align(region.shape, shape, axis, len(dst.shape) == 1) is None:
            field = name.removeprefix(".") if name.startswith(".") else "index"
            into = f"'{dst.text}' of {list(dst.shape)} along axis {axis}"
            message = f"'{region.text}' has the shape {list(region.shape)}, which does not fit {into}"
            one = "one dimension, along the axis" if len(dst.shape) > 1 else "any shape, right-aligned with the others"
            more = "; or as many as dst, equal but along it, 1 stretches" if len(dst.shape) > 1 else ""
            return Flaw("TG212", message, field, f"it has {one}{more}")
    return None


# ---------------------------------------------------------------- meaning
def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The elements, and the index of each as it is stored, over the shape of the index."""
    assert call.expression is not None
    shape, dtype = shape_of_call(call), call.regions["dst"].buffer.dtype
    value, index = call.expression.trees
    return {
        "dst": _evaluate(call, value, values, here, shape, dtype),
        "index": _evaluate(call, index, values, here, shape, index_dtype(index)),
    }


def _evaluate(
    call: Call, tree: Node, values: Mapping[str, Array], here: Here, shape: tuple[int, ...], dtype: str
) -> Array:  # fmt: skip
    expression = call.expression
    assert expression is not None
    elements = []
    for name, region in expression.operands.items():
        aligned = align_in_call(call, region)
        lengths = [1 if k is None else n for k, n in zip(aligned, shape, strict=True)]
        elements.append(values[operand_field(name)].reshape(-1, *lengths))
    axes = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij", sparse=True)
    coordinates = {coordinate(d, n).name: axes[d] for d, n in enumerate(shape) if n > 1}
    wholes = [here.whole(x, coordinates, len(shape)) for x in expression.wholes]
    if isinstance(tree, Element) and tree.dtype == dtype:
        found = elements[tree.number]
    else:
        found = here.domain.compute(tree, elements, wholes, here.scalars, dtype)
    return np.broadcast_to(found, (len(here.env["instance"]), *shape))


# ---------------------------------------------------------------- plan
def _refuse(call: Call, context: Context) -> str | None:
    dtypes = (region.buffer.dtype for region in (*call.written, *call.read))
    reason = next(filter(None, (refuse_dtype(dtype, context.arch) for dtype in dtypes)), None)
    return reason or refuse_update(call, context.arch)


def _see(call: Call, context: Context, name: str) -> Operand:
    """An operand seen over the shape of the index."""
    operand = context.operand(call, operand_field(name), call.fields.cache)
    region, shape = operand.region, shape_of_call(call)
    kept = [d for d, is_kept in enumerate(region.kept) if is_kept]
    aligned = align_in_call(call, region)
    dims = tuple(STRETCHED if k is None else kept[k] for k, n in zip(aligned, shape, strict=True) if n > 1)
    return replace(operand, dims=dims, extents=tuple(n for n in shape if n > 1), op_field=name.removeprefix("."))


@dataclass(frozen=True)
class Target:
    """dst, seen by the dimensions that its region keeps, and how far the index counts in it.

    ``extent``: of the dimension that the index counts along. ``index``: the variable that a thread picks.
    """

    operand: Operand
    axis: int
    extent: Index
    index: Var
    clips: bool

    @property
    def inside(self) -> Var:
        """The index where it is known to lie in dst."""
        return replace(self.index, bound=self.most, least=0)

    @property
    def most(self) -> int:
        """A number that the index is below where it lies in dst."""
        return self.extent if isinstance(self.extent, int) else bound(self.extent) - 1

    @property
    def holds(self) -> Index:
        """That the index lies in dst."""
        return every(less(-1, self.index), less(self.index, self.extent))

    def at(self, own: Sequence[Index], is_flat: bool) -> list[Index]:
        """The coordinates in dst of an element at coordinates of the index's shape."""
        return [self.inside if d == self.axis or is_flat else own[d] for d in range(len(self.operand.dims))]


def _find_target(call: Call, context: Context) -> Target:
    dst, axis = context.operand(call, "dst"), axis_of(call)
    kept = tuple(d for d, is_kept in enumerate(dst.region.kept) if is_kept)
    extents = tuple(max(2, bound(find_extent(dst.region, d)) - 1) for d in kept)
    assert call.expression is not None
    clips = is_clipped(call)
    extent, name = find_extent(dst.region, kept[axis]), context.fresh("to")
    most = extent if isinstance(extent, int) else bound(extent) - 1
    dtype = np.iinfo(index_dtype(call.expression.trees[1]))
    index = Var(name, int(dtype.max) + 1, 1, int(dtype.min)) if clips else Var(name, most)
    return Target(replace(dst, dims=kept, extents=extents), axis, extent, index, clips)


class ScatterLoop(ElementLoop):
    """The loop over the elements of the index; the last operand is dst, which no order of elements has a say in."""

    @property
    def parts(self) -> tuple[range, ...]:
        return (range(len(self.operands) - 1),)

    @property
    def picked(self) -> tuple[str, ...]:
        return (self.context.fresh("to"),)

    def is_flat(self, operand: Operand) -> bool:
        return super().is_flat(operand) and (operand is not self.operands[-1] or not operand.memory.traits.is_array)


def _plan(call: Call, context: Context) -> Planned:
    assert call.expression is not None
    shape, target = shape_of_call(call), _find_target(call, context)
    sources = tuple(_see(call, context, name) for name in call.expression.operands)
    others = [o for o in sources if not o.memory.traits.is_held]
    computed = Computed(shape, (), call.expression.wholes)
    name = name_of(call)

    def prepare(share: Share) -> PreparedShare:
        owned: Ownership = own(context, share.owner, others)
        return prepare_share(
            share, lambda cap: ScatterLoop(context, call, owned, (*sources, target.operand), cap),
            lambda loop: _build(call, loop, target, computed, name),
        )  # fmt: skip

    _, taken = choose_share(context, call, list_shares(context, call, sources, shape), prepare)
    return Planned((taken.block,), taken.cost, taken.choices, taken.pins, (), taken.counted)


def _build(call: Call, loop: ElementLoop, target: Target, computed: Computed, name: str) -> Block:
    """The function in which each thread writes its elements where its integers say: of copies the first alone."""
    assert call.expression is not None
    value, index = call.expression.trees
    read, wholes = tuple(map(loop.see, loop.parts[0])), loop.wholes(computed)
    registers, steps = list(loop.registers), list[Step]()

    def hold(tree: Node, what: str, dtype: str) -> Ref:
        """The register that has what a tree comes to."""
        if isinstance(tree, Element) and tree.dtype == dtype:
            return read[tree.number]
        registers.append(loop.new_registers(what, dtype, 1))
        steps.append(Compute(registers[-1][0], tree, read, wholes))
        return registers[-1][0]

    place = hold(index, "place", index_dtype(index))
    new = hold(value, "value", target.operand.buffer.dtype)
    at = dict(zip((d for d, n in enumerate(computed.shape) if n > 1), loop.owned.element(loop.number)[0], strict=True))
    own = [at.get(d, 0) for d in range(len(computed.shape))]
    coordinates = target.at(own, len(target.operand.dims) == 1)
    side = loop.distinct.index(target.operand)
    move = Move(loop.formals.see(side, ref_at(target.operand, coordinates)), new, via=target.operand.via)
    numbers = loop.owned.element(loop.number)[0]
    read_inside = (guard_at(loop.operands[k], numbers).both for k in loop.parts[0])
    guard = every(*read_inside, _guard(target, coordinates))
    known = () if target.clips or isinstance(target.extent, int) else (less(target.index, target.extent),)
    steps += [Pick(target.index, place, known), *when(guard, move)]
    inside = (*loop.access(loop.parts[0], is_load=True), *loop.repeat(tuple(steps)))
    return loop.formals.block(name, loop.owned.guard(inside, stores=True), loop.context.op, tuple(registers))


def _guard(target: Target, coordinates: Sequence[Index]) -> Index:
    """That an element lies in dst, and in its array."""
    operand, d = target.operand, target.operand.dims[target.axis]
    holds = target.holds if target.clips else True
    if not may_pass_end(operand):
        return holds
    edge = edge_guard(operand, coordinates, d).both
    ends = add(operand.region.begins[d], target.inside)
    before = less(ends, operand.region.ends[d]) if d in late_dims(operand) and d not in operand.region.open else True
    after = less(-1, ends) if d in operand.early else True
    return every(holds, edge, after, before)


def _list_flows(call: Call) -> tuple[Flow, ...]:
    assert call.expression is not None
    sides = {}
    for name, region in call.expression.operands.items():
        kept = [d for d, is_kept in enumerate(region.kept) if is_kept]
        sides[operand_field(name)] = tuple(None if k is None else kept[k] for k in align_in_call(call, region))
    return (Flow(shape_of_call(call), sides),)


OP = Op(
    "scatter", ScatterFields, writes=("dst",), edge="edge", expression="expr", source="src", index="index",
    named="with", extents=_extents, check=_check, check_dtypes=check_accumulate(("dst",), refuse_uncomputed),
    accumulates="accumulate", reference=_reference,
    exactness=COMPUTES, variants=(Variant("threads", 20, _refuse, _plan, pins=("width", "partition")),),
    flows=lambda call, threads: _list_flows(call),
)  # fmt: skip
