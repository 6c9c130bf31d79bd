"""Libraries of arrays: how each is read, by the type of its arrays.

Source: "CUDA Array Interface (Version 3)" in Numba's manual. DLPack's ways are in dlpack.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from tilegen.errors import CallError, Diagnostic
from tilegen.gpu.call.arrays import RAW_BITS, Library, Match, Part, Seen, dense_strides, match_by_reading
from tilegen.gpu.call.dlpack import dlpack_library, exchange_library
from tilegen.gpu.device import load_cupy
from tilegen.gpu.driver import Driver


def library_of(cls: type, driver: Driver) -> Library | None:
    """How arrays of a type are read; None for a type that is no array's."""
    if _is_of(cls, "cupy", "ndarray"):
        return cupy_library()
    if _is_of(cls, "torch", "Tensor"):
        return torch_library()
    if hasattr(cls, "__cuda_array_interface__"):
        return interface_library(driver)
    return exchange_library(cls) or (dlpack_library() if hasattr(cls, "__dlpack__") else None)


def _is_of(cls: type, module: str, name: str) -> bool:
    """Whether a type is a library's array, or made from it; a library that is not loaded has none."""
    base = getattr(sys.modules.get(module), name, None)
    return isinstance(base, type) and issubclass(cls, base)


class Readers(dict[type, Callable[[Any], tuple[Part, int]]]):
    """Type -> how its arrays are read on every call; a type is looked up when it first comes."""

    def __init__(self, kernel: str, reads_complex: bool, driver: Callable[[], Driver]):
        super().__init__()
        self.kernel, self.reads_complex, self.driver = kernel, reads_complex, driver
        self.libraries: dict[type, Library] = {}

    def __missing__(self, cls: type) -> Callable[[Any], tuple[Part, int]]:
        library = library_of(cls, self.driver())
        if library is None:
            message = f"{self.kernel}: {cls.__module__}.{cls.__qualname__} is no array of a GPU"
            hint = "CuPy arrays, torch tensors, and what has __cuda_array_interface__ or __dlpack__ are"
            raise CallError(Diagnostic("TG702", message, hint=hint))
        self.libraries[cls] = library
        is_lazy = library.name == "torch" and self.reads_complex
        self[cls] = read_complex_torch if is_lazy else library.read
        return self[cls]


# ---------------------------------------------------------------- CuPy's arrays


def cupy_library() -> Library:
    """How CuPy's arrays are read; imports CuPy, which whoever has such an array has done before."""
    cupy = load_cupy()
    current = cupy.cuda.get_current_stream

    def stream(device: int) -> int:
        pointer: int = current(device).ptr
        return pointer

    def allocate(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, device: int) -> Callable[[], Any]:
        stored = cupy.dtype(RAW_BITS.get(dtype, dtype))
        span = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        steps = None if strides == dense_strides(shape) else tuple(n * stored.itemsize for n in strides)

        def make() -> Any:
            with cupy.cuda.Device(device):
                return cupy.ndarray(shape, stored, cupy.cuda.alloc(span * stored.itemsize), steps)

        return make

    return Library("cupy", read_cupy, look_at_cupy, match_cupy, stream, allocate)


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


def match_cupy(array: Any) -> Match:
    """How an array's form is known again: contiguous arrays of a shape without a 1 have the same strides."""
    kind, shape, dtype, device = type(array), array.shape, array.dtype, array.data.device_id
    if 1 in shape or not getattr(array, "_c_contiguous", False):
        return match_by_reading(read_cupy, array)

    def match(other: Any) -> int:
        if type(other) is kind and other._c_contiguous and other.shape == shape and other.dtype == dtype:
            data = other.data
            if data.device_id == device:
                pointer: int = data.ptr
                return pointer
        return 0

    return match


# ---------------------------------------------------------------- torch: who has a tensor has it loaded
def torch_library() -> Library:
    """How torch's tensors are read."""
    torch: Any = sys.modules["torch"]
    # What torch's own generated kernels ask; the public function makes an object of it each time.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)

    def stream(device: int) -> int:
        return int(torch.cuda.current_stream(device).cuda_stream)

    def allocate(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, device: int) -> Callable[[], Any]:
        kind = {"dtype": getattr(torch, dtype), "device": torch.device("cuda", device)}
        return partial(torch.empty_strided, shape, strides, **kind)

    return Library("torch", read_torch, look_at_torch, partial(match_torch, find_guard(torch)), raw or stream, allocate)


@cache
def find_guard(torch: Any) -> Callable[..., Any] | None:
    """The check that torch's compiled graphs make of their inputs: type, dtype, device, shape, strides, and whether a
    conjugate or negation is left to compute, all in one call. It is not public: it is tried out before it is trusted.
    """
    try:
        make = partial(torch._C._dynamo.guards.TensorGuards, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        empty = partial(torch.empty, device="cpu")
        known, same = empty(4, 2), empty(4, 2)
        negated = empty(8, dtype=torch.complex64).conj().imag.resize_(4, 2)
        others = (empty(2, 4), empty(2, 4).t(), empty(4, 2, dtype=torch.int32), negated, None)
        found = [make(known).check(other) for other in (known, same, *others)]
    except Exception:
        return None
    return make if found == [True, True] + [False] * len(others) else None


def match_torch(guard: Callable[..., Any] | None, tensor: Any) -> Match:
    """How a tensor's form is known again."""
    if guard is None:
        return match_by_reading(read_complex_torch, tensor)
    check = guard(tensor).check

    def match(other: Any) -> int:
        return other.data_ptr() if check(other) else 0

    return match


def read_torch(tensor: Any) -> tuple[Part, int]:
    """Shape, dtype, device and strides of a tensor, whether it is a negation not yet computed, and where it lies."""
    part = tensor.shape, tensor.dtype, tensor.get_device(), tensor.stride(), tensor.is_neg()
    return part, tensor.data_ptr()


def read_complex_torch(tensor: Any) -> tuple[Part, int]:
    """The same where a tensor may be a conjugate that was not computed yet."""
    part, pointer = read_torch(tensor)
    return (*part, tensor.is_conj()), pointer


def look_at_torch(tensor: Any) -> Seen:
    """The tensor, named and counted as specs do."""
    lazy = tensor.is_conj() or tensor.is_neg()
    fault = "it is a conjugate or negation that torch has not computed yet; call .resolve_conj().resolve_neg()"
    dtype = str(tensor.dtype).removeprefix("torch.")
    device = tensor.get_device() if tensor.is_cuda else None
    return Seen(
        tuple(tensor.shape), tuple(tensor.stride()), dtype, device, tensor.data_ptr(), fault=fault if lazy else ""
    )


# ---------------------------------------------------------------- __cuda_array_interface__
def interface_library(driver: Driver) -> Library:
    """How objects with __cuda_array_interface__ are read."""

    def read(array: Any) -> tuple[Part, int]:
        said = array.__cuda_array_interface__
        pointer, read_only = said["data"]
        made_on = said.get("stream")
        device = driver.device_of(pointer)
        return (said["shape"], said["typestr"], said.get("strides"), read_only, made_on, device), pointer

    def look(array: Any) -> Seen:
        said = array.__cuda_array_interface__
        pointer, read_only = said["data"]
        dtype, shape = np.dtype(said["typestr"]), tuple(said["shape"])
        given = said.get("strides")
        steps = tuple(given) if given else tuple(n * dtype.itemsize for n in dense_strides(shape))
        fault = "it is masked; fill or copy it" if said.get("mask") is not None else ""
        if any(n % dtype.itemsize for n in steps):
            fault = "its strides are no whole elements; copy it"
        strides = tuple(n // dtype.itemsize for n in steps)
        made_on = said.get("stream")
        return Seen(shape, strides, dtype.name, driver.device_of(pointer), pointer, not read_only, fault, made_on)

    return Library("__cuda_array_interface__", read, look, partial(match_by_reading, read), None)
