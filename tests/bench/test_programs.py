"""tilegen bench of specs with passes: one candidate that launches all of them, with NumPy as the GPU's memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from fakes import COPY, FakeWatch, fake_gpu
from test_user_functions import make_torch

from tilegen import build, gpu
from tilegen.bench import buffers, running
from tilegen.bench.buffers import argument_bytes, moved_bytes, workspace_bytes
from tilegen.cli import cli
from tilegen.dtypes import numpy_dtype

SPECS = Path(__file__).resolve().parents[2] / "specs"
M, N = 24, 128
TOTAL = """kernel: total
arch: sm_90
params: {M: 24, again: {default: 1, max: 2}}
buffers:
  X: {scope: global, dtype: float32, shape: [M, 128]}
  Y: {scope: global, dtype: float32, shape: [1]}
  Z: {scope: global, dtype: float32, shape: [M, 128]}
  sums: {scope: workspace, dtype: float32, shape: [M]}
  twice: {scope: workspace, dtype: float32, shape: [M]}
passes:
  - name: rows
    grid: {bx: M}
    threads: 128
    buffers:
      s: {scope: register, dtype: float32, shape: [1], layout: auto}
    ops:
      - reduce: {src: "X[bx]", dst: s, axis: 0, op: sum}
      - copy: {src: s, dst: "sums[bx : +1]"}
      - elementwise: {dst: s, expr: "s * 2.0"}
      - copy: {src: s, dst: "twice[bx : +1]"}
  - name: all
    threads: 128
    overlap: previous
    buffers:
      x: {scope: register, dtype: float32, shape: [1024], layout: auto}
      s: {scope: register, dtype: float32, shape: [1], layout: auto}
    ops:
      - fill: {dst: s, value: 0}
      - wait: previous
      - for: {i: ceil(M / 1024)}
        do:
          - copy: {src: "sums[i*1024 : +1024]", dst: x, edge: clip}
          - reduce: {src: x, dst: s, axis: 0, op: sum, accumulate: true}
          - copy: {src: "twice[i*1024 : +1024]", dst: x, edge: clip}
          - reduce: {src: x, dst: s, axis: 0, op: sum, accumulate: true}
      - copy: {src: s, dst: Y}
  - name: add
    grid: {bx: M}
    threads: 128
    overlap: previous
    ops:
      - wait: previous
      - elementwise: {dst: "Z[bx]", expr: "z + x", with: {z: "Z[bx]", x: "X[bx]"}}
  - name: more
    when: again > 1
    grid: {bx: M}
    threads: 128
    ops: [{elementwise: {dst: "Z[bx]", expr: "z + 1.0", with: {z: "Z[bx]"}}}]
"""
SMALL_GEMM = """kernel: small_split
version: 3
arch: sm_90a
params: {M: 32, N: 64, K: 1024}
buffers:
  A: {scope: global, dtype: bfloat16, shape: [M, K]}
  B: {scope: global, dtype: bfloat16, shape: [K, N]}
  D: {scope: global, dtype: bfloat16, shape: [M, N]}
ops:
  - gemm: {a: A, b: B, d: D, split: 2}
"""
MINE = """
import numpy as np

def all_of(X, Z):
    return np.array([3 * X.sum(dtype=np.float64)], np.float32), Z + X

def off(X, Z):
    return np.array([3 * X.sum(dtype=np.float64) + 1], np.float32), Z + X

def of_sums(sums):
    return sums
"""


def floats(image: Any) -> Any:
    return image.view(np.float32)


class Kernels:
    """The passes of TOTAL in NumPy; what a launch was given is kept, and a fault may be put in."""

    def __init__(self, watch: FakeWatch, is_early: bool = False):
        self.watch, self.is_early, self.workspaces, self.log = watch, is_early, set[tuple[int, int]](), list[str]()

    def rows(self, x: Any, sums: Any, twice: Any, *_: Any) -> None:
        self.watch.spend(30.0)
        self.log.append("rows")
        self.workspaces.add((x.ctypes.data, sums.ctypes.data))
        assert 0 <= twice.ctypes.data - sums.ctypes.data == 256
        floats(sums)[:] = floats(x).reshape(M, N).sum(1)
        floats(twice)[:] = 2 * floats(sums)

    def all(self, y: Any, sums: Any, twice: Any, *_: Any) -> None:
        self.watch.spend(20.0)
        self.log.append("all")
        values = np.zeros(M) if self.is_early and self.is_behind() else floats(sums)
        floats(y)[:] = values.sum(dtype=np.float64) + floats(twice).sum(dtype=np.float64)

    def is_behind(self) -> bool:
        """Whether nobody waited since the pass before: then this one may be early."""
        return self.log[-2:] == ["rows", "all"]

    def add(self, x: Any, z: Any, *_: Any) -> None:
        self.watch.spend(10.0)
        self.log.append("add")
        floats(z)[:] += floats(x)

    @property
    def by_name(self) -> Mapping[str, Callable[..., None]]:
        return {"total_rows": self.rows, "total_all": self.all, "total_add": self.add}


def bench(*words: str) -> Any:
    return CliRunner().invoke(cli, ["bench", *words])


def result_of(*words: str) -> Any:
    done = bench(*words, "--format", "json", "--rounds", "2")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["results"][0]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "total.yaml").write_text(TOTAL, encoding="utf-8")
    (tmp_path / "split.yaml").write_text(SMALL_GEMM, encoding="utf-8")
    (tmp_path / "bench_passes.py").write_text(MINE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "torch", make_torch())
    return "total.yaml"


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Kernels:
    return start(monkeypatch)


def start(monkeypatch: pytest.MonkeyPatch, **how: Any) -> Kernels:
    found = Kernels(FakeWatch(stream=SimpleNamespace(ptr=1)), **how)
    synchronize = found.watch.synchronize

    def wait() -> None:
        synchronize()
        found.log.append("waited")

    monkeypatch.setattr(found.watch, "synchronize", wait)
    fake_gpu(monkeypatch, found.watch, found.by_name)
    return found


# ---------------------------------------------------------------- one candidate
def test_all_passes_are_one_candidate(path: str, kernels: Kernels) -> None:
    found = result_of(path)
    assert found["kernel"] == "total" and found["params"] == {"again": 1}
    assert found["median_us"] == 60.0 and list(found["peers"]) == ["copy"]
    assert found["passes"] == ["rows", "all", "add"] and found["workspace_bytes"] == 512
    assert found["bytes"] == 4 * (M * N + 1 + 2 * M * N), "X once though two passes read it, Z read and written"
    assert found["checked"].endswith("a launch leaves every byte that its 3 passes leave one by one")
    assert "not one copy or one permute" in found["absent"]["cupy"]
    pairs = kernels.workspaces
    assert 3 < len(pairs) == len({x for x, _ in pairs}) == len({w for _, w in pairs}), "each set has one of its own"


def test_a_pass_whose_condition_does_not_hold_is_not_launched(path: str, kernels: Kernels, monkeypatch: Any) -> None:
    seen = []
    more = {"total_more": lambda z, *_: seen.append(z.size)}
    fake_gpu(monkeypatch, kernels.watch, kernels.by_name | more)
    assert result_of(path, "--set", "again=2")["passes"] == ["rows", "all", "add", "more"] and seen
    seen.clear()
    assert result_of(path)["passes"] == ["rows", "all", "add"] and not seen


def test_the_text_says_what_a_launch_is(path: str, kernels: Kernels) -> None:
    lines = bench(path, "--rounds", "2").stdout.splitlines()
    assert lines[0] == "total again=1: 36868 bytes read and written, sm_90 on Pretended GPU"
    assert lines[1] == "  a launch is 3 passes: rows, all, add; workspace 512 bytes, whose traffic is not counted"


def test_short_passes_are_timed_in_graphs(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = start(monkeypatch)
    monkeypatch.setattr(kernels.watch, "spend", lambda us: FakeWatch.spend(kernels.watch, us / 10))
    found = result_of(path)
    assert found["launches"] == 20 and found["median_us"] == pytest.approx(6.0)
    assert ("captured 20", False) in kernels.watch.log


def test_several_specs_and_one_that_is_wrong(path: str, kernels: Kernels, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(TOTAL.replace("dst: Y", "dst: Q"), encoding="utf-8")
    done = bench(path, "bad.yaml", "--rounds", "1", "--against", "copy")
    assert done.exit_code == 1 and "bad.yaml:" in done.stderr and "total again=1" in done.stdout


# ---------------------------------------------------------------- right before fast
def test_each_pass_is_verified_before(path: str, kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    for room in ("checking", "running"):
        monkeypatch.setattr(f"tilegen.bench.{room}.verify_built", lambda *given, **_: asked.append(given))
    result_of(path)
    ((built, device, seeds),) = asked
    assert built.plan.name == "total" and device == "gpu" and seeds == [1]


def test_a_pass_that_starts_too_early_is_found(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = start(monkeypatch, is_early=True)
    done = bench(path, "--format", "json")
    (error,) = json.loads(done.stdout)["errors"]
    assert done.exit_code == 1 and error["code"] == "TG421"
    assert "total: a launch of all passes leaves other bytes in Y than its passes one by one" in error["message"]
    assert "Z" not in error["message"].split(" in ")[1] and kernels.log.count("all") < 20, "nothing was timed"


# ---------------------------------------------------------------- functions of the user's own
@pytest.mark.parametrize("is_long", [False, True])
def test_functions_beside_a_program(path: str, kernels: Kernels, monkeypatch: Any, is_long: bool) -> None:
    """Composed in NumPy; where that takes long, beside what passes read of workspaces."""
    monkeypatch.setattr("tilegen.bench.user_functions.takes_long_together", lambda built: is_long)
    if is_long:
        Path(path).write_text(
            TOTAL.replace('"Z[bx]", expr: "z + x", with: {z: "Z[bx]", ', '"Z[bx]", expr: "x + x", with: {')
        )
        kernels.add = lambda x, z, *_: np.copyto(floats(z), 2 * floats(x))  # type: ignore[method-assign]
        fake_gpu(monkeypatch, kernels.watch, kernels.by_name)
        mine = Path("bench_passes.py")
        mine.write_text(MINE.replace("X, Z", "X").replace("Z + X", "X + X"))
    found = result_of(path, "--against", "bench_passes:all_of", "bench_passes:off")
    assert list(found["peers"]) == ["copy", "bench_passes:all_of", "bench_passes:all_of compiled"], found["absent"]
    assert "Y[0] is " in found["absent"]["bench_passes:off"]
    sys.modules.pop("bench_passes")


def test_passes_that_change_what_they_read_and_take_long(path: str, kernels: Kernels, monkeypatch: Any) -> None:
    monkeypatch.setattr("tilegen.bench.user_functions.takes_long_together", lambda built: True)
    found = result_of(path, "--against", "bench_passes:all_of")
    assert "the passes change Z, which total_add reads" in found["absent"]["bench_passes:all_of"]


def test_a_function_sees_no_workspace(path: str, kernels: Kernels) -> None:
    done = bench(path, "--against", "bench_passes:of_sums")
    assert done.exit_code == 2 and "it takes 'sums', which is no input or param" in done.output


# ---------------------------------------------------------------- a gemm that CTAs share
def test_a_gemm_with_split_is_a_product(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = FakeWatch(stream=SimpleNamespace(ptr=1))
    built = build("split.yaml")
    parts, sums = (one.plan.name for one in built.passes)

    def multiply(a: Any, b: Any, w: Any, *_: Any) -> None:
        watch.spend(40.0)
        x, y = (i.view(numpy_dtype("bfloat16")).astype(np.float32) for i in (a, b))
        x, y = x.reshape(32, 2, 512), y.reshape(2, 512, 64)
        made = np.einsum("mpk,pkn->pmn", x, y, optimize=True)
        w[: made.nbytes] = np.ascontiguousarray(made, np.float32).reshape(-1).view(np.uint8)

    def add(d: Any, w: Any, *_: Any) -> None:
        watch.spend(10.0)
        made = w[: 4 * 2 * 32 * 64].view(np.float32).reshape(2, 32 * 64).sum(0)
        d[:] = made.astype(numpy_dtype("bfloat16")).view(np.uint8)

    fake_gpu(monkeypatch, watch, {parts: multiply, sums: add})
    found = result_of("split.yaml")
    assert found["median_us"] == 50.0 and found["flops"] == 2 * 32 * 64 * 1024 and found["tflops"] > 0
    assert found["meaning"].startswith("product of 32 x 1024") and found["rms_error"] < 0.01
    assert (
        "against float64, every element written" in found["checked"] and "2 passes leave one by one" in found["checked"]
    )
    assert found["bytes"] == 2 * (32 * 1024 + 1024 * 64 + 32 * 64) and found["workspace_bytes"] >= 2 * 32 * 64 * 4
    fake_gpu(monkeypatch, watch, {parts: multiply, sums: lambda *_: None})
    done = bench("split.yaml", "--format", "json")
    assert done.exit_code == 1 and "elements of D were not written" in done.output


def test_what_passes_bring_of_memory_is_theirs() -> None:
    built = build(TOTAL, params={"M": 100})
    assert argument_bytes(built, {"again": 1}) == {"X": 51200, "Y": 4, "Z": 51200}
    assert moved_bytes(built, {}) == 3 * 51200 + 4 and workspace_bytes(built, {}) == 2 * 512
    single = build(COPY)
    assert moved_bytes(single, {}) == 16384 and workspace_bytes(single, {}) == 0


def test_a_launch_that_overlaps_has_its_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three passes the two that overlap go to the driver with the attribute, on the stream that is current."""
    seen = []
    function = lambda grid, block, arguments, shared_mem: seen.append(("plain", grid))  # noqa: E731
    driver = SimpleNamespace(launch=lambda config, *_: seen.append(("attribute", config)) or 0)
    stream = SimpleNamespace(ptr=77)
    cupy = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: stream))
    monkeypatch.setattr("tilegen.gpu.run.load_driver", lambda: driver)
    monkeypatch.setattr("tilegen.gpu.run.load_cupy", lambda: cupy)
    monkeypatch.setattr("tilegen.gpu.run.describe_overlap", lambda grid, block, shared, stream: (grid, stream))
    monkeypatch.setattr(buffers, "compile_for", lambda *_: None)
    function_with = type("Loaded", (), {"__call__": staticmethod(function), "ptr": 1})
    monkeypatch.setattr(gpu, "load_function", lambda *_: function_with())
    array = lambda n: SimpleNamespace(data=SimpleNamespace(ptr=4096 * n))  # noqa: E731
    images = {name: array(k) for k, name in enumerate(("X", "Y", "Z", "sums", "twice"), 1)}
    session = SimpleNamespace(device=None)
    candidate = buffers.load_kernel(session, build(TOTAL), {"again": 1}, [images])  # type: ignore[arg-type]
    candidate(0)
    assert seen == [("plain", (M, 1, 1)), ("attribute", ((1, 1, 1), 77)), ("attribute", ((M, 1, 1), 77))]


def test_cubins_of_all_passes_are_made_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, compiled = [], []
    monkeypatch.setattr(running, "verify_built", lambda built, device, seeds, access: asked.append(device))
    monkeypatch.setattr(running, "compile_for", lambda device, one: compiled.append(one.plan.name))
    access = gpu.GpuAccess(lambda arch: None, lambda *_: {})  # type: ignore[arg-type, return-value]
    assert running.prepare_kernel(build(TOTAL), 3, access).is_verified and asked == ["gpu"] and not compiled
    large = running.prepare_kernel(build(SPECS / "gemm_split.yaml", params={"N": 4096}), 3, access)
    assert not large.is_verified and len(compiled) == 2
