"""The smallest kernels that the interpreter runs, and what they leave."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilegen.index import Index, Var
from tilegen.interpret import Outcome
from tilegen.plan import FILL, Map, Memory, Move, Plan, Role, Step, flat_memory


def values(flat: Any) -> Any:
    """An input: float32 integers that differ for all small indices."""
    return (flat * 2654435761 % 8388593).astype(np.float32)


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
