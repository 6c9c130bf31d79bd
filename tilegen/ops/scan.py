"""scan: of each element along one dimension, what it and all before it come to: sums, maxima, minima or products.

``scanning`` says in which order threads do it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any, Literal

import numpy as np
from pydantic import Field

from tilegen.arithmetic import Element, Node, common_type, to_type, type_of_element
from tilegen.arithmetic.intervals import (
    ValueRange,
    apply_to_ranges,
    clip_range,
    fit_range,
    has_range,
    join_ranges,
    sum_range,
)
from tilegen.decisions import Choice
from tilegen.dtypes import DTYPES
from tilegen.errors import Flaw
from tilegen.ops.computing import Computed, ElementLoop, prepare_share, stretch, stretch_all
from tilegen.ops.elementwise import check_broadcast, evaluate_call, measure_trees
from tilegen.ops.flows import Flow, broadcast
from tilegen.ops.folding import identity_of
from tilegen.ops.holding import is_held_alike
from tilegen.ops.line_layout import line_layouts
from tilegen.ops.op import COMPUTES, Array, Here, Op, Planned, Variant, refuse_uncomputed
from tilegen.ops.operand import STRETCHED, Context, Operand, Refused
from tilegen.ops.ownership import Ownership, own
from tilegen.ops.partition_layout import lane_axis
from tilegen.ops.pins import MostWidth, Pad
from tilegen.ops.scanning import Line, NotNeighbours, Prefixes, find_line
from tilegen.ops.scratch import Scratch
from tilegen.ops.shares import Share, choose_widths
from tilegen.spec.data import Call, Expression, Region
from tilegen.spec.form import OpFields
from tilegen.spec.shapes import drop_ones

FUNCTIONS = {"sum": "+", "prod": "*", "max": "max", "min": "min"}


class ScanFields(OpFields):
    src: str | None = Field(default=None, description="region read, in any memory")
    expr: str | None = Field(default=None, description="in place of src: what is scanned, as of elementwise")
    named: dict[str, str] = Field(default={}, alias="with", description="name: region, for names that expr uses")
    dst: str = Field(description="register region written; it may be what is read")
    axis: int = Field(ge=0, description="the dimension of dst along which elements follow each other")
    op: Literal["sum", "max", "min", "prod"] = Field(description="what is made of an element and those before it")
    exclusive: bool = Field(default=False, description="true: of those before it alone")
    reverse: bool = Field(default=False, description="true: from the end, so that 'before' is behind")
    carry: str | None = Field(
        default=None,
        description="register region of dst's shape, with an extent of 1 along axis: what lies before all; it is left "
        "with what all come to",
    )
    edge: Literal["error", "clip"] = Field(default="error", description="clip: reads past an edge of an array give 0")
    pad: Pad = None
    cache: Literal["default", "stream"] = Field(
        default="default", description="stream: no element is touched again, so the L2 need not keep global ones"
    )
    width: MostWidth = None


def _check(fields: Any, regions: Mapping[str, Region], expression: Expression | None) -> Flaw | None:
    if ("src" in regions) == (expression is not None):
        return Flaw("TG212", "scan takes one of 'src' and 'expr'", "expr", "write 'src: x' or 'expr: \"x * x\"'")
    dst = regions["dst"]
    place = "src" if expression is None else "expr"
    operands = {"src": regions["src"]} if expression is None else expression.operands
    wrong = check_broadcast(dst.shape, operands, place)
    if wrong:
        return wrong
    if fields.axis >= len(dst.shape):
        message = f"'axis' is {fields.axis}, and the shape is {list(dst.shape)}"
        return Flaw("TG212", message, "axis", f"0 to {len(dst.shape) - 1}")
    return _check_carry(fields, regions) or _check_identity(fields, regions, expression)


def _check_carry(fields: Any, regions: Mapping[str, Region]) -> Flaw | None:
    if "carry" not in regions:
        return None
    dst, carry = regions["dst"], regions["carry"]
    wanted = tuple(1 if d == fields.axis else n for d, n in enumerate(dst.shape))
    if drop_ones(carry.shape) != drop_ones(wanted) or len(carry.shape) > len(wanted):
        message = f"'carry' has the shape {list(carry.shape)}, and rows of 'dst' leave {list(wanted)}"
        return Flaw("TG212", message, "carry", "keep the axis as an extent of 1")
    if carry.buffer.root == dst.buffer.root:
        return Flaw("TG212", "'dst' and 'carry' are the same registers", "carry", "name another buffer")
    return None


def _check_identity(fields: Any, regions: Mapping[str, Region], expression: Expression | None) -> Flaw | None:
    """The first element of an exclusive scan without a carry is what changes nothing: does dst hold that?"""
    if not fields.exclusive or fields.op in ("sum", "prod") or "carry" in regions:
        return None
    tree = Element(0, regions["src"].buffer.dtype) if expression is None else expression.tree
    dtype, type_ = regions["dst"].buffer.dtype, tree.type
    holds_it = DTYPES[dtype].kind == "float" and not dtype.startswith("float8")
    if dtype == type_ or (holds_it and type_ in ("float32", "float64")):
        return None
    first = identity_of(FUNCTIONS[fields.op], type_)
    message = f"the first element is {first}, which has nothing before it, and {dtype} does not hold that"
    return Flaw("TG212", message, "dst", f"give '{regions['dst'].buffer.name}' {type_}, or write a 'carry'")


def _tree_of(call: Call) -> Node:
    """What is scanned, in the type that it is scanned in: one that holds the carry too."""
    src = call.expression.tree if call.expression else Element(0, call.regions["src"].buffer.dtype)
    carry = [type_of_element(call.regions["carry"].buffer.dtype)] if "carry" in call.regions else []
    return to_type(src, common_type([src.type, *carry]))


def _ranges(call: Call, values: Mapping[str, ValueRange | None], params: frozenset[str]) -> dict[str, ValueRange]:
    """Of what any number of elements come to, up to all of them, and of all together."""
    fields, type_, count = call.fields, _tree_of(call).type, call.regions["dst"].shape[call.fields.axis]
    taken = values["src"] if call.expression is None else measure_trees(call, values, params)[0]
    if taken is None or not has_range(type_) or fields.op == "prod":
        return {}
    own = fit_range(taken, type_)
    function, first = FUNCTIONS[fields.op], int(identity_of(FUNCTIONS[fields.op], type_))
    before = values["carry"] if "carry" in call.regions else ValueRange(first, first + 1)
    assert before is not None
    before = fit_range(before, type_)
    last = count - 1 if fields.exclusive else count
    sums = [sum_range(own, k) for k in (0 if fields.exclusive else 1, last)] if fields.op == "sum" else [own]
    prefixes = [fit_range(apply_to_ranges(function, [before, x], type_), type_) for x in sums]
    found = join_ranges([*prefixes, *([before] if fields.exclusive else [])])
    all_of_them = sum_range(own, count) if fields.op == "sum" else own
    made = {"dst": found, "carry": apply_to_ranges(function, [before, all_of_them], type_)}
    dtypes = {n: call.regions[n].buffer.dtype for n in made if n in call.regions}
    return {n: clip_range(made[n], dtype) for n, dtype in dtypes.items() if has_range(dtype)}


def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """What lies before all, and then each element, taken together one after the other."""
    fields, domain, axis, type_ = call.fields, here.domain, call.fields.axis + 1, _tree_of(call).type
    elements = _evaluate(call, values, here)
    n, function = elements.shape[axis], FUNCTIONS[fields.op]
    extents = [n + 1 if d == axis else k for d, k in enumerate(elements.shape)]
    joined = np.empty(extents, domain.stored(type_))
    rows, own = np.moveaxis(joined, axis, 0), np.moveaxis(elements, axis, 0)
    rows[0] = _evaluate_first(call, values, here)
    rows[1:] = own[::-1] if fields.reverse else own
    found = domain.scan(function, joined, axis, type_)
    taken = np.take(found, np.arange(n) + (not fields.exclusive), axis)
    taken = np.ascontiguousarray(np.flip(taken, axis)) if fields.reverse else taken
    written = {"dst": (taken, call.regions["dst"])}
    if "carry" in call.regions:
        written["carry"] = np.take(found, [n], axis), call.regions["carry"]
    own_type = Element(0, type_)
    return {
        name: domain.compute(own_type, [made], [], {}, region.buffer.dtype).reshape(-1, *region.shape)
        for name, (made, region) in written.items()
    }  # fmt: skip


def _evaluate(call: Call, values: Mapping[str, Array], here: Here) -> Array:
    """The elements that are scanned, over dst's shape, instances first."""
    shape, tree = call.regions["dst"].shape, _tree_of(call)
    if call.expression is not None:
        return evaluate_call(call, tree, values, here, shape, tree.type)
    src = call.regions["src"].shape
    own = values["src"].reshape(-1, *(1,) * (len(shape) - len(src)), *src)
    elements = here.domain.compute(tree, [own], [], {}, tree.type)
    return np.broadcast_to(elements, (len(here.env["instance"]), *shape))


def _evaluate_first(call: Call, values: Mapping[str, Array], here: Here) -> Array:
    """What lies before all of each row: the carry, or what changes nothing; without the axis."""
    shape, axis, type_ = call.regions["dst"].shape, call.fields.axis, _tree_of(call).type
    if "carry" not in call.regions:
        return here.domain.fill(identity_of(FUNCTIONS[call.fields.op], type_), type_)
    carry = to_type(Element(0, call.regions["carry"].buffer.dtype), type_)
    own = values["carry"].reshape(-1, *(n for d, n in enumerate(shape) if d != axis))
    return here.domain.compute(carry, [own], [], {}, type_)


def _refuse(call: Call, context: Context) -> str | None:
    for region in call.written:
        if not region.buffer.traits.is_held:
            return f"the result is in registers, and {region.buffer.name} is not: scan and then copy"
    return None


def _plan(call: Call, context: Context) -> Planned:
    shape, tree = call.regions["dst"].shape, _tree_of(call)
    dst = context.operand(call, "dst")
    owner = stretch(dst, shape)
    sources = _list_sources(call, context, shape)
    long = [d for d, n in enumerate(shape) if n > 1]
    axis = long.index(call.fields.axis) if call.fields.axis in long else -1
    row = _see_row(owner, call, context, axis)
    operands = (*([row] if "carry" in call.regions else []), owner, *sources)
    computed = Computed(shape, (), call.expression.wholes if call.expression else ())
    in_memory = [o for o in sources if not o.memory.traits.is_held]
    owned = own(context, owner, [*in_memory, row])
    line = _find_line(call, context, owned, axis)
    _check_carry_held(call, context, owned, axis)
    rows = prod(n for d, n in enumerate(shape) if d != call.fields.axis)
    scratch = Scratch(context, call.scope, tree.type, rows * line.parts) if line.parts > 1 else None
    name = "_".join(["scan", call.fields.op, *dict.fromkeys(o.buffer.name for o in (*sources, owner))])

    def build(loop: ElementLoop) -> Any:
        function = FUNCTIONS[call.fields.op]
        return Prefixes(context, call, loop, line, axis, computed, function, tree.type, tree, scratch).block(name)

    prepared = prepare_share(Share(owner), lambda cap: ElementLoop(context, call, owned, operands, cap), build)
    taken = choose_widths(context, prepared, call.fields.width)
    order = Choice("order", _say_order(line, owned), (), _say_turns(call, line))
    scratches = (scratch.memory,) if scratch else ()
    return Planned((taken.block,), taken.cost, (order, *taken.choices), taken.pins, scratches, taken.counted)


def _find_line(call: Call, context: Context, owned: Ownership, axis: int) -> Line:
    """``find_line``, with a layout that fits where own elements are no neighbours."""
    try:
        return find_line(context, call, owned, axis)
    except NotNeighbours:
        dst, (name, threads) = call.regions["dst"], lane_axis(call.scope, context.launch.threads)
        fitting = line_layouts(dst.shape, call.fields.axis, threads, name)[0]
        message = f"a thread's own elements of {dst.text} are no neighbours along axis {call.fields.axis}"
        message += f" ({dst.buffer.layout}): write 'layout: auto', or \"{fitting}\""
        raise Refused(message) from None


def _list_sources(call: Call, context: Context, shape: tuple[int, ...]) -> tuple[Operand, ...]:
    if call.expression is None:
        return (stretch(context.operand(call, "src", call.fields.cache), shape),)
    return stretch_all(call, context, shape, call.fields.cache)


def _see_row(owner: Operand, call: Call, context: Context, axis: int) -> Operand:
    """The carry seen over the region: along the axis always the same. Without one, dst so: rows are then told apart."""
    named = context.operand(call, "carry") if "carry" in call.regions else owner
    if "carry" in call.regions:
        own_dims = iter(named.dims)
        dims = tuple(STRETCHED if d == axis else next(own_dims) for d in range(len(owner.dims)))
    else:
        dims = tuple(STRETCHED if d == axis else known for d, known in enumerate(owner.dims))
    return replace(named, dims=dims, extents=owner.lengths)


def _check_carry_held(call: Call, context: Context, owned: Ownership, axis: int) -> None:
    if "carry" not in call.regions:
        return
    apart = own(context, context.operand(call, "carry"), [])
    if not is_held_alike(context, call.scope, owned, apart, axis):
        layouts = f"{apart.operand.buffer.layout} against {owned.operand.buffer.layout}"
        own_rows = f"the threads that hold elements of a row hold its carry, and no others do ({layouts})"
        raise Refused(f"{own_rows}: write 'layout: auto' for '{apart.operand.buffer.name}'")


def _say_order(line: Line, owned: Ownership) -> dict[str, Any]:
    own_elements = prod(owned.extents[k] for k in line.own)
    return {"registers": own_elements, "lanes": [d * line.unit for d in line.distances], line.word: line.parts}


def _say_turns(call: Call, line: Line) -> str:
    first = "carry first, then " if "carry" in call.regions else ""
    way = "descending" if call.fields.reverse else "ascending"
    return f"{first}{line.word}, lanes and own elements before, {way}"


def _list_flows(call: Call) -> tuple[Flow, ...]:
    """The tile that is scanned, and the carry, which all threads along the axis hold."""
    shape, axis = call.regions["dst"].shape, call.fields.axis
    for flow in broadcast(call, ["dst", *(f for f in call.fields_read if f != "carry")], shape):
        sides = dict(flow.sides)
        if "carry" in call.regions:
            left = [d for d in range(len(shape)) if d != axis and shape[d] > 1]
            held = [d for d, n in enumerate(call.regions["carry"].lengths) if n > 1]
            of_tile = dict(zip(left, held, strict=True))
            sides["carry"] = tuple(of_tile.get(d) for d in range(len(shape)))
        return (replace(flow, sides=sides, line=axis if shape[axis] > 1 else None),)
    return ()


OP = Op(
    "scan", ScanFields, reads=("src",), updates=("carry",), writes=("dst",), optional=("src", "expr", "carry"),
    edge="edge", pad="pad", expression="expr", named="with", check=_check, check_dtypes=refuse_uncomputed,
    reference=_reference, exactness=COMPUTES,
    variants=(Variant("threads", 20, _refuse, _plan, pins=("width",), has_scratch=True),),
    flows=lambda call, threads: _list_flows(call), ranges=_ranges,
)  # fmt: skip
