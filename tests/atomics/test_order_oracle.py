"""The interpreter's verdict on random programs with atomic updates, against happens-before written down directly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.verdicts import fault_of
from tests.interpret.kernels import kernel
from tests.interpret.test_interpret_oracle import ADDRESS, TEAM, THREADS, WAYS, t
from tests.session import examples
from tilegen.plan import FILL, RED, Map, Move, Plan, Step, Sync, flat_memory

N = flat_memory("N", "int32", THREADS, "shared")
r, q = (flat_memory(name, "int32", 1, "register") for name in "rq")
UPDATES = ("add", "max")
access = st.tuples(st.sampled_from(["read", "write", *UPDATES, "add"]), st.sampled_from(sorted(WAYS)))
sync = st.tuples(st.just("sync"), st.sampled_from(sorted(TEAM)))
programs = st.lists(st.one_of(access, access, sync), min_size=2, max_size=9)
Program = list[tuple[str, str]]


def races(program: Program) -> bool:
    """Two accesses to one element by different threads, not both reads nor updates by one function, and no chain of
    syncs from one to the other."""
    for i, (kind, way) in enumerate(program):
        if kind == "sync":
            continue
        at = ADDRESS[way]
        if kind == "write" and len(set(at.tolist())) < THREADS:
            return True
        reached = np.eye(THREADS, dtype=bool)
        for other_kind, other in program[i + 1 :]:
            if other_kind == "sync":
                same = TEAM[other][:, None] == TEAM[other]
                reached = (reached.astype(np.float32) @ same.astype(np.float32)) > 0
            elif kind != other_kind or kind == "write":
                clash = (at[:, None] == ADDRESS[other]) & ~np.eye(THREADS, dtype=bool)
                if (clash & ~reached).any():
                    return True
    return False


def carry_out(kind: str, what: str) -> Step:
    if kind == "sync":
        return Sync(what)
    if kind == "read":
        return Move(q[0], N[WAYS[what]])
    return Move(N[WAYS[what]], r[0], via=RED[kind]) if kind in UPDATES else Move(N[WAYS[what]], r[0])


def plan_of(program: Program) -> Plan:
    start = (Map(FILL, r[0], value=1), Move(N[t], r[0]), Sync("cta"))
    plan = kernel(*start, *(carry_out(*one) for one in program), threads=THREADS)
    return replace(plan, memories=(N, r, q))


@settings(max_examples=examples(120), deadline=None)
@given(programs)
def test_the_verdict_is_that_of_happens_before(program: Program) -> None:
    fault = fault_of(plan_of(program))
    assert fault is None or fault.code in ("TG403", "TG408"), fault
    assert (fault is not None) == races([("write", "t"), ("sync", "cta"), *program]), fault


@settings(max_examples=examples(30), deadline=None)
@given(programs)
def test_the_sync_that_is_named_orders_the_two(program: Program) -> None:
    """Inserting what each message asks for, before the access that it stops at, leads to a program that is accepted."""
    steps = [one for one in program if one != ("write", "warp's first")]
    for _ in range(len(steps) + 1):
        met = next((i for i in range(len(steps) + 1) if fault_of(plan_of(steps[:i]))), None)
        if met is None:
            return
        fault = fault_of(plan_of(steps[:met]))
        assert fault is not None and fault.needs_sync
        steps.insert(met - 1, ("sync", fault.needs_sync))
    raise AssertionError("never accepted")
