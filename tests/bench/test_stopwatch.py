"""The stopwatch over a CuPy that only writes down what it is asked: the order of a sample, what a capture leaves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilegen.gpu import Device, instruments, timing
from tilegen.gpu.instruments import Instruments


class FakeEvent:
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def record(self, stream: Any) -> None:
        self.log.append("event")

    def synchronize(self) -> None:
        self.log.append("wait")


class FakeStream:
    ptr = 7

    def __init__(self, log: list[Any]) -> None:
        self.log, self.is_valid = log, True

    def __enter__(self) -> FakeStream:
        self.log.append("enter")
        return self

    def __exit__(self, *_: Any) -> None:
        self.log.append("leave")

    def synchronize(self) -> None:
        self.log.append("synchronize")

    def begin_capture(self) -> None:
        self.log.append("begin")

    def end_capture(self) -> Any:
        self.log.append("end")
        if not self.is_valid:
            raise RuntimeError("cudaErrorStreamCaptureInvalidated")
        return SimpleNamespace(launch=lambda stream: self.log.append(("launch", stream.ptr)))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is asked of CuPy, in order."""
    calls: list[Any] = []
    stream = FakeStream(calls)
    runtime = SimpleNamespace(
        memcpyAsync=lambda *a: calls.append(("memcpy", *a)), memsetAsync=lambda *a: calls.append(("memset", *a))
    )
    cuda = SimpleNamespace(
        Stream=lambda non_blocking: stream, Event=lambda: FakeEvent(calls), get_elapsed_time=lambda a, b: 0.25,
        get_current_stream=lambda: stream, runtime=runtime,
    )  # fmt: skip
    cupy = SimpleNamespace(cuda=cuda, uint8=np.uint8, empty=fake_array, asarray=np.asarray, asnumpy=np.asarray)
    for room in (timing, instruments):
        monkeypatch.setattr(room, "load_cupy", lambda: cupy)

    def load(device: Device) -> Instruments:
        names = instruments.NAMES
        return Instruments({n: lambda g, b, a, n=n: calls.append((n, g, b, a)) for n in names}, 8 * device.sm_count)

    monkeypatch.setattr(timing, "load_instruments", load)
    return calls


class FakeArray(np.ndarray):
    """NumPy's memory with CuPy's pointer."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)


def fake_array(count: int, dtype: Any) -> Any:
    return np.zeros(count, dtype).view(FakeArray)


DEVICE = Device("Pretended GPU", (9, 0), "CUDA 13.0", 132, 3 << 20, 8 << 30)


def test_a_sample_is_held_between_its_events(log: list[Any]) -> None:
    with timing.open_stopwatch(DEVICE) as watch:
        log.clear()
        assert watch.time_us(lambda: log.append("work")) == 250.0
    (hold, *rest) = log
    assert hold[0] == "hold" and hold[1:3] == ((1, 1, 1), (1, 1, 1)) and hold[3][0] == timing.HOLD_CLOCKS
    assert rest == ["event", "work", "event", "wait", "synchronize", "leave"]


def test_a_cold_sample_reads_twice_the_l2_first(log: list[Any]) -> None:
    with timing.open_stopwatch(DEVICE) as watch:
        log.clear()
        watch.time_us(lambda: None, is_cold=True)
    name, grid, block, (words, count, _, last) = log[0]
    assert (name, grid, block) == ("read_through", (1056, 1, 1), (256, 1, 1))
    assert words.nbytes == 2 * DEVICE.l2_bytes and count == words.nbytes // 4 - 1 and last.nbytes == 4
    assert log[1][0] == "hold"


def test_a_graph_is_captured_once_and_launched_by_a_call(log: list[Any]) -> None:
    with timing.open_stopwatch(DEVICE) as watch:
        log.clear()
        launch = watch.capture([lambda: log.append("a"), lambda: log.append("b")])
        launch()
        launch()
    assert log[:7] == ["synchronize", "begin", "a", "b", "end", ("launch", 7), ("launch", 7)]


@pytest.mark.parametrize("is_valid", [True, False])
def test_work_that_cannot_be_captured_ends_the_capture(log: list[Any], is_valid: bool) -> None:
    def fail() -> None:
        raise ValueError("not while capturing")

    with timing.open_stopwatch(DEVICE) as watch:
        watch.stream.is_valid = is_valid
        log.clear()
        with pytest.raises(ValueError, match="not while capturing"):
            watch.capture([fail])
        assert log == ["synchronize", "begin", "end"]


def test_bytes_are_copied_and_set_on_the_current_stream(log: list[Any]) -> None:
    source, target = fake_array(64, np.uint8), fake_array(64, np.uint8)
    timing.copy_bytes(source, target)
    timing.fill_bytes(target, 0xA5)
    assert log == [
        ("memcpy", target.ctypes.data, source.ctypes.data, 64, 3, 7), ("memset", target.ctypes.data, 0xA5, 64, 7),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_elements_are_views(size: int) -> None:
    image = np.arange(6 * size, dtype=np.uint8)
    shown = timing.view_elems(image, (2, 3), size)
    assert shown.shape == (2, 3) and shown.itemsize == size and np.shares_memory(shown, image)


def test_images_are_compared_by_what_the_kernel_finds(log: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def find(grid: Any, block: Any, arguments: Any) -> None:
        got, want, count, found = arguments
        assert count == got.nbytes == 10
        found[:] = (np.count_nonzero(got != want), np.argmax(got != want) if (got != want).any() else 10)

    tools = Instruments({"compare_bytes": find}, 4)
    a, b = np.zeros(10, np.uint8), np.zeros(10, np.uint8)
    assert instruments.compare_images(tools, a, b) is None
    b[[3, 7]] = 1
    assert instruments.compare_images(tools, a, b) == instruments.Difference(2, 3)
