"""The interpreter's verdict on random programs against happens-before written down directly, thread by thread."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.verdicts import fault_of
from tests.interpret.kernels import S, kernel, put, q, r
from tests.session import examples
from tilegen.index import Var
from tilegen.plan import FILL, Map, Move, Step, Sync

THREADS = 256
t = Var("tx", THREADS)
WAYS = {
    "t": t, "t ^ 1": t ^ 1, "t ^ 31": t ^ 31, "t + 32": (t + 32) % THREADS, "t ^ 64": t ^ 64, "t ^ 128": t ^ 128,
    "warp's first": t // 32 * 32, "own 64": t % 64 + t // 64 * 64,
}  # fmt: skip
LANES = np.arange(THREADS)
ADDRESS = {
    "t": LANES, "t ^ 1": LANES ^ 1, "t ^ 31": LANES ^ 31, "t + 32": (LANES + 32) % THREADS, "t ^ 64": LANES ^ 64,
    "t ^ 128": LANES ^ 128, "warp's first": LANES // 32 * 32, "own 64": LANES,
}  # fmt: skip
TEAM = {"warp": LANES // 32, "warpgroup": LANES // 128, "cta": LANES // THREADS}

access = st.tuples(st.sampled_from(["read", "write"]), st.sampled_from(sorted(WAYS)))
sync = st.tuples(st.just("sync"), st.sampled_from(sorted(TEAM)))
programs = st.lists(st.one_of(access, sync), min_size=2, max_size=9)


def races(program: list[tuple[str, str]]) -> bool:
    """Two accesses to one element by different threads, one a write, with no chain of syncs from one to the other."""
    for i, (kind, way) in enumerate(program):
        if kind == "sync":
            continue
        at = ADDRESS[way]
        if kind == "write" and len(set(at.tolist())) < THREADS:
            return True  # two threads in this very step
        reached = np.eye(THREADS, dtype=bool)  # reached[a, b]: the access of a comes before what b does next
        for other_kind, other in program[i + 1 :]:
            if other_kind == "sync":
                same = TEAM[other][:, None] == TEAM[other]
                reached = (reached.astype(np.float32) @ same.astype(np.float32)) > 0
            elif "write" in (kind, other_kind):
                clash = (at[:, None] == ADDRESS[other]) & ~np.eye(THREADS, dtype=bool)
                if (clash & ~reached).any():
                    return True
    return False


@settings(max_examples=examples(80), deadline=None)
@given(programs)
def test_the_verdict_is_that_of_happens_before(program):
    steps: list[Step] = [*put(t), Sync("cta"), Map(FILL, r[0], value=1.0)]
    for kind, what in program:
        if kind == "sync":
            steps.append(Sync(what))
        else:
            steps.append(Move(q[0], S[WAYS[what]]) if kind == "read" else Move(S[WAYS[what]], r[0]))
    fault = fault_of(kernel(*steps, threads=THREADS))
    assert fault is None or fault.code in ("TG403", "TG408"), fault
    assert (fault is not None) == races([("write", "t"), ("sync", "cta"), *program]), fault


@settings(max_examples=examples(20), deadline=None)
@given(programs)
def test_the_sync_that_is_named_orders_the_two(program):
    """Inserting what each message asks for, before the access that it stops at, leads to a program that is accepted."""
    steps: list[tuple[str, str]] = [p for p in program if p != ("write", "warp's first")]
    for _ in range(len(steps) + 1):
        plan = [*put(t), Sync("cta"), Map(FILL, r[0], value=1.0)]
        for kind, what in steps:
            plan.append(Sync(what) if kind == "sync" else Move(q[0], S[WAYS[what]]) if kind == "read"
                        else Move(S[WAYS[what]], r[0]))  # fmt: skip
        met = next((i for i in range(len(plan) + 1) if fault_of(kernel(*plan[:i], threads=THREADS))), None)
        if met is None:
            return
        fault = fault_of(kernel(*plan[:met], threads=THREADS))
        assert fault is not None and fault.needs_sync
        steps.insert(met - 5, ("sync", fault.needs_sync))
    raise AssertionError("never accepted")
