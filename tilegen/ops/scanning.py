"""How threads scan what they own: own elements, then lanes that exchange, then parts through shared memory.

A thread takes its own elements in ascending order; then each lane takes what lanes 1, 2, 4, 8 and 16 before it have;
then what warps before have, and threads that no exchange of lanes reaches, is taken in ascending order, through shared
memory of the op's own. What lies before an element is joined so: the carry first, then those warps, then those lanes,
then own elements. A scan from the end goes the other way in all of this. The order is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd, prod

from tilegen.arithmetic import Apply, Element, Node, to_type
from tilegen.dtypes import DTYPES
from tilegen.index import Index, Var, add, div, equal, less, mod, mul, sub
from tilegen.ops.computing import Computed, ElementLoop
from tilegen.ops.digits import Digit, join_number, split_number
from tilegen.ops.folding import identity_of, list_copies, reach_of_lanes
from tilegen.ops.operand import Context, Refused
from tilegen.ops.ownership import Ownership, as_int
from tilegen.ops.scratch import PART_BYTES, Scratch
from tilegen.ops.thread_loop import over
from tilegen.plan import FILL, Block, Compute, Map, Memory, Move, Ref, Repeat, Shuffle, Step, Sync, when
from tilegen.scopes import SCOPES, THREAD_AXES, threads_of
from tilegen.spec.data import Call

_WARP = SCOPES["warp"].threads


class NotNeighbours(Refused):
    """A thread's own elements are no neighbours along the axis."""

    def __init__(self) -> None:
        super().__init__("a thread's own elements are no neighbours along the axis")


# ---------------------------------------------------------------- who takes part
@dataclass(frozen=True)
class Line:
    """How the elements of a row are dealt out along the axis: own ones, then lanes, then parts, all ascending.

    ``unit``: how far apart the lanes are that follow each other, ``lanes`` how many, 1 where none exchange; ``lane``:
    the number of a thread's lane among them. ``inside``: the number of its part among the ``parts``. ``own``: positions
    among the walked digits that are along the axis, the outermost first.
    """

    unit: int
    lanes: int
    lane: Index
    parts: int
    inside: Index
    own: tuple[int, ...]
    word: str  # warps or parts: what a row's parts are

    @property
    def distances(self) -> tuple[int, ...]:
        """How many lanes before it each takes from, in the order of that.

        >>> Line(1, 32, 0, 1, 0, (), "warps").distances
        (1, 2, 4, 8, 16)
        """
        return tuple(1 << k for k in range(self.lanes.bit_length() - 1))


@dataclass(frozen=True)
class _Place:
    """So many neighbours ``weight`` apart along the axis, ``stride`` threads from one to the next."""

    weight: int
    extent: int
    stride: int


def find_line(context: Context, call: Call, owned: Ownership, axis: int) -> Line:
    """Who has what of a row. Raises NotNeighbours, and Refused where a digit is shared."""
    number, count = threads_of(call.scope, context.launch.threads)
    own, places, others = list[int](), list[_Place](), list[tuple[int, int, bool]]()
    for k, d in enumerate(owned.digits):
        dims = {p[0] for p in d.places if p[2] > 1}
        if d.axes[0] != "m":
            stride = as_int(d.strides[0]) * THREAD_AXES[d.axes[0]].unit
            if axis not in dims:
                others.append((stride, d.extent, False))
        if axis not in dims:
            continue
        if len(dims) > 1:
            raise Refused("the axis and another dimension share a digit of the layout")
        if d.axes[0] == "m":
            own.append(owned.walked.index(k))
        else:
            places += _list_places(d, stride)
    own.sort(key=lambda k: -owned.digits[owned.walked[k]].places[-1][1])
    places = _join_places(sorted(places, key=lambda p: p.weight))
    check_neighbours([owned.digits[owned.walked[k]] for k in own], places)
    copies = [(as_int(i.stride) * THREAD_AXES[i.axis].unit, as_int(i.extent), False) for i in list_copies(owned)]
    unit, lanes = 1, 1
    lane: Index = 0
    inside: Index = 0
    parts, are_warps = 1, True
    for k, p in enumerate(places):
        stride, extent = p.stride, p.extent
        beside = [(q.stride, q.extent, True) for q in places if q != p]
        known = [(stride, extent, True), *beside, *others, *copies]
        reach = 0 if k or count % _WARP else reach_of_lanes(known, stride, extent)
        if reach:
            unit, lanes = stride, reach // stride
            lane = mod(div(number, stride), lanes)
            if stride * extent <= _WARP:
                continue
            stride, extent = _WARP, -(-stride * extent // _WARP)
        are_warps = are_warps and stride % _WARP == 0
        part = div(number, stride)
        inside = add(inside, mul(mod(part, extent) if stride * extent < count else part, parts))
        parts *= extent
    return Line(unit, lanes, lane, parts, inside, tuple(own), "warps" if are_warps else "parts")


def _list_places(digit: Digit, stride: int) -> list[_Place]:
    """The places of a digit of threads, the innermost first."""
    found = []
    for _, weight, extent in reversed(digit.places):
        found.append(_Place(weight, extent, stride))
        stride *= extent
    return [p for p in found if p.extent > 1]


def _join_places(places: Sequence[_Place]) -> list[_Place]:
    """Places, the lightest first, joined where the heavier goes on after all of the lighter, in threads too."""
    found: list[_Place] = []
    for p in places:
        last = found[-1] if found else None
        if last and p.weight == last.weight * last.extent and p.stride == last.stride * last.extent:
            found[-1] = _Place(last.weight, last.extent * p.extent, last.stride)
        else:
            found.append(p)
    return found


def check_neighbours(own: Sequence[Digit], places: Sequence[_Place]) -> None:
    """Raises NotNeighbours where a thread's digits along the axis, the outermost first, do not count neighbours, or
    where those of threads, the lightest first, come before them.
    """
    reach = 1
    for digit in reversed(own):
        for _, weight, extent in reversed(digit.places):
            if extent > 1 and weight != reach:
                raise NotNeighbours
            reach *= extent
    if places and places[0].weight != reach:
        raise NotNeighbours


# ---------------------------------------------------------------- steps
@dataclass(frozen=True)
class Prefixes:
    """One function: the elements of a thread, who shares a row, and what lies before its elements.

    ``value``: what is scanned, of ``type``. The operands of ``loop`` are the carry, where ``has_carry``, what is
    written, and what is read.
    """

    context: Context
    call: Call
    loop: ElementLoop
    line: Line
    axis: int  # among the dimensions longer than 1; -1 where rows have one element
    computed: Computed
    function: str
    type: str
    value: Node
    scratch: Scratch | None

    @property
    def has_carry(self) -> bool:
        return "carry" in self.call.regions

    @property
    def is_reversed(self) -> bool:
        return bool(self.call.fields.reverse)

    @property
    def sources(self) -> range:
        return range(1 + self.has_carry, len(self.loop.operands))

    @property
    def own(self) -> int:
        """Elements of a row that a thread has."""
        return prod(self.loop.owned.extents[k] for k in self.line.own)

    @property
    def kept(self) -> tuple[int, ...]:
        """Of the walked digits, those of rows."""
        return tuple(k for k in range(len(self.loop.owned.walked)) if k not in self.line.own)

    @property
    def rows(self) -> int:
        """Rows that a thread takes part in."""
        return prod(self.loop.owned.extents[k] for k in self.kept)

    @property
    def has_before(self) -> bool:
        """Does anything lie before the first of a thread's elements?"""
        return self.has_carry or self.line.lanes > 1 or self.line.parts > 1

    def number_of(self, row: Index, k: Index) -> Index:
        """The number, in the order of registers, of element ``k`` along the axis of a row."""
        extents = self.loop.owned.extents
        found: dict[int, Index] = {}
        for chosen, number in ((self.line.own, k), (self.kept, row)):
            found |= dict(zip(chosen, split_number(number, [extents[j] for j in chosen]), strict=True))
        return join_number([found[j] for j in range(len(extents))], extents)

    def block(self, name: str) -> Block:
        loop, owned = self.loop, self.loop.owned
        registers = list(loop.registers)

        def new(what: str, count: int) -> Memory:
            registers.append(loop.new_registers(what, self.type, count))
            return registers[-1]

        acc, upto = new("acc", self.rows), new("upto", self.rows * self.own)
        steps: list[Step] = [Map(FILL, acc[0], (), self.rows, identity_of(self.function, self.type))]
        steps += owned.guard((*loop.access(self.sources, is_load=True), *self._take_own(acc, upto)))
        before = new("before", self.rows) if self.has_before else None
        total = acc
        if before is not None:
            steps.append(Map(FILL, before[0], (), self.rows, identity_of(self.function, self.type)))
        if self.line.lanes > 1 and before is not None:
            steps += self._exchange(acc, before, new("upto_lane", 1), new("other", 1))
        if self.line.parts > 1 and before is not None:
            front, run = new("front", 1), new("run", 1)
            parts = new("parts", self._part_width)
            steps += self._leave(total)
            steps += owned.guard(self._each_held(lambda r: self._take_parts(r, before, total, (front, run, parts))))
        elif self.has_carry and before is not None:
            steps += owned.guard(self._each_held(lambda r: self._take_carry(r, before, total)))
        steps += owned.guard((*self._write(upto, before), *self._keep_carry(total)))
        return loop.formals.block(name, tuple(steps), self.context.op, tuple(registers))

    # ------------------------------------------------------------ loops
    def _each(self, body: Callable[[Index], Sequence[Step]]) -> tuple[Step, ...]:
        """``body`` for each row of the thread."""
        return self._count("r", self.rows, body)

    def _count(self, name: str, count: int, body: Callable[[Index], Sequence[Step]]) -> tuple[Step, ...]:
        k: Index = Var(self.context.fresh(name), count) if count > 1 else 0
        return over(k, tuple(body(k))) if count > 1 else tuple(body(0))

    def _each_held(self, body: Callable[[Index], Sequence[Step]]) -> tuple[Step, ...]:
        """``body`` for each row of the thread that the region has; lanes exchange all of theirs."""
        owned = self.loop.owned

        def guard(row: Index) -> tuple[Step, ...]:
            at, _ = owned.element(self.number_of(row, 0))
            return when(owned.holds([0 if d == self.axis else x for d, x in enumerate(at)]), *body(row))

        return self._each(guard)

    def _each_element(self, body: Callable[[Index, Index], Sequence[Step]]) -> tuple[Step, ...]:
        """``body`` of the row and the number of each element that the region has, in the order of the scan."""
        owned = self.loop.owned

        def of_row(row: Index) -> tuple[Step, ...]:
            def of_element(k: Index) -> tuple[Step, ...]:
                number = self.number_of(row, sub(self.own - 1, k) if self.is_reversed else k)
                at, _ = owned.element(number)
                return when(owned.holds(at), *body(row, number))

            return self._count("k", self.own, of_element)

        return self._each(of_row)

    # ------------------------------------------------------------ own elements
    def _take_own(self, acc: Memory, upto: Memory) -> tuple[Step, ...]:
        """What own elements come to up to each, or before each."""
        loop = self.loop

        def take(row: Index, number: Index) -> Sequence[Step]:
            held = [loop.see(k, number) for k in self.sources]
            both = Apply(self.function, (Element(len(held), self.type), self.value), self.type)
            taken = Compute(acc[row], both, (*held, acc[row]), loop.wholes(self.computed, number))
            kept = Move(upto[number], acc[row])
            return (kept, taken) if self.call.fields.exclusive else (taken, kept)

        return self._each_element(take)

    # ------------------------------------------------------------ lanes
    def _exchange(self, acc: Memory, before: Memory, upto: Memory, other: Memory) -> tuple[Step, ...]:
        """What lanes before have, into ``before``; what all of the warp's have into ``acc``."""
        line = self.line
        way, last = ("down", "clear") if self.is_reversed else ("up", "set")

        def has(distance: int) -> Index:
            if self.is_reversed:
                return less(line.lane, line.lanes - distance)
            return less(distance - 1, line.lane)

        def exchange(row: Index) -> list[Step]:
            steps: list[Step] = [Move(upto[0], acc[row])]
            for distance in line.distances:
                steps.append(Shuffle(other[0], upto[0], distance * line.unit, way=way))
                steps += when(has(distance), self._join(upto[0], other[0], upto[0]))
            steps.append(Shuffle(other[0], upto[0], line.unit, way=way))
            steps += when(has(1), Move(before[row], other[0]))
            if self.has_carry or line.parts > 1:
                steps.append(Shuffle(acc[row], upto[0], (line.lanes - 1) * line.unit, way=last))
            return steps

        return self._each(exchange)

    # ------------------------------------------------------------ parts
    @property
    def _part_width(self) -> int:
        """Parts that a thread reads at once."""
        return gcd(self.line.parts, PART_BYTES // DTYPES[self.type].bytes)

    def _leave(self, total: Memory) -> tuple[Step, ...]:
        """The first lane of a part leaves what the part has of each row, and all meet."""
        assert self.scratch is not None
        scratch, line = self.scratch, self.line

        def leave(row: Index) -> list[Step]:
            return [Move(scratch[add(mul(self._place(row), line.parts), line.inside)], total[row])]

        kept = when(equal(line.lane, 0), *self._each_held(leave))
        meet = Sync(self.call.scope)
        return (meet, *self.loop.owned.guard(kept, stores=True), meet)

    def _take_parts(
        self, row: Index, before: Memory, total: Memory, taken: tuple[Memory, Memory, Memory]
    ) -> list[Step]:  # fmt: skip
        """The carry and the parts before, in their order; what they come to goes before what lanes before have."""
        assert self.scratch is not None
        front, run, parts = taken
        count, width = self.line.parts, self._part_width
        chunks = count // width
        place = mul(self._place(row), count)
        turn: Index = Var(self.context.fresh("w"), chunks) if chunks > 1 else 0
        first = mul(sub(chunks - 1, turn) if self.is_reversed else turn, width)
        steps: list[Step] = [Move(parts[0], self.scratch[add(place, first)], width)]
        for n in reversed(range(width)) if self.is_reversed else range(width):
            steps += when(equal(self.line.inside, add(first, n)), Move(front[0], run[0]))
            steps.append(self._join(run[0], run[0], parts[n]))
        start = self._start(row, run[0])
        over_chunks = [Repeat(turn, chunks, tuple(steps), count <= _WARP)] if isinstance(turn, Var) else steps
        kept = [Move(total[row], run[0])] if self.has_carry else []
        return [start, *over_chunks, self._join(before[row], front[0], before[row]), *kept]

    def _start(self, row: Index, into: Ref) -> Step:
        """What lies before all of a row."""
        if not self.has_carry:
            return Map(FILL, into, (), 1, identity_of(self.function, self.type))
        carry = self._carry(row)
        return Compute(into, to_type(Element(0, carry.memory.dtype), self.type), (carry,))

    def _place(self, row: Index) -> Index:
        """The number of a row among all of the instance."""
        owned = self.loop.owned
        at, _ = owned.element(self.number_of(row, 0))
        lengths = owned.operand.lengths
        left = [d for d in range(len(lengths)) if d != self.axis]
        return join_number([at[d] for d in left], [lengths[d] for d in left])

    # ------------------------------------------------------------ the carry, and what is written
    def _carry(self, row: Index) -> Ref:
        return self.loop.see(0, self.number_of(row, 0))

    def _take_carry(self, row: Index, before: Memory, total: Memory) -> list[Step]:
        carry = self._carry(row)
        first = to_type(Element(0, carry.memory.dtype), self.type)
        tree = Apply(self.function, (first, Element(1, self.type)), self.type)
        return [Compute(one[row], tree, (carry, one[row])) for one in (before, total)]

    def _keep_carry(self, total: Memory) -> tuple[Step, ...]:
        if not self.has_carry:
            return ()
        own = Element(0, self.type)
        return self._each_held(lambda row: [Compute(self._carry(row), own, (total[row],))])

    def _write(self, upto: Memory, before: Memory | None) -> tuple[Step, ...]:
        loop, type_ = self.loop, self.type

        def write(row: Index, number: Index) -> Sequence[Step]:
            dst = loop.see(int(self.has_carry), number)
            if before is None:
                return [Compute(dst, Element(0, type_), (upto[number],))]
            tree = Apply(self.function, (Element(0, type_), Element(1, type_)), type_)
            return [Compute(dst, tree, (before[row], upto[number]))]

        return self._each_element(write)

    def _join(self, into: Ref, first: Ref, second: Ref) -> Step:
        """into = function(first, second)."""
        tree = Apply(self.function, (Element(0, self.type), Element(1, self.type)), self.type)
        return Compute(into, tree, (first, second))
