"""Tensor memory: cells of 32 bits, 128 lanes by 512 columns for each CTA; who has columns; who wrote and read cells.

A second clock of each lane, T, is what its accesses here come after: ``fence::after_thread_sync`` raises it to what
the lane knows. Loads and stores of a lane are in T once they are waited for, and others may know of them behind
``fence::before_thread_sync`` (PTX ISA, tcgen05: Memory Consistency Model).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilegen.ptx.launch import Array
from tilegen.ptx.order import Order
from tilegen.ptx.state import WARP, Fault

LANES, COLUMNS = 128, 512
CELLS = LANES * COLUMNS
UNKNOWN_HALF = np.uint32(0xCDCD0000)  # beside 16 bits of a cell, of which nobody says what is there
Op = tuple[object, ...]  # what an agent does; of sums, where they lie, their shape and types
CP: Op = ("cp",)  # writes what it copies
OPERAND: Op = ("operand",)  # a product reads A or factors


@dataclass(frozen=True)
class Allocation:
    """Columns of a CTA, from ``first`` on. ``warp``: the first lane of the warp that took them, at stamp ``made``."""

    first: int
    columns: int
    warp: int
    made: int


@dataclass
class Queue:
    """What one thread has started on tensor memory. ``row``: what all of it comes after; ``last``: of the last op."""

    row: Array
    last: int = 0
    committed: int = 0
    ops: dict[int, Op] = field(default_factory=dict)  # by stamp


class TensorMemory:
    """The cells of all CTAs, and their clocks. A cell is numbered by CTA, lane and column."""

    def __init__(self, order: Order):
        state, self.order = order.state, order
        ctas = len(state.ctas) if order.has_tensor else 0
        cells = ctas * CELLS
        self.cells = np.full(cells, 0xCDCDCDCD, np.uint32)
        self.who = np.zeros(cells, np.int32)  # wrote it: 0 nobody, the first lane of a warp or an agent, plus 1
        self.at = np.zeros(cells, np.int32)
        self.warp_reads = np.zeros((cells, state.padded // WARP if ctas else 0), np.int32)
        self.readers: set[int] = set()  # warps of a CTA that have read
        self.agent_reads: dict[int, Array] = {}
        self.know = order.know.copy() if order.has_tensor else order.know[:0]  # T
        self.queues: dict[tuple[int, int], Queue] = {}  # by cluster and agent
        self.allocations: dict[tuple[int, int], Allocation] = {}  # by CTA and first column
        self.owner = np.zeros((ctas, COLUMNS), np.int32)  # first column of the allocation, plus 1
        self.smallest: dict[int, int] = {}  # allocation so far, by CTA
        self.relinquished: set[int] = set()
        self.came: dict[str, dict[int, int]] = {"alloc": {}, "dealloc": {}}  # CTAs that wait for the other of a pair
        self.granted: dict[str, dict[int, int]] = {"alloc": {}, "dealloc": {}}
        self.group = 0  # the one cta_group of the kernel
        self.loading: dict[int, set[str]] = {}  # registers that loads in flight fill, by warp

    # ---- clocks
    def finish(self, idx: Array, is_store: bool) -> None:
        """All loads, or all stores, of these lanes so far are done."""
        order = self.order
        self.know[idx, order.tensor_start(is_store) + order.column[idx]] = order.tick()

    def fence_before(self, idx: Array) -> None:
        order = self.order
        for is_store in (False, True):
            own = order.tensor_start(is_store) + order.column[idx]
            order.know[idx, own] = self.know[idx, own]
        order.changed(idx)

    def fence_after(self, idx: Array) -> None:
        self.know[idx] = np.maximum(self.know[idx], self.order.know[idx])

    def start_row(self, lane: int) -> Array:
        """What an op comes after that this lane starts: T, and what the lane itself did to other memory."""
        order, row = self.order, np.array(self.know[lane])
        own = order.column[lane]
        row[own] = np.iinfo(np.int32).max
        for is_shared in (True, False):
            row[order.fence_start(is_shared) + own] = order.know[lane, order.fence_start(is_shared) + own]
        return row

    def warp_row(self, idx: Array, know: Array) -> Array:
        """What each lane of a warp knows, by a clock; of its own loads and stores, what it has waited for."""
        order, row = self.order, np.array(know[idx].min(0))
        for is_store in (False, True):
            own = order.tensor_start(is_store) + order.column[idx]
            row[own] = self.know[idx, own]
        return row

    # ---- columns
    def check_columns(self, idx: Array, cta: int, first: int, last: int) -> None:
        """Raises Fault where a column from ``first`` to ``last`` is nobody's, or these lanes do not know that it is."""
        order = self.order
        if first < 0 or last >= COLUMNS:
            raise Fault(f"columns {first} to {last} of tensor memory, which has {COLUMNS}")
        owners = self.owner[cta, first : last + 1]
        if not owners.all():
            raise Fault(f"column {first + int(np.flatnonzero(owners == 0)[0])} of tensor memory is not allocated")
        for owner in np.unique(owners).tolist():
            one = self.allocations[cta, owner - 1]
            others = idx[idx // WARP != one.warp // WARP]
            if (order.know[others, order.column[one.warp]] <= one.made).any():
                raise Fault(
                    "a race: nothing orders the use of columns after tcgen05.alloc", order.instructions[one.made]
                )

    def allocate(self, cta: int, one: Allocation) -> None:
        self.allocations[cta, one.first] = one
        self.owner[cta, one.first : one.first + one.columns] = one.first + 1

    def release(self, cta: int, first: int) -> None:
        """Columns are free, and hold nothing."""
        one = self.allocations.pop((cta, first))
        self.owner[cta, first : first + one.columns] = 0
        here = list_cells(cta, np.arange(LANES)[:, None], np.arange(first, first + one.columns))
        self.who[here] = 0
        self.warp_reads[here] = 0
        for reads in self.agent_reads.values():
            reads[here] = 0

    # ---- accesses of whole warps, in any shape
    def read(self, idx: Array, cells: Array) -> Array:
        """Values. ``idx``: the lanes of a warp; each must know of the writes."""
        self._refuse_unwritten(cells)
        self.judge(cells, self.warp_row(idx, self.know), "read")
        warp = int(idx[0]) % self.order.state.padded // WARP
        self.readers.add(warp)
        self.warp_reads[cells, warp] = self.order.tick()
        found: Array = self.cells[cells]
        return found

    def write(self, idx: Array, cells: Array, values: Array) -> None:
        self.judge(cells, self.warp_row(idx, self.know), "write")
        self.who[cells] = int(self.order.column[idx[0] // WARP * WARP]) + 1
        self.at[cells] = self.order.tick()
        self.cells[cells] = values

    # ---- accesses of what a thread starts
    def queue(self, lane: int) -> tuple[int, Queue]:
        """The agent of a thread, and what the thread has started."""
        order = self.order
        agent = order.agent(("tensor core", lane % order.n))
        return agent, self.queues.setdefault((lane // order.n, agent), Queue(np.zeros(order.width, np.int32)))

    def start_read(self, lane: int, op: Op, cells: Array) -> None:
        """An op begins to read cells, which are in flight until a commit's arrival is known."""
        agent, queue = self.queue(lane)
        self._refuse_unwritten(cells)
        self.judge(cells, self.start_row(lane), "read", (agent, queue, op))
        stamp = self._mark(lane, queue, op)
        self.agent_reads.setdefault(agent, np.zeros(len(self.cells), np.int32))[cells] = stamp

    def start_write(self, lane: int, op: Op, cells: Array) -> None:
        agent, queue = self.queue(lane)
        self.judge(cells, self.start_row(lane), "write", (agent, queue, op))
        self.who[cells] = agent + 1
        self.at[cells] = self._mark(lane, queue, op)

    def _mark(self, lane: int, queue: Queue, op: Op) -> int:
        stamp = self.order.tick()
        np.maximum(queue.row, self.know[lane], out=queue.row)
        queue.last, queue.ops[stamp] = stamp, op
        return stamp

    # ---- judgements
    def _refuse_unwritten(self, cells: Array) -> None:
        if not self.who[cells].all():
            found = np.asarray(cells)[self.who[cells] == 0].ravel()[0] % CELLS
            raise Fault(
                f"tensor memory is read that nothing has written: lane {found // COLUMNS}, column {found % COLUMNS}"
            )

    def judge(self, cells: Array, row: Array, kind: str, by: tuple[int, Queue, Op] | None = None) -> None:
        """Raises Fault for cells whose last write, or a read before a write, is not known to be done.

        ``by``: the agent; its own ops are in order where the table of PTX says so.
        """
        self._judge_stamps(self.who[cells], self.at[cells], row, (kind, "write"), by)
        if kind == "read":
            return
        for warp in sorted(self.readers):
            at = self.warp_reads[cells, warp]
            if at.any():
                for cta in np.unique(cells[at > 0] // CELLS).tolist():
                    first = cta % self.order.state.peers * self.order.state.padded + warp * WARP
                    here = (cells // CELLS == cta) & (at > 0)
                    self._judge_warp(at[here], first, row, False, kind)
        for agent, reads in self.agent_reads.items():
            at = reads[cells]
            self._judge_stamps(np.where(at > 0, agent + 1, 0), at, row, (kind, "read"), by)

    def _judge_stamps(
        self, who: Array, at: Array, row: Array, kinds: tuple[str, str], by: tuple[int, Queue, Op] | None
    ) -> None:
        order = self.order
        for one in list_distinct(who):
            if one == 0:
                continue
            stamps = at[who == one]
            if one <= order.n:
                self._judge_warp(stamps, one - 1, row, True, kinds[0])
                continue
            late = list_distinct(stamps[row[one - 1] <= stamps])
            if by is not None and one - 1 == by[0]:
                late = [stamp for stamp in late if not is_in_order(by[1].ops.get(stamp, ()), by[2])]
            if late:
                self._refuse(late[-1], *kinds)

    def _judge_warp(self, stamps: Array, first: int, row: Array, is_store: bool, kind: str) -> None:
        least = int(row[self.order.tensor_start(is_store) + first :][:WARP].min())
        if stamps.size and int(stamps.max()) >= least:
            self._refuse(int(stamps.max()), kind, "write" if is_store else "read")

    def _refuse(self, stamp: int, kind: str, before: str) -> None:
        done = {"read": "read", "write": "written", "dealloc": "freed"}[kind]
        words = f"a race: tensor memory is {done}, and nothing orders that after a {before}"
        raise Fault(words, self.order.instructions[stamp])

    def list_unfinished(self) -> str:
        """What is still taken or under way when all lanes have ended, or nothing."""
        for (cluster, agent), queue in self.queues.items():
            own = self.order.know[cluster * self.order.n : (cluster + 1) * self.order.n, agent]
            if queue.last and own.max() <= queue.last:
                return "the kernel ends, and what tcgen05 does has not been waited for"
        if self.allocations:
            one = next(iter(self.allocations.values()))
            return f"the kernel ends, and {one.columns} columns of tensor memory have not been freed"
        return ""


def list_distinct(values: Array) -> list[int]:
    """The values that there are, ascending; most often it is one.

    >>> list_distinct(np.array([7, 7])), list_distinct(np.array([3, 0, 3]))
    ([7], [0, 3])
    """
    if values.size and (values == values.flat[0]).all():
        return [int(values.flat[0])]
    found: list[int] = np.unique(values).tolist()
    return found


def is_in_order(before: Op, op: Op) -> bool:
    """Whether two ops that one thread starts are in order without a wait (PTX ISA, tcgen05: Pipelined instructions).

    A product reads what a copy has written; products of one shape add to the same sums.

    >>> is_in_order(CP, OPERAND), is_in_order(OPERAND, CP), is_in_order(("mma", 0, "f16"), ("mma", 0, "f16"))
    (True, False, True)
    """
    return before == CP if op == OPERAND else op != CP and before in (CP, op)


def list_cells(cta: int, lanes: Array, columns: Array) -> Array:
    """The numbers of cells.

    >>> list_cells(1, np.array([0, 1]), np.array([3, 3])).tolist()
    [65539, 66051]
    """
    found: Array = cta * CELLS + np.asarray(lanes) * COLUMNS + columns
    return found
