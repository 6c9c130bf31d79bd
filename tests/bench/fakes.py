"""A GPU that is none: NumPy arrays as its memory, and a stopwatch whose times are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tilegen import gpu
from tilegen.dtypes import numpy_dtype

SILENT_US = 80.0  # of work that says nothing
COPY = """kernel: copy_all
arch: sm_90
threads: 64
buffers:
  X: {scope: global, dtype: float32, shape: [64, 32]}
  Y: {scope: global, dtype: float32, shape: [64, 32]}
ops:
  - copy: {src: X, dst: Y}
"""
CUBIN = gpu.Cubin("copy_all", "sm_90", "NVRTC 13.0 (test)", b"", "", 18, 0, 0, 0, 0)
DEVICE = gpu.Device("Pretended GPU", (9, 0), "CUDA 13.0", 132, 1 << 20, 512 << 20)


@dataclass
class FakeWatch:
    """Time passes only where a candidate says so: ``spend`` is called by what pretends to be a kernel."""

    instruments: Any = None
    stream: Any = None
    now_us: float = 0.0
    is_capturing: bool = False
    log: list[tuple[str, bool]] = field(default_factory=list)

    def spend(self, us: float) -> None:
        if not self.is_capturing:
            self.now_us += us

    def time_us(self, work: Callable[[], object], is_cold: bool = False) -> float:
        assert not self.is_capturing
        before = self.now_us
        work()
        self.log.append(("timed", is_cold))
        return self.now_us - before or SILENT_US

    def capture(self, works: Sequence[Callable[[], object]]) -> Callable[[], object]:
        self.is_capturing = True
        try:
            for work in works:
                work()
        finally:
            self.is_capturing = False
        self.log.append((f"captured {len(works)}", False))

        def launch() -> None:
            for work in works:
                work()

        return launch

    def synchronize(self) -> None:
        assert not self.is_capturing


def fake_gpu(
    monkeypatch: pytest.MonkeyPatch, watch: FakeWatch, kernel: Callable[..., None] | Mapping[str, Callable[..., None]]
) -> None:
    """Put NumPy behind the GPU room, and ``kernel(arrays of bytes)`` behind every launch, or one by its name."""

    def fill_random(_: Any, image: Any, seed: int, mask: int = 0xFF) -> None:
        image[:] = np.random.default_rng(seed).integers(0, 256, image.size, np.uint8) & mask

    def gather(_: Any, source: Any, target: Any, sizes: Any, strides: Any, size: int) -> None:
        index = sum(i * s for i, s in zip(np.indices(tuple(sizes)), strides, strict=True))
        target[:] = source.reshape(-1, size)[np.asarray(index).reshape(-1)].reshape(-1)

    def compare(_: Any, got: Any, want: Any) -> gpu.Difference | None:
        wrong = np.flatnonzero(got != want)
        return gpu.Difference(len(wrong), int(wrong[0])) if len(wrong) else None

    def copy(source: Any, target: Any) -> None:
        target[:] = source
        watch.spend(100.0)

    def fill_normal(_: Any, image: Any, dtype: str, seed: int) -> None:
        values = np.random.default_rng(seed).standard_normal(image.size // numpy_dtype(dtype).itemsize)
        is_int = numpy_dtype(dtype).kind in "iu"
        image[:] = (
            (np.rint(40 * values).clip(-127, 127) if is_int else values).astype(numpy_dtype(dtype)).view(np.uint8)
        )

    def multiply_rows(_: Any, a: gpu.Factor, b: gpu.Factor, shape: tuple[int, int, int]) -> Any:
        rows, columns, depth = shape
        x, y = (f.image.view(numpy_dtype(f.dtype)).astype(np.float64) for f in (a, b))
        k, n = np.arange(depth), np.arange(columns)
        left = x[np.asarray(a.starts)[:, None] + k * a.steps[1]]
        right = y[np.asarray(b.starts)[:, None, None] + k[:, None] * b.steps[0] + n * b.steps[1]]
        return (left[:, None, :] @ right).reshape(rows, columns)

    def prepare_ceiling(device: gpu.Device, _: Any, loop: Any) -> gpu.Ceiling:
        """A loop of 2 us and 0.1 us a trip."""
        return gpu.Ceiling(loop.name, loop.flops * device.sm_count, lambda trips: watch.spend(2 + 0.1 * trips))

    @contextmanager
    def open_stopwatch(_: Any) -> Iterator[FakeWatch]:
        yield watch

    def load(_: Any, how: gpu.GpuLaunch) -> Any:
        run = kernel if callable(kernel) else kernel[how.kernel]
        return lambda grid, block, arguments, shared_mem: run(*arguments)

    def bind(function: Any, how: gpu.GpuLaunch, arguments: Any) -> Callable[[], None]:
        """A launch that overlaps needs CUDA's driver, and runs here as any other."""
        return lambda: function(how.grid, how.block, arguments, shared_mem=how.shared_bytes)

    pretended = {
        "require_gpu": lambda *_: DEVICE, "open_stopwatch": open_stopwatch, "load_function": load, "bind_launch": bind,
        "allocate_bytes": lambda n: np.zeros(n, np.uint8), "fill_random": fill_random, "gather_image": gather,
        "fill_bytes": lambda image, value: image.fill(value), "compare_images": compare, "copy_bytes": copy,
        "free_memory": lambda: None, "fill_normal": fill_normal, "multiply_rows": multiply_rows,
        "fetch_bytes": np.copy, "keep_bytes": np.copy, "prepare_ceiling": prepare_ceiling,
        "arguments_of": lambda how, arrays: (*arrays, *how.params),  # descriptors take a driver
    }  # fmt: skip
    for name, function in pretended.items():
        monkeypatch.setattr(gpu, name, function)
    monkeypatch.setattr("tilegen.gpu.serving.require_gpu", lambda *_: DEVICE)
    for room in ("buffers", "running"):
        monkeypatch.setattr(f"tilegen.bench.{room}.compile_for", lambda *_: CUBIN)
    for room in ("checking", "running"):
        monkeypatch.setattr(f"tilegen.bench.{room}.verify_built", lambda *_, **__: None)
