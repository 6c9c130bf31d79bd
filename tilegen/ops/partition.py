"""A partition synthesised for a tile: element ``(i * threads + t) * bundle + k`` belongs to thread t at step i.

The tile's digits are walked in the order of one side or the other, so that neighbouring threads touch neighbouring
addresses of it; a thread's bundle is read and written in accesses of a width that each side allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod

from tilegen.index import Index, Var, add, bound, conjuncts, every, mul, not_, variables
from tilegen.ops.digits import Digit, coordinates, find_run, fuse, join, split_digit, split_number
from tilegen.ops.operand import (
    STRETCHED,
    Context,
    Formals,
    Operand,
    allows_run,
    edge_guard,
    guarded_dims,
    may_cut,
    may_pass_end,
    parts_of,
    ref_at,
)
from tilegen.ops.thread_loop import UNROLL_LIMIT, ThreadLoop, enter_trip, stage_loop
from tilegen.plan import (
    FILL,
    MOVE,
    Block,
    Instruction,
    Map,
    Memory,
    Move,
    Ref,
    Repeat,
    Step,
    effects,
    flat_memory,
    flatten,
    when,
)
from tilegen.scopes import threads_of

_MOST_LINES = 4  # accesses of a bundle that are written out; more are a loop


@dataclass(frozen=True)
class OrderedTile:
    """Operands over one tile, their common digits in one order (outermost first), and who runs it.

    ``step`` and ``chunk`` name the variables of loops over trips.
    """

    operands: tuple[Operand, ...]
    digits: tuple[Digit, ...]
    guarded: frozenset[int]
    thread: Index
    threads: int
    order: str
    step: str
    chunk: str

    @property
    def count(self) -> int:
        return prod(d.extent for d in self.digits)

    def innermost(self, side: int) -> Digit:
        """The digits that run on from the last one for one operand, as one."""
        if not self.digits:
            return Digit(((0, 1, 1),), 1, (1,) * len(self.operands), ("m",))
        return find_run(self.digits, side, self.guarded)


@dataclass(frozen=True)
class Fill:
    """A source that is one value in registers."""

    value: float | int | bool
    dtype: str


def orders_of(context: Context, operands: Sequence[Operand], scope: str) -> tuple[OrderedTile, ...]:
    """The tile with its digits in row-major order, and sorted by each operand's strides; duplicates dropped.

    Each of them once more for every operand whose neighbours a thread meets trip by trip: these are one access then.
    """
    thread, threads = threads_of(scope, context.launch.threads)
    guarded = frozenset().union(*(guarded_dims(o) for o in operands))
    joined = join([parts_of(o) for o in operands], operands[0].lengths)
    tiles: dict[tuple[Digit, ...], OrderedTile] = {}
    orders = ("row-major", *(f"{o.buffer.name}'s strides" for o in operands))
    for k, order in enumerate(orders):
        digits = joined if k == 0 else sorted(joined, key=lambda d: -_size(d.strides[k - 1]))
        fused = fuse(digits, guarded)
        names = context.fresh("i"), context.fresh("j")
        for together, side in ((fused, ""), *_bring_together(fused, operands, guarded)):
            said = f"{order}, {side}" if side else order
            tiles.setdefault(together, OrderedTile(tuple(operands), together, guarded, thread, threads, said, *names))
    return tuple(tiles.values())


def _bring_together(
    digits: tuple[Digit, ...], operands: Sequence[Operand], guarded: frozenset[int]
) -> Iterator[tuple[tuple[Digit, ...], str]]:
    """The digits with as many neighbours of one operand innermost as one access takes, where they are not there yet."""
    for side, operand in enumerate(operands):
        outer, inner, together = list(digits), list[Digit](), 1
        while True:
            k = next((k for k, d in enumerate(outer) if d.strides[side] == together), None)
            count = 1 if k is None else gcd(outer[k].places[-1][2], 16 // (operand.elem_bytes * together))
            if k is None or count == 1:
                break
            outer[k : k + 1], digit = split_digit(outer[k], count)
            inner, together = [digit, *inner], together * count
        if together > 1 and find_run(digits, side, guarded).extent % together:
            yield fuse((*outer, *inner), guarded), f"{together} of {operand.buffer.name}'s together"


def _size(stride: Index | None) -> int:
    return 0 if stride is None else bound(stride) - 1


def reject_carries(operands: Sequence[Operand]) -> str | None:
    """Why no bundle of the operands' elements is contiguous, or None."""
    digits = join([parts_of(o) for o in operands], operands[0].lengths)
    if all(any(s is not None for s in d.strides) for d in digits[-1:]):
        return None
    return "the two sides split the innermost dimension at places that do not nest, so no bundle is contiguous"


def element_refs(tile: OrderedTile, element: Index) -> tuple[tuple[Index, ...], tuple[Ref, ...]]:
    """The region's coordinates of an element of the tile, and each operand's reference to it."""
    values = split_number(element, [d.extent for d in tile.digits]) if tile.digits else ()
    at = coordinates(tile.digits, values, len(tile.operands[0].dims))
    return at, tuple(ref_at(o, _run_on(tile, o, element) or at) for o in tile.operands)


def _run_on(tile: OrderedTile, operand: Operand, element: Index) -> tuple[Index, ...] | None:
    """Where both sides keep the whole tile together: an element counted on in the last dimension, beyond its end.

    There is no division in it, as there is in the element's coordinates. None where a dimension has a place of its own.
    """
    places = tile.digits[0].places if len(tile.digits) == 1 else ()
    is_run = len(tile.operands) > 1 and len(places) > 1 and is_flat(operand, tile.digits)
    own = [operand.dims[d] for d, _, _ in places]
    if not is_run or STRETCHED in own or any(len(operand.iters[d]) > 1 for d in own):
        return None
    at: list[Index] = [0] * len(operand.dims)
    at[places[-1][0]] = mul(element, places[-1][1])
    return tuple(at)


def widest(tile: OrderedTile, side: int, has_tails: bool = True) -> int:
    """The widest power of two of elements that operand ``side`` can move at once in this order.

    ``has_tails``: the last elements before an edge may be moved one by one.
    """
    width, innermost = 1, tile.innermost(side)
    while innermost.extent % (width * 2) == 0:
        _, refs = element_refs(tile, mul(_group(tile, _loop(tile, width * 2)), width * 2))
        if not allows_run(tile.operands[side], refs[side], width * 2, innermost, side):
            break
        if not has_tails and may_cut(tile.operands[side], width * 2, innermost, tile.guarded):
            break
        width *= 2
    return width


def _has_tail(tile: OrderedTile, side: int, width: int) -> bool:
    """May the operand's own edge lie inside of an access?"""
    operand = tile.operands[side]
    return width > 1 and may_cut(operand, width, tile.innermost(side), guarded_dims(operand))


def _group(tile: OrderedTile, loop: ThreadLoop) -> Index:
    return add(mul(loop.number, tile.threads), tile.thread)


def _loop(tile: OrderedTile, bundle: int) -> ThreadLoop:
    return ThreadLoop(-(-tile.count // bundle // tile.threads), UNROLL_LIMIT, tile.step, tile.chunk)


def tile_block(
    context: Context, tile: OrderedTile, widths: tuple[int, int], name: str, scope: str, source: Fill | None = None,
    via: Instruction = MOVE,
) -> Block:  # fmt: skip
    """The function that copies (or fills) the tile with these widths of load and store, in elements."""
    bundle, dtype = max(widths), source.dtype if source else tile.operands[0].buffer.dtype
    loop = _loop(tile, bundle)
    if not source and not via.queue:
        loop = stage_loop(loop, tile.operands, bundle, tile.count % (bundle * tile.threads) == 0)
    trip = enter_trip(context, _group(tile, loop), tile.count // bundle)
    formals = Formals(
        tile.operands,
        [is_flat(o, tile.digits) for o in tile.operands],
        scope,
        {tile.step, tile.chunk, context.fresh("group"), context.fresh("r"), context.fresh("e")},
    )
    regs = flat_memory(context.fresh("regs"), dtype, bundle * loop.sets, "register")
    group = trip.group if loop.is_staged else trip.inside
    src, dst = (_see_side(context, tile, formals, k, group, widths) for k in (0, len(tile.operands) - 1))
    if loop.is_staged:
        body = loop.build(trip.start, *_staged_moves(src, dst, regs, trip.held, widths, mul(loop.place, bundle)))
    elif via.queue:  # what lies past the edge is filled with zeros by the instruction itself
        (start,), (end,) = src.accesses, dst.accesses
        body = loop.build(trip.start, when(trip.held, Move(end.ref, start.ref, bundle, start.begins, via)))
    else:
        body = loop.build(trip.start, when(trip.held, *_moves(src, dst, regs, widths, source)))
    return formals.block(name, body, context.op, (regs,) if _uses(body, regs) else ())


@dataclass(frozen=True)
class _Tail:
    """The elements of an access that an edge cuts, one by one: ``cut`` says that it does, ``inside`` that one is there.

    ``e`` counts them, ``ref`` is where the one numbered so is.
    """

    cut: Index
    e: Var
    ref: Ref
    inside: Index


@dataclass(frozen=True)
class _Access:
    """An access of a bundle: the number of its first element, the place, whether that is inside, and whether all is."""

    first: Index
    ref: Ref
    begins: Index
    ends: Index
    tail: _Tail | None = None

    def asks(self, known: Index) -> Index:
        """What it asks besides ``known``, as a whole."""
        return _without(self.ends, conjuncts(known))

    def implied(self, known: Index) -> Index:
        """What is left to ask of ``known`` where all of it is inside."""
        return _without(known, conjuncts(self.begins)) if self.tail else known


@dataclass(frozen=True)
class _Side:
    """One operand's accesses of a bundle; more than a few are one access in a loop over ``step``."""

    accesses: tuple[_Access, ...]
    step: Var | None

    def common(self) -> Index:
        """What all accesses ask of their first elements."""
        parts = [conjuncts(a.begins) for a in self.accesses]
        shared = (c for c in parts[0] if all(c in others for others in parts))
        return every(*(c for c in shared if self.step not in variables(c)))

    def load(self, regs: Memory, first: Index, width: int, asked: Index, known: Index = True) -> tuple[Step, ...]:
        """Its accesses into registers from ``first`` on, where ``asked`` holds; zeros beyond an edge.

        ``known``: what holds anyway.
        """
        steps: list[Step] = []
        for a in self.accesses:
            at = add(first, a.first)
            steps.append(Move(regs[at], a.ref, width, every(a.implied(asked), a.asks(known))))
            if (t := a.tail) is not None:
                steps += _one_by_one(t, asked, (Move(regs[add(at, t.e)], t.ref, 1, t.inside),))
        return self._repeat(steps)

    def store(self, regs: Memory, first: Index, width: int, asked: Index, known: Index = True) -> tuple[Step, ...]:
        """Its accesses from registers from ``first`` on, where ``asked`` holds and they are inside."""
        steps: list[Step] = []
        for a in self.accesses:
            at = add(first, a.first)
            steps += when(every(a.implied(asked), a.asks(known)), Move(a.ref, regs[at], width))
            if (t := a.tail) is not None:
                steps += _one_by_one(t, asked, when(t.inside, Move(t.ref, regs[add(at, t.e)], 1)))
        return self._repeat(steps)

    def _repeat(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        return (Repeat(self.step, self.step.bound, tuple(steps), True),) if self.step else tuple(steps)


def _one_by_one(tail: _Tail, asked: Index, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps for each element of an access that an edge cuts."""
    return when(every(asked, tail.cut), Repeat(tail.e, tail.e.bound, steps, True))


def _see_side(
    context: Context, tile: OrderedTile, formals: Formals, side: int, group: Index, widths: tuple[int, int]
) -> _Side:
    width, bundle = widths[min(side, 1)], max(widths)
    count = bundle // width
    step = Var(context.fresh("r"), count) if count > _MOST_LINES else None
    numbers: list[Index] = [mul(step, width)] if step else list(range(0, bundle, width))
    found = [element_refs(tile, add(mul(group, bundle), k)) for k in numbers]
    formals.share_base(side, [refs[side] for _, refs in found])
    has_tail = _has_tail(tile, side, width)
    e = Var(context.fresh("e"), width)

    def see(k: Index, where: Sequence[Index], ref: Ref) -> _Access:
        seen, begins = formals.see(side, ref), _guard(tile, side, where)
        if not has_tail:
            return _Access(k, seen, begins, begins)
        ends = _guard(tile, side, element_refs(tile, add(mul(group, bundle), add(k, width - 1)))[0])
        at, refs = element_refs(tile, add(mul(group, bundle), add(k, e)))
        cut = every(begins, not_(_without(ends, conjuncts(begins))))
        one = _without(_guard(tile, side, at), conjuncts(begins))
        return _Access(k, seen, begins, ends, _Tail(cut, e, formals.see(side, refs[side]), one))

    return _Side(tuple(see(k, where, refs[side]) for k, (where, refs) in zip(numbers, found, strict=True)), step)


def _staged_moves(
    src: _Side, dst: _Side, regs: Memory, held: Index, widths: tuple[int, int], first: Index
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """One trip's loads into its own registers (``first`` and on), and its stores; each under its own condition."""
    load, store = widths
    kept = every(held, dst.common())  # what is not stored is not loaded either
    return src.load(regs, first, load, kept), dst.store(regs, first, store, held)


def _moves(src: _Side, dst: _Side, regs: Memory, widths: tuple[int, int], source: Fill | None) -> tuple[Step, ...]:
    load, store = widths
    common = dst.common()  # what is not stored is not loaded either
    if source:
        loads: tuple[Step, ...] = (Map(FILL, regs[0], (), max(widths), source.value),)
    else:
        (first, *_), (to, *_) = src.accesses, dst.accesses
        if load == store and first.asks(common) is True and not (first.tail or to.tail):
            return when(common, Move(to.ref, first.ref, store))
        loads = src.load(regs, 0, load, True, common)
    return when(common, *loads, *dst.store(regs, 0, store, True, common))


def _without(condition: Index, known: Sequence[Index]) -> Index:
    """What a condition asks beside what is known to hold."""
    return every(*(c for c in conjuncts(condition) if c not in known))


def _uses(steps: Sequence[Step], memory: Memory) -> bool:
    return any(t.ref.memory == memory for s in flatten(steps) for t in effects(s).written)


def _guard(tile: OrderedTile, side: int, at: Sequence[Index]) -> Index:
    operand = tile.operands[side]
    return edge_guard(operand, at) if may_pass_end(operand) else True


def is_flat(operand: Operand, digits: Sequence[Digit]) -> bool:
    """One offset, or the array's own dimensions: those where it can be guarded, where its extents are known at launch
    alone, and where no digit runs across them."""
    if operand.memory.space != "global" or len(operand.memory.shape) == 1:
        return True
    if may_pass_end(operand) or not all(isinstance(n, int) for n in operand.memory.shape):
        return False
    return any(len({p[0] for p in d.places}) > 1 for d in digits)
