"""Faults that only some sizes show: the largest, and those at which what a plan asks of its parameters turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilegen
from tests.faults.parts import change_memories, change_parts
from tests.faults.steps import mutate, with_steps
from tests.faults.texts import change_text
from tests.faults.verdicts import proof_code
from tilegen.errors import ProofError
from tilegen.index import (
    Formula,
    Index,
    Var,
    equal,
    evaluate,
    every,
    less,
    maximum,
    minimum,
    mod,
    not_,
    sub,
    substitute,
    variables,
)
from tilegen.plan import Memory, Plan, Ref, Repeat, When
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.owners import find_changes
from tilegen.proofs.runs import check_run, list_runs
from tilegen.spec.data import Spec

SPECS = Path(__file__).resolve().parents[2] / "specs"
TURN = Callable[[Var], Index]


def turned(x: Index, name: str, turn: TURN) -> Index:
    return substitute(x, {v.name: turn(v) for v in variables(x) if v.name == name})


def moved(memory: str, name: str, turn: TURN) -> Callable[[Plan], Plan]:
    """Every place in a memory with one variable changed."""

    def change(x: Any) -> Any:
        if isinstance(x, Ref) and memory in ("", x.memory.name):
            return Ref(x.memory, tuple(turned(at, name, turn) for at in x.at))
        return None

    return lambda plan: change_parts(plan, change)


def guarded(name: str, turn: TURN) -> Callable[[Plan], Plan]:
    """Every condition with one parameter changed."""

    def change(x: Any) -> Any:
        if isinstance(x, Formula) and x.symbol in ("<", "&&"):
            return turned(x, name, turn)
        return None

    return lambda plan: change_parts(plan, change)


def pitched(memory: str, turn: Callable[[Index], Index]) -> Callable[[Plan], Plan]:
    def change(m: Memory) -> Memory:
        return dataclasses.replace(m, pitches=(turn(m.pitches[0]), *m.pitches[1:])) if m.name == memory else m

    return lambda plan: change_memories(plan, change)


def code(name: str, fault: Callable[[Plan], Plan]) -> str:
    """What the proofs find in a spec with a fault."""
    spec = tilegen.load(SPECS / f"{name}.yaml")
    plan = plan_spec(spec)
    return proof_code(lambda: prove(spec, fault(plan)))


# ---------------------------------------------------------------- the largest sizes
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "memory", "var", "most"),
    [
        ("rows_any_size", "X", "bx", 4096),
        ("rows_any_size", "Y", "bx", 4096),
        ("rows_any_size", "X", "j", 12),
        ("rows_runtime_aligned", "X", "bx", 4096),
        ("transpose_bytes", "X", "by", 50),
    ],
)
def test_a_place_that_stays_behind_at_large_sizes_is_found(name: str, memory: str, var: str, most: int) -> None:
    assert code(name, moved(memory, var, lambda v: minimum(v, most))) in ("TG405", "TG420")


def code_of_runs(name: str, change: Callable[[Plan], Plan]) -> str:
    """Of the runs alone: another array than the spec's is found before them."""
    spec = tilegen.load(SPECS / f"{name}.yaml")
    plan = change(plan_spec(spec))
    return proof_code(lambda: [check_run(spec, plan, run) for run in list_runs(spec, plan)])


@pytest.mark.slow
def test_a_pitch_that_stops_growing_is_found() -> None:
    assert code_of_runs("rows_any_size", pitched("X", lambda ldx: minimum(ldx, 4096))) == "TG420"


def test_a_pitch_below_the_rows_of_what_is_only_read_is_tried() -> None:
    n = Var("N", 4097, 1, 1)
    assert code_of_runs("rows_any_size", pitched("X", lambda ldx: maximum(ldx, n))) == "TG420"


LONG = """kernel: late
params: {N: {default: 12800, max: 1048576, multiple_of: 128}}
grid: {bx: 4}
threads: 64
buffers:
  X: {scope: global, dtype: float32, shape: [4, N]}
  Y: {scope: global, dtype: float32, shape: [4, N]}
  t: {scope: shared, dtype: float32, shape: [3, 128]}
ops:
  - for: {k: N // 128}
    do:
      - copy: {src: "X[bx, k*128 : +128]", dst: "t[k % 3]"}
      - when: MEET
        do:
          - sync: cta
      - copy: {src: "t[k % 3]", dst: "Y[bx, k*128 : +128]", variant: scalar}
      - sync: cta
"""


@pytest.mark.slow
@pytest.mark.parametrize("meet", ["k < 500", "k < 5000", "k != 4095", "N < 640000"])
def test_a_hazard_of_late_trips_is_found(meet: str) -> None:
    with pytest.raises(ProofError, match="TG403"):
        tilegen.build(LONG.replace("MEET", meet))


@pytest.mark.parametrize("meet", ["k < 10000", "k >= 0"])
def test_a_condition_that_no_size_turns_is_none(meet: str) -> None:
    assert tilegen.build(LONG.replace("MEET", meet)).source


@pytest.mark.slow
def test_trips_that_are_left_out_of_long_loops_are_found() -> None:
    spec = tilegen.load(LONG.replace("MEET", "k >= 0"))

    plan = mutate(
        plan_spec(spec), lambda x: isinstance(x, Repeat) and x.var.name == "k",
        lambda x: (dataclasses.replace(x, count=minimum(x.count, 4096)),),
    )  # fmt: skip
    assert proof_code(lambda: prove(spec, plan)) == "TG420"


@pytest.mark.slow
def test_what_takes_too_long_at_the_largest_sizes_is_said() -> None:
    notes = tilegen.build(LONG.replace("MEET", "k >= 0").replace("k % 3", "k * k % 3")).proof.notes
    assert "not proven: what CTAs do with N = 1048576, which would take too long" in notes


# ---------------------------------------------------------------- loops that two parameters bound
SIZES = "{M: {default: 100, max: 4096}, N: {default: 100, max: 4096}}"
TWO = change_text(
    LONG, ("kernel: late", "kernel: two"), ("{N: {default: 12800, max: 1048576, multiple_of: 128}}", SIZES),
    ("k: N // 128", 'k: "COUNT"'), ("MEET", '"MEET"'), ("k*128 : +128", "k"), ("[4, N]", "[4, 8192, 128]"),
    ("128]}\n  t:", "128], partial: true}\n  t:"),
)  # fmt: skip


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("count", "meet"),
    [
        ("min(M, N)", "min(M, N) != 3"),
        ("min(M, N)", "min(M, N) != 5"),
        ("M + N", "M + N != 4"),
        ("ceil(M / N)", "ceil(M / N) != 4"),
        ("max(M, N) // N", "max(M, N) // N != 3"),
    ],
)
def test_a_count_that_two_parameters_give_is_tried(count: str, meet: str) -> None:
    with pytest.raises(ProofError, match="TG403"):
        tilegen.build(TWO.replace("COUNT", count).replace("MEET", meet))


def test_a_count_that_two_parameters_give_is_right_as_it_is() -> None:
    assert tilegen.build(TWO.replace("COUNT", "min(M, N)").replace("MEET", "min(M, N) >= 0")).source


@pytest.mark.slow
def test_counts_of_trips_that_are_not_tried_are_said() -> None:
    source = (
        TWO.replace("COUNT", "M").replace("MEET", "N >= 0").replace("[3, 128]", "[97, 128]").replace("k % 3", "k % 97")
    )
    assert any(n.startswith("not proven: the loop over k with 64 to") for n in tilegen.build(source).proof.notes)


# ---------------------------------------------------------------- what a plan asks of its parameters alone
def when(name: str, rest: int, of: int) -> TURN:
    return lambda v: sub(v, equal(mod(v, of), rest))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "param", "of", "rest"),
    [
        ("rows_any_size", "N", 64, 50),
        ("rows_any_size", "M", 64, 3),
        ("shift_by_one", "N", 8, 3),
        ("shift_by_one", "N", 24, 19),
        ("attention", "S", 64, 37),
    ],
)
def test_an_end_that_is_wrong_for_one_remainder_is_found(name: str, param: str, of: int, rest: int) -> None:
    assert code(name, guarded(param, when(param, rest, of))) in ("TG418", "TG420", "TG404")


def test_an_end_that_is_wrong_where_one_size_is_below_another_is_found() -> None:
    n = Var("N", 1048577, 1, 1)
    assert code("transpose_any_size", guarded("M", lambda m: sub(m, less(m, n)))) in ("TG418", "TG420")


@pytest.mark.slow
def test_an_end_that_is_wrong_for_a_pair_of_remainders_is_found() -> None:
    n = Var("N", 1048577, 1, 1)
    both = guarded("M", lambda m: sub(m, every(equal(mod(m, 32), 7), equal(mod(n, 32), 9))))
    assert code("transpose_any_size", both) in ("TG418", "TG420")


@pytest.mark.sweep(1)
@pytest.mark.parametrize("meet", ["N // 128 % 97 != 50", "N != 128000", "N // 128 % 97 != 50 or N < 900000"])
def test_a_hazard_of_one_remainder_is_found(meet: str) -> None:
    with pytest.raises(ProofError, match="TG403"):
        tilegen.build(LONG.replace("MEET", meet))


PAIR = """kernel: pair
threads: 32
params: {M: {default: 8, max: 500}, N: {default: 6, max: 500}}
grid: {bx: M}
buffers:
  X: {scope: global, dtype: float32, shape: [M, N, 32]}
  Y: {scope: global, dtype: float32, shape: [M, N, 32]}
  A: {scope: shared, dtype: float32, shape: [2, 32]}
ops:
  - for: {t: N}
    do:
      - copy: {src: "X[bx, t]", dst: "A[t % 2]"}
      - sync: cta
      - copy: {src: "A[SLOT]", dst: "Y[bx, t]"}
      - sync: cta
"""


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "condition", ["M + N == 3", "M == 2 and N == 5", "bx == M - 3 and N < 3", "t == N - 2 and M == 7"]
)
def test_a_slot_that_two_sizes_together_make_wrong_is_found(condition: str) -> None:
    """None of these holds with the default of either."""
    right, wrong = (PAIR.replace("SLOT", slot) for slot in ("t % 2", f"(t + where({condition}, 1, 0)) % 2"))
    spec, plan = tilegen.load(right), plan_spec(tilegen.load(wrong))
    assert proof_code(lambda: prove(spec, plan_spec(spec))) == ""
    assert proof_code(lambda: prove(spec, plan))


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    "wrong",
    [
        "where(N % 11 == 5 and (N + bx) % 101 == 36, 1, 0)",  # 137 is the first
        "where(M % 11 == 5 and (N + bx) % 101 == 36 and N % 13 == 4, 1, 0)",  # and so M is 5
        "where(M % 11 == 5 and (N + t) % 101 == 36 and N % 13 == 4, 1, 0)",
        "where(N % 13 == 4 or N < 4, where(N == 7 * bx + 2, 1, 0), 0)",
        "N * N % 499 // 497",
    ],
)
def test_a_slot_that_conditions_together_make_wrong_is_found(wrong: str) -> None:
    spec, other = (tilegen.load(PAIR.replace("SLOT", f"(t + {n}) % 2")) for n in (0, wrong))
    assert proof_code(lambda: prove(spec, plan_spec(other)))


SIZED = """kernel: sized
params: {M: {default: 1000, max: 1048576}, N: {default: 512, max: 65536, multiple_of: 4}}
grid: {bx: 16}
threads: 128
buffers:
  X: {scope: global, dtype: float32, shape: [M + 64, N + 128]}
  Y: {scope: global, dtype: float32, shape: [M + 64, N + 128], partial: true}
ops:
  - copy: {src: "X[bx, :128]", dst: "Y[bx, :128]"}
"""
M, N, BX = Var("M", 1048577, 1, 1), Var("N", 65537, 4, 4), Var("bx", 16)


def left_out(condition: Index) -> tuple[Spec, Plan]:
    """Nothing is done where a condition holds."""
    spec = tilegen.load(SIZED)
    plan = plan_spec(spec)
    (role,) = plan.roles
    return spec, with_steps(plan, When(not_(condition), role.steps))


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "condition",
    [
        equal(M, 500000),
        every(equal(M, 500001), equal(BX, 3)),
        equal(M * BX, 1500003),
        every(equal(M, 300), equal(N, 1236)),
        equal(M * N, 49376),
    ],
)
def test_a_size_between_the_ends_is_found(condition: Index) -> None:
    spec, plan = left_out(condition)
    assert proof_code(lambda: prove(spec, plan)) == "TG420"


def test_a_condition_that_nobody_turned_is_said() -> None:
    spec, plan = left_out(equal(M * N % 1009, 500))
    assert any("'(size_t)M * N % 1009 != 500' comes out otherwise" in n for n in prove(spec, plan).notes)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["bx_count == 50", "bx_count % 3 == 2 and M < 3", "bx == bx_count - 40"])
def test_a_slot_that_one_count_of_ctas_makes_wrong_is_found(wrong: str) -> None:
    text = (SPECS / "tiles_resident.yaml").read_text()
    other = text.replace("tile[k % 2]", f"tile[(k + where({wrong}, 1, 0)) % 2]")
    assert proof_code(lambda: prove(tilegen.load(text), plan_spec(tilegen.load(other))))


@pytest.mark.slow
def test_a_parameter_that_grows_in_large_steps_is_compared_with_ctas() -> None:
    """Its first 128 values hold 0 alone, by which nothing can be divided."""
    text = """kernel: rows
threads: 32
params: {N: {default: 256, max: 4096, multiple_of: 128}}
grid: {bx: N // 64}
buffers:
  X: {scope: global, dtype: float32, shape: [2, N]}
  Y: {scope: global, dtype: float32, shape: [2, N]}
ops:
  - let: {row: bx // (N // 128), column: bx %% (N // 128) * 128}
  - copy: {src: "X[%s, column : +128]", dst: "Y[row, column : +128]"}
"""
    spec, other = (tilegen.load(text % row) for row in ("row", "where(bx // (N // 128) < 1, row, min(1, N // 512))"))
    assert proof_code(lambda: prove(spec, plan_spec(spec))) == ""
    assert proof_code(lambda: prove(spec, plan_spec(other))) == "TG420"


N, BX, K = Var("N", 1 << 20, 1, 1), Var("bx", 40), Var("k", 8)
CHUNKS = (N + 63) // 64


@pytest.mark.parametrize("x", [
    CHUNKS, (CHUNKS + 7) // 8, (CHUNKS - 1 - BX) * 64 + K * 8, BX * 64 - CHUNKS * 3, N % 48, N * 2 + K,
    CHUNKS + CHUNKS // 8 * 5, minimum(CHUNKS, N // 40),
])  # fmt: skip
def test_changes_of_what_rises_alone_are_found_by_halves(x):
    """Those that values one by one show, of quotients, of quotients of these, and beside what other variables add."""
    values = range(100, 1700, 4)
    grid = np.meshgrid(np.array(values), np.arange(40), np.arange(8), indexing="ij", sparse=True)
    found = np.broadcast_to(evaluate(x, dict(zip(("N", "bx", "k"), grid, strict=True))), (len(values), 40, 8))
    want = [values[k + 1] for k in range(len(values) - 1) if (found[k] != found[k + 1]).any()]
    changes = find_changes(x, dataclasses.replace(N, step=4), {"N": 100}, values)
    assert len(want) > 64 if changes is None else sorted(changes) == want
