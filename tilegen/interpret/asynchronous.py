"""What asynchronous steps mean: cp.async with its groups, boxes that TMA moves, mbarriers. Data lands at the wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.access import distinct
from tilegen.interpret.address import check_int, check_start, find, locate, value_of
from tilegen.interpret.clocks import Clocks
from tilegen.interpret.fault import MALFORMED, MISALIGNED, OUT_OF_BOUNDS, UNFENCED, UNWRITTEN
from tilegen.interpret.flights import Copies
from tilegen.interpret.memory import Virtual, fetch
from tilegen.interpret.order import Shadow
from tilegen.interpret.pairs import even_of, peer_of
from tilegen.interpret.phases import SlotsOfCtas
from tilegen.interpret.pooled import Holding, Shared
from tilegen.interpret.reading import read_text
from tilegen.interpret.reporting import report
from tilegen.interpret.site import Site
from tilegen.interpret.slots import check_queue, slot_of
from tilegen.interpret.threads import Array, Group
from tilegen.interpret.updaters import NEVER
from tilegen.interpret.updates import check_box_update
from tilegen.plan import (
    QUEUES,
    TMA_UNIT_BYTES,
    Commit,
    Effects,
    Move,
    Ref,
    Tma,
    Touch,
    Wait,
)


def start_copy(step: Move, touched: Effects, site: Site) -> None:
    """cp.async: each thread starts a copy from global to shared memory; zeros where the source is not read."""
    (src,), (dst,) = touched.read, touched.written
    width = src.elems * src.ref.memory.elem_bytes
    if not step.via.moves(src.ref.memory.traits, dst.ref.memory.traits) or width not in step.via.widths_bytes:
        what = f"{width} bytes {src.ref.memory.space} -> {dst.ref.memory.space}"
        site.fail(MALFORMED, f"cp.async moves 4, 8 or 16 bytes global -> shared, not {what}")
    if dst.ref.memory.elem_bytes != src.ref.memory.elem_bytes:
        site.fail(MALFORMED, f"moves {src.ref.memory.dtype} elements to {dst.ref.memory.dtype}: sizes differ")
    bits, holding = _fetch(src, site)
    root, flat = locate(dst.ref, dst.elems, site)
    filling = root.store.write_later(flat, bits, site.group, site)
    flight = site.machine.flights.start(step.via.queue, site.group, Copies(filling, holding), site.narrow(site.group))
    if site.machine.log is not None:
        site.machine.log.start(flight, names_of(site, src.ref, dst.ref), width, site)


def _fetch(src: Touch, site: Site) -> tuple[Array, Holding | None]:
    """The bits of every thread, and what nobody may write until they have landed."""
    group = site.group
    bits = np.zeros((len(group), src.elems), site.machine.domain.bits(src.ref.memory.elem_bytes))
    holds = group.spread(True if src.where is True else value_of(read_text(src.where), site))
    some = site.narrow(group.where(holds))
    if not len(some.group):
        return bits, None
    root, flat = locate(src.ref, src.elems, some)
    at = np.flatnonzero(holds)
    bits[at], granules = root.store.read_later(flat, src.elems, some.group, some)
    return bits, None if granules is None else Holding(root.store.shadow, granules, at)


def commit(step: Commit, site: Site) -> None:
    """Each thread closes its open group."""
    check_queue("commit", step.queue, site)
    site.machine.flights.commit(step.queue, site.group)


def wait(step: Wait, site: Site) -> None:
    """The older groups of each thread have landed: for this thread, as if it had made the copies now."""
    check_queue("wait", step.queue, site)
    if step.pending and not QUEUES[step.queue].commit:
        site.fail(MALFORMED, f"a wait for {step.queue} is for all of it, not for all but {step.pending}")
    landed = site.machine.flights.land(step.queue, step.pending, site.group)
    if site.machine.log is not None:
        site.machine.log.finish(step, landed, site)


def names_of(site: Site, *refs: Ref) -> tuple[str, ...]:
    """The memories that operands of a step lie in."""
    return tuple(site.frame.places[ref.memory.name].root.memory.name for ref in refs)


# ---------------------------------------------------------------- boxes that TMA moves
def load_box(step: Tma, touched: Effects, site: Site) -> None:
    """One thread of a warp starts the copy of a box of an array into shared memory."""
    (shared,) = touched.written
    store, cells = _begin(step, shared, site)
    _load(step, store, cells, site)


def store_box(step: Tma, touched: Effects, site: Site) -> None:
    """One thread of a warp starts the copy of a box from shared memory into an array."""
    shared = next(t for t in touched.touches if not t.writes)
    store, cells = _begin(step, shared, site)
    _store(step, store, cells, site)


def _begin(step: Tma, shared: Touch, site: Site) -> tuple[Shared, Array]:
    """The shared memory, and the cells of the box in it for each thread that starts one."""
    group = site.group
    if len(group) != len(group.whole):
        site.fail(MALFORMED, "several threads of a warp start one copy: TMA is started by one thread")
    place = find(shared.ref, site)
    if not place.root.memory.traits.is_pooled:
        site.fail(MALFORMED, f"TMA moves boxes between global and shared memory, not {place.root.memory.name}")
    start = group.spread(place.flat)
    cells = _cells(step, place.root.store, start, group)
    elems = cells.shape[1]
    if np.any(start < 0) or np.any(start + elems > place.root.span):
        bad = int(np.argmax((start < 0) | (start + elems > place.root.span)))
        where = f"elements {int(start[bad])} .. {int(start[bad]) + elems - 1} of {place.root.memory.name}"
        site.fail(OUT_OF_BOUNDS, f"the box takes {where}, which has {place.root.span}", bad)
    memory, width = place.root.memory, step.map.align_bytes
    check_start(memory, width, "a box", site)
    byte = memory.offset_bytes + start * memory.elem_bytes
    if np.any(byte % width):
        bad = int(np.argmax(byte % width != 0))
        message = f"a box of {memory.name} begins at byte {int(byte[bad])}, which is no multiple of {width}"
        site.fail(MISALIGNED, message, bad)
    return place.root.store, cells


def _cells(step: Tma, store: Shared, start: Array, group: Group) -> Array:
    """The cells of a box's elements in the order of their places, for each thread: (threads, elems).

    Bits 7 and up of a place choose which 16-byte chunks trade places: b ^ (b >> 7 & swizzle_bytes / 16 - 1) << 4 (CUDA
    Driver API, CUtensorMapSwizzle).
    """
    elems = step.map.box_bytes // store.size
    byte = store.offset + (start[:, None] + np.arange(elems)) * store.size
    byte ^= ((byte >> 7) & max(0, step.map.swizzle_bytes // 16 - 1)) << 4
    result: Array = (group.cta[:, None] * store.pool.bytes + byte) // store.size
    return result


def _elements(step: Tma, site: Site) -> tuple[Any, Array, Array]:
    """(store, flat offsets, inside) of the box's elements in the array: (threads, elems), clamped where outside."""
    root = site.view(step.map.memory).root.seen_by(site.group)
    shape = [len(site.group), *step.map.box]
    flat, inside = np.zeros(shape, np.int64), np.ones(shape, bool)
    for k, (d, x, n) in enumerate(zip(step.map.dims, step.at, step.map.box, strict=True)):
        text = read_text(x)
        value = site.group.spread(value_of(text, site))
        check_int(text, value, site)
        if step.done is None and np.any(value < 0):
            row = int(np.argmax(value < 0))
            message = f"a box that TMA stores begins at {int(value[row])} of dimension {d} of {root.memory.name}"
            site.fail(OUT_OF_BOUNDS, f"{message}: the GPU ends such a launch", row)
        axis = [-1 if j == k else 1 for j in range(len(step.map.box))]
        c = value.reshape(-1, *[1] * len(axis)) + np.arange(n).reshape(axis)
        apart = value * root.memory.elem_bytes % TMA_UNIT_BYTES if d == step.map.dims[-1] else np.zeros(1)
        if np.any(apart):
            row = int(np.argmax(apart != 0))
            message = f"a box of {root.memory.name} begins at {int(value[row])} of dimension {d}"
            site.fail(MISALIGNED, f"{message}, which is no multiple of {TMA_UNIT_BYTES} bytes", row)
        extent, pitch = (np.reshape(n, (-1, *[1] * len(axis))) for n in (root.shape[d], root.pitches[d]))
        inside &= (c >= 0) & (c < extent)
        flat += np.clip(c, 0, extent - 1) * pitch
    return root.store, root.in_store(flat.reshape(shape[0], -1)), inside.reshape(shape[0], -1)


# ---------------------------------------------------------------- loads
def _load(step: Tma, shared: Shared, cells: Array, site: Site) -> None:
    assert step.done is not None
    store, flat, inside = _elements(step, site)
    if not isinstance(store, Virtual):
        site.fail(MALFORMED, f"TMA loads of {store.name}, which the kernel writes, are not ordered by its syncs")
    values = fetch(store.memory, store.values, flat, site.machine.domain)
    if step.map.rounds:
        values = site.machine.domain.round_to_tfloat32(values).view(values.dtype)
    bits = np.where(inside, values, np.zeros(1, values.dtype)).astype(site.machine.domain.bits(shared.size))
    phases, group = site.machine.phases, site.group
    slot = slot_of(step.done, site)
    ctas = [peer_of(rank, site) for rank in step.peers.ranks()] if step.peers else [group.cta]
    told = ctas if step.rank is None else [even_of(step.rank, site)]
    log, started = site.machine.log, {}
    if log is not None:
        phase = phases.current(SlotsOfCtas(step.done.barrier, slot, told[0]))
        started = log.load(step, (step.map.memory.name, shared.name), slot, ctas, phase, site)
    for there, cta in zip(ctas, told, strict=True):
        slots = SlotsOfCtas(step.done.barrier, slot, cta)
        agent = phases.agent_of(slots)
        np.add.at(site.clocks.ticks, agent, 1)
        phases.reach(there, agent, "loads", site)
        at = cells + (there - group.cta)[:, None] * (shared.pool.bytes // shared.size)
        _fill(step, shared, at, bits, agent, site)
        if log is not None:
            log.land(step, started, slot, cta, phases.current(slots), site)
        if step.rank is not None or step.peers:
            phases.vouch(slots, group)
        phases.deliver(slots, agent, step.map.box_bytes, group, site.narrow(group))
        if step.rank is not None:
            phases.refuse_surplus(slots, site.narrow(group))


def _fill(step: Tma, shared: Shared, cells: Array, bits: Array, agent: Array, site: Site) -> None:
    """The data is there for those who have waited for the agent."""
    shadow = shared.pool.shadow
    for row in range(len(cells)):
        at = _neighbours(step, shared, cells[row])
        if at is not None and shadow.is_free(at, int(site.group.warp[row])):
            shadow.take_for_agent(at, int(agent[row]), site.op)
            shared.own(at)
            continue
        granules, who = _granules(shared, cells[row], row, site.group)
        refuse_unfenced(SharedAccess(shared, granules, who, row), "fills", site)
        clash = shadow.write_by_agent(granules[:, None], who, np.full(len(granules), agent[row]), site.op)
        report(shadow, clash, "fills", granules[:, None], _at(shared, row), site)
        shared.own(granules)
    shared.pool.cells[shared.size][cells] = bits


# ---------------------------------------------------------------- stores
@dataclass(frozen=True)
class Sending:
    """Stores of one step: until a thread has waited for its group, the agent of its warp may still read."""

    clocks: Clocks
    agent: Array
    ticks: Array

    def land(self, rows: Array, who: Group, op: int) -> None:
        self.clocks.learn(who.warp[rows], self.agent[rows], self.ticks[rows])

    def touches(self, shadow: Shadow, granule: int) -> Array:
        return np.zeros(len(self.agent), bool)  # the agent is known by its clock

    def holds(self, store: object, element: int) -> bool:
        return False


def _store(step: Tma, shared: Shared, cells: Array, site: Site) -> None:
    group, clocks = site.group, site.clocks
    store, flat, inside = _elements(step, site)
    agent = group.crew.agent_of("stores", group.warp)
    clocks.ticks[agent] += 1
    bits = _drain(step, shared, cells, agent, site)
    who = np.repeat(np.arange(len(group)), inside.sum(1))
    fields = (group.thread[who], group.cta[who], group.warp[who], group.lane[who])
    each = Group(group.crew, slice(None), *fields)
    if step.map.memory.access == "in" or isinstance(store, Virtual):
        site.fail(MALFORMED, f"writes {step.map.memory.name}, which is an input")
    if step.function:
        check_box_update(step, store, site)
    if len(who) and step.function:
        store.update(flat[inside], bits[inside][:, None], step.function, each, site.narrow(each), "async")
    elif len(who):
        store.write_later(flat[inside], bits[inside][:, None], each, site.narrow(each))
    sending = Sending(clocks, agent, clocks.ticks[agent])
    flight = site.machine.flights.start(step.instruction.queue, group, sending, site.narrow(group))
    if site.machine.log is not None:
        site.machine.log.start(flight, (shared.name, step.map.memory.name), step.map.box_bytes, site)


def _drain(step: Tma, shared: Shared, cells: Array, agent: Array, site: Site) -> Array:
    """The bits of the boxes, which the agent reads from now on until it is waited for."""
    shadow = shared.pool.shadow
    for row in range(len(cells)):
        at = _neighbours(step, shared, cells[row])
        warp = site.group.warp[row : row + 1, None]
        is_own = at is not None and not (shared.pool.holds[at] != shared.family).any()
        if at is not None and is_own and shadow.is_open(whole := np.arange(at.start, at.stop)[None], warp):
            shadow.take_by_agents(whole, agent[row : row + 1], site.op)
            continue
        granules, who = _granules(shared, cells[row], row, site.group)
        unwritten = shadow.is_unwritten(granules)
        if unwritten.any():
            _, what = shared.where(int(np.flatnonzero(unwritten)[0]), granules[:, None])
            site.fail(UNWRITTEN, f"reads {what}, which nothing wrote", row)
        if shared.family:
            shared.refuse_others(granules[:, None], site)
        clash = shadow.read_by_agent(granules[:, None], who, np.full(len(granules), agent[row]), site.op)
        report(shadow, clash, "reads", granules[:, None], _at(shared, row), site)
        refuse_unfenced(SharedAccess(shared, granules, who, row), "reads", site)
    result: Array = shared.pool.cells[shared.size].take(cells)
    return result


# ---------------------------------------------------------------- granules
def _neighbours(step: Tma, shared: Shared, cells: Array) -> slice | None:
    """The granules of a box that is whole patterns of its swizzle: neighbours; None for any other."""
    first, stop = int(cells[0]) * shared.size, (int(cells[0]) + len(cells)) * shared.size
    whole = max(shared.pool.grain, 8 * step.map.swizzle_bytes)  # rows of it, after which chunks trade places alike
    is_whole = first % shared.pool.bytes % whole == 0 == (stop - first) % whole
    return slice(first // shared.pool.grain, stop // shared.pool.grain) if is_whole else None


def _granules(shared: Shared, cells: Array, row: int, group: Group) -> tuple[Array, Group]:
    """The granules of one thread's box, each once, and the thread as often."""
    granules = distinct(cells * shared.size // shared.pool.grain)
    fields = (group.thread, group.cta, group.warp, group.lane)
    return granules, Group(group.crew, slice(None), *(np.full(len(granules), x[row]) for x in fields))


def _at(shared: Shared, row: int) -> Any:
    """``Shared.where`` for granules that one thread's box has."""
    return lambda entry, granules: (row, shared.where(entry, granules)[1])


@dataclass(frozen=True)
class SharedAccess:
    """Granules of shared memory that the async proxy touches for a thread, the one of a ``row``, or for its warp."""

    shared: Shared
    granules: Array
    who: Group  # as often as there are granules
    row: int
    known: Array | None = None  # what it is ordered after, a row for each warp; None: what warps know


def refuse_unfenced(access: SharedAccess, verb: str, site: Site, reader: str = "TMA") -> None:
    """Raise where the async proxy would not see a plain write that each of ``who`` is ordered after."""
    shared, granules = access.shared, access.granules
    shadow = shared.pool.shadow.seen_with(access.known)
    bad = np.flatnonzero(shadow.is_unfenced(granules, access.who))
    if len(bad):
        first = granules[bad[0]]
        is_late = shadow.fence_epoch[first] != NEVER
        how = "and fenced after the sync that tells of it" if is_late else "without a fence after it"
        _, what = shared.where(int(bad[0]), granules[:, None])
        message = f"{verb} {what}, which a thread wrote {how}: {reader} may not see that in order"
        site.fail(UNFENCED, message, access.row, other_op=int(shadow.writer_op[first]), insert=("sync: async",))
