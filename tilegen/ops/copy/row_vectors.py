"""A copy between a global array and shared memory, where rows of the array begin at any element.

Each row holds its whole vectors at places of its own: the first lies so many elements behind the row's beginning as
that is off a vector. They are one access of global memory each, and go element by element to and from shared memory,
whatever its layout is. What lies before the first vector of a row and behind the last is moved one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilegen.decisions import Choice
from tilegen.index import (
    Index,
    Var,
    add,
    div,
    equal,
    every,
    less,
    mod,
    mul,
    multiple,
    not_,
    select,
    sub,
    variables,
)
from tilegen.index.runs import counter, fuse
from tilegen.ops.copy.ragged_rows import WORD_BYTES, RaggedRows, Words
from tilegen.ops.copy.shifted_tile import Rows
from tilegen.ops.edges import drop_known, may_pass_end
from tilegen.ops.formals import Formals
from tilegen.ops.op import Planned, plan_one
from tilegen.ops.operand import STRETCHED, Context, Operand, Refused, join_operands
from tilegen.ops.ordered_tile import has_known_rows, is_flat, tile_over
from tilegen.ops.pins import NotHad, say_known, write_width
from tilegen.ops.thread_loop import UNROLL_LIMIT, ThreadLoop, stage_loop
from tilegen.plan import BYTE_PERMUTE, Block, Let, Map, Memory, Move, Ref, Repeat, Step, let, register_memory, when

_VECTOR_BYTES = (16, 8, 4)
_LANES = 32
_LEAST_VECTORS = 2  # that a row has room for: else most of it are ends


def refuse_row_vectors(
    context: Context, operands: tuple[Operand, Operand], scope: str, is_pinned: bool
) -> str | None:  # fmt: skip
    """Why no rows are moved in vectors at places of their own, or None.

    Unless it is pinned, the rows of all CTAs, and of all trips of loops around, have to begin alike: each way in which
    they begin would be carried out in the proofs.
    """
    side = 0 if operands[0].memory.traits.is_array else 1
    if operands[side].early:
        return "a region that may begin before its array has no row that begins where the region does"
    if side == 0 and may_pass_end(operands[0]):
        return "what lies beyond an edge is read as its pad, and no row has that in its vectors"
    rows = _rows_of(context, operands, side, scope)
    if rows is None:
        return "the array has no rows that lie densely, or extents that the launch alone knows"
    size = operands[side].elem_bytes
    if _VECTOR_BYTES[-1] <= size or size & (size - 1):
        return "elements of 4 bytes and more are moved as they are"
    row = _any_row(context, rows)
    if multiple(rows.ref(side, row, 0).offset) * size % _VECTOR_BYTES[-1] == 0:
        return "rows begin at whole words: 'gmem_smem' and 'register_tile' move these"
    if rows.length * size < _LEAST_VECTORS * _VECTOR_BYTES[-1]:
        return f"rows of {rows.length * size} bytes hold too few vectors"
    head = RaggedRows(rows, side, _VECTOR_BYTES[0] // size, row).head(row)
    if not is_pinned and {v.name for v in variables(head)} - {v.name for v in variables(row)}:
        return "rows begin elsewhere in each CTA or trip, so it is taken where it is written: 'variant: row_vectors'"
    return None


def _any_row(context: Context, rows: Rows) -> Index:
    return counter(context.fresh("row"), rows.count)


def _rows_of(context: Context, operands: tuple[Operand, Operand], side: int, scope: str) -> Rows | None:
    """The tile in rows of its global side; None where they are no runs of memory."""
    if any(STRETCHED in o.dims for o in operands) or not all(has_known_rows(o) for o in operands):
        return None
    tile = tile_over(context, operands, scope)
    joined = join_operands(operands, (), tile.guarded)
    strides = [d.strides[side] for d in joined]
    if not all(isinstance(s, int) for s in strides) or any(None in d.strides for d in joined):
        return None
    ordered = fuse(sorted(joined, key=lambda d: -int(d.strides[side])))  # type: ignore[arg-type]
    if not ordered or ordered[-1].strides[side] != 1:
        return None
    if len(ordered[-1].places) > 1 and not all(is_flat(o, ordered) for o in operands):
        return None
    return Rows(replace(tile, digits=ordered, order="rows"))


def plan_row_vectors(
    context: Context, operands: tuple[Operand, Operand], scope: str, name: str, pinned: tuple[int, int] | None
) -> Planned:
    """The vectors that touch the fewest sectors; their width is that on the global side, the other moves elements.

    Raises Refused where a row has room for none, NotHad for another width than theirs.
    """
    if any(o.region.limits for o in operands):
        raise Refused("a region has a limit, which may lie anywhere in a row")
    side = 0 if operands[0].memory.traits.is_array else 1
    rows = _rows_of(context, operands, side, scope)
    assert rows is not None  # else it was refused
    size, array = operands[side].elem_bytes, operands[side]
    most = array.memory.widest_bytes // size
    widths = [n // size for n in _VECTOR_BYTES if 1 < n // size <= most and array.chunk_elems % (n // size) == 0]
    row = _any_row(context, rows)
    ways = [RaggedRows(rows, side, n, row) for n in widths if rows.length >= _LEAST_VECTORS * n]
    if not ways:
        raise Refused("no row holds a whole vector")
    if pinned and pinned not in [_write_widths(w) for w in ways]:
        known = [write_width(*_write_widths(w)) for w in ways]
        raise NotHad("width", f"loads and stores here are of {say_known(known)} elements", known)
    fewest = min(ways, key=lambda w: (w.sectors, w.instructions, -w.elems))
    best = next(w for w in (fewest, *ways) if pinned in (None, _write_widths(w)))
    block = row_block(context, best, name, scope)
    counts = (f"{w.sectors} with {w.elems * size} bytes" for w in ways)
    why = f"the fewest sectors, then instructions, by where rows begin: {', '.join(counts)}"
    if best is not fewest:
        why = f"beside a pin, at {best.sectors} sectors and {best.instructions} instructions"
    choice = Choice("row_vectors", _value_of(best), (), why)
    return plan_one(context, block, (choice,), (("width", write_width(*_write_widths(best))),))


def _write_widths(ragged: RaggedRows) -> tuple[int, int]:
    """Elements of a load and of a store."""
    return (ragged.elems, 1) if ragged.side == 0 else (1, ragged.elems)


def _value_of(ragged: RaggedRows) -> dict[str, int]:
    return {"bytes": ragged.elems * ragged.elem_bytes, "vectors": ragged.vectors, "row": ragged.rows.length}


# ---------------------------------------------------------------- the function
_PARTS = ("", "first", "last", "end")  # of a function: vectors, what comes before them, and behind, and both


def row_block(context: Context, ragged: RaggedRows, name: str, scope: str) -> Block:
    """The function that moves every row's vectors, and then what of rows is in no vector."""
    tile, words = ragged.rows.tile, ragged.find_words(0) if ragged.side == 1 else None
    turns = [f"turn{n}" for n in range(words.apart if words else 0)]
    said = [f"{part}_{n}" if part else n for part in (*_PARTS, *turns) for n in ("row", "number", "head", "place")]
    names = {n: context.fresh(n) for n in (*said, "regs", "words", "one", "e")}
    flat = [is_flat(o, tile.digits) for o in tile.operands]
    formals = Formals(tile.operands, flat, scope, {tile.step, tile.chunk, *names.values()})
    loop = _loop_of(ragged, ragged.vectors)
    loop = stage_loop(loop, tile.operands, 2 * ragged.elems, False)
    dtype = tile.operands[0].buffer.dtype
    one = register_memory(names["one"], dtype, 1)
    regs = register_memory(names["regs"], dtype, loop.sets * ragged.elems)
    vectors, first, last, end = (_Part(ragged, formals, names, part) for part in _PARTS)
    ends = (
        end.move_ends(one) if ragged.rows.length % ragged.elems == 0 else (*first.move_first(one), *last.move_last(one))
    )
    if words is None:
        return formals.block(name, (*vectors.move_vectors(loop, regs, one), *ends), context.op, (regs, one))
    regs = register_memory(names["regs"], dtype, ragged.elems)
    taken = register_memory(names["words"], dtype, ragged.elems + words.unit)
    parts = [_Part(ragged, formals, names, turn) for turn in turns]
    moved = [step for n, part in enumerate(parts) for step in part.move_words(words, n, (regs, taken, one))]
    used = (regs, one) if not any(words.missing) else (regs, taken, one)
    return formals.block(name, (*moved, *ends), context.op, used)


def _loop_of(ragged: RaggedRows, each: int) -> ThreadLoop:
    """The trips of ``each`` groups a row."""
    tile = ragged.rows.tile
    return ThreadLoop(-(-ragged.rows.count * each // tile.threads), UNROLL_LIMIT, tile.step, tile.chunk)


_Named = tuple[tuple[Let, ...], Index]  # steps that name a value, and the value


@dataclass(frozen=True)
class _Part:
    """One part of the function; ``names`` are those of all its variables and registers, ``part`` says whose."""

    ragged: RaggedRows
    formals: Formals
    names: dict[str, str]
    part: str

    def move_vectors(self, loop: ThreadLoop, regs: Memory, one: Memory) -> tuple[Step, ...]:
        """Every row's whole vectors, shared out over the threads; of one that an edge cuts what is inside."""
        ragged = self.ragged
        start, row, number, held = self._enter(loop, ragged.vectors)
        lets, head = self._name("head", ragged.head(row))
        at, first = add(head, mul(number, ragged.elems)), mul(loop.place, ragged.elems) if loop.is_staged else 0
        whole, begins = self._guards(row, at)
        in_row, start = every(held, less(add(at, ragged.elems - 1), ragged.rows.length)), (*start, *lets)
        held = every(in_row, whole)
        e = Var(self.names["e"], ragged.elems)
        inside, vector = self._see(1 - ragged.side, row, add(at, e)), self._see(ragged.side, row, at)
        if ragged.side == 1:
            load = Repeat(e, e.bound, (Move(regs[add(first, e)], inside),), True)
            rest = Repeat(e, e.bound, self._move_one(one, row, add(at, e), True), True)
            cut = when(every(in_row, begins, not_(drop_known(whole, begins))), rest) if whole is not True else ()
            return loop.build(start, (*when(held, load, Move(vector, regs[first], ragged.elems)), *cut))
        loads = when(held, Move(regs[first], vector, ragged.elems))
        stores = when(held, Repeat(e, e.bound, (Move(inside, regs[add(first, e)]),), True))
        return loop.build(start, loads, stores) if loop.is_staged else loop.build(start, (*loads, *stores))

    def move_words(self, words: Words, first: int, registers: tuple[Memory, Memory, Memory]) -> tuple[Step, ...]:
        """The whole vectors of every row that lies so many behind row number ``first``, read in words.

        A vector begins as far behind a word in all of these rows, so byte permutes make it of the words around it.
        """
        ragged, (regs, taken, one), unit = self.ragged, registers, words.unit
        tile, elems, missing = ragged.rows.tile, ragged.elems, words.missing[first]
        vectors, rows = ragged.vectors, ragged.rows.count // words.apart
        loop = ThreadLoop(-(-rows * vectors // tile.threads), UNROLL_LIMIT, tile.step, tile.chunk)
        group, own = add(mul(loop.number, tile.threads), tile.thread), self._is_own(first, words, rows * vectors)
        group = mod(group, rows * vectors) if own is not True else group
        named, turn = self._name("row", div(group, vectors))
        numbers, number = self._name("number", mod(group, vectors))
        row = add(mul(turn, words.apart), first)
        places, place = self._name("place", add(ragged.word_head(row, missing), mul(number, elems)))
        in_row = every(own, less(turn, rows), less(place, ragged.rows.length - elems - missing + 1))
        inside = replace(place, bound=min(place.bound, ragged.rows.length - elems - missing + 1)) if isinstance(
            place, Var) else place  # fmt: skip
        at, begin = add(inside, missing), taken if missing else regs
        whole, begins = self._guards(row, add(place, missing))  # asked before it is known to be inside
        loads = [
            Move(begin[k], self._see(0, row, add(inside, k)), unit)
            for k in range(0, elems + (unit if missing else 0), unit)
        ]
        selector = sum((missing * ragged.elem_bytes + n) << 4 * n for n in range(WORD_BYTES))
        joined = [
            Map(BYTE_PERMUTE, regs[k], (taken[k], taken[k + unit]), unit, selector)
            for k in (range(0, elems, unit) if missing else ())
        ]
        store = Move(self._see(1, row, at), regs[0], elems)
        e = Var(self.names["e"], elems)
        rest = Repeat(e, e.bound, self._move_one(one, row, add(at, e), True), False)
        cut = when(every(in_row, begins, not_(drop_known(whole, begins))), rest) if whole is not True else ()
        steps = (*when(every(in_row, whole), *loads, *joined, store), *cut)
        return loop.build((*named, *numbers, *places), steps)

    def _is_own(self, first: int, words: Words, groups: int) -> Index:
        """Whether a thread is one of those that take these rows: whole warps, other ones for other rows, if there are
        so many.
        """
        tile = self.ragged.rows.tile
        parts = min(words.apart, tile.threads // groups)
        return equal(div(tile.thread, groups), first % parts) if parts > 1 and groups % _LANES == 0 else True

    def move_ends(self, one: Memory) -> tuple[Step, ...]:
        """What of every row is in no vector, where rows are as long as whole vectors: as many elements as one has."""
        ragged, loop = self.ragged, _loop_of(self.ragged, self.ragged.elems)
        start, row, number, held = self._enter(loop, ragged.elems)
        heads, head = self._name("head", ragged.head(row))
        behind = add(number, ragged.rows.length - ragged.elems)
        lets, place = self._name("place", select(less(number, head), number, behind))
        return loop.build((*start, *heads, *lets), self._move_one(one, row, place, every(held, less(0, head))))

    def move_first(self, one: Memory) -> tuple[Step, ...]:
        """The elements of every row before its first vector, by as many threads as a vector has elements."""
        loop = _loop_of(self.ragged, self.ragged.elems)
        start, row, number, held = self._enter(loop, self.ragged.elems)
        lets, head = self._name("head", self.ragged.head(row))
        return loop.build((*start, *lets), self._move_one(one, row, number, every(held, less(number, head))))

    def move_last(self, one: Memory) -> tuple[Step, ...]:
        """The elements of every row behind its last whole vector, by as many threads."""
        ragged, loop = self.ragged, _loop_of(self.ragged, self.ragged.elems)
        start, row, number, held = self._enter(loop, ragged.elems)
        lets, at = self._name("place", sub(add(ragged.end(row), number), ragged.lead(row)))
        return loop.build((*start, *lets), self._move_one(one, row, at, every(held, less(at, ragged.rows.length))))

    def _enter(self, loop: ThreadLoop, each: int) -> tuple[tuple[Let, ...], Index, Index, Index]:
        """Of ``each`` groups a row, that of a trip: what names it, its row, its number there, and whether there is one.

        Whether there is one is asked of the row: so proofs need not know that it follows from the group.
        """
        tile, count = self.ragged.rows.tile, self.ragged.rows.count
        group = add(mul(loop.number, tile.threads), tile.thread)
        if count == 1:
            return (), 0, group, less(group, each)
        rows, row = self._name("row", div(group, each))
        numbers, number = self._name("number", mod(group, each))
        return (*rows, *numbers), row, number, less(row, count)

    def _move_one(self, one: Memory, row: Index, at: Index, held: Index) -> tuple[Step, ...]:
        """One element, where ``held`` and where it is inside of the array."""
        held = every(held, self.ragged.rows.inside(self.ragged.side, row, at).both)
        src, dst = (self._see(side, row, at) for side in (0, 1))
        return when(held, Move(one[0], src), Move(dst, one[0]))

    def _name(self, name: str, value: Index) -> _Named:
        """A value by a name of its own, where it is more than a variable of the function.

        Those of a CTA are named too: else they would be added to what the region's begin has of them, so that places
        would not share the region's base.
        """
        if isinstance(value, int) or (isinstance(value, Var) and value.name in self.formals.inner):
            return (), value
        own = f"{self.part}_{name}" if self.part else name
        made = let(self.names[own], value)
        return (made,), made.var

    def _see(self, side: int, row: Index, at: Index) -> Ref:
        return self.formals.see(side, self.ragged.rows.ref(side, row, at))

    def _guards(self, row: Index, at: Index) -> tuple[Index, Index]:
        """Whether all of a vector lies in the array, and whether its first element does."""
        rows, last = self.ragged.rows, add(at, self.ragged.elems - 1)
        first_in, last_in = (rows.inside(self.ragged.side, row, x) for x in (at, last))
        return first_in.to(last_in), first_in.both
