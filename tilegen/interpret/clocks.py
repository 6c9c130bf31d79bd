"""Vector clocks over the warps of a cluster: how far each is ordered after what every other did."""

from __future__ import annotations

from copy import copy

import numpy as np

from tilegen.interpret.tensor_clocks import TensorClocks
from tilegen.interpret.threads import Array, Crew, Group


class Clocks:
    """``known[w, s]``: the last epoch of the warp in seat ``s`` of its cluster that warp ``w`` is ordered after.

    The own entry is the epoch that the warp is in; other lanes' accesses in it are not ordered with mine. In the
    columns after the seats are facts (``Crew.facts``), which no access is ordered by.
    """

    def __init__(self, crew: Crew):
        self.crew = crew
        warps = np.arange(crew.all_warps)
        self.known = np.zeros((len(warps), crew.seats + crew.facts), np.int32)
        self.own = warps, crew.seat_of[warps]  # where each warp's own epoch is
        self.tensor: TensorClocks | None = None
        self.end_epochs(warps)
        self.ticks = np.zeros(len(crew.seat_of), np.int32)  # of agents: how many accesses each has begun
        self.copiers: set[int] = set()  # agents that copies by cp.async were handed to
        self.before: Array | None = None  # of ``knowing``: what the warps know
        if crew.kinds.has_tensor_memory:
            self.tensor = TensorClocks(crew, self.known)

    def knowing(self, known: Array) -> Clocks:
        """These clocks for accesses that are ordered after what ``known`` says, a row for each warp."""
        other = copy(self)
        other.known, other.before = known, self.known
        return other

    def now(self, group: Group) -> Array:
        """The epoch of each thread's warp."""
        return self.known[group.warp, group.seat]

    def common(self) -> int:
        """An epoch up to which all accesses, of any warp, are ordered before what any warp of its cluster does now."""
        known = self.known[:, : self.crew.seats].copy()
        known[self.own] -= 1
        return int(known.min())

    def end_epochs(self, warps: Array) -> None:
        """Accesses so far are ordered before later ones of the same warp."""
        if self.tensor is not None:
            self.tensor.meet(warps)
        for first in self.crew.epochs:
            self.known[warps, first + self.crew.seat_of[warps]] += 1

    def past(self, warps: Array) -> Array:
        """What each warp knows, without what it does in this epoch: its lanes are not ordered with one another."""
        known = self.known[warps].copy()
        for first in self.crew.epochs:
            known[np.arange(len(warps)), first + self.crew.seat_of[warps]] -= 1
        return known

    def without_accesses(self, known: Array) -> Array:
        """Rows of what is known, but of no access by threads: of warps, or of copies by cp.async."""
        result: Array = known.copy()
        result[:, : self.crew.seats_of_warps] = 0
        result[:, self.crew.seat_of[np.array(sorted(self.copiers), np.int64)]] = 0
        if self.tensor is not None:
            result[:, self.tensor.all_seats] = 0
        return result

    def learn(self, warps: Array, agents: Array, ticks: Array) -> None:
        """Each warp is ordered after its agent's accesses up to a tick."""
        seats = self.crew.seat_of[agents]
        self.known[warps, seats] = np.maximum(self.known[warps, seats], ticks)

    def follow(self, warps: Array) -> None:
        """The kernels before have ended, as these warps know."""
        self.known[warps, -1] = 1

    def has_followed(self, warps: Array) -> Array:
        """Which warps know that the kernels before have ended."""
        result: Array = self.known[warps, -1] == 1
        return result

    def facts(self, warps: Array, team: Array) -> Array:
        """What any warp of each one's team knows besides epochs, a row for each of ``warps``."""
        known = np.zeros((int(team.max()) + 1, self.crew.facts), np.int32)
        np.maximum.at(known, team, self.past(warps)[:, self.crew.seats :])
        result: Array = known[team]
        return result

    def learn_facts(self, warps: Array, facts: Array) -> None:
        """Each warp (each once) knows these too, a row for each."""
        rows = self.known[:, self.crew.seats :]
        rows[warps] = np.maximum(rows[warps], facts)

    def meet(self, warps: Array, team: Array) -> None:
        """Warps of one team (by number) learn what every other of it knows, and all begin a new epoch."""
        if self.tensor is not None:
            self.tensor.meet(warps)
        order = np.argsort(team, kind="stable")
        warps, team = warps[order], team[order]
        starts = np.flatnonzero(np.diff(team, prepend=-1))
        sizes = np.diff(starts, append=len(team))
        self.known[warps] = np.repeat(np.maximum.reduceat(self.known[warps], starts, axis=0), sizes, axis=0)
        self.end_epochs(warps)
