"""A device that is ready to measure, and what its own copy reaches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tilegen import gpu
from tilegen.bench.measuring import make_samplers, measure_spread, take_turns, warm_up
from tilegen.bench.results import gb_per_s

CEILING_BYTES = 1 << 30


@dataclass(frozen=True)
class Session:
    """A device with its stopwatch, and what its own copy reaches (read and written bytes in a second)."""

    device: gpu.Device
    watch: gpu.Stopwatch
    ceiling_gb_per_s: float


@contextmanager
def open_session() -> Iterator[Session]:
    """The GPU, ready to measure. Raises EnvironmentLack without one, or without a compiler for it."""
    device = gpu.require_gpu()
    with gpu.open_stopwatch(device) as watch:
        yield Session(device, watch, measure_ceiling(watch, device.memory_bytes))


def measure_ceiling(watch: gpu.Stopwatch, memory_bytes: int) -> float:
    """GB/s, read and written, of a device-to-device copy of 1 GiB (less on a small device): the median of 20."""
    count = min(CEILING_BYTES, memory_bytes // 16)
    source, target = gpu.allocate_bytes(count), gpu.allocate_bytes(count)
    gpu.fill_random(watch.instruments, source, 0)

    def copy(_: int) -> None:
        gpu.copy_bytes(source, target)

    warm_up(watch, copy)
    times = take_turns(watch, {"copy": make_samplers(watch, copy, 1, 1)}, 20, 1).rounds["copy"]
    return gb_per_s(2 * count, measure_spread(times).median)
