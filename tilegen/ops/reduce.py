"""reduce: the sum, maximum, minimum or product along one dimension, which stays as an extent of 1, or where it lies.

``folding`` says in which order threads do it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import numpy as np
from pydantic import Field

from tilegen.arithmetic import Apply, Element, Node, Whole, common_type, to_type, type_of_element
from tilegen.arithmetic import Literal as Number
from tilegen.arithmetic.functions import find_unmet
from tilegen.arithmetic.intervals import (
    ValueRange,
    apply_to_ranges,
    clip_range,
    fit_range,
    has_range,
    range_of_type,
    sum_range,
)
from tilegen.decisions import Choice
from tilegen.dtypes import DTYPES
from tilegen.errors import Flaw
from tilegen.near_words import suggest
from tilegen.ops.computing import Computed, ElementLoop, prepare_share, stretch, stretch_all
from tilegen.ops.elementwise import check_broadcast, evaluate_call, measure_trees
from tilegen.ops.flows import Flow, broadcast, reduced, span_shapes
from tilegen.ops.folding import (
    INDEX,
    FoldResult,
    Reduction,
    Split,
    pick_index,
    settle_index,
    split_threads,
)
from tilegen.ops.holding import is_held_alike
from tilegen.ops.op import COMPUTES, Array, Here, Op, Planned, Variant, refuse_uncomputed
from tilegen.ops.operand import STRETCHED, Context, Operand
from tilegen.ops.ownership import Ownership, own
from tilegen.ops.pins import MostWidth, Pad, Several, SharePin
from tilegen.ops.scratch import Scratch
from tilegen.ops.shares import PreparedShare, Share, choose_share, list_shares
from tilegen.spec.data import Call, Expression, Region
from tilegen.spec.form import OpFields, list_fields, name_of_result, result_field
from tilegen.spec.shapes import drop_ones

_FUNCTIONS = {"sum": "+", "prod": "*", "max": "max", "min": "min", "argmax": "max", "argmin": "min"}
_PLACED = ("argmax", "argmin")
_WRITTEN = ("dst", "index")
_Word = Literal["sum", "max", "min", "prod", "argmax", "argmin"]


class ReduceFields(OpFields):
    src: str | None = Field(default=None, description="region read, in any memory")
    expr: str | None = Field(default=None, description="in place of src: what is reduced, as of elementwise")
    named: dict[str, str] = Field(default={}, alias="with", description="name: region, for names that expr uses")
    dst: str | Several = Field(
        description="register region written: of the source's shape, with an extent of 1 along axis; or a name and a "
        "region for each result"
    )
    axis: int = Field(ge=0, description="the dimension that is reduced")
    op: _Word | dict[str, _Word] = Field(
        description="what is made of its elements, for all or for each name of dst; argmax and argmin: the extreme, "
        "and in 'index' where it lies"
    )
    index: str | Several | None = Field(
        default=None,
        description="of argmax and argmin: register region of integers like dst, the first of equals; or one for each "
        "name of dst that says so",
    )
    accumulate: bool = Field(default=False, description="true: what dst holds is taken in, last")
    edge: Literal["error", "clip"] = Field(default="error", description="clip: reads past an edge of an array give 0")
    pad: Pad = None
    cache: Literal["default", "stream"] = Field(
        default="default", description="stream: no element is touched again, so the L2 need not keep global ones"
    )
    width: MostWidth = None
    partition: SharePin = None


def _shape_of(call: Call) -> tuple[int, ...]:
    if call.expression is None:
        return call.regions["src"].shape
    return span_shapes(tuple(call.expression.operands.values()))


def _check(fields: Any, regions: Mapping[str, Region], expression: Expression | None) -> Flaw | None:
    if ("src" in regions) == (expression is not None):
        return Flaw("TG212", "reduce takes one of 'src' and 'expr'", "expr", "write 'src: x' or 'expr: \"x * x\"'")
    place = "src" if expression is None else "expr"
    operands = {"src": regions["src"]} if expression is None else expression.operands
    if not operands:
        return Flaw("TG212", "nothing that has elements is reduced", place, "name a buffer")
    shape = span_shapes(tuple(operands.values()))
    wrong = check_broadcast(shape, operands, place)
    if wrong:
        return wrong
    if fields.axis >= len(shape):
        message = f"'axis' is {fields.axis}, and the shape is {list(shape)}"
        return Flaw("TG212", message, "axis", f"0 to {len(shape) - 1}")
    wanted = tuple(1 if d == fields.axis else n for d, n in enumerate(shape))
    for name in list_fields(regions, _WRITTEN):
        own = regions[name].shape
        if drop_ones(own) != drop_ones(wanted) or len(own) > len(wanted):
            message = f"'{name}' has the shape {list(own)}, and {list(wanted)} is left"
            return Flaw("TG212", message, name, "keep the axis as an extent of 1")
    return _check_ops(fields, regions, shape[fields.axis]) or _check_held(fields, regions, expression)


def _check_held(fields: Any, regions: Mapping[str, Region], expression: Expression | None) -> Flaw | None:
    """What is wrong with the type that dst is accumulated in: nothing holds uint64 and numbers below 0."""
    written = list_fields(regions, ("dst",)) if fields.accumulate else ()
    for k, name in enumerate(written):
        dtypes = regions[name].buffer.dtype, regions["src"].buffer.dtype if expression is None else ""
        if any(dtype in ("complex64", "complex128") for dtype in dtypes):
            continue
        elements = type_of_element(dtypes[1]) if expression is None else expression.trees[k].type
        held = type_of_element(dtypes[0])
        if "uint64" in (held, elements) and find_unmet([held, elements]):
            message = f"'{regions[name].buffer.name}' is {dtypes[0]} and what is taken in {elements}: they do not meet"
            return Flaw("TG212", message, name, "give both a sign, or none")
    return None


def _check_ops(fields: Any, regions: Mapping[str, Region], extent: int) -> Flaw | None:
    """What is wrong with the names that say what each result is, and where it lies."""
    results = list_fields(regions, ("dst",))
    names = list(map(name_of_result, results))
    for key, said in (("op", fields.op), ("index", fields.index)):
        if isinstance(said, dict) and names == [""]:
            message = f"'{key}' has names of results, and 'dst' has none"
            return Flaw("TG212", message, key, "write 'dst: {NAME: REGION, ..}'")
        if isinstance(said, dict) and (unknown := [name for name in said if name not in names]):
            message = f"'{key}' names '{unknown[0]}', which is no result"
            return Flaw("TG212", message, result_field(key, unknown[0]), suggest(unknown[0], names))
    if isinstance(fields.op, dict) and (lacking := [name for name in names if name not in fields.op]):
        return Flaw("TG212", f"'op' does not say what '{lacking[0]}' is", "op", f"add '{lacking[0]}: sum'")
    if isinstance(fields.index, str) and names != [""]:
        message = "'index' says for which result it is, as 'dst' has names"
        return Flaw("TG212", message, "index", f"write '{{{names[0]}: REGION}}'")
    each = (_check_index(fields, regions, result, extent) for result in results)
    return next(filter(None, each), None)


def _check_index(
    fields: Any, regions: Mapping[str, Region], result: str, extent: int
) -> Flaw | None:  # fmt: skip
    """What is wrong with where an extreme lies: it is asked for by the ops that say it, in integers that hold it."""
    op, index, named = _op_of(fields, result), _index_of(result), name_of_result(result)
    at = "op" if isinstance(fields.op, str) else result_field("op", named)
    if op not in _PLACED:
        return Flaw("TG212", "'index' is where argmax and argmin lie", index, "remove it") if index in regions else None
    if index not in regions:
        write = f"index: {{{named}: i}}" if named else "index: i"
        other = f"{'op' if at == 'op' else named}: {op[3:]}"
        return Flaw("TG212", f"{op} says where it lies in 'index'", at, f"add '{write}', or take '{other}'")
    if fields.accumulate:
        return Flaw("TG212", f"{op} takes in nothing that dst held: where would it lie?", "accumulate", "remove it")
    roots = {regions[name].buffer.root: name for name in list_fields(regions, ("dst",))}
    if (same := roots.get(regions[index].buffer.root)) is not None:
        return Flaw("TG212", f"'{same}' and '{index}' are the same registers", index, "name another buffer")
    dtype = regions[index].buffer.dtype
    if DTYPES[dtype].kind not in ("int", "uint") or np.iinfo(dtype).max < extent - 1:
        message = f"'{index}' is {dtype}, which does not hold the places 0 to {extent - 1}"
        return Flaw("TG212", message, index, f"give '{regions[index].buffer.name}' int32")
    return None


def _op_of(fields: Any, result: str) -> str:
    """What a result is made by."""
    op: str = fields.op if isinstance(fields.op, str) else fields.op[name_of_result(result)]
    return op


def _index_of(result: str) -> str:
    """The field of the index of a result."""
    named = name_of_result(result)
    return result_field("index", named) if named else "index"


@dataclass(frozen=True)
class _Folded:
    """One result: the field that it is written to, what is reduced, in the type of that, and by which op.

    What dst held is one more number that elements meet.
    """

    dst: str
    tree: Node
    op: str

    @property
    def function(self) -> str:
        return _FUNCTIONS[self.op]


def _list_folded(call: Call) -> tuple[_Folded, ...]:
    written = list_fields(call.regions, ("dst",))
    if call.expression is None:
        trees: tuple[Node, ...] = (Element(0, call.regions["src"].buffer.dtype),) * len(written)
    else:
        trees = call.expression.trees
    found = []
    for dst, tree in zip(written, trees, strict=True):
        held = [type_of_element(call.regions[dst].buffer.dtype)] if call.fields.accumulate else []
        found.append(_Folded(dst, to_type(tree, common_type([tree.type, *held])), _op_of(call.fields, dst)))
    return tuple(found)


def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The elements along the axis taken together, and what dst held, for each result."""
    shape, domain, axis = _shape_of(call), here.domain, call.fields.axis + 1
    written: dict[str, Array] = {}
    for one in _list_folded(call):
        dst, tree = call.regions[one.dst], one.tree
        if call.expression is None:
            elements = domain.compute(tree, [values["src"].reshape(-1, *shape)], [], {}, tree.type)
        else:
            elements = evaluate_call(call, tree, values, here, shape, tree.type)
        found = domain.fold(one.function, elements, axis, tree.type).reshape(-1, *dst.shape)
        if call.fields.accumulate:
            before = values[one.dst].reshape(-1, *dst.shape)
            sides = to_type(Element(0, dst.buffer.dtype), tree.type), Element(1, tree.type)
            both = Apply(one.function, sides, tree.type)
            written[one.dst] = domain.compute(both, [before, found], [], {}, dst.buffer.dtype)
        else:
            written[one.dst] = domain.compute(Element(0, tree.type), [found], [], {}, dst.buffer.dtype)
        if _index_of(one.dst) in call.regions:
            written |= _find_index(call, one, elements, here)
    return written


def _find_index(call: Call, one: _Folded, elements: Array, here: Here) -> dict[str, Array]:
    """Where the first extreme of the elements lies along the axis: 0 where all are NaNs."""
    domain, axis, type_ = here.domain, call.fields.axis + 1, one.tree.type
    extent, index = elements.shape[axis], call.regions[_index_of(one.dst)]
    best = domain.fold(one.function, elements, axis, type_)
    along = np.arange(extent).reshape(*(extent if d == axis else 1 for d in range(1, elements.ndim)))
    at = Whole(0, INDEX) if extent > 1 else Number(0, INDEX)
    picked = pick_index(Element(0, type_), Element(1, type_), at, extent)
    found = domain.fold("min", domain.compute(picked, [elements, best], [along], {}, INDEX), axis, INDEX)
    settled = settle_index(Element(0, INDEX), extent)
    made = domain.compute(settled, [found], [], {}, index.buffer.dtype)
    return {_index_of(one.dst): made.reshape(-1, *index.shape)}


def _ranges(call: Call, values: Mapping[str, ValueRange | None], params: frozenset[str]) -> dict[str, ValueRange]:
    """Of each result, and of where extremes lie, which is always in the axis."""
    extent, found = _shape_of(call)[call.fields.axis], dict[str, ValueRange]()
    trees = (values["src"],) if call.expression is None else measure_trees(call, values, params)
    folded = _list_folded(call)
    for one, taken in zip(folded, trees if len(trees) == len(folded) else trees * len(folded), strict=True):
        if _index_of(one.dst) in call.regions:
            found[_index_of(one.dst)] = ValueRange(0, extent)
        dtype = call.regions[one.dst].buffer.dtype
        if taken is None or not (has_range(one.tree.type) and has_range(dtype)):
            continue
        made = _fold_range(one.function, fit_range(taken, one.tree.type), extent, one.tree.type)
        if call.fields.accumulate:
            before = values[one.dst]
            assert before is not None
            made = apply_to_ranges(one.function, [fit_range(before, one.tree.type), made], one.tree.type)
        found[one.dst] = clip_range(made, dtype)
    return found


def _fold_range(function: str, own: ValueRange, extent: int, type_: str) -> ValueRange:
    """The range of a sum, a product or an extreme of so many numbers of a type."""
    if function == "+":
        return fit_range(sum_range(own, extent), type_)
    if function in ("max", "min"):
        return own
    is_small = set(own.numbers) <= {0, 1}
    return own if is_small else range_of_type(type_)


def _refuse(call: Call, context: Context) -> str | None:
    for region in call.written:
        if not region.buffer.traits.is_held:
            return f"the result is in registers, and {region.buffer.name} is not: reduce and then copy"
    return None


def _plan(call: Call, context: Context) -> Planned:
    shape, folded = _shape_of(call), _list_folded(call)
    if call.expression is None:
        sources: tuple[Operand, ...] = (stretch(context.operand(call, "src"), shape),)
    else:
        sources = stretch_all(call, context, shape, call.fields.cache)
    written = [_stretch_result(context.operand(call, name), call.fields.axis, shape) for name in call.fields_written]
    others = [o for o in sources if not o.memory.traits.is_held]
    long = [d for d, n in enumerate(shape) if n > 1]
    axis = long.index(call.fields.axis) if call.fields.axis in long else -1
    ops = dict.fromkeys(one.op for one in folded)
    name = "_".join([*ops, *dict.fromkeys(o.buffer.name for o in (*sources, *written))])
    computed = Computed(shape, (), call.expression.wholes if call.expression else ())

    def prepare(share: Share) -> PreparedShare:
        owned = own(context, share.owner, [*others, *written])
        split = split_threads(context, call, owned, axis)
        results = _list_results(call, context, owned, split, axis)

        return prepare_share(
            share, lambda cap: ElementLoop(context, call, owned, (*written, *sources), cap),
            lambda loop: Reduction(context, call, loop, split, axis, computed, results).block(name),
        )  # fmt: skip

    best, taken = choose_share(context, call, list_shares(context, call, sources, shape), prepare)
    split = split_threads(context, call, best.owned, axis)
    order = Choice("order", _say_order(best.owned, split), (), f"registers and {split.word} ascending, lanes by xor")
    results = _list_results(call, context, best.owned, split, axis)
    scratches = tuple(r.scratch.memory for r in results if r.scratch is not None)
    return Planned((taken.block,), taken.cost, (order, *taken.choices), taken.pins, scratches, taken.counted)


def _list_results(call: Call, context: Context, owned: Ownership, split: Split, axis: int) -> tuple[FoldResult, ...]:
    """What the threads that own the elements so make: each result, and where those lie that say so.

    Results that are made side by side have shared memory side by side; indices, which come after them, the same again.
    """
    count = prod(n for d, n in enumerate(_shape_of(call)) if d != call.fields.axis)
    folded = {one.dst: one for one in _list_folded(call)}
    numbers = {_index_of(name): k for k, name in enumerate(folded)}
    results, first = list[FoldResult](), {False: 0, True: 0}
    for k, name in enumerate(call.fields_written):
        apart, best = own(context, context.operand(call, name), []), numbers.get(name)
        is_alike, is_index = is_held_alike(context, call.scope, owned, apart, axis), best is not None
        one = folded[call.fields_written[k if best is None else best]]
        function, type_ = ("min", INDEX) if is_index else (one.function, one.tree.type)
        scratch = None
        if split.parts > 1 or not is_alike:
            scratch = Scratch(context, call.scope, type_, count * split.parts, first[is_index])
            first[is_index] = scratch.end
        held = None if is_alike else apart
        results.append(FoldResult(function, type_, k, one.tree, best, held, scratch, name_of_result(name)))
    return tuple(results)


def _say_order(owned: Ownership, split: Split) -> dict[str, Any]:
    return {"registers": owned.count, "lanes": list(split.lanes), split.word: split.parts}


def _stretch_result(dst: Operand, axis: int, shape: tuple[int, ...]) -> Operand:
    """dst seen over the region that is reduced: along the axis it is always the same."""
    own = iter(dst.dims)
    dims = tuple(STRETCHED if d == axis else next(own) for d, n in enumerate(shape) if n > 1)
    return replace(dst, dims=dims, extents=tuple(n for n in shape if n > 1))


def _list_flows(call: Call) -> tuple[Flow, ...]:
    """The tile that is reduced, and that of the results: where several are delivered, it is best to the same owners."""
    written = call.fields_written
    sources = [f for f in call.fields_read if f not in written]
    results = broadcast(call, written, call.regions[written[0]].shape) if len(written) > 1 else ()
    alike = (replace(flow, delivered=written) for flow in results)
    return (*reduced(call, sources, written, call.fields.axis), *alike)


OP = Op(
    "reduce", ReduceFields, reads=("src",), writes=_WRITTEN, several=_WRITTEN, optional=("src", "index"), edge="edge",
    pad="pad", expression="expr", named="with", takes_written=lambda fields: fields.accumulate, check=_check,
    check_dtypes=refuse_uncomputed,
    extents=lambda fields, regions, operands: span_shapes(operands), reference=_reference, exactness=COMPUTES,
    variants=(Variant("threads", 20, _refuse, _plan, pins=("width", "partition"), has_scratch=True),),
    flows=lambda call, threads: _list_flows(call), ranges=_ranges,
)  # fmt: skip
