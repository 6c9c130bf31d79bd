"""Tensor cores as agents: who starts their products, what comes before these, and who is told when they are done."""

from __future__ import annotations

import numpy as np

from tilegen.access import distinct
from tilegen.interpret.clocks import Clocks
from tilegen.interpret.fault import MALFORMED
from tilegen.interpret.phases import Work
from tilegen.interpret.reporting import Reporter
from tilegen.interpret.tensor_clocks import TensorClocks
from tilegen.interpret.threads import Array, Group


class Cores:
    """The tensor core of each warp, which multiplies for one of its threads.

    ``thread``: which thread that is, by the agent. ``after``: what its last product comes after, as a row of a clock.
    """

    def __init__(self, clocks: Clocks):
        self.clocks, self.crew = clocks, clocks.crew
        self.thread: dict[int, int] = {}
        self.after: dict[int, Array] = {}

    @property
    def tensor(self) -> TensorClocks:
        assert self.clocks.tensor is not None
        return self.clocks.tensor

    def start(self, group: Group, site: Reporter) -> tuple[Array, Array]:
        """Threads, one of a warp, start a product each: (its agent, what warps know, for products by these threads)."""
        agent, known = self.crew.agent_of("cores", group.warp), self.tensor.known_to_threads(group)
        for row, (one, thread) in enumerate(zip(agent.tolist(), group.thread.tolist(), strict=True)):
            if self.thread.setdefault(one, thread) != thread:
                message = "starts a product, and another thread of its warp has started some: a commit speaks for one"
                site.fail(MALFORMED, f"{message} thread's alone", row)
            self.after[one] = known[group.warp[row]]
        self.clocks.ticks[agent] += 1
        return agent, known

    def commit(self, group: Group, slots: Array, site: Reporter) -> Work:
        """What each thread has started is told when it is done, with what that came after; nothing else.

        The arrival is the work of the agent of its slot (``slots``): who knows of the products need not know that it
        has come, as arrivals at several slots come in any order.
        """
        agent = self.crew.agent_of("cores", group.warp)
        self.clocks.ticks[distinct(slots)] += 1
        known = np.zeros((len(group), self.clocks.known.shape[1]), np.int32)
        for row, (one, thread) in enumerate(zip(agent.tolist(), group.thread.tolist(), strict=True)):
            if self.thread.get(one, thread) != thread:
                message = "commits, and another thread of its warp has started the products: a commit speaks for one"
                site.fail(MALFORMED, f"{message} thread's alone", row)
            if one in self.after:
                known[row] = self.after[one]
                own = self.crew.seat_of[group.warp[row]]
                known[row, own] = max(0, known[row, own] - 1)  # other lanes of its epoch are not ordered before it
                known[row, self.crew.seat_of[one]] = self.clocks.ticks[one]
        known[np.arange(len(group)), self.crew.seat_of[slots]] = self.clocks.ticks[slots]
        return Work(agent, known)
