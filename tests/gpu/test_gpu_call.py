"""Calls with real arrays on a real GPU. ``pytest -m gpu``."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import tilegen
from tilegen.errors import CallError
from tilegen.gpu.device import probe_device

DEVICE, WHY_NOT = probe_device()
SPECS = Path(__file__).parents[2] / "specs"
LARGE_SHARED = """kernel: large_shared
arch: sm_90
threads: 256
grid: {bx: 4}
buffers:
  X: {scope: global, dtype: float32, shape: [512, 128]}
  Y: {scope: global, dtype: float32, shape: [512, 128]}
  t: {scope: shared, dtype: float32, shape: [128, 128]}
ops:
  - copy: {src: "X[bx*128 : +128]", dst: t}
  - sync: cta
  - copy: {src: t, dst: "Y[bx*128 : +128]"}
"""
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(DEVICE is None, reason=f"no GPU: {WHY_NOT}")]


class CupyArrays:
    """What the tests need of CuPy."""

    def __init__(self) -> None:
        self.module = importlib.import_module("cupy")

    def random(self, *shape: int) -> Any:
        return self.module.random.default_rng(1).random(shape, "float32")

    def zeros(self, *shape: int) -> Any:
        return self.module.zeros(shape, "float32")

    def equal(self, a: Any, b: Any) -> bool:
        return bool((a == b).all())

    def stream(self) -> Any:
        return self.module.cuda.Stream(non_blocking=True)


class TorchTensors:
    """What the tests need of torch."""

    def __init__(self) -> None:
        self.module = pytest.importorskip("torch")

    def random(self, *shape: int) -> Any:
        return self.module.rand(shape, device="cuda")

    def zeros(self, *shape: int) -> Any:
        return self.module.zeros(shape, device="cuda")

    def equal(self, a: Any, b: Any) -> bool:
        return bool((a == b).all())

    def stream(self) -> Any:
        return self.module.cuda.stream(self.module.cuda.Stream())


@pytest.fixture(params=[CupyArrays, TorchTensors], ids=["cupy", "torch"])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.fixture(scope="module")
def transpose() -> Any:
    return tilegen.compile(SPECS / "transpose_tile.yaml", params={"M": 256, "N": 200})


def test_a_transpose(library: Any, transpose: Any) -> None:
    x, y = library.random(256, 200), library.zeros(200, 256)
    assert transpose(x, y) is None and library.equal(y, x.T)
    made = transpose(x)
    assert type(made) is type(x) and library.equal(made, x.T)


def test_sizes_from_the_arrays(library: Any) -> None:
    kernel = tilegen.compile(SPECS / "rows_any_size.yaml")
    wide = library.random(100, 90)
    for rows, columns in ((100, 90), (37, 61)):
        x = wide[:rows, :columns]
        assert library.equal(kernel(x), x)
    y = library.zeros(100, 90)
    kernel(wide, y, M=100, N=90, ldx=90)
    assert library.equal(y, wide)


def test_shared_memory_beyond_48_kilobytes(library: Any) -> None:
    x = library.random(512, 128)
    assert library.equal(tilegen.compile(LARGE_SHARED)(x), x)


def test_the_current_stream(library: Any, transpose: Any) -> None:
    """What is queued on the stream before is seen: the kernel waits for it, and nothing waits for the kernel."""
    x = library.random(256, 200)
    with library.stream():
        y = library.zeros(200, 256)
        for _ in range(50):
            x = x + 1
        transpose(x, y)
        assert library.equal(y, x.T)


def test_what_a_call_does_not_take(library: Any, transpose: Any) -> None:
    x = library.random(256, 200)
    for given, code in (((x, x), "TG704"), ((x[:, :100],), "TG704"), ((x.T,), "TG704"), ((), "TG701")):
        with pytest.raises(CallError, match=code):
            transpose(*given)
    square = tilegen.compile(SPECS / "transpose_tile.yaml", params={"M": 128, "N": 128})
    y = library.random(128, 128)
    with pytest.raises(CallError, match="TG707: transpose_tile: Y is written while X is read"):
        square(y, y)
    with pytest.raises(CallError, match="TG705"):
        square(y.T)
    with pytest.raises(CallError, match="TG706"):
        square(library.random(128 * 128 + 1)[1:].reshape(128, 128))


def test_what_comes_after_calls_of_one_kind(library: Any, transpose: Any) -> None:
    """The short way of such calls takes nothing that the first call would not have taken."""
    x, y = library.random(256, 200), library.zeros(200, 256)
    for _ in range(3):
        transpose(x, y)
    for other in (library.random(200, 256).T, library.random(256, 201)[:, :200], library.random(200, 256)):
        with pytest.raises(CallError, match=r"TG70[45]"):
            transpose(other, y)
    again = library.random(256, 200)
    transpose(again, y)
    assert library.equal(y, again.T)


class Interface:
    """An array that has nothing but this protocol."""

    def __init__(self, array: Any):
        self.array = array

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.array.__cuda_array_interface__


class Exchange:
    """An array that has nothing but DLPack."""

    def __init__(self, array: Any):
        self.array = array

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("wrap", [Interface, Exchange])
def test_arrays_by_their_protocols(library: Any, transpose: Any, wrap: Any) -> None:
    x, y = library.random(256, 200), library.zeros(200, 256)
    transpose(wrap(x), wrap(y))
    assert library.equal(y, x.T)


def test_memory_of_the_cpu(transpose: Any) -> None:
    import numpy as np

    with pytest.raises(CallError, match="TG702"):
        transpose(np.zeros((256, 200), np.float32))
