"""What is ordered before what: a clock for each lane and agent; for each granule of memory who wrote and read it.

A clock is a row of stamps. ``know[u, t] > s``: what t did at stamp s is ordered before what u does now. Columns:
lanes of the cluster, agents (what works asynchronously), lanes up to their last proxy fence, phases of mbarriers,
lanes up to their last proxy fence for global memory; with tensor memory, the loads of lanes, and their stores there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from tilegen.ptx.launch import Array
from tilegen.ptx.state import WARP, Fault, Lanes, State

_AGENTS = 64
NEVER = np.iinfo(np.int32).max
PREVIOUS = 0  # the agent of the kernels launched before


class Order:
    """The clocks of all lanes. ``n``: lanes of a cluster; a column is a lane's number within it."""

    def __init__(self, state: State):
        self.state, self.n = state, state.padded * state.peers
        self.column = state.lane % self.n
        self.has_tensor = any(one.op.startswith("tcgen05.") for one in state.kernel.code)
        self.width = (5 if self.has_tensor else 3) * self.n + 2 * _AGENTS
        self.know = np.zeros((state.total, self.width), np.int32)
        missing = ~state.exists[: self.n]
        for start in self.lane_starts():
            self.know[:, start + np.flatnonzero(missing)] = NEVER
        self.know[:, self.n + PREVIOUS] = 0 if state.launch.overlaps else NEVER
        self.base = np.zeros(state.total, np.int32)  # what any lane of the cluster did before it is known
        self.agents: dict[Hashable, int] = {"previous": PREVIOUS}
        self.instructions = [0]  # of each stamp
        self.shown: Callable[[int], str] = str
        self._warps: dict[int, Array] = {}

    @property
    def stamp(self) -> int:
        return len(self.instructions) - 1

    def tick(self) -> int:
        """A new stamp, of the instruction that runs."""
        self.instructions.append(self.state.at)
        return self.stamp

    def agent(self, key: Hashable) -> int:
        """The column of an agent; agents of two clusters have columns of their own."""
        found = self.agents.setdefault(key, len(self.agents))
        if found >= _AGENTS:
            raise Fault(f"more than {_AGENTS} mbarriers, warpgroups and threads that start copies in a cluster")
        return self.n + found

    def fence_start(self, is_shared: bool) -> int:
        """The first column of proxy fences, which are in the order of lanes."""
        return self.n + _AGENTS if is_shared else 2 * self.n + 2 * _AGENTS

    def tensor_start(self, is_store: bool) -> int:
        """The first column of loads from tensor memory, or of stores to it, which are in the order of lanes."""
        return (4 if is_store else 3) * self.n + 2 * _AGENTS

    def lane_starts(self) -> list[int]:
        """The first columns of all that each lane has a column for."""
        tensor = [self.tensor_start(False), self.tensor_start(True)] if self.has_tensor else []
        return [0, self.fence_start(True), self.fence_start(False), *tensor]

    def phase_column(self, agent: int) -> int:
        return agent + self.fence_start(is_shared=True)

    # ---- how clocks move
    def release(self, idx: Array) -> None:
        """What these lanes did so far is in their own clocks."""
        self.know[idx, self.column[idx]] = self.tick()

    def changed(self, idx: Array) -> None:
        for warp in np.unique(idx // WARP).tolist():
            self._warps.pop(warp, None)

    def meet(self, idx: Array, groups: int = 1) -> None:
        """Lanes of each of so many groups, of equal sizes, know what any of their group does."""
        self.release(idx)
        is_all = len(idx) == self.state.total
        rows = self.know if is_all else self.know[idx]
        best = rows.reshape(groups, -1, self.width).max(1)
        size = len(idx) // groups
        self.base[idx] = np.repeat(best[:, : self.n].min(1), size)
        if is_all:
            self.know.reshape(groups, size, -1)[:] = best[:, None]
        else:
            self.know[idx] = np.repeat(best, size, 0)
        self.changed(idx)

    def learn(self, idx: Array, row: Array) -> None:
        """Lanes know what a row of a clock says."""
        self.know[idx] = np.maximum(self.know[idx], row)
        self.base[idx] = self.know[idx, : self.n].min(1)
        self.changed(idx)

    def learn_column(self, idx: Array, column: int, stamp: int | Array) -> None:
        self.know[idx, column] = np.maximum(self.know[idx, column], stamp)
        self.changed(idx)

    def fence(self, idx: Array, space: str) -> None:
        """A proxy fence of these lanes: their writes to a space (any: "") may be seen by the async proxy."""
        stamp = self.tick()
        for is_shared in [name != ".global" for name in (".shared", ".global") if space[:7] in ("", name)]:
            self.know[idx, self.fence_start(is_shared) + self.column[idx]] = stamp
        self.changed(idx)

    def gather(self, idx: Array) -> Array:
        """What any of these lanes knows, and did, as one row."""
        self.release(idx)
        found: Array = self.know[idx].max(0)
        return found

    def warp_row(self, warp: int) -> Array:
        """What each lane of a warp knows."""
        if warp not in self._warps:
            here = np.arange(warp * WARP, warp * WARP + WARP)
            self._warps[warp] = self.know[here[self.state.exists[here]]].min(0)
        return self._warps[warp]

    def warp_rows(self, warps: Array) -> Array:
        return np.stack([self.warp_row(warp) for warp in warps.tolist()])

    def own_row(self, lane: int) -> Array:
        """What a lane knows, itself included: what it starts comes after all that it did."""
        found: Array = self.know[lane].copy()
        found[self.column[lane]] = NEVER
        return found

    def group_row(self, idx: Array) -> Array:
        """What each of these lanes knows; what one of them did itself, the others must know."""
        found: Array = self.know[idx].min(0)
        return found


class Stamps:
    """When each column last touched each granule; 0: never. Rows are made for granules once they are touched."""

    def __init__(self, granules: int, columns: int):
        self.row = np.zeros(granules, np.int32)
        self.last = np.zeros(granules, np.int32)  # of any column
        self.table = np.zeros((1, columns), np.int32)
        self.used = 1
        self.has_agents = False

    def mark(self, granules: Array, columns: Array | int, stamp: int) -> None:
        """Granules and columns are of one shape, or are spread to one."""
        if (self.row[granules] == 0).any():
            self._make_rows(np.unique(granules[self.row[granules] == 0]))
        self.table[self.row[granules], columns] = stamp
        self.last[granules] = stamp

    def _make_rows(self, granules: Array) -> None:
        if self.used + len(granules) > len(self.table):
            grown = np.zeros((2 * (self.used + len(granules)), self.table.shape[1]), np.int32)
            grown[: self.used] = self.table[: self.used]
            self.table = grown
        self.row[granules] = np.arange(self.used, self.used + len(granules))
        self.used += len(granules)

    def find_unknown(self, granules: Array, know: Array, own: Array | None = None) -> int:
        """The last touch that is not known, or 0. ``know``: a clock for each granule; ``own``: a column that counts as
        known.
        """
        found = self.table[self.row[granules]]
        found[found < know] = 0
        if own is not None:
            found[np.arange(len(found)), own] = 0
        return int(found.max(initial=0))


_AGAINST = {  # of which kinds no other CTA may make an access to a granule
    "read": ("write", "update"), "write": ("read", "write", "update"), "update": ("read", "write"),
}  # fmt: skip


class Shadow:
    """Of each granule of a memory: the last write, and the reads and updates (by atomics) since.

    ``who`` wrote it: 0 is nobody, others are a column plus 1. ``kept``: of an array, which clusters of the launch did
    what so far; they run one after another, and nothing orders them.
    """

    def __init__(self, order: Order, granules: int, granule: int, kept: dict[str, Array] | None = None):
        self.order, self.granule, self.is_shared = order, granule, kept is None
        self.who = np.zeros(granules, np.int32)
        self.at = np.zeros(granules, np.int32)
        self.together = np.zeros(granules, bool)  # written by a whole warp: who is its first lane
        self.flying = np.zeros(granules, np.int32)  # a copy of cp.async of this lane's column plus 1 will fill it
        self.flights = 0
        self.columns = order.n + _AGENTS
        self.reads, self.updates = Stamps(granules, self.columns), Stamps(granules, self.columns)
        self.warp_reads = np.zeros((granules if self.is_shared else 0, order.n // WARP), np.int32)  # by ldmatrix
        self.clusters: dict[str, Array] = {}  # by kind of access: the cluster that made it, -1: several
        if kept is not None:
            if not kept:
                kept |= {name: np.zeros(granules, np.int32) for name in _AGAINST} | {"count": np.zeros(1, np.int32)}
            self.clusters = {name: kept[name] for name in _AGAINST}
            self.first = int(kept["count"][0]) + 1  # the number of the first cluster that is here
            kept["count"] += order.state.total // order.n

    # ---- accesses of lanes, each by itself; granules are [lanes, k]
    def read(self, lanes: Lanes, granules: Array) -> None:
        self._access(lanes, granules, "read")
        self.reads.mark(granules, self.order.column[lanes.idx][:, None], self.order.tick())

    def update(self, lanes: Lanes, granules: Array) -> None:
        """By an atomic: in no order with others."""
        self._access(lanes, granules, "update")
        self.updates.mark(granules, self.order.column[lanes.idx][:, None], self.order.tick())

    def write(self, lanes: Lanes, granules: Array) -> None:
        self._access(lanes, granules, "write")
        mine = np.broadcast_to(self.order.column[lanes.idx][:, None] + 1, granules.shape)
        self.who[granules] = mine
        self.at[granules] = self.order.tick()
        self.together[granules] = False
        if (self.who[granules] != mine).any():
            raise Fault("two threads write one byte in one instruction")

    def _access(self, lanes: Lanes, granules: Array, kind: str) -> None:
        order, idx = self.order, lanes.idx
        self._refuse_flights(granules)
        self._refuse_unwritten(granules, kind)
        self._mark_clusters(granules, (idx // order.n)[:, None], kind)
        who, at, columns = self.who[granules], self.at[granules], order.column[idx]
        is_own = (who - 1 == columns[:, None]) & ~self.together[granules]
        self._judge((who == 0) | is_own | (order.know[idx[:, None], who - 1] > at), granules, kind)
        self._judge_together(granules, lambda lane: order.know[idx[lane]], kind)
        for stamps, name in self._list_conflicts(kind):
            late = stamps.last[granules] >= np.maximum(order.base[idx][:, None], 1)
            if stamps.has_agents:
                late |= stamps.last[granules] > 0
            if late.any():
                where = np.argwhere(late)
                lane, flat = where[:, 0], granules[tuple(where.T)]
                self._refuse(
                    stamps.find_unknown(flat, order.know[idx[lane], : self.columns], columns[lane]), kind, name
                )

    # ---- accesses of whole warps: a row is no lane's own. Granules are [warps, k]
    def read_together(self, warps: Array, granules: Array) -> None:
        """ldmatrix: each lane of the warp must know of the write."""
        self._access_by(granules, self.order.warp_rows(warps), "read")
        stamp = self.order.tick()
        self.warp_reads[granules, (warps % self.warp_reads.shape[1])[:, None]] = stamp
        self.reads.last[granules] = stamp

    def write_together(self, warps: Array, granules: Array) -> None:
        """stmatrix: each lane of the warp must know of what was done to a row before."""
        self._access_by(granules, self.order.warp_rows(warps), "write")
        if len(np.unique(granules)) < granules.size:
            raise Fault("two rows of one stmatrix lie on one another")
        self.who[granules] = (warps * WARP % self.order.n + 1)[:, None]
        self.at[granules] = self.order.tick()
        self.together[granules] = True

    # ---- accesses of agents; ``row`` is the clock of who starts them
    def read_async(self, agent: int, granules: Array, row: Array, cluster: int = 0) -> int:
        return self._touch_async("read", agent, granules, row, cluster)

    def update_async(self, agent: int, granules: Array, row: Array, cluster: int) -> int:
        return self._touch_async("update", agent, granules, row, cluster)

    def write_async(self, agent: int, granules: Array, row: Array, cluster: int = 0) -> int:
        self._mark_clusters(granules, np.array(cluster), "write")
        self._access_by(granules[None], row[None], "write", is_async=True)
        self.who[granules] = agent + 1
        self.at[granules] = self.order.tick()
        self.together[granules] = False
        return self.order.stamp

    def _touch_async(self, kind: str, agent: int, granules: Array, row: Array, cluster: int) -> int:
        stamps = self.reads if kind == "read" else self.updates
        self._mark_clusters(granules, np.array(cluster), kind)
        self._access_by(granules[None], row[None], kind, is_async=True)
        stamps.mark(granules, agent, self.order.tick())
        stamps.has_agents = True
        return self.order.stamp

    def _access_by(self, granules: Array, know: Array, kind: str, is_async: bool = False) -> None:
        """Accesses [groups, k] by who knows a row of clocks for each group; nothing is anybody's own."""
        order, group = self.order, np.arange(len(granules))[:, None]
        self._refuse_flights(granules)
        self._refuse_unwritten(granules, kind)
        who, at = self.who[granules], self.at[granules]
        column = np.maximum(who - 1, 0)
        if is_async:
            self._refuse_unfenced(granules, know[0])
            column = np.where(column < order.n, column + order.fence_start(self.is_shared), column)
        self._judge((who == 0) | (know[group, column] > at), granules, kind)
        fences = know[:, order.fence_start(self.is_shared) :][:, : order.n]
        seen = np.concatenate([fences, know[:, order.n :]], 1) if is_async else know
        self._judge_together(granules, lambda k: seen[k], kind)
        for stamps, name in self._list_conflicts(kind):
            where = np.argwhere(stamps.last[granules] > 0)
            flat = granules[tuple(where.T)]
            rows = (know if stamps is self.reads else seen)[where[:, 0], : self.columns]
            self._refuse(stamps.find_unknown(flat, rows), kind, name)
            if stamps is self.reads and self.is_shared:
                warps = self.warp_reads[flat]
                least = rows[:, : order.n].reshape(-1, order.n // WARP, WARP).min(2)
                self._refuse(int(warps[warps >= np.maximum(least, 1)].max(initial=0)), kind, name)

    # ---- copies in flight
    def start_flight(self, lanes: Lanes, granules: Array) -> None:
        self.write(lanes, granules)
        self.flying[granules] = self.order.column[lanes.idx][:, None] + 1
        self.flights += 1

    def land(self, columns: Array, granules: Array) -> None:
        """It is now a write of these columns, made at this time."""
        self.flying[granules] = 0
        self.who[granules] = columns[:, None] + 1
        self.at[granules] = self.order.tick()

    # ---- judgements
    def _list_conflicts(self, kind: str) -> list[tuple[Stamps, str]]:
        found = [(self.reads, "read")] if kind != "read" else []
        return found + ([(self.updates, "update")] if kind != "update" and self.updates.used > 1 else [])

    def _refuse_flights(self, granules: Array) -> None:
        if self.flights and self.flying[granules].any():
            found = granules[self.flying[granules] > 0][0]
            raise Fault("a copy of cp.async in flight fills it", self.order.instructions[self.at[found]])

    def _refuse_unwritten(self, granules: Array, kind: str) -> None:
        if self.is_shared and kind != "write" and not self.who[granules].all():
            raise Fault("shared memory is read that nothing has written")

    def _refuse_unfenced(self, granules: Array, row: Array) -> None:
        """Raises Fault where the write of a lane is ordered before, and no proxy fence of that lane."""
        order, who, at = self.order, self.who[granules], self.at[granules]
        by_lane = (who > 0) & (who <= order.n)
        column = np.where(by_lane, who - 1, 0)
        bad = by_lane & (row[column] > at) & (row[column + order.fence_start(self.is_shared)] <= at)
        if bad.any():
            raise Fault("the async proxy does not see a write: no proxy fence of its thread is ordered in between",
                        order.instructions[self.at[granules[bad][0]]])  # fmt: skip

    def _judge(self, known: Array, granules: Array, kind: str) -> None:
        if not known.all():
            found = granules[np.broadcast_to(~known, granules.shape)].ravel()[0]
            self._refuse(int(self.at[found]), kind, "write")

    def _refuse(self, stamp: int, kind: str, before: str) -> None:
        """Raises Fault for an access of a kind that nothing orders after what was done at a stamp; 0: there is none."""
        if stamp:
            done = {"read": "read", "write": "written", "update": "updated"}[kind]
            article = "an" if before == "update" else "a"
            words = f"a race: it is {done}, and nothing orders that after {article} {before}"
            raise Fault(words, self.order.instructions[stamp])

    def _judge_together(self, granules: Array, rows: Callable[[Array], Array], kind: str) -> None:
        """What a whole warp wrote: each of its lanes must be known to be past it."""
        where = np.argwhere(self.together[granules])
        if not len(where):
            return
        flat = granules[tuple(where.T)]
        lanes = (self.who[flat] - 1)[:, None] + np.arange(WARP)
        least = np.take_along_axis(rows(where[:, 0]), lanes, 1).min(1)
        if (least <= self.at[flat]).any():
            found = flat[least <= self.at[flat]][0]
            raise Fault("a race: not all lanes of the warp are known to be past stmatrix",
                        self.order.instructions[self.at[found]])  # fmt: skip

    def _mark_clusters(self, granules: Array, cluster: Array, kind: str) -> None:
        """Clusters are in no order with one another. ``cluster``: that of each access, counted among those here."""
        if self.is_shared:
            return
        own = np.broadcast_to(cluster + self.first, granules.shape)
        for other in _AGAINST[kind]:
            held = self.clusters[other][granules]
            if ((held != 0) & (held != own)).any():
                raise Fault(f"a race: a {kind}, and a {other} of the same byte by another CTA")
        held = self.clusters[kind]
        old = held[granules]
        held[granules] = np.where((old == 0) | (old == own), own, -1)
        if kind == "write" and (held[granules] != own).any():
            raise Fault("a race: two CTAs write one byte in one instruction")
