"""Planting faults: a plan with some of its steps replaced, and what the interpreter says of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tilegen.index import Index, Var
from tilegen.interpret import Fault, FaultFound, Outcome, interpret
from tilegen.plan import FILL, Map, Memory, Move, Plan, Ref, Role, Step, Sync, flat_memory

Match = Callable[[Step], bool]
Change = Callable[[Any], tuple[Step, ...]]
ONE_CTA = ((0, 0, 0),)


def values(flat: Any) -> Any:
    """An input: float32 integers that differ for all small indices."""
    return (flat * 2654435761 % 8388593).astype(np.float32)


def mutate(plan: Plan, match: Match, change: Change, nth: int | None = None) -> Plan:
    """The plan with every step that matches (or only the nth) replaced by ``change(step)``."""
    seen = 0

    def edit(steps: Iterable[Step]) -> tuple[Step, ...]:
        nonlocal seen
        out: list[Step] = []
        for step in steps:
            if hasattr(step, "body"):
                step = dataclasses.replace(step, body=edit(step.body))
            if match(step):
                out += change(step) if nth is None or seen == nth else (step,)
                seen += 1
            else:
                out.append(step)
        return tuple(out)

    roles = tuple(dataclasses.replace(role, steps=edit(role.steps)) for role in plan.roles)
    assert seen > (nth or 0), "the fault was not planted"
    return dataclasses.replace(plan, roles=roles)


def drop(step: Step) -> tuple[Step, ...]:
    return ()


def is_sync(scope: str) -> Match:
    return lambda step: isinstance(step, Sync) and step.scope == scope


def moves(src: str = "", dst: str = "") -> Match:
    """Moves from and to memories of these names."""

    def match(step: Step) -> bool:
        return isinstance(step, Move) and src in ("", step.src.memory.name) and dst in ("", step.dst.memory.name)

    return match


def aim(*, src: Sequence[Index] = (), dst: Sequence[Index] = ()) -> Change:
    """A change of Moves: other coordinates on one side."""

    def change(step: Move) -> tuple[Step, ...]:
        new_src = Ref(step.src.memory, tuple(src)) if src else step.src
        return (dataclasses.replace(step, src=new_src, dst=Ref(step.dst.memory, tuple(dst)) if dst else step.dst),)

    return change


def fault_of(
    plan: Plan, inputs: Mapping[str, Any] | None = None, ctas: Sequence[Sequence[int]] = ONE_CTA, **params: int
) -> Fault | None:
    """The fault that stops the plan, or None."""
    try:
        interpret(plan, ctas, inputs or {}, params)
    except FaultFound as found:
        assert found.fault.message and found.diagnostics[0].code == found.fault.code
        return found.fault
    return None


def values_at(outcome: Outcome, name: str) -> dict[int, float]:
    flat, got = outcome.written[name]
    return dict(zip(flat.tolist(), got.tolist(), strict=True))


# ---------------------------------------------------------------- the smallest kernels
S = flat_memory("S", "float32", 1024, "shared", align_bytes=1024)
r = flat_memory("r", "float32", 16, "register")
q = flat_memory("q", "float32", 16, "register")


def tx(threads: int) -> Var:
    return Var("tx", threads)


def kernel(*steps: Step, threads: int = 32, memories: tuple[Memory, ...] = (), **more: Any) -> Plan:
    """Steps of one role over S, r, q and more memories."""
    more.setdefault("grid", (8, 1, 1))
    return Plan("k", "sm_90", memories=(S, r, q, *memories), roles=(Role("all", threads, steps),), **more)


def put(at: Index, to: Memory = S) -> tuple[Step, ...]:
    """Write a value that is known."""
    return Map(FILL, r[0], value=1.0), Move(to[at], r[0])


def get(at: Index, of: Memory = S) -> tuple[Step, ...]:
    return (Move(q[0], of[at]),)
