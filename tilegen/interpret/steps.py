"""What each step means: one function per kind. A function may return a ``Blocked``: call it until it says None."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from tilegen.index import Index, Var
from tilegen.interpret.address import check_int, check_range, find, locate, value_of
from tilegen.interpret.asynchronous import commit, load_box, start_copy, store_box, wait
from tilegen.interpret.fault import MALFORMED, FaultFound
from tilegen.interpret.fetching import run_fetch
from tilegen.interpret.fragments import load_matrices, store_matrices
from tilegen.interpret.meeting import WARP_THREADS, Skipping, follow, refuse_early, stamp, sync
from tilegen.interpret.picking import look_anywhere, run_pick
from tilegen.interpret.products import PRODUCTS, fence_registers
from tilegen.interpret.reading import MemoryPlace, Root, read_text
from tilegen.interpret.site import Blocked, Site, require_whole_warps
from tilegen.interpret.slots import arrive, await_phase
from tilegen.interpret.tensor_steps import fence_cells, move_cells, start_cell_copy, start_product
from tilegen.interpret.threads import Array
from tilegen.interpret.together import find_together, locate_trips, read_held, values_of, write_held
from tilegen.interpret.updates import update
from tilegen.interpret.wide import Fold
from tilegen.plan import (
    CELL_PRODUCTS,
    COMPUTE,
    CP_ASYNC,
    LDMATRIX,
    LDMATRIX_TRANS,
    MOVE,
    RED,
    SHUFFLE,
    STMATRIX,
    STMATRIX_TRANS,
    TENSOR_COPY,
    TENSOR_LOAD,
    TENSOR_PRODUCTS,
    TENSOR_STORE,
    TMA_LOAD,
    TMA_MULTICAST,
    TMA_REDUCE,
    TMA_STORE,
    Arrive,
    Await,
    Block,
    Commit,
    Compute,
    Effects,
    Fence,
    Fetch,
    Follow,
    Let,
    Map,
    Memory,
    Move,
    Pick,
    Ref,
    Repeat,
    Shuffle,
    Stamp,
    Step,
    Sync,
    TensorFence,
    Touch,
    UnknownStep,
    Wait,
    When,
    effects,
)


# ---------------------------------------------------------------- structure
def run_let(step: Let, site: Site) -> None:
    """A name for a value, with the range that the printed text relies on."""
    if step.var.name in site.frame.own:
        site.fail(MALFORMED, f"{step.var.name} is defined twice")
    bind(step.var, step.value, site, site)


def run_repeat(step: Repeat, site: Site) -> Iterator[str]:
    """Every thread makes its own number of rounds; those that are done sit out."""
    if step.unroll and run_trips_together(step, site):
        return
    text = read_text(step.count)
    count = site.group.pick(value_of(text, site))
    is_constant = step.unroll and text.names <= site.frame.constants
    stretches = site.machine.trips.stretches(step.var.name, int(np.max(count)))
    skipping = Skipping(site, step, stretches)
    for i in chain.from_iterable(stretches):
        yield from skipping.at(i)
        inside = site.enter(site.group.where(i < count) if isinstance(count, np.ndarray) else site.group)
        inside.frame.define(step.var, i)
        inside.frame.loops[step.var.name] = i
        inside.frame.constants -= {step.var.name}
        if is_constant:
            inside.frame.constants |= {step.var.name}
        check_range(step.var, i, inside)
        yield from run_steps(step.body, inside)


def run_trips_together(step: Repeat, site: Site) -> bool:
    """Carry out the trips of an unrolled loop as a few wide steps; False, and nothing done, where that cannot be."""
    found = find_together(step, site)
    if found is None:
        return False
    nest, parts = found
    stores = [site.frame.places[t.ref.memory.name].root.store for t in nest.touches if t.writes]
    before = [(store, store.save()) for store in stores] if len(nest.body) * len(parts) > 1 else []
    try:
        for part in parts:
            inside = replace(site, together=part)
            for inner, touched in nest.body:
                inside.step = inner
                if part.fold:
                    fold_elements(part.fold, touched, inside)
                else:
                    carry_out(inner, touched, inside)
    except FaultFound:  # the trip that is wrong says so, and where
        for store, state in before:
            store.restore(state)
        return False
    site.machine.count(len(nest.body) * sum(map(len, parts)), site.group)
    return True


def fold_elements(fold: Fold, touched: Effects, site: Site) -> None:
    """A chain of trips, each of which puts one more element to a result."""
    (dst,), sources = touched.written, touched.read
    (new,) = (t for t in sources if t.ref.memory.name != dst.ref.memory.name)
    held, taken = (site.frame.places[t.ref.memory.name].root.store for t in (dst, new))
    results, columns = fold.taken[:, 0], fold.taken[:, 1:]
    first = held.read_columns(results, site.group, site)[:, :, None]
    rest = taken.read_columns(columns.ravel(), site.group, site).reshape(len(site.group), *columns.shape)
    domain = site.machine.domain
    values = np.concatenate([first, rest], axis=2).view(domain.stored(fold.dtype))
    found = np.ascontiguousarray(domain.fold(fold.function, values, 2, fold.dtype)[:, :, 0])
    held.write_columns(results, found.view(first.dtype), site.group, site)


def run_when(step: When, site: Site) -> Iterator[str]:
    """The threads for which the condition holds."""
    holds = site.group.pick(value_of(read_text(step.condition), site))
    yield from run_steps(step.body, site.enter(site.group.where(holds)))


def run_block(step: Block, site: Site) -> Iterator[str]:
    """A function call: formals stand for places, registers are fresh, names may be defined anew."""
    inside = site.enter(site.group, op=step.op)
    inside.frame.own = set()
    names = [formal.name for formal, _ in step.args] + [m.name for m in step.registers]
    if len(set(names)) < len(names):
        site.fail(MALFORMED, f"{step.name} has two arguments or registers of one name: {', '.join(names)}")
    for formal, actual in step.args:
        if isinstance(actual, Ref):
            inside.frame.places[formal.name] = find(actual, site)
        else:
            bind(formal, actual, site, inside)
    for memory in step.registers:
        inside.frame.places[memory.name] = new_registers(memory, site)
    yield from run_steps(step.body, inside)


def bind(formal: Var, actual: Index, site: Site, inside: Site) -> None:
    """A formal variable, by value."""
    text = read_text(actual)
    if picked := text.names & site.frame.picked.keys():
        site.fail(MALFORMED, f"{formal.name} is made of {', '.join(sorted(picked))}, which only places may name")
    value = value_of(text, site)
    check_int(text, site.group.pick(value), site)
    inside.frame.define(formal, value)
    inside.frame.constants -= {formal.name}
    if text.names <= site.frame.constants:
        inside.frame.constants |= {formal.name}
    check_range(formal, value, site)


def new_registers(memory: Memory, site: Site) -> MemoryPlace:
    """Registers that nothing has written yet."""
    (elems,) = (value_of(read_text(n), site) for n in memory.shape)
    registers = site.machine.new_registers(memory, int(elems))
    return MemoryPlace(Root(memory, registers, (int(elems),), (1,)), (0,), 0, is_formal=False)


STRUCTURE: dict[type, Callable[[Any, Any], Iterator[str] | None]] = {
    Let: run_let, Fetch: run_fetch, Pick: run_pick, Repeat: run_repeat, When: run_when, Block: run_block,
}  # fmt: skip


# ---------------------------------------------------------------- data
def carry_out(step: Any, touched: Effects, site: Site) -> None:
    """What an instruction does with its operands. Raises UnknownStep for one without a meaning."""
    row = touched.instruction
    assert row is not None
    meaning = compute if row.compute else MEANINGS.get(row.name)
    if meaning is None:
        raise UnknownStep("the interpreter", row)
    if site.group.crew.overlaps:
        refuse_early(touched, site)
    if site.frame.picked:
        look_anywhere(touched, site)
    meaning(step, touched, site)


def move(step: Move, touched: Effects, site: Site) -> None:
    """Bits from one place to another; zeros where the source is not read."""
    (src,), (dst,), group = touched.read, touched.written, site.group
    size = src.ref.memory.elem_bytes
    if dst.ref.memory.elem_bytes != size:
        site.fail(MALFORMED, f"moves {src.ref.memory.dtype} elements to {dst.ref.memory.dtype}: sizes differ")
    if src.where is True:
        write(dst, read(src, site), site)
        return
    if not dst.ref.memory.traits.is_held:
        site.fail(MALFORMED, f"a move with a condition writes {dst.ref.memory.name}: only registers can receive zeros")
    holds = group.spread(value_of(read_text(src.where), site))
    bits = np.zeros((len(group), src.elems), site.machine.domain.bits(size))
    some = site.narrow(group.where(holds))
    if len(some.group):
        bits[np.flatnonzero(holds)] = read(src, some)
    write(dst, bits, site)


def read(touch: Touch, site: Site) -> Array:
    """The bits of an access, (threads * trips, elems)."""
    if site.together is not None:
        return _read_trips(touch, site)
    root, flat = locate(touch.ref, touch.elems, site)
    result: Array = root.store.read(flat, touch.elems, site.group, site)
    return result


def _read_trips(touch: Touch, site: Site) -> Array:
    """The bits of an access in several trips: a row for each thread and trip of it."""
    assert site.together is not None
    threads, trips, elems = len(site.group), len(site.together), touch.elems
    if site.together.holds(touch):
        _, held = read_held(touch, site)
        return np.broadcast_to(held, (threads, *site.together.grid, elems)).reshape(-1, elems)
    root, flat, who = locate_trips(touch, site)
    bits = root.store.read(flat, elems, who, site).reshape(trips, threads, elems)
    result: Array = bits.swapaxes(0, 1).reshape(-1, elems)
    return result


def write(touch: Touch, bits: Array, site: Site) -> None:
    """Store bits (threads * trips, elems)."""
    if site.together is not None:
        write_held(touch, bits.reshape(len(site.group), -1, touch.elems), site)
        return
    root, flat = locate(touch.ref, touch.elems, site)
    if root.memory.access == "in":
        site.fail(MALFORMED, f"writes {root.memory.name}, which is an input")
    root.store.write(flat, bits, site.group, site)


def _is_of_registers(touched: Effects) -> bool:
    return all(t.ref.memory.traits.is_held for t in touched.touches)


def compute(step: Map, touched: Effects, site: Site) -> None:
    """A function of registers, element by element, as its row says."""
    assert step.fn.compute is not None
    (dst,) = touched.written
    if not _is_of_registers(touched):
        site.fail(MALFORMED, f"{step.fn.name} is a function of registers")
    width = dst.elems * dst.ref.memory.elem_bytes
    if step.fn.widths_bytes and width not in step.fn.widths_bytes:
        site.fail(MALFORMED, f"{step.fn.name} of {width} bytes: it takes {' or '.join(map(str, step.fn.widths_bytes))}")
    dtypes = [src.ref.memory.dtype for src in touched.read]
    sources = [read_values(src, site) for src in touched.read]
    values = step.fn.compute(site.machine.domain, sources, dtypes, dst.ref.memory.dtype, step.value)
    write_values(dst, values, site)


def read_values(touch: Touch, site: Site) -> Array:
    """The elements of an access as the domain of the run stores them, (threads, elems)."""
    return read(touch, site).view(site.machine.domain.stored(touch.ref.memory.dtype))


def write_values(touch: Touch, values: Array, site: Site) -> None:
    """Store elements as the domain of the run has them, broadcast to (threads, elems)."""
    memory, domain = touch.ref.memory, site.machine.domain
    values = np.broadcast_to(values, (site.rows, touch.elems))
    write(touch, np.ascontiguousarray(values, domain.stored(memory.dtype)).view(domain.bits(memory.elem_bytes)), site)


def evaluate_tree(step: Compute, touched: Effects, site: Site) -> None:
    """The value of a tree, rounded to the type of what is written."""
    (dst,) = touched.written
    if not _is_of_registers(touched):
        site.fail(MALFORMED, "compute is a function of registers")
    elements = [read_values(src, site) for src in touched.read]
    wholes = [values_of(x, site)[:, None] for x in step.wholes]
    machine, dtype = site.machine, dst.ref.memory.dtype
    write_values(dst, machine.domain.compute(step.tree, elements, wholes, machine.scalars, dtype), site)


def shuffle(step: Shuffle, touched: Effects, site: Site) -> None:
    """Whole warps exchange an element of each lane, or a word of several."""
    (src,), (dst,), group = touched.read, touched.written, site.group
    require_whole_warps("shuffle", site)
    if not _is_of_registers(touched) or not 0 < step.lanes < WARP_THREADS:
        site.fail(MALFORMED, f"shuffle exchanges registers of lanes 1 to 31 apart, not {step.lanes}")
    if step.elems > 1 and step.elems * src.ref.memory.elem_bytes not in _SHUFFLED_BYTES:
        site.fail(MALFORMED, f"shuffle exchanges words, not {step.elems} elements of {src.ref.memory.elem_bytes} bytes")
    if src.ref.memory.dtype != dst.ref.memory.dtype:
        site.fail(MALFORMED, f"shuffles {src.ref.memory.dtype} to {dst.ref.memory.dtype}")
    bits = read(src, site)
    warp, own = group.warp * WARP_THREADS, group.lane
    lanes = SHUFFLED[step.way](own, step.lanes)
    lanes = np.where((lanes >= 0) & (lanes < WARP_THREADS), lanes, own)  # CUDA C++ Programming Guide, Warp Shuffle
    by_number = np.argsort(warp + own, kind="stable")
    write(dst, bits[by_number[np.searchsorted((warp + own)[by_number], warp + lanes)]], site)


_SHUFFLED_BYTES = (4, 8)
SHUFFLED: dict[str, Callable[[Array, int], Array]] = {  # the lane that each takes from, by its own number
    "xor": lambda own, lanes: own ^ lanes, "down": lambda own, lanes: own + lanes, "up": lambda own, lanes: own - lanes,
    "set": lambda own, lanes: own | lanes, "clear": lambda own, lanes: own & ~lanes,
}  # fmt: skip


# What the instructions mean that move data. A function of registers brings its meaning with it.
MEANINGS: dict[str, Callable[[Any, Effects, Any], None]] = {
    MOVE.name: move, CP_ASYNC.name: start_copy, LDMATRIX.name: load_matrices, LDMATRIX_TRANS.name: load_matrices,
    STMATRIX.name: store_matrices, STMATRIX_TRANS.name: store_matrices, TMA_LOAD.name: load_box,
    TMA_MULTICAST.name: load_box, TMA_STORE.name: store_box, COMPUTE.name: evaluate_tree, SHUFFLE.name: shuffle,
    TENSOR_COPY.name: start_cell_copy,
    **{row.name: move_cells for row in (TENSOR_LOAD, TENSOR_STORE)},
    **{
        row.name: start_product
        for row in (*TENSOR_PRODUCTS.values(), *CELL_PRODUCTS.values())
    },
    **PRODUCTS, **{row.name: update for row in RED.values()}, **{row.name: store_box for row in TMA_REDUCE.values()},
}  # fmt: skip


# ---------------------------------------------------------------- order
ORDER: dict[type, Callable[[Any, Any], Blocked | None]] = {
    Sync: sync,
    Fence: fence_registers,
    TensorFence: fence_cells,
    Commit: commit,
    Wait: wait,
    Follow: follow,
    Arrive: arrive,
    Await: await_phase,
    Stamp: stamp,
}


# ---------------------------------------------------------------- in order
def run_steps(steps: Iterable[Step], site: Site) -> Iterator[str]:
    """Run steps in order; yields why the role must wait. Raises UnknownStep for a kind of step that has no meaning."""
    if not len(site.group):
        return
    for step in steps:
        site.step = step
        structure = STRUCTURE.get(type(step))
        if structure is not None:
            yield from structure(step, site) or ()
            continue
        site.machine.count(1, site.group)
        found = effects(step)
        if found.instruction is not None:
            carry_out(step, found, site)
            continue
        if type(step) not in ORDER:
            raise UnknownStep("the interpreter", step)
        blocked: Blocked | None = ORDER[type(step)](step, site)
        while blocked is not None and (why := blocked()) is not None:
            site.machine.waiting[site.role.name] = site
            yield why
        if blocked is not None:
            site.machine.count(1, site.group)
