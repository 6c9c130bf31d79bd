"""Tiles of an op on whole arrays that are not what the op means, in a few of them or in all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import tilegen
from tests.faults.verdicts import proof_code
from tilegen.errors import ProofError
from tilegen.index import Index, Var, equal, every, less, not_, select, substitute
from tilegen.pipeline import load
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.meaning import parameter_cases
from tilegen.proofs.runs import choose_runs, count_run, list_runs
from tilegen.proofs.whole import check_tiles, check_whole, choose_tiles
from tilegen.spec.data import Call, Region, Spec
from tilegen.spec.outline import launch_of, map_calls, outline

ROOT = Path(__file__).resolve().parent.parent.parent
BX = Var("bx", 1 << 20)
PRODUCT = """kernel: product
arch: {arch}
buffers:
  A: {{scope: global, dtype: {dtype}, shape: [1024, 256]}}
  B: {{scope: global, dtype: {dtype}, shape: [256, 1024]}}
  D: {{scope: global, dtype: {dtype}, shape: [1024, 1024]}}
ops:
  - gemm: {{a: A, b: B, d: D}}
"""
KINDS = [("sm_90a", "float16"), ("sm_80", "bfloat16"), ("sm_90", "bfloat16"), ("sm_90", "float32")]


def change_reads(spec: Spec, buffer: str, d: int, change: Callable[[Index], Index]) -> Spec:
    """The spec with another begin along a dimension of every region that is read of a buffer."""

    def of_region(region: Region) -> Region:
        begins = list(region.begins)
        begins[d] = change(begins[d])
        return replace(region, begins=tuple(begins))

    def of_call(call: Call) -> Call:
        regions = {
            name: of_region(r) if r.buffer.name == buffer and r in call.read else r for name, r in call.regions.items()
        }
        return replace(call, regions=regions)

    return replace(spec, ops=map_calls(spec.ops, of_call))


@cache
def load_product(arch: str, dtype: str) -> Spec:
    return load(PRODUCT.format(arch=arch, dtype=dtype))


def find_code(spec: Spec) -> str:
    return proof_code(lambda: prove(spec, plan_spec(spec)))


# ---------------------------------------------------------------- what they read of global arrays
FAULTS: dict[str, tuple[str, int, Callable[[Index], Index]]] = {
    "two rows of tiles exchanged": ("A", 0, lambda x: select(equal(x, 128), 256, select(equal(x, 256), 128, x))),
    "a row of tiles further": ("A", 0, lambda x: select(equal(x, 384), x + 64, x)),
    "K begins later in one": ("A", 1, lambda x: select(equal(BX, 5), x + 8, x)),
    "one step along K elsewhere in one": ("A", 1, lambda x: select(every(equal(BX, 5), equal(x, 128)), 0, x)),
    "columns": ("B", 1, lambda x: select(less(x, 512), x, x ^ 128)),
}


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("arch", "dtype"), KINDS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_tile_in_the_middle_that_reads_another_one_is_found(fault: str, arch: str, dtype: str) -> None:
    spec = load_product(arch, dtype)
    case = parameter_cases(spec)[0]
    assert check_tiles(spec, case)
    with pytest.raises(ProofError, match="elsewhere beside what it writes") as error:
        check_tiles(change_reads(spec, *FAULTS[fault]), case)
    assert error.value.diagnostics[0].code == "TG420"


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "variant"), [("sm_80", "mma_sync"), ("sm_90", "mma_sync"), ("sm_90a", "wgmma")])
def test_rows_that_go_along_with_columns_are_found(arch: str, variant: str) -> None:
    """In the first and the last of square tiles of a square, rows and columns begin at the same place."""
    pinned = f"d: D, variant: {variant}, tile: [128, 128, 64]}}"
    spec = load(PRODUCT.format(arch=arch, dtype="bfloat16").replace("d: D}", pinned))
    assert not find_code(spec)
    assert find_code(change_reads(spec, "A", 0, lambda x: substitute(x, {"m": Var("n", 8)}))) == "TG420"


MOVED: dict[str, tuple[int, Callable[[Index], Index]]] = {
    "one reads elsewhere": (0, lambda x: select(equal(BX, 33), 0, x)),
    "one reads columns elsewhere": (1, lambda x: select(equal(Var("by", 1 << 20), 33), 0, x)),
    "rows go along with rows": (0, lambda x: substitute(x, {"bx": Var("by", 64), "by": Var("bx", 64)})),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", MOVED)
def test_tiles_of_a_permute_that_read_elsewhere_are_found(fault: str) -> None:
    """They run on the diagonal of square tiles, where rows and columns begin at the same places."""
    spec = load(ROOT / "specs" / "transpose_f16.yaml")
    assert not find_code(spec) and len(set(launch_of(spec).grid[:2])) == 1
    assert find_code(change_reads(spec, "X", *MOVED[fault])) == "TG420"


@pytest.mark.slow
def test_tiles_that_are_too_many_to_look_at_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["tilegen.proofs.looking"], "MOST_SEEN", 4)
    notes = tilegen.build(PRODUCT.format(arch="sm_80", dtype="bfloat16")).proof.notes
    assert "not proven: that all tiles do as those that are compared with the op" in notes


# ---------------------------------------------------------------- what else they do
LEFT_OUT = [(op, *kind) for kind in KINDS for op in ("mma", "fill", "copy") if (op, kind[0]) != ("fill", "sm_90a")]


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("op", "arch", "dtype"), LEFT_OUT)  # wgmma fills nothing: its first product counts alone
def test_an_op_that_one_tile_leaves_out_is_found(op: str, arch: str, dtype: str) -> None:
    spec = load_product(arch, dtype)
    last = [c for c in outline(spec).calls if c.op == op and not c.barrier][-1]  # barriers count what others do

    def leave_out(call: Call) -> Call:
        return replace(call, when=every(call.when, not_(equal(BX, 5)))) if call is last else call

    code = find_code(replace(spec, ops=map_calls(spec.ops, leave_out)))
    assert code in ("TG420", "TG418", "TG404") and (op != "mma" or code == "TG420")


@pytest.mark.parametrize("condition", [equal(BX, 5), equal(Var("n", 8), 3), every(less(4, BX), less(BX, 7))])
def test_a_place_in_shared_memory_that_is_another_one_in_a_few_tiles_is_found(condition: Index) -> None:
    spec = load_product("sm_80", "bfloat16")
    assert find_code(change_reads(spec, "sb", -2, lambda x: select(condition, 0, x))) == "TG420"


@pytest.mark.slow
def test_one_tile_of_each_kind_is_looked_into() -> None:
    """The slot at which a tile begins is another one in every third."""
    text = """kernel: ring
arch: sm_90a
buffers:
  A: {scope: global, dtype: float16, shape: [8, 368, 112]}
  B: {scope: global, dtype: float16, shape: [8, 112, 1928]}
  D: {scope: global, dtype: float16, shape: [8, 368, 1928]}
ops:
  - gemm: {a: A, b: B, d: D, variant: mma_sync, tile: [128, 128, 64], load: tma, stages: 3}
"""
    spec = load(text)
    (run,) = list_runs(spec, plan_spec(spec))
    shown = choose_tiles(spec, run)
    assert shown.are_all and len(shown.looked_into["bx"]) == 3
    assert not find_code(spec)


@pytest.mark.slow
def test_slots_go_on_from_tile_to_tile() -> None:
    """Five k-tiles in four slots: each CTA's next tile begins at another slot, and of 16 tiles a few are compared."""
    text = PRODUCT.format(arch="sm_90a", dtype="bfloat16").replace("256", "320").replace("1024", "8192")
    spec = load(text)
    (run,) = list_runs(spec, plan_spec(spec))
    shown = choose_tiles(spec, run)
    assert shown.are_all and len(shown.looked_into["bx"]) > 1
    assert not check_whole(spec, plan_spec(spec), run)


@pytest.mark.slow
def test_as_many_ctas_run_as_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many that differ; a note says that the others did not run. Where not even one can, that is an error."""
    spec = load(PRODUCT.format(arch="sm_80", dtype="bfloat16").replace("1024", "200"))
    plan, trips = plan_spec(spec), sys.modules["tilegen.proofs.trips"]
    (run,) = list_runs(spec, plan)
    monkeypatch.setattr(trips, "_LEAST_THREADS", 1)
    work = count_run(plan, run)
    for most in (work, work - 1, work // len(run.ctas) - 1):
        monkeypatch.setattr(trips, "_MOST_WORK", most)
        other = replace(plan)  # a plan keeps what was chosen for it
        if most * len(run.ctas) < work:
            with pytest.raises(ProofError, match="TG426"):
                prove(spec, other)
            continue
        chosen = choose_runs(spec, other)
        ran = set(chosen.runs[0].ctas)
        assert ran < set(run.ctas) if most < work else ran == set(run.ctas)
        assert bool(chosen.notes) == (most < work) and prove(spec, other).runs
