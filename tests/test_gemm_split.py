"""gemm whose K several CTAs share: its two passes are right alone and together, and faults in either are found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilegen
from tests.mutants.judging import proof_code
from tests.test_gemm import array, spec_of
from tilegen.arch import ARCHES
from tilegen.cost.time import read_time
from tilegen.errors import SpecError
from tilegen.ops import ALL_OPS
from tilegen.ops.gemm.choose import Ranked, rank_recipes
from tilegen.ops.gemm.parts_meant import cut_k
from tilegen.ops.gemm.problem import MOST_PARTS, read_problem
from tilegen.pipeline import BuiltProgram, build, load
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.spec import load as read
from tilegen.spec.data import Call, Spec, WholeCall
from tilegen.spec.outline import launch_of
from tilegen.spec.printing import print_spec
from tilegen.spec.program import Program
from tilegen.verifying.programs import run_together

WGMMA = {"variant": "wgmma", "tile": [64, 32, 64]}
NARROW = {"dtype": "float8_e4m3fn", "result": "bfloat16", "orders": ("row", "col", "row"), "k": 1024}
BIAS = {"bias": "bias", "more": {"bias": array("float32", 80)}}
ROWS = {"rows": array("float32", 96, 1), "bias": array("float32", 80)}


def split_of(m: int = 96, n: int = 80, k: int = 512, split: Any = 4, **fields: Any) -> dict[str, Any]:
    return spec_of(m, n, k, split=split, **fields)


def build_split(**fields: Any) -> BuiltProgram:
    built = build(split_of(**fields))
    assert isinstance(built, BuiltProgram)
    return built


# ---------------------------------------------------------------- problems of all kinds
PROBLEMS: dict[str, dict[str, Any]] = {
    "K unaligned": {"m": 33, "n": 31, "k": 129, "dtype": "float32", "split": 2, "tile": [32, 32, 32]},
    "parts of other lengths": {"k": 64 * 7 + 8, "split": 3, **WGMMA, **BIAS},
    "rows at odd bytes": {"m": 50, "n": 47, "k": 333, "dtype": "float16", "split": 3, "arch": "sm_80"},
    "d by columns": {"orders": ("row", "col", "col"), **WGMMA, **BIAS},
    "d is read again": {"c": "D", "beta": 0.5, "alpha": 2, **WGMMA},
    "an epilogue": {"epilogue": "max(acc * x + bias, 0.0)", "with": {"x": "rows"}, "bias": "bias", "more": ROWS},
    "int8 by wgmma": {"dtype": "int8", "result": "int32", "orders": ("row", "col", "row"), "variant": "wgmma"},
    "int8 on Ampere": {"m": 50, "n": 48, "dtype": "int8", "result": "bfloat16", "arch": "sm_80"},
    "by columns, rows at odd bytes": {"m": 50, "n": 47, "k": 333, "orders": ("col", "row", "col"), "arch": "sm_90"},
    "fused multiply-adds": {"m": 64, "n": 60, "k": 300, "dtype": "float32", "arch": "sm_80"},
    "float64": {"m": 64, "n": 60, "k": 300, "dtype": "float64", "arch": "sm_80"},
    "tf32": {"dtype": "float32", "math": "tf32", "orders": ("row", "col", "row"), **WGMMA, "tile": [64, 32, 32]},
    "float8 by wgmma": {"m": 64, "n": 64, **NARROW, "variant": "wgmma"},
    "float8 on Ada": {"m": 64, "n": 64, **NARROW, "arch": "sm_89"},
    "warps share the part of a CTA": {"m": 16, "n": 8, "k": 4096, "k_parts": 4},
    "sums are d's elements": {"result": "float32"},
    "the transpose": {"turned": True, **BIAS},
    "it starts early": {"overlap": "previous", **WGMMA},
    "many parts": {"m": 16, "n": 8, "k": 4096, "split": 64, **WGMMA, "tile": [64, 8, 64]},
    "pairs of CTAs": {"m": 64 * 3, "k": 64 * 7, "split": 3, "cluster": 2, **WGMMA},
    "pairs of CTAs, the transpose": {"k": 64 * 9, "split": 4, "cluster": 2, "turned": True, **WGMMA, **BIAS},
    "the transpose of d by columns": {"orders": ("row", "col", "col"), "turned": False, **WGMMA, **BIAS},
    "the transpose by mma.sync": {"variant": "mma_sync", "turned": True, **BIAS},
    "one column": {"m": 70, "n": 1, "k": 500, "dtype": "float32", "split": 2},
}  # fmt: skip


@pytest.mark.sweep(2)
@pytest.mark.parametrize("what", PROBLEMS)
def test_both_passes_are_proved_alone_and_run_together(what: str) -> None:
    """Each is compared with what it means on whole arrays, and both with the composed meaning."""
    built = build_split(**PROBLEMS[what])
    assert [one.name for one in built.spec.passes] == ["parts", "sum"] and built.warnings == ()
    assert all(one.spec.whole is not None and one.proof.runs for one in built.passes)
    assert not any(note.startswith("not proven") for one in built.passes for note in one.proof.notes)
    assert run_together(built, 1)
    starts_early = "dependent_launch" in ARCHES[built.spec.arch].features
    assert [one.spec.overlaps for one in built.passes] == ["overlap" in PROBLEMS[what], starts_early]


@pytest.mark.slow
@pytest.mark.parametrize("side", [0, 1, 2])
def test_a_size_is_known_at_a_launch(side: int) -> None:
    """Who writes the workspace is shown at every size; K has a k-tile for each part at any."""
    name = "MNK"[side]
    param = {"default": 256, "max": 4096, "multiple_of": (8, 8, 256)[side]}
    given = split_of(200, 136, 1088, params={name: param}, **WGMMA)
    for array_name, names in (("A", "MK"), ("B", "KN"), ("D", "MN")):
        if name in names:
            given["buffers"][array_name]["shape"][names.index(name)] = name
    built = build(given)
    assert isinstance(built, BuiltProgram) and run_together(built, 1)


def test_parts_are_all_of_k_once() -> None:
    """They are the composed meaning's only step that neither pass shows."""
    for k, depth, parts in ((1, 64, 1), (333, 16, 3), (4096, 64, 64), (1000, 64, 7)):
        cut = list(cut_k(k, depth, parts))
        assert len(cut) == parts and [i for own in cut for i in own] == list(range(k))
        assert max(map(len, cut)) - min(map(len, cut)) <= 2 * depth


def test_a_second_kernel_has_all_multiprocessors() -> None:
    loaded = load(split_of(128, 512, 4096, **WGMMA))
    assert isinstance(loaded, Program)
    adds = loaded.passes[1].spec
    assert np.prod(launch_of(adds, {}).grid) >= 132
    widths = {region.lengths[-1] for one in adds.ops if isinstance(one, Call) for region in one.read}
    assert widths == {256}  # of 64 threads: 16 bytes each


def test_warps_that_share_k_meet_before_their_sums_lie_over_the_only_stage() -> None:
    built = build(spec_of(32, 16, 512, k_parts=8, tile=[16, 8, 512]))
    assert isinstance(built.spec, Spec) and built.spec.whole is not None


# ---------------------------------------------------------------- what is chosen
def rank_of(given: dict[str, Any]) -> list[Ranked]:
    spec = read(given, ALL_OPS)
    call = spec.ops[0]
    assert isinstance(spec, Spec) and isinstance(call, WholeCall)
    return rank_recipes(read_problem(call), ARCHES[spec.arch], call.fields)[0]


def best_of(given: dict[str, Any]) -> dict[int, float]:
    """The least time of recipes, in microseconds, by the number of CTAs that share K."""
    found: dict[int, float] = {}
    for one in rank_of(given):
        found.setdefault(one.recipe.split, one.time.total * 1e6)
    return found


def test_few_tiles_and_a_long_k_are_split_and_many_tiles_are_not() -> None:
    few, many = (best_of(split_of(m, n, k, "auto")) for m, n, k in ((128, 512, 16384), (4096, 4096, 1024)))
    assert min(few, key=few.__getitem__) > 1 and few[1] > 2 * min(few.values())
    assert min(many, key=many.__getitem__) == 1
    assert set(few) >= {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, MOST_PARTS}


# What an H200 took the least time for, of 17 to 42 ways each: pairs, tiles that fit, a part for each multiprocessor.
FITTED = {
    (144, 584, 32728): ((64, 144), 13, True, 2),
    (112, 768, 21336): ((64, 128), 11, False, 2),
    (472, 120, 19736): ((64, 120), 16, False, 2),
    (512, 512, 16384): ((64, 128), 4, False, 1),
}


@pytest.mark.parametrize("sides", FITTED)
def test_pairs_and_tiles_that_fit_are_looked_at(sides: tuple[int, int, int]) -> None:
    m, n, k = sides
    best = rank_of(split_of(m, n, k, "auto", orders=("row", "col", "row"), dtype="bfloat16"))[0].recipe
    assert (best.tile[:2], best.split, best.is_turned, best.cluster) == FITTED[sides]


def test_a_tile_that_fits_has_a_part_for_each_multiprocessor() -> None:
    """Of other numbers of parts tiles are those that every product has."""
    ranked = rank_of(split_of(144, 584, 32728, "auto", orders=("row", "col", "row"), dtype="bfloat16"))
    found = {one.recipe.split for one in ranked if one.recipe.tile[:2] == (64, 152)}
    assert found == {132 // (3 * 4), 132 // (4 * 4)}
    pinned = rank_of(split_of(144, 584, 32728, 5, orders=("row", "col", "row"), dtype="bfloat16"))
    assert (64, 152) in {one.recipe.tile[:2] for one in pinned}
    tile = rank_of(split_of(144, 584, 32728, "auto", orders=("row", "col", "row"), tile=[64, 152, 64]))
    assert {one.recipe.split for one in tile} >= {2, 3, 4, 6, 8, 11, 12, 16}


def test_a_batch_is_never_split_by_itself() -> None:
    assert set(best_of(split_of(64, 64, 4096, "auto", batch=2))) == {1}


def test_auto_shows_the_best_recipe_of_every_number_of_parts() -> None:
    loaded = load(split_of(64, 32, 512, "auto", tile=[64, 32, 64], variant="wgmma"))
    specs = [one.spec for one in loaded.passes] if isinstance(loaded, Program) else [loaded]
    chosen = next(c for c in specs[0].choices if c.question == "gemm")
    shown = {c.value.get("split", 1): read_time(c.verdict) for c in chosen.candidates}
    assert {*shown} == {1, 2, 3, 4, 6, 8} and all(("sum" in time) == (parts > 1) for parts, time in shown.items())


def test_one_part_is_the_kernel_without_a_split() -> None:
    with_one, without = (load(spec_of(64, 32, 256, **WGMMA, **more)) for more in ({"split": 1}, {}))
    assert with_one == without and isinstance(with_one, Spec)


# ---------------------------------------------------------------- faults
@pytest.fixture(scope="module")
def uneven() -> Program:
    """17 k-tiles in 4 parts, 2 x 2 tiles."""
    expanded = tilegen.expand(split_of(128, 64, 1088, **WGMMA, bias="bias", more={"bias": array("float32", 64)}))
    assert isinstance(expanded, Program)
    return expanded


FAULTS = {
    "a k-tile of each part left out": (0, "/ 4) - k0}", "/ 4) - k0 - 1}"),
    "parts that begin too early": (0, "(k0 + k)*64", "(k0 + k - l)*64"),
    "parts in another order": (0, "(k0 + k)*64", "((3 - l)*4 + k)*64"),
    "one tile that takes other k-tiles": (0, "(k0 + k)*64", "(k0 + k - min(l, m*n))*64"),
    "sums of another place": (0, "sums_of_parts[l, m*64", "sums_of_parts[l, (1 - m)*64"),
    "a part of the sums left out": (1, "for: {p: [1, 4]}", "for: {p: [1, 3]}"),
    "one part twice": (1, "sums_of_parts[p, ", "sums_of_parts[max(p, 2), "),
    "the epilogue once for each part": (1, "total + x, with: {", 'total + x + y, with: {y: "bias[n*64 : +64]", '),
    "rows of another place": (1, "sums_of_parts[p, m*2 :", "sums_of_parts[p, (m + 1) % 64*2 :"),
}  # fmt: skip


@pytest.mark.parametrize("turned", [False, True])
def test_sums_lie_as_d_does(turned: bool) -> None:
    """Where the transpose is multiplied, the pass of the parts writes across rows, through a view."""
    right = tilegen.expand(split_of(64, 64, 512, **WGMMA, turned=turned))
    assert isinstance(right, Program)
    text = print_spec(right)
    assert ("axes: [0, 2, 1]" in text) == turned
    if turned:
        wrong = load(text.replace("axes: [0, 2, 1]", "axes: [0, 1, 2]"))
        assert isinstance(wrong, Program)
        spoilt = replace(wrong.passes[0].spec, whole=right.passes[0].spec.whole)
        assert proof_code(lambda: prove(spoilt, plan_spec(spoilt))) == "TG420"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(uneven: Program, fault: str) -> None:
    """Its tile ops say what they do, and carry that out: what the pass is for says otherwise."""
    number, right, wrong = FAULTS[fault]
    text = print_spec(uneven)
    assert right in text
    other = load(text.replace(right, wrong))
    assert isinstance(other, Program)
    meant, spoilt = uneven.passes[number].spec, other.passes[number].spec
    spoilt = replace(spoilt, whole=meant.whole)
    assert proof_code(lambda: prove(spoilt, plan_spec(spoilt))) == "TG420"


def test_the_passes_that_are_spoilt_here_are_right(uneven: Program) -> None:
    again = load(print_spec(uneven))
    assert isinstance(again, Program)
    for meant, one in zip(uneven.passes, again.passes, strict=True):
        spec = replace(one.spec, whole=meant.spec.whole)
        prove(spec, plan_spec(spec))


# ---------------------------------------------------------------- refusals
# Others are in tests/bad_specs.
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "CTAs that go from tile to tile": ({"ctas": 100}, "'ctas: 100' beside 'split: 4'", "leave 'ctas' out"),
    "an order of tiles": ({"order": 4}, "'order: 4' beside 'split: 4'", "leave 'order' out"),
    "panels": ({"variant": "wgmma", "panel": 32}, "'panel: 32' beside", "leave 'panel' out"),
    "pairs of mma.sync": ({"variant": "mma_sync", "cluster": 2}, "'cluster: 2' beside", "leave 'cluster' out"),
    "TMA before mma.sync": ({"variant": "mma_sync", "load": "tma"}, "'load: tma' beside", "'load: cp_async'"),
}  # fmt: skip


@pytest.mark.sweep(2)
@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_split_is_refused(what: str) -> None:
    given, said, hint = REFUSED[what]
    with pytest.raises(SpecError) as caught:
        load(split_of(**given))
    (found,) = caught.value.diagnostics
    assert said in found.message and hint in found.hint


def test_k_known_at_a_launch_needs_a_k_tile_for_each_part() -> None:
    given = split_of(64, 64, 512, params={"K": {"default": 512, "max": 4096, "multiple_of": 8}})
    given["buffers"]["A"]["shape"][1] = given["buffers"]["B"]["shape"][0] = "K"
    with pytest.raises(SpecError, match="each part needs a k-tile, and K may be 8"):
        load(given)
