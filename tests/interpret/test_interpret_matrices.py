"""ldmatrix and stmatrix: what they move, against the layouts of PTX's figures, and what orders them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.faults.verdicts import ONE_CTA, fault_of
from tests.interpret.kernels import values_at
from tilegen.cost.accesses import find_accesses
from tilegen.cost.count import count_steps
from tilegen.index import Index, Var, less
from tilegen.interpret import interpret
from tilegen.layouts import ldmatrix_fragment, ldmatrix_rows
from tilegen.plan import (
    FILL,
    LDMATRIX,
    LDMATRIX_TRANS,
    STMATRIX,
    STMATRIX_TRANS,
    Launch,
    Map,
    Memory,
    Move,
    Plan,
    Role,
    Step,
    Sync,
    UnknownStep,
    When,
    flat_memory,
)
from tilegen.proofs import unproven_ranges

lane = Var("laneid", 32)
S = flat_memory("S", "uint16", 512, "shared")
r = flat_memory("r", "uint16", 8, "register")
X = Memory("X", "uint16", (512,), (1,), "global", "in")
G = Memory("G", "uint16", (512,), (1,), "global", "out")
PITCH = 16  # elements from row to row: rows do not touch


def plan(*steps: Step, threads: int = 32) -> Plan:
    return Plan("k", "sm_90", (1, 1, 1), (S, r, X, G), (Role("all", threads, steps),))


def numbers(flat: np.ndarray) -> np.ndarray:
    return (flat * 40503 % 65521).astype(np.uint16)


def fill() -> tuple[Step, ...]:
    """S holds X."""
    return tuple(
        step for first in (0, 256) for step in (Move(r[0], X[lane * 8 + first], 8), Move(S[lane * 8 + first], r[0], 8))
    )


def row() -> Index:
    return lane % 8 * PITCH + lane // 8 * (8 * PITCH)


def load(n: int = 4, trans: bool = False, at: Index | None = None) -> Move:
    return Move(r[0], S[row() if at is None else at], 2 * n, via=LDMATRIX_TRANS if trans else LDMATRIX)


def store(n: int = 4, trans: bool = False, at: Index | None = None) -> Move:
    return Move(S[row() if at is None else at], r[0], 2 * n, via=STMATRIX_TRANS if trans else STMATRIX)


def code(*steps: Step, threads: int = 32) -> str:
    fault = fault_of(plan(*steps, threads=threads), {"X": numbers})
    return fault.code if fault else ""


def out(n: int) -> tuple[Step, ...]:
    return tuple(Move(G[lane * 2 * n + k], r[k]) for k in range(2 * n))


def expected(n: int, trans: bool) -> dict[tuple[int, int], int]:
    """(lane, register) -> offset in S, by the layouts of the two instructions' figures."""
    fragment, rows = ldmatrix_fragment(n, trans), ldmatrix_rows(n)
    found = {}
    for matrix, i, j in np.ndindex(n, 8, 8):
        at = fragment.place([matrix, i, j], (n, 8, 8))
        giver = rows.place([matrix, i], (n, 8))["laneid"]
        found[at["laneid"], at["m"]] = giver % 8 * PITCH + giver // 8 * (8 * PITCH) + j
    return found


# ---------------------------------------------------------------- what they move
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_ldmatrix_gives_each_lane_the_elements_of_its_fragment(n, trans):
    got = values_at(interpret(plan(*fill(), Sync("warp"), load(n, trans), *out(n)), ONE_CTA, {"X": numbers}), "G")
    want = {holder * 2 * n + m: int(numbers(np.array(at))) for (holder, m), at in expected(n, trans).items()}
    assert got == want


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_stmatrix_stores_the_fragment_that_ldmatrix_loads(n, trans):
    take = tuple(Move(r[k], X[lane * 2 * n + k]) for k in range(2 * n))
    back = (Move(r[0], S[lane % 8 * PITCH + lane // 8 % n * (8 * PITCH)], 8), Sync("warp"),
            Move(G[lane * 8], r[0], 8))  # fmt: skip
    got = values_at(interpret(plan(*take, store(n, trans), Sync("warp"), *back), ONE_CTA, {"X": numbers}), "G")
    for (holder, m), at in expected(n, trans).items():
        giver = at // (8 * PITCH) * 8 + at % (8 * PITCH) // PITCH
        assert got[giver * 8 + at % PITCH] == int(numbers(np.array(holder * 2 * n + m)))


def test_the_addresses_of_other_lanes_are_not_read():
    first = (*fill(), Sync("warp"))
    assert code(*first, load(1, at=lane * 64)) == "" and code(*first, load(2, at=lane * 64)) == "TG401"
    assert not unproven_ranges(plan(load(1, at=lane * 64)))
    assert [f.code for f in unproven_ranges(plan(load(2, at=lane * 64)))] == ["TG414"]


# ---------------------------------------------------------------- what they ask for
@pytest.mark.parametrize("move", [load(), load(trans=True), store(), store(trans=True)])
def test_a_row_is_sixteen_aligned_bytes_inside_its_memory(move):
    shared = "src" if move.via.name.startswith("ld") else "dst"
    first = (*fill(), Sync("warp"))
    assert code(*first, move) == ""
    for at, fault in ((row() + 4, "TG402"), (row() + 256, "TG401")):
        wrong = replace(move, **{shared: S[at]})
        assert code(*first, wrong) == fault
        assert unproven_ranges(plan(wrong))
    assert not unproven_ranges(plan(move))


def test_the_whole_warp_takes_part():
    first = (*fill(), Sync("warp"))
    for move in (load(1), store(1)):
        assert code(*first, When(less(lane, 16), (move,))) == "TG406"
        assert code(move, threads=48) == "TG406"
        assert code(*first, When(less(Var("warpid", 1), 1), (move,))) == ""


def test_shapes_that_no_instruction_has():
    wide = flat_memory("q", "float32", 8, "register")
    assert code(replace(load(), elems=6)) == "TG412"
    with pytest.raises(UnknownStep, match=r"ldmatrix\.twice"):
        code(replace(load(), via=replace(LDMATRIX, name="ldmatrix.twice")))
    assert code(replace(load(), valid=less(lane, 4))) == "TG412"
    assert code(Move(r[0], X[row()], 8, via=LDMATRIX)) == "TG412"
    assert code(Map(FILL, wide[0], elems=8, value=0), replace(store(), src=wide[0])) == "TG412"


# ---------------------------------------------------------------- what orders them
def test_a_write_before_ldmatrix_needs_a_sync_whoever_made_it():
    own = (Move(r[0], X[lane * 8], 8), Move(S[row()], r[0], 8))  # each lane writes the row whose address it gives
    assert code(*own, load()) == "TG403" and code(*own, Sync("warp"), load()) == ""
    held = tuple(Move(S[lane // 4 * PITCH + lane % 4 * 2 + e], r[e]) for e in range(2))  # ... or what it then holds
    fill_r = Map(FILL, r[0], elems=8, value=1)
    assert code(fill_r, *held, load(1)) == "TG403" and code(fill_r, *held, Sync("warp"), load(1)) == ""


def test_a_write_after_ldmatrix_needs_a_sync():
    first = (*fill(), Sync("warp"), load())
    for write in (Move(S[row()], r[0], 8), store()):
        assert code(*first, write) == "TG403" and code(*first, Sync("warp"), write) == ""


def test_stmatrix_is_ordered_with_nothing_but_a_sync():
    first = (Map(FILL, r[0], elems=8, value=1), store())
    for later in (Move(r[0], S[row()], 8), Move(S[row()], r[0], 8), load(), store()):
        assert code(*first, later) == "TG403" and code(*first, Sync("warp"), later) == ""


def test_two_rows_of_one_stmatrix_must_not_meet():
    assert code(Map(FILL, r[0], elems=8, value=1), store(at=lane % 16 * 8)) == "TG408"
    assert code(Map(FILL, r[0], elems=8, value=1), store(2, at=lane % 16 * 8)) == ""


def test_other_warps_need_a_wider_sync():
    first = (Map(FILL, r[0], elems=8, value=1), When(less(Var("warpid", 2), 1), (store(),)))
    other = When(less(0, Var("warpid", 2)), (load(),))
    assert code(*first, Sync("warp"), other, threads=64) == "TG403"
    assert code(*first, Sync("cta"), other, threads=64) == ""


# ---------------------------------------------------------------- what they cost
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_matrix_is_a_phase_of_eight_rows(n):
    launch = Launch(32, (1, 1, 1))
    for move, pitch, waves in ((load(n), PITCH, 2 * n), (load(n, at=lane * 8), 8, n), (store(n, at=lane * 8), 8, n)):
        (access,) = find_accesses((move,), 32)
        (counted,) = count_steps((move,), launch, (0, 0, 0))
        assert access.kind == f"{move.via.name[:2]}matrix{n}" and access.width_bytes == 16
        assert (counted.instructions, counted.wavefronts, counted.floor) == (1, waves, n), pitch
