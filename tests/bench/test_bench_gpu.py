"""On a GPU: the instruments against NumPy, times that are sane, and a kernel beside all peers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from test_running import COPY

from tilegen import gpu
from tilegen.bench.measuring import make_samplers, paired_ratio, take_turns, warm_up
from tilegen.cli import cli
from tilegen.gpu.device import load_cupy

SPECS = Path(__file__).resolve().parents[2] / "specs"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(gpu.find_device() is None, reason="no GPU is here"),
]


@pytest.fixture
def watch() -> Iterator[gpu.Stopwatch]:
    with gpu.open_stopwatch(gpu.require_gpu()) as opened:
        yield opened


@pytest.mark.parametrize(("shape", "axes", "size"), [((50, 70), (1, 0), 4), ((3, 40, 50), (2, 0, 1), 2)])
def test_the_plain_loop(watch: gpu.Stopwatch, shape: tuple[int, ...], axes: tuple[int, ...], size: int) -> None:
    cupy = load_cupy()
    count = int(np.prod(shape)) * size
    source, target = gpu.allocate_bytes(count), gpu.allocate_bytes(count)
    gpu.fill_random(watch.instruments, source, 3)
    x = cupy.asnumpy(source).reshape(*shape, size)
    assert len(np.unique(x)) == 256
    strides = [s // size for s in x.strides[:-1]]
    sizes = [shape[a] for a in axes]
    gpu.gather_image(watch.instruments, source, target, sizes, [strides[a] for a in axes], size)
    want = np.ascontiguousarray(x.transpose(*axes, len(shape))).reshape(-1)
    assert np.array_equal(cupy.asnumpy(target), want)
    assert gpu.compare_images(watch.instruments, target, cupy.asarray(want)) is None
    want[17] ^= 1
    assert gpu.compare_images(watch.instruments, target, cupy.asarray(want)) == gpu.Difference(1, 17)


def test_a_copy_against_itself_and_in_graphs(watch: gpu.Stopwatch) -> None:
    source, target = gpu.allocate_bytes(64 << 20), gpu.allocate_bytes(64 << 20)

    def copy(_: int) -> None:
        gpu.copy_bytes(source, target)

    taken = warm_up(watch, copy)
    assert 10 < taken < 2000
    alone, graphs = make_samplers(watch, copy, 1, 1), make_samplers(watch, copy, 1, 20)
    rounds = take_turns(watch, {"a": alone, "b": alone}, 20, 1).rounds
    assert 0.9 < paired_ratio(rounds["a"], rounds["b"]).median < 1.1
    in_graphs = take_turns(watch, {"graph": graphs}, 5, 20).rounds["graph"]
    assert in_graphs[0] == pytest.approx(taken, rel=0.3)


def test_rows_of_a_product_in_float64(watch: gpu.Stopwatch) -> None:
    cupy = load_cupy()
    m, n, k = 70, 50, 300
    a, b = gpu.allocate_bytes(4 * m * k), gpu.allocate_bytes(4 * n * k)
    for seed, image in enumerate((a, b)):
        gpu.fill_normal(watch.instruments, image, "float32", seed)
    x, y = (cupy.asnumpy(i).view(np.float32).astype(np.float64) for i in (a, b))
    assert abs(x.mean()) < 0.05 and abs(x.std() - 1) < 0.05 and not np.array_equal(x[:100], y[:100])
    rows = np.array([69, 0, 33])
    left = gpu.Factor(a, "float32", rows * k, (0, 1))
    right = gpu.Factor(b, "float32", 0 * rows, (1, k))
    got = gpu.multiply_rows(watch.instruments, left, right, (3, n, k))
    np.testing.assert_allclose(got, x.reshape(m, k)[rows] @ y.reshape(n, k).T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64", "int8", "float8_e4m3fn"])
def test_loops_of_products(watch: gpu.Stopwatch, dtype: str) -> None:
    """Twice the trips take twice the time, and the fastest comes first."""
    device, rates = gpu.require_gpu(), []
    for loop in gpu.list_loops(device.compute_capability, (dtype, dtype)):
        ceiling = gpu.prepare_ceiling(device, watch.instruments, loop)
        trips = gpu.count_trips(watch.time_us, ceiling, 2000.0)
        once, twice = (warm_up(watch, lambda k, run=ceiling.run, n=n: run(n)) for n in (trips, 2 * trips))
        assert 1.6 < twice / once < 2.4 and 1000 < once < 4000
        rates.append(ceiling.flops * trips / once / 1e6)
    assert rates == sorted(rates, reverse=True) and rates[0] > 1.0


@pytest.mark.parametrize("name", ["gemm", "gemm_batched", "gemm_residual", "gemm_silu", "gemm_f32", "gemm_quantized"])
def test_bench_of_a_product(name: str) -> None:
    path = str(SPECS / f"{name}.yaml")
    done = CliRunner().invoke(
        cli, ["bench", path, "--format", "json", "--rounds", "3", "--against", "cublas", "triton"]
    )
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["results"]
    assert found["reached_tflops"] and 0 < found["of_ceiling"] < 1 and found["rms_error"] < 0.2
    assert "copy" not in found["peers"] and set(found["peers"]) | set(found["absent"]) == {"cublas", "triton"}
    for name, peer in found["peers"].items():
        assert peer["rms_error"] < 0.2 and peer["median_us"] > 1, name


def test_bench_of_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "copy_all.yaml"
    path.write_text(COPY, encoding="utf-8")
    done = CliRunner().invoke(cli, ["bench", str(path), "--format", "json", "--rounds", "3"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["results"]
    assert found["launches"] == 20 and found["cold"] and 0.3 < found["median_us"] < 50
    assert {"copy", "cupy"} <= set(found["peers"])


@pytest.mark.parametrize("stem", ["sum_all", "max_columns", "squared_error", "layernorm_backward"])
def test_passes_beside_a_copy(stem: str) -> None:
    """A launch leaves what its passes leave one by one, then both are timed in graphs."""
    done = CliRunner().invoke(cli, ["bench", str(SPECS / f"{stem}.yaml"), "--format", "json", "--rounds", "5"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["results"]
    assert len(found["passes"]) == 2 and "passes leave one by one" in found["checked"]
    assert found["workspace_bytes"] > 0 and found["median_us"] > 1 and "copy" in found["peers"]


def test_a_gemm_that_ctas_share_beside_cublas() -> None:
    pytest.importorskip("torch")
    words = ["bench", str(SPECS / "gemm_split.yaml"), "--format", "json", "--rounds", "5", "--against", "cublas"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["results"]
    assert "against float64" in found["checked"] and found["tflops"] > 1 and list(found["peers"]) == ["cublas"]
