"""The elected thread stands for thread 0 where nobody can tell them apart, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.faults.parts import rewrite
from tests.tensor.pairs import ONE_PAIR, plan_pair
from tests.tensor.plans import Gemm, plan_alone, plan_gemm, tensor_memory
from tilegen.dtypes import numpy_dtype
from tilegen.errors import ProofError
from tilegen.index import Var, equal, every, less, mul
from tilegen.interpret import interpret
from tilegen.plan import (
    TENSOR,
    TENSOR_STORE,
    Arrive,
    Await,
    Barrier,
    Block,
    Commit,
    Let,
    Memory,
    Move,
    Pick,
    Plan,
    Repeat,
    Role,
    Step,
    Sync,
    TensorFence,
    TensorMap,
    Tma,
    Wait,
    When,
    flat_memory,
    flatten,
)
from tilegen.render.c_text import Election
from tilegen.render.elections import elect

tx, k, laneid, wid = Var("tx", 128), Var("k", 8), Var("laneid", 32), Var("wid_in_wg", 4)
full = Barrier("full", 2, 1)
shared, held = flat_memory("s", "float32", 128 * 32, "shared"), flat_memory("x", "float32", 32, "register")
cells = tensor_memory("t", "float32", 32, 32)
array = Memory("C", "float32", (128, 32), (32, 1), "global", "out")
box = TensorMap("C_map", array, (0, 1), (128, 32))


def alone(*steps: Step) -> When:
    return When(equal(tx, 0), steps)


STORE = alone(Tma(box, (0, 0), shared[0]), Commit("bulk"))
SEND = alone(*STORE.body, Arrive(full[1], landed=TENSOR))
LOAD = alone(Arrive(full[0], 16384), Tma(box, (0, 0), shared[0], full[0]))
FREE = alone(Arrive(full[0], landed=TENSOR))
FILL = Move(shared[mul(tx, 32)], held[0], 4)
MEET = Sync("role")


def is_given(*steps: Step, threads: int = 128) -> bool:
    role = Role("r", threads, steps)
    given = elect(role, "elected")
    whens = [s for s in flatten(given.steps) if isinstance(s, When)]
    names = {str(s.condition) for s in whens if "elected" in str(s.condition)}
    assert (given is role) == (not names) and not (names and any("tx == 0" in str(s.condition) for s in whens))
    return bool(names)


def test_what_one_thread_of_a_warp_starts_is_the_elected_ones() -> None:
    assert is_given(Repeat(k, 8, (Await(full[0], 0), TensorFence("after"), LOAD, FREE)), FREE, threads=32)
    assert is_given(Block("load", ((shared, shared[0]),), (LOAD,)), threads=32)
    assert is_given(When(less(k, 4), (LOAD,)))
    assert is_given(When(equal(laneid, 0), LOAD.body), threads=32)
    assert is_given(Let(Var("i", 8), k), alone(Tma(box, (0, Var("i", 8)), shared[0], full[0])))


def test_other_conditions_beside_are_kept() -> None:
    step = replace(LOAD, condition=every(equal(tx, 0), less(k, 4)))
    (given,) = elect(Role("r", 32, (step,)), "elected").steps
    assert isinstance(given, When) and str(given.condition) == "elected && k < 4"


def test_what_all_do_and_what_one_starts_are_apart_by_a_meeting() -> None:
    assert is_given(FILL, Sync("async"), MEET, SEND)
    assert is_given(Repeat(k, 8, (Wait("bulk"), MEET, FILL, Sync("async"), MEET, SEND)), Wait("bulk"))
    assert is_given(FILL, Sync("cta"), SEND, Move(held[0], held[4], 4))
    assert is_given(LOAD, MEET, FILL)
    assert is_given(STORE) and is_given(FILL, Sync("async"), MEET, STORE, alone(SLOT), FILL)


SLOT = Arrive(full[0])
TOLD: dict[str, tuple[Step, ...]] = {
    "thread 0 wrote what it sends": (FILL, SEND),
    "in the trip before": (Repeat(k, 8, (SEND, FILL)),),
    "thread 0 wrote cells": (Move(cells[mul(wid, 32), 0], held[0], 32, via=TENSOR_STORE), FREE),
    "some met": (FILL, When(less(laneid, 4), (Sync("warp"),)), SEND),
    "a meeting in some trips": (FILL, When(less(k, 4), (MEET,)), SEND),
    "each orders its own stores": (FILL, Sync("async"), SEND),
    "thread 0 arrived": (SLOT, SEND),
    "thread 0 waited alone": (alone(Await(full[0], 0), *LOAD.body), FILL),
    "its own groups are read": (SEND, Wait("bulk"), FILL),
    "in the next trip": (Repeat(k, 8, (FILL, MEET, SEND, Wait("bulk"))),),
    "the number of the thread": (alone(Tma(box, (0, tx), shared[0], full[0])),),
    "a value of the thread": (Let(Var("i", 128), tx), alone(Tma(box, (0, Var("i", 128)), shared[0], full[0]))),
    "what it holds": (Pick(Var("i", 8), held[0]), alone(Tma(box, (0, Var("i", 8)), shared[0], full[0]))),
    "registers": (alone(Move(shared[0], held[0], 4)), MEET, SEND),
    "a condition of the thread": (When(less(tx, 4), (SEND,)),),
    "and another": (When(every(equal(tx, 0), less(laneid, 2)), SEND.body),),
    "as many trips as its number": (Repeat(k, laneid, (SEND,)),),
    "others start too": (When(less(laneid, 1), SEND.body), MEET, SEND),
    "all start": (*SEND.body, MEET, SEND),
    "a commit of all": (SEND, Commit("bulk")),
    "groups that some wait for": (SEND, When(less(tx, 1), (Wait("bulk"),))),
    "copies of another queue": (alone(Commit("cp.async"), *SEND.body),),
    "it meets others": (alone(Sync("warp"), *SEND.body),),
}


@pytest.mark.parametrize("why", TOLD)
def test_thread_0_stays_where_it_may_matter(why: str) -> None:
    assert not is_given(*TOLD[why])


def test_nothing_changes_where_nothing_is_gained() -> None:
    assert not is_given(alone(SLOT)) and not is_given(alone(Await(full[0], 0))) and not is_given(FILL)
    assert not is_given(alone(Commit("bulk"))) and not is_given(alone(SLOT), MEET, FILL)


def conditions(role: Role) -> set[str]:
    return {str(s.condition) for s in flatten(role.steps) if isinstance(s, When)}


def test_one_thread_starts_all_of_a_role() -> None:
    """A commit speaks for its own thread alone."""
    for gemm in (Gemm(), Gemm(boxed=True)):
        load, mma, _, store = (elect(role, "elected") for role in plan_gemm(gemm).roles)
        assert conditions(load) == conditions(mma) == {"elected"}
        assert conditions(store) == ({"elected"} if gemm.boxed else set())
    (role,) = plan_alone(3).roles
    assert conditions(elect(role, "elected")) == {"elected"}


# ---------------------------------------------------------------- any thread of the first warp may be the elected one
def given_to(plan: Plan, thread: int) -> Plan:
    """The plan as it is where the hardware elects this thread."""

    def other(x: object) -> object:
        return equal(tx, thread) if isinstance(x, Election) else None

    return replace(plan, roles=tuple(rewrite(elect(role, "elected"), other) for role in plan.roles))


def run(plan: Plan) -> None:
    """C is the product of small whole numbers that no order of sums rounds."""
    random = np.random.default_rng(1)
    drawn = {m.name: random.integers(-3, 4, int(m.span)).astype(numpy_dtype(m.dtype)) for m in plan.memories[:2]}  # type: ignore[arg-type]
    given = {name: (lambda at, values=values: values[at]) for name, values in drawn.items()}
    at, values = interpret(plan, [(0, 0, 0)], given).written["C"]  # type: ignore[arg-type]
    found = np.zeros(at.size, values.dtype)
    found[at] = values
    a, b = (drawn[m.name].reshape(m.shape).astype(np.float64) for m in plan.memories[:2])
    assert np.array_equal(found.reshape(a.shape[0], -1), a @ b.T)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("thread", [0, 1, 31])
@pytest.mark.parametrize(
    "plan", [plan_gemm(Gemm()), plan_gemm(Gemm(boxed=True)), plan_alone(3), plan_pair(ONE_PAIR)], ids=lambda p: p.name
)
def test_a_plan_is_right_whoever_is_elected(plan: Plan, thread: int) -> None:
    assert (given_to(plan, thread) == given_to(plan, 0)) == (thread == 0)
    run(given_to(plan, thread))


def test_a_commit_by_another_thread_than_the_products_is_wrong() -> None:
    """What a thread commits is its own: why one flag stands for all that a role's thread does."""
    plan = plan_gemm(Gemm())
    load, mma, *others = plan.roles

    def other(x: object) -> object:
        is_commit = isinstance(x, When) and isinstance(x.body[0], Arrive)
        return replace(x, condition=equal(tx, 5)) if is_commit else None  # type: ignore[type-var]

    with pytest.raises(ProofError):
        run(replace(plan, roles=(load, rewrite(mma, other), *others)))
