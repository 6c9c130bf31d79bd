"""TMA descriptors: the host encodes each from what the manifest says of it and from the array's address.

The driver does it (cuTensorMapEncodeTiled of libcuda, which comes with every NVIDIA driver), on the host alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.errors import Diagnostic, EnvironmentLack

DESCRIPTOR_BYTES = 128
_ALIGN_BYTES = 64
# cuda.h: CUtensorMapDataType (unsigned integers, since TMA moves bits, and the one that rounds float32 to tf32),
# CUtensorMapSwizzle, CUtensorMapL2promotion.
_DATA_TYPES, _TFLOAT32 = {1: 0, 2: 1, 4: 2, 8: 4}, 11
_COMPUTED = {  # those that TMA computes with
    "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_NO_INTERLEAVE, _PROMOTE_128_BYTES, _FILL_WITH_ZEROS = 0, 2, 0


def encode_tensor_maps(launch_info: Mapping[str, Any], pointers: Mapping[str, int]) -> list[NDArray[np.uint8]]:
    """The 128 bytes of each descriptor that a kernel takes, in the order of its arguments.

    ``launch_info``: what ``render.launch_info`` or a manifest says (``args`` of kind tensor_map); ``pointers``: the
    device address of each array by name. Raises EnvironmentLack (TG504) without a driver that knows descriptors,
    ValueError for arguments that it refuses.
    """
    maps = [arg for arg in launch_info["args"] if arg["kind"] == "tensor_map"]
    return [encode_tensor_map(arg, pointers[arg["array"]]) for arg in maps]


def encode_tensor_map(arg: Mapping[str, Any], pointer: int) -> NDArray[np.uint8]:
    """One descriptor: ``arg`` has dims, strides_bytes, box and element_strides, the innermost dimension first."""
    rank, descriptor = len(arg["dims"]), _aligned_bytes(DESCRIPTOR_BYTES, _ALIGN_BYTES)
    strides = [*arg["strides_bytes"], 0]  # one for each dimension but the innermost; the driver reads rank - 1 of them
    status = _load_encoder()(
        ctypes.c_void_p(descriptor.ctypes.data), _type_of(arg), rank, ctypes.c_void_p(pointer),
        (ctypes.c_uint64 * rank)(*arg["dims"]), (ctypes.c_uint64 * rank)(*strides),
        (ctypes.c_uint32 * rank)(*arg["box"]), (ctypes.c_uint32 * rank)(*arg["element_strides"]),
        _NO_INTERLEAVE, _SWIZZLES[arg["swizzle_bytes"]], _PROMOTE_128_BYTES, _FILL_WITH_ZEROS,
    )  # fmt: skip
    if status:
        raise ValueError(f"cuTensorMapEncodeTiled returns {status} for {dict(arg)} at address {pointer:#x}")
    return descriptor


def _type_of(arg: Mapping[str, Any]) -> int:
    if "type" in arg:
        return _COMPUTED[arg["type"]]
    return _TFLOAT32 if "rounds_to" in arg else _DATA_TYPES[arg["elem_bytes"]]


def _aligned_bytes(size: int, align: int) -> NDArray[np.uint8]:
    whole = np.zeros(size + align, np.uint8)
    start = -whole.ctypes.data % align
    return whole[start : start + size]


@cache
def _load_encoder() -> Any:
    """The driver's function; raises EnvironmentLack where there is none."""
    try:
        encode = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
    except (OSError, AttributeError) as error:
        message = f"TMA descriptors need the NVIDIA driver of CUDA 12 or later: {error}"
        raise EnvironmentLack(Diagnostic("TG504", message, hint="`tilegen doctor` lists what is here")) from None
    encode.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p, *[ctypes.c_void_p] * 4,
                       *[ctypes.c_int] * 4]  # fmt: skip
    encode.restype = ctypes.c_int
    return encode
