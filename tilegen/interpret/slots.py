"""What steps at mbarriers mean: arriving, and waiting for a phase."""

from __future__ import annotations

from tilegen.interpret.address import value_of
from tilegen.interpret.fault import MALFORMED, OUT_OF_BOUNDS
from tilegen.interpret.site import Blocked, Site
from tilegen.interpret.threads import Array
from tilegen.plan import Arrive, Await, Slot


def slot_of(slot: Slot, site: Site) -> Array:
    """The number of the slot for each thread."""
    if slot.barrier not in site.machine.plan.barriers:
        site.fail(MALFORMED, f"barrier {slot.barrier.name} is none of the plan's")
    value = site.group.spread(value_of(site.text(slot.at), site))
    bad = (value < 0) | (value >= slot.barrier.slots)
    if bad.any():
        row = int(bad.argmax())
        message = f"{slot.barrier.name} has no slot {int(value[row])}, only {slot.barrier.slots}"
        site.fail(OUT_OF_BOUNDS, message, row)
    return value


def arrive(step: Arrive, site: Site) -> None:
    """Each thread announces the bytes and arrives."""
    slot = slot_of(step.slot, site)
    site.machine.phases.arrive(step.slot.barrier, slot, step.bytes, site.group, site)


def await_phase(step: Await, site: Site) -> Blocked:
    """Each thread waits until the phase of its parity has completed."""
    parity = site.group.spread(value_of(site.text(step.parity), site))
    return site.machine.phases.wait(step.slot.barrier, slot_of(step.slot, site), parity, site.group, site)
