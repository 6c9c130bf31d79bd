"""A tile as its operands' common digits in one order, and the threads that walk it: places, addresses and guards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tilegen.index import Index, add, every, less, mul
from tilegen.index.runs import fuse
from tilegen.kept import keep
from tilegen.ops.digits import Digit, coordinates, single_digit
from tilegen.ops.edges import Inside, edge_guard, guard_at, guarded_by, guarded_dims, is_after, may_pass_end
from tilegen.ops.operand import STRETCHED, Context, Operand, join_operands, ref_at
from tilegen.plan import Ref
from tilegen.scopes import threads_of


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
    step: str
    chunk: str
    order: str = ""

    @property
    def count(self) -> int:
        return prod(d.extent for d in self.digits)

    def innermost(self, side: int) -> Digit:
        """The digits that run on from the last one for one operand, as one."""
        return fuse(self.digits, side)[-1] if self.digits else single_digit(len(self.operands))

    def contiguous(self, side: int) -> int:
        """The position of the digit in which one operand is contiguous, which must have one."""
        return next(k for k, d in enumerate(self.digits) if d.strides[side] == 1)


def tile_over(context: Context, operands: Sequence[Operand], scope: str) -> OrderedTile:
    """The tile in row-major order, dimensions together that all operands keep together."""
    guarded = guarded_by(operands)
    digits = fuse(join_operands(operands, (), guarded))
    names = context.fresh("i"), context.fresh("j")
    return OrderedTile(tuple(operands), digits, guarded, *threads_of(scope, context.launch.threads), *names)


def find_run(tile: OrderedTile) -> OrderedTile | None:
    """The tile as one run of memory on each side, where it is one and its ends can be asked for."""
    run = fuse(join_operands(tile.operands))
    is_found = is_run(run, tile.guarded) and all(map(has_known_rows, tile.operands))
    return replace(tile, digits=run, order="one run") if is_found else None


def has_known_rows(operand: Operand) -> bool:
    """Can an offset be proved to lie in the operand's memory? Where the launch alone knows no extent but the outermost.

    Only such operands get the order of one run, which ``is_flat`` relies on.
    """
    return all(isinstance(n, int) for n in operand.memory.shape[1:])


def is_run(digits: Sequence[Digit], guarded: frozenset[int]) -> bool:
    """Are several dimensions one run of memory on each side, where at most the outermost may pass an array's end?"""
    if len(digits) != 1 or len(digits[0].places) < 2:
        return False
    return guarded <= {digits[0].places[0][0]} and guarded.isdisjoint(p[0] for p in digits[0].places[1:])


def place_of(tile: OrderedTile, values: Sequence[Index]) -> tuple[Index, ...]:
    """The region's coordinates of the element with these digits."""
    return coordinates(tile.digits, values, len(tile.operands[0].dims))


def ref_of(tile: OrderedTile, side: int, values: Sequence[Index]) -> Ref:
    """One operand's reference to the element with these digits."""
    operand = tile.operands[side]
    at: list[Index] = [0] * len(operand.dims)
    for digit, value, on in zip(tile.digits, values, _list_counted(tile)[side], strict=True):
        if on is not None:
            d, weight = on
            at[d] = add(at[d], mul(value, weight))
        else:
            at = [add(x, y) for x, y in zip(at, coordinates([digit], [value], len(at)), strict=True)]
    return ref_at(operand, at)


@keep
def _list_counted(tile: OrderedTile) -> tuple[tuple[tuple[int, int] | None, ...], ...]:
    """For each operand, of each digit of several dimensions that lie together the last of them, and its weight there.

    It is counted on in that dimension, beyond its end: so there is no division in the address. None: it keeps its
    coordinates, as what is filled without a guard does.
    """
    is_counted = len(tile.operands) > 1 or bool(tile.guarded)
    found = []
    for operand in tile.operands:
        counts_on = is_counted and is_flat(operand, tile.digits)
        found.append(tuple(_last_place(operand, digit) if counts_on else None for digit in tile.digits))
    return tuple(found)


def _last_place(operand: Operand, digit: Digit) -> tuple[int, int] | None:
    """The last of the dimensions that a digit runs over, where all are plain, and the digit's weight in it."""
    own = [operand.dims[d] for d, _, _ in digit.places]
    is_plain = STRETCHED not in own and all(len(operand.iters[d]) == 1 for d in own)
    return digit.places[-1][:2] if is_plain and len(set(own)) > 1 else None


def guard_of(tile: OrderedTile, side: int, values: Sequence[Index]) -> Inside:
    """Whether the element with these digits is inside of an operand's array; of a run, whether it comes after the
    beginning and before the end.
    """
    operand = tile.operands[side]
    own = guarded_dims(operand)
    if not own or not is_run(tile.digits, tile.guarded):
        return guard_at(operand, place_of(tile, values))
    (element,), (place, _, rows) = values, tile.digits[0].places[0]
    d, row = operand.dims[place], tile.digits[0].extent // rows
    begin, end = operand.region.begins[d], operand.region.ends[d]
    others = edge_guard(operand, place_of(tile, values), but=d)
    at = add(element, mul(begin, row))
    after = is_after(at) if d in operand.early else True
    return Inside(every(after, others.after), every(less(at, mul(end, row)), others.before))


def is_flat(operand: Operand, digits: Sequence[Digit]) -> bool:
    """One offset, or the array's own dimensions: those where it can be guarded, where its extents are known at launch
    alone, and where no digit runs across them."""
    if not operand.memory.traits.is_array or len(operand.memory.shape) == 1:
        return True
    if guarded_dims(operand) and is_run(digits, guarded_dims(operand)):
        return True
    if may_pass_end(operand) or not all(isinstance(n, int) for n in operand.memory.shape):
        return False
    return any(len({p[0] for p in d.places}) > 1 for d in digits)
