"""A transpose in registers: src and dst are contiguous along different dimensions, and both take whole vectors.

A thread loads ``rows`` vectors of ``columns`` elements that are contiguous in src, turns the tile over in its
registers, and stores ``columns`` vectors of ``rows`` elements that are contiguous in dst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.choose.count import Counted, cost_of
from tilegen.choose.digits import Digit
from tilegen.index import Index, Var, add, less, mul, multiple, variables
from tilegen.ops.dispatch import Planned, Refused, judge
from tilegen.ops.operand import Context, Frame, Operand, edge_guard, guarded_dims, ref_at, scope_thread
from tilegen.ops.partition import is_flat
from tilegen.ops.register_board import Board, Shape, Walk, board_of, count_lines, digits_at, shapes_of, walks_of
from tilegen.plan import Block, Candidate, Choice, Cost, Memory, Move, Repeat, Step, flat_memory, let, when

_UNROLL_LIMIT = 16


# ---------------------------------------------------------------- the function
def turn_block(context: Context, board: Board, shape: Shape, walk: Walk, name: str, scope: str) -> Block:
    """The function that copies the board with this register tile, each thread the tiles ``walk`` gives it."""
    thread, threads = scope_thread(scope, context.launch.threads)
    names = {n: context.fresh(n) for n in ("i", "group", "r", "c", "regs", "pack")}
    groups = board.count // shape.elems
    trips = -(-groups // threads)
    group = add(mul(Var(names["i"], trips) if trips > 1 else 0, threads), thread)
    start: tuple[Step, ...] = ()
    if groups % threads and not isinstance(group, Var):
        first = let(names["group"], group)
        start, group = (first,), first.var
    flat = [is_flat(o, board.digits) for o in board.operands]
    frame = Frame(board.operands, flat, scope, names.values())
    dtype = board.operands[0].buffer.dtype
    regs = flat_memory(names["regs"], dtype, shape.elems, "register")
    pack = flat_memory(names["pack"], dtype, shape.rows, "register")
    turned = shape.rows > 1 and shape.columns > 1
    body = (*start, *when(less(group, groups), *_moves(board, shape, walk, frame, (regs, pack), group, names)))
    if trips > 1:
        body = (Repeat(Var(names["i"], trips), trips, body, trips <= _UNROLL_LIMIT),)
    note = f"Each thread turns {shape.rows} x {shape.columns} elements over in registers." if turned else ""
    return frame.block(name, body, context.op, (regs, pack) if turned else (regs,), note)


def _moves(
    board: Board, shape: Shape, walk: Walk, frame: Frame, registers: tuple[Memory, Memory], group: Index,
    names: dict[str, str],
) -> tuple[Step, ...]:  # fmt: skip
    regs, pack = registers
    r: Index = Var(names["r"], shape.rows) if shape.rows > 1 else 0
    c: Index = Var(names["c"], shape.columns) if shape.columns > 1 else 0
    source, target = (board.at(digits_at(board, shape, walk, group, *at)) for at in ((r, 0), (0, c)))
    load = Move(
        regs[mul(r, shape.columns)], frame.see(0, ref_at(board.operands[0], source)), shape.columns,
        _inside(board, 0, shape, walk, group, r),
    )  # fmt: skip
    held = _inside(board, 1, shape, walk, group, c)
    to = frame.see(1, ref_at(board.operands[1], target))
    if shape.rows > 1 and shape.columns > 1:
        turn = _over(r, (Move(pack[r], regs[add(mul(r, shape.columns), c)]),))
        store: tuple[Step, ...] = (*turn, Move(to, pack[0], shape.rows))
    else:
        store = (Move(to, regs[c], shape.rows),)
    if not _names(c) & _names(held):  # what is not stored is not loaded either
        return when(held, *_over(r, (load,)), *_over(c, store))
    return (*_over(r, (load,)), *_over(c, when(held, *store)))


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


def _over(var: Index, body: tuple[Step, ...]) -> tuple[Step, ...]:
    return (Repeat(var, var.bound, body, True),) if isinstance(var, Var) else body


# ---------------------------------------------------------------- the choice
@dataclass(frozen=True)
class _Found:
    shape: Shape
    walk: Walk
    block: Block
    counted: tuple[Counted, ...]
    cost: Cost
    lines: int

    @property
    def key(self) -> tuple[int, ...]:
        """What is compared: whole lines come before banks, since a layout can still move what lies in banks."""
        return (self.cost.sectors, self.lines, *self.cost.key[1:])


def plan_register_tile(context: Context, operands: tuple[Operand, Operand], scope: str, name: str) -> Planned:
    """The cheapest register tile and walk. Raises Refused where neither side can move two elements at once."""
    board = board_of(operands)
    shapes = shapes_of(board)
    if not shapes:
        raise Refused("neither side can move two contiguous, aligned elements at once")
    found: list[_Found] = []
    tried = 0
    for shape in shapes:
        if found and _is_floor(board, min(found, key=lambda f: f.key)):
            break
        tried += 1
        found += [_try(context, board, shape, walk, name, scope) for walk in walks_of(board, shape)]
    best = min(found, key=lambda f: f.key)
    choices = (_shape_choice(board, found, best, tried, len(shapes)), _walk_choice(found, best))
    return Planned((best.block,), best.cost, choices)


def _try(context: Context, board: Board, shape: Shape, walk: Walk, name: str, scope: str) -> _Found:
    block = turn_block(context, board, shape, walk, name, scope)
    counted = context.count((block,))
    return _Found(shape, walk, block, counted, cost_of(counted), count_lines(board, shape, walk))


def _is_floor(board: Board, found: _Found) -> bool:
    """No bank conflict, and no sector touched more often than once: more accesses cannot cost less."""
    along = {"ld": found.walk.along_src * found.shape.columns, "st": found.walk.along_dst * found.shape.rows}
    whole = {"ld": board.digits[board.column].extent, "st": board.digits[board.row].extent}
    return all(
        c.wavefronts <= c.bytes_floor
        if c.space == "shared"
        else c.sectors <= c.instructions * c.width_bytes or along[c.kind] == whole[c.kind]
        for c in found.counted
    )


def _shape_choice(board: Board, found: Sequence[_Found], best: _Found, tried: int, shapes: int) -> Choice:
    size = board.operands[0].elem_bytes
    each = {f.shape: f for f in sorted(found, key=lambda f: f.key, reverse=True)}
    candidates = tuple(
        Candidate(_shape_value(f.shape, size), f.cost, _judge(f, best))
        for f in sorted(each.values(), key=lambda f: f.key)
    )
    proof = f"{tried} of {shapes} shapes that both sides allow were searched"
    proof += "; the rest take more accesses, and none of these has a conflict" if tried < shapes else ""
    return Choice("register_tile", _shape_value(best.shape, size), candidates, proof)


def _judge(found: _Found, best: _Found) -> str:
    more = found.cost.sectors == best.cost.sectors and found.lines > best.lines
    return f"{found.lines} lines against {best.lines}" if more else judge(found.cost, best.cost, found is best)


def _shape_value(shape: Shape, size: int) -> dict[str, int]:
    return {
        "rows": shape.rows, "columns": shape.columns, "load_bytes": shape.columns * size,
        "store_bytes": shape.rows * size,
    }  # fmt: skip


def _walk_choice(found: Sequence[_Found], best: _Found) -> Choice:
    same = sorted((f for f in found if f.shape == best.shape), key=lambda f: f.key)
    candidates = tuple(Candidate(f.walk.value, f.cost, _judge(f, best)) for f in same)
    proof = "every split of a warp into powers of two was costed: whole lines first, then banks"
    return Choice("lanes", best.walk.value, candidates, proof)
