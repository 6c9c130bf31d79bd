"""What a warp or more threads carry out together: no condition and no loop around it on which they may differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilegen
from tests.faults.steps import mutate
from tests.interpret.kernels import kernel, r
from tilegen.errors import ProofError
from tilegen.index import Index, Var, any_of, differ, equal, evaluate, every, less, variables
from tilegen.plan import Plan, Repeat, Shuffle, Sync, When, effects, flatten
from tilegen.planner import plan_spec
from tilegen.proofs import prove, unproven_meetings
from tilegen.proofs.meetings import agree
from tilegen.scopes import thread_variables

SHIFTED = """kernel: k
threads: 64
params: {N: {default: 1003, max: 100000}}
grid: {bx: ceil(N / 512)}
buffers:
  X: {scope: global, dtype: float16, shape: [N]}
  Y: {scope: global, dtype: float16, shape: [N]}
ops:
  - copy: {src: "X[bx*512 + 1 : +512]", dst: "Y[bx*512 : +512]", edge: clip, variant: shifted}
"""
lane, tx, warpid = Var("laneid", 32), Var("tx", 128), Var("warpid", 4)


def variables_of(plan: Plan) -> dict[str, Var]:
    steps = [s for role in plan.roles for s in flatten(role.steps)]
    return {v.name: v for s in steps for x in effects(s).expressions for v in variables(x)}


def conditions() -> dict[str, Index]:
    """Under which some lanes are left out in CTAs, and at sizes, that no run in NumPy sees."""
    v = variables_of(plan_spec(tilegen.load(SHIFTED)))
    own = v["tx"] % 32
    return {
        "a size": any_of(differ(v["N"], 5000), differ(own, 3)),
        "large sizes": any_of(less(v["N"], 70000), less(own, 31)),
        "a CTA": any_of(differ(v["bx"], 5), less(own, 31)),
        "far CTAs": any_of(less(v["bx"], 100), less(own, 31)),
        "an end": less(v["bx"] * 512 + v["tx"] * 8 + 15, v["N"]),
    }  # fmt: skip


@pytest.mark.parametrize("what", conditions())
def test_a_shuffle_that_some_lanes_may_miss_is_found(what):
    spec = tilegen.load(SHIFTED)
    plan, condition = plan_spec(spec), conditions()[what]
    assert unproven_meetings(plan) == ()
    missed = mutate(plan, lambda s: isinstance(s, Shuffle), lambda s: (When(condition, (s,)),))
    with pytest.raises(ProofError, match="TG406"):
        prove(spec, missed)


@pytest.mark.parametrize("step", [Shuffle(r[1], r[0], 5), Sync("warp"), Sync("warpgroup"), Sync("cta")])
def test_conditions_and_loops_that_threads_agree_on_are_none(step):
    def found(*steps, threads=128):
        return unproven_meetings(kernel(*steps, threads=threads))

    narrow = isinstance(step, Shuffle) or step.scope == "warp"
    k = Var("k", 33)
    assert not found(step) and not found(When(less(Var("bx", 8), 3), (step,)))
    assert found(When(less(lane, 16), (step,))) and found(Repeat(k, lane + 1, (step,)))
    assert bool(found(When(less(warpid, 2), (step,)))) is not narrow
    assert bool(found(When(less(tx, 64), (step,)))) is not narrow
    assert bool(found(Repeat(k, warpid + 1, (step,)))) is not narrow
    assert not found(When(equal(lane, 3), (Sync("async"),)))  # for each thread itself
    (one,) = found(When(less(lane, 16), (step,)))
    assert "together, whose threads may differ on laneid < 16" in one.message


@given(st.data())
def test_what_threads_are_said_to_agree_on_they_do(data):
    """Against all threads, CTAs and sizes of a few."""
    bx, n = Var("bx", 5), Var("n", 300)
    axes = thread_variables(128)
    names = [tx, *(Var(a, 32) for a in ("laneid",)), warpid, bx, n]
    draw = data.draw

    def part() -> Index:
        x = draw(st.sampled_from(names)) * draw(st.sampled_from([1, 2, 8, 32])) + draw(st.integers(0, 40))
        return draw(st.sampled_from([x, x // 32, x % 32, x // 4, x + draw(st.sampled_from(names))]))

    def one() -> Index:
        return draw(st.sampled_from([less, equal]))(part(), draw(st.sampled_from([part(), 31, 32, 64, 63, 96])))

    condition = draw(st.sampled_from([every, any_of]))(one(), one())
    count = draw(st.sampled_from([32, 64, 128]))
    if agree(condition, 128, count) and not isinstance(condition, int):
        threads = np.arange(128)[:, None, None]
        values = {"tx": threads, "bx": np.arange(5)[None, :, None], "n": np.arange(300)[None, None, :]}
        values |= {name: np.asarray(evaluate(axis, {"tx": threads})) for name, axis in axes.items() if name != "tx"}
        got = np.broadcast_to(evaluate(condition, values), (128, 5, 300)).reshape(-1, count, 5, 300)
        assert (got == got[:, :1]).all(), (str(condition), count)


def test_what_threads_agree_on_for_their_number_is_seen():
    for condition, count in (
        (less(tx, 64), 64), (less(63, tx), 64), (less(31, tx), 32), (less(tx * 8 + 7, 512), 64),
        (every(less(tx, 96), less(warpid, 2)), 32), (any_of(less(tx, 32), equal(warpid, 2)), 32),
        (less((tx // 32) * 16, Var("n", 1000)), 32),
    ):  # fmt: skip
        assert agree(condition, 128, count), str(condition)
    assert not agree(less(tx, 64), 128, 128) and not agree(less(tx * 8 + 7, 500), 128, 64)


def test_roles_count_their_own_threads():
    plan = kernel(When(less(tx, 32), (Sync("warp"),)), threads=96)
    assert unproven_meetings(plan) == ()
    (role,) = plan.roles
    small = replace(plan, roles=(replace(role, threads=16),))
    assert unproven_meetings(small) == ()  # a warp that is not whole is whole of what there is
