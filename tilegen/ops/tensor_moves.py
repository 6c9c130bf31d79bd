"""Tiles between tensor memory and registers, by tcgen05.ld and .st in the shape 32x32b: a row of lanes a thread.

Sources: PTX ISA, tcgen05.ld and .st (a warp reaches 32 lanes, those of its number modulo 4), "Data Movement Shape".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tilegen.decisions import Choice
from tilegen.index import Index, Var, add, mul
from tilegen.index.runs import counter
from tilegen.layouts import Iter, TileLayout
from tilegen.layouts.core.cells import COLUMN_BYTES
from tilegen.ops.cells import CellsNeed, need_factors, need_rows
from tilegen.ops.flows import Flow, fixed, pair_up
from tilegen.ops.formals import Formals
from tilegen.ops.held import find_places, hold, shape_of_matrix
from tilegen.ops.op import Planned, plan_one
from tilegen.ops.operand import Context, Operand, Refused
from tilegen.ops.tensor_copies import begin_of
from tilegen.ops.thread_loop import over
from tilegen.plan import (
    TENSOR_LOAD,
    TENSOR_LOADS,
    TENSOR_STORE,
    TENSOR_STORES,
    Arrive,
    Await,
    Block,
    Instruction,
    Map,
    Move,
    Step,
    Sync,
    TensorFence,
    Wait,
    register_memory,
    repeat,
)
from tilegen.scopes import SCOPES
from tilegen.spec.data import Call

TEAM = SCOPES["warpgroup"].threads
WARP = SCOPES["warp"].threads
SHAPE = "tcgen05 32x32b"
_MOST_WORDS = 128  # of one instruction, .x128
_MOST_HELD_WORDS = 64  # that a thread holds beside the registers that it converts them to


def is_of_cells(call: Call) -> bool:
    """Is a side of a copy or a cast in tensor memory?"""
    return any(region.buffer.traits.has_cells for region in call.regions.values())


def fence_of(calls: Iterable[Call]) -> Callable[[Sync | Await | Arrive], tuple[Step, ...]]:
    """How a step by which threads tell one another something is fenced among these calls of their role.

    Where they touch tensor memory, what was done there is told before, and what is done comes after. Fences leave no
    instruction (docs/blackwell.md), so that each such step has its own.
    """
    is_touched = any(is_of_cells(call) for call in calls)

    def fence(step: Sync | Await | Arrive) -> tuple[Step, ...]:
        if not is_touched or (isinstance(step, Sync) and step.scope == "async"):
            return (step,)
        before = () if isinstance(step, Await) else (TensorFence("before"),)
        after = () if isinstance(step, Arrive) else (TensorFence("after"),)
        return (*before, step, *after)

    return fence


def flow_of_sides(call: Call, threads: int) -> tuple[Flow, ...]:
    """The owners of both sides of a copy or a cast, which are alike; with tensor memory those that reach its lanes."""
    return _flow_of_cells(call, threads) if is_of_cells(call) else pair_up(call, "src", "dst")


def _flow_of_cells(call: Call, threads: int) -> tuple[Flow, ...]:
    """The owners of the side in registers: thread t of a warpgroup has row t; two warpgroups halve the columns."""
    held = next((name for name in ("src", "dst") if call.regions[name].buffer.traits.is_held), None)
    size = SCOPES[call.scope].size(threads)
    if held is None or len(call.regions[held].shape) != 2 or size % TEAM:
        return ()
    rows, columns = call.regions[held].shape
    teams = size // TEAM
    if rows != TEAM or columns % teams:
        return ()
    axis = SCOPES[call.scope].lane  # by which the spec may name them again
    split = (Iter(teams, TEAM, axis), Iter(columns // teams, 1)) if teams > 1 else (Iter(columns, 1),)
    return (fixed(call, held, TileLayout((Iter(TEAM, 1, axis), *split)), SHAPE),)


def need_cells(call: Call, field: str) -> CellsNeed | None:
    """Where a side of a copy or a cast has to lie in tensor memory: with registers any warp's lanes would do, row r in
    lane r is what products do; from shared memory tcgen05.cp writes all four groups of lanes.
    """
    other = call.regions["src" if field == "dst" else "dst"].buffer
    return need_rows(call, field, is_fixed=False) if other.traits.is_held else need_factors(call, field)


def refuse_cells(call: Call, context: Context) -> str | None:
    """Why tcgen05.ld or .st cannot carry out a call, before any layout is looked at."""
    src, dst = (call.regions[name].buffer for name in ("src", "dst"))
    if not (src.traits.has_cells or dst.traits.has_cells):
        return "neither side is in tensor memory"
    if not (src.traits.is_held or dst.traits.is_held):
        return f"it moves between tensor memory and registers, not {src.scope} -> {dst.scope}"
    if TENSOR_LOAD.feature not in context.arch.features:
        return f"{context.arch.name} has no tensor memory"
    if SCOPES[call.scope].size(context.launch.threads) % TEAM:
        return f"whole warpgroups reach all lanes, and {SCOPES[call.scope].one} has fewer threads"
    return None


@dataclass(frozen=True)
class _Window:
    """What a warpgroup moves: runs of registers one behind the other, and of columns, ``width`` elements each.

    ``columns``: of each run the first element of a lane, from that of the region. ``step``: elements of a lane from one
    warpgroup to the next.
    """

    width: int
    columns: tuple[int, ...]
    step: int


def plan_cells(context: Context, call: Call, fn: Instruction | None = None) -> Planned:
    """A tile between tensor memory and registers; ``fn``: what is loaded is converted by it. Raises Refused."""
    src, dst = (context.operand(call, name) for name in ("src", "dst"))
    loads = src.buffer.traits.has_cells
    cells, held = (src, dst) if loads else (dst, src)
    if fn is not None and not loads:
        raise Refused("what is stored to tensor memory is converted in registers before: cast there, then copy")
    threads = SCOPES[call.scope].size(context.launch.threads)
    window = _find_window(cells, held, threads, _MOST_HELD_WORDS if fn else _MOST_WORDS)
    block = _make_block(context, call, cells, held, window, fn)
    words = window.width * cells.elem_bytes // COLUMN_BYTES
    kind = TENSOR_LOAD if loads else TENSOR_STORE
    choices = (
        Choice(
            "instruction", f"{kind.name} 32x32b.x{words}", (), "a lane a thread; the widest that the registers allow"
        ),
        Choice("outer", len(window.columns), (), "instructions of a warp"),
    )
    return plan_one(context, block, choices)


def _find_window(cells: Operand, held: Operand, threads: int, most_words: int) -> _Window:
    """Which registers of each thread go to which columns of its lane. Raises Refused where lanes are others'."""
    shape = shape_of_matrix(cells.region)
    places = find_places(cells)
    lane, column = (places.get(axis, np.zeros(shape, np.int64)).ravel() for axis in ("TLane", "TCol"))
    if begin_of(cells)[0] != 0:
        raise Refused(f"{cells.region.text} begins in another lane than 0, which is the first that a warpgroup reaches")
    table = hold(held, threads).elements
    if (table < 0).any():
        raise Refused(f"not all threads hold the same number of elements of {held.buffer.name}")
    lanes, columns = lane[table], column[table]
    thread = np.arange(threads)[:, None]
    if (lanes != thread % TEAM).any():
        row, register = (int(x[0]) for x in np.nonzero(lanes != thread % TEAM))
        first = row % TEAM // WARP * WARP
        raise Refused(
            f"thread {row} holds what is in lane {int(lanes[row, register])} of {cells.buffer.name}; "
            f"its warp reaches lanes {first} to {first + WARP - 1}, and 32x32b gives it lane {row % TEAM}"
        )
    teams = columns.reshape(-1, TEAM, columns.shape[1])
    own = teams[0, 0]
    step = int(teams[1, 0, 0] - own[0]) if len(teams) > 1 else 0
    wanted = own + np.arange(len(teams))[:, None, None] * step
    if (teams != wanted).any():
        raise Refused(f"the threads of a warpgroup hold other columns of {cells.buffer.name} than one another")
    width = _find_width(own, most_words * COLUMN_BYTES // cells.elem_bytes, COLUMN_BYTES // cells.elem_bytes)
    return _Window(width, tuple(int(own[k]) for k in range(0, len(own), width)), step)


def _find_width(columns: np.ndarray[tuple[int], np.dtype[np.int64]], most: int, packed: int) -> int:
    """The most neighbours that all accesses can have, a power of two of words. Raises Refused where there are none."""
    width = most
    while width >= packed:
        if len(columns) % width == 0:
            runs = columns.reshape(-1, width)
            if (runs == runs[:, :1] + np.arange(width)).all() and not (runs[:, 0] % packed).any():
                return width
        width //= 2
    raise Refused(f"registers of a thread are no neighbours in its lane, {packed} to a column")


def _make_block(
    context: Context, call: Call, cells: Operand, held: Operand, window: _Window, fn: Instruction | None
) -> Block:  # fmt: skip
    loads, width, count = cells.op_field == "src", window.width, len(window.columns)
    var = counter(context.fresh("i"), count)
    names = [var.name] if isinstance(var, Var) else []
    formals = Formals((cells, held), (False, True), call.scope, names)
    base = held.buffer.layout.place(held.region.begins, held.buffer.counted_shape).get("m", 0)
    teams = SCOPES[call.scope].size(context.launch.threads) // TEAM
    warps = Var("wid_in_wg", TEAM // WARP)
    column = add(begin_of(cells)[1], mul(Var("wgid", teams), window.step) if teams > 1 else 0)
    starts = window.columns
    rise = starts[1] - starts[0] if count > 1 else 0
    if any(starts[k] != starts[0] + k * rise for k in range(count)):
        raise Refused(f"runs of columns of {cells.buffer.name} do not follow one another at one distance")
    at = formals.see(0, cells.memory[mul(warps, WARP), add(column, add(starts[0], mul(var, rise)))])
    own = formals.see(1, held.memory[add(base, mul(var, width))])
    verb = "load" if loads else "store"
    name = f"{verb}_{call.regions['src'].buffer.name}_{call.regions['dst'].buffer.name}"
    if fn is None:
        move = Move(own, at, width, via=TENSOR_LOAD) if loads else Move(at, own, width, via=TENSOR_STORE)
        if call.queue:
            return formals.block(f"start_{name}", _each(var, (move,)), context.op)
        wait = Wait(TENSOR_LOADS if loads else TENSOR_STORES)
        return formals.block(name, (*_each(var, (move,)), wait), context.op)
    taken = register_memory(context.fresh("taken"), cells.buffer.dtype, width)
    e = counter(context.fresh("e"), width)
    one = formals.see(1, held.memory[add(base, add(mul(var, width), e))])
    body = (Move(taken[0], at, width, via=TENSOR_LOAD), Wait(TENSOR_LOADS), *over(e, (Map(fn, one, (taken[e],)),)))
    return formals.block(name, _each(var, body), context.op, (taken,))


def _each(var: Index, body: tuple[Step, ...]) -> tuple[Step, ...]:
    return repeat(var, body) if isinstance(var, Var) else body
