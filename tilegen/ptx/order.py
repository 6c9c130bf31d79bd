"""What is ordered before what: a clock for each lane and agent; for each granule of memory who wrote and read it.

A clock is a row of stamps. ``know[u, t] > s``: what t did at stamp s is ordered before what u does now. Columns:
lanes of the cluster, agents (what works asynchronously), lanes up to their last proxy fence, phases of mbarriers.
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
        self.width = 2 * self.n + 2 * _AGENTS
        self.know = np.zeros((state.total, self.width), np.int32)
        missing = ~state.exists[: self.n]
        self.know[:, np.flatnonzero(missing)] = self.know[:, self.fence_column(np.flatnonzero(missing))] = NEVER
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

    def fence_column(self, column: Array | int) -> Array | int:
        return column + self.n + _AGENTS

    def phase_column(self, agent: int) -> int:
        return agent + self.n + _AGENTS

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

    def fence(self, idx: Array) -> None:
        """A proxy fence of these lanes: their writes before it may be seen by the async proxy."""
        self.know[idx, self.fence_column(self.column[idx])] = self.tick()
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


class Shadow:
    """Of each granule of a memory: the last write and the reads since. 0 is nobody, others are a column plus 1."""

    def __init__(self, order: Order, granules: int, granule: int, kept: dict[str, Array] | None = None):
        self.order, self.granule, self.is_shared = order, granule, kept is None
        is_shared = kept is None
        self.who = np.zeros(granules, np.int32)
        self.at = np.zeros(granules, np.int32)
        self.together = np.zeros(granules, bool)  # written by a whole warp: who is its first lane
        self.atomic = np.zeros(granules, bool)
        self.last_read = np.zeros(granules, np.int32)
        self.flying = np.zeros(granules, np.int32)  # a copy of cp.async of this lane's column plus 1 will fill it
        self.flights = 0
        self.agents_read = False
        self.columns = order.n + _AGENTS
        # Stamps of reads: a row for each granule of shared memory (zeros take no space), rows as needed for others.
        self.row = np.arange(granules, dtype=np.int32) + 1 if is_shared else np.zeros(granules, np.int32)
        self.reads = np.zeros((granules + 1 if is_shared else 1, self.columns), np.int32)
        self.used = 1
        self.warps = order.n // WARP
        self.warp_reads = np.zeros((granules if is_shared else 0, self.warps), np.int32)  # by ldmatrix
        if kept is not None:
            if "cluster" not in kept:  # over all clusters of a launch, which run one after another
                kept |= {name: np.zeros(granules, np.int32) for name in ("cluster", "reader")}
                kept["atomic"], kept["count"] = self.atomic, np.zeros(1, np.int32)
            self.cluster = kept["cluster"]  # whose lanes wrote it
            self.reader = kept["reader"]  # whose lanes read it; -1: of several
            self.atomic = kept["atomic"]
            self.first = int(kept["count"][0]) + 1  # the number of the first cluster that is here
            kept["count"] += order.state.total // order.n

    def rows_of(self, granules: Array) -> Array:
        """Rows of ``reads``, made where there are none."""
        rows = self.row[granules]
        if not self.is_shared and (rows == 0).any():
            new = np.unique(granules[rows == 0])
            if self.used + len(new) > len(self.reads):
                grown = np.zeros((2 * (self.used + len(new)), self.columns), np.int32)
                grown[: self.used] = self.reads[: self.used]
                self.reads = grown
            self.row[new] = np.arange(self.used, self.used + len(new))
            self.used += len(new)
            rows = self.row[granules]
        return rows

    # ---- accesses of lanes, each by itself; granules are [lanes, k]
    def read(self, lanes: Lanes, granules: Array) -> None:
        order, idx = self.order, lanes.idx
        self._refuse_flights(granules)
        who, at = self.who[granules], self.at[granules]
        if self.is_shared and not who.all():
            raise Fault("shared memory is read that nothing has written")
        columns = order.column[idx][:, None]
        known = (
            (who == 0) | (order.know[idx[:, None], who - 1] > at) | ((who - 1 == columns) & ~self.together[granules])
        )
        self._judge(known, granules, idx[:, None], who, "read")
        self._judge_together(granules, lambda lane: order.know[idx[lane]], "read")
        stamp = order.tick()
        rows = self.rows_of(granules)  # before ``reads`` is named: it may grow
        self.reads[rows, columns] = stamp
        self.last_read[granules] = stamp
        self._mark_cluster(granules, idx, is_write=False)

    def write(self, lanes: Lanes, granules: Array, is_atomic: bool = False) -> None:
        order, idx = self.order, lanes.idx
        self._refuse_flights(granules)
        who, at = self.who[granules], self.at[granules]
        columns = order.column[idx][:, None]
        known = (
            (who == 0) | (order.know[idx[:, None], who - 1] > at) | ((who - 1 == columns) & ~self.together[granules])
        )
        if is_atomic:
            known |= self.atomic[granules]
        self._judge(known, granules, idx[:, None], who, "written", is_atomic)
        self._judge_together(granules, lambda lane: order.know[idx[lane]], "written")
        if not is_atomic or not self.atomic[granules].all():
            self._judge_reads(
                granules, order.base[idx][:, None], lambda lane: order.know[idx[lane], : self.columns], columns
            )
        stamp = order.tick()
        self._mark_cluster(granules, idx, is_write=True, is_atomic=is_atomic)
        mine = np.broadcast_to(columns + 1, granules.shape)
        self.who[granules] = mine
        self.at[granules] = stamp
        self.together[granules] = False
        self.atomic[granules] = is_atomic
        if not is_atomic and (self.who[granules] != mine).any():
            raise Fault("two threads write one byte in one instruction")

    def read_together(self, warps: Array, granules: Array) -> None:
        """ldmatrix: a row is no lane's own, so each lane of the warp must know of its write. Granules: [warps, k]."""
        self._refuse_flights(granules)
        who, at, know = self.who[granules], self.at[granules], self.order.warp_rows(warps)
        if self.is_shared and not who.all():
            raise Fault("shared memory is read that nothing has written")
        known = know[np.arange(len(warps))[:, None], who - 1] > at
        self._judge(known, granules, None, who, "read")
        self._judge_together(granules, lambda k: know[k], "read")
        stamp = self.order.tick()
        self.warp_reads[granules, (warps % self.warps)[:, None]] = stamp
        self.last_read[granules] = stamp

    def write_together(self, warps: Array, granules: Array) -> None:
        """stmatrix: each lane of the warp must know of what was done to a row before."""
        know = self.order.warp_rows(warps)
        for k in range(len(warps)):
            self._check_row(granules[k], know[k], is_write=True)
        if len(np.unique(granules)) < granules.size:
            raise Fault("two rows of one stmatrix lie on one another")
        self.who[granules] = (warps * WARP % self.order.n + 1)[:, None]
        self.at[granules] = self.order.tick()
        self.together[granules] = True
        self.atomic[granules] = False

    # ---- accesses of agents; ``row`` is the clock of who starts them
    def read_async(self, agent: int, granules: Array, row: Array) -> int:
        self._check_row(granules, row, is_write=False, is_async=True)
        stamp = self.order.tick()
        rows = self.rows_of(granules)
        self.reads[rows, agent] = stamp
        self.agents_read = True
        return stamp

    def write_async(self, agent: int, granules: Array, row: Array, cluster: int = 0, is_atomic: bool = False) -> int:
        """A write by an agent; one that updates each element by itself is in no order with others of that kind."""
        if is_atomic and self.atomic[granules].all():
            stamp = self.order.tick()
            self.who[granules], self.at[granules], self.cluster[granules] = agent + 1, stamp, cluster + self.first
            return stamp
        self._check_row(granules, row, is_write=True, is_async=True)
        stamp = self.order.tick()
        if not self.is_shared:
            own = np.full(granules.shape, cluster + self.first)
            if ((self.cluster[granules] != own) & (self.cluster[granules] > 0)).any():
                raise Fault("a race: two CTAs write one byte")
            self._refuse_clusters(granules, own)
            self.cluster[granules] = own
        self.who[granules] = agent + 1
        self.at[granules] = stamp
        self.together[granules] = False
        self.atomic[granules] = is_atomic
        return stamp

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

    def _refuse_flights(self, granules: Array) -> None:
        if self.flights and self.flying[granules].any():
            found = granules[self.flying[granules] > 0][0]
            raise Fault("a copy of cp.async in flight fills it", self.order.instructions[self.at[found]])

    # ---- judgements
    def _check_row(self, granules: Array, row: Array, is_write: bool, is_async: bool = False) -> None:
        self._refuse_flights(granules)
        order, who, at = self.order, self.who[granules], self.at[granules]
        if self.is_shared and not is_write and not who.all():
            raise Fault("shared memory is read that nothing has written")
        column = np.maximum(who - 1, 0)
        by_lane = column < order.n
        if is_async:
            column = np.where(by_lane, order.fence_column(column), column)
        known = (who == 0) | (row[column] > at)
        if is_async and not known.all() and (by_lane & (row[who - 1] > at) & ~known).any():
            found = granules[by_lane & ~known].ravel()[0]
            raise Fault("the async proxy does not see a write: no proxy fence of its thread is ordered in between",
                        order.instructions[self.at[found]])  # fmt: skip
        self._judge(known, granules, None, who, "written" if is_write else "read")
        shift = order.n + _AGENTS if is_async else 0
        self._judge_together(
            granules, lambda lane: np.broadcast_to(np.roll(row, -shift), (len(lane), len(row))), "accessed"
        )
        if is_write:
            self._judge_rows(granules.ravel(), np.broadcast_to(row[: self.columns], (granules.size, self.columns)))

    def _judge_rows(self, granules: Array, know: Array, own: Array | None = None) -> None:
        """Every read of each granule is known; those of ``own`` columns are."""
        reads = self.reads[self.row[granules]]
        bad = (reads >= know) & (reads > 0)
        if own is not None:
            bad[np.arange(len(bad)), own] = False
        if self.is_shared:
            together = self.warp_reads[granules]
            late = (together >= know[:, : self.order.n].reshape(len(know), -1, WARP).min(2)) & (together > 0)
            if late.any():
                self._fail_read(int(together[late].max()))
        if bad.any():
            self._fail_read(int(reads[bad].max()))

    def _judge(
        self, known: Array, granules: Array, idx: Array | None, who: Array, verb: str, is_atomic: bool = False
    ) -> None:
        if not self.is_shared and idx is not None:
            own = np.broadcast_to(idx // self.order.n + self.first, granules.shape)
            other = (self.cluster[granules] != own) & (self.cluster[granules] > 0)
            if is_atomic:
                other &= ~self.atomic[granules]
            known = known & ~other | (is_atomic & self.atomic[granules])
        if not known.all():
            found = granules[np.broadcast_to(~known, granules.shape)].ravel()[0]
            raise Fault(
                f"a race: it is {verb}, and nothing orders that after a write", self.order.instructions[self.at[found]]
            )

    def _judge_together(self, granules: Array, rows: Callable[[Array], Array], verb: str) -> None:
        """What a whole warp wrote: each of its lanes must be known to be past it."""
        if not self.together.any() or not self.together[granules].any():
            return
        where = np.argwhere(self.together[granules])
        flat = granules[tuple(where.T)]
        know = rows(where[:, 0])
        lanes = (self.who[flat] - 1)[:, None] + np.arange(WARP)
        least = np.take_along_axis(know, lanes, 1).min(1)
        if (least <= self.at[flat]).any():
            found = flat[least <= self.at[flat]][0]
            raise Fault(f"a race: it is {verb}, and not all lanes of the warp are known to be past stmatrix",
                        self.order.instructions[self.at[found]])  # fmt: skip

    def _judge_reads(self, granules: Array, base: Array, rows: Callable[[Array], Array], columns: Array) -> None:
        late: Array = (self.last_read[granules] >= base) & (self.last_read[granules] > 0)
        if self.agents_read and not late.any():
            late = np.asarray(self.reads[self.row[granules], self.order.n + 1 :].any(-1))
        if not late.any():
            return
        where = np.argwhere(late)
        self._judge_rows(granules[tuple(where.T)], rows(where[:, 0]), columns[where[:, 0], 0])

    def _fail_read(self, stamp: int) -> None:
        raise Fault("a race: it is written, and nothing orders that after a read", self.order.instructions[stamp])

    # ---- clusters, which nothing orders
    def _mark_cluster(self, granules: Array, idx: Array, is_write: bool, is_atomic: bool = False) -> None:
        if self.is_shared:
            return
        own = np.broadcast_to(idx[:, None] // self.order.n + self.first, granules.shape)
        if is_write:
            self._refuse_clusters(granules, own)
            self.cluster[granules] = own
            if not is_atomic and (self.cluster[granules] != own).any():
                raise Fault("a race: two CTAs write one byte in one instruction")
        else:
            reader = self.reader[granules]
            self.reader[granules] = np.where((reader == 0) | (reader == own), own, -1)

    def _refuse_clusters(self, granules: Array, own: Array) -> None:
        if ((self.reader[granules] != 0) & (self.reader[granules] != own)).any():
            raise Fault("a race: another CTA reads what this one writes")
