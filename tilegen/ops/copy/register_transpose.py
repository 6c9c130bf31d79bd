"""A transpose in registers: src and dst are contiguous along different dimensions, and both take whole vectors.

A thread loads ``rows`` vectors of ``columns`` elements that are contiguous in src, turns the tile over in its
registers, and stores ``columns`` vectors of ``rows`` elements that are contiguous in dst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilegen.access import SECTOR_BYTES
from tilegen.cost.count import Counted, cost_of
from tilegen.decisions import Candidate, Choice, Cost, judge
from tilegen.index import Index, Var, add, every, mul, multiple, variables
from tilegen.ops.copy.register_tiles import Board, Shape, Walk, board_of, coalesced, digits_at, shapes_of
from tilegen.ops.copy.turn import WORD_BYTES, block_elems, over, turn_columns
from tilegen.ops.digits import Digit
from tilegen.ops.op import Planned
from tilegen.ops.operand import Context, Frame, Operand, Refused, edge_guard, guarded_dims, ref_at
from tilegen.ops.partition import is_flat
from tilegen.ops.thread_loop import UNROLL_LIMIT, Entry, Trips, enter_trip, stage_trips
from tilegen.plan import Block, Memory, Move, Step, effects, flat_memory, flatten, when
from tilegen.scopes import threads_of


# ---------------------------------------------------------------- the function
def turn_block(context: Context, board: Board, shape: Shape, walk: Walk, name: str, scope: str) -> Block:
    """The function that copies the board with this register tile, each thread the tiles ``walk`` gives it."""
    thread, threads = threads_of(scope, context.launch.threads)
    names = {n: context.fresh(n) for n in ("i", "j", "r", "c", "k", "regs", "pairs", "pack")}
    groups = board.count // shape.elems
    count = -(-groups // threads)
    trips = Trips(count, UNROLL_LIMIT if count <= UNROLL_LIMIT else 1, names["i"], names["j"])
    trips = stage_trips(trips, board.operands, shape.elems, groups % threads == 0)
    trip = enter_trip(context, add(mul(trips.number, threads), thread), groups)
    flat = [is_flat(o, board.digits) for o in board.operands]
    frame = Frame(board.operands, flat, scope, {*names.values(), context.fresh("group")})
    registers = _registers(board, shape, trips.sets, names)
    body = trips.loop(trip.start, *_moves(board, shape, walk, frame, registers, trips, trip, names))
    turned = shape.rows > 1 and shape.columns > 1
    note = f"Each thread turns {shape.rows} x {shape.columns} elements over in registers." if turned else ""
    used = {t.ref.memory.name for s in flatten(body) for t in effects(s).written}
    return frame.block(name, body, context.op, tuple(m for m in registers if m.name in used), note)


def _registers(board: Board, shape: Shape, sets: int, names: dict[str, str]) -> tuple[Memory, Memory, Memory]:
    """The register tiles of ``sets`` trips as loaded, words on the way, and columns as stored."""
    dtype, size = board.operands[0].buffer.dtype, board.operands[0].elem_bytes
    pack_elems = shape.rows * block_elems(size, shape.rows, shape.columns)
    return (
        flat_memory(names["regs"], dtype, sets * shape.elems, "register"),
        flat_memory(names["pairs"], dtype, 4 * max(1, WORD_BYTES // size), "register"),
        flat_memory(names["pack"], dtype, pack_elems, "register"),
    )


def _moves(
    board: Board, shape: Shape, walk: Walk, frame: Frame, registers: tuple[Memory, Memory, Memory], trips: Trips,
    trip: Entry, names: dict[str, str],
) -> tuple[tuple[Step, ...], ...]:  # fmt: skip
    """A trip's loads, turns and stores: in one body, or its loads in one of their own where trips are staged."""
    regs, pairs, pack = registers
    group, first = (trip.group, mul(trips.place, shape.elems)) if trips.is_staged else (trip.inside, 0)
    side = block_elems(regs.elem_bytes, shape.rows, shape.columns)
    r, k = (Var(names[n], count) if count > 1 else 0 for n, count in (("r", shape.rows), ("k", side)))
    c = Var(names["c"], shape.columns // side) if shape.columns > side else 0
    column = add(mul(c, side), k)
    source, target = (board.at(digits_at(board, shape, walk, group, *at)) for at in ((r, 0), (0, column)))
    load = Move(
        regs[add(first, mul(r, shape.columns))], frame.see(0, ref_at(board.operands[0], source)), shape.columns,
        _inside(board, 0, shape, walk, group, r),
    )  # fmt: skip
    held = _inside(board, 1, shape, walk, group, column)
    to = frame.see(1, ref_at(board.operands[1], target))
    if shape.rows == 1 or shape.columns == 1:
        turn: tuple[Step, ...] = ()
        store = Move(to, regs[add(first, c)], shape.rows)
    else:
        turn = turn_columns(regs, pack, pairs, shape.rows, shape.columns, add(first, mul(c, side)), names["r"])
        store = Move(to, pack[mul(k, shape.rows)], shape.rows)
    each, ends = (held, True) if _names(column) & _names(held) else (True, held)
    stores = over(c, (*turn, *over(k, when(each, store))))
    if trips.is_staged:  # what is not stored is not loaded either
        load = replace(load, valid=every(trip.held, ends, load.valid))
        return over(r, (load,)), when(every(trip.held, ends), *stores)
    return (when(trip.held, *when(ends, *over(r, (load,)), *stores)),)


def _inside(board: Board, side: int, shape: Shape, walk: Walk, group: Index, step: Index) -> Index:
    """The condition that one side's vector number ``step`` lies in its array.

    Where the array's end can only fall between register tiles, that of the last vector says it for all.
    """
    operand = board.operands[side]
    if not guarded_dims(operand):
        return True
    count, digit = (shape.columns, board.column) if side else (shape.rows, board.row)
    if _ends_between(operand, board.digits[digit], count):
        step = count - 1
    return edge_guard(operand, board.at(digits_at(board, shape, walk, group, *((0, step) if side else (step, 0)))))


def _ends_between(operand: Operand, digit: Digit, count: int) -> bool:
    """Do begin and extent keep ``count`` neighbours along a digit together, inside the array or outside?"""
    place, weight, extent = digit.places[-1]
    d = operand.dims[place]
    begin, end = operand.region.begins[d], operand.buffer.shape[d]
    return weight == 1 and extent % count == 0 and multiple(begin) % count == 0 and multiple(end) % count == 0


def _names(x: Index) -> set[str]:
    return set() if isinstance(x, int) else {v.name for v in variables(x)}


# ---------------------------------------------------------------- the choice
@dataclass(frozen=True)
class _Found:
    shape: Shape
    walk: Walk
    block: Block
    counted: tuple[Counted, ...]
    cost: Cost


def plan_register_tile(context: Context, operands: tuple[Operand, Operand], scope: str, name: str) -> Planned:
    """The cheapest register tile and walk. Raises Refused where neither side can move two elements at once."""
    board = board_of(operands)
    shapes = shapes_of(board)
    if not shapes:
        raise Refused("neither side can move two contiguous, aligned elements at once")
    found: list[_Found] = []
    tried = 0
    for shape in shapes:
        if found and _is_floor(board, min(found, key=lambda f: f.cost.key)):
            break
        tried += 1
        found += [_try(context, board, shape, walk, name, scope) for walk in coalesced(board, shape)]
    best = min(found, key=lambda f: f.cost.key)
    choices = (_shape_choice(board, found, best, tried, len(shapes)), _walk_choice(found, best))
    return Planned((best.block,), best.cost, choices)


def _try(context: Context, board: Board, shape: Shape, walk: Walk, name: str, scope: str) -> _Found:
    block = turn_block(context, board, shape, walk, name, scope)
    counted = context.count((block,))
    return _Found(shape, walk, block, counted, cost_of(counted))


def _is_floor(board: Board, found: _Found) -> bool:
    """No bank conflict, and no sector touched more often than once: more accesses cannot cost less."""
    walk, shape = found.walk, found.shape
    row_elems = {"ld": walk.along_src * shape.columns, "st": walk.along_dst * shape.rows}
    whole_elems = {"ld": board.digits[board.column].extent, "st": board.digits[board.row].extent}
    size = board.operands[0].elem_bytes
    whole = {k for k, n in row_elems.items() if n == whole_elems[k] and n * size >= SECTOR_BYTES}
    return all(
        c.wavefronts <= c.bytes_floor
        if c.space == "shared"
        else c.sectors <= c.instructions * c.width_bytes or c.kind in whole
        for c in found.counted
    )


def _shape_choice(board: Board, found: Sequence[_Found], best: _Found, tried: int, shapes: int) -> Choice:
    size = board.operands[0].elem_bytes
    each = {f.shape: f for f in sorted(found, key=lambda f: f.cost.key, reverse=True)}
    candidates = tuple(
        Candidate(_shape_value(f.shape, size), f.cost, judge(f.cost, best.cost, f is best))
        for f in sorted(each.values(), key=lambda f: f.cost.key)
    )
    proof = f"{tried} of {shapes} shapes that both sides allow were searched"
    proof += "; the rest take more accesses, and none of these has a conflict" if tried < shapes else ""
    return Choice("register_tile", _shape_value(best.shape, size), candidates, proof)


def _shape_value(shape: Shape, size: int) -> dict[str, int]:
    return {
        "rows": shape.rows, "columns": shape.columns, "load_bytes": shape.columns * size,
        "store_bytes": shape.rows * size,
    }  # fmt: skip


def _walk_choice(found: Sequence[_Found], best: _Found) -> Choice:
    same = sorted((f for f in found if f.shape == best.shape), key=lambda f: f.cost.key)
    candidates = tuple(Candidate(f.walk.value, f.cost, judge(f.cost, best.cost, f is best)) for f in same)
    proof = "every split of a warp into powers of two that touches the fewest lines of global memory was costed"
    return Choice("lanes", best.walk.value, candidates, proof)
