"""Fences for the async proxy: each write needs one by its own thread that is ordered before the access of TMA."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.faults.steps import is_sync, mutate
from tests.faults.verdicts import fault_of, proof_code
from tests.interpret.kernels import S, kernel, put, q, r, tx, values
from tilegen.index import Index, Var, equal, every, less
from tilegen.interpret import interpret
from tilegen.pipeline import load as load_spec
from tilegen.plan import (
    Arrive,
    Await,
    Barrier,
    Commit,
    Memory,
    Plan,
    Repeat,
    Role,
    Step,
    Sync,
    TensorMap,
    Tma,
    Wait,
    When,
)
from tilegen.planner import plan_spec
from tilegen.proofs.meaning import proving_inputs

X = Memory("X", "float32", (16, 16), (16, 1), "global", "in")
Y = Memory("Y", "float32", (16, 16), (16, 1), "global", "out")
IN, OUT = (TensorMap(f"{m.name}_map", m, (0, 1), (4, 16)) for m in (X, Y))
FULL, TOLD = Barrier("full", 1, 1), Barrier("told", 1, 32)
t, lane, k = tx(64), Var("laneid", 32), Var("k", 4)
FENCE, MEET, WROTE, WAITED = Sync("async"), Sync("cta"), put(t), Wait("bulk", 0)
first, second = less(t, 32), less(31, t)


def only(condition: Index, *steps: Step) -> Step:
    return When(condition, steps)


def send(thread: int = 0, row: Index = 0) -> Step:
    return only(equal(t, thread), Tma(OUT, (row, 0), S[0]), Commit("bulk"))


SEND, SEND_TRIP = (send(), WAITED), (send(row=k * 4), WAITED, MEET)
FILL = (only(equal(t, 0), Arrive(FULL[0], IN.box_bytes), Tma(IN, (0, 0), S[0], FULL[0])), Await(FULL[0], 0))
BOTH_BY_SECOND = only(second, *put(t - 32), *put(t))
OWN = only(first, *put(t), *put(t + 32))  # the warp of the thread that sends
WRONG: dict[str, tuple[Step, ...]] = {
    "nobody": (*WROTE, MEET, *SEND),
    "all, before they write": (FENCE, *WROTE, MEET, *SEND),
    "all, after the sync": (*WROTE, MEET, FENCE, *SEND),
    "all, after the sync, before the next": (*WROTE, MEET, FENCE, Sync("warp"), *SEND),
    "all, after the sync, and what is filled": (*WROTE, MEET, FENCE, *FILL),
    "a warp before the sync, a warp after it": (*WROTE, only(first, FENCE), MEET, only(second, FENCE), *SEND),
    "the other warp too, and what is filled": (*WROTE, only(first, FENCE), MEET, only(second, FENCE), *FILL),
    "a warp of two": (*WROTE, only(first, FENCE), MEET, *SEND),
    "the warp that did not write": (BOTH_BY_SECOND, only(first, FENCE), MEET, *SEND),
    "the thread that sends, after the sync": (*WROTE, MEET, only(equal(t, 0), FENCE), *SEND),
    "half the lanes": (*WROTE, only(less(lane, 16), FENCE), MEET, *SEND),
    "half the lanes before the sync, half after it": (
        *WROTE, only(less(lane, 16), FENCE), MEET, only(less(15, lane), FENCE), *SEND),
    "between two writes": (*WROTE, FENCE, MEET, *WROTE, MEET, *SEND),
    "in the first trip": (Repeat(k, 3, (*WROTE, only(equal(k, 0), FENCE), MEET, *SEND_TRIP)),),
    "in all but the last trip": (Repeat(k, 3, (*WROTE, only(less(k, 2), FENCE), MEET, *SEND_TRIP)),),
    "at the end of a trip": (Repeat(k, 3, (*WROTE, MEET, *SEND_TRIP, FENCE)),),
    "after the sync of the own warp": (OWN, Sync("warp"), FENCE, *SEND),
}  # fmt: skip
RIGHT: dict[str, tuple[Step, ...]] = {
    "before the sync": (*WROTE, FENCE, MEET, *SEND),
    "before the sync, and what is filled": (*WROTE, FENCE, MEET, *FILL),
    "before the sync and after it": (*WROTE, FENCE, MEET, FENCE, *SEND),
    "after one sync, before another": (*WROTE, MEET, FENCE, MEET, *SEND),
    "the warp that wrote": (BOTH_BY_SECOND, only(second, FENCE), MEET, *SEND),
    "each warp at its own time": (*WROTE, only(first, FENCE), only(second, FENCE), MEET, *SEND),
    "half the lanes and then the others": (
        *WROTE, only(less(lane, 16), FENCE), only(less(15, lane), FENCE), MEET, *SEND),
    "in every trip": (Repeat(k, 3, (*WROTE, FENCE, MEET, *SEND_TRIP)),),
    "before the sync of the own warp": (OWN, FENCE, Sync("warp"), *SEND),
    "what the thread itself wrote": (
        *WROTE, FENCE, MEET, only(equal(t, 0), *put(5), FENCE), *SEND),
}  # fmt: skip


def plan_of(*steps: Step) -> Plan:
    return kernel(*steps, threads=64, memories=(X, Y), barriers=(FULL,))


@pytest.mark.parametrize("who", WRONG)
def test_who_fences_and_when_is_wrong(who: str) -> None:
    fault = fault_of(plan_of(*WRONG[who]), {"X": values})
    assert fault and (fault.code, fault.insert) == ("TG424", ("sync: async",)), fault


@pytest.mark.parametrize("who", RIGHT)
def test_who_fences_and_when_is_right(who: str) -> None:
    assert fault_of(plan_of(*RIGHT[who]), {"X": values}) is None


def test_a_late_fence_is_called_late() -> None:
    late, missing = (fault_of(plan_of(*WRONG[who])) for who in ("all, after the sync", "nobody"))
    assert late and "fenced after the sync" in late.message
    assert missing and "without a fence" in missing.message


@pytest.mark.parametrize("after", [SEND, FILL], ids=["sent", "filled"])
def test_what_is_fenced_and_not_met_is_a_race(after: tuple[Step, ...]) -> None:
    fault = fault_of(plan_of(*WROTE, FENCE, *after), {"X": values})
    assert fault and (fault.code, fault.needs_sync) == ("TG403", "cta")


# ---------------------------------------------------------------- roles that tell one another by an mbarrier
own = tx(32)
TELL, HEAR = (Sync("warp"), Arrive(TOLD[0])), Await(TOLD[0], 0)
SEND_IT = (When(equal(own, 0), (Tma(OUT, (0, 0), S[0]), Commit("bulk"))), WAITED)
PUT = (*put(own), *put(own + 32))


@pytest.mark.parametrize(
    "wrote, sent, code",
    [
        ((*PUT, FENCE, *TELL), (HEAR, *SEND_IT), None),
        ((*PUT, *TELL), (HEAR, *SEND_IT), "TG424"),
        ((*PUT, *TELL, FENCE), (HEAR, *SEND_IT), "TG424"),
        ((FENCE, *PUT, *TELL), (HEAR, *SEND_IT), "TG424"),
        ((*PUT, *TELL), (HEAR, FENCE, *SEND_IT), "TG424"),
        ((*PUT, *TELL), (FENCE, HEAR, *SEND_IT), "TG424"),
    ],
    ids=["writers", "nobody", "too late", "too early", "the other role", "the other role before"],
)
@pytest.mark.parametrize("order", [1, -1])
def test_fences_of_roles(wrote: tuple[Step, ...], sent: tuple[Step, ...], code: str | None, order: int) -> None:
    """A fence that happens to run before the sender goes on is not ordered before it."""
    roles = (Role("write", 32, wrote), Role("send", 32, sent))[::order]
    fault = fault_of(Plan("k", "sm_90", (1, 1, 1), (S, r, q, Y), roles, barriers=(TOLD,)))
    assert (fault and fault.code) == code


# ---------------------------------------------------------------- a spec
def code_of(plan: Plan, inputs: dict) -> str:
    return proof_code(lambda: interpret(plan, [(0, 0, 0)], inputs))


def test_a_fence_of_three_warps_after_the_sync() -> None:
    """Thread 0 sends what they wrote, and nothing orders it after their fences."""
    spec, warp = load_spec("specs/epilogue_panels.yaml"), Var("warpid", 4)
    plan = plan_spec(spec)
    inputs = next(iter(proving_inputs(spec, plan, {})))
    assert code_of(plan, inputs) == ""
    by_first = mutate(plan, is_sync("async"), lambda s: (When(equal(warp, 0), (s,)),))
    assert code_of(by_first, inputs) == "TG424"
    rest = When(less(0, warp), (FENCE,))
    assert code_of(mutate(by_first, is_sync("cta"), lambda s: (s, rest)), inputs) == "TG424"
    assert code_of(mutate(by_first, is_sync("cta"), lambda s: (rest, s)), inputs) == ""


# ---------------------------------------------------------------- happens-before, thread by thread
Op = tuple[str, int, int]  # what, and which threads: write, fence (from, below), warp (its number), cta, send (thread)


def draw_program(draw: random.Random) -> tuple[Op, ...]:
    def threads() -> tuple[int, int]:
        return draw.choice([*[(0, 64)] * 6, (0, 32), (32, 64), (16, 48), (5, 6), (0, 1)])

    ops: list[Op] = [("write", 0, 64)]
    for _ in range(draw.randrange(1, 6)):
        kind = draw.choice(("write", "fence", "fence", "warp", "cta", "cta"))
        ops.append((kind, *threads()) if kind in ("write", "fence") else (kind, draw.randrange(2), 0))
    return (*ops, ("send", draw.choice((0, 0, 7, 40)), 0))


def is_seen(ops: tuple[Op, ...]) -> bool:
    """Whether who sends comes after a fence of every element's thread that comes after its last write."""
    known = np.zeros((64, 64), int)  # of each thread, the last event of every thread that it comes after
    fenced = np.full(64, 1 << 30)  # the event of the first fence after the thread's last write
    for n, (kind, a, b) in enumerate(ops, 1):
        known[range(64), range(64)] = n
        if kind == "write":
            fenced[a:b] = 1 << 30
        elif kind == "fence":
            fenced[a:b] = np.minimum(fenced[a:b], n)
        elif kind in ("warp", "cta"):
            team = slice(32 * a, 32 * a + 32) if kind == "warp" else slice(0, 64)
            known[team] = known[team].max(axis=0)
        else:
            return bool((fenced <= known[a]).all())
    raise AssertionError("nobody sends")


def steps_of(op: Op) -> tuple[Step, ...]:
    kind, a, b = op
    if kind in ("write", "fence"):
        return (When(every(less(a - 1, t), less(t, b)), WROTE if kind == "write" else (FENCE,)),)
    if kind == "warp":
        return (When(every(less(32 * a - 1, t), less(t, 32 * a + 32)), (Sync("warp"),)),)
    return (MEET,) if kind == "cta" else (send(a), WAITED)


def test_programs_drawn_at_random() -> None:
    tally = {True: 0, False: 0}
    for seed in range(400):
        ops = draw_program(random.Random(seed))
        fault = fault_of(plan_of(*(step for op in ops for step in steps_of(op))))
        assert fault is None or fault.code in ("TG403", "TG424"), (seed, ops, fault)
        assert (fault is None) == is_seen(ops), (seed, ops, fault)
        tally[fault is None] += 1
    assert min(tally.values()) > 40, tally
