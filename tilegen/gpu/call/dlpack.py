"""Arrays by DLPack: through the methods that every such array has, or the C functions that some types offer.

Sources: dlpack.h (DLTensor, DLManagedTensorVersioned, DLPackExchangeAPI) and the Python specification of DLPack 1.3.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache, partial
from typing import Any

import numpy as np

from tilegen.gpu.call.arrays import Library, Match, Part, Seen, dense_strides, match_by_reading

# DLTensor: data, device (type, id), ndim, dtype (code, bits, lanes), shape, strides, byte_offset
_TENSOR = struct.Struct("=QiiiBBHQQQ")
_DELETER_AT, _FLAGS_AT, _VERSIONED_AT = 16, 24, 32  # of DLManagedTensorVersioned: the last is where its tensor lies
_READ_ONLY = 1
_GPU_TYPES = (2, 13)  # kDLCUDA, kDLCUDAManaged
_LEGACY_STREAM = 1  # how DLPack calls the stream that CUDA calls 0
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
_NAMES = {6: "bool", 10: "float8_e4m3fn", 12: "float8_e5m2", 14: "float8_e8m0fnu"}
# DLPackExchangeAPI, from which functions are taken by where their pointers lie
_API_MAJOR, _EXPORT_AT, _CURRENT_STREAM_AT = 1, 24, 48
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_bytes_type = cache(lambda count: ctypes.c_char * count)  # memory read so costs a tenth of ctypes.string_at


# ---------------------------------------------------------------- by __dlpack__
@cache
def dlpack_library() -> Library:
    """How objects with __dlpack__ are read."""
    return Library("DLPack", read_dlpack, look_at_dlpack, match_dlpack, None, syncs=sync_dlpack)


def read_dlpack(array: Any) -> tuple[Part, int]:
    """Device, dtype, shape and strides as they lie in memory, whether it may be written; and where the array lies."""
    if array.__dlpack_device__()[0] in _GPU_TYPES:
        return _read_capsule(array.__dlpack__(stream=_LEGACY_STREAM))
    return _read_capsule(array.__dlpack__())


def match_dlpack(array: Any) -> Match:
    """How an array's form is known again: one on a GPU is not asked for its device, which it gives anyway."""
    kind, (part, _) = type(array), read_dlpack(array)

    def match(other: Any) -> int:
        if type(other) is not kind:
            return 0
        found, pointer = _read_capsule(other.__dlpack__(stream=_LEGACY_STREAM))
        return pointer if found == part else 0

    return match


def look_at_dlpack(array: Any) -> Seen:
    """The array, named and counted as specs do."""
    return _seen(*read_dlpack(array))


def sync_dlpack(array: Any, stream: int) -> None:
    """Make the stream wait for what fills the array."""
    array.__dlpack__(stream=stream or _LEGACY_STREAM)


# ---------------------------------------------------------------- by __dlpack_c_exchange_api__
def exchange_library(cls: type) -> Library | None:
    """How arrays of a type are read that offers DLPack's C functions; None for a type that has none of this version.

    They name the library's current stream, where the launch then is, and read without waiting.
    """
    try:
        start = _capsule_pointer(cls.__dlpack_c_exchange_api__, b"dlpack_exchange_api")  # type: ignore[attr-defined]
    except (AttributeError, ValueError, ctypes.ArgumentError):
        return None
    major: int = ctypes.c_uint32.from_address(start).value
    return _load_exchange(start, hasattr(cls, "__dlpack__")) if major == _API_MAJOR else None


@cache
def _load_exchange(start: int, has_method: bool) -> Library:
    export = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(_word(start + _EXPORT_AT))
    current = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(
        _word(start + _CURRENT_STREAM_AT)
    )

    def read(array: Any) -> tuple[Part, int]:
        made = ctypes.c_void_p()
        if export(array, ctypes.byref(made)) or not made.value:  # it raises what the array's library says
            raise BufferError("its type's C function gives no tensor")
        try:
            part, pointer = _read_versioned(made.value)
            return (start, part), pointer  # with its library, which names the stream
        finally:
            _delete(made.value)

    def look(array: Any) -> Seen:
        (_, part), pointer = read(array)
        return _seen(part, pointer)

    def stream(device: int) -> int:
        found = ctypes.c_void_p()
        if current(_GPU_TYPES[0], device, ctypes.byref(found)):
            raise BufferError("its type's C function gives no stream")
        return found.value or 0

    syncs = sync_dlpack if has_method else None
    return Library("DLPack", read, look, partial(match_by_reading, read), stream, syncs=syncs)


def _word(at: int) -> int:
    word: int = ctypes.c_uint64.from_address(at).value
    return word


_deleter = cache(ctypes.PYFUNCTYPE(None, ctypes.c_void_p))


def _delete(start: int) -> None:
    address = _word(start + _DELETER_AT)
    if address:
        _deleter(address)(start)


# ---------------------------------------------------------------- what both give
def _read_capsule(capsule: Any) -> tuple[Part, int]:
    """The capsule is not consumed: its owner frees it when it goes, and the array itself keeps the memory."""
    try:
        return _read_tensor(_capsule_pointer(capsule, b"dltensor"), 0)
    except ValueError:
        return _read_versioned(_capsule_pointer(capsule, b"dltensor_versioned"))


def _read_versioned(start: int) -> tuple[Part, int]:
    return _read_tensor(start + _VERSIONED_AT, _word(start + _FLAGS_AT))


def _read_tensor(at: int, flags: int) -> tuple[Part, int]:
    raw = _bytes_type(_TENSOR.size).from_address(at).raw
    data, kind, device, rank, code, bits, lanes, shape, strides, offset = _TENSOR.unpack(raw)
    table = _bytes_type(8 * rank)
    extents = table.from_address(shape).raw
    steps = table.from_address(strides).raw if strides else b""
    return (kind, device, code, bits, lanes, extents, steps, flags & _READ_ONLY), data + offset


def _seen(part: Part, pointer: int) -> Seen:
    kind, device, code, bits, lanes, extents, steps, read_only = part
    shape = tuple(np.frombuffer(extents, np.int64).tolist())
    strides = tuple(np.frombuffer(steps, np.int64).tolist()) if steps else dense_strides(shape)
    dtype = _NAMES.get(code) or f"{_KINDS.get(code, f'type {code} of ')}{bits}" + (f"x{lanes}" if lanes > 1 else "")
    return Seen(shape, strides, dtype, device if kind in _GPU_TYPES else None, pointer, not read_only)
