"""What explain says beside choices and counts: matrix descriptors, what an arch has that is not used, one op, all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_cli import tilegen
from tilegen.pipeline import explain, load
from tilegen.plan import Block, MatrixDescriptor, Repeat, TensorMma, Wgmma, all_steps, flatten
from tilegen.plan.descriptors import MODES
from tilegen.planner import plan_spec
from tilegen.report import explain_text
from tilegen.report.descriptors import list_descriptors

ROOT = Path(__file__).parents[1]
WGMMA = ["wgmma_tile", "wgmma_ring", "gemm_fp8", "attention_hopper"]
SUBTILE = """kernel: subtile
arch: sm_90a
threads: 128
buffers:
  A: {scope: global, dtype: float16, shape: [64, 64]}
  B: {scope: global, dtype: float16, shape: [64, 64]}
  O: {scope: global, dtype: float32, shape: [64, 64]}
  sa: {scope: shared, dtype: float16, shape: [64, 64], layout: "LAYOUT_A"}
  sb: {scope: shared, dtype: float16, shape: [64, 64], layout: "LAYOUT_B"}
  c: {scope: register, dtype: float32, shape: [64, 64], layout: auto}
ops:
  - copy: {src: A, dst: sa}
  - copy: {src: B, dst: sb}
  - sync: async
  - sync: cta
  - mma: {a: "sa[:, 16 : +16]", b: "sb[16 : +16, :]", c: c, accumulate: false, variant: wgmma}
  - mma: {a: "sa[:, 48 : +16]", b: "sb[48 : +16, :]", c: c, variant: wgmma}
  - copy: {src: c, dst: O}
"""
LAYOUTS = [  # of a and b, and the numbers of a: leading and stride bytes, the swizzle, where it begins in each product
    ("Swizzle(3, 3, 3)", "Swizzle(3, 3, 3)", (16, 1024, 128, ["32", "96"])),
    ("mma_shared_layout('float16', '64B', (64, 64))", "Swizzle(3, 3, 3)", (16, 512, 64, ["32", "4128"])),
    ("mma_shared_layout('float16', '32B', (64, 64))", "Swizzle(3, 3, 3)", (16, 256, 32, ["2048", "6144"])),
    ("S[(64, 8, 8):(8, 512, 1)]", "Swizzle(3, 3, 3)", (1024, 128, 0, ["2048", "6144"])),
]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("of_a, of_b, numbers", LAYOUTS, ids=[one[0][:24] for one in LAYOUTS])
def test_descriptors_have_the_numbers_that_the_hardware_is_given(
    of_a: str, of_b: str, numbers: tuple, tmp_path: Path
) -> None:
    text = SUBTILE.replace("LAYOUT_A", of_a).replace("LAYOUT_B", of_b)
    ops = explain(text)["ops"]
    leading, stride, swizzle, starts = numbers
    for op, start in zip(ops[2:4], starts, strict=True):
        a, b = op["descriptors"]
        found = (a["leading_bytes"], a["stride_bytes"], a["swizzle_bytes"], a["starts"])
        assert (a["operand"], a["buffer"], found) == ("a", "sa", (leading, stride, swizzle, [start]))
        assert (a["mode"], b["operand"], b["buffer"]) == (MODES[swizzle], "b", "sb")
    (tmp_path / "subtile.yaml").write_text(text)
    page = tilegen("explain", tmp_path / "subtile.yaml").stdout
    assert "leading bytes  stride bytes" in page and re.search(rf"\n +a +sa +K .* {stride} ", page)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", WGMMA)
def test_every_descriptor_of_a_plan_is_listed_once(name: str) -> None:
    plan = plan_spec(load(ROOT / "specs" / f"{name}.yaml"))
    has = set()
    for block in (s for s in all_steps(plan) if isinstance(s, Block)):
        for step in flatten(block.body):
            if isinstance(step, Wgmma):
                has |= {(block.op, s, lies) for s, lies in (("a", step.a_lies), ("b", step.b_lies)) if lies is not None}
    told = []
    for op in range(len(plan.operations)):
        for d in list_descriptors(plan, op):
            size = 32 // next(x.depth for o, s, x in has if (o, s) == (op, d["operand"]))
            lies = MatrixDescriptor(
                d["rows"], size, d["along"], d["swizzle_bytes"], d["leading_bytes"], d["stride_bytes"]
            )
            told.append((op, d["operand"], lies))
    assert has and len(told) == len(set(told)) and set(told) == has


def list_by_tcgen05(name: str) -> list[tuple[int, TensorMma]]:
    """The products of a spec's plan, each as often as one run of its op starts it."""
    plan = plan_spec(load(ROOT / "specs" / f"{name}.yaml"))

    def unfold(steps: tuple) -> Iterator:
        for step in steps:
            if isinstance(step, Repeat):
                yield from (one for _ in range(step.count) for one in unfold(step.body))
            elif isinstance(step, TensorMma):
                yield step

    blocks = dict.fromkeys(s for s in all_steps(plan) if isinstance(s, Block))
    return [(block.op, step) for block in blocks for step in unfold(block.body)]


@pytest.mark.parametrize("name", ["hgemm_blackwell", "gemm_mxfp8", "attention_blackwell"])
def test_products_by_tcgen05_are_told_as_they_are_started(name: str) -> None:
    """Number, shape and kind of the products are the plan's; the bits are those of the kernel's text."""
    ops, products = explain(ROOT / "specs" / f"{name}.yaml")["ops"], list_by_tcgen05(name)
    cuda = (ROOT / "tests" / "golden" / f"{name}.cu").read_text(encoding="utf-8")
    told = [k for k, op in enumerate(ops) if "started" in op]
    assert told and told == sorted({op for op, _ in products})
    for k in told:
        own, started = [step for op, step in products if op == k], ops[k]["started"]
        m, n, depth = started["shape"]
        assert started["count"] == len(own) and started["instruction"] == own[0].via.name
        assert {(step.b_lies.rows, step.b_lies.depth) for step in own} == {(n, depth)} and m == 128
        for d in ops[k]["descriptors"]:
            assert d["engine"] == "tcgen05" and d["rows"] == (m if d["operand"] == "a" else n)
            assert len(d["starts"]) == started["count"]  # K alone is cut here: every product reads its own bytes
        said = started["instruction_descriptors"]
        assert [one.get("a_factor", 0) for one in said] == sorted({step.factor for step in own})
        assert all(f"{one['bits']}u" in cuda for one in said)
        assert {one["n"] for one in said} == {n} and {one["b_along"] for one in said} == {own[0].b_lies.along}


def test_explain_says_who_uses_tensor_memory_and_what_a_product_is() -> None:
    page = " ".join(tilegen("explain", ROOT / "specs" / "gemm_mxfp8.yaml").stdout.split())
    for words in (
        "tensor memory: 496 of 512 columns taken, one allocation of 512, by warp 0 of role mma",
        "tcgen05.mma.mxf8f6f4: 4 x m128n224k32, idesc 0x08b80000 (float32 of float8_e4m3fn and float8_e4m3fn, both "
        "K-major, factors float8_e8m0fnu, ids 0 to 3)",
        "b sb K 16 (unused) 1024 128 B 2 32",
        "proved: 4 x 128 rows of a and 4 x 224 rows of b are read where the layouts say",
        "shared tcgen05",
    ):
        assert words in page, words
    assert "wgmma" not in page
    found = {b["buffer"]: b for b in explain(ROOT / "specs" / "gemm_mxfp8.yaml")["tensor_memory"]["buffers"]}
    (loads,) = found["acc"]["read_by"]
    assert (loads["role"], loads["warps"], loads["instruction"]) == ("store", [0, 3], "tcgen05.ld 32x32b.x32")
    assert [(use["name"], use["field"]) for use in found["ta"]["read_by"]] == [("mma", "sfa")]
    assert [(use["name"], use["field"]) for use in found["acc"]["written_by"]] == [("mma", "c")]


def test_an_access_of_tcgen05_is_named_after_it() -> None:
    spec = ROOT / "specs" / "hgemm_blackwell.yaml"
    kinds = [a["kind"] for op in explain(spec)["ops"] for a in op["accesses"]]
    assert "tcgen05" in kinds and "wgmma" not in kinds
    shown = tilegen("explain", spec, "--access", str(kinds.index("tcgen05") + 1)).stdout
    assert "a matrix that tcgen05 reads, no lane of a warp: 128 rows of 32 bytes" in " ".join(shown.split())


MULTIPLY = (ROOT / "specs" / "mma_tile.yaml").read_text(encoding="utf-8")


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("arch", "features"), [("sm_80", []), ("sm_90", []), ("sm_90a", ["wgmma"]), ("sm_100a", ["tcgen05"])]
)
def test_what_an_arch_has_that_a_product_does_not_use(arch: str, features: list[str]) -> None:
    found = explain(MULTIPLY, arch=arch)["unused"]
    assert [one["feature"] for one in found if one["feature"] != "wide_global"] == features
    page = tilegen("explain", ROOT / "specs" / "mma_tile.yaml", "--arch", arch).stdout
    assert all(f"not used of {arch}: {name}," in page for name in features)
    assert ("not used of" in page) == bool(found)


def test_wide_accesses_are_named_where_a_lane_moves_16_bytes() -> None:
    copy = ROOT / "specs" / "copy_tile.yaml"
    assert "wide_global" in [one["feature"] for one in explain(copy, arch="sm_100")["unused"]]
    assert explain(copy, arch="sm_90")["unused"] == []


@pytest.mark.slow
def test_one_op_alone() -> None:
    spec = ROOT / "specs" / "permute_sf.yaml"
    whole, one = tilegen("explain", spec).stdout, tilegen("explain", spec, "--op", "2").stdout
    assert re.findall(r"^op \d+", one, re.M) == ["op 2"] and "the whole grid" not in one
    body = one.partition("op 2:")[2].strip()
    assert body and body in whole
    assert re.findall(r"^ +#(\d+) ", one, re.M) == ["3", "4"]
    beyond = tilegen("explain", spec, "--op", "9")
    assert beyond.exit_code == 2 and "permute_sf has ops 1 to 3" in beyond.stderr
    for other in (("--summary",), ("--format", "json"), ("--resolved",), ("--events",), ("--access", "1")):
        assert tilegen("explain", spec, "--op", "2", *other).exit_code == 2


def test_all_has_what_the_page_leaves_out() -> None:
    spec = ROOT / "specs" / "transpose_any_size.yaml"
    short, whole = tilegen("explain", spec).stdout, tilegen("explain", spec, "--all").stdout
    assert "    refused  " not in short and "other variants cannot: --all says why" in short
    assert "    refused  " in whole and "--all" not in whole
    explained = explain(spec)
    refused = sum(r["cost"] is None for op in explained["ops"] for r in op["refused"])
    assert whole.count("    refused  ") == refused
    counted = sum(map(int, re.findall(r"(\d+) other variants? cannot", short)))
    assert counted == refused
    assert explain_text(explained, _arch(explained["arch"]), shows_all=True).strip() == whole.strip()


def test_accesses_that_only_edges_make_are_left_to_all() -> None:
    text = """kernel: rows
grid: {bx: ceil(N / 64)}
threads: 64
params: {N: {default: 1000, max: 4096}}
buffers:
  X: {scope: global, dtype: float32, shape: [N, 2]}
  Y: {scope: global, dtype: float32, shape: [N, 2]}
ops:
  - copy: {src: "X[bx*64 : +64]", dst: "Y[bx*64 : +64]", edge: clip}
"""
    explained = explain(text)
    idle = sum(a["threads"] == 0 for op in explained["ops"] for a in op["accesses"])
    short, whole = (explain_text(explained, _arch("sm_90"), shows_all) for shows_all in (False, True))
    rows = [len(re.findall(r"^ +#\d+ ", page, re.M)) for page in (short, whole)]
    assert rows[1] - rows[0] == idle and ("only at the edges" in short) == bool(idle)


def _arch(name: str):
    from tilegen.arch import ARCHES

    return ARCHES[name]
