"""Arrays of any library, through __cuda_array_interface__ or DLPack.

Sources: "CUDA Array Interface (Version 3)" in Numba's manual; dlpack.h (DLTensor, DLManagedTensorVersioned) and the
Python specification of the DLPack protocol.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from typing import Any

import numpy as np

from tilegen.gpu.call.arrays import Library, Part, Seen, dense_strides
from tilegen.gpu.driver import Driver

# ---- __cuda_array_interface__


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
