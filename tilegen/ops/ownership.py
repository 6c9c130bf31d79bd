"""Who owns which element of a register tensor, inverted: from a thread and a register to the element.

A register layout adds up thread axes (who) and axis m (which register). Here every digit of the region is either read
off the thread's own number, with a guard where threads own nothing, or walked in register order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilegen.index import Index, Var, add, div, equal, every, less, mod, mul, sub
from tilegen.index.runs import counter, fuse
from tilegen.layouts import tile_of
from tilegen.ops.digits import Digit, coordinates, single_digit, split_number
from tilegen.ops.edges import Inside, guard_at, guarded_by
from tilegen.ops.operand import Context, Operand, Refused, join_operands
from tilegen.plan import Let, Step, let, when
from tilegen.scopes import THREAD_AXES


@dataclass(frozen=True)
class Ownership:
    """The region's digits, outermost first; ``values`` are None for those walked in registers (``walked``, in order).

    A thread that passes ``enter`` may number itself (``numbers``); ``held``: it then owns elements; ``first``: it holds
    copy 0 of them. ``base``: the register of element 0. ``step`` names the loop over registers. ``limits``: the lengths
    of dimensions (by their place in ``dims``) whose end the digits pass, because threads share them unevenly.
    """

    operand: Operand
    digits: tuple[Digit, ...]
    values: tuple[Index | None, ...]
    walked: tuple[int, ...]
    base: Index
    enter: Index
    numbers: tuple[Let, ...]
    held: Index
    first: Index
    step: str
    limits: tuple[tuple[int, int], ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Variables that only exist inside the function: the step and the thread's own numbers."""
        return frozenset({self.step} | {n.var.name for n in self.numbers})

    def guard(self, body: tuple[Step, ...], stores: bool = False) -> tuple[Step, ...]:
        """``body``, run by the threads that own elements (by those with copy 0, if it stores)."""
        return when(self.enter, *self.numbers, *when(self.first if stores else self.held, *body))

    def leave_to_first(self, stores: tuple[Step, ...]) -> tuple[Step, ...]:
        """``stores`` among what threads that own elements run: only those with copy 0 do it."""
        return when(True if self.first == self.held else self.first, *stores) if stores else ()

    @property
    def extents(self) -> tuple[int, ...]:
        """Of the walked digits."""
        return tuple(self.digits[k].extent for k in self.walked)

    @property
    def count(self) -> int:
        """Elements that each owning thread holds."""
        return prod(self.extents)

    @property
    def innermost(self) -> Digit:
        """The digit that moves fastest in register order."""
        if not self.walked:
            return single_digit(len(self.digits[0].strides) if self.digits else 2)
        return self.digits[self.walked[-1]]

    def holds(self, at: Sequence[Index]) -> Index:
        """Whether the region has an element at these coordinates, of those that digits count."""
        return every(*(less(at[d], n) for d, n in self.limits))

    def keeps_together(self, elems: int, run: Digit | None = None) -> bool:
        """Are ``elems`` neighbours along a run of walked digits, from a multiple of them on, all in the region or all
        beyond? By default in register order.
        """
        places = (run or self.innermost).places
        limits = [n for d, n in self.limits if d in {place[0] for place in places}]
        return not limits or (places[-1][2] % elems == 0 and all(n % elems == 0 for n in limits))

    def number(self, width: int = 1) -> Index:
        """The number of the first of ``width`` elements that the loop over registers is at."""
        return counter(self.step, self.count // width, width)

    def element(self, number: Index) -> tuple[tuple[Index, ...], Index]:
        """(coordinates in the region, register) of the thread's element ``number`` in register order."""
        walked = split_number(number, self.extents)
        values, slot = list(self.values), self.base
        for k, value in zip(self.walked, walked, strict=True):
            values[k] = value
            slot = add(slot, mul(value, self.digits[k].strides[0] or 0))
        at = coordinates(self.digits, [0 if v is None else v for v in values], len(self.operand.dims))
        return at, slot


def guard_held(owned: Ownership, operand: Operand, at: Sequence[Index]) -> Inside:
    """Whether the region has an element at these coordinates, inside of the operand's array."""
    return guard_at(operand, at).until(owned.holds(at))


def own(context: Context, register: Operand, others: Sequence[Operand]) -> Ownership:
    """Invert a register operand's layout, its digits lined up with the other operands'. Raises Refused."""
    guarded = guarded_by(others)
    lengths = register.counted_lengths
    limits = tuple((d, n) for d, (n, counted) in enumerate(zip(register.lengths, lengths, strict=True)) if n < counted)
    guarded |= {d for d, _ in limits} if others else set()
    joined = join_operands((register, *others), lengths, guarded)
    digits = min(fuse(joined), fuse(sorted(joined, key=_register_order)), key=len)
    if any(d.strides[0] is None for d in digits):
        raise Refused(f"the region {register.region.text} cuts across the iters of {register.buffer.name}'s layout")
    place = register.buffer.layout.place(register.region.begins, register.buffer.counted_shape)
    values: list[Index | None] = [None] * len(digits)
    enter: list[Index] = []
    numbers: list[Let] = []
    conditions: list[Index] = []
    first: list[Index] = []
    for axis in _axes(register, digits):
        mine = [(k, d) for k, d in enumerate(digits) if d.axes[0] == axis]
        number: Index = _axis_variable(context, axis)
        base = place.get(axis, 0)
        if not isinstance(base, int):
            raise Refused(f"the region {register.region.text} moves along the thread axis {axis} by {base}")
        if base:
            enter.append(less(base - 1, number))
            numbers.append(let(context.fresh(f"{axis}_in_region"), sub(number, base), 0))
            number = numbers[-1].var
        found, copies, owning = _read_axis(register, axis, mine, number)
        conditions.extend(owning)
        first.extend(equal(c, 0) for c in copies)
        for k, value in found.items():
            values[k] = value
    walked = sorted((k for k, d in enumerate(digits) if d.axes[0] == "m"), key=lambda k: -as_int(digits[k].strides[0]))
    _check_registers(register, [digits[k] for k in walked])
    held = every(*conditions)
    return Ownership(
        register, digits, tuple(values), tuple(walked), place.get("m", 0), every(*enter), tuple(numbers), held,
        every(held, *first), context.fresh("f"), limits,
    )  # fmt: skip


def _axes(register: Operand, digits: Sequence[Digit]) -> list[str]:
    """Thread axes that the layout names at all, with a digit, a replica or an offset."""
    tile = tile_of(register.buffer.layout)
    named = [d.axes[0] for d in digits] + [i.axis for i in tile.replica] + [i.axis for i in tile.shard]
    named += [axis for axis, _ in tile.offset]
    return [a for a in dict.fromkeys(named) if a != "m"]


def _read_axis(
    register: Operand, axis: str, digits: Sequence[tuple[int, Digit]], number: Index
) -> tuple[dict[int, Index], list[Index], list[Index]]:
    """The digits' values from the thread's number on one axis, the copies' numbers, and when the thread owns any."""
    tile = tile_of(register.buffer.layout)
    iters = [(as_int(d.strides[0]), d.extent, k) for k, d in digits]
    iters += [(as_int(i.stride), as_int(i.extent), -1) for i in tile.replica if i.axis == axis]
    held: list[Index] = []
    found: dict[int, Index] = {}
    copies: list[Index] = []
    covered = 1
    for stride, extent, k in sorted(iters):
        if stride < covered or stride % covered:
            raise Refused(f"two elements of {register.buffer.name} meet in one register of a thread ({axis})")
        held.append(equal(mod(div(number, covered), stride // covered), 0) if stride > covered else True)
        value = mod(div(number, stride), extent)
        covered = stride * extent
        if k < 0:
            copies.append(value)
        else:
            found[k] = value
    held.append(less(number, covered))
    return found, copies, held


def _register_order(digit: Digit) -> tuple[str, int]:
    """The digits of one axis together, outermost first: neighbours in registers that are not in the region may fuse."""
    return digit.axes[0], -as_int(digit.strides[0] or 0)


def _axis_variable(context: Context, axis: str) -> Var:
    threads = context.launch.threads
    if axis not in THREAD_AXES:
        raise Refused(f"axis {axis} does not number threads of a block")
    found = THREAD_AXES[axis]
    return Var(axis, min(-(-(found.span or threads) // found.unit), max(1, threads)))


def as_int(x: Index | None) -> int:
    """A constant of a layout; raises Refused for what is none."""
    if not isinstance(x, int):
        raise Refused("a register layout has constant strides")
    return x


def _check_registers(register: Operand, walked: Sequence[Digit]) -> None:
    """Registers of one thread do not meet: each stride passes all that the digits below reach."""
    reach = 0
    for d in reversed(walked):
        stride = as_int(d.strides[0])
        if stride <= reach:
            raise Refused(f"two elements of {register.buffer.name} meet in one register of a thread")
        reach += stride * (d.extent - 1)
