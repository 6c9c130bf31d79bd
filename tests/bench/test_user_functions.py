"""bench --against module:function: a user's functions as peers. torch is NumPy here; on a GPU: test_bench_gpu.py."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from fakes import COPY, FakeWatch, fake_gpu

from tilegen.cli import cli
from tilegen.cli.functions import names_function

SCALE = """kernel: scale
arch: sm_80
params: {M: {default: 8}, c: {dtype: float32, default: 0.5}}
grid: {bx: M}
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [M, 64]}
  W: {scope: global, dtype: float32, shape: [64]}
  Y: {scope: global, dtype: float32, shape: [M, 64]}
  S: {scope: global, dtype: float32, shape: [64, M], layout: "S[(64,M):(1,64)]"}
  S_rows: {view: S, axes: [1, 0]}
  x: {scope: register, dtype: float32, shape: [1, 64], layout: auto}
ops:
  - elementwise: {dst: x, expr: "v * w * c", with: {v: "X[bx : +1]", w: W}}
  - copy: {src: x, dst: "Y[bx : +1]"}
  - elementwise: {dst: "S_rows[bx : +1]", expr: "x + 1.0"}
"""
FUNCTIONS = """
import numpy as np

spent = None  # a stopwatch

def both(X, W, c):
    if spent is not None:
        spent.spend(200.0)
    y = X * W * np.float32(c)
    return y, (y + np.float32(1)).T

def named(**given):
    y, s = both(given["X"], given["W"], given["c"])
    return {"S": s, "Y": y}

def off(X, W, c):
    y, s = both(X, W, c)
    return y * np.float32(1.0001), s

def one(X):
    return X

def half(X, W, c):
    y, s = both(X, W, c)
    return y.astype(np.float16), s

def flat(X, W, c):
    y, s = both(X, W, c)
    return y.ravel(), s

def of_another(X, Z):
    return X

def moved(X):
    return X.copy()
"""


class Tensor(np.ndarray[Any, Any]):
    """A tensor of torch, as far as bench knows it."""

    def as_strided(self, shape: Any, strides: Any) -> Any:
        return np.lib.stride_tricks.as_strided(self, shape, [s * self.itemsize for s in strides]).view(Tensor)

    def copy_(self, other: Any) -> None:
        self[...] = other

    def cpu(self) -> Any:
        return self

    def numpy(self) -> Any:
        return np.asarray(self)


def make_torch() -> Any:
    return SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: True, ExternalStream=lambda pointer: pointer,
                             stream=lambda stream: nullcontext()),
        from_dlpack=lambda array: array.view(Tensor), no_grad=nullcontext, compile=lambda function, dynamic: function,
        zeros=lambda n, dtype, device: np.zeros(n, dtype).view(Tensor), 
        float32=np.float32, uint8=np.uint8,
    )  # fmt: skip


def scale(x: Any, w: Any, y: Any, s: Any, *_: Any) -> None:
    v = x.view(np.float32).reshape(8, 64) * w.view(np.float32) * np.float32(0.5)
    y[:] = v.reshape(-1).view(np.uint8)
    s[:] = (v + np.float32(1)).reshape(-1).view(np.uint8)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeWatch]:
    (tmp_path / "bench_mine.py").write_text(FUNCTIONS, encoding="utf-8")
    (tmp_path / "scale.yaml").write_text(SCALE, encoding="utf-8")
    (tmp_path / "copy.yaml").write_text(COPY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "torch", make_torch())
    watch = FakeWatch(stream=SimpleNamespace(ptr=1))

    def run(*arguments: Any) -> None:
        watch.spend(100.0)
        if len(arguments) > 2:
            scale(*arguments)
        else:
            arguments[1][:] = arguments[0]

    fake_gpu(monkeypatch, watch, run)
    yield watch
    sys.modules.pop("bench_mine", None)


def bench(*words: str) -> Any:
    return CliRunner().invoke(cli, ["bench", *words, "--format", "json", "--rounds", "2"])


def result_of(done: Any) -> Any:
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["results"][0]


@pytest.mark.parametrize("name", ["both", "named"])
def test_a_function_beside_a_kernel(watch: FakeWatch, name: str) -> None:
    import bench_mine  # type: ignore[import-not-found]

    bench_mine.spent = watch
    found = result_of(bench("scale.yaml", "--against", f"bench_mine:{name}"))
    assert list(found["peers"]) == ["copy", f"bench_mine:{name}", f"bench_mine:{name} compiled"]
    assert [found["peers"][f"bench_mine:{name}{way}"]["ratio"] for way in ("", " compiled")] == [2.0, 2.0]
    assert found["absent"] == {}


def test_functions_beside_named_peers(watch: FakeWatch) -> None:
    found = result_of(bench("copy.yaml", "--against", "bench_mine:moved", "cupy"))
    assert list(found["peers"]) == ["copy", "cupy", "bench_mine:moved", "bench_mine:moved compiled"]


WRONG = {
    "off": "not timed: Y[0, 0] is ", "one": "it returns 1 result, and the kernel writes Y, S",
    "half": "what it returns for Y is float16, not float32",
    "flat": "what it returns for Y has the shape [512], not [8, 64]",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_returns_something_else_is_not_timed(watch: FakeWatch, name: str) -> None:
    found = result_of(bench("scale.yaml", "--against", f"bench_mine:{name}"))
    assert list(found["peers"]) == ["copy"] and len(found["absent"]) == 2
    reason = found["absent"][f"bench_mine:{name}"]
    assert WRONG[name].removeprefix("not timed: ") in reason
    if name == "off":
        assert "compute in float32, and round once" in reason and "elements are too far off" in reason


def test_what_cannot_be_called_is_an_error(watch: FakeWatch) -> None:
    for word, said in (
        ("bench_mine:of_another", "it takes 'Z', which is no input or param"),
        ("bench_mine:nothing", "has no function 'nothing'"), ("nowhere:f", "module 'nowhere' cannot be imported"),
        ("a:b:c", "is no peer; write module:function"),
    ):  # fmt: skip
        done = bench("scale.yaml", "--against", word)
        assert done.exit_code in (1, 2) and said in done.output, done.output


def test_names_of_functions() -> None:
    assert all(map(names_function, ("a:b", "a.b.c:d_e")))
    assert not any(map(names_function, ("torch.compile", "specs/a.yaml", "C:\\a", "a:b.c", ":f", "a:")))
