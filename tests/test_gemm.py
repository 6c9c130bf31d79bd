"""gemm: what its recipes mean, what they print, what is chosen, and wrong ones that a proof has to find."""

from __future__ import annotations

import itertools
import random
import re
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import tilegen
from tests.faults.verdicts import proof_code, refusal_of
from tilegen.arch import ARCHES
from tilegen.cost.compiled import compiled_accesses
from tilegen.cost.needs import count_bytes
from tilegen.decisions import TILING
from tilegen.errors import ProofError, SpecError
from tilegen.layouts import derive_mma, parse, tile_mma, tiled_mma
from tilegen.ops.gemm.choose import rank_recipes
from tilegen.ops.gemm.op import GemmFields
from tilegen.ops.gemm.pins import read_pins
from tilegen.ops.gemm.problem import read_problem
from tilegen.planner import plan_spec
from tilegen.proofs import Proof, prove
from tilegen.spec.data import FollowStatement, Spec
from tilegen.spec.outline import launch_of, outline
from tilegen.spec.printing import print_spec

ORDERS = ("row", "col")


def spec_of(
    m: int = 96, n: int = 80, k: int = 64, dtype: str = "bfloat16", result: str = "",
    orders: tuple[str, ...] = ("row",) * 3, batch: int = 0, arch: str = "sm_90a", more: dict[str, Any] | None = None,
    params: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:  # fmt: skip
    """A product of matrices; ``orders`` of A, B and D, ``more`` arrays."""
    buffers: dict[str, Any] = {}
    shapes = {"A": (m, k), "B": (k, n), "D": (m, n)}
    for (name, shape), order in zip(shapes.items(), orders, strict=True):
        rows, columns = shape
        strides = f"{columns},1" if order == "row" else f"1,{rows}"
        full = f"S[({batch},{rows},{columns}):({rows * columns},{strides})]" if batch else order
        kind = result or dtype if name == "D" else dtype
        buffers[name] = array(kind, *([batch] if batch else []), *shape) | {"layout": full}
    given = {"a": "A", "b": "B", "d": "D"} | fields
    spec = {"kernel": "product", "arch": arch, "buffers": buffers | (more or {}), "ops": [{"gemm": given}]}
    return spec | ({"params": params} if params else {})


def array(dtype: str, *shape: int) -> dict[str, Any]:
    return {"scope": "global", "dtype": dtype, "shape": [*shape]}


# ---------------------------------------------------------------- problems of all kinds
def draw_problem(seed: int) -> dict[str, Any]:
    """A problem that some variant carries out: types, orders, sizes that divide and that do not, batches, epilogues."""
    draw = random.Random(seed)
    dtype, result, step = draw.choice([
        ("bfloat16", "", 8), ("float16", "float32", 8), ("float16", "", 1), ("float32", "", 1), ("float64", "", 2),
        ("int8", "int32", 16), ("int8", "bfloat16", 16), ("float8_e4m3fn", "bfloat16", 16),
    ])  # fmt: skip
    m, n, k = (step * draw.randint(1, 160 // step) for _ in range(3))
    orders = tuple(draw.choice(ORDERS) for _ in range(3))
    arch = draw.choice(["sm_90a", "sm_90", "sm_89"] if dtype.startswith("float8") else ["sm_80", "sm_90", "sm_90a"])
    fields: dict[str, Any] = {}
    more = {}
    if draw.random() < 0.5 and dtype != "float64":
        fields |= {"epilogue": "max(acc * x + bias, 0.0)", "with": {"x": "rows"}, "bias": "bias"}
        more = {"rows": array("float32", m, 1), "bias": array("float32", n)}
        result = "bfloat16" if dtype == "int8" else result
    batch = draw.choice([0, 0, 2])
    return spec_of(m, n, k, dtype, result, orders, batch, arch, more, **fields)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("seed", range(16))
def test_problems_of_all_kinds_are_proved(seed: int) -> None:
    """``build`` compares the tiles with the op itself, with all of K."""
    built = tilegen.build(draw_problem(seed))
    assert built.spec.whole is not None and built.proof.runs


# ---------------------------------------------------------------- one column, or one row
VECTORS: dict[str, dict[str, Any]] = {
    "a column, K unaligned": {"m": 655, "n": 1, "k": 943, "dtype": "float32"},
    "a column of columns": {"m": 655, "n": 1, "k": 943, "dtype": "float32", "orders": ("col", "row", "row")},
    "a row": {"m": 1, "n": 700, "k": 943, "dtype": "float32"},
    "a row of rows": {"m": 1, "n": 700, "k": 944, "dtype": "float32", "orders": ("row", "col", "row")},
    "bf16, K unaligned": {"m": 130, "n": 1, "k": 943},
    "int8": {"m": 300, "n": 1, "k": 70, "dtype": "int8", "result": "int32"},
    "a batch of float64": {"m": 200, "n": 1, "k": 96, "dtype": "float64", "batch": 3},
    "one element": {"m": 1, "n": 1, "k": 1000, "dtype": "float16"},
    "an epilogue": {"m": 90, "n": 1, "k": 70, "dtype": "float32", "epilogue": "max(2.0 * acc + x, 0.0)",
                    "with": {"x": "rows"}, "more": {"rows": array("float32", 90, 1)}},
}  # fmt: skip


@pytest.mark.sweep(1)
@pytest.mark.parametrize("what", VECTORS)
def test_one_column_is_summed_up_by_threads(what: str) -> None:
    built = tilegen.build(spec_of(**VECTORS[what], variant="rows"))
    assert built.spec.whole is not None and built.proof.runs and "reduce" in {o["op"] for o in built.manifest["ops"]}


@pytest.mark.parametrize(("variant", "arch"), [
    ("auto", "sm_90a"),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in (("auto", "sm_80"), ("simt", "sm_80"))),
])  # fmt: skip
def test_one_column_of_any_size_at_a_launch(variant: str, arch: str) -> None:
    """It is what is picked, and each size of its params is proved."""
    params = {"M": {"default": 655, "max": 100000}, "K": {"default": 943, "max": 100000}}
    spec = spec_of(655, 1, 943, "float32", arch=arch, params=params)
    for name, shape in (("A", ["M", "K"]), ("B", ["K", 1]), ("D", ["M", 1])):
        spec["buffers"][name]["shape"] = shape
    spec["ops"][0]["gemm"]["variant"] = variant
    built = tilegen.build(spec)
    picked = next(c.picked for c in built.spec.choices if c.question == "gemm")
    assert picked["variant"] == ("rows" if variant == "auto" else "simt")


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["wgmma", "mma_sync"])
def test_rows_known_at_a_launch_go_from_tile_to_tile(variant: str) -> None:
    """CTAs take tiles in groups of rows, of which the last group has fewer: proved of any number of rows."""
    params = {"M": {"default": 300, "max": 4096}}
    spec = spec_of(300, 256, 128, "bfloat16", arch="sm_90a", params=params, variant=variant)
    for name, shape in (("A", ["M", 128]), ("D", ["M", 256])):
        spec["buffers"][name]["shape"] = shape
    built = tilegen.build(spec)
    picked = next(c.picked for c in built.spec.choices if c.question == "gemm")
    assert picked["variant"] == variant and picked["ctas"] > 1
    assert {case["M"] for case, _ in ((dict(c), x) for c, x in built.proof.runs)} >= {1, 300}


@pytest.mark.parametrize(("before", "after"), [
    ("- for: {k: 2}", "- for: {k: 1}"), ("fma(x, y, terms)", "fma(x, x, terms)"), ("fma(x, y, terms)", "x * y"),
    ("[m*2", "[(m + 0)*1"), ("op: sum", "op: max"),
])  # fmt: skip
def test_a_column_that_sums_up_something_else_is_found(before: str, after: str) -> None:
    spec = tilegen.load(spec_of(**VECTORS["a column, K unaligned"], variant="rows", tile=[2, 1, 512]))
    text = print_spec(tilegen.expand(spec))
    assert before in text
    other = tilegen.load(text.replace(before, after))
    assert proof_code(lambda: prove(replace(other, whole=spec.whole), plan_spec(other))) != ""


# ---------------------------------------------------------------- wrong ones
ROWS = {"rows": array("float32", 96, 1), "c": array("bfloat16", 96, 96)}
RIGHT = {"m": 96, "n": 96, "k": 96, "epilogue": "acc * x + c", "with": {"x": "rows"}, "c": "c", "more": ROWS}
WRONG: dict[str, dict[str, Any]] = {
    "another epilogue": {"epilogue": "acc * x - c"},
    "a factor twice": {"epilogue": "acc * x * x + c"},
    "B turned": {"orders": ("row", "col", "row")},
    "A turned": {"orders": ("col", "row", "row")},
    "D turned": {"orders": ("row", "row", "col")},
    "scales of columns": {"more": ROWS | {"rows": array("float32", 1, 96)}},
    "C turned": {"more": ROWS | {"c": array("bfloat16", 96, 96) | {"layout": "col"}}},
}


@cache
def load_right(arch: str) -> Spec:
    """A product whose proof passes."""
    spec = tilegen.load(spec_of(**RIGHT, arch=arch))
    assert proof_code(lambda: prove(spec, plan_spec(spec))) == ""
    return spec


@pytest.mark.sweep(1)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("wrong", WRONG)
def test_tiles_of_another_product_are_found(wrong: str, arch: str) -> None:
    """The statements are right by themselves, but they are not what the op means."""
    meant, other = load_right(arch), tilegen.load(spec_of(**RIGHT | WRONG[wrong], arch=arch))
    mixed = replace(other, whole=meant.whole)
    assert proof_code(lambda: prove(mixed, plan_spec(mixed))) == "TG420"


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["", "a factor twice", "B turned"])
def test_a_product_proved_in_parts_side_by_side_is_judged_as_one(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was proved, or what is wrong, to the word."""
    monkeypatch.setattr(sys.modules["tilegen.proofs.prove"], "_SHARED_WORK", 0)
    meant, other = (tilegen.load(spec_of(**RIGHT | more)) for more in ({}, WRONG.get(wrong, {})))
    mixed = replace(other, whole=meant.whole)
    said: list[Any] = []
    for processes in (1, 2):
        try:
            said.append(prove(mixed, plan_spec(mixed), processes))
        except ProofError as found:
            said.append(found.diagnostics)
    assert said[0] == said[1] and isinstance(said[0], Proof) == (not wrong)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("change", ["k - 1", "first", "m and n"])
def test_statements_that_leave_out_or_exchange_are_found(change: str) -> None:
    spec = tilegen.load(spec_of(256, 256, 256, tile=[64, 64, 64], ctas=4))
    text = print_spec(tilegen.expand(spec))
    rules = {
        "k - 1": ("- for: {k: 4}", "- for: {k: 3}"), "first": ('dst: "D[m*64', 'dst: "D[(3 - m)*64'),
        "m and n": ('"A[m*64 : +64, k*64 : +64]"', '"A[n*64 : +64, k*64 : +64]"'),
    }  # fmt: skip
    before, after = rules[change]
    changed = "\n".join(line.replace(before, after) if before in line else line for line in text.splitlines()) + "\n"
    assert changed != text
    other = tilegen.load(changed)
    mixed = replace(other, whole=spec.whole)
    assert proof_code(lambda: prove(mixed, plan_spec(mixed))) in ("TG420", "TG413", "TG433", "TG418")


# ---------------------------------------------------------------- what drawn products found on a GPU
DRAWN: dict[str, dict[str, Any]] = {  # 8-bit columns, whose rows in shared memory are shorter than the widest swizzle
    "columns of bytes": {"m": 80, "n": 64, "k": 144, "dtype": "int8", "result": "int32", "orders": ("col",) * 3},
    "rows of bytes": {"m": 64, "n": 128, "k": 256, "dtype": "float8_e4m3fn", "result": "float16"},
    "one row of halves": {"m": 1, "n": 688, "k": 1136, "orders": ("row", "row", "col")},
    "one row of a batch": {"m": 1, "n": 136, "k": 40, "dtype": "float32", "math": "tf32", "batch": 3, "arch": "sm_90"},
    "one warp by cp.async": {"m": 96, "n": 48, "k": 664, "dtype": "int8", "result": "bfloat16", "arch": "sm_90",
                             "tile": [32, 64, 256], "atoms": [1, 1, 1], "epilogue": "max(acc, 0.0)"},
    "a k-tile longer than a box": {"m": 64, "n": 64, "k": 1024, "dtype": "float16", "arch": "sm_90",
                                   "orders": ("col", "row", "col"), "tile": [16, 32, 512]},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", DRAWN)
def test_what_was_wrong_on_a_gpu_or_refused_is_built(what: str) -> None:
    built = tilegen.build(spec_of(**DRAWN[what]))
    for m in (a for a in built.manifest["args"] if a["kind"] == "tensor_map"):
        row = m["box"][0] * m["elem_bytes"]
        assert not m["swizzle_bytes"] or m["swizzle_bytes"] == row, "rows lie one behind the other"
        assert all(stride % 16 == 0 for stride in m["strides_bytes"])


@pytest.mark.slow
def test_rows_that_end_amid_16_bytes_are_stored_by_threads() -> None:
    """TMA writes what lies behind them too."""
    given = spec_of(296, 3, 128, result="float32", variant="wgmma", orders=("row", "col", "row"))
    given["buffers"]["D"]["layout"] = "S[(296,3):(4,1)]"
    maps = [a["array"] for a in tilegen.build(given).manifest["args"] if a["kind"] == "tensor_map"]
    assert maps == ["A", "B"]


@pytest.mark.slow
def test_tiles_of_a_launch_that_has_fewer_than_there_are_ctas_are_proved() -> None:
    """Where a place in a group of tiles is bounded by how many tiles there are, rather than by the group."""
    params = {"M": {"default": 56, "max": 296, "multiple_of": 8}, "N": {"default": 16, "max": 992, "multiple_of": 16}}
    given = spec_of(56, 16, 672, dtype="int8", result="int32", arch="sm_90", params=params, ctas=132)
    for name, shape in (("A", ["M", 672]), ("B", [672, "N"]), ("D", ["M", "N"])):
        given["buffers"][name]["shape"] = shape
    assert tilegen.build(given).proof.runs


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_large_k_that_the_launch_knows_is_proved(arch: str) -> None:
    """Rows of K elements, and a place in the last of them."""
    params = {"K": {"default": 1020, "max": 65536}}
    given = spec_of(48, 98, 1020, batch=2, arch=arch, orders=("row", "row", "col"), params=params)
    for name, shape in (("A", [2, 48, "K"]), ("B", ["K", 98])):
        given["buffers"][name] = array("bfloat16", *shape)
    assert tilegen.build(given).proof.runs


@pytest.mark.slow
@pytest.mark.parametrize("pins", [
    {"atoms": [1, 1, 1], "tile": [16, 32, 1024], "k_parts": 8}, {"tile": [256, 128, 64], "atoms": [4, 2, 1]},
    {"tile": [256, 128, 64]},
])  # fmt: skip
def test_what_is_listed_without_pins_can_be_pinned(pins: dict[str, Any]) -> None:
    picked = tilegen.load(spec_of(464, 80, 1024, arch="sm_90", orders=("row", "col", "row"), **pins)).choices[0].picked
    assert {name: picked[name] for name in pins} == pins


# ---------------------------------------------------------------- warps that share K
SHARED_K: dict[str, dict[str, Any]] = {
    "elements one by one": {"m": 37, "n": 19, "k": 1001, "orders": ("col", "row", "row")},
    "cp.async": {"m": 40, "n": 24, "k": 2000, "arch": "sm_80", "tile": [16, 8, 256]},
    "cp.async, one k-tile": {"m": 40, "n": 24, "k": 200, "arch": "sm_80", "tile": [16, 8, 256]},
    "of a batch": {"m": 40, "n": 24, "k": 520, "arch": "sm_90", "batch": 3, "orders": ("col", "col", "col")},
    "fused multiply-adds": {"m": 41, "n": 24, "k": 403, "tile": [16, 16, 32], "dtype": "float32",
                            "orders": ("row", "col", "row")},
    "float64": {"m": 40, "n": 24, "k": 520, "dtype": "float64"},
    "int8": {"m": 40, "n": 24, "k": 1040, "dtype": "int8", "result": "int32", "arch": "sm_80"},
    "stages that leave no room for longer rows": {
        "m": 269, "n": 25, "k": 3332, "dtype": "int8", "result": "int32", "orders": ("row", "col", "col"),
        "tile": [16, 8, 2048], "stages": 4,
    },
    "tf32": {"m": 40, "n": 24, "k": 1000, "dtype": "float32", "math": "tf32", "arch": "sm_80"},
    "an epilogue": {"m": 41, "n": 23, "k": 601, "dtype": "float16", "epilogue": "max(acc * x + bias, 0.0)",
                    "with": {"x": "rows"}, "bias": "bias",
                    "more": {"rows": array("float32", 41, 1), "bias": array("float32", 23)}},
    "sums that do not fit over the stages": {"m": 64, "n": 64, "k": 64, "tile": [64, 32, 64], "arch": "sm_80"},
    "one k-tile": {"m": 33, "n": 17, "k": 40, "tile": [16, 8, 64]},
}  # fmt: skip


@pytest.mark.sweep(1)
@pytest.mark.parametrize("what", SHARED_K)
def test_warps_that_share_k_are_proved(what: str) -> None:
    built = tilegen.build(spec_of(**SHARED_K[what], k_parts=4))
    assert built.spec.choices[0].picked["k_parts"] == 4 and built.proof.runs
    assert built.spec.threads == 128 and "4 warps share K" in built.spec.notes[-1]


@cache
def expand_shared_k(what: str) -> tuple[Spec, str]:
    spec = tilegen.load(spec_of(**SHARED_K[what], k_parts=4))
    return spec, print_spec(tilegen.expand(spec))


@pytest.mark.sweep(1)
@pytest.mark.parametrize("what", ["elements one by one", "cp.async", "fused multiply-adds"])
@pytest.mark.parametrize(("before", "after"), [
    ("for: {q: [1, 4]}", "for: {q: [1, 3]}"), ("for: {q: [1, 4]}", "for: {q: [0, 4]}"),
    ('src: "joined[0]"', 'src: "joined[1]"'), ("total + x, with", "total - x, with"),
    ("part: warpid *", "part: warpid % 3 *"), ("part: warpid *", "part: (3 - warpid) // 1 % 2 *"),
    ('dst: "joined[warpid]"', 'dst: "joined[(warpid + 1) % 4 // 2]"'),
    ("  - sync: cta\n  - copy: {src: \"joined[0]\"", '  - copy: {src: "joined[0]"'),
    ("  - sync: cta\n  - copy: {scope: warp, src: sums", "  - copy: {scope: warp, src: sums"),
])  # fmt: skip
def test_parts_of_k_that_are_left_out_or_added_twice_are_found(what: str, before: str, after: str) -> None:
    """Also sums of another warp, and meetings that are missing."""
    spec, text = expand_shared_k(what)
    assert text.count(before) == 1
    other = tilegen.load(text.replace(before, after))
    assert proof_code(lambda: prove(replace(other, whole=spec.whole), plan_spec(other))) != ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"), [("<= K}", "<= K - STEP}"), ("not ((k + 2)*128 <= K)", "not ((k + 2)*128 <= K + STEP)")]
)
@pytest.mark.parametrize("step", [1, 2])
def test_k_tiles_left_out_at_some_sizes_alone_are_found(before: str, after: str, step: int) -> None:
    """The last k-tile of a is not loaded where K, known at a launch, is a multiple of 128, or one less."""
    params = {"K": {"default": 1000 + step % 2, "max": 5000, "multiple_of": step}}
    given = spec_of(37, 19, 1001, tile=[16, 8, 128], k_parts=4, load="threads", params=params)
    for name, shape in (("A", [37, "K"]), ("B", ["K", 19])):
        given["buffers"][name]["shape"] = shape
    spec = tilegen.load(given)
    text = print_spec(tilegen.expand(spec))
    other = tilegen.load(text.replace(before, after.replace("STEP", str(step)), 1))
    assert before in text and proof_code(lambda: prove(replace(other, whole=spec.whole), plan_spec(other))) == "TG420"


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "k", "fields"), [
    ("float32", 17, {"k_parts": 16}), ("float32", 5, {"k_parts": 32}), ("float64", 17, {"k_parts": 16}),
    ("bfloat16", 17, {"k_parts": 16}),
])  # fmt: skip
def test_a_short_k_is_shared_on_demand(dtype: str, k: int, fields: dict[str, Any]) -> None:
    assert tilegen.build(spec_of(40, 24, k, dtype, **fields)).proof.runs


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("dtype", "result", "layout"), [
    ("float16", "", "S[(130,33):(34,1)]"), ("bfloat16", "float32", "S[(130,33):(64,1)]"),
    ("int8", "int32", "S[(130,33):(48,1)]"), ("float16", "", "S[(130,33):(128,2)]"),
])  # fmt: skip
def test_rows_whose_ends_cut_their_words_are_loaded_by_threads(dtype: str, result: str, layout: str, arch: str) -> None:
    """Rows begin at words, but 33 elements are no whole number of them, or lie apart: cp.async does not copy these."""
    spec = spec_of(48, 33, 130, dtype, result, arch=arch)
    spec["buffers"]["B"]["layout"] = layout
    built = tilegen.build(spec)
    assert built.spec.choices[0].picked["load"] == "threads" and built.proof.runs


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    ("shape", "few"),
    [((207, 19, 3396), True), ((96, 64, 20000), True), ((203, 8, 1784), True), ((207, 19, 96), False),
     ((2048, 2048, 2048), False), ((1, 512, 4096), False)],
)  # fmt: skip
def test_few_tiles_of_a_long_k_are_shared(shape: tuple[int, int, int], few: bool) -> None:
    m, n, k = shape
    assert ("k_parts" in tilegen.load(spec_of(m, n, k)).choices[0].picked) == few


@pytest.mark.slow
def test_only_the_last_k_tile_asks_where_k_ends() -> None:
    built = tilegen.build(spec_of(207, 19, 3396, orders=("col", "row", "row"), tile=[32, 32, 256]))
    loads = re.findall(r"void (copy_[AB]_r[ab]\w*)\((.*?)\n}", built.source, re.S)
    assert len(loads) == 6 and sum("< 3396" in body for _, body in loads) == 2
    inside = next(body for name, body in loads if name == "copy_A_ra_2")
    assert "int k," not in inside and "< 207" in inside


# ---------------------------------------------------------------- what is chosen and printed
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_is_printed_is_the_same_kernel(seed: int) -> None:
    spec = tilegen.load(draw_problem(seed))
    expanded = tilegen.expand(spec)
    text = print_spec(expanded)
    again = tilegen.load(text)
    assert again == expanded
    assert plan_spec(again).roles == plan_spec(spec).roles


@pytest.mark.sweep(9)
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"variant": "wgmma", "arch": "sm_80"}, "wgmma: sm_80 has no wgmma"),
        ({"variant": "simt"}, "fused multiply-adds are of float32 and float64, not bfloat16"),
        ({"variant": "wgmma", "n": 81}, "aligned to 2 bytes, TMA needs 16"),
        ({"variant": "wgmma", "dtype": "int8", "result": "int32"}, "along K alone"),
        ({"tile": [128, 256, 64], "stages": 9}, "'stages: 9' beside 'tile: [128, 256, 64]'"),
        ({"tile": [128, 256, 64], "stages": 9}, "the nearest that can be is 'stages: 4'"),
        ({"stages": 1, "k": 8192, "variant": "mma_sync", "load": "cp_async"}, "the nearest that can be is 'stages: 2'"),
        ({"stages": 2, "load": "threads"}, "'stages: 2' beside 'load: threads'"),
        ({"permutation": [32, 32, 16], "load": "tma", "arch": "sm_90"}, "'load: tma' beside 'permutation"),
        ({"atoms": [2, 2, 1], "variant": "wgmma"}, "'atoms: [2, 2, 1]' beside 'variant: wgmma'"),
        ({"atoms": "(2,2,1):(2,1,0)", "load": "tma", "arch": "sm_90"}, "'load: tma' beside 'atoms"),
        ({"permutation": ["R=3", None, None]}, "leave 'permutation' out"),
        ({"atom": "wgmma.m64n64k16.f32.bf16.bf16", "tile": [64, 32, 64]}, "'tile: [64, 32, 64]'"),
        ({"atom": "mma.m16n8k16.f32.bf16.bf16.f32", "variant": "wgmma"}, "leave 'atom' out"),
        ({"atom": "mma.m16n8k8.tf32"}, "does not multiply bfloat16 by bfloat16 into float32"),
        ({"overlap": "previous", "arch": "sm_80"}, "leave 'overlap' out"),
        ({"cluster": 2, "variant": "mma_sync"}, "'cluster: 2' beside 'variant: mma_sync'"),
        ({"panel": 64, "arch": "sm_80"}, "leave 'panel' out"),
        ({"tile": [96, 64, 64], "variant": "wgmma"}, "the nearest that can be is 'tile: [64, 64, 64]'"),
        ({"tile": [64, 7, 64], "variant": "wgmma"}, "the nearest that can be is 'tile: [64, 8, 64]'"),
        ({"tile": [64, 64, 24], "load": "tma", "arch": "sm_90"}, "the nearest that can be is 'tile: [64, 64, 32]'"),
        ({"n": 1, "tile": [3, 1, 8], "variant": "rows"}, "'tile: [3, 1, 8]' beside 'variant: rows'"),
        ({"n": 1, "tile": [1, 8, 128], "variant": "rows"}, "'tile: [1, 8, 128]' beside 'variant: rows'"),
        ({"m": 1, "tile": [8, 1, 128], "variant": "rows"}, "'tile: [8, 1, 128]' beside 'variant: rows'"),
        ({"k_parts": 4, "variant": "wgmma"}, "'k_parts: 4' beside 'variant: wgmma'"),
        ({"k_parts": 4, "tile": [16, 8, 40]}, "'tile: [16, 8, 40]' beside 'k_parts: 4'"),
        ({"k_parts": 4, "load": "tma"}, "'load: tma' beside 'k_parts: 4'"),
        ({"k_parts": 4, "atoms": [2, 2, 1]}, "'atoms: [2, 2, 1]' beside 'k_parts: 4'"),
        (
            {"k": 3001, "orders": ("col", "col", "row"), "k_parts": 16, "tile": [32, 32, 1024]},
            "'tile: [32, 32, 1024]' beside 'k_parts: 16'",
        ),  # 512 threads have 128 registers each, too few for sums and a k-tile
    ],
)  # fmt: skip
def test_pins_that_cannot_be_say_why(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match="TG302") as caught:
        tilegen.load(spec_of(**fields))
    assert message in str(caught.value)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("tile", [[8, 1, 128], [2, 1, 512], [1, 1, 8], [256, 1, 4]])
@pytest.mark.parametrize("is_column", [True, False])
def test_a_tile_of_one_column_is_one_of_the_result(tile: list[int], is_column: bool) -> None:
    """Not of its transpose, as long as nobody asks for that."""
    m, n = (300, 1) if is_column else (1, 300)
    pinned = tile if is_column else [tile[1], tile[0], tile[2]]
    built = tilegen.build(spec_of(m, n, 70, "float32", variant="rows", tile=pinned))
    assert built.spec.choices[0].picked == {"variant": "rows", "tile": pinned}
    assert next(b for b in built.spec.buffers if b.name == "terms").shape == (tile[0], tile[2])


@pytest.mark.parametrize("field", ["atom", "atoms", "permutation"])
def test_what_is_no_layout_is_refused_where_it_stands(field: str) -> None:
    given: Any = ["R=2", "x", 16] if field == "permutation" else "(2,2"
    with pytest.raises(SpecError, match="TG201") as caught:
        tilegen.load(spec_of(**{field: given}))
    assert caught.value.diagnostics[0].mark.keys == f"ops[0].gemm.{field}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_what_is_pinned_is_carried_out(seed: int) -> None:
    """Of a random recipe some fields: the statements have them all."""
    draw = random.Random(seed)
    given = draw_problem(seed)
    call = tilegen.load(given).whole
    assert call is not None
    said = draw.choice(rank_recipes(read_problem(call), ARCHES[given["arch"]], call.fields)[0]).recipe.fields()
    pins = {name: said[name] for name in draw.sample(sorted(said), draw.randint(1, len(said)))}
    pins |= {"overlap": "previous"} if given["arch"] in ("sm_90", "sm_90a") else {}
    given["ops"][0]["gemm"] |= pins
    spec = tilegen.load(given)
    picked = spec.choices[0].picked
    assert {name: picked.get(name) for name in pins} == pins
    assert spec.overlaps == ("overlap" in pins)


@pytest.mark.slow
@pytest.mark.parametrize("load", ["tma", "cp_async", "threads"])
def test_every_recipe_waits_for_the_kernel_before(load: str) -> None:
    """The clocks see whether all that touches arrays comes after the wait."""
    spec = tilegen.load(spec_of(arch="sm_90", load=load, overlap="previous", n=96, more=ROWS, c="c"))
    assert proof_code(lambda: prove(spec, plan_spec(spec))) == "" and spec.overlaps
    waits = [s for s in outline(spec).find(FollowStatement)]
    assert len(waits) == (2 if load == "tma" else 1)


@pytest.mark.slow
def test_a_pinned_permutation_is_that_of_the_sums() -> None:
    spec = tilegen.load(spec_of(512, 512, 512, arch="sm_90", permutation=["R=2", None, None]))
    sums = next(b for b in spec.buffers if b.name == "sums")
    picked = spec.choices[0].picked
    atoms, tile = tuple(picked["atoms"]), tuple(picked["tile"])
    assert sums.layout == tiled_mma(picked["atom"], atoms, ("R=2", None, None), "C", tile)
    assert sums.layout != tiled_mma(picked["atom"], atoms, None, "C", tile)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tile", "along_k"), [
    ("float16", [64, 64, 32], 32), ("float16", [64, 64, 64], "R=4"), ("float64", [64, 64, 16], "R=2"),
])  # fmt: skip
def test_a_permutation_along_k_makes_steps_as_long_as_its_period(dtype: str, tile: list[int], along_k: Any) -> None:
    built = tilegen.build(spec_of(
        128, 128, 128, dtype, arch="sm_90", variant="mma_sync", load="cp_async", tile=tile,
        permutation=[None, None, along_k],
    ))  # fmt: skip
    fragments = next(b for b in built.spec.buffers if b.name == "a")
    chain = derive_mma(tile_mma(built.spec.choices[0].picked["atom"], (2, 2, 1), (None, None, along_k), tuple(tile)))
    assert fragments.shape[2] == chain.modes[2].period > chain.modes[2].native


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    ("arch", "fields"),
    [
        ("sm_90a", {"tile": [256, 64, 64]}), ("sm_90a", {"tile": [128, 64, 64]}), ("sm_90a", {"tile": [64, 64, 64]}),
        ("sm_90", {"load": "tma", "tile": [128, 64, 64]}), ("sm_90", {"load": "tma", "tile": [256, 128, 64]}),
    ],
)  # fmt: skip
def test_the_tiling_that_explain_derives_is_that_of_the_statements(arch: str, fields: dict[str, Any]) -> None:
    """Each warp, or warpgroup, has the part of the CTA's tile that its regions of A and B say."""
    spec = tilegen.load(spec_of(512, 512, 512, arch=arch, **fields))
    (text,) = (c.picked for c in spec.choices if c.question == TILING)
    layout, (bm, bn, _) = parse(text), spec.choices[0].picked["tile"]
    sums = next(b for b in spec.buffers if b.name == "sums")
    rows, columns = sums.shape
    for i, j in itertools.product(range(0, bm, 8), range(0, bn, 8)):
        place = layout.place((i, j), (bm, bn))
        own = sums.layout.place((i % rows, j % columns), (rows, columns))
        part = i // rows + bm // rows * (j // columns)
        if arch == "sm_90":
            assert (place.get("warpid", 0), place["laneid"], place["m"]) == (part, own["laneid"], own["m"])
        else:
            assert place["laneid"] == own["laneid"] and place["m"] == own["m"]
            assert place.get("wgid", 0) == part and place["wid_in_wg"] == own["wid_in_wg"]


def test_a_field_that_nobody_knows_is_an_error() -> None:
    class More(GemmFields):
        later: int = 1

    with pytest.raises(TypeError, match="does not know later"):
        read_pins(More(a="A", b="B", d="D"))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"more": {"bias": array("float32", 81)}, "bias": "bias"}, "TG212"), ({"d": "A"}, "TG212"),
        ({"more": {"E": array("bfloat16", 80, 64)}, "b": "E"}, "TG212"), ({"math": "tf32"}, "TG302"),
        ({"more": {"E": array("float16", 64, 80)}, "b": "E"}, "TG212"), ({"epilogue": "acc + nobody"}, "TG105"),
        ({"dtype": "int16"}, "TG301"), ({"bias": "missing"}, "TG105"), ({"tile": [128, 128]}, "TG106"),
        ({"tile": [0, 64, 64]}, "TG106"), ({"tile": [64, 64, -64]}, "TG106"),
        ({"epilogue": "acc + bx"}, "TG113"), ({"epilogue": "acc + kt"}, "TG105"),
        ({"epilogue": "acc + index(0)"}, "TG302"), ({"epilogue": " "}, "TG111"), ({"beta": 2}, "TG302"),
        ({"epilogue": "acc", "with": {"acc": "A"}}, "TG108"), ({"epilogue": "acc", "with": {"x": "A"}}, "TG212"),
        ({"epilogue": "acc", "alpha": 2}, "TG302"), ({"epilogue": "acc", "with": {"x": "D"}}, "TG302"),
        ({"epilogue": "acc + alpha", "alpha": "nobody"}, "TG105"),
    ],
)  # fmt: skip
def test_calls_that_cannot_be_are_refused(fields: dict[str, Any], code: str) -> None:
    caught = refusal_of(SpecError, tilegen.load, spec_of(**fields))
    assert caught.diagnostics[0].code == code, str(caught)


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ('epilogue: "acc * beta + nobody", beta: 2.5', "nobody"),
        ("epilogue: acc * beta, beta: nobody", "nobody"),
        ("alpha: nobody", "nobody"),
        ('epilogue: "acc + max(acc, acc, acc)"', "max"),
        ('epilogue: "acc + index(1)"', "acc + index(1)"),
        ('epilogue: "acc + x", with: {x: F}', "F"),
        ('epilogue: "acc + x", with: {x: E, y: E}', "E}"),
        ("atoms: [3, 2]", "[3, 2]"),
        ("tile: [128, 256, 64], stages: 15", "15"),
        ("split_k: 2", "split_k"),
    ],
)
def test_errors_of_fields_stand_where_the_text_is(line: str, where: str) -> None:
    """At their characters in the file, alpha and beta written out or not."""
    rows = [f"  {x}: {{scope: global, dtype: bfloat16, shape: [256, 256]}}" for x in "ABDE"]
    rows += ["  F: {scope: global, dtype: bfloat16, shape: [3]}"]
    said = f"  - gemm: {{a: A, b: B, d: D, {line}}}"
    text = "\n".join(["kernel: product", "arch: sm_90a", "buffers:", *rows, "ops:", said, ""])
    caught = refusal_of(SpecError, tilegen.load, text)
    mark = caught.diagnostics[0].mark
    assert mark is not None and mark.line == 10
    assert said[mark.column - 1 :].startswith(where), str(caught)
    assert mark.column - 1 == said.rindex(where)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("seed", range(6))
def test_closed_forms_count_what_a_plan_reads(seed: int) -> None:
    """Of random recipes, the bytes that all CTAs bring: k-tiles times a tile's rows of A and columns of B."""
    draw = random.Random(seed)
    m, n, k = (64 * draw.randint(4, 12) for _ in range(3))
    given = spec_of(m - m % 256 or 256, n - n % 256 or 256, k)
    call = tilegen.load(given).whole
    assert call is not None
    ranked, _ = rank_recipes(read_problem(call), ARCHES["sm_90a"], call.fields)
    recipe = draw.choice(ranked).recipe
    given["ops"][0]["gemm"] |= recipe.fields()
    spec = tilegen.load(given)
    plan, launch = plan_spec(spec), launch_of(spec)
    read = [a for a in compiled_accesses(plan) if a.memory.space == "global" and not a.writes]
    (bm, bn, bk), (m, n, k) = recipe.tile, read_problem(call).sides
    tiles = -(-m // bm) * -(-n // bn) * -(-k // bk)
    assert sum(count_bytes(a, launch, None) for a in read) == tiles * bk * (bm + bn // recipe.cluster) * 2


# ---------------------------------------------------------------- names
NAMES = [
    "a", "b", "k", "i", "g", "u", "l", "m", "n", "t", "tm", "tn", "kt", "sa", "sb", "sa_t", "sb_t", "ra", "rb", "rows",
    "part", "s", "x", "y", "w", "f", "e", "h", "v", "q", "d2", "stage", "full", "free", "load", "out",
]  # fmt: skip


@pytest.mark.sweep(1)
@pytest.mark.parametrize("variant", ["wgmma", "mma_sync", "simt", "rows"])
@pytest.mark.parametrize("seed", range(6))
def test_names_of_with_may_be_what_an_expansion_would_call_its_own(seed: int, variant: str) -> None:
    """Of operands and of values, and of an array beside them."""
    draw = random.Random(f"{seed} {variant}")
    x, y, value, name = draw.sample(NAMES, 4)
    dtype, n = "float32" if variant == "simt" else "float16", 1 if variant == "rows" else 64
    more = {name: array("float32", n), "second": array("float32", 64, 1)}
    fields = {"epilogue": f"{value} = acc + {x}; {value} * {y}", "with": {x: name, y: "second"}, "variant": variant}
    tile = {"wgmma": [64, 64, 64], "mma_sync": [32, 32, 64], "simt": [32, 32, 32]}.get(variant)
    built = tilegen.build(spec_of(64, n, 64, dtype, "float32", more=more, **fields, **({"tile": tile} if tile else {})))
    assert f": {variant} " in built.spec.notes[-1]
