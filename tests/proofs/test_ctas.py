"""Which CTAs a proof runs, and kernels whose faults only some CTA shows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tilegen
from tests.faults.parts import change_parts
from tests.faults.texts import change_text
from tests.faults.verdicts import proof_code
from tilegen.errors import ProofError, SpecError
from tilegen.index import Var, equal, mod, mul, variables
from tilegen.plan import Plan, Ref
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.meaning import check_meaning
from tilegen.proofs.runs import list_runs
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of

MIDDLE = """kernel: middle
threads: 64
grid: {bx: 9}
buffers:
  X: {scope: global, dtype: float32, shape: [9, 64]}
  Y: {scope: global, dtype: float32, shape: [9, 64]}
  t: {scope: shared, dtype: float32, shape: [64]}
ops:
  - copy: {src: "X[bx]", dst: t}
  - sync: cta
  - copy: {scope: warp, src: "t[(1-warpid)*32 : +32]", dst: "Y[bx, warpid*32 : +32]", when: bx == 4}
  - copy: {src: t, dst: "Y[bx]", when: bx != 4}
"""
LOOPS = """kernel: loops
threads: 32
grid: {bx: 4}
buffers:
  X: {scope: global, dtype: float32, shape: [16, 32]}
  Y: {scope: global, dtype: float32, shape: [16, 32], partial: true}
ops:
  - for: {%s}
    do:
      - copy: {scope: warp, src: "X[%s]", dst: "Y[%s]"%s}
"""
FILL = """kernel: filled
threads: 32
buffers: {Y: {scope: global, dtype: %s, shape: [32]}}
ops:
  - fill: {dst: Y, value: %s}
"""


def test_a_cta_runs_for_each_outcome_of_a_condition() -> None:
    built = tilegen.build(MIDDLE)
    assert (4, 0, 0) in built.proof.runs[0][1]
    assert not built.proof.warnings


def test_a_hazard_that_only_a_middle_cta_has_is_found() -> None:
    with pytest.raises(ProofError, match="TG403"):
        tilegen.build(MIDDLE.replace("  - sync: cta\n", ""))


@pytest.mark.parametrize(
    ("loops", "row", "when"),
    [
        ("i: [bx, 16, 4]", "i", ""),
        ("i: [0, 12, 3], j: [i, i + 3]", "j", ", when: bx == 0"),
        ("i: 4, j: i + 1", "i*4 + j", ", when: bx == 0"),
    ],
)
def test_loops_that_start_or_end_where_others_say(loops: str, row: str, when: str) -> None:
    assert tilegen.build(LOOPS % (loops, row, row, when)).proof.steps
    tilegen.explain(LOOPS % (loops, row, row, when))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("float16", "70000"), ("float16", "2049"), ("float32", "1e-46"), ("float32", "3.5e38"), ("float32", "16777217")],
)
def test_a_fill_that_would_store_another_number_is_refused(dtype: str, value: str) -> None:
    with pytest.raises(SpecError, match="is not a value of"):
        tilegen.build(FILL % (dtype, value))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("float32", "-0.0"), ("bfloat16", "0.1"), ("int64", "-9223372036854775808"), ("uint64", "18446744073709551615")],
)
def test_a_fill_that_the_dtype_holds_is_built(dtype: str, value: str) -> None:
    assert tilegen.build(FILL % (dtype, value)).source


CAUSAL = """kernel: causal
threads: 32
params: {N: {default: 4096, max: 10000}}
grid: {bx: ceil(N / 64), by: 8}
buffers:
  X: {scope: global, dtype: float32, shape: [8, N, 32]}
  Y: {scope: global, dtype: float32, shape: [8, ceil(N / 64), 32]}
  A: {scope: shared, dtype: float32, shape: [2, 32, 32]}
ops:
  - let: {trips: "min(ceil(N / 32), bx*2 + 2)"}
  - for: {j: trips}
    do:
      - copy: {src: "X[by, j*32 : +32]", dst: "A[j % 2]", edge: clip}
      - sync: cta
      - copy: {src: "A[j % 2, :, 31]", dst: "Y[by, bx]", when: j == trips - 1 and j*32 + 32 <= N}
      - copy: {src: "A[j % 2, :, 0]", dst: "Y[by, bx]", when: j == trips - 1 and j*32 + 32 > N}
      - sync: cta
"""


@pytest.mark.slow
def test_a_loop_as_long_as_the_cta_says_runs_with_a_few_ctas() -> None:
    runs = tilegen.build(CAUSAL).proof.runs
    assert max(len(ctas) for _, ctas in runs) <= 8
    ran = [(dict(case)["N"], bx) for case, ctas in runs for bx, _, _ in ctas]
    trips = {(min(-(-n // 32), 2 * bx + 2), n % 32 > 0) for n, bx in ran}
    assert {count for count, _ in trips} >= set(range(1, 7))  # a head of 3, then by a period of 2
    assert {(1, True), (2, True), (3, True), (4, True)} <= trips
    assert {by for _, ctas in runs for _, by, _ in ctas} >= {0, 1, 6, 7}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("parity", [0, 1])
def test_a_hazard_of_a_cut_tile_in_one_slot_is_found(parity: int) -> None:
    """Only in the last trip, where it is cut at the edge, and only in one of two slots nothing is awaited."""
    sync = "      - sync: cta\n"
    source = CAUSAL.replace(sync, f"{sync}        when: j*32 + 32 <= N or j % 2 != {parity}\n", 1)
    with pytest.raises(ProofError, match="TG403"):
        tilegen.build(source)


LETS = """kernel: lets
threads: 32
grid: {bx: 9, by: 9}
buffers:
  X: {scope: global, dtype: float32, shape: [9, 144, 32]}
  Y: {scope: global, dtype: float32, shape: [9, 144, 32], partial: true}
  A: {scope: shared, dtype: float32, shape: [16, 32]}
ops:
  - let: {row: bx*16, head: by}
  - copy: {src: "X[head, row : +16]", dst: A}
  - sync: cta
  - copy: {src: "A[%s]", dst: "Y[head, row]"}
"""


def test_a_name_for_what_only_moves_on_takes_no_ctas_of_its_own() -> None:
    ((_, ctas),) = tilegen.build(LETS % "0").proof.runs
    assert len(ctas) == 4


def test_a_name_that_chooses_a_place_in_shared_memory_takes_some() -> None:
    ((_, ctas),) = tilegen.build(LETS % "row // 16 % 5").proof.runs
    assert {bx % 5 for bx, _, _ in ctas} == {0, 1, 2, 3, 4}


# ---------------------------------------------------------------- rows that CTAs take in another order
ROWS = """kernel: rows
threads: 32
grid: {bx: 96}
buffers:
  X: {scope: global, dtype: float32, shape: [97, 32]}
  Y: {scope: global, dtype: float32, shape: [97, 32], partial: true}
ops:
  - copy: {src: "X[%s]", dst: "Y[%s]"}
"""
ORDERS = {  # along 96 CTAs; all but the first agree in the corners
    "as they are": "bx",
    "two exchanged in 24": "bx + where(bx % 24 == 13, 1, 0) - where(bx % 24 == 14, 1, 0)",
    "one is another": "where(bx == 50, 51, bx)",
    "two exchanged": "bx + where(bx == 40, 1, 0) - where(bx == 41, 1, 0)",
    "without a rule": "where(bx * bx % 97 == 50, bx + 1, bx)",
    "by columns of 12": "where(bx < 2, bx, where(bx > 93, bx, bx % 12 * 8 + bx // 12))",
}
FIRST_ROW = "where(bx < 2, 0, where(bx > 93, 0, bx % 12))"


@pytest.mark.sweep(8)
@pytest.mark.parametrize("planned", ORDERS)
@pytest.mark.parametrize("meant", ORDERS)
def test_rows_of_another_order_are_found(meant: str, planned: str) -> None:
    """Of a plan that reads, or writes, them in the order of another spec."""
    spec = tilegen.load(ROWS % (ORDERS[meant], "bx"))
    other = plan_spec(tilegen.load(ROWS % (ORDERS[planned], "bx")))
    assert proof_code(lambda: prove(spec, other)) == ("" if meant == planned else "TG420")
    spec, other = (tilegen.load(ROWS % ("bx", ORDERS[order])) for order in (meant, planned))
    if proof_code(lambda: prove(spec, plan_spec(spec))) == "":  # each CTA has rows of its own
        found = proof_code(lambda: prove(spec, plan_spec(other)))
        assert (found == "") == (meant == planned), found


IN_PLACE = """kernel: in_place
threads: 32
grid: {bx: 96}
buffers:
  X: {scope: global, dtype: float32, shape: [97, 32], partial: true}
  t: {scope: register, dtype: float32, shape: [32], layout: auto}
ops:
  - copy: {src: "X[%s]", dst: t}
  - elementwise: {dst: t, expr: t * 2}
  - copy: {src: t, dst: "X[%s]"}
"""


def run_all(spec: Spec, plan: Plan) -> str:
    """What is found where every CTA runs."""
    (n, *_) = launch_of(spec).grid
    return proof_code(partial(check_meaning, spec, plan, [(k, 0, 0) for k in range(n)], {}))


def test_two_that_exchange_their_rows_speak_for_no_other() -> None:
    """CTAs 70 and 71 do, and those that run; 60 and 51 take a row that is another's."""
    order = "bx + where(bx == 70 or bx == 60, 1, 0) - where(bx == 71 or bx == 51, 1, 0)"
    spec, other = tilegen.load(ROWS % ("bx", "bx")), plan_spec(tilegen.load(ROWS % (order, order)))
    assert run_all(spec, other) == "TG405"
    assert proof_code(partial(prove, spec, other))


@pytest.mark.parametrize("order", ORDERS.values())
def test_rows_that_are_changed_in_place_are_found_where_one_cta_takes_another(order: str) -> None:
    spec = tilegen.load(IN_PLACE % ("bx", "bx"))
    (run,) = list_runs(spec, plan_spec(spec))
    assert len(run.ctas) == 4  # each reads what it writes itself
    for read, written in ((order, "bx"), ("bx", order), (order, order)):
        other = plan_spec(tilegen.load(IN_PLACE % (read, written)))
        assert (proof_code(partial(prove, spec, other)) == "") == (order == "bx"), (read, written)


def test_a_row_that_all_ctas_read_is_found() -> None:
    spec, other = (tilegen.load(ROWS % (row, "bx")) for row in (FIRST_ROW, "0"))
    assert proof_code(lambda: prove(spec, plan_spec(spec))) == ""
    assert proof_code(lambda: prove(spec, plan_spec(other))) == "TG420"


@pytest.mark.parametrize("row", [
    "bx + where(N == 11 and bx == 0, 1, 0)", "bx + where(N == 11 and bx == 4, 1, 0)",
    "where(N == 11, where(bx == 0, 1, bx), bx)",
    "min(bx + where(N == 11, bx // 6, 0), N - 1)",
])  # fmt: skip
def test_a_row_that_is_wrong_for_some_sizes_alone_is_found(row: str) -> None:
    """Of 11 rows, the third of the lengths that are proved; with the 8 of the default all is right."""
    text = ROWS.replace("bx: 96", "bx: N").replace("[97, 32]", "[N, 32]").replace("threads: 32", "threads: 32\n%s")
    sizes = "params: {N: {default: 8, max: 5000}}"
    spec, other = (tilegen.load(text % (sizes, own, "bx")) for own in ("bx", row))
    assert proof_code(lambda: prove(spec, plan_spec(spec))) == ""
    assert proof_code(lambda: prove(spec, plan_spec(other))) == "TG420"


TILES = """kernel: tiles
threads: 32
grid: {bx: 12}
buffers:
  X: {scope: global, dtype: float32, shape: [96, 32]}
  Y: {scope: global, dtype: float32, shape: [96, 32], partial: true}
  A: {scope: shared, dtype: float32, shape: [5, 32]}
ops:
  - for: {t: ["%s", 96, 12]}
    do:
      - copy: {src: "X[t]", dst: "A[%s]"}
      - sync: cta
      - copy: {src: "A[%s]", dst: "Y[t]", when: "t %% 96 != %s"}
      - sync: cta
"""
STARTS = ["bx", "bx + where(bx == 5, 1, 0) - where(bx == 6, 1, 0)", "where(bx == 7, bx + 12, bx)"]


@pytest.mark.parametrize("planned", STARTS)
@pytest.mark.parametrize("meant", STARTS)
def test_a_loop_that_begins_elsewhere_in_one_cta_is_found(meant: str, planned: str) -> None:
    """All begin alike in the corners; where a loop begins is told by the places and conditions inside alone."""
    places = "t % 5", "t % 5", "200"
    spec, other = (tilegen.load(TILES % (start, *places)) for start in (meant, planned))
    assert (proof_code(lambda: prove(spec, plan_spec(other))) == "") == (meant == planned)


@pytest.mark.parametrize("places", [("t % 5", "(t + where(bx == 6, 1, 0)) % 5", "200"), ("t % 5", "t % 5", "54")])
@pytest.mark.parametrize("is_meant", [False, True])
def test_a_slot_or_a_condition_of_a_loop_that_is_wrong_in_one_cta_is_found(places: tuple, is_meant: bool) -> None:
    texts = (TILES % ("bx", "t % 5", "t % 5", "200"), TILES % ("bx", *places))
    spec, other = (tilegen.load(text) for text in (texts[::-1] if is_meant else texts))
    assert proof_code(lambda: prove(spec, plan_spec(other)))


def test_a_loop_that_begins_where_the_cta_says_takes_no_ctas_of_its_own() -> None:
    """Tiles in groups of 8, as a gemm takes them: eight residues that do the same."""
    row = "t // 32 * 32 + t % 8 * 4 + t % 32 // 8"
    text = (TILES % ("bx", "0", "0", "200")).replace("12", "64").replace("96", "128")
    spec = tilegen.load(text.replace("X[t]", f"X[{row}]").replace("Y[t]", f"Y[{row}]"))
    (run,) = list_runs(spec, plan_spec(spec))
    assert len(run.ctas) == 4


def test_tiles_in_groups_run_in_few_ctas() -> None:
    """Rows of groups of 4, row by row: what goes along with the spec shows itself in few of 96 CTAs."""
    spec = tilegen.load(ROWS % (row := "bx // 48 * 48 + bx % 4 * 12 + bx % 48 // 4", row))
    (run,) = list_runs(spec, plan_spec(spec))
    assert len(run.ctas) < 8


@pytest.mark.slow
@pytest.mark.parametrize("less", [1, 2, 40])
def test_a_condition_that_one_cta_too_few_fulfils_is_found(less: int) -> None:
    """The CTA that makes the last tile is neither at a corner of the grid nor the first of its kind."""
    path = Path("specs/tiles_resident.yaml")
    planned = path.read_text(encoding="utf-8").replace("when: next < tiles", f"when: next < tiles - {less}")
    spec, other = tilegen.load(path), plan_spec(tilegen.load(planned))
    assert proof_code(lambda: prove(spec, other)) == "TG420"


MANY = """kernel: many
grid: {bx: BX, by: 7}
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [7, 128000]}
  Y: {scope: global, dtype: float32, shape: [7, 128000], partial: true}
ops:
  - copy: {src: "X[by, bx*128 : +128]", dst: "Y[by, bx*128 : +128]", variant: gmem_gmem}
"""


@pytest.mark.parametrize("rest", [50, 13, 96])
def test_a_place_that_is_wrong_in_a_few_of_many_kinds_of_ctas_is_found(rest: int) -> None:
    spec = tilegen.load(MANY.replace("BX", "1000"))
    plan = plan_spec(spec)
    bx, by = Var("bx", 1000), Var("by", 7)

    def wrong(x: Any) -> Any:
        if isinstance(x, Ref) and x.memory.name == "X" and bx in variables(x.at[1]):
            return Ref(x.memory, (x.at[0], mod(x.at[1] + equal(mod(mul(bx, by), 97), rest) * 128, 128000)))
        return None

    assert proof_code(lambda: prove(spec, change_parts(plan, wrong))) == "TG420"


@pytest.mark.slow
def test_ctas_that_did_not_run_are_said() -> None:
    """Each of 1000 CTAs keeps its rows in another order."""
    source = MANY.replace("BX", "1000").replace("ops:", "  t: {scope: shared, dtype: float32, shape: [4099, 32]}\nops:")
    place, row = "t[bx * bx % 307 + by]", "[by, bx*128 : +32]"
    copies = (
        f'  - copy: {{src: "X{row}", dst: "{place}"}}\n  - sync: cta\n  - copy: {{src: "{place}", dst: "Y{row}"}}\n'
    )
    built = tilegen.build(source.split("  - copy")[0].replace("4099", "313") + copies)
    assert any("did not run" in note for note in built.proof.notes)


# ---------------------------------------------------------------- elements that a CTA touches twice
TWICE = """kernel: twice
threads: 64
grid: {bx: 96}
buffers:
  X: {scope: global, dtype: float32, shape: [192, 32]}
  Y: {scope: global, dtype: float32, shape: [200, 32], partial: true}
ops:
  - for: {t: 2}
    do:
      - copy: {scope: warp, src: "X[bx*2 + t]", dst: "Y[%s]", when: warpid == t}%s
"""
BY_TWO_OPS = change_text(TWICE.partition("  - for")[0], ("kernel: twice", "kernel: two_ops")) + (
    '  - copy: {scope: warp, src: "X[bx]", dst: "Y[%s]", when: warpid == 0}\n'
    '  - copy: {scope: warp, src: "X[bx + 96]", dst: "Y[%s]", when: warpid == 1}\n'
)


@pytest.mark.parametrize("row", [
    "where(bx == 5, 10, bx*2 + t)", "where(bx * bx % 97 == 50, bx*2, bx*2 + t)", "bx*2 + where(bx == 41, 0, t)",
])  # fmt: skip
def test_a_row_that_one_cta_writes_twice_is_found(row: str) -> None:
    """Two warps write it, and nothing orders them; what is written goes along with the spec in every trip."""
    with pytest.raises(ProofError, match="TG403"):
        tilegen.build(TWICE % (row, ""))
    ordered = tilegen.build(TWICE % (row, "\n      - sync: cta"))
    assert all(len(ctas) <= 8 for _, ctas in ordered.proof.runs)


@pytest.mark.parametrize("rows", [("bx*2", "bx*2 + where(bx == 33, 0, 1)"), ("where(bx == 34, 69, bx*2)", "bx*2 + 1")])
def test_a_row_that_two_ops_of_one_cta_write_is_found(rows: tuple[str, str]) -> None:
    with pytest.raises(ProofError, match="TG403"):
        tilegen.build(BY_TWO_OPS % rows)


def test_rows_that_overlap_in_one_cta_are_found() -> None:
    """Boxes of two rows that begin at different ones, of which one is in both."""
    text = TWICE.replace("Y[%s]", "Y[%s : +2]").replace("X[bx*2 + t]", "X[bx*2 : +2]").replace("[200, 32]", "[400, 32]")
    assert tilegen.build(text % ("bx*4 + t*2", "")).source
    with pytest.raises(ProofError, match="TG403"):
        tilegen.build(text % ("bx*4 + t*where(bx == 60, 1, 2)", ""))


def test_ctas_that_all_write_their_rows_twice_are_few() -> None:
    (run,) = tilegen.build(TWICE % ("bx*2", "\n      - sync: cta")).proof.runs
    assert len(run[1]) == 4


def test_a_kernel_that_does_nothing_with_a_parameter_is_proved() -> None:
    """Nothing in it depends on the CTA: a loop that computed it was taken out."""
    text = ROWS.split("ops:")[0].replace("threads: 32", "threads: 32\nparams: {M: {default: 300, max: 4096}}")
    text = text.replace("shape: [97, 32]}", "shape: [97, 32], partial: true}", 1).replace("[97, 32]", "[M, 32]")
    assert tilegen.build(text + 'ops:\n  - let: {tiles: "ceil(M / 16)"}\n').source


@pytest.mark.parametrize("region", ["bx + 4", "bx - 4"])
def test_an_array_that_nothing_is_written_to_is_as_the_spec_has_it(region: str) -> None:
    """Every CTA writes a row outside of the array: neither plan nor spec writes an element."""
    built = tilegen.build(f"""
kernel: outside
arch: sm_90
threads: 32
grid: {{bx: 4}}
buffers:
  X: {{scope: global, dtype: float32, shape: [4, 32]}}
  Y: {{scope: global, dtype: float32, shape: [4, 32], partial: true}}
ops:
  - copy: {{src: "X[bx]", dst: "Y[{region} : +1]", edge: clip}}
""")
    assert built.proof is not None
