"""gemm by tcgen05: problems of all kinds are proved, wrong tiles are found, and no time is promised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import tilegen
from tests.faults.verdicts import proof_code, refusal_of
from tests.test_gemm import array, spec_of
from tilegen.arch import ARCHES
from tilegen.cost.time import count_work
from tilegen.errors import SpecError
from tilegen.gpu import compile_cubin, find_compilers
from tilegen.ops import ALL_OPS
from tilegen.ops.gemm.choose import rank_recipes
from tilegen.ops.gemm.expand import expand_recipe
from tilegen.ops.gemm.problem import read_problem, typical_values
from tilegen.ops.tally import tally_spec
from tilegen.pipeline import Built, BuiltProgram
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.render import render
from tilegen.spec import load as read_spec
from tilegen.spec.data import Spec, WholeCall
from tilegen.spec.printing import print_spec

EPILOGUE = {"epilogue": "max(acc * x + bias, 0.0)", "with": {"x": "rows"}, "bias": "bias",
            "more": {"rows": array("float32", 256, 1), "bias": array("float32", 384)}}  # fmt: skip
WIDE = {"m": 256, "n": 384, "k": 192}
PROBLEMS: dict[str, dict[str, Any]] = {
    "rows": WIDE, "columns": WIDE | {"orders": ("col",) * 3}, "b by columns": WIDE | {"orders": ("row", "col", "row")},
    "a by columns": WIDE | {"orders": ("col", "row", "row")}, "d by columns": WIDE | {"orders": ("row", "row", "col")},
    "nothing divides": {"m": 200, "n": 264, "k": 136}, "fewer than a tile": {"m": 40, "n": 24, "k": 16},
    "no rows of TMA's in d": {"m": 130, "n": 257, "k": 128, "orders": ("row", "col", "row")},
    "an epilogue": WIDE | EPILOGUE, "into what it reads": WIDE | {"c": "D", "beta": 0.5},
    "float16 into float32": WIDE | {"dtype": "float16", "result": "float32"}, "a batch": WIDE | {"batch": 3},
    "a wide tile": WIDE | {"n": 448, "tile": [128, 224, 64]}, "one panel": WIDE | {"tile": [128, 64, 64]},
    "the widest": {"m": 384, "n": 512, "k": 128, "tile": [128, 256, 64], "ctas": 2},
    "three panels": WIDE | {"tile": [128, 96, 64], "ctas": 2}, "early": WIDE | EPILOGUE | {"overlap": "previous"},
    "e4m3": WIDE | {"k": 256, "dtype": "float8_e4m3fn", "result": "bfloat16"},
    "e5m2, b by columns": WIDE | {"dtype": "float8_e5m2", "result": "float16", "orders": ("row", "col", "row")},
    "int8": WIDE | {"dtype": "int8", "result": "int32", "orders": ("row", "col", "row")},
    "int8, rounded": WIDE | EPILOGUE | {"dtype": "int8", "result": "bfloat16"},
    "in pairs": WIDE | {"cluster": 2, "orders": ("row", "col", "row")},
    "in pairs, a batch": WIDE | {"cluster": 2, "batch": 3},
    "in pairs, nothing divides": {"m": 400, "n": 264, "k": 136, "cluster": 2},
    "in pairs, one without rows": {"m": 384, "n": 512, "k": 128, "cluster": 2, "tile": [128, 256, 64], "ctas": 4},
    "in pairs, an epilogue": WIDE | EPILOGUE | {"cluster": 2, "overlap": "previous"},
    "in pairs, int8": WIDE | {"dtype": "int8", "result": "int32", "orders": ("row", "col", "row"), "cluster": 2},
    "tf32": WIDE | {"dtype": "float32", "math": "tf32", "orders": ("row", "col", "row")},
}  # fmt: skip

SHARED: dict[str, dict[str, Any]] = {
    "equal parts": WIDE | {"k": 1024, "split": 4}, "unequal parts": WIDE | {"k": 1088, "split": 4},
    "the transpose": WIDE | {"k": 1024, "split": 3, "tile": [128, 64, 64], "orders": ("col",) * 3},
    "no part divides": {"m": 200, "n": 264, "k": 520, "split": 2},
    "int8, an epilogue": WIDE | EPILOGUE | {"k": 1024, "split": 2, "dtype": "int8", "result": "bfloat16"},
}  # fmt: skip


def give(**fields: Any) -> dict[str, Any]:
    return spec_of(**({"variant": "tcgen05"} | fields), arch="sm_100a")


def picked_of(built: Any) -> dict[str, Any]:
    assert isinstance(built, Built)
    found: dict[str, Any] = next(c.picked for c in built.spec.choices if c.question == "gemm")
    return found


@pytest.mark.sweep(5)
@pytest.mark.parametrize("what", PROBLEMS)
def test_problems_of_all_kinds_are_proved(what: str) -> None:
    """``build`` compares the tiles with the op itself, with all of K."""
    built = tilegen.build(give(**PROBLEMS[what]))
    assert isinstance(built, Built) and built.spec.whole is not None and built.proof.runs
    assert picked_of(built)["variant"] == "tcgen05"


@pytest.mark.slow
def test_rows_known_at_a_launch_go_from_tile_to_tile() -> None:
    given = give(m=300, n=256, k=128, params={"M": {"default": 300, "max": 4096}})
    for name, shape in (("A", ["M", 128]), ("D", ["M", 256])):
        given["buffers"][name]["shape"] = shape
    built = tilegen.build(given)
    assert picked_of(built)["ctas"] > 1 and isinstance(built, Built)
    assert {dict(case)["M"] for case, _ in built.proof.runs} >= {1, 300}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "float8_e4m3fn"])
def test_tensor_memory_is_the_choice(dtype: str) -> None:
    built = tilegen.expand(spec_of(512, 512, 256, dtype, "bfloat16", ("row", "col", "row"), arch="sm_100a"))
    assert isinstance(built, Spec)
    [choice] = [c for c in built.choices if c.question == "gemm"]
    assert choice.picked["variant"] == "tcgen05"
    assert "rates of others, GB300, which rank the recipes and promise no time" in choice.proof
    assert choice.candidates[0].verdict == "1.00 of the least time, by rates of others, GB300"
    assert not any(" us" in c.verdict for c in choice.candidates)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("what", [*PROBLEMS, "equal parts"])
def test_closed_forms_count_what_statements_do(what: str) -> None:
    spec = read_spec(give(**(PROBLEMS | SHARED)[what]), ALL_OPS)
    (call,) = spec.ops
    assert isinstance(call, WholeCall)
    problem = read_problem(call)
    ranked, _ = rank_recipes(problem, ARCHES[spec.arch], call.fields)
    assert ranked
    for one in ranked[:3]:
        own = problem.turned() if one.recipe.is_turned else problem
        assert tally_spec(expand_recipe(spec, call, own, one.recipe), typical_values(problem)) == count_work(one.work)


@pytest.mark.parametrize(("arch", "atom"), [
    ("sm_100a", "tcgen05.m128n96k32"), ("sm_100a", "tcgen05.m128n96k32.f32.e4m3.e5m2"), ("sm_90a", "wgmma.m64n96k32"),
])  # fmt: skip
def test_an_atom_is_pinned_by_any_of_its_names(arch: str, atom: str) -> None:
    given = spec_of(256, 192, 256, "float8_e4m3fn", "bfloat16", ("row", "col", "row"), arch=arch, atom=atom)
    given["buffers"]["B"]["dtype"] = "float8_e5m2"
    expanded = tilegen.expand(given)
    assert isinstance(expanded, Spec)
    [choice] = [c for c in expanded.choices if c.question == "gemm"]
    assert choice.picked["tile"][1] == 96 and choice.picked["atom"] == atom


@pytest.mark.sweep(2)
@pytest.mark.parametrize("what", SHARED)
def test_ctas_that_share_k_are_proved(what: str) -> None:
    built = tilegen.build(give(**SHARED[what]))
    assert isinstance(built, BuiltProgram)
    parts, _ = built.passes
    assert parts.proof.runs and "tcgen05" in {op["variant"] for op in parts.manifest["ops"]}


# ---------------------------------------------------------------- wrong ones
RIGHT = {"m": 256, "n": 256, "k": 192, "tile": [128, 128, 64], "stages": 2, "ctas": 2}
FAULTS = {
    "a k-tile less": ("- for: {k: 3}", "- for: {k: 2}"), "rows of another tile": ('"A[m*128', '"A[(1 - m)*128'),
    "columns of another tile": ("D[m*128 : +128, n*128", "D[m*128 : +128, (1 - n)*128"),
    "sums before": ("accumulate: k > 0", "accumulate: true"), "one accumulator": ("sums[trip % 2", "sums[0 * trip"),
    "freed too early": ("              - wait: {barrier: \"full[(first + k) % 2]\"}\n", ""),
    "not complete": ("          - wait: {barrier: \"done[trip % 2]\"}\n", ""),
    "another panel": ("sums[trip % 2, :, q*64 : +64]", "sums[trip % 2, :, (1 - q)*64 : +64]"),
    "out still read": ("              - wait: {tma: 1}\n", ""), "the other out": ('dst: "out[q % 2]"', 'dst: "out[0]"'),
}  # fmt: skip


PAIRED = RIGHT | {"n": 512, "m": 512, "ctas": 4, "cluster": 2}
FAULTS_OF_PAIRS = {
    "the other half of b": ("n*128 + cbx*64", "n*128 + (1 - cbx)*64"), "one half of b": ("n*128 + cbx*64", "n*128"),
    "halves of another tile": ("n*128 + cbx*64", "(3 - n)*128 + cbx*64"),
    "halves of another tile in the odd CTA": ("n*128 + cbx*64", "(n + cbx)%4*128 + cbx*64"),
    "another tile from the second on": ("n*128 + cbx*64", "(n + cbx*min(n, 1))%4*128 + cbx*64"),
    "rows of the other CTA": ("A[m*128", "A[(m // 2*2 + (1 - m%2))*128"),
    "rows of one CTA": ("A[m*128", "A[m // 2*256"),
    "rows of one CTA in d": ("D[m*128", "D[m // 2*256"),
    "freed in one CTA": ("% 2]\", to: cbx", "% 2]\""),
}  # fmt: skip


@pytest.mark.sweep(4)
@pytest.mark.parametrize("fault", [*FAULTS, *FAULTS_OF_PAIRS])
def test_statements_that_are_wrong_are_found(fault: str) -> None:
    spec = tilegen.load(give(**(RIGHT if fault in FAULTS else PAIRED)))
    text, (before, after) = print_spec(tilegen.expand(spec)), (FAULTS | FAULTS_OF_PAIRS)[fault]
    assert before in text
    other = tilegen.load(text.replace(before, after))
    mixed = replace(other, whole=spec.whole)
    assert proof_code(lambda: prove(mixed, plan_spec(mixed))) != ""


@pytest.mark.parametrize("given", [RIGHT, PAIRED], ids=["one CTA", "pairs"])
def test_the_statements_that_they_spoil_are_right(given: dict[str, Any]) -> None:
    spec = tilegen.load(give(**given))
    other = replace(tilegen.load(print_spec(tilegen.expand(spec))), whole=spec.whole)
    assert proof_code(lambda: prove(other, plan_spec(other))) == ""


# ---------------------------------------------------------------- what is refused, and what compiles
@pytest.mark.parametrize(("fields", "said"), [
    ({"dtype": "float32"}, "tcgen05 does not multiply float32: 'math: tf32'"),
    ({"dtype": "float32", "math": "tf32"}, "tcgen05 reads float32 along K alone"),
    ({"m": 96, "n": 96, "k": 90}, "the rows of A are aligned to 4 bytes, TMA needs 16"),
    ({"tile": [64, 64, 64]}, "no recipe carries out this gemm with 'tile: [64, 64, 64]'"),
    ({"m": 128, "cluster": 2}, "no recipe carries out this gemm with 'cluster: 2'"),
])  # fmt: skip
def test_what_it_does_not_do_is_said(fields: dict[str, Any], said: str) -> None:
    [finding] = refusal_of(SpecError, tilegen.load, give(**fields)).diagnostics
    assert finding.code == "TG302" and said in finding.message


@pytest.mark.skipif(not find_compilers(), reason="neither NVRTC nor nvcc is here")
@pytest.mark.sweep(2)
@pytest.mark.parametrize("what", PROBLEMS)
def test_texts_compile_without_spills(what: str) -> None:
    built = tilegen.build(give(**PROBLEMS[what]))
    assert isinstance(built, Built)
    cubin = compile_cubin(render(built.plan), built.plan.arch, built.plan.name)
    assert (cubin.stack_bytes, cubin.spill_store_bytes, cubin.spill_load_bytes) == (0, 0, 0)
