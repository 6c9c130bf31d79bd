"""A copy between a global array and shared memory, where rows of the array begin at any element.

Each row holds its whole vectors at places of its own: the first lies so many elements behind the row's beginning as
that is off a vector. They are one access of global memory each, and go element by element to and from shared memory,
whatever its layout is. What lies before the first vector of a row and behind the last is moved one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.decisions import Candidate, Choice, Cost, judge
from tilegen.index import Index, Var, add, div, every, less, minimum, mod, mul, multiple, sub, terms, total
from tilegen.ops.copy.shifted_tile import Rows
from tilegen.ops.digits import fuse, join
from tilegen.ops.edges import guarded_dims, late_dims, may_pass_end
from tilegen.ops.op import Planned
from tilegen.ops.operand import STRETCHED, Context, Formals, Operand, Refused, parts_of
from tilegen.ops.partition import OrderedTile, has_known_rows, is_flat
from tilegen.ops.pins import NotHad, hear, pick, say_known, write_width
from tilegen.ops.thread_loop import UNROLL_LIMIT, ThreadLoop, stage_loop
from tilegen.plan import Block, Let, Memory, Move, Ref, Repeat, Step, flat_memory, let, when
from tilegen.scopes import threads_of

_VECTOR_BYTES = (16, 8, 4)
_LEAST_VECTORS = 2  # that a row has room for: else most of it are ends


@dataclass(frozen=True)
class RaggedRows:
    """The rows of a tile in the order of its global ``side``, in vectors of ``elems`` elements."""

    rows: Rows
    side: int
    elems: int

    @property
    def vectors(self) -> int:
        """The most that a row has."""
        return self.rows.length // self.elems

    @property
    def array(self) -> Operand:
        return self.rows.tile.operands[self.side]

    @property
    def elem_bytes(self) -> int:
        return self.array.elem_bytes

    def lead(self, row: Index) -> Index:
        """How far behind a vector a row begins."""
        return self._residue(row, 1)

    def head(self, row: Index) -> Index:
        """How many elements of a row come before its first vector."""
        return self._residue(row, -1)

    def _residue(self, row: Index, sign: int) -> Index:
        """The row's beginning, or what is missing from there, as a sum of no differences, modulo a vector."""
        start = self.rows.ref(self.side, row, 0).offset
        return mod(total((sign * c % self.elems, factor) for c, factor in terms(start)), self.elems)

    @property
    def room(self) -> Index:
        """How many elements of a row are inside of the array."""
        place = self.rows.tile.digits[-1].places[0][0]
        d = self.array.dims[place]
        if d not in late_dims(self.array):
            return self.rows.length
        return minimum(self.rows.length, sub(self.array.buffer.shape[d], self.array.region.begins[d]))


def refuse_row_vectors(context: Context, operands: tuple[Operand, Operand], scope: str) -> str | None:
    """Why no rows are moved in vectors at places of their own, or None."""
    side = 0 if operands[0].memory.space == "global" else 1
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
    if multiple(rows.ref(side, _any_row(rows), 0).offset) * size % _VECTOR_BYTES[-1] == 0:
        return "rows begin at whole words: 'gmem_smem' and 'register_tile' move these"
    if rows.length * size < _LEAST_VECTORS * _VECTOR_BYTES[-1]:
        return f"rows of {rows.length * size} bytes hold too few vectors"
    return None


def _any_row(rows: Rows) -> Index:
    return Var("row", rows.count) if rows.count > 1 else 0


def _rows_of(context: Context, operands: tuple[Operand, Operand], side: int, scope: str) -> Rows | None:
    """The tile in rows of its global side; None where they are no runs of memory."""
    thread, threads = threads_of(scope, context.launch.threads)
    guarded = guarded_dims(operands[0]) | guarded_dims(operands[1])
    if any(STRETCHED in o.dims for o in operands) or not all(has_known_rows(o) for o in operands):
        return None
    joined = join([parts_of(o) for o in operands], operands[0].lengths)
    strides = [d.strides[side] for d in joined]
    if not all(isinstance(s, int) for s in strides) or any(None in d.strides for d in joined):
        return None
    ordered = fuse(sorted(joined, key=lambda d: -int(d.strides[side])), guarded)  # type: ignore[arg-type]
    if not ordered or ordered[-1].strides[side] != 1:
        return None
    if len(ordered[-1].places) > 1 and not all(is_flat(o, ordered) for o in operands):
        return None
    names = context.fresh("i"), context.fresh("j")
    return Rows(OrderedTile(operands, ordered, guarded, thread, threads, "rows", *names))


@dataclass(frozen=True)
class _Found:
    ragged: RaggedRows
    block: Block
    cost: Cost


def plan_row_vectors(
    context: Context, operands: tuple[Operand, Operand], scope: str, name: str, pinned: tuple[int, int] | None
) -> Planned:
    """The cheapest of the vectors that a row has room for; their width is that on the global side.

    Raises Refused where a row has room for none, NotHad for another width than theirs.
    """
    side = 0 if operands[0].memory.space == "global" else 1
    rows = _rows_of(context, operands, side, scope)
    assert rows is not None  # else it was refused
    size = operands[side].elem_bytes
    most = min(16, operands[side].memory.align_bytes) // size
    widths = [n // size for n in _VECTOR_BYTES if 1 < n // size <= min(most, operands[side].chunk_elems)]
    ways = [RaggedRows(rows, side, n) for n in widths if rows.length >= _LEAST_VECTORS * n]
    if not ways:
        raise Refused("no row holds a whole vector")

    def written(ragged: RaggedRows) -> tuple[int, int]:
        return (ragged.elems, 1) if side == 0 else (1, ragged.elems)

    if pinned and pinned not in map(written, ways):
        known = [write_width(*written(w)) for w in ways]
        raise NotHad("width", f"loads and stores here are of {say_known(known)} elements", known)

    def has(ragged: RaggedRows) -> bool:
        return pinned in (None, written(ragged))

    found = []
    for ragged in ways:
        block = row_block(context, ragged, name, scope)
        found.append(_Found(ragged, block, hear(context, has(ragged)).cost((block,))))
    best, why_pinned = pick(found, lambda f: has(f.ragged), lambda f: f.cost)
    candidates = tuple(Candidate(_value_of(f.ragged), f.cost, judge(f.cost, best.cost, f is best)) for f in found)
    why = why_pinned or f"the cheapest of {len(found)}; vectors of 16, 8, 4 bytes, each row's at places of its own"
    choice = Choice("row_vectors", _value_of(best.ragged), candidates, why)
    return Planned((best.block,), best.cost, (choice,), (("width", write_width(*written(best.ragged))),))


def _value_of(ragged: RaggedRows) -> dict[str, int]:
    return {"bytes": ragged.elems * ragged.elem_bytes, "vectors": ragged.vectors, "row": ragged.rows.length}


# ---------------------------------------------------------------- the function
_PARTS = ("", "first", "last")  # of a function: vectors, what comes before them, and behind


def row_block(context: Context, ragged: RaggedRows, name: str, scope: str) -> Block:
    """The function that moves every row's vectors, and then what of rows is in no vector."""
    tile = ragged.rows.tile
    said = [f"{part}_{n}" if part else n for part in _PARTS for n in ("row", "number", "head")]
    names = {n: context.fresh(n) for n in (*said, "end", "regs", "one", "e")}
    flat = [is_flat(o, tile.digits) for o in tile.operands]
    formals = Formals(tile.operands, flat, scope, {tile.step, tile.chunk, *names.values()})
    loop = _loop_of(ragged, ragged.vectors)
    loop = stage_loop(loop, tile.operands, 2 * ragged.elems, False)
    dtype = tile.operands[0].buffer.dtype
    one = flat_memory(names["one"], dtype, 1, "register")
    regs = flat_memory(names["regs"], dtype, loop.sets * ragged.elems, "register")
    vectors, first, last = (_Part(ragged, formals, names, part) for part in _PARTS)
    body = (*vectors.move_vectors(loop, regs), *first.move_first(one), *last.move_last(one))
    return formals.block(name, body, context.op, (regs, one))


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

    def move_vectors(self, loop: ThreadLoop, regs: Memory) -> tuple[Step, ...]:
        """Every row's whole vectors, shared out over the threads."""
        ragged = self.ragged
        start, row, number, held = self._enter(loop, ragged.vectors)
        lets, head = self._name("head", ragged.head(row))
        at, first = add(head, mul(number, ragged.elems)), mul(loop.place, ragged.elems) if loop.is_staged else 0
        held, start = every(held, self._is_whole(row, at)), (*start, *lets)
        e = Var(self.names["e"], ragged.elems)
        inside, vector = self._see(1 - ragged.side, row, add(at, e)), self._see(ragged.side, row, at)
        if ragged.side == 1:
            load = Repeat(e, e.bound, (Move(regs[add(first, e)], inside),), True)
            return loop.build(start, when(held, load, Move(vector, regs[first], ragged.elems)))
        loads = when(held, Move(regs[first], vector, ragged.elems))
        stores = when(held, Repeat(e, e.bound, (Move(inside, regs[add(first, e)]),), True))
        return loop.build(start, loads, stores) if loop.is_staged else loop.build(start, (*loads, *stores))

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
        lead, (lets, head) = ragged.lead(row), self._name("head", ragged.head(row))
        end_lets, end = self._name("end", mul(div(add(lead, ragged.room), ragged.elems), ragged.elems))
        at = sub(add(end, number), lead)
        held = every(held, less(add(head, -1), at), less(at, ragged.rows.length))
        return loop.build((*start, *lets, *end_lets), self._move_one(one, row, at, held))

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
        """A value by a name of its own, where it is more than a variable."""
        if isinstance(value, int | Var):
            return (), value
        own = name if name == "end" or not self.part else f"{self.part}_{name}"
        made = let(self.names[own], value)
        return (made,), made.var

    def _see(self, side: int, row: Index, at: Index) -> Ref:
        return self.formals.see(side, self.ragged.rows.ref(side, row, at))

    def _is_whole(self, row: Index, at: Index) -> Index:
        """Whether a vector ends in its row, and lies in the array."""
        rows, last = self.ragged.rows, add(at, self.ragged.elems - 1)
        first_in, last_in = (rows.inside(self.ragged.side, row, x) for x in (at, last))
        return every(less(last, rows.length), first_in.to(last_in))
