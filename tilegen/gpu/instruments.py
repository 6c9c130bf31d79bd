"""Kernels that measuring needs beside those that are measured: a pause, a cold L2, random bytes, images compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilegen.gpu.cubins import compile_cubin
from tilegen.gpu.device import Device, load_cupy

SOURCE = Path(__file__).with_name("instruments.cu")
NAMES = ("hold", "read_through", "fill_random", "compare_bytes", "gather_bytes")
_THREADS = 256
_CTAS_PER_SM = 8  # of 256 threads: all that an SM runs at once
_NEVER = np.uint32(0x9E3779B9)  # a sum that, if it came, would only be written to a word that nobody reads


@dataclass(frozen=True)
class Instruments:
    """The loaded kernels by name, and a grid that fills the device."""

    functions: Mapping[str, Any]
    ctas: int


@dataclass(frozen=True)
class Difference:
    """How many bytes of two images differ, and the first of them."""

    count: int
    first_byte: int


def load_instruments(device: Device) -> Instruments:
    """Compile and load the instruments for a device. Raises EnvironmentLack without a compiler for it."""
    major, minor = device.compute_capability
    cubin = compile_cubin(SOURCE.read_text(encoding="utf-8"), f"sm_{major}{minor}", NAMES[0])
    module = load_cupy().cuda.function.Module()
    module.load(cubin.image)
    return Instruments({name: module.get_function(name) for name in NAMES}, _CTAS_PER_SM * device.sm_count)


def hold_stream(instruments: Instruments, clocks: int) -> None:
    """Keep the current stream busy for so many clocks."""
    instruments.functions["hold"]((1, 1, 1), (1, 1, 1), (np.int64(clocks),))


def read_through(instruments: Instruments, scratch: Any) -> None:
    """Read an array of at least 8 bytes but for its last word: the L2 holds it afterwards, and nothing else."""
    words = scratch.nbytes // 4 - 1
    last = scratch[4 * words :]
    _run_over(instruments, "read_through", scratch, np.int64(words), _NEVER, last)


def fill_random(instruments: Instruments, image: Any, seed: int, mask: int = 0xFF) -> None:
    """Fill an array of bytes with random bits of a seed, those of ``mask``."""
    _run_over(instruments, "fill_random", image, np.int64(image.nbytes), np.uint64(seed), np.int32(mask))


def compare_images(instruments: Instruments, got: Any, want: Any) -> Difference | None:
    """Where two arrays of as many bytes differ, or None; waits for the stream."""
    cupy = load_cupy()
    found = cupy.asarray(np.array([0, got.nbytes], np.uint64))
    _run_over(instruments, "compare_bytes", got, want, np.int64(got.nbytes), found)
    count, first = (int(n) for n in cupy.asnumpy(found))
    return Difference(count, first) if count else None


def gather_image(
    instruments: Instruments, source: Any, target: Any, sizes: Sequence[int], strides: Sequence[int], elem_bytes: int
) -> None:
    """Fill a dense array of ``sizes`` from another's elements, ``strides`` apart: a loop that is plainly right.

    It waits for the stream.
    """
    cupy = load_cupy()
    tables = [cupy.asarray(np.array(values, np.int64)) for values in (sizes, strides)]
    count = np.int64(target.nbytes)
    _run_over(instruments, "gather_bytes", source, target, *tables, np.int32(len(sizes)), np.int32(elem_bytes), count)
    cupy.cuda.get_current_stream().synchronize()  # the tables live until then


def _run_over(instruments: Instruments, name: str, *arguments: Any) -> None:
    instruments.functions[name]((instruments.ctas, 1, 1), (_THREADS, 1, 1), arguments)
