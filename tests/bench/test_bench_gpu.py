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


def test_bench_of_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "copy_all.yaml"
    path.write_text(COPY, encoding="utf-8")
    done = CliRunner().invoke(cli, ["bench", str(path), "--format", "json", "--rounds", "3"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["results"]
    assert found["launches"] == 20 and found["cold"] and 0.3 < found["median_us"] < 50
    assert {"copy", "cupy"} <= set(found["peers"])
