"""mbarriers: phases, arrivals, announced bytes; what a phase tells those that wait for it."""

from __future__ import annotations

import re

import numpy as np

from tilegen.ptx.held import Barrier
from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.memory import read_address
from tilegen.ptx.rows import CONTROL, Row, Step, row
from tilegen.ptx.state import PEER, Fault, Lanes
from tilegen.ptx.text import Instruction

BARRIER_BYTES = 8


def find_barrier(machine: Machine, at: int, lane: int) -> Barrier:
    """The mbarrier at an address of a lane's CTA, or of a peer's. Raises Fault where none is known to be made there."""
    state, order = machine.state, machine.order
    peer = at >> PEER
    cta = int(state.cta[lane] - state.rank[lane] + peer - 1 if peer else state.cta[lane])
    found: Barrier | None = machine.barriers.get(cta * state.shared_bytes + (at & (1 << PEER) - 1))
    if found is None:
        raise Fault(f"no mbarrier at {at & (1 << PEER) - 1}")
    if found.lane != lane and order.know[lane, order.column[found.lane]] <= found.made:
        raise Fault("a race: nothing orders the use of an mbarrier after mbarrier.init", order.instructions[found.made])
    return found


def find_common(machine: Machine, at: int, idx: Array) -> Barrier:
    """The mbarrier at one address for all of these lanes, which each must know that it is made."""
    found = {lane: find_barrier(machine, at, lane) for lane in idx.tolist()}
    return found[int(idx[0])]


def _initialise(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    state, order = machine.state, machine.order
    address, counts = read_address(machine, one.operands[0]), state.row(one.operands[1], np.dtype("u4"))

    def step(lanes: Lanes) -> None:
        for lane, at, count in zip(lanes.idx.tolist(), address(lanes).tolist(), counts[lanes.at].tolist(), strict=True):
            byte = int(state.cta[lane]) * state.shared_bytes + at
            if byte in machine.barriers:
                raise Fault("an mbarrier is made where there is one", order.instructions[machine.barriers[byte].made])
            if at % BARRIER_BYTES or at + BARRIER_BYTES > state.shared_end or count < 1:
                raise Fault(f"an mbarrier at {at} for {count} arrivals")
            agent = order.agent(("mbarrier", byte % (state.shared_bytes * state.peers)))
            own, wide, done_own, done_wide = (np.zeros(order.width, np.int32) for _ in range(4))
            made = order.tick()
            machine.barriers[byte] = Barrier(byte, count, lane, made, agent, count, own, wide, done_own, done_wide)
            machine.reserve(byte, BARRIER_BYTES)

    return step


def know_phase(machine: Machine, barrier: Barrier, lane: int, what: str) -> None:
    """A thread acts on a phase only once it knows that the phase before has completed."""
    order = machine.order
    if order.know[lane, order.phase_column(barrier.agent)] < barrier.phase:
        raise Fault(f"{what} for a phase of an mbarrier, and nothing tells that the phase before has completed")


def arrive(machine: Machine, barrier: Barrier, idx: Array, scope: str) -> None:
    """Lanes arrive. With a scope that does not reach the barrier's CTA their accesses are not released."""
    state, order = machine.state, machine.order
    for lane in idx.tolist():
        know_phase(machine, barrier, lane, "an arrival")
    gathered = order.gather(idx)
    cta = barrier.byte // state.shared_bytes
    if (state.cta[idx] != cta).any() and scope == "cta":
        for start in order.lane_starts():
            gathered[start:][: order.n] = 0
        np.maximum(barrier.own, gathered, out=barrier.own)
    elif (state.cta[idx] == cta).all():
        np.maximum(barrier.own, gathered, out=barrier.own)
    np.maximum(barrier.wide, gathered, out=barrier.wide)
    mark_remote(machine, barrier, int(idx[-1]))
    barrier.pending -= len(idx)
    if barrier.pending < 0:
        raise Fault("more arrivals at an mbarrier than its phase counts")
    complete(machine, barrier)


def complete(machine: Machine, barrier: Barrier) -> None:
    """End the phase if all have arrived and all announced bytes have come."""
    if barrier.pending or barrier.bytes:
        return
    order = machine.order
    barrier.phase += 1
    barrier.pending = barrier.count
    for clock in (barrier.own, barrier.wide):
        clock[barrier.agent] = order.tick()
        clock[order.phase_column(barrier.agent)] = barrier.phase
    barrier.done_own, barrier.done_wide = barrier.own.copy(), np.maximum(barrier.own, barrier.wide)
    barrier.own[:] = barrier.wide[:] = 0
    machine.wake()


def land_bytes(machine: Machine, barrier: Barrier, lane: int, count: int) -> None:
    """Bytes that a copy of this lane brings are reported. Raises Fault where the copy may not see the mbarrier."""
    order = machine.order
    require_seen(machine, barrier, lane)
    know_phase(machine, barrier, lane, "bytes are reported")
    tell_phases(machine, barrier, lane)
    barrier.bytes -= count
    barrier.landed = order.tick()
    mark_remote(machine, barrier, lane)
    complete(machine, barrier)


def require_seen(machine: Machine, barrier: Barrier, lane: int) -> None:
    """What a lane starts may act on an mbarrier behind a fence of who made it."""
    order = machine.order
    if barrier.fenced < 0 or order.own_row(lane)[order.column[barrier.lane]] <= barrier.fenced:
        raise Fault("the async proxy does not see mbarrier.init: no fence of its thread is ordered in between",
                    order.instructions[barrier.made])  # fmt: skip


def tell_phases(machine: Machine, barrier: Barrier, lane: int) -> None:
    """A phase that a copy helps to complete tells which phases were known when the copy was started; no accesses."""
    facts = slice(machine.order.phase_column(machine.order.n), machine.order.fence_start(is_shared=False))
    for clock in (barrier.own, barrier.wide):
        clock[facts] = np.maximum(clock[facts], machine.order.know[lane, facts])


def mark_remote(machine: Machine, barrier: Barrier, lane: int) -> None:
    """A lane of another CTA acts on it: that CTA must still run."""
    if machine.state.cta[lane] != barrier.byte // machine.state.shared_bytes:
        barrier.remote = lane, machine.order.stamp, barrier.phase


def _arrive(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    address = read_address(machine, one.operands[1])
    u4, state = np.dtype("u4"), machine.state
    count = state.row(one.operands[2], u4) if len(one.operands) > 2 else None
    scope = (found["scope"] or ".cta")[1:]

    def step(lanes: Lanes) -> None:
        at = address(lanes)
        for key in np.unique(at * len(state.ctas) + state.cta[lanes.idx]).tolist():
            here = np.flatnonzero(at * len(state.ctas) + state.cta[lanes.idx] == key)
            idx = lanes.idx[here]
            barrier = find_common(machine, int(at[here[0]]), idx)
            if found["expects"] and count is not None:
                barrier.bytes += int(count[lanes.at][here].sum())
            elif count is not None:
                extra = int(count[lanes.at][here].sum()) - len(idx)
                barrier.pending -= extra
            arrive(machine, barrier, idx, scope)

    return step


def _expect(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    address, count = read_address(machine, one.operands[0]), machine.state.row(one.operands[1], np.dtype("u4"))

    def step(lanes: Lanes) -> None:
        for lane, at, n in zip(lanes.idx.tolist(), address(lanes).tolist(), count[lanes.at].tolist(), strict=True):
            barrier = find_barrier(machine, at, lane)
            know_phase(machine, barrier, lane, "bytes are announced")
            barrier.bytes += n

    return step


def _try_wait(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    """Lanes whose phase has completed go on, and learn; the others wait.

    The time limit passes once for each lane that does not know of the phase: it goes on with false, and must come back.
    """
    state, order = machine.state, machine.order
    done = state.row(one.operands[0], np.dtype(bool))
    address, parity = read_address(machine, one.operands[1]), state.row(one.operands[2], np.dtype("u4"))
    is_wide = found["scope"] in (".cluster",)

    def step(lanes: Lanes) -> Array:
        at, phases = address(lanes), parity[lanes.at].astype(np.int64)
        passed = np.zeros(lanes.n, bool)
        keys = (at * 2 + phases) * len(state.ctas) + state.cta[lanes.idx]
        for key in np.unique(keys).tolist():
            here = np.flatnonzero(keys == key)
            idx = lanes.idx[here]
            barrier = find_common(machine, int(at[here[0]]), idx)
            if phases[here[0]] > 1:
                raise Fault(f"a wait for the parity {int(phases[here[0]])}")
            if barrier.phase % 2 == phases[here[0]]:
                continue
            if (order.know[idx, order.phase_column(barrier.agent)] < barrier.phase - 1).any():
                raise Fault(
                    "a wait for a phase of an mbarrier that is two phases further: its parity is that of another"
                )
            order.learn(idx, barrier.done_wide if is_wide else barrier.done_own)
            passed[here] = True
        done[lanes.idx[passed]] = True
        machine.tried[lanes.idx[passed]] = -1
        return passed

    def try_once(lanes: Lanes) -> Array:
        new: Array = machine.tried[lanes.idx] != state.at
        at, phases = address(lanes), parity[lanes.at]
        for k in np.flatnonzero(new).tolist():
            lane = int(lanes.idx[k])
            barrier = find_barrier(machine, int(at[k]), lane)
            is_known = order.know[lane, order.phase_column(barrier.agent)] >= barrier.phase
            new[k] = not (is_known and barrier.phase % 2 != phases[k])
        if not new.any():
            return np.asarray(step(lanes))
        done[lanes.idx[new]] = False
        machine.tried[lanes.idx[new]] = state.at
        others = machine.part(lanes, np.flatnonzero(~new))
        if others.n:
            new[~new] = step(others)
        return new

    return try_once


def fence_barriers(machine: Machine, idx: Array) -> None:
    """mbarriers that these lanes have made are seen by the async proxy, by who knows of this fence."""
    made = set(idx.tolist())
    for barrier in machine.barriers.values():
        if barrier.lane in made and barrier.fenced < 0:
            barrier.fenced = machine.order.tick()


_SEM, _SCOPE = r"(\.release|\.acquire)?", r"(?P<scope>\.cta|\.cluster)?"
ROWS: tuple[Row, ...] = (
    row(r"mbarrier\.init(\.shared(::cta)?)?\.b64", "9.7.13 mbarrier.init", _initialise),
    row(rf"mbarrier\.arrive(?P<expects>\.expect_tx)?{_SEM}{_SCOPE}\.shared(::cta|::cluster)?\.b64", 
        "9.7.13 mbarrier.arrive", _arrive),
    row(rf"mbarrier\.expect_tx(\.relaxed)?{_SCOPE}\.shared(::cta)?\.b64", "9.7.13 mbarrier.expect_tx", _expect),
    row(rf"mbarrier\.try_wait\.parity{_SEM}{_SCOPE}\.shared(::cta)?\.b64", "9.7.13 mbarrier.try_wait",
        _try_wait, CONTROL),
)  # fmt: skip
