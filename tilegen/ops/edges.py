"""Where regions may pass either end of global arrays, how wide accesses may be, and accesses that an end may cut: as
one where all of it is inside, one by one what is left of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd

from tilegen.index import Index, Var, add, bound, conjuncts, every, less, multiple, not_, total
from tilegen.index.bounds import is_below
from tilegen.index.linear import linear
from tilegen.kept import keep
from tilegen.ops.digits import Digit
from tilegen.ops.operand import Operand, absolute
from tilegen.plan import FILL, MOVE, Instruction, Map, Move, Ref, Repeat, Step, when
from tilegen.spec.data import Region


@dataclass(frozen=True)
class Inside:
    """The condition that an element lies in its array: ``after`` the beginning, ``before`` the end of each dimension.

    From one element of an access to the next, ``after`` may come to hold and ``before`` may cease to.
    """

    after: Index = True
    before: Index = True

    @property
    def both(self) -> Index:
        return every(self.after, self.before)

    def until(self, holds: Index) -> Inside:
        """The same, and before another end: ``holds`` may cease to, from one element of an access to the next."""
        return Inside(self.after, every(holds, self.before))

    def to(self, last: Inside) -> Index:
        """That all elements are inside from this one to the ``last`` of an access."""
        return every(self.after, last.before)

    def meets(self, last: Inside) -> Index:
        """That some element is, from this one to the ``last``: an access is no longer than its array."""
        return every(last.after, self.before)


def edge_guard(operand: Operand, relative: Sequence[Index], but: int = -1) -> Inside:
    """The condition that an element of the region lies inside its global array: the dimensions that may pass an end.

    ``but``: a dimension that is not asked about.
    """
    if not operand.memory.traits.is_array:
        return Inside()
    places = absolute(operand, relative)
    after = (is_after(places[d]) for d in sorted(operand.early) if d != but)
    before = (less(places[d], operand.region.ends[d]) for d in sorted(late_dims(operand)) if d != but)
    return Inside(every(*after), every(*before))


def is_after(x: Index) -> Index:
    """The condition that a place is 0 or more, the same for all places between two at which it may turn.

    >>> groups = Var("bx", 9) * 64 + Var("tx", 16) * 4
    >>> [str(is_after(groups - n)) for n in (1, 4, 5, 8)]
    ['3 < bx * 64 + tx * 4', '3 < bx * 64 + tx * 4', '7 < bx * 64 + tx * 4', '7 < bx * 64 + tx * 4']
    """
    merged = linear(x)
    constant = merged.pop(1, 0)
    unit = gcd(*(c * multiple(f) for f, c in merged.items())) or 1
    up, down = (total((sign * c, f) for f, c in merged.items() if sign * c > 0) for sign in (1, -1))
    return less(add(down, -(constant // unit) * unit - 1), up)


def guard_at(operand: Operand, relative: Sequence[Index]) -> Inside:
    """The same, asked only where the region may pass an end of its array at all."""
    return edge_guard(operand, relative) if may_pass_end(operand) else Inside()


@keep
def guarded_dims(operand: Operand) -> frozenset[int]:
    """Positions in ``dims`` of the dimensions whose region may pass an end of a global array."""
    passing = passing_dims(operand)
    return frozenset(k for k, d in enumerate(operand.dims) if d in passing)


def guarded_by(operands: Iterable[Operand]) -> frozenset[int]:
    """The same of operands over one tile: where one of them may pass an end."""
    return frozenset().union(*map(guarded_dims, operands))


def may_pass_end(operand: Operand) -> bool:
    """Whether some dimension of the region, of length 1 too, may pass an end of a global array."""
    return bool(passing_dims(operand))


def passing_dims(operand: Operand) -> frozenset[int]:
    """The dimensions of the buffer in which the region may pass an end of a global array."""
    return operand.early | late_dims(operand)


@keep
def late_dims(operand: Operand) -> frozenset[int]:
    """The dimensions of the buffer in which the region may pass the end of a global array."""
    return frozenset(d for d in range(len(operand.region.lengths)) if _may_pass(operand, d))


def _may_pass(operand: Operand, d: int) -> bool:
    r, extent = operand.region, operand.region.ends[d]
    last = add(r.begins[d], r.lengths[d] - 1)
    if not operand.memory.traits.is_array or less(last, extent) is True or _divides(r, d, extent):
        return False
    return not (operand.known and is_below(last, extent, operand.known))


def _divides(r: Region, d: int, extent: Index) -> bool:
    """A region of a length that divides a constant extent, at multiples of it that start inside, ends inside."""
    n = r.lengths[d]
    if not isinstance(extent, int) or extent % n or multiple(r.begins[d]) % n:
        return False
    return bound(r.begins[d]) <= extent


def allows_width(operand: Operand, ref: Ref, elems: int, digit: Digit, side: int, guarded: frozenset[int]) -> bool:
    """May every thread access ``elems`` elements at ``ref`` at once, ``digit`` being the innermost?

    They must be contiguous for operand number ``side``, inside one chunk of its layout, aligned for every thread and
    step, at most 16 bytes (and no wider than the pointer's alignment), and not cross the edge of a guarded dimension.
    """
    return allows_run(operand, ref, elems, digit, side) and not _ends_inside(operand, elems, digit, guarded)


def allows_run(operand: Operand, ref: Ref, elems: int, digit: Digit, side: int) -> bool:
    """The same of accesses that may reach beyond an edge."""
    if elems == 1:
        return True
    return digit.strides[side] == 1 and digit.extent % elems == 0 and is_aligned(operand, ref, elems)


def is_aligned(operand: Operand, ref: Ref, elems: int) -> bool:
    """Are ``elems`` neighbours from ``ref`` on in one chunk of the operand's layout, aligned, of 16 bytes at most?"""
    if elems * operand.elem_bytes > operand.memory.widest_bytes or (
        operand.via.function and elems not in operand.updated_elems
    ):
        return False
    return operand.chunk_elems % elems == 0 and multiple(ref.offset) % elems == 0


def may_cut(operand: Operand, elems: int, digit: Digit) -> bool:
    """May an end of the operand's array lie between ``elems`` neighbours, ``digit`` being the innermost?"""
    return elems > 1 and _ends_inside(operand, elems, digit, guarded_dims(operand))


def _ends_inside(operand: Operand, elems: int, digit: Digit, guarded: frozenset[int]) -> bool:
    """May a dimension that is guarded begin or end between ``elems`` neighbours? One around others, after a row."""
    row = 1
    for place, _, extent in reversed(digit.places):
        if place in guarded:
            d = operand.dims[place]
            ends = multiple(operand.region.ends[d]) * row, multiple(operand.region.begins[d]) * row
            return any(end % elems for end in ends)
        row *= extent
    return False


# ---------------------------------------------------------------- accesses
Register = Callable[[Index], Ref]  # that of an element of an access, by its number


@dataclass(frozen=True)
class Tail:
    """The elements of an access that an edge cuts: ``cut`` says that it does, ``inside`` that one is in the array.

    ``e`` counts them, ``ref`` is where the one numbered so is.
    """

    cut: Index
    e: Var
    ref: Ref
    inside: Index


@dataclass(frozen=True)
class EdgeAccess:
    """An access of ``width`` elements: its place, whether some element is inside, and whether all are.

    ``pad``: what is read outside. ``via``: what a store is carried out by.
    """

    width: int
    ref: Ref
    meets: Index
    whole: Index
    tail: Tail | None = None
    pad: float = 0
    via: Instruction = MOVE

    def asks(self, known: Index) -> Index:
        """What all of it being inside asks besides ``known``."""
        return drop_known(self.whole, known)

    def implied(self, asked: Index) -> Index:
        """What is left of ``asked`` where all of it is inside."""
        return drop_known(asked, self.meets) if self.tail else asked


def see_access(
    width: int, guard: Callable[[Index], Inside], see: Callable[[Index], Ref], e: Var | None, operand: Operand
) -> EdgeAccess:
    """The access of ``width`` neighbours of an operand: ``guard(k)`` says whether its element k is inside, ``see(k)``
    is the reference to it. ``e`` counts them where an edge may cut it; without it none does.
    """
    first, pad, via = guard(0), operand.pad, operand.via
    if e is None:
        return EdgeAccess(width, see(0), first.both, first.both, None, pad, via)
    last = guard(width - 1)
    meets, whole = first.meets(last), first.to(last)
    if whole is True:
        return EdgeAccess(width, see(0), meets, whole, None, pad, via)
    cut = every(meets, not_(drop_known(whole, meets)))
    own = guard(e)
    inside = every(own.before, True if first.after == last.after else own.after)
    tail = Tail(cut, e, see(e), drop_known(inside, meets))
    return EdgeAccess(width, see(0), meets, whole, tail, pad, via)


def load_access(access: EdgeAccess, register: Register, asked: Index = True, known: Index = True) -> tuple[Step, ...]:
    """The access into registers, where ``asked`` holds; its pad beyond the edge. ``known``: what holds anyway."""
    whole, tail = load_whole(access, register, asked, known), access.tail
    if tail is None:
        return whole
    one = Move(register(tail.e), tail.ref, 1, tail.inside)
    return (*whole, *_one_by_one(tail, asked, known, when(one.valid, unguarded(one)) if access.pad else (one,)))


def store_access(access: EdgeAccess, register: Register, asked: Index = True, known: Index = True) -> tuple[Step, ...]:
    """The access from registers, where ``asked`` holds, of what is inside. ``known``: what holds anyway."""
    whole, tail = store_whole(access, register, asked, known), access.tail
    if tail is None:
        return whole
    one = Move(tail.ref, register(tail.e), 1, via=access.via)
    return (*whole, *_one_by_one(tail, asked, known, when(tail.inside, one)))


def load_whole(access: EdgeAccess, register: Register, asked: Index = True, known: Index = True) -> tuple[Step, ...]:
    """``load_access`` but for what an edge cuts."""
    condition = every(access.implied(asked), access.asks(known))
    return pad_load(Move(register(0), access.ref, access.width, condition), access.pad)


def pad_load(load: Move, pad: float) -> tuple[Step, ...]:
    """A load that leaves ``pad`` in its registers where nothing is read."""
    if not pad or load.valid is True:
        return (load,)
    return (Map(FILL, load.dst, (), load.elems, pad), *when(load.valid, unguarded(load)))


def unguarded(load: Move) -> Move:
    """The load where it is valid."""
    return replace(load, valid=True)


def store_whole(access: EdgeAccess, register: Register, asked: Index = True, known: Index = True) -> tuple[Step, ...]:
    """``store_access`` but for what an edge cuts."""
    condition = every(access.implied(asked), access.asks(known))
    return when(condition, Move(access.ref, register(0), access.width, via=access.via))


def are_cut_alike(load: EdgeAccess, store: EdgeAccess) -> bool:
    """Does an edge cut both at the same elements?"""
    if load.tail is None or store.tail is None or load.width != store.width or store.via is not MOVE:
        return False
    return (load.tail.cut, load.tail.inside, load.tail.e) == (store.tail.cut, store.tail.inside, store.tail.e)


def move_cut(load: EdgeAccess, store: EdgeAccess, asked: Index = True, known: Index = True) -> tuple[Step, ...]:
    """What an edge cuts off both ``are_cut_alike`` accesses, from one array to the other.

    Its registers are its own, so it does not wait for the vectors that are loaded before.
    """
    assert load.tail and store.tail
    return _one_by_one(store.tail, asked, known, when(store.tail.inside, Move(store.tail.ref, load.tail.ref, 1)))


def _one_by_one(tail: Tail, asked: Index, known: Index, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return when(every(asked, drop_known(tail.cut, known)), Repeat(tail.e, tail.e.bound, steps, True))


def drop_known(condition: Index, known: Index) -> Index:
    """What a condition asks beside what is known to hold."""
    held = conjuncts(known)
    return every(*(c for c in conjuncts(condition) if c not in held))
