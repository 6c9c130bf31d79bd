"""mbarriers: phases that complete with their arrivals and bytes, and what the threads that wait for one then know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilegen.interpret.clocks import Clocks
from tilegen.interpret.fault import ENDED, MISCOUNTED, NEVER_AWAITED, PARTIAL_SYNC, PHASE_UNKNOWN
from tilegen.interpret.reporting import Reporter
from tilegen.interpret.threads import Agents, Array, Crew, Group
from tilegen.plan import (
    PRODUCTS,
    TENSOR,
    TENSOR_LOADS,
    TENSOR_STORES,
    TMA_STORE,
    Arrive,
    Barrier,
    Plan,
    Role,
    all_steps,
    effects,
    flatten,
)
from tilegen.scopes import SCOPES

WARPGROUP = SCOPES["warpgroup"].threads
MOST_BYTES = (1 << 20) - 1  # PTX ISA, mbarrier: the range of tx-count


def count_agents(plan: Plan) -> Agents:
    """The agents of each CTA that a plan has work for."""
    rows = (effects(step).instruction for step in all_steps(plan))
    queues = {row.queue for row in rows if row is not None}
    of_warps = {"stores": TMA_STORE.queue, "cores": TENSOR, "reads": TENSOR_LOADS, "writes": TENSOR_STORES}
    counts = {kind: -(-plan.threads // 32) for kind, queue in of_warps.items() if queue in queues}
    products = -(-plan.threads // WARPGROUP) if PRODUCTS in queues else 0
    return Agents(sum(b.slots for b in plan.barriers), products=products, **counts)


def _list_commits(role: Role) -> list[str]:
    """The barriers at which a role's products arrive, in the order of the text."""
    return [s.slot.barrier.name for s in flatten(role.steps) if isinstance(s, Arrive) and s.landed == TENSOR]


@dataclass(frozen=True)
class Work:
    """What agents, one for each of some threads, arrive for: ``known`` says what comes before, a row for each."""

    agent: Array
    known: Array


@dataclass(frozen=True)
class SlotsOfCtas:
    """A slot of an mbarrier for each of some threads, in a CTA each."""

    barrier: Barrier
    slot: Array
    cta: Array


class Phases:
    """Every mbarrier of every simulated CTA: its phase, what is missing for it, what completes it brings."""

    def __init__(self, plan: Plan, crew: Crew, clocks: Clocks):
        self.crew, self.clocks = crew, clocks
        self.first: dict[str, int] = {}  # the agent of slot 0: TMA loads that report to a slot
        self.starts: dict[int, tuple[Reporter, int, int]] = {}  # agent: the step that last started one, thread, tick
        self.commits_in_text = [_list_commits(role) for role in plan.roles]
        self.commits: dict[int, list[tuple[int, str]]] = {}  # of agents of tcgen05: ticks, and where they are told
        # By CTA, and column of a clock: what was done there last from another CTA, when, and by which of its threads
        self.reaching: dict[tuple[int, int], tuple[Reporter, int, int, str]] = {}
        agents = 0
        self.left: dict[str, Array] = {}
        self.missing: dict[str, Array] = {}
        self.phase: dict[str, Array] = {}
        self.gained: dict[str, Array] = {}
        self.known: dict[str, Array] = {}
        self.before: dict[str, Array] = {}  # what was known when the last phase but one completed
        self.passed: dict[str, Array] = {}  # by seat, which of its waits a warp passed since the last phase completed
        for b in plan.barriers:
            shape = len(crew.ctas), b.slots
            self.first[b.name], agents = agents, agents + b.slots
            self.left[b.name] = np.full(shape, b.arrivals)
            self.missing[b.name], self.phase[b.name] = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
            self.gained[b.name] = np.zeros((*shape, crew.seats + crew.facts), np.int32)
            self.known[b.name] = np.zeros((*shape, crew.seats + crew.facts), np.int32)
            self.before[b.name] = np.zeros((*shape, crew.seats + crew.facts), np.int32)
            self.passed[b.name] = np.zeros((*shape, crew.seats_of_warps), np.int32)

    def agent_of(self, slots: SlotsOfCtas) -> Array:
        """The agent that does what is reported to each slot."""
        result: Array = self.crew.agent(slots.cta, self.first[slots.barrier.name] + slots.slot)
        return result

    def current(self, slots: SlotsOfCtas) -> Array:
        """The phase that each slot is in: arrivals and bytes count for it."""
        result: Array = self.phase[slots.barrier.name][slots.cta, slots.slot]
        return result

    def multiplier_of(self, group: Group) -> Array:
        """The agent that multiplies what each thread's warpgroup starts."""
        first = self.crew.kinds.first("products")
        result: Array = self.crew.agent(group.cta, first + group.warp % self.crew.warps // (WARPGROUP // 32))
        return result

    def arrive(
        self, slots: SlotsOfCtas, announced: int, group: Group, site: Reporter, work: Work | None = None
    ) -> None:  # fmt: skip
        """Each thread announces bytes and arrives, in a CTA each; what it knew is known to who waits for the phase.

        Other CTAs hear of no thread's accesses where the barrier orders a CTA alone. A thread must know that the
        phase before is complete: else it may be that one that it arrives for. ``work``: not the threads arrive but an
        agent for each, whose work alone is known then.
        """
        barrier, slot, cta = slots.barrier, slots.slot, slots.cta
        name, at = barrier.name, (cta, slot)
        early = ~self._knows(barrier, at, group, self.known[name][at], self.phase[name][at])
        if early.any():
            row = int(np.argmax(early))
            message = f"arrives for phase {int(self.phase[name][at][row])} of {self._call(barrier, int(slot[row]))}"
            site.fail(PHASE_UNKNOWN, f"{message}, and has not waited for what completes the one before", row)
        np.subtract.at(self.left[name], at, 1)
        np.add.at(self.missing[name], at, announced)
        if (self.left[name][at] < 0).any():
            row = int(np.argmax(self.left[name][at] < 0))
            message = f"more than {barrier.arrivals} threads arrive at {name} for one phase"
            site.fail(MISCOUNTED, message, row)
        if (self.missing[name][at] > MOST_BYTES).any():
            site.fail(MISCOUNTED, f"{name} waits for more than {MOST_BYTES} bytes at once", 0)
        known, far = self.clocks.past(group.warp), np.flatnonzero(cta != group.cta)
        if work is not None:
            known[:, : self.crew.seats] = work.known[:, : self.crew.seats]  # facts hold whoever tells them
            known[far] = self.clocks.without_accesses(known[far])
            if barrier.order == "cta":  # a wait there acquires nothing of another CTA: neither of threads nor of these
                known[far, : self.crew.seats] = 0
            np.maximum.at(self.gained[name], at, known)
            has_begun = self.clocks.ticks[work.agent] > 0
            self.reach(cta, np.where(has_begun, work.agent, self.agent_of(slots)), "arrives", site)
            self._bring(barrier, work.agent, site)
            return
        if barrier.order == "cta":
            known[far] = self.clocks.without_accesses(known[far])
        np.maximum.at(self.gained[name], at, known)
        now = self.clocks.now(group)
        for row in far.tolist():
            column = self.crew.epochs[-1] + int(group.seat[row])
            self.reaching[int(cta[row]), column] = site, row, int(now[row]), "arrives"
        self._complete(barrier, site)

    def reach(self, cta: Array, agent: Array, verb: str, site: Reporter) -> None:
        """An agent for each thread does something in a CTA, maybe not its own, which must not end before it is done."""
        for row in np.flatnonzero(self.crew.cta_of[agent] != cta).tolist():
            column, tick = int(self.crew.seat_of[agent[row]]), int(self.clocks.ticks[agent[row]])
            self.reaching[int(cta[row]), column] = site, row, tick, verb

    def deliver(self, slots: SlotsOfCtas, agent: Array, amount: int, group: Group, site: Reporter) -> None:
        """TMA reports the bytes that it has brought to a CTA for each thread that started it.

        Only when the phase before is known to be complete there: else they may count for that.
        """
        barrier, slot, cta = slots.barrier, slots.slot, slots.cta
        name, at = barrier.name, (cta, slot)
        early = ~self._knows(barrier, at, group, self.known[name][at], self.phase[name][at])
        if early.any():
            row = int(np.argmax(early))
            message = f"brings bytes of phase {int(self.phase[name][at][row])} of {self._call(barrier, int(slot[row]))}"
            message += " in another CTA" if cta[row] != group.cta[row] else ""
            message += ", and has not waited for what completes the one before"
            site.fail(PHASE_UNKNOWN, message, row)
        np.subtract.at(self.missing[name], at, amount)
        seats = self.crew.seat_of[agent]
        self.gained[name][(*at, seats)] = self.clocks.ticks[agent]
        self._bring(barrier, agent, site)

    def vouch(self, slots: SlotsOfCtas, group: Group) -> None:
        """The facts that threads know hold when what they load is there: told by its bytes, whoever announces them."""
        facts = self.clocks.past(group.warp)[:, self.crew.seats :]
        np.maximum.at(self.gained[slots.barrier.name][..., self.crew.seats :], (slots.cta, slots.slot), facts)

    def refuse_surplus(self, slots: SlotsOfCtas, site: Reporter) -> None:
        """Raise where more bytes have come than a phase can wait for: they may come before their announcement, not
        after all have arrived.
        """
        barrier, at = slots.barrier, (slots.cta, slots.slot)
        left, missing = self.left[barrier.name][at], self.missing[barrier.name][at]
        surplus = (missing < -MOST_BYTES) | ((left == 0) & (missing < 0))
        if surplus.any():
            row = int(np.argmax(surplus))
            what = f"{-int(missing[row])} bytes more than phase {int(self.phase[barrier.name][at][row])}"
            site.fail(MISCOUNTED, f"brings {what} of {self._call(barrier, int(at[1][row]))} waits for", row)

    def note_commits(self, barrier: Barrier, agents: Array) -> None:
        """What these agents have done up to now is told at a barrier."""
        for agent in agents.tolist():
            self.commits.setdefault(agent, []).append((int(self.clocks.ticks[agent]), barrier.name))

    def _bring(self, barrier: Barrier, agents: Array, site: Reporter) -> None:
        """What an agent for each thread was started for is there; somebody has to wait for it."""
        for row, agent in enumerate(agents.tolist()):
            self.starts[agent] = site, row, int(self.clocks.ticks[agent])
        self._complete(barrier, site)

    def _complete(self, barrier: Barrier, site: Reporter) -> None:
        name = barrier.name
        over = (self.left[name] == 0) & (self.missing[name] == 0)
        if not over.any():
            return
        self._refuse_late_waits(barrier, over, site)
        self.passed[name][over] = 0
        self.phase[name][over] += 1
        self.left[name][over] = barrier.arrivals
        self.before[name][over] = self.known[name][over]
        self.known[name][over] = np.maximum(self.known[name], self.gained[name])[over]
        cta, slot = np.nonzero(over)
        self.known[name][cta, slot, self.crew.phase_column(cta, self.first[name] + slot)] = self.phase[name][over]

    def _refuse_late_waits(self, barrier: Barrier, over: Array, site: Reporter) -> None:
        """Raise where a phase is complete, and a wait for the one before may still be to come: the parity is another.

        Those who arrive know of the waits that were passed; a wait of which none of them knows may as well be late.
        """
        passed, first = self.passed[barrier.name][over], self.crew.first_wait
        late = passed > self.gained[barrier.name][over][:, first : first + passed.shape[1]]
        if late.any():
            at, seat = (int(x[0]) for x in np.nonzero(late))
            cta, slot = (int(x[at]) for x in np.nonzero(over))
            warp = int(self.crew.warp_in_seat[self.crew.cluster_of_cta[cta], seat]) % self.crew.warps
            phase = int(self.phase[barrier.name][cta, slot])
            message = f"completes phase {phase} of {self._call(barrier, slot)}, and nobody who arrives for it knows"
            site.fail(PHASE_UNKNOWN, f"{message} that warp {warp} has passed its wait for phase {phase - 1}", 0)

    def _knows(self, barrier: Barrier, at: tuple[Array, Array], group: Group, told: Array, phases: Array) -> Array:
        """Which threads know that so many phases are complete: as a fact, or as they know all that completed the last
        of them (``told``, a row for each thread).
        """
        (cta, slot), known = at, self.clocks.known[group.warp]
        fact = known[np.arange(len(group)), self.crew.phase_column(cta, self.first[barrier.name] + slot)] >= phases
        come = self.crew.progress
        result: Array = fact | (told[:, come] <= known[:, come]).all(axis=1)
        return result

    def wait(
        self, barrier: Barrier, slot: Array, parity: Array, group: Group, site: Reporter
    ) -> Callable[[], str | None]:
        """Blocked while the phase of this parity is the current one."""
        name = barrier.name
        if group.partial_warp is not None:
            message = f"a wait for {name} under divergence: some lanes do not reach it"
            site.fail(PARTIAL_SYNC, message, group.partial_warp)
        rows = np.arange(len(group))
        if group.is_by_warp(slot) and group.is_by_warp(parity):  # what one thread of a warp finds, all of it do
            rows, group = group.heads, group.speakers
            slot, parity = slot[rows], parity[rows]
        at = group.cta, slot

        def blocked() -> str | None:
            stuck = self.phase[name][at] % 2 == parity
            if stuck.any():
                row = int(np.argmax(stuck))
                return self._describe(barrier, int(group.cta[row]), int(slot[row]), int(parity[row]))
            early = ~self._knows(barrier, at, group, self.before[name][at], self.phase[name][at] - 1)
            if early.any():
                row = int(np.argmax(early))
                message = f"waits for phase {int(self.phase[name][group.cta[row], slot[row]]) - 1} of "
                message += f"{self._call(barrier, int(slot[row]))}, and may be here before the one before is complete"
                site.fail(PHASE_UNKNOWN, message, int(rows[row]))
            known = np.maximum(self.clocks.known[group.warp], self.known[name][at])
            np.maximum.at(self.clocks.known, group.warp, known)
            self._pass(barrier, slot, group)
            return None

        return blocked

    def _pass(self, barrier: Barrier, slot: Array, group: Group) -> None:
        """Each warp has passed one more wait (its lanes together)."""
        self.clocks.known[group.whole, self.crew.first_wait + self.crew.seat_of[group.whole]] += 1
        count = self.clocks.known[group.warp, self.crew.first_wait + group.seat]
        self.passed[barrier.name][group.cta, slot, group.seat] = count

    def _describe(self, barrier: Barrier, cta: int, slot: int, parity: int) -> str:
        name = self._call(barrier, slot)
        arrivals, amount = int(self.left[barrier.name][cta, slot]), int(self.missing[barrier.name][cta, slot])
        phase = int(self.phase[barrier.name][cta, slot])
        if phase % 2 == parity and arrivals == barrier.arrivals and not amount:
            return f"phase {phase} of {name}, at which nothing has arrived"
        return f"phase {phase} of {name}: {arrivals} arrivals and {amount} bytes are missing"

    def _call(self, barrier: Barrier, slot: int) -> str:
        return barrier.name if barrier.slots == 1 else f"{barrier.name}[{slot}]"

    def pending(self) -> object:
        """Of each mbarrier what its phase lacks and which parity it has, to compare with another time."""
        return tuple(
            (name, left.tobytes(), self.missing[name].tobytes(), (self.phase[name] % 2).tobytes())
            for name, left in self.left.items()
        )

    def awaiting(self, agent: int, tick: int, is_sum: bool = False) -> tuple[str, ...]:
        """The statements that wait for what an agent does up to a tick; only who starts a store can wait.

        ``is_sum``: for the sums of products, not for the operands that they read.
        """
        number = (agent - self.crew.all_warps) % self.crew.agents
        kind = self.crew.kinds.kind_of(number)
        if kind == "products":
            return ("wait: {mma: 0}",)
        if kind == "cores":
            names = [name for at, name in self.commits.get(agent, ()) if at >= tick]
            in_text = self.commits_in_text[int(self.crew.role_of[number - self.crew.kinds.first("cores")])]
            name = in_text[-1] if is_sum and in_text else names[0] if names else ""
            wait = f"wait: {{barrier: {name or 'NAME'}}}"
            return (wait,) if name else ("commit: {barrier: NAME}", wait)
        for name, left in self.left.items():
            if self.first[name] <= number < self.first[name] + left.shape[1]:
                return (f"wait: {{barrier: {name}}}",)
        return "wait: 0", "sync: cta"

    def refuse_leftovers(self) -> None:
        """Raise for loads that no thread of their CTA has waited for when the kernel ends, and for what is done in a
        CTA that may have ended before.
        """
        for (cta, column), (site, row, when, verb) in self.reaching.items():
            warps = np.arange(cta * self.crew.warps, (cta + 1) * self.crew.warps)
            if not (self.clocks.known[warps, column] >= when).any():
                where = f"CTA {self.crew.ctas[cta]}"
                message = f"{verb} in {where}, which may have ended: none of its threads has waited for that"
                site.fail(ENDED, message, row, insert=("sync: cluster",))
        for agent, (site, row, tick) in self.starts.items():
            cta = (agent - self.crew.all_warps) // self.crew.agents
            warps = np.arange(cta * self.crew.warps, (cta + 1) * self.crew.warps)
            if not (self.clocks.known[warps, self.crew.seat_of[agent]] >= tick).any():
                what = "commit" if self.crew.kind_of(agent) == "cores" else "copy"
                message = f"no thread has waited for this {what} when the kernel ends"
                site.fail(NEVER_AWAITED, message, row, insert=self.awaiting(agent, tick))
