"""reduce: the sum, maximum, minimum or product along one dimension, which stays as an extent of 1.

A thread takes its own elements in the order of its registers; then lanes 1, 2, 4, 8 and 16 apart exchange what they
have; then the results of the warps are taken in ascending order, through shared memory of the op's own. So every
thread that holds a result holds the same bits, and the order is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any, Literal

import numpy as np
from pydantic import Field

from tilegen.arithmetic import Apply, Element, Node, type_of_element
from tilegen.decisions import Choice
from tilegen.index import Index, Var, add, div, equal, every, mod, mul
from tilegen.ops.computing import Computed, ElementLoop, stretch, stretch_all
from tilegen.ops.digits import join_number, split_number
from tilegen.ops.elementwise import check_broadcast, evaluate_call
from tilegen.ops.flows import reduced, span_shapes
from tilegen.ops.op import COMPUTES, Array, Here, Op, Planned, Variant, refuse_uncomputed
from tilegen.ops.operand import STRETCHED, Context, Operand, Refused
from tilegen.ops.ownership import Ownership, as_int, own
from tilegen.ops.pins import MostWidth, SharePin
from tilegen.ops.scratch import PART_BYTES, Scratch
from tilegen.ops.shares import PreparedShare, Share, choose_share, list_shares
from tilegen.plan import FILL, Block, Compute, Map, Memory, Move, Ref, Repeat, Shuffle, Step, Sync, when
from tilegen.scopes import SCOPES, THREAD_AXES, threads_of
from tilegen.spec.data import Call, Expression, Region
from tilegen.spec.form import OpFields
from tilegen.spec.formulas import common_type, to_type

_WARP = SCOPES["warp"].threads
_FUNCTIONS = {"sum": "+", "prod": "*", "max": "max", "min": "min"}


class ReduceFields(OpFields):
    src: str | None = Field(default=None, description="region read, in any memory")
    expr: str | None = Field(default=None, description="in place of src: what is reduced, as of elementwise")
    named: dict[str, str] = Field(default={}, alias="with", description="name: region, for names that expr uses")
    dst: str = Field(description="register region written: of the source's shape, with an extent of 1 along axis")
    axis: int = Field(ge=0, description="the dimension that is reduced")
    op: Literal["sum", "max", "min", "prod"] = Field(description="what is made of its elements")
    accumulate: bool = Field(default=False, description="true: what dst holds is taken in, last")
    edge: Literal["error", "clip"] = Field(default="error", description="clip: reads past the edge of an array give 0")
    cache: Literal["default", "stream"] = Field(
        default="default", description="stream: no element is touched again, so the L2 need not keep global ones"
    )
    width: MostWidth = None
    partition: SharePin = None


def _shape_of(call: Call) -> tuple[int, ...]:
    if call.expression is None:
        return call.regions["src"].shape
    return span_shapes(tuple(call.expression.operands.values()))


def _check(fields: Any, regions: Mapping[str, Region], expression: Expression | None) -> tuple[str, str, str] | None:
    if ("src" in regions) == (expression is not None):
        return "reduce takes one of 'src' and 'expr'", "expr", "write 'src: x' or 'expr: \"x * x\"'"
    place = "src" if expression is None else "expr"
    operands = {"src": regions["src"]} if expression is None else expression.operands
    if not operands:
        return "nothing that has elements is reduced", place, "name a buffer"
    shape = span_shapes(tuple(operands.values()))
    wrong = check_broadcast(shape, operands, place)
    if wrong:
        return wrong
    if fields.axis >= len(shape):
        return f"'axis' is {fields.axis}, and the shape is {list(shape)}", "axis", f"0 to {len(shape) - 1}"
    wanted = tuple(1 if d == fields.axis else n for d, n in enumerate(shape))
    own = regions["dst"].shape
    if tuple(n for n in own if n > 1) != tuple(n for n in wanted if n > 1) or len(own) > len(wanted):
        return f"'dst' has the shape {list(own)}, and {list(wanted)} is left", "dst", "keep the axis as an extent of 1"
    return None


def _tree(call: Call) -> Node:
    """What is reduced, in the type of the reduction: what dst held is one more number that elements meet."""
    tree = call.expression.tree if call.expression else Element(0, call.regions["src"].buffer.dtype)
    held = [type_of_element(call.regions["dst"].buffer.dtype)] if call.fields.accumulate else []
    return to_type(tree, common_type([tree.type, *held]))


def _reference(call: Call, values: Mapping[str, Array], here: Here) -> dict[str, Array]:
    """The elements along the axis taken together, and what dst held."""
    shape, dst = _shape_of(call), call.regions["dst"]
    tree, domain = _tree(call), here.domain
    if call.expression is None:
        elements = domain.compute(tree, [values["src"].reshape(-1, *shape)], [], {}, tree.type)
    else:
        elements = evaluate_call(call, tree, values, here, shape, tree.type)
    function, axis = _FUNCTIONS[call.fields.op], call.fields.axis + 1
    found = domain.fold(function, elements, axis, tree.type).reshape(-1, *dst.shape)
    if not call.fields.accumulate:
        return {"dst": domain.compute(Element(0, tree.type), [found], [], {}, dst.buffer.dtype)}
    before = values["dst"].reshape(-1, *dst.shape)
    both = Apply(function, (to_type(Element(0, dst.buffer.dtype), tree.type), Element(1, tree.type)), tree.type)
    return {"dst": domain.compute(both, [before, found], [], {}, dst.buffer.dtype)}


# ---------------------------------------------------------------- who takes part
@dataclass(frozen=True)
class _Split:
    """The reduced digits of a thread's number: how far apart the lanes are that exchange, and the warps to take in.

    ``inside`` is the number of a warp among those of one result; ``lowest``: the thread's lanes are the first of it.
    """

    lanes: tuple[int, ...]
    warps: int
    inside: Index
    lowest: Index


def _split_threads(context: Context, call: Call, owned: Ownership, axis: int) -> _Split:
    """Which lanes and warps share a result. Raises Refused where lanes are not 1, 2, 4, .. apart."""
    number, count = threads_of(call.scope, context.launch.threads)
    digits = []
    for d in owned.digits:
        if len({p[0] == axis for p in d.places}) > 1:
            raise Refused("the reduced dimension and another share a digit of the layout")
        if d.axes[0] != "m":
            stride = as_int(d.strides[0]) * THREAD_AXES[d.axes[0]].unit
            digits.append((stride, d.extent, d.places[0][0] == axis))
    lanes: list[int] = []
    warps = 1
    lowest: list[Index] = []
    inside: Index = 0
    for stride, extent, is_reduced in sorted(digits):
        if not is_reduced or extent == 1:
            continue
        top = stride * extent
        if stride < _WARP:
            if stride & (stride - 1):
                raise Refused(f"lanes {stride} apart hold what is reduced, which no exchange of lanes reaches")
            reach = min(_WARP, 1 << (top - 1).bit_length())
            _check_free(digits, stride, reach)
            lanes += [1 << k for k in range(stride.bit_length() - 1, reach.bit_length() - 1)]
            lowest.append(equal(mod(div(number, stride), reach // stride), 0))
            if top <= _WARP:
                continue
            _check_whole(digits, top)
            stride, extent = _WARP, -(-top // _WARP)
        if stride % _WARP:
            raise Refused(f"threads {stride} apart hold what is reduced, which are no whole warps")
        warp = div(number, stride)
        inside = add(inside, mul(mod(warp, extent) if stride * extent < count else warp, warps))
        warps *= extent
    if lanes and count % _WARP:
        raise Refused(f"lanes exchange what is reduced, and {count} threads are no whole warps")
    return _Split(tuple(lanes), warps, inside, every(*lowest))


def _check_free(digits: list[tuple[int, int, bool]], stride: int, reach: int) -> None:
    """No other digit lies among the lanes that exchange, those included that hold nothing."""
    for other, extent, is_reduced in digits:
        if not is_reduced and extent > 1 and stride < other < reach:
            raise Refused("lanes of other results lie among those that would exchange")


def _check_whole(digits: list[tuple[int, int, bool]], top: int) -> None:
    """Beyond a warp, whole warps hold what makes a result: none of them has lanes of another."""
    for other, extent, is_reduced in digits:
        if not is_reduced and extent > 1 and other >= top and other % _WARP:
            raise Refused(f"the next result begins at thread {other}, inside a warp whose lanes would exchange")


# ---------------------------------------------------------------- steps
@dataclass(frozen=True)
class _Reduction:
    """One function: the elements of a thread, who shares a result, and where it lies on the way."""

    context: Context
    call: Call
    loop: ElementLoop
    split: _Split
    axis: int  # among the dimensions longer than 1; -1 where there is nothing to reduce
    tree: Node

    @property
    def function(self) -> str:
        return _FUNCTIONS[self.call.fields.op]

    @property
    def kept(self) -> tuple[int, ...]:
        """Of the walked digits, those that are not reduced."""
        owned = self.loop.owned
        return tuple(k for k, w in enumerate(owned.walked) if owned.digits[w].places[0][0] != self.axis)

    @property
    def kept_extents(self) -> tuple[int, ...]:
        return tuple(self.loop.owned.extents[k] for k in self.kept)

    @property
    def results(self) -> int:
        """Results that a thread takes part in."""
        return prod(self.kept_extents)

    def result_of(self, number: Index) -> Index:
        """The number of an element's result among those of its thread."""
        values = split_number(number, self.loop.owned.extents)
        return join_number([values[k] for k in self.kept], self.kept_extents)

    def first_of(self, result: Index) -> Index:
        """The number of the first element of a result."""
        values = dict(zip(self.kept, split_number(result, self.kept_extents), strict=True))
        extents = self.loop.owned.extents
        return join_number([values.get(k, 0) for k in range(len(extents))], extents)

    def take(self, into: Ref, value: Ref) -> Step:
        """into = function(into, value)."""
        dtype = into.memory.dtype
        both = Apply(self.function, (Element(0, dtype), Element(1, dtype)), self.tree.type)
        return Compute(into, both, (into, value))

    def block(self, name: str, scratch: Scratch | None) -> Block:
        loop, registers, acc_type = self.loop, list(self.loop.registers), self.tree.type
        acc = loop.new_registers("acc", acc_type, self.results)
        registers.append(acc)
        steps: list[Step] = [Map(FILL, acc[0], (), self.results, _identity(self.function, acc.dtype))]
        steps += loop.owned.guard((*loop.loads(range(1, len(loop.operands))), *loop.repeat((self._take_own(acc),))))
        if self.split.lanes:
            other = loop.new_registers("other", acc_type, 1)
            registers.append(other)
            steps += self._each(lambda k: [
                step for lanes in self.split.lanes
                for step in (Shuffle(other[0], acc[k], lanes), self.take(acc[k], other[0]))
            ])  # fmt: skip
        if scratch is not None:
            parts = loop.new_registers("parts", acc_type, self.split.warps)
            registers.append(parts)
            steps += self._meet(acc, parts, scratch)
        steps += loop.owned.guard(self._each_held(lambda k: [self._finish(acc[k], self.first_of(k))]))
        return loop.formals.block(name, tuple(steps), self.context.op, tuple(registers))

    def _each(self, body: Callable[[Index], Sequence[Step]]) -> tuple[Step, ...]:
        """``body`` for each result of the thread."""
        k = Var(self.loop.owned.step, self.results) if self.results > 1 else 0
        steps = tuple(body(k))
        return (Repeat(k, self.results, steps, True),) if isinstance(k, Var) else steps

    def _each_held(self, body: Callable[[Index], Sequence[Step]]) -> tuple[Step, ...]:
        """``body`` for each result of the thread that the region has; lanes exchange all of theirs."""
        owned = self.loop.owned

        def guard(k: Index) -> tuple[Step, ...]:
            at, _ = owned.element(self.first_of(k))
            return when(owned.holds([0 if d == self.axis else x for d, x in enumerate(at)]), *body(k))

        return self._each(guard)

    def _take_own(self, acc: Memory) -> Step:
        """The element that the loop is at, taken into its result."""
        loop, sources = self.loop, range(1, len(self.loop.operands))
        into = acc[self.result_of(loop.number)]
        elements = len(loop.operands) - 1
        both = Apply(self.function, (Element(elements, acc.dtype), self.tree), self.tree.type)
        wholes = loop.wholes(self.computed)
        return Compute(into, both, (*map(loop.see, sources), into), wholes)

    @property
    def computed(self) -> Computed:
        expression = self.call.expression
        return Computed(_shape_of(self.call), (), expression.wholes if expression else ())

    def _meet(self, acc: Memory, parts: Memory, scratch: Scratch) -> Iterator[Step]:
        """The first lane of each warp leaves what its warp has; all take in what the warps left, in their order."""
        owned, warps = self.loop.owned, self.split.warps
        width = gcd(warps, PART_BYTES // acc.elem_bytes)
        chunk = Var(self.context.fresh("w"), warps // width)
        at = mul(chunk, width) if warps > width else 0

        def leave(k: Index) -> list[Step]:
            place = add(mul(self._place(k), warps), self.split.inside)
            return [Move(scratch[place], acc[k])]

        def take(k: Index) -> list[Step]:
            load: Step = Move(parts[at], scratch[add(mul(self._place(k), warps), at)], width)
            loads = (Repeat(chunk, warps // width, (load,), True),) if warps > width else (load,)
            number = Var(self.context.fresh("w"), warps - 1)
            rest: Step = self.take(acc[k], parts[add(number, 1)] if warps > 2 else parts[1])
            others: Step = Repeat(number, warps - 1, (rest,), True) if warps > 2 else rest
            return [*loads, Move(acc[k], parts[0]), others]

        yield Sync(self.call.scope)
        yield from owned.guard(when(self.split.lowest, *self._each_held(leave)), stores=True)
        yield Sync(self.call.scope)
        yield from owned.guard(self._each_held(take))

    def _place(self, k: Index) -> Index:
        """The number of a result among all of the instance."""
        at, _ = self.loop.owned.element(self.first_of(k))
        lengths = self.loop.owned.operand.lengths
        left = [d for d in range(len(lengths)) if d != self.axis]
        return join_number([at[d] for d in left], [lengths[d] for d in left])

    def _finish(self, value: Ref, number: Index) -> Step:
        dst = self.loop.see(0, number)
        if self.call.fields.accumulate:
            own, dtype = Element(0, dst.memory.dtype), value.memory.dtype
            before = to_type(own, dtype)
            return Compute(dst, Apply(self.function, (before, Element(1, dtype)), dtype), (dst, value))
        return Compute(dst, Element(0, value.memory.dtype), (value,))


def _identity(function: str, dtype: str) -> float | int:
    """What changes nothing: where a function has no such number, the last one of the dtype."""
    if function in ("+", "*"):
        return 0 if function == "+" else 1
    sign = -1 if function == "max" else 1
    if dtype in ("float32", "float64"):
        return sign * float("inf")
    return int(np.iinfo(dtype).min if sign < 0 else np.iinfo(dtype).max)


def _refuse(call: Call, context: Context) -> str | None:
    if call.regions["dst"].buffer.scope != "register":
        return f"the result is in registers, and {call.regions['dst'].buffer.name} is not: reduce and then copy"
    return None


def _plan(call: Call, context: Context) -> Planned:
    shape, tree = _shape_of(call), _tree(call)
    if call.expression is None:
        sources: tuple[Operand, ...] = (stretch(context.operand(call, "src"), shape),)
    else:
        sources = stretch_all(call, context, shape, call.fields.cache)
    dst = _stretch_result(context.operand(call, "dst"), call.fields.axis, shape)
    others = [o for o in sources if o.memory.space != "register"]
    long = [d for d, n in enumerate(shape) if n > 1]
    axis = long.index(call.fields.axis) if call.fields.axis in long else -1
    count = prod(n for d, n in enumerate(shape) if d != call.fields.axis)
    name = "_".join([call.fields.op, *dict.fromkeys(o.buffer.name for o in sources), dst.buffer.name])

    def split_by(owned: Ownership) -> tuple[_Split, Scratch | None]:
        split = _split_threads(context, call, owned, axis)
        several = split.warps > 1
        return split, Scratch(context, call.scope, tree.type, count * split.warps) if several else None

    def prepare(share: Share) -> PreparedShare:
        owned = own(context, share.owner, [*others, dst])
        split, scratch = split_by(owned)

        def build(cap: int) -> Block:
            loop = ElementLoop(context, call, owned, (dst, *sources), cap)
            return _Reduction(context, call, loop, split, axis, tree).block(name, scratch)

        return PreparedShare(share, owned, build)

    best, taken = choose_share(context, call, others, list_shares(context, call, sources, shape), prepare)
    split, scratch = split_by(best.owned)
    order = Choice("order", _say_order(best.owned, split), (), "registers and warps ascending, lanes by xor")
    return Planned(
        (taken.block,), taken.cost, (order, *taken.choices), taken.pins, (scratch.memory,) if scratch else ()
    )


def _say_order(owned: Ownership, split: _Split) -> dict[str, Any]:
    return {"registers": owned.count, "lanes": list(split.lanes), "warps": split.warps}


def _stretch_result(dst: Operand, axis: int, shape: tuple[int, ...]) -> Operand:
    """dst seen over the region that is reduced: along the axis it is always the same."""
    own = iter(dst.dims)
    dims = tuple(STRETCHED if d == axis else next(own) for d, n in enumerate(shape) if n > 1)
    return replace(dst, dims=dims, extents=tuple(n for n in shape if n > 1))


OP = Op(
    "reduce", ReduceFields, reads=("src",), writes=("dst",), optional=("src",), edge="edge", expression="expr",
    named="with", takes_written=lambda fields: fields.accumulate, check=_check,
    check_dtypes=refuse_uncomputed,
    extents=lambda fields, regions, operands: span_shapes(operands), reference=_reference, exactness=COMPUTES,
    variants=(Variant("threads", 20, _refuse, _plan, pins=("width", "partition")),),
    flows=lambda call, threads: reduced(call, [f for f in call.fields_read if f != "dst"], "dst", call.fields.axis),
)  # fmt: skip
