"""Libraries of arrays: how each is read, by the type of its arrays.

Sources: "CUDA Array Interface (Version 3)" in Numba's manual; dlpack.h (DLTensor, DLManagedTensorVersioned) and the
Python specification of the DLPack protocol.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from tilegen.errors import CallError, Diagnostic
from tilegen.gpu.call.arrays import Library, Part, Seen, dense_strides
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
    return dlpack_library() if hasattr(cls, "__dlpack__") else None


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


# ---------------------------------------------------------------- cuPy's arrays
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

    return Library("torch", read_torch, look_at_torch, raw or stream, allocate)


def read_torch(tensor: Any) -> tuple[Part, int]:
    """Shape, dtype, device and strides of a tensor, and where it lies."""
    form = tensor.is_contiguous() or (tensor.stride(), tensor.is_neg())
    return (tensor.shape, tensor.dtype, tensor.get_device(), form), tensor.data_ptr()


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

    return Library("__cuda_array_interface__", read, look, None)


# ---- DLPack
# DLTensor: data, device (type, id), ndim, dtype (code, bits, lanes), shape, strides, byte_offset
_TENSOR = struct.Struct("=QiiiBBHQQQ")
_VERSIONED_AT = 32  # version, manager_ctx, deleter and flags lie before the tensor
_FLAGS_AT, _READ_ONLY = 24, 1
_GPU_TYPES = (2, 13)  # kDLCUDA, kDLCUDAManaged
_LEGACY_STREAM = 1  # how DLPack calls the stream that CUDA calls 0
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
_NAMES = {6: "bool", 10: "float8_e4m3fn", 12: "float8_e5m2"}
_api = ctypes.pythonapi
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_bytes_type = cache(lambda count: ctypes.c_char * count)  # memory read so costs a tenth of ctypes.string_at


def dlpack_library() -> Library:
    """How objects with __dlpack__ are read."""
    return Library("DLPack", read_dlpack, look_at_dlpack, None, syncs=sync_dlpack)


def read_dlpack(array: Any) -> tuple[Part, int]:
    """Device, dtype, shape and strides as they lie in memory, whether it may be written; and where the array lies.

    The capsule is not consumed: its owner frees it when it goes, and the array itself keeps the memory.
    """
    if array.__dlpack_device__()[0] in _GPU_TYPES:
        capsule = array.__dlpack__(stream=_LEGACY_STREAM)
    else:
        capsule = array.__dlpack__()
    flags = 0
    try:
        at = _capsule_pointer(capsule, b"dltensor")
    except ValueError:
        start = _capsule_pointer(capsule, b"dltensor_versioned")
        flags = ctypes.c_uint64.from_address(start + _FLAGS_AT).value
        at = start + _VERSIONED_AT
    raw = _bytes_type(_TENSOR.size).from_address(at).raw
    data, kind, device, rank, code, bits, lanes, shape, strides, offset = _TENSOR.unpack(raw)
    table = _bytes_type(8 * rank)
    extents = table.from_address(shape).raw
    steps = table.from_address(strides).raw if strides else b""
    return (kind, device, code, bits, lanes, extents, steps, flags & _READ_ONLY), data + offset


def look_at_dlpack(array: Any) -> Seen:
    """The array, named and counted as specs do."""
    (kind, device, code, bits, lanes, extents, steps, read_only), pointer = read_dlpack(array)
    shape = tuple(np.frombuffer(extents, np.int64).tolist())
    strides = tuple(np.frombuffer(steps, np.int64).tolist()) if steps else dense_strides(shape)
    dtype = _NAMES.get(code) or f"{_KINDS.get(code, f'type {code} of ')}{bits}" + (f"x{lanes}" if lanes > 1 else "")
    return Seen(shape, strides, dtype, device if kind in _GPU_TYPES else None, pointer, not read_only)


def sync_dlpack(array: Any, stream: int) -> None:
    """Make the stream wait for what fills the array."""
    array.__dlpack__(stream=stream or _LEGACY_STREAM)
