"""Who has updated each granule of shared memory atomically since it was last written, and by which function.

Updates by one function are in no order that counts (PTX ISA, ``red``: relaxed operations of one scope, which are
morally strong). Any other access is ordered with each of them, not with the last alone: so an entry for each warp.
"""

from __future__ import annotations

import numpy as np

from tilegen.arithmetic import UPDATES
from tilegen.interpret.threads import Array, Crew, Group

NOTHING = 0  # the number of no function
MANY = -2  # several lanes of a warp
NEVER = 2**31 - 1  # the epoch of a fence that is missing


def number_of(function: str) -> int:
    """A function's number in the table.

    >>> number_of("add") != number_of("max")
    True
    """
    return UPDATES.index(function) + 1


class Updaters:
    """Tables over (granules, seats of a cluster): the last epoch, lane and op of each warp that updated a granule.

    ``function``: by which function each granule was updated since it was written, NOTHING where none did.
    ``fence_epoch``: when the warp fenced its updates for agents.
    """

    def __init__(self, crew: Crew, granules: int):
        self.crew, self.granules_per_cta = crew, max(1, granules // max(1, len(crew.ctas)))
        self.function = np.zeros(granules, np.int8)
        self.epoch = np.zeros((granules, crew.seats), np.int32)
        self.lane = np.zeros((granules, crew.seats), np.int8)
        self.op = np.zeros((granules, crew.seats), np.int16)
        self.fence_epoch = np.full((granules, crew.seats) if crew.agents else (0, 0), NEVER, np.int32)

    def record(self, at: Array, group: Group, now: Array, op: int, function: int) -> None:
        """Updates of granules ``at`` (threads x granules) in the epoch ``now`` of each thread's warp."""
        other = at[self.function[at] != function]
        self.clear(other)
        self.function[at] = function
        slot = at * self.crew.seats + group.seat[:, None]
        note_touches((self.epoch, self.lane, self.op), slot, now[:, None], group.lane[:, None], op)
        if self.crew.agents:
            self.fence_epoch.reshape(-1)[slot] = NEVER

    def clear(self, at: Array | slice) -> None:
        """Nothing has updated these granules: they were written, after all updates."""
        self.function[at], self.epoch[at] = NOTHING, 0

    def fence(self, wrote: Array, known: Array) -> None:
        """Threads have fenced what they updated: ``wrote`` by warp and lane, ``known`` the clocks of warps."""
        if not self.crew.agents:
            return
        granule, seat = np.nonzero((self.epoch > 0) & (self.fence_epoch == NEVER))
        cluster = self.crew.cluster_of_cta[granule // self.granules_per_cta]
        warp, lane = self.crew.warp_in_seat[cluster, seat], self.lane[granule, seat]
        fenced = np.where(lane >= 0, wrote[warp, np.maximum(lane, 0)], wrote[warp].all(axis=1))
        self.fence_epoch[granule[fenced], seat[fenced]] = known[warp[fenced], seat[fenced]]

    def is_unfenced(self, g: Array, who: Group, known: Array) -> Array:
        """Which granules were updated, but not fenced by each that did before what each thread ``who`` begins now."""
        each, seats = np.arange(len(g)), self.crew.seats
        fence = self.fence_epoch[g]
        late: Array = np.greater(fence, known[who.warp, :seats])
        own = fence[each, who.seat]
        is_own_late = (own >= known[who.warp, who.seat]) & (self.lane[g, who.seat] != who.lane)
        late[each, who.seat] = is_own_late | (own == NEVER)
        result: Array = np.any(late & (self.epoch[g] > 0), axis=1)
        return result


def note_touches(tables: tuple[Array, Array, Array], slot: Array, now: Array, lane: Array, op: int) -> None:
    """Record in tables of epochs, lanes and ops: of one epoch one lane, or MANY where it was not the only one."""
    epochs, lanes, ops = (x.reshape(-1) for x in tables)
    fresh = epochs[slot] < now
    lanes[slot[fresh]] = np.broadcast_to(lane, slot.shape)[fresh]
    lanes[slot[lanes[slot] != lane]] = MANY
    epochs[slot], ops[slot] = now, op
