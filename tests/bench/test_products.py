"""What a gemm is in numbers, how its results are judged, and how it is benched where NumPy is the GPU's memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from fakes import FakeWatch, fake_gpu

import tilegen
from tilegen.arithmetic import TFLOAT32
from tilegen.bench import choose_peers, result_text
from tilegen.bench.accuracy import (
    Exact,
    choose_rows,
    count_unwritten,
    find_beyond,
    measure_accuracy,
)
from tilegen.bench.meaning import Meaning, NotApplicable, Peer, Prepared, Task, derive_meaning, prepare_peer
from tilegen.bench.products import Product, Strided, Terms, derive_product, evaluate_exactly, read_rows
from tilegen.bench.tuned_products import fit_tiles, list_strides, why_no_boxes
from tilegen.cli import cli
from tilegen.dtypes import numpy_dtype

ROOT = Path(__file__).resolve().parents[2]
SPECS = ROOT / "specs"
TEXT = """kernel: product
arch: sm_80
params: {}
buffers:
  A: {{scope: global, dtype: {a}, shape: [M, K]}}
  B: {{scope: global, dtype: {a}, shape: [K, N], layout: col}}
  C: {{scope: global, dtype: {d}, shape: [M, N]}}
  z: {{scope: global, dtype: float32, shape: [N]}}
  D: {{scope: global, dtype: {d}, shape: [M, N]}}
ops:
  - gemm: {{a: A, b: B, d: D{rest}}}
"""


def text_of(rest: str = "", a: str = "bfloat16", d: str = "bfloat16", params: str = "{M: 48, N: 32, K: 64}") -> str:
    return TEXT.format(params, a=a, d=d, rest=f", {rest}" if rest else "")


def product_of(spec: Any, **params: int) -> Product:
    loaded = tilegen.load(spec)
    return derive_product(loaded, {p.name: int(p.default) for p in loaded.params if p.var is not None} | params)


# ---------------------------------------------------------------- what a spec means
def test_a_plain_product() -> None:
    found = product_of(SPECS / "gemm.yaml")
    assert found.a == Strided("A", "bfloat16", (1, 1024, 1024), (0, 1024, 1))
    assert found.b == Strided("B", "bfloat16", (1, 1024, 1024), (0, 1, 1024))
    assert found.d == Strided("D", "bfloat16", (1, 1024, 1024), (0, 1024, 1))
    assert (found.sizes, found.flops, found.factors) == ((1024, 1024, 1024), 2 << 30, "bfloat16")
    assert (found.tree, found.named, found.terms, found.is_batched) == (None, {}, Terms(), False)
    assert str(found) == (
        "product of 1024 x 1024 (by row) and 1024 x 1024 (by column), bfloat16 into bfloat16 (by row)"
    )


def test_a_batch_with_one_factor_for_all() -> None:
    found = product_of(SPECS / "gemm_batched.yaml")
    assert found.a.shape == (3, 200, 192) and found.a.strides == (200 * 192, 192, 1)
    assert found.b == Strided("B", "float16", (1, 192, 256), (0, 256, 1)) and found.b.span == 192 * 256
    assert (
        found.is_batched and found.flops == 2 * 3 * 200 * 256 * 192 and str(found).startswith("3 products of 200 x 192")
    )


@pytest.mark.slow
def test_sizes_at_the_launch() -> None:
    assert product_of(SPECS / "gemm_f32.yaml").sizes == (200, 130, 70)
    found = product_of(SPECS / "gemm_f32.yaml", M=1000)
    assert found.sizes == (1000, 130, 70) and found.factors == "float32" and found.d.strides == (0, 130, 1)
    assert product_of(text_of("math: tf32", "float32", "float32")).factors == TFLOAT32


def test_an_array_that_is_read_and_written() -> None:
    found = product_of(SPECS / "gemm_residual.yaml")
    assert found.is_read_again and found.d.order == "by column" and found.terms == Terms(beta=0.5, c="c")
    assert [x.name for x in found.arrays] == ["A", "B", "D"] and found.named["c"].strides == found.d.strides
    assert str(found).endswith("as D = acc + (0.5) * c")


@pytest.mark.slow
def test_epilogues() -> None:
    silu = product_of(SPECS / "gemm_silu.yaml")
    assert silu.terms is None and silu.scalars == {"s": 0.5} and silu.named["bias"].shape == (1, 1, 256)
    step = product_of(SPECS / "gemm_step4.yaml")
    assert step.terms is None and set(step.operands) == {"acc", "bias"}
    scaled = product_of(SPECS / "gemm_quantized.yaml")
    assert scaled.named["x"].shape == (1, 256, 1) and scaled.named["y"].strides == (0, 0, 1)
    floats = "{M: 48, N: 32, K: 64, s: {dtype: float32, default: 2.5}}"
    both = product_of(text_of("c: C, bias: z, alpha: s, beta: 3", params=floats))
    assert both.terms == Terms(2.5, 3.0, "c", "bias") and both.tree is not None
    assert product_of(text_of("epilogue: acc")).tree is None


@pytest.mark.slow
def test_what_is_no_product() -> None:
    assert "and no gemm" in str(derive_meaning(tilegen.load(SPECS / "hgemm_ring.yaml"), {}))
    assert isinstance(derive_meaning(tilegen.load(text_of()), {}), Product)


# ---------------------------------------------------------------- peers
def test_the_peers_of_a_product() -> None:
    assert [p.name for p in choose_peers((), True)] == ["cublas", "torch", "triton"]
    assert [p.name for p in choose_peers(("triton", "torch.compile", "cublas"), True)] == [
        "cublas", "torch.compile", "triton",
    ]  # fmt: skip
    assert [p.name for p in choose_peers(("cublas",))] == ["copy", "cublas"]


def test_peers_of_something_else_say_so() -> None:
    product = Task(product_of(text_of()), (), (), None)
    copy = Task(Meaning("X", "Y", (4,), (0,), 4), (), (), None)
    peers = {p.name: p for p in choose_peers(("cublas", "cupy"))}
    with pytest.raises(NotApplicable, match="it is no peer of a product"):
        prepare_peer(peers["cupy"], product)
    with pytest.raises(NotApplicable, match="a peer of products alone"):
        prepare_peer(peers["cublas"], copy)
    with pytest.raises(NotApplicable, match="no meaning"):
        prepare_peer(peers["cublas"], replace(copy, meaning="no meaning"))


@pytest.mark.slow
def test_tiles_that_fit() -> None:
    """None is twice as long as what it covers, but for the least that there is; 8 bits have k-tiles of 32 at least."""
    square, row = product_of(SPECS / "gemm.yaml"), product_of(text_of(params="{M: 1, N: 4096, K: 64}"))
    assert {t.rows for t in fit_tiles(square)} == {256, 128, 64, 32, 16} and {t.rows for t in fit_tiles(row)} == {16}
    assert max(t.rows * t.columns for t in fit_tiles(product_of(SPECS / "gemm_f32.yaml"))) == 128 * 128
    assert all(t.depth_bytes >= 32 for t in fit_tiles(product_of(SPECS / "gemm_silu.yaml")))
    assert len(set(fit_tiles(square))) == len(fit_tiles(square)) > 10


def test_strides_for_triton() -> None:
    found = product_of(SPECS / "gemm_batched.yaml")
    assert list_strides(found, [Strided("bias", "float16", (1, 1, 256), (0, 0, 1))]) == [
        200 * 192, 192, 1, 0, 256, 1, 200 * 256, 256, 1, 0, 0, 1,
    ]  # fmt: skip


@pytest.mark.slow
def test_what_tma_brings() -> None:
    assert why_no_boxes(product_of(SPECS / "gemm.yaml")) == ""
    assert why_no_boxes(product_of(SPECS / "gemm_batched.yaml")) == "a batch"
    assert why_no_boxes(product_of(SPECS / "gemm_residual.yaml")) == "D does not lie by row"
    assert why_no_boxes(product_of(SPECS / "gemm_odd.yaml")) == "rows of A begin at odd bytes"


# ---------------------------------------------------------------- float64 beside it
def exact_of(product: Product, seed: int = 1) -> tuple[Exact, Any]:
    """All rows in float64, and what a plain float32 product gives; one matrix, by row and by column."""
    rng = np.random.default_rng(seed)
    m, n, k = product.sizes
    a, b = (rng.standard_normal(s).astype(numpy_dtype(product.a.dtype)) for s in ((m, k), (k, n)))
    named = {name: rng.standard_normal((m, n)) for name in product.named}
    sums = a.astype(np.float64) @ b.astype(np.float64)
    wanted = evaluate_exactly(product, sums, named)
    single = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float64)
    got = evaluate_exactly(product, single, named).astype(numpy_dtype(product.d.dtype)).astype(np.float64)
    return Exact(product, tuple(range(m)), sums, wanted, named), got


GELU = "epilogue: 0.5 * acc * (1.0 + erf(acc * 0.7071067811865476))"
EXPRESSIONS = ["", GELU, "bias: z, epilogue: 'max(acc + bias, 0.0)'", "c: C, beta: 0.5, alpha: 2"]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("rest", EXPRESSIONS)
@pytest.mark.parametrize(("a", "d"), [("bfloat16", "bfloat16"), ("float16", "float32"), ("float32", "float32")])
def test_what_is_right_is_near_and_what_is_wrong_is_not(rest: str, a: str, d: str) -> None:
    exact, got = exact_of(product_of(text_of(rest, a, d)))
    assert find_beyond(exact, got) == ""
    found = measure_accuracy(exact, got)
    unit = {"bfloat16": 2.0**-8, "float32": 2.0**-22}[d]
    assert found.rms < unit and found.rms < found.largest < 8 * unit
    other = np.roll(got, 1, axis=0)  # every row is the one before
    assert "elements are too far off" in find_beyond(exact, other)
    one = got.copy()
    at = np.unravel_index(np.argmax(np.abs(got)), got.shape)
    one[at] *= 1.125
    assert f"D[{at[0]}, {at[1]}] is " in find_beyond(exact, one) and "; 1 of 1536 elements" in find_beyond(exact, one)
    nothing = got.copy()
    nothing[at] = np.nan
    assert "is nan, not" in find_beyond(exact, nothing)


def test_errors_are_measured() -> None:
    product = product_of(text_of())
    wanted = np.array([[3.0, -4.0], [0.0, 5.0]])
    exact = Exact(product, (0, 1), wanted, wanted, {})
    found = measure_accuracy(exact, wanted + np.array([[0.5, 0.0], [0.0, -0.5]]))
    size = np.sqrt(50 / 4)
    assert found.rms == pytest.approx(np.sqrt(0.5 / 4) / size) and found.largest == pytest.approx(0.5 / size)
    assert measure_accuracy(exact, wanted).rms == 0.0


def test_integers_are_exact() -> None:
    text = text_of("", "int8", "int32")
    product = product_of(text)
    sums = np.arange(48 * 32.0).reshape(48, 32)
    exact = Exact(product, tuple(range(48)), sums, sums, {})
    assert find_beyond(exact, sums) == "" and "1 of 1536" in find_beyond(exact, sums + (sums == 7))
    saturated = replace(exact, wanted=sums * 1e7)
    assert find_beyond(saturated, np.clip(sums * 1e7, -(2.0**31), 2.0**31 - 1)) == ""


def test_a_product_alone_is_compared_with_sums() -> None:
    exact, _ = exact_of(product_of(text_of(GELU)))
    sums = exact.sums.astype(numpy_dtype("bfloat16")).astype(np.float64)
    assert find_beyond(exact, sums, is_whole=False) == "" and find_beyond(exact, sums) != ""
    assert measure_accuracy(exact, sums, is_whole=False).rms < 2.0**-8 < measure_accuracy(exact, sums).rms


@pytest.mark.slow
def test_rows_are_spread_over_all() -> None:
    large = product_of(text_of(params="{M: 8192, N: 8192, K: 8192}"))
    rows = choose_rows(large)
    assert len(rows) == 256 and rows[0] == 0 and rows[-1] == 8191 and {r // 128 for r in rows} == set(range(64))
    assert choose_rows(product_of(text_of())) == tuple(range(48))
    batched = choose_rows(product_of(SPECS / "gemm_batched.yaml"))
    assert len(batched) == 512 and {r // 200 for r in batched} == {0, 1, 2}
    assert str(Exact(large, rows, *[np.zeros(1)] * 2, {})) == "256 rows of 8192, evenly spread"


@pytest.mark.slow
def test_rows_of_an_image() -> None:
    found = product_of(SPECS / "gemm_residual.yaml")
    image = np.arange(320 * 256, dtype=np.float32).astype(numpy_dtype("bfloat16"))
    rows = read_rows(image.view(np.uint8), found.d, found, [1, 5])
    assert np.array_equal(rows, image.reshape(256, 320).T[[1, 5]].astype(np.float64))
    scaled = product_of(SPECS / "gemm_quantized.yaml")
    scales = np.arange(256, dtype=np.float32)
    assert np.array_equal(read_rows(scales.view(np.uint8), scaled.named["x"], scaled, [3]), np.full((1, 384), 3.0))


def test_elements_that_were_not_written() -> None:
    array, image = Strided("D", "bfloat16", (1, 2, 3), (0, 4, 1)), np.zeros(14, np.uint8)
    image[6:8] = 0xFF  # between the rows
    assert count_unwritten(image, array, 2, 0xFF) == 0
    image[8] = 0xFF
    assert count_unwritten(image, array, 2, 0xFF) == 0
    image[9] = 0xFF
    assert count_unwritten(image, array, 2, 0xFF) == 1
    image[6:10] = 0
    assert count_unwritten(image, array, 2, 0xFF) == -1


# ---------------------------------------------------------------- the whole way
def multiply(product: Product) -> Callable[..., Any]:
    """A kernel that is right: float32 sums of matrices that lie by row and by column."""

    def run(watch: FakeWatch, *images: Any) -> None:
        watch.spend(250.0)
        m, n, k = product.sizes
        a, b = (x.view(numpy_dtype(product.a.dtype)).astype(np.float32) for x in images[:2])
        sums = a.reshape(m, k) @ b.reshape(n, k).T
        images[-1].view(numpy_dtype(product.d.dtype))[:] = sums.astype(numpy_dtype(product.d.dtype)).reshape(-1)

    return run


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "product.yaml"
    text = "\n".join(x for x in text_of().splitlines() if not x.startswith(("  C:", "  z:")))
    path.write_text(text.replace("arch: sm_80", "arch: sm_90a"), encoding="utf-8")
    return path


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Peers of the given functions in place of those of libraries."""
    from tilegen.bench import running

    def put(*made: tuple[str, Callable[[Task], Prepared]]) -> None:
        found = tuple(Peer(name, "", None, multiply=function) for name, function in made)
        monkeypatch.setattr(running, "choose_peers", lambda *_: found)

    return put


def start(
    monkeypatch: pytest.MonkeyPatch, spec: Path, spoil: Callable[[Any], None] = lambda d: None, **params: int
) -> FakeWatch:
    watch, run = FakeWatch(), multiply(derive_product(tilegen.load(spec, None, params), {}))

    def kernel(*images: Any) -> None:
        run(watch, *images)
        spoil(images[-1])

    fake_gpu(monkeypatch, watch, kernel)
    return watch


def bench(*words: str | Path) -> Any:
    return CliRunner().invoke(cli, ["bench", *map(str, words)])


def rival(us: float, error: float = 0.0, is_whole: bool = True) -> Callable[[Task], Prepared]:
    """A peer that takes so long, and is off by so much of each element."""

    def prepare(task: Task) -> Prepared:
        product = task.meaning
        assert isinstance(product, Product)
        m, n, k = product.sizes
        a, b = (task.sets[0][x].view(numpy_dtype("bfloat16")).astype(np.float64) for x in "AB")
        sums = a.reshape(m, k) @ b.reshape(n, k).T
        return Prepared(
            lambda k: task.watch.spend(us), "some tile", lambda rows: sums[list(rows)] * (1 + error), is_whole
        )

    return prepare


def test_json_of_a_product(spec: Path, monkeypatch: pytest.MonkeyPatch, peers: Callable[..., None]) -> None:
    start(monkeypatch, spec)
    peers(("cublas", rival(200.0, 2.0**-9)), ("triton", rival(300.0, 0.5)), ("torch", rival(500.0)))
    done = bench(spec, "--format", "json", "--rounds", "4")
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["results"]
    flops = 2 * 48 * 32 * 64
    assert found["flops"] == flops and found["median_us"] == 250.0 and found["launches"] == 1
    assert found["tflops"] == round(flops / 250 / 1e6, 2) and found["bytes"] == 2 * (48 * 64 + 64 * 32 + 48 * 32)
    assert found["peers"]["cublas"]["ratio"] == 0.8 and found["peers"]["torch"]["ratio"] == 2.0
    assert (
        found["peers"]["cublas"]["rms_error"] == pytest.approx(2.0**-9) and found["peers"]["torch"]["rms_error"] == 0.0
    )
    assert 1e-4 < found["rms_error"] < 2.0**-8 and found["rms_error"] < found["largest_error"] < 2.0**-5
    assert "triton" not in found["peers"] and "its result is wrong: D[0, 0] is" in found["absent"]["triton"]
    trips = round(200 * 500 / 22)  # 200 trips take 22 us; 500 us are asked for
    wgmma, mma = found["reached_tflops"].items()
    assert wgmma[0] == "wgmma.m64n256k16.f32.bf16.bf16" and mma[0] == "mma.m16n8k16.f32.bf16.bf16.f32"
    per_trip = 2 * 16 * 2 * 64 * 256 * 16
    assert wgmma[1] == round(per_trip * 132 * trips / (2 + 0.1 * trips) / 1e6, 1) > mma[1]
    assert found["of_ceiling"] == round(flops / 250 / 1e6 / wgmma[1], 4)
    assert found["checked"] == (
        "all 48 rows against float64, every element written, and within the bounds of the spec's meaning in NumPy"
    )


@pytest.mark.slow
def test_text_and_picture_of_a_product(spec: Path, monkeypatch: pytest.MonkeyPatch, peers: Callable[..., None]) -> None:
    start(monkeypatch, spec, M=96)
    peers(("cublas", rival(200.0, is_whole=False)))
    done = bench(spec, "--rounds", "3", "--set", "M=96")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("product: product of 96 x 64 (by row) and 64 x 32 (by column), bfloat16 into bfloat16")
    assert lines[1].split()[:8] == ["median", "us", "quartiles", "us", "TFLOP/s", "of", "ceiling", "ratio"]
    assert lines[3].split()[:2] == ["cublas", "200.00"] and "0.800" in lines[3]
    assert "  cublas: some tile" in lines and any("TFLOP/s: a loop of wgmma" in line for line in lines)
    assert any(line.startswith("  also ") and "mma.m16n8k16" in line for line in lines)
    assert any(line.startswith("  memory ") for line in lines) and max(map(len, lines)) <= 140
    drawn = bench(spec, "--rounds", "1", "--format", "svg", "--set", "M=96").stdout
    assert "TFLOP/s on Pretended GPU; dashed: a bare loop of products" in drawn and " TFLOP/s</text>" in drawn


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    ("spoil", "said"),
    [(lambda d: d[200:232].fill(0), "elements are too far off"),
     (lambda d: d[200:232].fill(0xFF), "16 elements of D were not written")],
)  # fmt: skip
def test_a_wrong_kernel_is_not_timed(
    spec: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Any], None], said: str
) -> None:
    start(monkeypatch, spec, spoil)
    done = bench(spec, "--format", "json", "--against", "cublas")
    assert done.exit_code == 1
    (error,) = json.loads(done.stdout)["errors"]
    assert error["code"] == "TG421" and said in error["message"]


@pytest.mark.slow
def test_loops_and_peers_that_fail_are_absent(
    spec: Path, monkeypatch: pytest.MonkeyPatch, peers: Callable[..., None]
) -> None:
    def broken(task: Task) -> Prepared:
        raise MemoryError("no room\nat all")

    def refuse(*_: Any) -> Any:
        raise RuntimeError("no such instruction")

    start(monkeypatch, spec)
    monkeypatch.setattr("tilegen.gpu.prepare_ceiling", refuse)
    peers(("cublas", broken), ("torch", lambda task: Prepared(lambda k: None)))
    (found,) = json.loads(bench(spec, "--format", "json", "--rounds", "1").stdout)["results"]
    assert found["peers"] == {} and "of_ceiling" not in found and found["reached_tflops"] == {}
    assert found["absent"] == {
        "cublas": "MemoryError: no room", "torch": "its result cannot be read",
        "wgmma.m64n256k16.f32.bf16.bf16": "RuntimeError: no such instruction",
        "mma.m16n8k16.f32.bf16.bf16.f32": "RuntimeError: no such instruction",
    }  # fmt: skip
    assert "no loop of products could be measured" in bench(spec, "--rounds", "1").stdout


@pytest.mark.slow
def test_an_array_in_place_starts_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peers: Callable[..., None]
) -> None:
    """The kernel and each peer add to what float64 was computed from, however often the array was written before."""
    path = tmp_path / "product.yaml"
    text = "\n".join(x for x in text_of("c: D").splitlines() if not x.startswith(("  C:", "  z:")))
    path.write_text(text, encoding="utf-8")
    watch, brain = FakeWatch(), numpy_dtype("bfloat16")

    def add(a: Any, b: Any, d: Any) -> None:
        watch.spend(100.0)
        x, y, z = (v.view(brain).astype(np.float32) for v in (a, b, d))
        d.view(brain)[:] = (x.reshape(48, 64) @ y.reshape(32, 64).T + z.reshape(48, 32)).astype(brain).reshape(-1)

    def prepare(task: Task) -> Prepared:
        one = task.sets[0]
        add(one["A"], one["B"], one["D"])  # a trial

        def read(rows: Any) -> Any:
            add(one["A"], one["B"], one["D"])
            return one["D"].view(brain).astype(np.float64).reshape(48, 32)[list(rows)]

        return Prepared(lambda k: add(one["A"], one["B"], one["D"]), "", read)

    fake_gpu(monkeypatch, watch, add)
    peers(("cublas", prepare))
    (found,) = json.loads(bench(path, "--format", "json", "--rounds", "1").stdout)["results"]
    assert found["absent"] == {} and found["peers"]["cublas"]["rms_error"] == found["rms_error"] < 2.0**-8


def test_names_after_against(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, Any]] = []
    monkeypatch.setattr(
        "tilegen.cli.benching.bench_command",
        lambda named, wishes, manner: asked.append((named.specs, wishes.against)) or 0,
    )
    one = str(spec)
    for words, wanted in (
        ([one, "--against", "cublas", "triton", "torch.compile"], ((one,), ("cublas", "triton", "torch.compile"))),
        (["--against", "cublas", "triton", one], ((one,), ("cublas", "triton"))),
        (["--against", "cublas", one, "triton"], ((one, "triton"), ("cublas",))),
        (["--against", "cublas", "--against", "triton", one], ((one,), ("cublas", "triton"))),
        ([one, "--against", "cublas", "--rounds", "3"], ((one,), ("cublas",))),
        (["--against=torch", one], ((one,), ("torch",))),
    ):
        assert bench(*words).exit_code == 0 and asked[-1] == wanted, words


def test_made_up_result_is_told_in_full() -> None:
    from tilegen.bench.accuracy import Accuracy
    from tilegen.bench.measuring import Spread
    from tilegen.bench.results import Reached, Result, Row

    def row(name: str, us: float, ratio: float, rms: float, detail: str = "") -> Row:
        return Row(name, Spread(us, us, us), Spread(ratio, ratio, ratio), detail, Accuracy(rms, 10 * rms))

    result = Result(
        "gemm", "gemm.yaml", "sm_90a", "Pretended GPU", {}, "ab" * 32, str(product_of(SPECS / "gemm.yaml")),
        "all rows", 6 << 20, 20, 30, 40, False, 4190.0, row("tilegen", 4.0, 1.0, 0.0016),
        (row("cublas", 4.4, 1.1, 0.0017, "torch.mm"),), (), 2 << 30,
        (Reached("wgmma.m64n256k16.f32.bf16.bf16", 800.0), Reached("mma.m16n8k16.f32.bf16.bf16.f32", 600.0)),
    )  # fmt: skip
    text = result_text(result)
    assert "536.9" not in text and " 537 " in text and "0.671" in text and "1.60e-03" in text and "1.70e-02" in text
    assert "ceiling 800 TFLOP/s: a loop of wgmma.m64n256k16.f32.bf16.bf16 alone" in text
    assert "also 600 TFLOP/s" in text and "memory 1573 GB/s, each array once: 0.375 of 4190 GB/s" in text
