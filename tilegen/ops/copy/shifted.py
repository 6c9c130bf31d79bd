"""A copy of rows that begin off the vectors of one side, or of both: whole vectors, put together in registers.

Where both sides are off alike, vectors of both are moved, and the ends of rows one by one. Else each thread loads a
vector of src, gets the words that it lacks from the next lane (or the one before), and makes a vector of dst of both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilegen.decisions import Choice
from tilegen.index import Formula, Index, Var, add, any_of, conjuncts, equal, every, mod, mul, not_
from tilegen.index.bounds import is_below
from tilegen.ops.copy.register_tiles import WORD_BYTES
from tilegen.ops.copy.shifted_tile import (
    Shift,
    find_shift,
    is_last_in_row,
    residue,
    rows_of,
    split_end,
    split_vector,
)
from tilegen.ops.edges import Inside, drop_known, pad_load
from tilegen.ops.formals import Formals
from tilegen.ops.op import Planned
from tilegen.ops.operand import Context, Operand, Refused
from tilegen.ops.ordered_tile import is_flat
from tilegen.ops.pins import NotHad, choose, say_known
from tilegen.ops.thread_loop import UNROLL_LIMIT, ThreadLoop, enter_trip, stage_loop
from tilegen.plan import (
    BYTE_PERMUTE,
    Block,
    Let,
    Map,
    Memory,
    Move,
    Ref,
    Repeat,
    Shuffle,
    Step,
    effects,
    flatten,
    let,
    register_memory,
    when,
)
from tilegen.scopes import threads_of

_LANES = 32
_VECTOR_BYTES = (16, 8, 4)


def refuse_shifted(context: Context, operands: tuple[Operand, Operand], scope: str) -> str | None:
    """Why nothing is shifted between these operands, or None."""
    if threads_of(scope, context.launch.threads)[1] % _LANES:
        return "its lanes get words of each other, so it is for whole warps"
    rows = rows_of(context, operands, scope)
    if rows is None:
        return "the two sides run along no common dimension"
    widest = _VECTOR_BYTES[0] // operands[0].elem_bytes
    if widest == 1 or (rows.length % widest == 0 and {residue(rows, side, widest) for side in (0, 1)} == {0}):
        return "rows are whole vectors of both sides: nothing to shift"
    return None


def plan_shifted(
    context: Context, operands: tuple[Operand, Operand], scope: str, name: str, pinned: tuple[int, int] | None
) -> Planned:
    """The cheapest vectors of those that both sides have at constant places.

    Raises Refused where there are none, NotHad for another width than theirs.
    """
    if any(o.region.limits for o in operands):
        raise Refused("a region has a limit, which may lie anywhere in a row")
    rows = rows_of(context, operands, scope)
    assert rows is not None  # else it was refused
    size = operands[0].elem_bytes
    shifts = [find_shift(rows, n // size) for n in _VECTOR_BYTES if n // size > 1]
    known = [s for s in shifts if s is not None]
    if not known:
        raise Refused("no row holds a whole vector, or vectors lie at no constant place in the rows")
    if pinned and pinned not in [(s.elems, s.elems) for s in known]:
        widths = [s.elems for s in known]
        raise NotHad("width", f"vectors here are of {say_known(widths)} elements", widths)

    chosen = choose(
        context, known, lambda shift: shifted_block(context, shift, name, scope),
        lambda shift: pinned in (None, (shift.elems, shift.elems)), _value_of,
    )  # fmt: skip
    why = f"the cheapest of {len(known)}; vectors of 16, 8, 4 bytes that lie at constant places in rows"
    choice = Choice("shift", _value_of(chosen.value), chosen.candidates, chosen.why_pinned or why)
    pins = (("width", chosen.value.elems),)
    return Planned((chosen.block,), chosen.cost, (choice,), pins, counted=chosen.counted)


def _value_of(shift: Shift) -> dict[str, int]:
    size = shift.elem_bytes
    return {"bytes": shift.elems * size, "shift_bytes": shift.shift * size, "vectors": shift.count, "ends": shift.ends}


# ---------------------------------------------------------------- the function
def shifted_block(context: Context, shift: Shift, name: str, scope: str) -> Block:
    """The function that copies the tile in vectors and the ends of its rows one by one."""
    tile = shift.rows.tile
    words = ("group", "row", "vector", "own", "more", "taken", "shifted", "one", "end", "e")
    names = {n: context.fresh(n) for n in words}
    flat = [is_flat(o, tile.digits) for o in tile.operands]
    formals = Formals(tile.operands, flat, scope, {tile.step, tile.chunk, *names.values()})
    one, end = (register_memory(names[n], tile.operands[0].buffer.dtype, 1) for n in ("one", "end"))
    vectors, registers = _Vectors(context, shift, formals, names, one).build()
    before, after = _ends(context, shift, formals, end)
    body = (*before, *vectors, *after)
    used = {t.ref.memory.name for step in flatten(body) for t in effects(step).written}
    return formals.block(name, body, context.op, tuple(m for m in (*registers, one, end) if m.name in used))


@dataclass(frozen=True)
class _Single:
    """What moves elements one by one, each through ``register``."""

    shift: Shift
    formals: Formals
    register: Memory

    def see(
        self, row: Index, at: Index, offset: int = 0, known: Index = True
    ) -> tuple[Index, tuple[Step, ...], Move]:  # fmt: skip
        """Whether an element is inside of dst, its load, with its pad where it is outside of src, and its store.

        ``known``: what holds anyway.
        """
        rows = self.shift.rows
        src, dst = (self.formals.see(side, rows.ref(side, row, at, offset)) for side in (0, 1))
        held = _left_of(rows.inside(1, row, at, offset).both, known)
        valid = _left_of(rows.inside(0, row, at, offset).both, every(held, known))
        load = pad_load(Move(self.register[0], src, 1, valid), rows.tile.operands[0].pad)
        return held, load, Move(dst, self.register[0])


@dataclass(frozen=True)
class _Vectors:
    """What moves the vectors of all rows. ``names`` are those of variables and registers; ``one``: of an element."""

    context: Context
    shift: Shift
    formals: Formals
    names: dict[str, str]
    one: Memory

    def build(self) -> tuple[tuple[Step, ...], tuple[Memory, ...]]:
        """The steps, and the registers that they take. Every lane exchanges, whether it has a vector or not."""
        shift, tile = self.shift, self.shift.rows.tile
        groups = shift.rows.count * shift.count
        count = -(-groups // tile.threads)
        loop = ThreadLoop(count, UNROLL_LIMIT, tile.step, tile.chunk)
        loop = stage_loop(loop, tile.operands, 2 * shift.elems, False)
        trip = enter_trip(self.context, add(mul(loop.number, tile.threads), tile.thread), groups)
        start, (row, number) = self._name(*split_vector(shift, trip.group))
        alone = self._is_alone(number)
        first = mul(loop.place, shift.elems) if loop.is_staged else 0
        more = mul(loop.place, shift.lacking) if loop.is_staged else 0
        dtype = tile.operands[0].buffer.dtype
        own, lacking, taken, out = (
            register_memory(self.names[n], dtype, elems)
            for n, elems in (
                ("own", loop.sets * shift.elems), ("more", loop.sets * shift.lacking), ("taken", shift.lacking),
                ("shifted", shift.elems),
            )
        )  # fmt: skip
        kept = every(trip.held, self._whole(row, number))
        loaded = every(trip.held, self._inside(0, row, number, shift.own))
        loads = [Move(own[first], self._see(0, row, number, shift.own), shift.elems, loaded)]
        stored, registers, joined = own[first], [own], list[Step]()
        if shift.shift:
            loads.append(Move(lacking[more], self._see(0, row, number, shift.other), shift.lacking, every(kept, alone)))
            word, way = (0, "down") if shift.takes_next else (shift.elems - shift.lacking, "up")
            joined = [
                Shuffle(taken[0], own[add(first, word)], 1, shift.lacking, way),
                *when(alone, Move(taken[0], lacking[more], shift.lacking)),
                *join_words(shift, own, first, taken, out),
            ]
            stored, registers = out[0], [own, lacking, taken, out]
        store = when(kept, Move(self._see(1, row, number, shift.head), stored, shift.elems))
        body = (*joined, *store, *self._tail(row, number, trip.held, kept))
        bodies = (tuple(loads), body) if loop.is_staged else ((*loads, *body),)
        return loop.build((*trip.start, *start), *bodies), tuple(registers)

    def _name(self, row: Index, number: Index) -> tuple[tuple[Let, ...], tuple[Index, Index]]:
        """Row and number by names of their own, where they are more than a variable."""
        lets = []
        named = []
        for name, value in (("row", row), ("vector", number)):
            if not isinstance(value, int | Var):
                lets.append(let(self.names[name], value))
                value = lets[-1].var
            named.append(value)
        return tuple(lets), (named[0], named[1])

    def _see(self, side: int, row: Index, number: Index, offset: int) -> Ref:
        return self.formals.see(side, self.shift.rows.ref(side, row, mul(number, self.shift.elems), offset))

    def _is_alone(self, number: Index) -> Index:
        """Does a lane load the words itself that it lacks? At the end of a warp, or of a row."""
        lane = mod(self.shift.rows.tile.thread, _LANES)
        at_end = equal(lane, _LANES - 1 if self.shift.takes_next else 0)
        if self.shift.count % _LANES == 0:  # then a row ends with a warp
            return at_end
        return any_of(at_end, is_last_in_row(self.shift, number))

    def _inside(self, side: int, row: Index, number: Index, offset: int) -> Index:
        """Whether all of a vector is inside of an array."""
        first, last = self._ends_of(side, row, number, offset)
        return first.to(last)

    def _ends_of(self, side: int, row: Index, number: Index, offset: int, vectors: int = 1) -> tuple[Inside, Inside]:
        """The first and the last element of so many vectors in a row."""
        rows, first = self.shift.rows, mul(number, self.shift.elems)
        last = offset + vectors * self.shift.elems - 1
        return rows.inside(side, row, first, offset), rows.inside(side, row, first, last)

    def _whole(self, row: Index, number: Index) -> Index:
        """Whether the vectors of src that a vector is made of, and itself, are inside."""
        shift = self.shift
        first, last = self._ends_of(0, row, number, shift.head - shift.shift, 2 if shift.shift else 1)
        src, dst = first.to(last), self._inside(1, row, number, shift.head)
        return every(src, _left_of(dst, src))

    def _tail(self, row: Index, number: Index, held: Index, kept: Index) -> tuple[Step, ...]:
        """The elements one by one of a vector that is not whole."""
        shift, first = self.shift, mul(number, self.shift.elems)
        ends = self._ends_of(1, row, number, shift.head)
        begins = ends[0].meets(ends[1])
        is_whole = _left_of(drop_known(kept, held), begins)
        if is_whole is True:
            return ()
        e = Var(self.names["e"], shift.elems)
        by_one = _Single(shift, self.formals, self.one)
        inside, load, store = by_one.see(row, add(first, e), shift.head, begins)
        moved = when(inside, *load, store)
        return when(every(held, begins, not_(is_whole)), Repeat(e, e.bound, moved, True))


def _left_of(condition: Index, known: Index) -> Index:
    """What a condition asks beside what follows from another."""
    return every(*(c for c in conjuncts(condition) if not _follows(c, known)))


def _follows(condition: Index, known: Index) -> bool:
    """Does a comparison hold wherever ``known`` does?"""
    if not isinstance(condition, Formula) or condition.symbol != "<":
        return False
    return is_below(condition.args[0], condition.args[1], conjuncts(known))


def _ends(context: Context, shift: Shift, formals: Formals, end: Memory) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The elements of all rows that are in no vector, shared out one by one: what comes before the vectors, and after.

    Where no thread has more than one, all loads come before all stores, and wait for memory together.
    """
    tile, count = shift.rows.tile, shift.rows.count * shift.ends
    if not count:
        return (), ()
    loop = ThreadLoop(-(-count // tile.threads), UNROLL_LIMIT, tile.step, tile.chunk)
    trip = enter_trip(context, add(mul(loop.number, tile.threads), tile.thread), count)
    inside = replace(trip.inside, bound=min(trip.inside.bound, count)) if isinstance(trip.inside, Var) else trip.inside
    held, load, store = _Single(shift, formals, end).see(*split_end(shift, inside))
    if loop.count == 1:
        loads, stores = (when(trip.held, *when(held, *moves)) for moves in (load, (store,)))
        return (*trip.start, *loads), stores
    return (), loop.build(trip.start, when(trip.held, *when(held, *load, store)))


# ---------------------------------------------------------------- in registers
def join_words(shift: Shift, own: Memory, first: Index, taken: Memory, out: Memory) -> tuple[Step, ...]:
    """``out``: so many elements after ``shift`` of the two neighbours, one of them ``own[first]`` and on; of the other,
    ``taken`` has the words that are lacking. By byte permutes where words of the result lie across words.
    """
    unit = shift.unit
    words = shift.elems // unit
    lacking = shift.lacking // unit

    def word(k: int) -> Ref:
        """Word k of both."""
        if shift.takes_next:
            return own[add(first, k * unit)] if k < words else taken[(k - words) * unit]
        return taken[(k - words + lacking) * unit] if k < words else own[add(first, (k - words) * unit)]

    unit_bytes = unit * shift.elem_bytes
    whole, byte = divmod(shift.shift * shift.elem_bytes, unit_bytes)
    if byte == 0:
        return tuple(Move(out[k * unit], word(k + whole), unit) for k in range(words))
    selector = sum((byte + n) << 4 * n for n in range(WORD_BYTES))
    return tuple(
        Map(BYTE_PERMUTE, out[k * unit], (word(k + whole), word(k + whole + 1)), unit, selector) for k in range(words)
    )
