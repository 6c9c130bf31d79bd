"""What is done with tensor memory is ordered after: a second clock, which tcgen05.fence sets by the first.

Source: PTX ISA, "tcgen05 Memory Consistency Model": tcgen05 instructions are asynchronous to one another too; across
threads a fence stands before what tells (an arrival, a sync), and one behind what hears (a wait, a sync).
"""

from __future__ import annotations

import numpy as np

from tilegen.interpret.threads import Array, Crew, Group
from tilegen.scopes import SCOPES

_LANES = SCOPES["warp"].threads
MOVES = ("reads", "writes")  # kinds of agents: a warp's tcgen05.ld and its tcgen05.st


class TensorClocks:
    """``after[32 w + l]``: what the products of lane l of warp w come after; of all lanes, its loads and stores.

    ``landed``: of each warp, by kind, up to which tick its loads (stores) are waited for. ``fenced``: of each lane,
    what was landed at its last fence before what it tells. At the next sync of the warp that enters its clock, as all
    does that lanes did before.
    """

    def __init__(self, crew: Crew, known: Array):
        self.crew, self.known = crew, known
        self.after = np.zeros((crew.all_warps * _LANES, known.shape[1]), np.int32)
        warps = np.arange(crew.all_warps)
        kinds = [kind for kind in MOVES if getattr(crew.kinds, kind)]
        self.seats = {kind: crew.seat_of[crew.agent_of(kind, warps)] for kind in kinds}
        self.landed = {kind: np.zeros(len(warps), np.int32) for kind in kinds}
        self.fenced = {kind: np.zeros((len(warps), _LANES), np.int32) for kind in kinds}

    @property
    def all_seats(self) -> Array:
        """The seats of loads and stores."""
        return np.unique(np.concatenate([*self.seats.values(), np.zeros(0, np.int64)])).astype(np.int64)

    # ---- fences and waits
    def hear(self, group: Group) -> None:
        """What threads do after this comes after all that their warps know."""
        rows = group.warp * _LANES + group.lane
        self.after[rows] = np.maximum(self.after[rows], self.known[group.warp])

    def tell(self, group: Group) -> None:
        """What threads tell after this, tells of the loads and stores that their warps have waited for."""
        for kind, fenced in self.fenced.items():
            fenced[group.warp, group.lane] = self.landed[kind][group.warp]

    def land(self, kind: str, warps: Array, ticks: Array) -> None:
        """Warps have waited for their loads, or their stores, up to a tick."""
        landed = self.landed[kind]
        landed[warps] = np.maximum(landed[warps], ticks)

    def meet(self, warps: Array) -> None:
        """Warps are about to sync: what all lanes of each have fenced is known to it."""
        for kind, seats in self.seats.items():
            told = self.fenced[kind][warps].min(axis=1)
            self.known[warps, seats[warps]] = np.maximum(self.known[warps, seats[warps]], told)

    # ---- what comes after what
    def known_to_warps(self, warps: Array) -> Array:
        """The clocks of all warps, those of loads and stores by ``warps``: what each lane has heard, and their own."""
        result: Array = self.known.copy()
        result[warps] = self.after.reshape(self.crew.all_warps, _LANES, -1)[warps].min(axis=1)
        for kind, seats in self.seats.items():
            result[warps, seats[warps]] = np.maximum(result[warps, seats[warps]], self.landed[kind][warps])
        return result

    def known_to_threads(self, group: Group) -> Array:
        """The clocks of all warps, those of products by these threads, of which no warp has two."""
        result: Array = self.known.copy()
        result[group.warp] = self.after[group.warp * _LANES + group.lane]
        return result

    def missing(self, kind: str, warp: int, tick: int) -> str:
        """What a warp's load, or store, of a tick lacks to be told of: wait | fence | "" (a sync, or an arrival)."""
        if self.landed[kind][warp] < tick:
            return "wait"
        return "fence" if self.fenced[kind][warp].min() < tick else ""

    def pending(self) -> object:
        """What fences and syncs would change, to compare with another time: of lanes that have fenced before.

        Others come after nothing whatever their warps know.
        """
        warps, fenced = np.repeat(np.arange(self.crew.all_warps), _LANES), (self.after > 0).sum(axis=1) > 0
        own = [(self.landed[kind][:, None] > self.fenced[kind]).tobytes() for kind in self.landed]
        late = (self.known[warps] > self.after) & fenced[:, None]
        return fenced.tobytes(), late.tobytes(), tuple(own)
