"""A plan of two roles: every reader numbers each role's threads from zero, and knows who may wait for whom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.faults.mutants import plant
from tests.faults.verdicts import proof_code
from tests.plan_text import print_plan
from tests.text.run import requires_runner, run_text
from tilegen.cost.compiled import compiled_accesses
from tilegen.cost.count import count_steps
from tilegen.index import Var, equal
from tilegen.interpret import interpret
from tilegen.interpret.machine import survey
from tilegen.plan import (
    Arrive,
    Await,
    Barrier,
    Launch,
    Memory,
    Move,
    Plan,
    Role,
    Slot,
    Step,
    Sync,
    TensorMap,
    Tma,
    When,
    flat_memory,
    tensor_maps,
)
from tilegen.proofs import Owned, check_partition, find_unowned, unproven_ranges
from tilegen.proofs.needless_syncs import drop_sync
from tilegen.render import launch_info, render, render_launcher
from tilegen.report import explain_plan

LOADERS, WORKERS, COLUMNS = 32, 64, 64
bx, tx, lane, warp = Var("bx", 2), Var("tx", WORKERS), Var("laneid", 32), Var("warpid", 2)
elected = Var("tx", LOADERS)
X = Memory("X", "float32", (2, COLUMNS), (COLUMNS, 1), "global", "in")
Y = Memory("Y", "float32", (2, COLUMNS), (COLUMNS, 1), "global", "out")
MAP = TensorMap("X_map", X, (0, 1), (1, COLUMNS))
S = flat_memory("S", "float32", COLUMNS, "shared", align_bytes=128)
T = flat_memory("T", "float32", COLUMNS, "shared", offset_bytes=4 * COLUMNS, align_bytes=4)  # of single elements
r = flat_memory("r", "float32", 2, "register")
FULL = Barrier("full", 1, 1)
BRING = When(equal(elected, 0), (Arrive(Slot(FULL, 0), MAP.box_bytes), Tma(MAP, (bx, 0), S[0], Slot(FULL, 0))))
LANDED = Await(Slot(FULL, 0), 0)
TURN = (Move(r[0], S[tx]), Move(T[tx], r[0]), Sync("role"), Move(r[1], T[WORKERS - 1 - tx]))
SEND = Move(Y[bx, tx], r[1])
CTAS = [(0, 0, 0), (1, 0, 0)]
INPUT = np.arange(2 * COLUMNS, dtype=np.float32)
EXPECTED = INPUT.reshape(2, COLUMNS)[:, ::-1]


def two_roles(load: tuple[Step, ...] = (BRING,), work: tuple[Step, ...] = (LANDED, *TURN, SEND)) -> Plan:
    """One warp brings a row; two warps turn it round and send it."""
    roles = (Role("load", LOADERS, load), Role("work", WORKERS, work))
    return Plan("turn", "sm_90", (2, 1, 1), (X, Y, S, T, r), roles, barriers=(FULL,))


PLAN = two_roles()
OWNED = Owned(Y, (bx, tx), (1, 1), threads=WORKERS)


def run(plan: Plan) -> np.ndarray:
    """Y as the interpreter leaves it, NaN where nothing was written."""
    at, values = interpret(plan, CTAS, {"X": lambda at: INPUT[at]}).written.get("Y", ([], []))
    image = np.full(2 * COLUMNS, np.nan, np.float32)
    image[at] = values
    return image.reshape(2, COLUMNS)


def code_of(plan: Plan) -> str:
    return proof_code(lambda: run(plan))


def test_its_proofs_agree_and_its_values_are_right() -> None:
    assert not unproven_ranges(PLAN)
    assert not check_partition(PLAN, [OWNED])
    assert np.array_equal(run(PLAN), EXPECTED)


def test_partition_counts_the_threads_of_the_role() -> None:
    few = [replace(OWNED, threads=LOADERS)]
    assert [f.message for f in check_partition(PLAN, few)] == ["64 of 128 elements of Y have no owner"]
    assert find_unowned(PLAN, few, "Y", {}) == [0, 32]
    twice = [replace(OWNED, start=(0, tx))]
    assert [f.code for f in check_partition(PLAN, twice)] == ["TG417"]


def test_a_role_of_fewer_threads_has_fewer_indices() -> None:
    """What is in range for 64 threads would be out of range for 96: the roles' threads are not the CTA's."""
    assert not unproven_ranges(PLAN)
    beyond = two_roles(work=(LANDED, *TURN, Move(Y[bx, tx + LOADERS], r[1])))
    assert [f.code for f in unproven_ranges(beyond)] == ["TG414"]
    one = replace(PLAN, roles=(replace(PLAN.roles[0], steps=()), replace(PLAN.roles[1], threads=LOADERS + WORKERS)))
    assert unproven_ranges(one)


OVERWRITE = (Move(r[0], X[bx, elected]), Move(S[elected], r[0]))
FAULTS = {
    "nobody waits for the box": (two_roles(work=(*TURN, SEND)), "TG422"),
    "workers do not meet": (two_roles(work=(LANDED, TURN[0], TURN[1], TURN[3], SEND)), "TG403"),
    "only warps meet": (two_roles(work=(LANDED, TURN[0], TURN[1], Sync("warp"), TURN[3], SEND)), "TG403"),
    "the CTA meets in one role": (two_roles(work=(LANDED, TURN[0], TURN[1], Sync("cta"), TURN[3], SEND)), "TG413"),
    "nobody brings the box": (two_roles(load=()), "TG413"),
    "every thread of the role brings it": (two_roles(load=BRING.body), "TG425"),
    "the loaders write where the box lands": (two_roles(load=(BRING, *OVERWRITE)), "TG422"),
    "the loaders overwrite what the workers read": (two_roles(load=(BRING, LANDED, *OVERWRITE)), "TG403"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", FAULTS, ids=str)
def test_a_fault_between_roles_is_found(wrong: str) -> None:
    plan, code = FAULTS[wrong]
    assert code_of(plan) == code


def test_accesses_are_those_of_the_threads_of_their_role() -> None:
    found = compiled_accesses(PLAN)
    assert {(a.memory.name, a.kind, a.threads) for a in found} >= {("X", "tma", LOADERS), ("S", "ld", WORKERS)}
    counted = count_steps(PLAN.roles[1].steps, Launch(WORKERS, (2, 1, 1)), (0, 0, 0))
    # two warps: each one wavefront a load or store of shared memory, and two sectors-of-four rows of Y
    assert sum(c.wavefronts for c in counted) == 2 * 3
    assert sum(c.sectors for c in counted) == COLUMNS * 4 // 32


def test_text_numbers_each_role_from_zero() -> None:
    text = render(PLAN)
    assert "__launch_bounds__(96)" in text
    assert "if (threadIdx.x < 32) {  // load: 32 threads" in text
    assert "const int tx = threadIdx.x - 32;" in text
    assert "sync_role(3, 64);" in text  # 0 is the CTA's, 1 that of the one warpgroup, 2 the loaders'
    assert launch_info(PLAN)["block"] == [LOADERS + WORKERS, 1, 1]
    assert "96" in render_launcher(PLAN)


@requires_runner
def test_text_runs() -> None:
    assert np.array_equal(run_text(PLAN, {"X": INPUT})["Y"].reshape(2, COLUMNS), EXPECTED)


def test_every_other_reader_takes_both_roles() -> None:
    assert [m.name for m in tensor_maps(PLAN)] == ["X_map"]
    assert survey(PLAN)["X"].is_read and survey(PLAN)["Y"].is_written
    text = print_plan(PLAN)
    assert "load" in text and "work" in text and "Sync role" in text
    totals = explain_plan(PLAN, Launch(PLAN.threads, (2, 1, 1)))["grid_totals"]
    assert totals["global_tma"]["sectors"] == totals["global_st"]["sectors"] == 2 * COLUMNS * 4 // 32
    assert print_plan(drop_sync(PLAN, 0)).count("Sync role") == 0


def test_every_mutant_of_either_role_is_found() -> None:
    mutants = list(plant(PLAN))
    assert {m.of for m in mutants} >= {"tma.load", "move"}
    for mutant in mutants:
        if code_of(mutant.plan) or unproven_ranges(mutant.plan):
            continue
        assert not np.array_equal(run(mutant.plan), EXPECTED), mutant.where
