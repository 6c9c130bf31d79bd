"""mbarriers as a spec says them: phases that complete with their arrivals, and whom a role waits for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilegen.errors import Diagnostic, ProofError
from tilegen.index import evaluate
from tilegen.reference.clusters import find_along, find_partners
from tilegen.reference.machine import Array, CtaBatch
from tilegen.scopes import CLUSTER_AXES
from tilegen.spec.data import ArriveStatement, Call, SyncStatement, WaitStatement
from tilegen.spec.outline import outline
from tilegen.spec.phases import count_arrivals
from tilegen.spec.terms import SlotName

Blocks = Callable[[], bool]  # asked again and again: must the role still wait?


@dataclass
class Signals:
    """Of each role and mbarrier, by CTA and slot, how many arrivals there were; how often roles came to common syncs.

    ``used``, ``waits``: by role and barrier the last phase count that it used (-1: none), and how often it has waited,
    of each CTA.
    """

    machine: CtaBatch
    arrived: dict[tuple[str, str], Array] = field(default_factory=dict)
    came: dict[tuple[str, tuple[str, ...]], int] = field(default_factory=dict)
    used: dict[tuple[str, str, str], Array] = field(default_factory=dict)
    waits: dict[tuple[str, str], Array] = field(default_factory=dict)

    def arrive(self, machine: CtaBatch, s: Call | ArriveStatement, env: Mapping[str, Any]) -> None:
        """Every instance in ``env`` arrives, at the CTAs that it tells; data that it brings is there."""
        slot = s.barrier
        assert slot is not None
        seen = outline(machine.spec)
        barrier, count = seen.barriers[slot.name], len(self.machine.ctas)
        arrived = self.arrived.setdefault((machine.role, slot.name), np.zeros((count, barrier.slots), np.int64))
        sent = count_arrivals(s, machine.spec.threads_of(machine.role))
        announced = seen.announced_bytes.get(seen.number_of(s)) if isinstance(s, Call) else None
        if announced == 0:  # a copy before it arrived for both
            return
        at, (told, row) = self._follow(machine, slot, "arrive", env, s), self._find_told(s, env["block"], barrier.pair)
        np.add.at(arrived, (told, at[row]), sent)

    def _find_told(self, s: Call | ArriveStatement, block: Array, pair: bool) -> tuple[Array, Array]:
        """The CTAs that instances in ``block`` tell, by their numbers in the batch, and the row in ``block`` of each.

        Where a cluster is not whole here, a CTA stands for its peers: it hears from each what it tells all of them.
        """
        rows = np.arange(len(block))
        if pair:
            even = find_partners(self.machine)[:, 0][block]
            own = rows if isinstance(s, ArriveStatement) else rows[even == block]
            return even[own], own
        if not isinstance(s, ArriveStatement) or not s.to:
            return block, rows
        peers = find_along(self.machine, CLUSTER_AXES.index(s.to))[block]
        return peers.ravel(), np.repeat(rows, peers.shape[1])

    def wait(self, machine: CtaBatch, s: WaitStatement, env: Mapping[str, Any], counted: Array) -> Blocks:
        """Blocked while the phase of any CTA in ``env`` has arrivals to come. ``counted``: all CTAs that get here."""
        slot = s.barrier
        assert slot is not None
        barrier, ctas = outline(machine.spec).barriers[slot.name], len(self.machine.ctas)
        key = machine.role, slot.name
        before = self.waits.setdefault(key, np.zeros(ctas, np.int64)).copy()
        self.waits[key][counted] += 1
        block, at = env["block"], self._follow(machine, slot, "wait", env, s)
        phase = before[block]
        if slot.count is not None:
            phase = np.broadcast_to(evaluate(slot.count, env), block.shape) // slot.slots
        phase = phase - any(b.open for b in machine.spec.barriers if b.name == slot.name)
        return lambda: bool((self._arrivals(slot.name, block, at) // barrier.arrivals <= phase).any())

    def _arrivals(self, name: str, block: Array, at: Array) -> Array:
        """Of all roles."""
        found = np.zeros(block.shape, np.int64)
        for (_, barrier), arrived in self.arrived.items():
            if barrier == name:
                found += arrived[block, at]
        return found

    # ---- trips that are left out
    def count(self, role: str) -> dict[object, Array]:
        """How often a role has arrived, used a phase and waited, to compare with a later time."""
        return {(n, *key): x.copy() for n, of in enumerate(self._counters()) for key, x in of.items() if key[0] == role}

    def skip(self, role: str, before: Mapping[object, Array], times: int) -> None:
        """The role does as often again what it did since it was ``before``."""
        for n, of in enumerate(self._counters()):
            for key, x in of.items():
                if key[0] == role:
                    none = -1 if of is self.used else 0
                    x += (x - before.get((n, *key), none)) * times

    def _counters(self) -> tuple[Mapping[Any, Array], ...]:
        return self.arrived, self.used, self.waits

    def meet(self, machine: CtaBatch, s: SyncStatement) -> Blocks:
        """Blocked until every role that meets here has come as often."""
        own = machine.role, s.roles
        self.came[own] = mine = self.came.get(own, 0) + 1
        roles = s.roles or tuple(r.name for r in machine.spec.roles)
        return lambda: any(self.came.get((role, s.roles), 0) < mine for role in roles)

    def _follow(self, machine: CtaBatch, slot: SlotName, kind: str, env: Mapping[str, Any], s: Any) -> Array:
        """The number of the slot; the phases that a role uses one after another count up by one, or it is an error."""
        block = env["block"]
        at: Array = np.broadcast_to(np.asarray(evaluate(slot.index, env), np.int64), block.shape)
        if slot.count is None:
            return at
        count = np.broadcast_to(np.asarray(evaluate(slot.count, env), np.int64), block.shape)
        last = self.used.setdefault((machine.role, slot.name, kind), np.full(len(self.machine.ctas), -1, np.int64))
        expected = last[block] + 1
        if isinstance(slot.count, int):  # a slot's first phase, which others may count on from
            last[block] = np.maximum(last[block], np.where(count == expected, count, -1))
            return at
        wrong = count != expected if kind == "wait" else (count != expected) & (count != expected - 1)
        if wrong.any():
            row = int(np.argmax(wrong))
            message = f"{slot.count} is {count[row]} here, but phase {expected[row]} of '{slot.name}' is next"
            place = f" in CTA {machine.ctas[int(block[row])]}"
            hint = f"what stands before % {slot.slots} counts up by one from use to use, from 0"
            raise ProofError(Diagnostic("TG433", message + place, slot.mark or s.mark, hint))
        last[block] = count
        return at
