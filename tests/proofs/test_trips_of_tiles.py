"""A loop over tiles in an order without a rule, proved by few of its trips: a fault in a trip left out is found."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pytest

import tilegen
from tests.faults.steps import is_a, mutate
from tests.faults.verdicts import proof_code
from tilegen.index import Index, Var, add, equal, mod
from tilegen.index.recurrences import ALL_TRIPS
from tilegen.interpret import Unsteady
from tilegen.plan import Await, Plan, Step
from tilegen.planner import plan_spec
from tilegen.proofs import looking, prove
from tilegen.proofs.meaning import check_meaning
from tilegen.proofs.runs import ProofRun, list_runs
from tilegen.proofs.trips import count_steps
from tilegen.spec.data import Spec

ORDER = "{g: t // (2*TN), i: t % (2*TN), rows: 'min(2, TM - g*2)', m: g*2 + i % rows, n: i // rows}"
LOAD_A = 'copy: {src: "A[m*8 : +8, k*32 : +32]", dst: "sa[E % 4]", variant: tma, edge: clip, barrier: "full[E % 4]"}'
LOAD_B = 'copy: {src: "B[n*8 : +8, k*32 : +32]", dst: "sb[E % 4]", variant: tma, barrier: "full[E % 4]"}'
MULTIPLY = 'elementwise: {dst: acc, expr: "acc + x * y", with: {x: "sa[E % 4]", y: "sb[E % 4]"}}'
STORE = 'copy: {src: out, dst: "D[m*8 : +8, n*32 : +32]", variant: tma, edge: clip}'
TEXT = f"""kernel: tiles
params: {{TM: 11, TN: 4, KT: 4, C: 2, ROWS: 88}}
grid: {{bx: C}}
roles:
  load: {{threads: 32}}
  math: {{threads: 64}}
barriers:
  full: {{slots: 4}}
  free: {{slots: 4, open: true}}
buffers:
  A: {{scope: global, dtype: float32, shape: [ROWS, KT*32]}}
  B: {{scope: global, dtype: float32, shape: [TN*8, KT*32]}}
  bias: {{scope: global, dtype: float32, shape: [TN*32]}}
  D: {{scope: global, dtype: float32, shape: [ROWS, TN*32]}}
  sa: {{scope: shared, dtype: float32, shape: [4, 8, 32]}}
  sb: {{scope: shared, dtype: float32, shape: [4, 8, 32]}}
  out: {{scope: shared, dtype: float32, shape: [8, 32]}}
  acc: {{scope: register, dtype: float32, shape: [8, 32], layout: auto}}
ops:
  - role: load
    do:
      - for: {{t: [bx, TM*TN, C]}}
        do:
          - let: {ORDER}
          - for: {{k: KT}}
            do:
              - wait: {{barrier: "free[E % 4]"}}
              - {LOAD_A}
              - {LOAD_B}
  - role: math
    do:
      - for: {{t: [bx, TM*TN, C]}}
        do:
          - let: {ORDER}
          - copy: {{src: "bias[n*32 : +32]", dst: "out[0]"}}
          - sync: role
          - elementwise: {{dst: acc, expr: b, with: {{b: "out[0]"}}}}
          - for: {{k: KT}}
            do:
              - wait: {{barrier: "full[E % 4]"}}
              - {MULTIPLY}
              - sync: role
              - arrive: {{barrier: "free[E % 4]"}}
          - copy: {{src: acc, dst: out}}
          - sync: async
          - sync: role
          - {STORE}
          - wait: {{tma: 0}}
          - sync: role
"""
LOAD, MATH = "load", "math"


def text(*changes: tuple[str, str], only: str = "") -> str:
    """The kernel with changes, in one role alone if that is said."""
    head, load, math = TEXT.partition("  - role: load")[0], *TEXT.split("  - role: ")[1:]
    parts = {"": head, LOAD: "  - role: " + load, MATH: "  - role: " + math}
    for old, new in changes:
        assert any(old in part for name, part in parts.items() if only in ("", name)), old
        parts = {name: part.replace(old, new) if only in ("", name) else part for name, part in parts.items()}
    return re.sub(r"\bE\b", "(t // C * KT + k)", "".join(parts.values()))


def load(source: str, **sizes: int) -> Spec:
    return tilegen.load(source, params=sizes or None)


@dataclass(frozen=True)
class Codes:
    """What all trips say of a plan, and what those that its proof runs: None where these are all in the end.

    ``is_cut``: some are left out.
    """

    full: str
    cut: str | None
    is_cut: bool


def code_of(spec: Spec, plan: Plan) -> str:
    """What the trips say that the proof runs: all, where others cannot be left out."""
    return proof_code(lambda: [_check_cut(spec, plan, run) for run in list_runs(spec, plan)])


def _check_cut(spec: Spec, plan: Plan, run: ProofRun) -> None:
    try:
        check_meaning(spec, plan, run.ctas, run.case, trips=run.cut.trips)
    except Unsteady:
        check_meaning(spec, plan, run.ctas, run.case)


def judge(spec: Spec, plan: Plan) -> Codes:
    """Of the runs alone: owners and ranges are not asked."""
    codes: list[tuple[str, str | None]] = []
    is_cut = False
    for run in list_runs(spec, plan):
        is_cut |= count_steps(plan, run.case, run.cut.trips) < count_steps(plan, run.case, ALL_TRIPS)
        check = partial(check_meaning, spec, plan, run.ctas, run.case)
        full = proof_code(check)
        try:
            codes.append((full, proof_code(partial(check, trips=run.cut.trips))))
        except Unsteady:
            codes.append((full, None))
    cut = [own for _, own in codes]
    found = next(filter(None, cut), None if None in cut else "")
    return Codes(next((full for full, _ in codes if full), ""), found, is_cut)


# ---------------------------------------------------------------- kernels without a fault
SIZES: dict[str, dict[str, int]] = {
    "as they are": {}, "cut at the edge": {"ROWS": 83}, "whole groups": {"TM": 10, "ROWS": 80},
    "a long group that is cut": {"TM": 3, "TN": 12, "ROWS": 19, "C": 1}, "one CTA": {"C": 1},
}  # fmt: skip


@pytest.mark.sweep(1)
@pytest.mark.parametrize("sizes", SIZES)
def test_tiles_without_a_rule_are_left_out(sizes: str) -> None:
    spec = load(text(), **SIZES[sizes])
    assert judge(spec, plan_spec(spec)) == Codes("", "", True)


def test_the_trips_that_ran_are_said() -> None:
    assert tilegen.build(load(text())).proof.notes[-1] == (
        "of the loop over t, 6 of up to 22 trips were run: in between, every 2 trips go as the last 2"
    )


@pytest.mark.slow
def test_a_short_loop_that_holds_a_long_one_is_cut_too() -> None:
    spec = load(text(), KT=32, C=6)  # eight tiles each, or seven
    notes = prove(spec, plan_spec(spec)).notes
    assert any("of the loop over t, 7 of up to 8 trips" in note for note in notes), notes


# ---------------------------------------------------------------- plans of another text
M, N = "m: g*2 + i % rows", "n: i // rows"
ROWS_OF, COLUMNS_OF = "where(t == 10, %s, g*2 + i %% rows)", "where(t == 10, %s, i // rows)"  # it has m = 2, n = 1
EXCHANGED = (M, f"m: '{ROWS_OF % 1}'"), (N, f"n: '{COLUMNS_OF % 2}'")
ALONG = (M, "m: t // TN"), (N, "n: t % TN")
OF_N, SHIFTED = "i // rows", "(i // rows + 1) % TN"
WAIT, FREE = 'wait: {barrier: "full[E % 4]"}', 'arrive: {barrier: "free[E % 4]"'
FAULTS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "m is another once": (LOAD, ((M, f"m: '{ROWS_OF % 3}'"),)),
    "n is another once": (LOAD, ((N, f"n: '{COLUMNS_OF % 2}'"),)),
    "m and n are exchanged once": (LOAD, EXCHANGED),
    "m and n are exchanged once in both roles": ("", EXCHANGED),
    "one row off once": (LOAD, (("A[m*8 :", "A[m*8 + where(t == 10, 1, 0) :"),)),
    "one row off in the last tile but five": (LOAD, (("A[m*8 :", "A[m*8 + where(t == 29, 1, 0) :"),)),
    "one column off once": (LOAD, (('A[m*8 : +8, k*32', 'A[m*8 : +8, k*32 + where(t == 10 and k == 1, 4, 0)'),)),
    "m is another once in one CTA": (LOAD, ((M, "m: 'where(t == 11, 2, g*2 + i % rows)'"),)),
    "n is another in one CTA": (LOAD, ((N, f"n: 'where(t % 2 == 1 and t < 21 and t > 12, {SHIFTED}, {OF_N})'"),)),
    "every other group from behind": (LOAD, ((N, "n: 'where(g % 2 == 0, i // rows, TN - 1 - i // rows)'"),)),
    "one group from behind": (LOAD, ((N, "n: 'where(g == 2, TN - 1 - i // rows, i // rows)'"),)),
    "groups of four": (LOAD, (("2*TN", "4*TN"), ("min(2, TM - g*2)", "min(4, TM - g*4)"), ("g*2 + i", "g*4 + i"))),
    "along the rows": (LOAD, ALONG),
    "n from the fifth tile on": (LOAD, ((N, f"n: 'where(t < 10, i // rows, {SHIFTED})'"),)),
    "n but in the first and last tiles": (LOAD, ((N, f"n: 'where(t > 35 or t < 6, i // rows, {SHIFTED})'"),)),
    "bias of another n once": (MATH, (("bias[n*32", "bias[(n + where(t == 10, 1, 0))*32"),)),
    "bias of another n once in one CTA": (MATH, (("bias[n*32", "bias[(n - where(t == 21, 1, 0))*32"),)),
    "bias of the first n": (MATH, (("bias[n*32", "bias[0"),)),
    "bias by a rule": (MATH, (("bias[n*32", "bias[t % 4*32"),)),
    "stored at the next tile once": (MATH, (("D[m*8", "D[(m + where(t == 10, 1, 0))*8"),)),
    "stored at another tile once": (MATH, (("D[m*8 : +8, n*32", "D[m*8 : +8, (n + where(t == 10, 2, 0))*32"),)),
    "stored at another tile once by one CTA": (MATH, (("D[m*8", "D[(m - where(t == 23, 1, 0))*8"),)),
    "not stored once": (MATH, ((STORE, STORE[:-1] + ', when: "t != 10"}'),)),
    "not stored where there is no rule": (MATH, ((STORE, STORE[:-1] + ', when: "m != 2 or n != 1"}'),)),
    "slots from the fifth tile on": (LOAD, (("sa[E % 4]", "sa[(E + where(t < 10, 0, 1)) % 4]"),)),
    "a slot once": (LOAD, (("sb[E % 4]", "sb[(E + where(t == 10, 1, 0)) % 4]"),)),
    "a slot that is multiplied once": (MATH, (("sb[E % 4]", "sb[(E + where(t == 10 and k == 2, 1, 0)) % 4]"),)),
    "a slot without a rule": (LOAD, (("sb[E % 4]", "sb[(E + where(m == 5 and n == 2, 1, 0)) % 4]"),)),
    "a product is left out once": (MATH, ((MULTIPLY, MULTIPLY[:-1] + ", when: 't != 10 or k != 2'}"),)),
    "nobody waits once": (MATH, ((f"- {WAIT}", f"- when: t != 10\n                do:\n                  - {WAIT}"),)),
    "no sync once": (MATH, (("- sync: async", "- {sync: async, when: t != 10}"),)),
    "a stage is not freed once": (MATH, ((FREE, FREE + ", when: t != 10 or k != 1"),)),
}  # fmt: skip


@pytest.mark.sweep(2)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_tile_that_is_left_out_is_found(fault: str) -> None:
    only, changes = FAULTS[fault]
    spec, plan = load(text()), plan_spec(load(text(*changes, only=only)))
    assert code_of(spec, plan)


@pytest.mark.slow
def test_most_faults_are_found_although_tiles_are_left_out() -> None:
    plans = [plan_spec(load(text(*changes, only=only))) for only, changes in FAULTS.values()]
    runs = [(plan, run) for plan in plans for run in list_runs(load(text()), plan)]
    cut = [count_steps(plan, {}, run.cut.trips) < count_steps(plan, {}, ALL_TRIPS) for plan, run in runs]
    assert sum(cut) > 2 * len(FAULTS) // 3


@pytest.mark.sweep(1)
@pytest.mark.parametrize("trip", [1, 7, 19])
@pytest.mark.parametrize("role", [LOAD, MATH])
def test_a_phase_that_does_not_count_the_tiles_is_found(role: str, trip: int) -> None:
    """The parity of a wait in one tile, or in all, is that of the tile before."""
    spec = load(text())
    plan = plan_spec(spec)
    for when in (1, equal(Var("t_trip", 22), trip)):
        wrong = mutate(plan, is_a(Await), partial(_turn_parity, when), role=role)
        assert code_of(spec, wrong)


def _turn_parity(when: Index, step: Await) -> tuple[Step, ...]:
    return (replace(step, parity=mod(add(step.parity, when), 2)),)


def test_a_store_that_is_not_cut_at_the_edge_is_found() -> None:
    """The plan takes the array to have five rows more: boxes of the last group of tiles end within it."""
    spec, plan = load(text(), ROWS=83), plan_spec(load(text()))
    assert code_of(spec, plan)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("tile", [24, 28, 29, 33, 35])
def test_a_store_that_is_cut_more_in_one_tile_at_the_edge_is_found(tile: int) -> None:
    """The last of three rows of tiles, tiles 24 to 35, has three rows of elements; the store of one of them has two."""
    less = STORE.replace("src: out", "src: 'out[0:2]'").replace("+8, n", "+2, n").replace("}", f", when: t == {tile}}}")
    both = f"{STORE[:-1]}, when: 't != {tile}'}}\n          - {less}"
    sizes = SIZES["a long group that is cut"]
    assert code_of(load(text(), **sizes), plan_spec(load(text((STORE, both)), **sizes))) == "TG420"


# ---------------------------------------------------------------- what is never cut
def test_an_array_that_is_read_and_written_is_not_cut() -> None:
    changes = ('"bias[n*32 : +32]"', '"D[m*8, n*32 : +32]"'), (STORE, STORE.replace(", variant: tma", ""))
    source = text(*changes, ("          - wait: {tma: 0}\n", ""), ("          - sync: async\n", ""), only=MATH)
    (run,) = list_runs(spec := load(source), plan_spec(spec))
    assert "t_trip" not in run.cut.trips.loops and "read and written" in run.cut.uncut[0].what


def test_tiles_that_a_cta_writes_twice_are_not_cut() -> None:
    twice = M, "m: 'g*2 + i % rows - where(t == 22, 2, 0)'"  # as tile 14
    source = text(twice, ("[ROWS, TN*32]}", "[ROWS, TN*32], partial: true}"))
    (run,) = list_runs(spec := load(source), plan_spec(spec))
    assert "t_trip" not in run.cut.trips.loops and "the same elements" in run.cut.uncut[0].what


def test_what_is_too_much_to_look_at_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "MOST_SEEN", 30)  # of 44 tiles
    (run,) = list_runs(spec := load(text()), plan_spec(spec))
    assert "t_trip" not in run.cut.trips.loops


# ---------------------------------------------------------------- orders drawn at random
OF_M = "g*G + i % rows"
ORDERS = (  # m and n
    (OF_M, OF_N), ("t // TN", "t % TN"), ("t % TM", "t // TM"), (f"TM - 1 - ({OF_M})", OF_N),
    (OF_M, "where(g % 2 == 0, i // rows, TN - 1 - i // rows)"), ("(t * 7 + t // TM) % TM", "t // TM"),
    ("t // TN", "(t * 3 + t // TN) % TN"),
)  # fmt: skip


def draw(rng: random.Random) -> tuple[tuple[str, str], dict[str, int]]:
    """An order of tiles, and sizes: at least 17 tiles for a CTA."""
    while True:
        sizes = {"TM": rng.randrange(4, 13), "TN": rng.randrange(2, 7), "C": rng.choice([1, 2, 2, 3])}
        if 17 <= sizes["TM"] * sizes["TN"] // sizes["C"] <= 24:
            break
    m, n = rng.choice(ORDERS)
    names = f"{{g: t // (G*TN), i: t % (G*TN), rows: 'min(G, TM - g*G)', m: '{m}', n: '{n}'}}"
    rows = sizes["TM"] * 8 - rng.choice([0, 0, 0, 1, 5])
    return (ORDER, names.replace("G", rng.choice("1234"))), sizes | {"KT": rng.choice([2, 4, 4]), "ROWS": rows}


def plant(rng: random.Random, sizes: dict[str, int]) -> tuple[str, str]:
    """A place or a slot that is another where some condition holds."""
    tile = rng.randrange(sizes["TM"] * sizes["TN"])
    m, n = tile % sizes["TM"], tile % sizes["TN"]
    when = rng.choice([
        f"t == {tile}", f"t > {tile}", f"t < {tile}", f"t % 5 == {tile % 5}", f"g == {tile % 3}", f"i == {tile % 4}",
        f"m == {m} and n == {n}", f"bx == 0 and t > {tile}", f"t * t % 7 == {tile % 7}",
    ])  # fmt: skip
    old, new = rng.choice([
        ("A[m*8", "A[where(Q, max(m, 1) - 1, m)*8"), ("B[n*8", "B[where(Q, (n + 1) % TN, n)*8"),
        ("bias[n*32", "bias[where(Q, (n + 1) % TN, n)*32"), ("D[m*8", "D[where(Q, max(m, 1) - 1, m)*8"),
        ('dst: "sa[E % 4]', 'dst: "sa[(E + where(Q, 1, 0)) % 4]'), ("A[m*8", "A[m*8 - where(Q and m > 0, 1, 0)"),
        ('y: "sb[E % 4]', 'y: "sb[(E + where(Q, 1, 0)) % 4]'),
    ])  # fmt: skip
    return old, new.replace("Q", when)


def differences(seeds: Sequence[int]) -> tuple[list[object], int]:
    """Kernels of which few trips say something else than all, as they are or with a fault; how many were cut."""
    found: list[object] = []
    count = 0
    for seed in seeds:
        rng = random.Random(seed)
        order, sizes = draw(rng)
        spec = load(text(order), **sizes)
        for changes in ((order,), (order, plant(rng, sizes))):
            codes = judge(spec, plan_spec(load(text(*changes), **sizes)))
            count += codes.is_cut
            if bool(codes.full) != bool(codes.cut) and codes.cut is not None:
                found.append((seed, sizes, changes, codes))
    return found, count


@pytest.mark.slow
def test_few_trips_of_any_order_find_what_all_find() -> None:
    found, cut = differences(range(5))
    assert not found and cut > 5


@pytest.mark.slow
def test_few_trips_of_many_orders_find_what_all_find() -> None:
    found, cut = differences(range(5, 80))
    assert not found and cut > 75


# ---------------------------------------------------------------- what is computed
DOUBLED = """kernel: doubled
threads: 32
grid: {bx: 20}
buffers:
  X: {scope: global, dtype: float32, shape: [20, 64, 32]}
  Y: {scope: global, dtype: float32, shape: [20, 64, 32]}
  r: {scope: register, dtype: float32, shape: [32], layout: auto}
ops:
  - for: {t: 64}
    do:
      - copy: {src: "X[bx, t]", dst: r}
      - elementwise: {dst: r, expr: "%s"}
      - copy: {src: r, dst: "Y[bx, t]"}
"""


@pytest.mark.parametrize("when", ["t == 40", "t * t == 1600", "bx == 10"])
def test_a_plan_that_computes_the_same_in_every_trip_is_found(when: str) -> None:
    """Where the spec computes something else in one trip, or in one CTA."""
    spec = load(DOUBLED % f"where({when}, r + r, r)")
    assert code_of(spec, plan_spec(spec)) == ""
    assert code_of(spec, plan_spec(load(DOUBLED % "r * 1.0"))) == "TG420"
