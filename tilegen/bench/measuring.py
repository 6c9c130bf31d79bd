"""Candidates timed against each other: warmed up, in turns, over rotated buffers; medians of paired ratios.

Nothing here knows a GPU: a ``Watch`` measures, and a candidate is a function of the buffer set that it works on.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from tilegen import gpu

Candidate = Callable[[int], object]  # enqueues its work on one set of buffers

GRAPH_BELOW_US = 50.0  # below, launches are timed in graphs of
GRAPH_LAUNCHES = 20
MOST_SETS = 256
COLD_L2S = 4  # the buffers of all sets are so many times the L2, or the L2 is emptied before each sample
WARM_UPS = 3


class Watch(Protocol):
    """Measures work that is enqueued by a call."""

    def time_us(self, work: Callable[[], object], is_cold: bool = False) -> float: ...

    def capture(self, works: Sequence[Callable[[], object]]) -> Callable[[], object]: ...

    def synchronize(self) -> None: ...


@dataclass(frozen=True)
class Rotation:
    """How many sets of buffers take turns; ``is_cold``: they are too small for the L2 to have forgotten them."""

    sets: int
    is_cold: bool = False


@dataclass(frozen=True)
class Spread:
    """The quartiles of a sample."""

    lower: float
    median: float
    upper: float


@dataclass(frozen=True)
class Timed:
    """Microseconds of a launch by candidate, one for each round; a sample was the mean of ``launches``."""

    launches: int
    rounds: Mapping[str, tuple[float, ...]]


def plan_rotation(set_bytes: int, l2_bytes: int, memory_bytes: int, workspace_bytes: int = 0) -> Rotation:
    """As many sets as four times the L2 takes, two at least, 256 and a sixth of the memory at most.

    Each set has a workspace beside its ``set_bytes``. A workspace takes memory and makes nothing cold: peers have none.

    >>> plan_rotation(2 << 30, 60 << 20, 140 << 30), plan_rotation(1 << 20, 60 << 20, 140 << 30)
    (Rotation(sets=2, is_cold=False), Rotation(sets=240, is_cold=False))
    >>> plan_rotation(1 << 10, 60 << 20, 140 << 30)
    Rotation(sets=256, is_cold=True)
    >>> plan_rotation(1 << 20, 60 << 20, 1 << 30, workspace_bytes=19 << 20)
    Rotation(sets=8, is_cold=True)
    """
    wanted = -(-COLD_L2S * l2_bytes // set_bytes)
    fitting = memory_bytes // 6 // (set_bytes + workspace_bytes)
    sets = max(1, min(max(2, wanted), MOST_SETS, fitting))
    return Rotation(sets, sets * set_bytes < COLD_L2S * l2_bytes)


def warm_up(watch: Watch, candidate: Candidate) -> float:
    """Run a candidate a few times, so that all is compiled and loaded; then about how many microseconds it takes."""
    for k in range(WARM_UPS):
        candidate(k)
    watch.synchronize()
    return statistics.median(watch.time_us(lambda k=k: candidate(k)) for k in range(WARM_UPS))  # type: ignore[misc]


def choose_launches(estimates_us: Sequence[float]) -> int:
    """Launches in a sample: those of a graph where any candidate is too short to be timed alone.

    >>> choose_launches([130.0, 60.0]), choose_launches([130.0, 49.0])
    (1, 20)
    """
    return GRAPH_LAUNCHES if min(estimates_us) < GRAPH_BELOW_US else 1


def make_samplers(watch: Watch, candidate: Candidate, sets: int, launches: int) -> tuple[Callable[[], object], ...]:
    """What a sample runs, for each turn of the buffers: the candidate on one set, or graphs of it over all sets."""
    if launches == 1:
        return tuple(_bind(candidate, k) for k in range(sets))
    turns = max(1, sets // launches)
    return tuple(
        watch.capture([_bind(candidate, (turn * launches + k) % sets) for k in range(launches)])
        for turn in range(turns)
    )


def _bind(candidate: Candidate, buffer_set: int) -> Callable[[], object]:
    return lambda: candidate(buffer_set)


def take_turns(
    watch: Watch,
    samplers: Mapping[str, Sequence[Callable[[], object]]],
    rounds: int,
    launches: int,
    is_cold: bool = False,
) -> Timed:
    """Time all candidates once a round, each round in another order, each sample on the next buffers.

    The first round warms up and is not kept.
    """
    names = list(samplers)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            mine = samplers[name]
            taken = watch.time_us(mine[(turn * len(names) + place) % len(mine)], is_cold)
            if turn:
                times[name].append(taken / launches)
    return Timed(launches, {name: tuple(taken) for name, taken in times.items()})


# ---------------------------------------------------------------- what the times say
def measure_spread(sample: Sequence[float]) -> Spread:
    """The quartiles of at least one number.

    >>> measure_spread([1.0, 2.0, 3.0, 4.0, 5.0])
    Spread(lower=2.0, median=3.0, upper=4.0)
    """
    if len(sample) == 1:
        return Spread(sample[0], sample[0], sample[0])
    lower, median, upper = statistics.quantiles(sample, n=4, method="inclusive")
    return Spread(lower, median, upper)


def paired_ratio(mine: Sequence[float], other: Sequence[float]) -> Spread:
    """t_other / t round by round, and its quartiles: what changes all of a round alike is not in it.

    >>> paired_ratio([1.0, 2.0, 4.0], [2.0, 4.0, 8.0]).median
    2.0
    """
    return measure_spread([b / a for a, b in zip(mine, other, strict=True)])


def gb_per_s(moved_bytes: int, us: float) -> float:
    """Gigabytes (10**9) in a second.

    >>> gb_per_s(4_000_000, 1.0)
    4000.0
    """
    return moved_bytes / us / 1e3


# ---------------------------------------------------------------- a device that is ready
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
