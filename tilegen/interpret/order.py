"""What orders what: a shadow of who last touched each granule of memory, over the clocks of warps.

The rules, with their PTX sections and a planted fault for each, are in docs/order-model.md. In short: an access is
ordered before mine iff my own thread made it, or it was made in an epoch of its warp that my warp knows of. A sync
ends the epochs of the warps that meet and tells each of them what the others know.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from tilegen.interpret.clashes import NOBODY, REACHES, TOGETHER, Clash, clash_with_agent, find_reach, say_if_unheard
from tilegen.interpret.clocks import Clocks
from tilegen.interpret.threads import Array, Group
from tilegen.interpret.updaters import MANY, NEVER, NOTHING, Updaters, note_touches


class Shadow:
    """Who last wrote each granule, and who last read it in each warp of the cluster.

    Reads are kept only where ``reads``: an array that no step both reads and writes needs none. ``shared_by_all``: CTAs
    of several clusters can touch one granule (global memory). ``updates``: some step updates granules atomically.
    """

    def __init__(
        self, clocks: Clocks, granules: int, reads: bool = True, shared_by_all: bool = False, updates: bool = False
    ):
        self.clocks, self.crew, self.reads = clocks, clocks.crew, reads
        self.shared_by_all = shared_by_all and int(clocks.crew.cluster_of_cta.max()) > 0
        self.writer = np.full(granules, NOBODY, np.int32)
        fenced = granules if clocks.crew.agents else 0
        self.fence_epoch = np.full(fenced, NEVER, np.int32)  # of the writer, when it has fenced its write for agents
        self.writer_lane = np.zeros(granules, np.int8)
        self.writer_epoch = np.zeros(granules, np.int32)
        self.writer_op = np.zeros(granules, np.int16)
        seats = self.crew.seats if reads else 0
        self.read_epoch = np.zeros((granules, seats), np.int32)
        self.read_lane = np.zeros((granules, seats), np.int8)
        self.read_op = np.zeros((granules, seats), np.int16)
        self.read_cluster = np.full(granules, NOBODY, np.int32)
        self.readers_in_flight = np.zeros(granules if reads else 0, np.int32)
        self.updaters = Updaters(self.crew, granules) if updates else None

    def seen_with(self, known: Array | None) -> Shadow:
        """The same shadow for accesses that are ordered after what ``known`` says, a row for each warp (None: after
        what the warps know).
        """
        if known is None:
            return self
        other = copy(self)
        other.clocks = self.clocks.knowing(known)
        return other

    def grow(self, granules: int) -> None:
        """Room for more granules, untouched."""
        fresh = Shadow(self.clocks, granules - len(self.writer), self.reads)
        for name, value in vars(fresh).items():
            if isinstance(value, np.ndarray):
                setattr(self, name, np.concatenate([getattr(self, name), value]))

    def is_unwritten(self, at: Array) -> Array:
        """Which granules nothing has written."""
        result: Array = self.writer[at] == NOBODY
        return result

    def read(self, at: Array, group: Group, op: int, by_many: bool = False) -> Clash | None:
        """Record reads of granules ``at`` (threads x granules); None if each is ordered after its last write.

        ``by_many``: lanes of a warp read together, so that they are ordered with no lane's accesses.
        """
        clash = self._after_write(at, group) or self._after_updates(at, group)
        if self.reads:
            now, lane, cluster = (x[:, None] for x in (self.clocks.now(group), group.lane, group.cluster))
            slot = at * self.crew.seats + group.seat[:, None]
            note_touches((self.read_epoch, self.read_lane, self.read_op), slot, now, lane, op)
            if by_many:
                self.read_lane.reshape(-1)[slot] = MANY
            if self.shared_by_all:
                before = self.read_cluster[at]
                self.read_cluster[at] = np.where((before == NOBODY) | (before == cluster), cluster, MANY)
                mixed = self.read_cluster[at] != cluster  # several clusters in this very step
                self.read_cluster[at[mixed]] = MANY
        return clash

    def write(self, at: Array, group: Group, op: int) -> Clash | None:
        """Record writes; None if each is ordered after the last write and after every read since."""
        clash = self._after_write(at, group) or (self._after_reads(at, group) if self.reads else None)
        clash = clash or self._after_updates(at, group)
        if self.updaters is not None:
            self.updaters.clear(at)
        self.writer[at], self.writer_lane[at] = group.warp[:, None], group.lane[:, None]
        self.writer_op[at], self.writer_epoch[at] = op, self.clocks.now(group)[:, None]
        if self.crew.agents:
            self.fence_epoch[at] = NEVER
        return clash

    def update(self, at: Array, group: Group, op: int, function: int) -> Clash | None:
        """Record atomic updates by a function (its number); None if each is ordered after the last write, after every
        read since, and after every update by another function.
        """
        assert self.updaters is not None
        clash = self._after_write(at, group) or self._after_reads(at, group) or self._after_updates(at, group, function)
        self.updaters.record(at, group, self.clocks.now(group), op, function)
        return clash

    def spread(self, at: Array, group: Group) -> None:
        """What was just written was by the lanes of each warp together: it is ordered with no lane's accesses."""
        mine = (self.writer[at] == group.warp[:, None]) & (self.writer_lane[at] == TOGETHER)
        self.writer_lane[at[mine]] = MANY

    def write_by_agent(
        self, at: Array, who: Group, agent: Array, op: int, goes_on: Array | None = None
    ) -> Clash | None:  # fmt: skip
        """Record writes of granules ``at`` by an agent for each of the threads ``who`` that begin them; None if each is
        ordered. ``goes_on``: those that need not be ordered after the last write.
        """
        clash = self._after_write(at, who, goes_on) or self._after_reads(at, who) or self._after_updates(at, who)
        self.take_for_agent(at, agent[:, None], op)
        return clash

    def read_by_agent(
        self, at: Array, who: Group, agent: Array, op: int, goes_on: Array | None = None
    ) -> Clash | None:  # fmt: skip
        """Record reads of granules ``at`` by agents; None if each is ordered after its last write. ``goes_on``: those
        that need not be.
        """
        clash = self._after_write(at, who, goes_on) or self._after_updates(at, who)
        self.take_by_agents(at, agent, op)
        return clash

    def is_open(self, g: Array, warps: Array) -> bool:
        """Whether agents may surely read granules for teams of warps, a row of either for each: they were written and
        fenced, and every warp of the team knows of the fence.
        """
        writer, epoch = self.writer.take(g), self.fence_epoch.take(g)
        if self.shared_by_all or (writer == NOBODY).any() or self._is_updated(g):
            return False
        seat, known = self.crew.seat_of[writer], self.clocks.known
        team = known[warps, : self.crew.seats].min(axis=1)
        if (epoch > np.take_along_axis(team, seat, axis=1)).any():
            return False
        of_warps = writer < self.crew.all_warps  # what a warp wrote in its own epoch, its other lanes do not know of
        if not of_warps.any():
            return True
        return bool((epoch[of_warps] < known[writer[of_warps], seat[of_warps]]).all())

    def is_free(self, at: slice, warp: int) -> bool:
        """Whether an agent may surely write granules, begun by a warp: that knows of all who read there, and of the
        fences of all who wrote.
        """
        writer, epoch = self.writer[at], self.fence_epoch[at]
        if self.shared_by_all or self._is_updated(at):
            return False
        known, own = self.clocks.known[warp, : self.crew.seats], self.crew.seat_of[warp]
        before = known.copy()
        before[own] -= 1  # other lanes of the warp
        if self.readers_in_flight[at].any() or (self.read_epoch[at].max(axis=0, initial=0) > before).any():
            return False
        return bool(((writer == NOBODY) | (epoch <= before[self.crew.seat_of[writer]])).all())

    def take_for_agent(self, at: slice | Array, agent: int | Array, op: int) -> None:
        """Record an agent's writes of granules: one agent's, or of each its own."""
        if self.updaters is not None:
            self.updaters.clear(at)
        self.writer[at], self.writer_lane[at], self.writer_op[at] = agent, MANY, op
        self.writer_epoch[at] = self.fence_epoch[at] = self.clocks.ticks[agent]

    def take_by_agents(self, g: Array, agent: Array, op: int) -> None:
        """Record reads of granules by agents, a row for each."""
        slot = g * self.crew.seats + self.crew.seat_of[agent][:, None]
        epochs, lanes, ops = (x.reshape(-1) for x in (self.read_epoch, self.read_lane, self.read_op))
        epochs[slot], lanes[slot], ops[slot] = self.clocks.ticks[agent][:, None], MANY, op

    def fence(self, group: Group) -> None:
        """What the threads have written so far will be seen by agents (where there are any) that start after this."""
        if not self.crew.agents:
            return
        wrote = np.zeros((self.crew.all_warps + 1, 32), bool)  # the last row: nobody, and agents, which need none
        wrote[group.warp, group.lane] = True
        row = np.where(self.writer < self.crew.all_warps, self.writer, NOBODY)
        one = wrote[row, np.maximum(self.writer_lane, 0)]
        whole: Array = np.asarray(wrote.all(axis=1))
        fenced = np.where(self.writer_lane >= 0, one, whole[row])  # what lanes wrote together, all fence
        first = np.flatnonzero(fenced & (self.writer_epoch != NEVER) & (self.fence_epoch == NEVER))
        writer = self.writer[first]
        self.fence_epoch[first] = self.clocks.known[writer, self.crew.seat_of[writer]]
        if self.updaters is not None:
            self.updaters.fence(wrote, self.clocks.known)

    def is_unfenced(self, g: Array, who: Group) -> Array:
        """Which granules were written before what each thread ``who`` begins now, but not fenced before it."""
        bad = self._is_unordered(g, self.fence_epoch[g], who) & ~self._is_unordered(g, self.writer_epoch[g], who)
        return bad if self.updaters is None else bad | self.updaters.is_unfenced(g, who, self.clocks.known)

    def start_write(self, at: Array) -> None:
        """The writes of granules ``at``, just recorded, are in flight."""
        self.writer_epoch[at] = NEVER

    def land_write(self, at: Array, group: Group) -> None:
        """Writes in flight land: as if their threads had made them now."""
        self.writer_epoch[at] = self.clocks.now(group)[:, None]

    def land_by_agent(self, at: Array, agent: Array) -> None:
        """Writes in flight land, each row's as the work of an agent now (of the generic proxy: nothing is fenced)."""
        self.writer[at], self.writer_lane[at] = agent[:, None], MANY
        self.writer_epoch[at] = self.clocks.ticks[agent][:, None]

    def land_read_by_agent(self, at: Array, agent: Array, op: int) -> None:
        """Reads in flight have been made by now, each row's as the work of an agent."""
        if self.reads:
            np.subtract.at(self.readers_in_flight, at, 1)
            self.take_by_agents(at, agent, op)

    def start_read(self, at: Array) -> None:
        """Reads of granules ``at``, just recorded, are in flight."""
        if self.reads:
            np.add.at(self.readers_in_flight, at, 1)

    def land_read(self, at: Array, group: Group, op: int) -> None:
        """Reads in flight have been made by now."""
        if self.reads:
            np.subtract.at(self.readers_in_flight, at, 1)
            self.read(at, group, op)

    def double_write(self, at: Array, group: Group) -> tuple[int, int] | None:
        """A granule of this step's writes that another thread wrote too: (its entry, that thread's warp)."""
        lost = (self.writer[at] != group.warp[:, None]) | (self.writer_lane[at] != group.lane[:, None])
        if not lost.any():
            return None
        entry = int(np.flatnonzero(lost)[0])
        return entry, int(self.writer[at.ravel()[entry]])

    def _after_write(self, at: Array, group: Group, goes_on: Array | None = None) -> Clash | None:
        if self._is_long_ago(self.writer_epoch[at]):
            return None
        g, who = _entries(at, group)
        writer, epoch = self.writer[g], self.writer_epoch[g]
        bad = self._is_unordered(g, epoch, who)
        if goes_on is not None:
            bad &= ~goes_on.ravel()
        if self.shared_by_all:
            bad |= (self.crew.cluster_of[writer] != who.cluster) & (writer != NOBODY)
        if not bad.any():
            return None
        entries = np.flatnonzero(bad)
        reach = find_reach(self.crew, writer[entries], who.warp[entries])
        worst = int(np.argmax(reach))
        entry, scope = int(entries[worst]), REACHES[reach[worst]]
        lane, op = int(self.writer_lane[g[entry]]), int(self.writer_op[g[entry]])
        other = self._name(int(writer[entry]), lane)
        if writer[entry] >= self.crew.all_warps:
            found = Clash(entry, "fills", op, scope, agent=int(writer[entry]), tick=int(epoch[entry]))
            return clash_with_agent(self.clocks, found, int(who.warp[entry]))
        if epoch[entry] != NEVER:
            found = Clash(entry, f"{other} wrote", op, scope)
            return say_if_unheard(self.clocks, found, (int(writer[entry]), int(epoch[entry])), int(who.warp[entry]))
        is_own = scope == "warp" and lane == who.lane[entry]
        return Clash(entry, f"an asynchronous copy of {other} still fills", op, "" if is_own else scope, True)

    def _is_unordered(self, g: Array, epoch: Array, who: Group) -> Array:
        """Which granules' writers were in an epoch that is not ordered before what each thread ``who`` does now."""
        writer = self.writer[g]
        known = self.clocks.known[who.warp, self.crew.seat_of[writer]]
        other_lane = self.writer_lane[g] != who.lane
        late = np.where(writer == who.warp, (epoch >= known) & other_lane, epoch > known) | (epoch == NEVER)
        result: Array = late & (writer != NOBODY)
        return result

    def _is_long_ago(self, epochs: Array) -> bool:
        """Whether all know of all these accesses: then each is ordered, whoever asks."""
        return not self.shared_by_all and int(epochs.max(initial=0)) <= self.clocks.common()

    def _after_reads(self, at: Array, group: Group) -> Clash | None:
        held = self.readers_in_flight[at]
        if held.any():
            return Clash(int(np.flatnonzero(held)[0]), "an asynchronous copy still reads", NOBODY, "", True)
        if self._is_long_ago(self.read_epoch[at]):
            return None
        g, who = _entries(at, group)
        if self.shared_by_all:
            foreign = (self.read_cluster[g] != NOBODY) & (self.read_cluster[g] != who.cluster)
            if foreign.any():
                return Clash(int(np.flatnonzero(foreign)[0]), "another CTA reads", NOBODY, "")
        return self._after_touches((self.read_epoch, self.read_lane, self.read_op), g, who, "may still be reading")

    def _after_updates(self, at: Array, group: Group, function: int = NOTHING) -> Clash | None:
        """None if each access is ordered after every update since the last write, but those by a ``function``."""
        if self.updaters is None:
            return None
        known = self.updaters.function[at]
        if not ((known != NOTHING) & (known != function)).any():
            return None
        g, who = _entries(at, group)
        table = self.updaters
        epochs = np.where((table.function[g] == function)[:, None], 0, table.epoch[g])
        return self._after_touches((epochs, table.lane[g], table.op[g]), np.arange(len(g)), who, "updates")

    def _is_updated(self, at: Array | slice) -> bool:
        return self.updaters is not None and bool((self.updaters.function[at] != NOTHING).any())

    def _after_touches(self, tables: tuple[Array, Array, Array], g: Array, who: Group, does: str) -> Clash | None:
        """None if each of ``who`` is ordered after all that seats of its cluster did in rows ``g`` of the tables."""
        (epochs, lanes, ops), each = tables, np.arange(len(g))
        seen, now = epochs[g], self.clocks.now(who)
        unordered = seen > self.clocks.known[who.warp, : self.crew.seats]
        own = seen[each, who.seat]
        unordered[each, who.seat] = (own >= np.maximum(now, 1)) & (lanes[g, who.seat] != who.lane)
        if not unordered.any():
            return None
        entries, seats = np.nonzero(unordered)
        others = self.crew.warp_in_seat[who.cluster[entries], seats]
        reach = find_reach(self.crew, others, who.warp[entries])
        worst = int(np.argmax(reach))
        entry, seat = int(entries[worst]), int(seats[worst])
        op = int(ops[g[entry], seat])
        if others[worst] >= self.crew.all_warps:
            agent, tick = int(others[worst]), int(seen[entry, seat])
            return clash_with_agent(
                self.clocks, Clash(entry, "reads", op, "", agent=agent, tick=tick), int(who.warp[entry])
            )
        other = self._name(int(others[worst]), int(lanes[g[entry], seat]))
        return Clash(entry, f"{other} {does}", op, REACHES[reach[worst]])

    def _name(self, warp: int, lane: int) -> str:
        cta, warp = divmod(warp, self.crew.warps)
        lanes = "several lanes" if lane < 0 else f"lane {lane}"
        return f"warp {warp} {lanes}" + (f" of CTA {self.crew.ctas[cta]}" if self.shared_by_all else "")


def _entries(at: Array, group: Group) -> tuple[Array, Group]:
    """The granules of all threads in one row, and the thread of each."""
    n = at.shape[1]
    if n == 1:
        return at[:, 0], group
    fields = (group.thread, group.cta, group.warp, group.lane)
    return at.ravel(), Group(group.crew, slice(None), *(np.repeat(x, n) for x in fields))
