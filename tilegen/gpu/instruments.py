"""Kernels that measuring needs beside those that are measured: a pause, a cold L2, random bytes, images compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic.formats import FLOAT_FORMATS
from tilegen.dtypes import DTYPES, FACTOR
from tilegen.gpu.cubins import compile_cubin
from tilegen.gpu.device import Device, load_cupy

SOURCE = Path(__file__).with_name("instruments.cu")
NAMES = ("hold", "read_through", "fill_random", "fill_normal", "compare_bytes", "gather_bytes", "multiply_rows")
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


@dataclass(frozen=True)
class Factor:
    """An array that ``multiply_rows`` reads: its bytes, where the matrices' parts begin, and steps along rows, columns.

    ``starts`` and ``steps`` count elements.
    """

    image: Any
    dtype: str
    starts: Sequence[int] | NDArray[np.int64]
    steps: tuple[int, int]


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


def fill_normal(instruments: Instruments, image: Any, dtype: str, seed: int) -> None:
    """Fill an array of bytes with random normal elements of a seed: floats of variance 1; integers, 40 times as wide.

    Raises ValueError for an element type that is neither.
    """
    size, digits, least = describe_format(dtype)
    count = np.int64(image.nbytes // size)
    _run_over(instruments, "fill_normal", image, count, np.uint64(seed), *map(np.int32, (size, digits, least)))


def describe_format(dtype: str) -> tuple[int, int, int]:
    """Bytes of an element, bits after the point (-1: a signed integer), and the least exponent of one with all digits.

    >>> describe_format("bfloat16"), describe_format("float8_e4m3fn"), describe_format("int8")
    ((2, 7, -126), (1, 3, -6), (1, -1, 0))

    Raises ValueError for what is neither.
    """
    if dtype in FLOAT_FORMATS and dtype != FACTOR:
        form = FLOAT_FORMATS[dtype]
        return DTYPES[dtype].bytes, form.precision - 1, form.least + form.precision - 1
    if DTYPES[dtype].kind != "int":
        raise ValueError(f"{dtype} has no random normal elements")
    return DTYPES[dtype].bytes, -1, 0


def multiply_rows(instruments: Instruments, a: Factor, b: Factor, shape: tuple[int, int, int]) -> NDArray[np.float64]:
    """Rows of a product as float64, each sum rounded once: ``shape`` is how many rows, columns, and terms of a sum.

    ``starts`` of a: where each row begins; of b: where the first column of that row's matrix does. It waits for the
    stream. Raises ValueError for element types that are not multiplied.
    """
    cupy = load_cupy()
    rows, columns, depth = shape
    sums = cupy.empty(rows * columns, np.float64)
    starts = [cupy.asarray(np.array(f.starts, np.int64)) for f in (a, b)]
    steps = map(np.int64, (rows * columns, columns, depth, a.steps[1], *b.steps))
    formats = map(np.int32, (*describe_format(a.dtype), *describe_format(b.dtype)))
    _run_over(instruments, "multiply_rows", a.image, b.image, sums, *starts, *steps, *formats)
    found: NDArray[np.float64] = cupy.asnumpy(sums).reshape(rows, columns)
    return found


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
