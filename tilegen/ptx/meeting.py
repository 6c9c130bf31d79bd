"""Who waits for whom: barriers of warps, CTAs and clusters, fences, the kernels before, registers handed over."""

from __future__ import annotations

import re

import numpy as np

from tilegen.ptx.barriers import fence_barriers
from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.matrices import each_warp
from tilegen.ptx.order import PREVIOUS
from tilegen.ptx.rows import CONTROL, WARPS, Row, Step, row
from tilegen.ptx.state import WARP, Fault, Lanes
from tilegen.ptx.text import Instruction

_BARRIERS = 16


def _sync_warp(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    mask = machine.state.row(one.operands[0], np.dtype("u4"))

    def step(lanes: Lanes) -> None:
        machine.check_mask(lanes, mask[lanes.at], lanes.idx % WARP)
        if lanes.n % WARP == 0 and lanes.whole and (mask[lanes.at] == 0xFFFFFFFF).all():
            machine.order.meet(lanes.idx, lanes.n // WARP)
            return
        for here in each_warp(lanes):
            idx, masks = lanes.idx[here], mask[lanes.idx[here]]
            for own in np.unique(masks):
                machine.order.meet(idx[masks == own])

    return step


def _sync_cta(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    state, meetings, order = machine.state, machine.meetings, machine.order
    ids = state.row(one.operands[0], np.dtype("u4"))
    counts = state.row(one.operands[1] if len(one.operands) > 1 else str(state.padded), np.dtype("u4"))
    arrives = bool(found["arrive"])

    def step(lanes: Lanes) -> Array | None:
        if (ids[lanes.at] >= _BARRIERS).any():
            raise Fault(f"a CTA has {_BARRIERS} barriers")
        is_same = bool((ids[lanes.at] == ids[lanes.idx[0]]).all())
        if not arrives and lanes.n == state.total and len(one.operands) == 1 and not meetings.named and is_same:
            order.meet(lanes.idx, len(state.ctas))
            return np.ones(lanes.n, bool)
        if not lanes.whole:
            raise Fault("a barrier that part of a warp reaches: it counts whole warps")
        keys = state.cta[lanes.idx] * _BARRIERS + ids[lanes.at]
        for key in np.unique(keys).tolist():
            here = keys == key
            cta, number = divmod(int(key), _BARRIERS)
            count = int(counts[lanes.at][here][0])
            if (counts[lanes.at][here] != count).any():
                raise Fault(f"barrier {number} is used for several numbers of threads")
            _come(machine, (cta, number), count, lanes.idx[here], arrives)
        return np.ones(lanes.n, bool) if arrives else None

    return step


def _come(machine: Machine, key: tuple[int, int], count: int, idx: Array, arrives: bool) -> None:
    state, meetings, order = machine.state, machine.meetings, machine.order
    if count % WARP or count > state.padded:
        raise Fault(f"a barrier for {count} of {state.padded} threads")
    came = meetings.named.setdefault(key, [])
    if meetings.counts.setdefault(key, count) != count:
        raise Fault(f"barrier {key[1]} is used for {count} threads, and others wait at it for {meetings.counts[key]}")
    came.append((idx, state.at, order.gather(idx) if arrives else None))
    total = sum(-(-len(one) // WARP) * WARP for one, _, _ in came)
    if total > count:
        raise Fault(f"barrier {key[1]} of {count} threads is reached by {total}")
    if total == count:
        waits = [(one, at) for one, at, clock in came if clock is None]
        everyone = np.sort(np.concatenate([one for one, _ in waits])) if waits else idx[:0]
        clocks = [clock for _, _, clock in came if clock is not None]
        if len(everyone):
            order.meet(everyone)
            for clock in clocks:
                order.learn(everyone, clock)
        for one, at in waits:
            machine.resume(one, at + 1)
        del meetings.named[key], meetings.counts[key]


def _arrive_cluster(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    state, meetings, order = machine.state, machine.meetings, machine.order

    def step(lanes: Lanes) -> None:
        for cluster in np.unique(lanes.idx // order.n).tolist():
            idx = lanes.idx[lanes.idx // order.n == cluster]
            came = meetings.cluster_came.setdefault(cluster, set())
            if came & set(idx.tolist()) or any(meetings.lane_meeting.get(lane) for lane in idx.tolist()):
                raise Fault("a thread arrives twice at one barrier of its cluster")
            came |= set(idx.tolist())
            clock = meetings.cluster_clock.get(cluster, np.zeros(order.width, np.int32))
            if not found["relaxed"]:
                clock = np.maximum(clock, order.gather(idx))
            meetings.cluster_clock[cluster] = clock
            count, _ = meetings.cluster_done.get(cluster, (0, clock))
            for lane in idx.tolist():
                meetings.lane_meeting[lane] = count + 1
            if len(came) == int(state.exists[cluster * order.n : (cluster + 1) * order.n].sum()):
                meetings.cluster_done[cluster] = count + 1, meetings.cluster_clock.pop(cluster)
                came.clear()
                machine.wake()

    return step


def _wait_cluster(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    meetings, order = machine.meetings, machine.order

    def step(lanes: Lanes) -> Array:
        passed = np.zeros(lanes.n, bool)
        for cluster in np.unique(lanes.idx // order.n).tolist():
            here = np.flatnonzero(lanes.idx // order.n == cluster)
            count, clock = meetings.cluster_done.get(cluster, (0, np.zeros(0)))
            wanted = np.array([meetings.lane_meeting.get(lane, 0) for lane in lanes.idx[here].tolist()])
            if (wanted == 0).any():
                raise Fault("barrier.cluster.wait without an arrival before it")
            done = here[wanted <= count]
            if len(done):
                order.learn(lanes.idx[done], clock)
                passed[done] = True
                for lane in lanes.idx[done].tolist():
                    meetings.lane_meeting[lane] = 0
        return passed

    return step


def _fence(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    def step(lanes: Lanes) -> None:
        if found["kind"].startswith("proxy.async"):
            machine.order.fence(lanes.idx, found["space"] or "")
        if found["kind"].startswith(("proxy.async", "mbarrier_init")):
            fence_barriers(machine, lanes.idx)

    return step


def _wait_previous(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    def step(lanes: Lanes) -> None:
        if found["kind"] == "wait":
            machine.order.learn_column(lanes.idx, machine.order.n + PREVIOUS, machine.order.tick())

    return step


def _set_registers(machine: Machine, one: Instruction, found: re.Match[str]) -> Step:
    """A warp gives registers back to its CTA, or takes some that others gave: it waits until there are enough.

    PTX asks for whole warpgroups; whether the warps of each have taken the same number is looked at in the end.
    """
    state, meetings = machine.state, machine.meetings
    wanted, takes = int(one.operands[0], 0), found["way"] == "inc"
    first = count_registers(machine)
    if wanted % 8 or not 24 <= wanted <= 256:
        raise Fault(f"setmaxnreg of {wanted}: a multiple of 8 from 24 to 256")

    def step(lanes: Lanes) -> Array:
        if not lanes.whole:
            raise Fault("setmaxnreg by a part of a warp")
        passed = np.zeros(lanes.n, bool)
        for here in each_warp(lanes):
            warp = int(lanes.idx[here[0]]) // WARP
            cta, held = int(state.cta[warp * WARP]), meetings.registers.get(warp, first)
            if (wanted < held) if takes else (wanted > held):
                raise Fault(f"setmaxnreg.{found['way']} to {wanted} registers of a warp that has {held}")
            free = meetings.free.get(cta, 0)
            if (wanted - held) * WARP <= free:
                meetings.free[cta] = free - (wanted - held) * WARP
                meetings.registers[warp] = wanted
                passed[here] = True
                machine.wake()
        return passed

    return step


def count_registers(machine: Machine) -> int:
    """Registers a thread starts with, as ptxas gives them to a kernel that uses setmaxnreg."""
    ctas = machine.state.kernel.directives.get("minnctapersm", (1,))[0]
    return min(255, 65536 // (machine.state.padded * ctas)) // 8 * 8


ROWS: tuple[Row, ...] = (
    row(r"bar\.warp\.sync", "9.7.13 bar.warp.sync", _sync_warp, WARPS),
    row(r"(bar|barrier)(\.cta)?\.(sync|(?P<arrive>arrive))(\.aligned)?", "9.7.13 bar, barrier", _sync_cta, CONTROL),
    row(r"barrier\.cluster\.arrive(\.release|(?P<relaxed>\.relaxed))?(\.aligned)?", "9.7.13 barrier.cluster",
        _arrive_cluster),
    row(r"barrier\.cluster\.wait(\.acquire)?(\.aligned)?", "9.7.13 barrier.cluster", _wait_cluster, CONTROL),
    row(r"fence\.(?P<kind>proxy\.async(?P<space>\.shared::cta|\.global|\.shared::cluster)?|mbarrier_init\.release\.cluster)", 
        "9.7.13 membar, fence", _fence),
    row(r"griddepcontrol\.(?P<kind>wait|launch_dependents)", "9.7.13 griddepcontrol", _wait_previous),
    row(r"setmaxnreg\.(?P<way>inc|dec)\.sync\.aligned\.u32", "9.7.19 setmaxnreg", _set_registers, CONTROL),
)  # fmt: skip
