"""How a thread that computes moves what it has of operands in memory: in which order, and how much at once.

Each operand is held in registers of its own, so that each may be in an order of its own: a tile that one array has by
rows and another by columns is wide on both sides. Operands that lie side by side in one array, as the two of a pair do,
are moved together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilegen.index import Index, add, bound, div, mod, mul
from tilegen.index.runs import counter, fuse
from tilegen.ops.digits import Digit, keep_digits, single_digit, spread_digits
from tilegen.ops.edges import allows_run, passing_dims
from tilegen.ops.operand import Operand, ref_at
from tilegen.ops.ordered_tile import has_known_rows
from tilegen.ops.ownership import Ownership

_FAR = 1 << 62  # further than any two elements lie apart


@dataclass(frozen=True)
class Joined:
    """Operands that are moved together: element e of member number j is element (e, j) of ``operand``.

    ``operand`` has a last dimension for the members, where there are several. ``side``: the number of the first member
    among the operands of the digits. ``members``: the numbers of the op's operands.
    """

    operand: Operand
    side: int
    members: tuple[int, ...]


def join_neighbours(operands: Sequence[Operand], numbers: Iterable[int]) -> Iterator[Joined]:
    """The operands in memory of these ``numbers``, all read or all written: those side by side as one."""
    in_memory = [k for k, o in enumerate(operands) if not o.memory.traits.is_held]
    left = [k for k in numbers if k in in_memory]
    while left:
        members = max((_list_beside(operands, left, d) for d in range(len(operands[left[0]].iters))), key=len)
        yield Joined(_see_as_one(operands, members), in_memory.index(members[0]) + 1, members)
        left = [k for k in left if k not in members]


def _list_beside(operands: Sequence[Operand], left: Sequence[int], d: int) -> tuple[int, ...]:
    """The numbers of the operands that lie side by side in dimension ``d`` of a buffer, among them the first that is
    left; in their order there.
    """
    first = operands[left[0]]
    begin, length, iters = first.region.begins[d], first.region.lengths[d], first.iters[d]
    if length > 1 or len(iters) > 1 or iters[0].stride != 1 or d in passing_dims(first):
        return (left[0],)
    found = {operands[k].region.begins[d]: k for k in reversed(left) if _moved_to(first, operands[k], d)}
    while isinstance(begin, int) and begin - 1 in found:
        begin -= 1
    members = list[int]()
    while isinstance(begin, int) and begin + len(members) in found:
        members.append(found[begin + len(members)])
    return tuple(members) or (left[0],)


def _moved_to(first: Operand, other: Operand, d: int) -> bool:
    """Are two operands the same but for where they begin in dimension ``d``?"""
    return other.buffer == first.buffer and replace(_begin_at(other, d, 0), op_field="") == replace(
        _begin_at(first, d, 0), op_field=""
    )


def _begin_at(operand: Operand, d: int, begin: int) -> Operand:
    begins = tuple(begin if k == d else x for k, x in enumerate(operand.region.begins))
    return replace(operand, region=replace(operand.region, begins=begins))


def _see_as_one(operands: Sequence[Operand], members: Sequence[int]) -> Operand:
    """The operands side by side, with a last dimension for their number; one alone as it is."""
    first = operands[members[0]]
    if len(members) == 1:
        return first
    begins = zip(first.region.begins, operands[members[1]].region.begins, strict=True)
    d = next(k for k, (one, other) in enumerate(begins) if one != other)
    lengths = tuple(len(members) if k == d else n for k, n in enumerate(first.region.lengths))
    region = replace(first.region, lengths=lengths)
    return replace(first, region=region, dims=(*first.dims, d), extents=(*first.lengths, len(members)))


@dataclass(frozen=True, eq=False)
class Moved:
    """In which order a thread moves what it has of operands in memory, and how many elements at once.

    ``digits``: positions among the walked digits, the fastest last; the members are one more digit. ``run``: those of
    them that are one run of memory.
    """

    owned: Ownership
    joined: Joined
    digits: tuple[int, ...]
    run: Digit
    width: int

    @property
    def members(self) -> int:
        return len(self.joined.members)

    @property
    def _extents(self) -> tuple[int, ...]:
        return (*self.owned.extents, self.members)

    @property
    def count(self) -> int:
        """Elements of a thread."""
        return prod(self._extents[k] for k in self.digits)

    def at(self, number: Index) -> tuple[Index, ...]:
        """The coordinates of element ``number`` in this order."""
        own = spread_digits(number, self._extents, self.digits)
        at, _ = self.owned.element(div(own, self.members))
        return at if self.members == 1 else (*at, mod(own, self.members))

    def number_of(self, number: Index, member: int) -> Index:
        """The number in this order of a member's element for element ``number`` in the order of registers."""
        place = self.joined.members.index(member)
        return keep_digits(add(mul(number, self.members), place), self._extents, self.digits)


def move_widest(owned: Ownership, joined: Joined, cap: int) -> Moved:
    """The order with the widest accesses, of at most ``cap`` elements.

    That of the registers, unless accesses are wider where they follow the operand's own strides.
    """
    strides = [owned.digits[k].strides[joined.side] for k in owned.walked]
    digits = tuple(n for n, x in enumerate(strides) if not (isinstance(x, int) and x == 0))
    own = tuple(sorted(digits, key=lambda n: -bound(x) if (x := strides[n]) is not None else -_FAR))
    last = (len(strides),) if len(joined.members) > 1 else ()
    orders = [_widen(owned, joined, (*order, *last), cap) for order in dict.fromkeys((digits, own))]
    return max(orders, key=lambda moved: moved.width)


def _widen(owned: Ownership, joined: Joined, digits: tuple[int, ...], cap: int) -> Moved:
    operand, side = joined.operand, joined.side
    walked = [owned.digits[k] for k in owned.walked]
    walked.append(_members_digit(owned, joined))
    walked = [walked[n] for n in digits]
    run = fuse(walked, side)[-1] if walked else single_digit(side + 1)
    if len(run.places) > 1 and not has_known_rows(operand):
        run = walked[-1]  # no vector across rows of unknown lengths is proved
    moved = Moved(owned, joined, digits, run, 1)
    while (width := moved.width * 2) <= cap and run.extent % width == 0 and owned.keeps_together(width, run):
        number = counter(owned.step, moved.count // width, width)
        if not allows_run(operand, ref_at(operand, moved.at(number)), width, run, side):
            break
        moved = replace(moved, width=width)
    return moved


def _members_digit(owned: Ownership, joined: Joined) -> Digit:
    """The digit of the members: neighbours, each a place of the last dimension."""
    sides = len(owned.digits[0].strides) if owned.digits else joined.side + 1
    strides, axes = tuple(int(k == joined.side) for k in range(sides)), ("m",) * sides
    count = len(joined.members)
    return Digit(count, strides, (axes, None), ((len(joined.operand.dims) - 1, 1, count),), axes)
