"""CuPy's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.gpu.call.arrays import Library, Part, Seen, dense_strides
from tilegen.gpu.device import load_cupy

_AS_BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def cupy_library() -> Library:
    """How CuPy's arrays are read; imports CuPy, which whoever has such an array has done before."""
    cupy = load_cupy()
    current = cupy.cuda.get_current_stream

    def stream(device: int) -> int:
        pointer: int = current(device).ptr
        return pointer

    def allocate(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, device: int) -> Callable[[], Any]:
        stored = cupy.dtype(_AS_BITS.get(dtype, dtype))
        span = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        steps = None if strides == dense_strides(shape) else tuple(n * stored.itemsize for n in strides)

        def make() -> Any:
            with cupy.cuda.Device(device):
                return cupy.ndarray(shape, stored, cupy.cuda.alloc(span * stored.itemsize), steps)

        return make

    return Library("cupy", read_cupy, look_at_cupy, stream, allocate)


def read_cupy(array: Any) -> tuple[Part, int]:
    """Shape, dtype, strides and device of an array, and where it lies."""
    data = array.data
    return (array.shape, array.dtype, array.strides, data.device_id), data.ptr


def look_at_cupy(array: Any) -> Seen:
    """The array, named and counted as specs do."""
    size = array.dtype.itemsize
    fault = "" if all(n % size == 0 for n in array.strides) else "its strides are no whole elements; copy it"
    strides = tuple(n // size for n in array.strides)
    data = array.data
    return Seen(tuple(array.shape), strides, array.dtype.name, data.device_id, data.ptr, fault=fault)
