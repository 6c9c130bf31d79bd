"""Why a plan is as it is: what each candidate costs, what choosers answered, which variants did not carry out an op."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Cost:
    """What one candidate costs, counted over one CTA; compared in this order."""

    sectors: int = 0
    wavefronts: int = 0
    instructions: int = 0
    shared_bytes: int = 0
    address_ops: int = 0

    @property
    def key(self) -> tuple[int, ...]:
        return (self.sectors, self.wavefronts, self.instructions, self.shared_bytes, self.address_ops)


@dataclass(frozen=True)
class Candidate:
    """One answer that a chooser considered: its value (plain JSON data), what it costs, and the verdict in words."""

    value: Any
    cost: Cost | None
    verdict: str


@dataclass(frozen=True)
class Choice:
    """A question that a chooser answered. ``proof`` says why no candidate is better, or what was searched."""

    question: str
    picked: Any
    candidates: tuple[Candidate, ...] = ()
    proof: str = ""


@dataclass(frozen=True)
class Refusal:
    """A variant that did not carry out the operation, and why (its cost, if it lost on cost)."""

    variant: str
    reason: str
    cost: Cost | None = None


@dataclass(frozen=True)
class Operation:
    """One op of the spec as dispatched: the variant that won, why the others did not, and every choice made."""

    op: str
    variant: str
    scope: str
    text: str  # as the user wrote it, e.g. "copy In -> A"
    line: int
    cost: Cost
    refused: tuple[Refusal, ...] = ()
    choices: tuple[Choice, ...] = ()
    pins: tuple[tuple[str, Any], ...] = ()  # fields of the op, beside its variant, that write out what was chosen


def judge(cost: Cost, best: Cost, is_picked: bool) -> str:
    """The verdict on a candidate, in words."""
    return "picked" if is_picked else "costs more" if cost.key > best.key else "the same cost"


def per_cta(choice: Choice, one: int, total: int) -> Choice:
    """A choice whose candidates were costed for one tile, costed over a CTA: ``one`` instructions become ``total``."""
    runs = total // one
    candidates = tuple(
        replace(c, cost=Cost(*(n * runs for n in c.cost.key)) if c.cost else None) for c in choice.candidates
    )
    return replace(choice, candidates=candidates)
