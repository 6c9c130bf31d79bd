"""A partition synthesised for a tile: element ``(i * threads + t) * bundle + k`` belongs to thread t at step i.

The tile's digits are walked in the order of one side or the other, so that neighbouring threads touch neighbouring
addresses of it; a thread's bundle is read and written in accesses of a width that each side allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import gcd

from tilegen.index import Index, Var, add, bound, conjuncts, every, mul, variables
from tilegen.index.runs import fuse
from tilegen.kept import keep
from tilegen.ops.digits import Digit, split_digit, split_number
from tilegen.ops.edges import (
    EdgeAccess,
    allows_run,
    allows_width,
    are_cut_alike,
    load_access,
    load_whole,
    may_cut,
    may_pass_end,
    move_cut,
    see_access,
    store_access,
    store_whole,
)
from tilegen.ops.formals import Formals
from tilegen.ops.operand import Context, Operand, join_operands
from tilegen.ops.ordered_tile import OrderedTile, find_run, guard_of, is_flat, ref_of, tile_over
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
    flatten,
    register_memory,
    when,
)

_MOST_LINES = 4  # accesses of a bundle that are written out; more are a loop


@dataclass(frozen=True)
class Fill:
    """A source that is one value in registers."""

    value: float | int | bool
    dtype: str


def orders_of(context: Context, operands: Sequence[Operand], scope: str) -> tuple[OrderedTile, ...]:
    """The tile with its digits in row-major order, and sorted by each operand's strides; duplicates dropped.

    Each of them once more for every operand whose neighbours a thread meets trip by trip: these are one access then.
    """
    tile = tile_over(context, operands, scope)
    joined = join_operands(operands, (), tile.guarded)
    tiles: dict[tuple[Digit, ...], OrderedTile] = {}
    orders = ("row-major", *(f"{o.buffer.name}'s strides" for o in operands))
    for k, order in enumerate(orders):
        digits = joined if k == 0 else sorted(joined, key=lambda d: -_size(d.strides[k - 1]))
        fused = fuse(digits)
        for together, side in ((fused, ""), *_bring_together(fused, operands)):
            said = f"{order}, {side}" if side else order
            tiles.setdefault(together, replace(tile, digits=together, order=said))
    if run := find_run(tile):
        tiles.setdefault(run.digits, run)
    return tuple(tiles.values())


def _bring_together(
    digits: tuple[Digit, ...], operands: Sequence[Operand]
) -> Iterator[tuple[tuple[Digit, ...], str]]:  # fmt: skip
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
        if together > 1 and fuse(digits, side)[-1].extent % together:
            yield fuse((*outer, *inner)), f"{together} of {operand.buffer.name}'s together"


def _size(stride: Index | None) -> int:
    return 0 if stride is None else bound(stride) - 1


def reject_carries(operands: Sequence[Operand]) -> str | None:
    """Why no bundle of the operands' elements is contiguous, or None."""
    digits = join_operands(operands)
    if all(any(s is not None for s in d.strides) for d in digits[-1:]):
        return None
    return "the two sides split the innermost dimension at places that do not nest, so no bundle is contiguous"


def _ref_of(tile: OrderedTile, side: int, element: Index) -> Ref:
    """One operand's reference to an element of the tile, by its number."""
    return ref_of(tile, side, _values_of(tile, element))


def _values_of(tile: OrderedTile, element: Index) -> tuple[Index, ...]:
    return split_number(element, [d.extent for d in tile.digits])


@keep
def widest(tile: OrderedTile, side: int, has_tails: bool = True) -> int:
    """The widest power of two of elements that operand ``side`` can move at once in this order.

    ``has_tails``: the last elements before an edge may be moved one by one.
    """
    width, innermost = 1, tile.innermost(side)
    while innermost.extent % (width * 2) == 0:
        ref = _ref_of(tile, side, mul(_group(tile, _loop(tile, width * 2)), width * 2))
        asked = tile.operands[side], ref, width * 2, innermost, side
        if not (allows_run(*asked) if has_tails else allows_width(*asked, tile.guarded)):
            break
        width *= 2
    return width


def _group(tile: OrderedTile, loop: ThreadLoop) -> Index:
    return add(mul(loop.number, tile.threads), tile.thread)


def _loop(tile: OrderedTile, bundle: int) -> ThreadLoop:
    return ThreadLoop(-(-tile.count // bundle // tile.threads), UNROLL_LIMIT, tile.step, tile.chunk)


def may_be_cut(tile: OrderedTile, widths: tuple[int, int]) -> bool:
    """May an edge cut an access of these widths of load and store?"""
    sides = range(len(tile.operands))
    return any(may_cut(tile.operands[s], widths[min(s, 1)], tile.innermost(s)) for s in sides)


def tile_block(
    context: Context, tile: OrderedTile, widths: tuple[int, int], name: str, scope: str, source: Fill | None = None,
    via: Instruction = MOVE, is_cut: bool = True,
) -> Block:  # fmt: skip
    """The function that copies (or fills) the tile with these widths of load and store, in elements.

    ``is_cut`` false: as if no edge cut an access, to be counted.
    """
    bundle, dtype = max(widths), source.dtype if source else tile.operands[0].buffer.dtype
    loop = _loop(tile, bundle)
    if not source and not via.queue:
        loop = stage_loop(loop, tile.operands, bundle, tile.count % (bundle * tile.threads) == 0)
    trip = enter_trip(context, _group(tile, loop), tile.count // bundle)
    # Elements that come one by one, and only under the call's own condition, are as those that ask for an end.
    is_asked = bundle == 1 and bool(via.queue) and context.condition is not True
    formals = Formals(
        tile.operands,
        [is_flat(o, tile.digits) for o in tile.operands],
        scope,
        {tile.step, tile.chunk, context.fresh("group"), context.fresh("r"), context.fresh("e")},
        [may_pass_end(o) or (is_asked and o.memory.traits.is_array) for o in tile.operands],
        tile.chunk,
    )
    regs = register_memory(context.fresh("regs"), dtype, bundle * loop.sets)
    group = trip.group if loop.is_staged else trip.inside
    src, dst = (_see_side(context, tile, formals, k, group, widths, is_cut) for k in (0, len(tile.operands) - 1))
    if loop.is_staged:
        body = loop.build(trip.start, *_staged_moves(src, dst, regs, trip.held, mul(loop.place, bundle)))
    elif via.queue:  # what lies past the edge is filled with zeros by the instruction itself
        ((_, start),), ((_, end),) = src.accesses, dst.accesses
        body = loop.build(trip.start, when(trip.held, Move(end.ref, start.ref, bundle, start.meets, via)))
    else:
        body = loop.build(trip.start, when(trip.held, *_moves(src, dst, regs, widths, source)))
    return formals.block(name, body, context.op, (regs,) if _uses(body, regs) else ())


@dataclass(frozen=True)
class _Side:
    """One operand's accesses of a bundle, each with the number of its first element.

    More than a few are one access in a loop over ``step``.
    """

    accesses: tuple[tuple[Index, EdgeAccess], ...]
    step: Var | None

    def common(self) -> Index:
        """What all accesses ask for some of their elements to be inside."""
        parts = [conjuncts(a.meets) for _, a in self.accesses]
        shared = (c for c in parts[0] if all(c in others for others in parts))
        return every(*(c for c in shared if self.step not in variables(c)))

    def load(self, regs: Memory, first: Index, asked: Index, known: Index = True) -> tuple[Step, ...]:
        """Its accesses into registers from ``first`` on, as ``load_access`` says."""
        found = (load_access(a, self.registers(regs, add(first, k)), asked, known) for k, a in self.accesses)
        return self._repeat(step for steps in found for step in steps)

    def store(self, regs: Memory, first: Index, asked: Index, known: Index = True) -> tuple[Step, ...]:
        """Its accesses from registers from ``first`` on, as ``store_access`` says."""
        found = (store_access(a, self.registers(regs, add(first, k)), asked, known) for k, a in self.accesses)
        return self._repeat(step for steps in found for step in steps)

    def registers(self, regs: Memory, first: Index) -> Callable[[Index], Ref]:
        return lambda k: regs[add(first, k)]

    def _repeat(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        return (Repeat(self.step, self.step.bound, tuple(steps), True),) if self.step else tuple(steps)


def _see_side(
    context: Context, tile: OrderedTile, formals: Formals, side: int, group: Index, widths: tuple[int, int],
    is_cut: bool,
) -> _Side:  # fmt: skip
    width, bundle = widths[min(side, 1)], max(widths)
    count = bundle // width
    step = Var(context.fresh("r"), count) if count > _MOST_LINES else None
    numbers: list[Index] = [mul(step, width)] if step else list(range(0, bundle, width))
    firsts = [add(mul(group, bundle), k) for k in numbers]
    formals.share_base(side, [_ref_of(tile, side, first) for first in firsts])
    is_cut = is_cut and may_cut(tile.operands[side], width, tile.innermost(side))
    e = Var(context.fresh("e"), width) if is_cut else None

    def see(first: Index) -> EdgeAccess:
        return see_access(
            width, lambda k: guard_of(tile, side, _values_of(tile, add(first, k))),
            lambda k: formals.see(side, _ref_of(tile, side, add(first, k))), e, tile.operands[side],
        )  # fmt: skip

    return _Side(tuple(zip(numbers, map(see, firsts), strict=True)), step)


def _staged_moves(src: _Side, dst: _Side, regs: Memory, held: Index, first: Index) -> tuple[tuple[Step, ...], ...]:
    """One trip's loads into its own registers (``first`` and on), and its stores, each under its own condition."""
    return _load_and_store(src, dst, regs, first, (every(held, dst.common()), held))


def _moves(src: _Side, dst: _Side, regs: Memory, widths: tuple[int, int], source: Fill | None) -> tuple[Step, ...]:
    common = dst.common()
    if source:
        loads: tuple[Step, ...] = (Map(FILL, regs[0], (), max(widths), source.value),)
        return when(common, *loads, *dst.store(regs, 0, True, common))
    (_, load), (_, store) = src.accesses[0], dst.accesses[0]
    is_direct = load.width == store.width and store.via is MOVE  # atomic updates are of registers
    if is_direct and load.asks(common) is True and not (load.tail or store.tail):
        return when(common, Move(store.ref, load.ref, store.width))
    return when(common, *chain.from_iterable(_load_and_store(src, dst, regs, 0, (True, True), common)))


def _load_and_store(
    src: _Side, dst: _Side, regs: Memory, first: Index, asked: tuple[Index, Index], known: Index = True
) -> tuple[tuple[Step, ...], ...]:  # fmt: skip
    """Loads into registers from ``first`` on, and stores, where ``asked`` of each holds; what is not stored is not
    loaded either. What an edge cuts off two arrays alike goes between them, through no register of theirs.
    """
    (_, load), (_, store) = src.accesses[0], dst.accesses[0]
    is_one = len(src.accesses) == len(dst.accesses) == 1 and not (src.step or dst.step)
    if not is_one or load.ref.memory == store.ref.memory or not are_cut_alike(load, store):
        return src.load(regs, first, asked[0], known), dst.store(regs, first, asked[1], known)
    register = src.registers(regs, first)
    return (
        load_whole(load, register, asked[0], known),
        move_cut(load, store, asked[0], known),
        store_whole(store, register, asked[1], known),
    )


def _uses(steps: Sequence[Step], memory: Memory) -> bool:
    return any(t.ref.memory == memory for s in flatten(steps) for t in effects(s).written)
