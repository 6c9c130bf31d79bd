"""Times of work on one stream, by events; graphs of launches; buffers of raw bytes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.gpu.device import Device, load_cupy
from tilegen.gpu.instruments import Instruments, hold_stream, load_instruments, read_through

HOLD_CLOCKS = 400_000  # 0.2 ms at 2 GHz: longer than any peer's host code takes to enqueue its work
COLD_L2S = 2  # a cold L2 has read so many times its size of something else
_DEVICE_TO_DEVICE = 3  # cudaMemcpyKind
_TYPES = {1: "int8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}  # every library has them; bits are bits

Work = Callable[[], object]


@dataclass(frozen=True)
class Stopwatch:
    """A stream of its own, and how long work on it takes. Work must be enqueued while the stream is the current one."""

    instruments: Instruments
    stream: Any
    events: tuple[Any, Any]
    scratch: Any

    def time_us(self, work: Work, is_cold: bool = False) -> float:
        """Microseconds of the work between two events; ``is_cold``: none of its data is in the L2 before.

        The stream is busy while the host enqueues, so that the time has no part of the host's in it.
        """
        start, stop = self.events
        if is_cold:
            read_through(self.instruments, self.scratch)
        hold_stream(self.instruments, HOLD_CLOCKS)
        start.record(self.stream)
        work()
        stop.record(self.stream)
        stop.synchronize()
        return 1e3 * float(load_cupy().cuda.get_elapsed_time(start, stop))

    def capture(self, works: Sequence[Work]) -> Work:
        """A CUDA graph of the works, one after another, to be launched by a call; what they enqueue is not run now."""
        self.stream.synchronize()
        self.stream.begin_capture()
        try:
            for work in works:
                work()
        except BaseException:
            _drop_capture(self.stream)
            raise
        graph = self.stream.end_capture()

        def launch() -> None:
            graph.launch(self.stream)

        return launch

    def synchronize(self) -> None:
        """Wait for all that the stream has to do."""
        self.stream.synchronize()


def _drop_capture(stream: Any) -> None:
    """End a capture whose work failed: a stream that went on capturing would be of no more use."""
    with suppress(Exception):  # a capture that is no longer valid ends with an error, and CUDA's have no base
        stream.end_capture()


@contextmanager
def open_stopwatch(device: Device) -> Iterator[Stopwatch]:
    """A stopwatch whose stream is the current one inside of the block. Raises EnvironmentLack without a compiler."""
    watch = make_stopwatch(device)
    with watch.stream:
        yield watch
        watch.synchronize()


def make_stopwatch(device: Device) -> Stopwatch:
    """A stopwatch whose stream is no current one: who measures enters it, ``with watch.stream``, and leaves it.

    A stream that is entered is the current one of that thread, and can be left in no other. Raises EnvironmentLack
    without a compiler.
    """
    cupy = load_cupy()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        scratch = allocate_bytes(max(1 << 20, COLD_L2S * device.l2_bytes))
        fill_bytes(scratch, 0)
        events = (cupy.cuda.Event(), cupy.cuda.Event())
        return Stopwatch(load_instruments(device), stream, events, scratch)


def synchronize() -> None:
    """Wait for all that the current stream has to do."""
    load_cupy().cuda.get_current_stream().synchronize()


# ---------------------------------------------------------------- bytes
def allocate_bytes(count: int) -> Any:
    """An array of so many bytes that nobody has written, aligned to 512 bytes."""
    cupy = load_cupy()
    return cupy.empty(count, cupy.uint8)


def upload_bytes(elements: Any) -> Any:
    """The bytes of a NumPy array on the device."""
    return load_cupy().asarray(np.ascontiguousarray(elements).view(np.uint8).ravel())


def fill_bytes(image: Any, value: int) -> None:
    """Set every byte, on the current stream."""
    cupy = load_cupy()
    stream = cupy.cuda.get_current_stream().ptr
    cupy.cuda.runtime.memsetAsync(image.data.ptr, value, image.nbytes, stream)


def copy_bytes(source: Any, target: Any) -> None:
    """``cudaMemcpyAsync`` from device to device on the current stream, of all bytes of the source."""
    cupy = load_cupy()
    stream = cupy.cuda.get_current_stream().ptr
    cupy.cuda.runtime.memcpyAsync(target.data.ptr, source.data.ptr, source.nbytes, _DEVICE_TO_DEVICE, stream)


def keep_bytes(image: Any) -> Any:
    """A copy of an array of bytes, on the device."""
    kept = allocate_bytes(image.nbytes)
    copy_bytes(image, kept)
    return kept


def fetch_bytes(image: Any) -> NDArray[np.uint8]:
    """The bytes on the host; waits for the stream."""
    found: NDArray[np.uint8] = load_cupy().asnumpy(image)
    return found


def view_elems(image: Any, shape: Sequence[int], elem_bytes: int) -> Any:
    """The bytes as a dense array of elements of so many bytes, a signed integer (16 bytes: complex) for each.

    Raises KeyError for elements that are not 1, 2, 4, 8 or 16 bytes.
    """
    return image.view(_TYPES[elem_bytes]).reshape(tuple(shape))


def free_memory() -> None:
    """Give what is no longer used back to the device."""
    gc.collect()  # graphs and tensors of the last kernel may sit in circles
    load_cupy().get_default_memory_pool().free_all_blocks()
