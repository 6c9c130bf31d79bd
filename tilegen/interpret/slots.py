"""mbarriers: their slots, arrivals there by threads and by what these have in flight, waits for phases."""

from __future__ import annotations

import numpy as np

from tilegen.access import distinct
from tilegen.interpret.address import value_of
from tilegen.interpret.events import after
from tilegen.interpret.fault import MALFORMED, OUT_OF_BOUNDS
from tilegen.interpret.pairs import peer_of, refuse_odd
from tilegen.interpret.phases import SlotsOfCtas, Work
from tilegen.interpret.reading import read_text
from tilegen.interpret.site import Blocked, Site, require_whole_warpgroups, require_whole_warps
from tilegen.interpret.threads import Array
from tilegen.plan import QUEUES, TENSOR, Arrive, Await, Slot

_REQUIRED = {"warp": require_whole_warps, "warpgroup": require_whole_warpgroups}


def check_queue(what: str, queue: str, site: Site) -> None:
    """Raise where a queue has no commit, wait or arrive, or where threads are missing that do it as one."""
    if queue not in QUEUES:
        site.fail(MALFORMED, f"no queue is called {queue}")
    if not {"commit": QUEUES[queue].commit, "wait": QUEUES[queue].wait, "arrive": QUEUES[queue].arrive}[what]:
        site.fail(MALFORMED, f"what is in flight in {queue} has no {what} of its own")
    if QUEUES[queue].together != "thread":
        _REQUIRED[QUEUES[queue].together](f"{what}: {queue}", site)


def slot_of(slot: Slot, site: Site) -> Array:
    """The number of the slot for each thread."""
    if slot.barrier not in site.machine.plan.barriers:
        site.fail(MALFORMED, f"barrier {slot.barrier.name} is none of the plan's")
    value = site.group.spread(value_of(read_text(slot.at), site))
    bad = (value < 0) | (value >= slot.barrier.slots)
    if bad.any():
        row = int(bad.argmax())
        message = f"{slot.barrier.name} has no slot {int(value[row])}, only {slot.barrier.slots}"
        site.fail(OUT_OF_BOUNDS, message, row)
    return value


def arrive(step: Arrive, site: Site) -> None:
    """Each thread announces the bytes and arrives; or its copies do, when they have landed."""
    slot = slot_of(step.slot, site)
    if step.landed:
        _arrive_landed(step, slot, site)
        return
    cta = site.group.cta if step.rank is None else peer_of(step.rank, site)
    phases, log, slots = site.machine.phases, site.machine.log, SlotsOfCtas(step.slot.barrier, slot, cta)
    if log is not None:
        log.arrive(step, slot, cta, phases.current(slots), site)
    phases.arrive(slots, step.bytes, site.group, site)


def _arrive_landed(step: Arrive, slot: Array, site: Site) -> None:
    """What the threads have in flight lands by itself: for those who wait for the phase that this completes, not for
    the threads. The phase tells of the copies alone, of nothing else that the threads did.
    """
    check_queue("arrive", step.landed, site)
    if not QUEUES[step.landed].arrive or step.bytes or step.rank is not None:
        site.fail(MALFORMED, f"what lands in {step.landed} does not arrive so")
    if step.peers and step.landed != TENSOR:
        site.fail(MALFORMED, f"what lands in {step.landed} arrives in its own CTA alone")
    phases, group = site.machine.phases, site.group
    ctas = [peer_of(rank, site) for rank in step.peers.ranks()] if step.peers else [group.cta]
    if step.landed == TENSOR:
        if site.machine.plan.cta_group == 2:
            refuse_odd("tcgen05.commit", site)
        site.machine.flights.commit(TENSOR, group)
        site.machine.flights.land(TENSOR, 0, group)
    for cta in ctas:
        slots = SlotsOfCtas(step.slot.barrier, slot, cta)
        if step.landed == TENSOR:
            work = site.machine.cores.commit(group, phases.agent_of(slots), site)
            phases.note_commits(step.slot.barrier, work.agent)
        else:
            work = _hand_over(step.landed, phases.agent_of(slots), site)
        if site.machine.log is not None:
            site.machine.log.arrive(step, slot, cta, phases.current(slots), site)
        phases.arrive(slots, 0, group, site, work)


def _hand_over(queue: str, agent: Array, site: Site) -> Work:
    """What the threads have in flight is the work of an agent for each."""
    clocks, group = site.clocks, site.group
    clocks.ticks[distinct(agent)] += 1
    clocks.copiers.update(agent.tolist())
    site.machine.flights.hand_over(queue, group, agent)
    known = np.zeros((len(group), clocks.crew.seats), np.int32)
    known[np.arange(len(group)), clocks.crew.seat_of[agent]] = clocks.ticks[agent]
    return Work(agent, known)


def await_phase(step: Await, site: Site) -> Blocked | None:
    """Each thread waits until the phase of its parity has completed."""
    parity = site.group.spread(value_of(read_text(step.parity), site))
    phases, barrier, slot, log = site.machine.phases, step.slot.barrier, slot_of(step.slot, site), site.machine.log
    blocked, slots = phases.wait(barrier, slot, parity, site.group, site), SlotsOfCtas(barrier, slot, site.group.cta)
    if log is None:
        return blocked
    return after(blocked, lambda: log.wait(step, slot, phases.current(slots) - 1, site))
