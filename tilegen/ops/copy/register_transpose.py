"""A transpose in registers: src and dst are contiguous along different dimensions, and both take whole vectors.

A thread loads ``rows`` vectors of ``columns`` elements that are contiguous in src, turns the tile over in its
registers, and stores ``columns`` vectors of ``rows`` elements that are contiguous in dst. A side whose rows (columns)
follow one another, as pixels of 3 bytes do, is loaded (stored) as the one run that they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tilegen.access import SECTOR_BYTES
from tilegen.decisions import Candidate, Choice, Cost, judge
from tilegen.index import Index, add, div, every, mod, mul, variables
from tilegen.index.runs import counter
from tilegen.ops.copy.register_tiles import (
    WORD_BYTES,
    Shape,
    TileOrder,
    coalesced,
    digits_at,
    ends_between,
    orders_of,
    shapes_of,
    word_elems,
)
from tilegen.ops.copy.register_turns import TurnRegisters, block_elems, turn_columns, turn_run, turns_by_columns
from tilegen.ops.edges import edge_guard, may_pass_end, pad_load, unguarded
from tilegen.ops.formals import Formals
from tilegen.ops.op import Planned
from tilegen.ops.operand import Context, CountedSteps, Operand, Refused, ref_at
from tilegen.ops.ordered_tile import OrderedTile, is_flat, place_of, tile_over
from tilegen.ops.pins import NotHad, pick, say_known
from tilegen.ops.thread_loop import UNROLL_LIMIT, Entry, ThreadLoop, either, enter_trip, over, stage_loop
from tilegen.plan import Block, Move, Ref, Step, effects, flatten, register_memory, when
from tilegen.spaces import SPACES
from tilegen.spec.pinning import spell

_LEAST_LOADS = 8  # of a register tile, as bytes and halves have: fewer guards are not much more than one
_MOST_LOADS = 128  # of a thread's unrolled trips


# ---------------------------------------------------------------- the function
@dataclass(frozen=True)
class _Turning:
    """A tile that is copied with this shape of register tile, each thread those that ``order`` gives it."""

    tile: OrderedTile
    shape: Shape
    order: TileOrder

    def place(self, group: Index, row: Index, column: Index) -> tuple[Index, ...]:
        """Where an element of a register tile lies."""
        return place_of(self.tile, digits_at(self.tile, self.shape, self.order, group, row, column))


@dataclass(frozen=True)
class _Inner:
    """What the function has: its parameters, its registers, and its variables by the letters that stand for them."""

    formals: Formals
    registers: TurnRegisters
    names: Mapping[str, str]


@dataclass(frozen=True)
class _Moves:
    """What the trips do, one body after the other; the first of them is ``easy`` where ``whole`` holds."""

    bodies: tuple[tuple[Step, ...], ...]
    whole: Index = False
    easy: tuple[Step, ...] = ()


def turn_block(context: Context, turning: _Turning, name: str, scope: str, turns: bool = True) -> Block:
    """The function that copies a tile. Not ``turns``: only what accesses memory, which is all that has a cost."""
    tile, shape = turning.tile, turning.shape
    names = {n: context.fresh(n) for n in ("r", "c", "k", "regs", "pairs", "pack")}
    groups = tile.count // shape.elems
    count = -(-groups // tile.threads)
    loop = ThreadLoop(count, UNROLL_LIMIT if count <= UNROLL_LIMIT else 1, tile.step, tile.chunk)
    loop = stage_loop(loop, tile.operands, shape.elems, groups % tile.threads == 0)
    trip = enter_trip(context, add(mul(loop.number, tile.threads), tile.thread), groups)
    flat = [is_flat(o, tile.digits) for o in tile.operands]
    guarded = [may_pass_end(o) for o in tile.operands]
    taken = {tile.step, tile.chunk, *names.values(), context.fresh("group")}
    formals = Formals(tile.operands, flat, scope, taken, guarded, tile.chunk)
    own = _registers(tile, shape, loop.sets, names)
    registers = own.loaded, own.pairs, own.pack
    moves = _moves(turning, _Inner(formals, own, names), loop, trip, turns)
    body = loop.build(trip.start, *moves.bodies, whole=moves.whole, easy=moves.easy)
    if not turns:
        return formals.block(name, body, context.op, registers)
    turned = shape.rows > 1 and shape.columns > 1
    note = f"Each thread turns {shape.rows} x {shape.columns} elements over in registers." if turned else ""
    used = {t.ref.memory.name for s in flatten(body) for t in effects(s).written}
    return formals.block(name, body, context.op, tuple(m for m in registers if m.name in used), note)


def _registers(tile: OrderedTile, shape: Shape, sets: int, names: dict[str, str]) -> TurnRegisters:
    """Room for the register tiles of ``sets`` trips as loaded, for words on the way, and for columns as stored."""
    dtype, size = tile.operands[0].buffer.dtype, tile.operands[0].elem_bytes
    columns = block_elems(size, shape.rows, shape.columns) if turns_by_columns(shape, size) else shape.columns
    return TurnRegisters(
        register_memory(names["regs"], dtype, sets * shape.elems),
        register_memory(names["pairs"], dtype, 4 * word_elems(size)),
        register_memory(names["pack"], dtype, shape.rows * columns),
    )


def _moves(turning: _Turning, inner: _Inner, loop: ThreadLoop, trip: Entry, turns: bool) -> _Moves:
    """A trip's loads, turns and stores: in one body, or its loads in one of their own where trips are staged."""
    tile, shape, formals, names = turning.tile, turning.shape, inner.formals, inner.names
    regs, pack, pad = inner.registers.loaded, inner.registers.pack, tile.operands[0].pad
    group, first = (trip.group, mul(loop.place, shape.elems)) if loop.is_staged else (trip.inside, 0)
    r = counter(names["r"], shape.loads)
    row, start = div(mul(r, shape.load), shape.columns), mod(mul(r, shape.load), shape.columns)
    source = ref_at(tile.operands[0], turning.place(group, row, start))
    into = regs[add(first, mul(r, shape.load))]
    load = Move(into, formals.see(0, source), shape.load, _inside(turning, 0, group, row))

    def put(column: Index, row: Index, at: Ref) -> tuple[Move, Index]:
        """A store, and the condition that it has."""
        to = ref_at(tile.operands[1], turning.place(group, row, column))
        return Move(formals.see(1, to), at, shape.store), _inside(turning, 1, group, column)

    if turns_by_columns(shape, regs.elem_bytes):
        side = block_elems(regs.elem_bytes, shape.rows, shape.columns)
        k, c = counter(names["k"], side), counter(names["c"], shape.columns // side)
        step = add(mul(c, side), k)
        is_turned = shape.rows > 1 and shape.columns > 1
        store, held = put(step, 0, pack[mul(k, shape.rows)] if is_turned else regs[add(first, c)])
        at = add(first, mul(c, side))
        turn: tuple[Step, ...] = ()
        if is_turned and turns:
            turn = turn_columns(inner.registers, shape, at, names["r"])
    else:
        k, c = counter(names["c"], shape.stores), 0
        step = div(mul(k, shape.store), shape.rows)
        store, held = put(step, mod(mul(k, shape.store), shape.rows), pack[mul(k, shape.store)])
        turn = turn_run(inner.registers, shape, first, names["k"]) if turns else ()
    each, ends = (held, True) if _names(step) & _names(held) else (True, held)
    stores = over(c, (*turn, *over(k, when(each, store))))
    whole = _asks_once(turning, loop, load, r)
    if loop.is_staged:  # what is not stored is not loaded either
        held = every(trip.held, ends)
        easy, loads = (over(r, pad_load(replace(load, valid=every(held, x)), pad)) for x in (True, load.valid))
        return _Moves((loads, when(held, *stores)), whole, easy)
    loads = either(whole, over(r, (unguarded(load),)), over(r, pad_load(load, pad)))
    return _Moves((when(trip.held, *when(ends, *loads, *stores)),))


def _asks_once(turning: _Turning, loop: ThreadLoop, load: Move, r: Index) -> Index:
    """The condition that all of the region lies in src, by which no load of it asks; False where each load asks.

    Each asks where that is the same for all loads of a register tile, where they are wide or few, so that guards are
    little beside them, and where the loads of a chunk, which are there twice then, would be much text.
    """
    shape, operand = turning.shape, turning.tile.operands[0]
    bytes_, loads = shape.load * operand.elem_bytes, shape.loads
    if (
        not _names(load.valid) & _names(r)
        or bytes_ > WORD_BYTES
        or not _LEAST_LOADS <= loads <= _MOST_LOADS // loop.unrolled
    ):
        return False
    lengths = [operand.region.lengths[d] for d in operand.dims]
    first, last = (edge_guard(operand, at) for at in ([0] * len(lengths), [n - 1 for n in lengths]))
    return first.to(last)


def _inside(turning: _Turning, side: int, group: Index, step: Index) -> Index:
    """The condition that one side's vector number ``step`` lies in its array.

    Where an end of the array can only fall between register tiles, that of the last vector says it for all.
    """
    tile, shape = turning.tile, turning.shape
    operand = tile.operands[side]
    if not may_pass_end(operand):
        return True
    count, digit = shape.columns if side else shape.rows, tile.digits[tile.contiguous(1 - side)]
    if ends_between(operand, digit, count):
        step = count - 1
    row, column = (0, step) if side else (step, 0)
    return edge_guard(operand, turning.place(group, row, column)).both


def _names(x: Index) -> set[str]:
    return set() if isinstance(x, int) else {v.name for v in variables(x)}


# ---------------------------------------------------------------- the choice
@dataclass(frozen=True)
class TurnPins:
    """What a spec says itself: (rows, columns) of a register tile, and how neighbouring threads lie over the tile."""

    tile: tuple[int, ...] | None = None
    lanes: Mapping[str, int | str] | None = None

    def has(self, shape: Shape, order: TileOrder) -> bool:
        return self.tile in (None, (shape.rows, shape.columns)) and self.lanes in (None, order.value)


def is_lane_order(lanes: Mapping[str, object]) -> bool:
    """Is it written as the value of a TileOrder is?

    >>> is_lane_order({"inner": "src", "along_src": 8, "along_dst": 4}), is_lane_order({"inner": "src"})
    (True, False)
    """
    along = [lanes.get(name) for name in ("along_src", "along_dst")]
    return lanes.get("inner") in ("src", "dst") and len(lanes) == 3 and all(type(n) is int for n in along)


@dataclass(frozen=True)
class _Found:
    shape: Shape
    order: TileOrder
    counted: CountedSteps

    @property
    def cost(self) -> Cost:
        return self.counted.cost


@dataclass(frozen=True)
class _Case:
    """What the figures of a register tile depend on: the same under any layout that is dense and keeps as much."""

    around: tuple[object, ...]
    turning: _Turning
    name: str
    scope: str
    context: Context = field(compare=False)


@lru_cache(maxsize=1024)
def _count(case: _Case) -> CountedSteps:
    """The accesses of a shape and an order, counted once for equal surroundings."""
    return case.context.count(turn_block(case.context, case.turning, case.name, case.scope, turns=False))


def plan_register_tile(
    context: Context, operands: tuple[Operand, Operand], scope: str, name: str, pins: TurnPins
) -> Planned:
    """The cheapest register tile and order of them.

    Raises Refused where neither side can move two elements at once, NotHad where there is none as ``pins`` say.
    """
    tile = tile_over(context, operands, scope)
    shapes = shapes_of(tile)
    if not shapes:
        raise Refused("neither side can move two contiguous, aligned elements at once")
    found: list[_Found] = []
    tried, around = 0, context.around

    def count(shape: Shape, order: TileOrder) -> _Found:
        return _Found(shape, order, _count(_Case(around, _Turning(tile, shape, order), name, scope, context)))

    for shape in shapes:
        if found and _is_floor(tile, min(found, key=lambda f: f.cost.key)):
            break
        tried += 1
        found += [count(shape, order) for order in coalesced(tile, shape)]
    allowed = [f for f in found if pins.has(f.shape, f.order)]
    if not allowed:  # the search need not have come to it
        allowed = [count(shape, order) for shape, order in _list_pinned(tile, shapes, pins)]
        found.append(min(allowed, key=lambda f: f.cost.key))
    best, why_pinned = pick(found, lambda f: pins.has(f.shape, f.order), lambda f: f.cost)
    ways = len(orders_of(tile, best.shape))
    choices: tuple[Choice, ...]
    choices = _shape_choice(tile, found, best, tried, len(shapes)), _order_choice(found, best, ways)
    if why_pinned:
        choices = tuple(replace(c, proof=why_pinned) for c in choices)
    written = ("tile", [best.shape.rows, best.shape.columns]), ("lanes", best.order.value)
    block = turn_block(context, _Turning(tile, best.shape, best.order), name, scope)
    return Planned((block,), best.cost, choices, written, counted=tuple(f.counted for f in allowed))


def _list_pinned(tile: OrderedTile, shapes: Sequence[Shape], pins: TurnPins) -> list[tuple[Shape, TileOrder]]:
    """The shapes and orders that are as the pins say, fewest lines of global memory first where an order is free."""
    own = [s for s in shapes if pins.tile in (None, (s.rows, s.columns))]
    if not own:
        known = [[s.rows, s.columns] for s in shapes]
        raise NotHad("tile", f"tiles [rows, columns] are {say_known(known)}", known)
    list_orders = coalesced if pins.lanes is None else orders_of
    ways = [(s, order) for s in own for order in list_orders(tile, s)]
    found = [(s, order) for s, order in ways if pins.has(s, order)]
    if not found:
        values = [order.value for _, order in ways]
        raise NotHad("lanes", f"lanes are one of {say_known(map(spell, values))}", values)
    return found


def _is_floor(tile: OrderedTile, found: _Found) -> bool:
    """No bank conflict, and no sector touched more often than once: more accesses cannot cost less."""
    order, shape = found.order, found.shape
    row_elems = {"ld": order.along_src * shape.columns, "st": order.along_dst * shape.rows}
    whole_elems = {kind: tile.digits[tile.contiguous(side)].extent for side, kind in enumerate(("ld", "st"))}
    size = tile.operands[0].elem_bytes
    whole = {k for k, n in row_elems.items() if n == whole_elems[k] and n * size >= SECTOR_BYTES}
    return all(
        c.wavefronts <= c.bytes_floor
        if SPACES[c.space].has_banks
        else c.sectors <= c.instructions * c.width_bytes or c.kind in whole
        for _, c in found.counted.accesses
    )


def _shape_choice(tile: OrderedTile, found: Sequence[_Found], best: _Found, tried: int, shapes: int) -> Choice:
    size = tile.operands[0].elem_bytes
    each = {f.shape: f for f in sorted(found, key=lambda f: f.cost.key, reverse=True)}
    each[best.shape] = best
    candidates = tuple(
        Candidate(_shape_value(f.shape, size), f.cost, judge(f.cost, best.cost, f is best))
        for f in sorted(each.values(), key=lambda f: f.cost.key)
    )
    proof = f"the cheapest of {tried} shapes; all that both sides allow"
    if tried < shapes:
        proof = f"the cheapest of {tried} of {shapes} shapes; no others do both sides allow; the rest take no fewer "
        proof += "accesses, and this one has no bank conflict, and whole rows or full sectors in global memory"
    return Choice("register_tile", _shape_value(best.shape, size), candidates, proof)


def _shape_value(shape: Shape, size: int) -> dict[str, int]:
    return {
        "rows": shape.rows, "columns": shape.columns, "load_bytes": shape.load * size,
        "store_bytes": shape.store * size,
    }  # fmt: skip


def _order_choice(found: Sequence[_Found], best: _Found, ways: int) -> Choice:
    same = sorted((f for f in found if f.shape == best.shape), key=lambda f: f.cost.key)
    candidates = tuple(Candidate(f.order.value, f.cost, judge(f.cost, best.cost, f is best)) for f in same)
    proof = f"the cheapest of {ways} ways; all ways to lay a warp over the tile that were looked at"
    if len(same) < ways:
        proof = f"the cheapest of {len(same)} of {ways} ways; those that touch the fewest lines of global memory"
    return Choice("lanes", best.order.value, candidates, proof)
