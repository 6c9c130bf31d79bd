"""What a warp does with tensor memory: loads to registers, stores from registers, waits for them, fences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilegen.access import distinct
from tilegen.interpret.address import find, locate
from tilegen.interpret.asynchronous import names_of
from tilegen.interpret.fault import DISAGREE, MALFORMED, MISALIGNED, OUT_OF_BOUNDS
from tilegen.interpret.order import Shadow
from tilegen.interpret.reporting import report
from tilegen.interpret.site import Site, require_whole_warps
from tilegen.interpret.tensor_clocks import TensorClocks
from tilegen.interpret.tensor_memory import COLUMN_BYTES, LANES, Cells
from tilegen.interpret.threads import Array, Group
from tilegen.interpret.watched import Carried
from tilegen.plan import TENSOR_LOAD, Effects, Move, Ref, TensorFence, Touch
from tilegen.scopes import SCOPES

_WINDOW = SCOPES["warp"].threads  # lanes that a warp reaches: PTX ISA, "Access restrictions" of tcgen05.ld and .st
_WINDOWS = LANES // _WINDOW


@dataclass(frozen=True)
class Moving:
    """The loads, or stores, of one step, until each warp has waited for them."""

    clocks: TensorClocks
    kind: str
    ticks: Array
    registers: tuple[Carried, slice]
    shadow: Shadow
    granules: Array

    def land(self, rows: Array, who: Group, op: int) -> None:
        some, (store, columns) = who.where(rows), self.registers
        self.clocks.land(self.kind, some.whole, self.ticks[rows][some.heads])
        store.land(columns, self.kind == "reads", some)

    def touches(self, shadow: Shadow, granule: int) -> Array:
        found: Array = (self.granules == granule).any(1) & (self.shadow is shadow)
        return found

    def holds(self, store: object, element: int) -> bool:
        own, columns = self.registers
        return own is store and columns.start <= element < columns.stop


def fence(step: TensorFence, site: Site) -> None:
    """Threads order what they do with tensor memory with what they tell, or have heard."""
    tensor = site.clocks.tensor
    if step.side not in ("before", "after"):
        site.fail(MALFORMED, f"a fence of tensor memory stands before or after, not '{step.side}'")
    if tensor is not None:
        (tensor.tell if step.side == "before" else tensor.hear)(site.group)


def move_cells(step: Move, touched: Effects, site: Site) -> None:
    """Whole warps move neighbours of each of their lanes to registers, or from there; both are in flight from now on.

    Lane l of a warp has lane l of its window.
    """
    group, machine, is_load = site.group, site.machine, step.via is TENSOR_LOAD
    name, kind = step.via.name, "reads" if is_load else "writes"
    require_whole_warps(name, site)
    ends = (*touched.read, *touched.written)
    held, cells = ends[::-1] if is_load else ends
    _check_move(step, held, cells, site)
    window, first = find_cells(cells.ref, step.elems, site)
    store, lane = site.frame.places[cells.ref.memory.name].root.store, window + group.lane
    _check_window(window, first, store.name, site)
    root, column = locate(held.ref, step.elems, site)
    columns = slice(column, column + step.elems)
    agent = group.crew.agent_of(kind, group.warp)
    site.clocks.ticks[distinct(agent)] += 1
    assert isinstance(store, Cells) and isinstance(root.store, Carried) and site.clocks.tensor is not None
    at, granules = store.place(lane, first, step.elems, group)
    store.settle(at)
    shadow, words = store.pool.shadow, store.pool.cells[store.size]
    view = shadow.seen_with(site.clocks.tensor.known_to_warps(group.whole))
    chain = store.tensor.chain
    if is_load:
        store.refuse_unwritten(granules, site)
        clash = view.read_by_agent(granules, group, agent, site.op)
        report(shadow, clash, "reads", granules, store.where, site)
        store.refuse_others(granules, site)
        chain[granules] = -np.abs(chain[granules])
        root.store.fill(columns, words.take(at), group, site)
    else:
        bits = root.store.lend(columns, group, site)
        clash = view.write_by_agent(granules, group, agent, site.op)
        report(shadow, clash, "writes", granules, store.where, site)
        store.own(granules)
        chain[granules] = 0
        words[at] = bits
    cargo = Moving(site.clocks.tensor, kind, site.clocks.ticks[agent], (root.store, columns), shadow, granules)
    flight = machine.flights.start(step.via.queue, group, cargo, site.narrow(group))
    machine.flights.commit(step.via.queue, group)
    if machine.log is not None:
        machine.log.start(flight, names_of(site, step.src, step.dst), step.elems * store.size, site)


def _check_move(step: Move, held: Touch, cells: Touch, site: Site) -> None:
    places = [site.frame.places.get(t.ref.memory.name) for t in (held, cells)]
    traits = [
        place.root.memory.traits if place else t.ref.memory.traits
        for place, t in zip(places, (held, cells), strict=True)
    ]
    name, width = step.via.name, step.elems * cells.ref.memory.elem_bytes
    if not traits[0].is_held or not traits[1].has_cells:
        site.fail(MALFORMED, f"{name} moves between tensor memory and registers")
    if width not in step.via.widths_bytes or step.valid is not True:
        widths = step.via.widths_bytes
        message = f"{name} moves {widths[0]}, {widths[1]}, {widths[2]} .. {widths[-1]} bytes a lane without a condition"
        site.fail(MALFORMED, f"{message}, not {width}")
    if held.ref.memory.elem_bytes != cells.ref.memory.elem_bytes:
        dtypes = f"{cells.ref.memory.dtype} and {held.ref.memory.dtype}"
        site.fail(MALFORMED, f"{name} moves between {dtypes}: sizes differ")


def _check_window(window: Array, first: Array, name: str, site: Site) -> None:
    """A warp names one place, in the lanes that it reaches: its own number in the CTA mod 4 says which."""
    group = site.group
    for what, values in (("lanes", window), ("elements", first)):
        if not group.is_by_warp(values):
            row = int(np.argmax(values != values[group.heads][group.row_of_warp]))
            site.fail(MALFORMED, f"lanes of one warp name other {what} of {name}: a warp names one place", row)
    warp = group.warp % group.crew.warps
    bad = window != warp % _WINDOWS * _WINDOW
    if bad.any():
        row = int(np.argmax(bad))
        low, own = int(window[row]), int(warp[row]) % _WINDOWS * _WINDOW
        lanes = f"lanes {low} to {low + _WINDOW - 1} of {name}, and reaches {own} to {own + _WINDOW - 1}"
        site.fail(OUT_OF_BOUNDS, f"warp {int(warp[row])} of its CTA names {lanes} alone", row)


def find_cells(ref: Ref, elems: int, site: Site) -> tuple[Array, Array]:
    """(lane, first element in it) that each thread names; ``elems`` from there on are in the memory, and allocated."""
    place, group = find(ref, site), site.group
    root, store = place.root, place.root.store
    pitch = root.pitches[0]
    if pitch * store.size != store.tensor.lane_bytes:
        columns = f"{pitch * store.size // COLUMN_BYTES} columns, of which {store.tensor.columns} are allocated"
        site.fail(DISAGREE, f"each lane of {store.name} is one of {columns}")
    flat = group.spread(place.flat)
    lane, first = np.divmod(flat, pitch)
    if place.coordinates is not None:
        named = [group.spread(c) for c in place.coordinates]
        lane, first = named
        wrong = lane * pitch + first != flat
        if wrong.any():
            row = int(np.argmax(wrong))
            site.fail(DISAGREE, f"the place in {store.name} prints as {int(flat[row])}, and is not that", row)
    _check_inside("lane", lane, 1, root.shape[0], store.name, site)
    _check_inside("element", first, elems, root.shape[1], store.name, site)
    end = store.offset + (first + elems) * store.size
    if (end > store.tensor.lane_bytes).any():
        row, columns = int(np.argmax(end)), store.tensor.columns
        message = f"column {(int(end[row]) - 1) // COLUMN_BYTES} of tensor memory, of which {columns} are allocated"
        site.fail(OUT_OF_BOUNDS, f"{store.name} lies in {message}", row)
    if ((store.offset + first * store.size) % COLUMN_BYTES).any():
        row = int(np.argmax((store.offset + first * store.size) % COLUMN_BYTES))
        site.fail(MISALIGNED, f"element {int(first[row])} of {store.name} does not begin a column", row)
    assert not ((store.offset + first * store.size) % store.pool.grain).any()
    return lane, first


def _check_inside(what: str, value: Array, elems: int, room: int, name: str, site: Site) -> None:
    bad = (value < 0) | (value + elems > room)
    if bad.any():
        row = int(np.argmax(bad))
        more = f" .. {int(value[row]) + elems - 1}" if elems > 1 else ""
        site.fail(OUT_OF_BOUNDS, f"{what} {int(value[row])}{more} of {name}, which has {room}", row)
