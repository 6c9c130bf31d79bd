"""How threads reduce what they own: own elements, then lanes that exchange, then parts through shared memory.

A thread takes its own elements in the order of its registers; then lanes 1, 2, 4, 8 and 16 apart exchange what they
have; then what warps have, and threads that no exchange of lanes reaches, is taken in ascending order, through shared
memory of the op's own. So every thread that holds a result holds the same bits, and the order is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from tilegen.arithmetic import Apply, Element, Literal, Node, Whole, to_type
from tilegen.dtypes import DTYPES
from tilegen.index import Index, Var, add, div, equal, every, mod, mul
from tilegen.index.runs import counter
from tilegen.layouts import Iter, tile_of
from tilegen.ops.computing import Computed, ElementLoop
from tilegen.ops.digits import join_number, keep_digits, spread_digits
from tilegen.ops.operand import Context, Refused
from tilegen.ops.ownership import Ownership, as_int
from tilegen.ops.scratch import PART_BYTES, Scratch
from tilegen.ops.thread_loop import over
from tilegen.plan import FILL, Block, Compute, Map, Memory, Move, Ref, Repeat, Shuffle, Step, Sync, when
from tilegen.scopes import SCOPES, THREAD_AXES, threads_of
from tilegen.spec.data import Call
from tilegen.spec.formulas import coordinate

_WARP = SCOPES["warp"].threads
INDEX = "int32"  # the type of indices on the way


# ---------------------------------------------------------------- who takes part
@dataclass(frozen=True)
class Split:
    """The reduced digits of a thread's number: how far apart the lanes are that exchange, and the parts of a result.

    What lanes cannot exchange is left in parts: by whole warps, or by single threads. ``inside`` is the number of a
    thread's part among those of its result; ``lowest``: the thread's lanes are the first of it.
    """

    lanes: tuple[int, ...]
    parts: int
    inside: Index
    lowest: Index
    word: str  # warps or parts: what a result's parts are


def split_threads(context: Context, call: Call, owned: Ownership, axis: int) -> Split:
    """Which lanes exchange what they have of a result, and which parts are then left."""
    number, count = threads_of(call.scope, context.launch.threads)
    digits = []
    for d in owned.digits:
        if len({p[0] == axis for p in d.places}) > 1:
            raise Refused("the reduced dimension and another share a digit of the layout")
        if d.axes[0] != "m":
            digits.append((as_int(d.strides[0]) * THREAD_AXES[d.axes[0]].unit, d.extent, d.places[0][0] == axis))
    copies = [(as_int(i.stride) * THREAD_AXES[i.axis].unit, as_int(i.extent), False) for i in list_copies(owned)]
    lanes: list[int] = []
    parts, are_warps = 1, True
    lowest: list[Index] = []
    inside: Index = 0
    for stride, extent, is_reduced in sorted(digits):
        if not is_reduced or extent == 1:
            continue
        reach = 0 if count % _WARP else reach_of_lanes([*digits, *copies], stride, extent)
        if reach:
            lanes += [1 << k for k in range(stride.bit_length() - 1, reach.bit_length() - 1)]
            lowest.append(equal(mod(div(number, stride), reach // stride), 0))
            if stride * extent <= _WARP:
                continue
            stride, extent = _WARP, -(-stride * extent // _WARP)
        are_warps = are_warps and stride % _WARP == 0
        part = div(number, stride)
        inside = add(inside, mul(mod(part, extent) if stride * extent < count else part, parts))
        parts *= extent
    return Split(tuple(lanes), parts, inside, every(*lowest), "warps" if are_warps else "parts")


def list_copies(owned: Ownership) -> Iterator[Iter]:
    """The iters of the threads that hold copies."""
    return (i for i in tile_of(owned.operand.buffer.layout).replica if i.axis != "m")


def reach_of_lanes(digits: Sequence[tuple[int, int, bool]], stride: int, extent: int) -> int:
    """The end of the lanes, from 0 on, among which a reduced digit is exchanged by xor; 0 where it cannot be.

    Lanes of an exchange are 1, 2, 4, .. apart, those included that hold nothing, and hold parts of one result.
    """
    top = stride * extent
    if stride >= _WARP or stride & (stride - 1):
        return 0
    reach = min(_WARP, 1 << (top - 1).bit_length())
    others = [other for other, n, _ in digits if n > 1 and other > stride]
    if any(other < reach for other in others):
        return 0
    is_torn = top > _WARP and any(other >= top and other % _WARP for other in others)
    return 0 if is_torn else reach


# ---------------------------------------------------------------- steps
def pick_index(element: Node, best: Node, at: Node, extent: int) -> Node:
    """The index of an element that is the best, and ``extent`` of any other: the least of all is the first best."""
    is_best = Apply("==", (element, best), "bool")
    return Apply("where", (is_best, at, Literal(extent, INDEX)), INDEX)


def settle_index(found: Node, extent: int) -> Node:
    """The index that was found: 0 where no element equals the best, as of NaNs alone."""
    return Apply("where", (Apply("==", (found, Literal(extent, INDEX)), "bool"), Literal(0, INDEX), found), INDEX)


@dataclass(frozen=True)
class FoldResult:
    """What a reduction makes by a function of numbers of ``type``, for the operand of the loop that is written.

    ``value``: what is reduced. ``best``: the number of the result of which this one is the index: not of the elements,
    but of where those lie that equal it; None for others. ``apart``: the ownership of what is written, where others
    hold results than the threads that hold their elements. ``scratch``: of the parts. ``name``: of one of several.
    """

    function: str
    type: str
    operand: int
    value: Node
    best: int | None
    apart: Ownership | None
    scratch: Scratch | None
    name: str = ""


@dataclass(frozen=True)
class Reduction:
    """One function: the elements of a thread, who shares a result, and where it lies on the way."""

    context: Context
    call: Call
    loop: ElementLoop
    split: Split
    axis: int  # among the dimensions longer than 1; -1 where there is nothing to reduce
    computed: Computed
    results: tuple[FoldResult, ...]  # an index after that of which it is

    @property
    def extent(self) -> int:
        """Elements of a result."""
        axis: int = self.call.fields.axis
        return self.computed.shape[axis]

    @property
    def sources(self) -> range:
        return range(len(self.results), len(self.loop.operands))

    @property
    def kept(self) -> tuple[int, ...]:
        """Of the walked digits, those that are not reduced."""
        owned = self.loop.owned
        return tuple(k for k, w in enumerate(owned.walked) if owned.digits[w].places[0][0] != self.axis)

    @property
    def count(self) -> int:
        """Results of one kind that a thread takes part in."""
        return prod(self.loop.owned.extents[k] for k in self.kept)

    def result_of(self, number: Index) -> Index:
        """The number of an element's result among those of its thread."""
        return keep_digits(number, self.loop.owned.extents, self.kept)

    def first_of(self, result: Index) -> Index:
        """The number of the first element of a result."""
        return spread_digits(result, self.loop.owned.extents, self.kept)

    def block(self, name: str) -> Block:
        loop, registers, steps = self.loop, list(self.loop.registers), list[Step]()
        found: dict[int, Memory] = {}
        for wave in self._list_waves():
            loads = () if found else loop.access(self.sources, is_load=True)
            found |= self._fold(wave, loads, found, registers, steps)
        for k, result in enumerate(self.results):  # dst may be among what was read
            if result.apart is None:
                steps += loop.owned.guard(self._finish_each(result, found[k]))
        return loop.formals.block(name, tuple(steps), self.context.op, tuple(registers))

    def _list_waves(self) -> list[list[int]]:
        """The numbers of results that are made side by side: all but indices, and then these."""
        numbers = range(len(self.results))
        waves = ([k for k in numbers if (self.results[k].best is not None) == is_index] for is_index in (False, True))
        return [wave for wave in waves if wave]

    def _fold(
        self, wave: Sequence[int], loads: tuple[Step, ...], before: Mapping[int, Memory], registers: list[Memory],
        steps: list[Step],
    ) -> dict[int, Memory]:  # fmt: skip
        """The registers of results that are made side by side, whose steps and registers are added.

        ``loads``: what is loaded before; ``before``: the registers of other results. All of a thread's elements are
        gone through once, and threads meet once for all results.
        """
        loop, owned = self.loop, self.loop.owned

        def new(what: str, k: int, count: int) -> Memory:
            result = self.results[k]
            words = ("index" if result.best is not None else "", result.name, what)
            registers.append(loop.new_registers("_".join(filter(None, words)), result.type, count))
            return registers[-1]

        made = {k: new("acc", k, self.count) for k in wave}
        for k, acc in made.items():
            steps.append(Map(FILL, acc[0], (), self.count, identity_of(self.results[k].function, acc.dtype)))
        own = tuple(self._take_own(self.results[k], acc, before) for k, acc in made.items())
        steps += owned.guard((*loads, *loop.repeat(own)))
        if self.split.lanes:
            others = {k: new("other", k, 1) for k in wave}
            steps += self._each(lambda n: [
                step for lanes in self.split.lanes for k, acc in made.items()
                for step in (Shuffle(others[k][0], acc[n], lanes), _take(self.results[k], acc[n], others[k][0]))
            ])  # fmt: skip
        left = {k: acc for k, acc in made.items() if self.results[k].scratch is not None}
        if left:
            parts = {k: new("parts", k, self._part_width(k) if self._is_long else self.split.parts) for k in left}
            steps += self._leave(left)
            for k in left:
                apart = self.results[k].apart
                if apart is not None:
                    steps += apart.guard(self._deliver(k, new("total", k, 1), parts[k]))
            taken = [k for k in left if self.results[k].apart is None or any(r.best == k for r in self.results)]
            steps += owned.guard(self._each_held(lambda n: [
                step for k in taken for step in self._take_parts(k, left[k][n], self._place(n), parts[k])
            ])) if taken else ()  # fmt: skip
        return made

    def _each(self, body: Callable[[Index], Sequence[Step]]) -> tuple[Step, ...]:
        """``body`` for each result of the thread."""
        k = counter(self.loop.owned.step, self.count)
        return over(k, tuple(body(k)))

    def _each_held(self, body: Callable[[Index], Sequence[Step]]) -> tuple[Step, ...]:
        """``body`` for each result of the thread that the region has; lanes exchange all of theirs."""
        owned = self.loop.owned

        def guard(k: Index) -> tuple[Step, ...]:
            at, _ = owned.element(self.first_of(k))
            return when(owned.holds([0 if d == self.axis else x for d, x in enumerate(at)]), *body(k))

        return self._each(guard)

    def _take_own(self, result: FoldResult, acc: Memory, before: Mapping[int, Memory]) -> Step:
        """The element that the loop is at, taken into its result."""
        loop, at = self.loop, self.result_of(self.loop.number)
        held, value, computed = list(map(loop.see, self.sources)), result.value, self.computed
        if result.best is not None:
            best = before[result.best]
            d, wholes = self.call.fields.axis, computed.wholes
            along = Whole(len(wholes), INDEX) if self.extent > 1 else Literal(0, INDEX)
            value = pick_index(value, Element(len(held), best.dtype), along, self.extent)
            held.append(best[at])
            if self.extent > 1:
                computed = Computed(computed.shape, (), (*wholes, coordinate(d, self.extent)))
        both = Apply(result.function, (Element(len(held), acc.dtype), value), result.type)
        return Compute(acc[at], both, (*held, acc[at]), loop.wholes(computed))

    def _leave(self, left: Mapping[int, Memory]) -> Iterator[Step]:
        """The first lane of those that exchanged leaves what they have of each result, and all meet."""

        def leave(n: Index) -> list[Step]:
            place = add(mul(self._place(n), self.split.parts), self.split.inside)
            return [Move(self.results[k].scratch[place], acc[n]) for k, acc in left.items()]  # type: ignore[index]

        yield Sync(self.call.scope)
        yield from self.loop.owned.guard(when(self.split.lowest, *self._each_held(leave)), stores=True)
        yield Sync(self.call.scope)

    @property
    def _is_long(self) -> bool:
        """Has a result more parts than a thread takes into registers at once?"""
        return self.split.parts > _WARP

    def _part_width(self, k: int) -> int:
        return gcd(self.split.parts, PART_BYTES // DTYPES[self.results[k].type].bytes)

    def _take_parts(self, k: int, into: Ref, place: Index, parts: Memory) -> list[Step]:
        """What was left of the result of kind ``k`` and number ``place``, taken in the order of its parts."""
        result = self.results[k]
        assert result.scratch is not None
        count, width = self.split.parts, self._part_width(k)
        chunk = Var(self.context.fresh("w"), count // width)
        at = mul(chunk, width) if count > width else 0
        load: Step = Move(parts[0 if self._is_long else at], result.scratch[add(mul(place, count), at)], width)
        if self._is_long:
            taken = (_take(result, into, parts[n]) for n in range(width))
            fill = Map(FILL, into, (), 1, identity_of(result.function, result.type))
            return [fill, Repeat(chunk, count // width, (load, *taken))]
        loads = (Repeat(chunk, count // width, (load,), True),) if count > width else (load,)
        number = Var(self.context.fresh("w"), count - 1)
        rest = _take(result, into, parts[add(number, 1)] if count > 2 else parts[1])
        others = (Repeat(number, count - 1, (rest,), True),) if count > 2 else (rest,) if count > 1 else ()
        return [*loads, Move(into, parts[0]), *others]

    def _deliver(self, k: int, total: Memory, parts: Memory) -> tuple[Step, ...]:
        """Each owner of results takes those that it holds."""
        result, apart = self.results[k], self.results[k].apart
        assert apart is not None
        n = apart.number()
        at, slot = apart.element(n)
        own = apart.operand
        side = next(side for side, o in enumerate(self.loop.distinct) if o.memory == own.memory)
        taken = self._take_parts(k, total[0], join_number(at, own.lengths), parts)
        finish = self._finish(result, total[0], self.loop.formals.see(side, own.memory[slot]))
        body = when(apart.holds(at), *taken, finish)
        return over(n, body)

    def _place(self, k: Index) -> Index:
        """The number of a result among all of the instance."""
        at, _ = self.loop.owned.element(self.first_of(k))
        lengths = self.loop.owned.operand.lengths
        left = [d for d in range(len(lengths)) if d != self.axis]
        return join_number([at[d] for d in left], [lengths[d] for d in left])

    def _finish_each(self, result: FoldResult, acc: Memory) -> tuple[Step, ...]:
        """What threads hold of the results that they took part in, written."""
        see = self.loop.see
        return self._each_held(lambda k: [self._finish(result, acc[k], see(result.operand, self.first_of(k)))])

    def _finish(self, result: FoldResult, value: Ref, dst: Ref) -> Step:
        own = Element(0, value.memory.dtype)
        if result.best is not None:
            return Compute(dst, settle_index(own, self.extent), (value,))
        if self.call.fields.accumulate:
            dtype = value.memory.dtype
            before = to_type(Element(0, dst.memory.dtype), dtype)
            return Compute(dst, Apply(result.function, (before, Element(1, dtype)), dtype), (dst, value))
        return Compute(dst, own, (value,))


def _take(result: FoldResult, into: Ref, value: Ref) -> Step:
    """into = function(into, value)."""
    dtype = into.memory.dtype
    return Compute(into, Apply(result.function, (Element(0, dtype), Element(1, dtype)), result.type), (into, value))


def identity_of(function: str, dtype: str) -> float | int:
    """What changes nothing: where a function has no such number, the last one of the dtype."""
    if function in ("+", "*"):
        return 0 if function == "+" else 1
    sign = -1 if function == "max" else 1
    if dtype in ("float32", "float64"):
        return sign * float("inf")
    return int(np.iinfo(dtype).min if sign < 0 else np.iinfo(dtype).max)
