"""A long loop of several roles proved by few trips: a fault between the roles is found as it is by all trips."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import tilegen
from tests.faults.texts import change_text
from tests.faults.verdicts import proof_code
from tests.session import once
from tests.specs.test_roles import ORDERS, ring
from tilegen.interpret import Unsteady
from tilegen.planner import plan_spec
from tilegen.proofs.meaning import check_meaning
from tilegen.proofs.runs import check_run, list_runs

GEMM = Path(__file__).parents[2] / "specs" / "hgemm_roles.yaml"
SIZES = {"M": 128, "N": 256, "K": 4096}
WAIT_FREE = '          - wait: {barrier: "free[k % 4]"}\n'
WAIT_FULL = '          - wait: {barrier: "full[k % 4]"}\n'
FREE = '          - arrive: {scope: warpgroup, barrier: "free[(k - 1) % 4]", when: k > 0}\n'
WAIT_MMA = "          - wait: {mma: 1}\n"
LOADED = ', variant: tma, barrier: "full[k % 4]"}'


@cache
def codes(text: str, **params: int) -> tuple[str, str | None]:
    """What all trips say of a spec, and what those say that its proof runs: None if these are all trips."""
    spec = tilegen.load(text, params=params or None)
    plan = plan_spec(spec)
    (run,) = list_runs(spec, plan)
    full = proof_code(lambda: check_meaning(spec, plan, run.ctas, run.case))
    if not run.cut.trips.loops:
        return full, None
    try:
        return full, proof_code(lambda: check_meaning(spec, plan, run.ctas, run.case, trips=run.cut.trips))
    except Unsteady:
        return full, None


# ---------------------------------------------------------------- a GEMM of 64 trips
@once
def gemm() -> str:
    """The spec with the layouts that are chosen for it: with a fault they are the same."""
    text, spec = GEMM.read_text(encoding="utf-8"), tilegen.load(GEMM)
    for name in ("sa", "sb", "out"):
        head, rest = text.split(f"  {name}: ", 1)
        text = f"{head}  {name}: " + rest.replace("layout: auto", f'layout: "{spec.buffer(name).layout}"', 1)
    return text


def planted(*changes: tuple[str, str]) -> str:
    return change_text(gemm(), *changes)


@pytest.mark.slow
def test_few_trips_of_a_gemm_are_run_and_said() -> None:
    built = tilegen.build(tilegen.load(gemm(), params=SIZES))
    assert built.proof.notes[-1] == (
        "of the loop over k, 24 of 64 trips were run: in between, every 8 trips go as the last 8"
    )


def test_a_gemm_of_any_length_takes_as_many_steps() -> None:
    steps = []
    for k in (4096, 1 << 18):
        spec = tilegen.load(gemm(), params=SIZES | {"K": k})
        plan = plan_spec(spec)
        (run,) = list_runs(spec, plan)
        took, trips = check_run(spec, plan, run)
        assert trips == run.cut.trips and trips.loops
        steps.append(took)
    assert steps[0] == steps[1]


def _when(statement: str, condition: str) -> str:
    return f"          - when: {condition}\n            do:\n    {statement}"


LOAD, MULTIPLY = ("      - for: {k: K // 64}\n        do:\n" + wait for wait in (WAIT_FREE, WAIT_FULL))
FAULTS = {
    "another stage is filled": ((', dst: "sa[k % 4]"', ', dst: "sa[(k + 1) % 4]"'),),
    "another stage is multiplied": (('b: "sb[k % 4]"', 'b: "sb[(k + 1) % 4]"'),),
    "another stage is said to be full": ((LOADED, LOADED.replace("k %", "(k + 1) %")),),
    "nobody waits for a free stage": ((WAIT_FREE, ""),),
    "nobody waits for the data": ((WAIT_FULL, ""),),
    "one late trip does not wait for the data": ((WAIT_FULL, _when(WAIT_FULL, "k != 40")),),
    "late trips do not wait for a free stage": ((WAIT_FREE, _when(WAIT_FREE, "k < 50")),),
    "freed before the product was waited for": ((WAIT_MMA, ""), (FREE, FREE + WAIT_MMA)),
    "freed while the product runs": (("(k - 1) % 4]", "k % 4]"), (", when: k > 0", "")),
    "one late stage is not freed": (("when: k > 0", "when: k > 0 and k != 44"),),
    "a stage too few": (("[4, 128, 64]", "[3, 128, 64]"), ("(4, 128, 64)", "(3, 128, 64)"), ("sa[k % 4", "sa[k % 3")),
    "a trip less is loaded": ((LOAD, LOAD.replace("64}", "64 - 1}")),),
    "a trip less is multiplied": ((MULTIPLY, MULTIPLY.replace("64}", "64 - 1}")),),
    "whole periods less are multiplied": ((MULTIPLY, MULTIPLY.replace("64}", "64 - 16}")),),
}  # fmt: skip


@pytest.mark.sweep(2)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_long_loop_is_found_by_few_trips(fault: str) -> None:
    full, cut = codes(planted(*FAULTS[fault]), **SIZES)
    assert full and cut != "", (full, cut)  # None: then all trips are run


@pytest.mark.slow
def test_most_faults_are_found_without_all_trips() -> None:
    found = [codes(planted(*changes), **SIZES)[1] for changes in FAULTS.values()]
    assert sum(code is not None for code in found) > len(FAULTS) - 3


# ---------------------------------------------------------------- phases
TILES = """kernel: tiles
roles:
  load: {threads: 32}
  move: {threads: 64}
barriers:
  full: {slots: 4}
  free: {slots: 4, open: true}
buffers:
  X: {scope: global, dtype: float32, shape: [3, 40, 64]}
  Y: {scope: global, dtype: float32, shape: [3, 40, 64]}
  s: {scope: shared, dtype: float32, shape: [4, 64]}
ops:
  - role: load
    do:
      - for: {t: 3}
        do:
          - let: {first: FIRST}
          - for: {k: 40}
            do:
              - wait: {barrier: "free[(first + k) % 4]"}
              - copy: {src: "X[t, k]", dst: "s[(first + k) % 4]", variant: tma, barrier: "full[(first + k) % 4]"}
  - role: move
    do:
      - for: {t: 3}
        do:
          - let: {first: FIRST}
          - for: {k: 40}
            do:
              - wait: {barrier: "full[(first + k) % 4]"}
              - copy: {src: "s[(first + k) % 4]", dst: "Y[t, k]"}
              - sync: role
              - arrive: {barrier: "free[(first + k) % 4]"}
"""


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("first", "code"), [
    ("t * 40", ""), ("t * 44", "TG434"), ("t * 36", "TG434"), ("t * 48", "TG433"), ("t * 41", "TG423"), ("4", "TG404"),
    ("0", "TG433"),
])  # fmt: skip
def test_phases_count_on_from_one_long_loop_to_the_next(first: str, code: str) -> None:
    """Phases of 4 slots: what is wrong by 4 is the right slot, and by 8 the right parity too."""
    full, cut = codes(TILES.replace("FIRST", first))
    assert (full, cut) == (code, code)


def test_a_phase_that_jumps_in_one_role_alone() -> None:
    for number in (1, 2):
        pieces = TILES.split("FIRST")
        wrong = "t * 40".join(pieces[:number]) + "t * 44" + "t * 40".join(pieces[number:])
        full, cut = codes(wrong)
        assert full and cut != ""


# ---------------------------------------------------------------- loops that differ between roles
def long_ring(order: str, loads: str, moves: str, name: str = "k") -> str:
    """The ring of other tests with long loops, that of ``move`` over another name."""
    text = ring(order).replace("[7, 256]}", "[80, 256]}", 1).replace("[7, 256]}", "[80, 256], partial: true}")
    head, *blocks = text.split("  - role: ")
    of = {"load": ("k", loads), "move": (name, moves)}
    for block in blocks:
        own, count = of[block.split()[0]]
        head += "  - role: " + re.sub(r"\bk\b", own, block).replace(": 7}", f": {count}}}")
    return head


every_order = pytest.mark.parametrize("order", ORDERS)


@pytest.mark.sweep(1)
@every_order
def test_loops_of_equal_counts_are_cut(order: str) -> None:
    for count in (40, 41, 43, 80):
        assert codes(long_ring(order, f"{count}", f"{count}")) == ("", "")


@pytest.mark.slow
@every_order
def test_loops_of_other_names_run_in_full(order: str) -> None:
    assert codes(long_ring(order, "64", "64", "j")) == ("", None)
    for count in range(40, 64, 3):
        assert codes(long_ring(order, "64", f"{count}", "j"))[0] != ""
    built = tilegen.build(long_ring(order, "64", "64", "j"))
    assert not any("trips were run" in note for note in built.proof.notes)


@pytest.mark.slow
@every_order
def test_loops_of_other_counts_are_wrong_in_the_cut_run_too(order: str) -> None:
    for loads, moves in ((64, 62), (64, 60), (64, 56), (64, 48), (64, 24), (48, 64), (62, 64)):
        full, cut = codes(long_ring(order, f"{loads}", f"{moves}"))
        assert full and cut != "", (loads, moves)


@pytest.mark.slow
@every_order
def test_a_loop_in_two_parts_in_one_role(order: str) -> None:
    """Stages that one role empties in two loops, the other fills in one: right, cut or not."""
    text = long_ring(order, "64", "64")
    head, _, tail = text.partition("  - role: move\n    do:\n")
    loop, _, more = tail.partition("  - role:")
    more = f"  - role:{more}" if more else ""
    for first in (2, 20, 40):
        second = loop.replace("k: 64", f"k: [{first}, 64]")
        parts = f"{head}  - role: move\n    do:\n{loop.replace('k: 64', f'k: {first}')}{second}{more}"
        full, cut = codes(parts)
        assert full == "" and cut in ("", None), (first, full, cut)
        missing = parts.replace(f"[{first}, 64]", f"[{first + 1}, 64]")
        assert codes(missing)[0] and codes(missing)[1] != ""


@every_order
def test_a_role_ahead_by_a_trip(order: str) -> None:
    """It ends a trip later, as attention's consumer does: both leave out the same trips."""
    text = long_ring(order, "64", "65")
    body = text.partition("      - for: {k: 65}\n        do:\n")[2].partition("  - role:")[0]
    inner = "          - when: k < 64\n            do:\n" + "".join(f"    {line}\n" for line in body.splitlines())
    assert codes(text.replace(body, inner)) == ("", "")


# ---------------------------------------------------------------- a role that reads a stage ahead
RING = GEMM.with_name("hgemm_ring.yaml")
LONG = {"M": 256, "N": 128, "K": 2048, "C": 1}
MET, FREED = "              - &met {sync: warp}\n", 'barrier: "free[(first + k - 1) % 4]"'
AHEAD = {
    "": ("", ""),
    "freed before all lanes have read": (MET, "              - &met {let: {none: 0}}\n"),
    "another stage is freed": (FREED, FREED.replace("k - 1", "k")),
    "another stage is read": ("sa[(first + k - 1) % 4", "sa[(first + k) % 4"),
    "nobody waits for the data": ("              - *come\n", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", AHEAD)
def test_a_loop_whose_last_trip_stands_apart(fault: str) -> None:
    """The last slices of K stand in a loop of one trip, whose variable has the name of the long one's."""
    text = RING.read_text(encoding="utf-8")
    old, new = AHEAD[fault]
    assert old in text
    full, cut = codes(text.replace(old, new), **LONG)
    assert cut is not None and bool(full) == bool(cut) == bool(fault), (full, cut)
