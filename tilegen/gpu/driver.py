"""The CUDA driver, called through ctypes: modules, functions and launches of every library's arrays, without CuPy.

A call of a kernel costs what this costs: the launch takes one struct, prepared before, instead of eleven numbers.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

from tilegen.errors import Diagnostic, EnvironmentLack

# Of cuda.h: enumerators that never change.
_MULTIPROCESSOR_COUNT = 16  # CUdevice_attribute, as the next two
_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR = 75, 76
_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # CUfunction_attribute
_POINTER_DEVICE_ORDINAL = 9  # CUpointer_attribute
NO_BINARY = 209  # CUDA_ERROR_NO_BINARY_FOR_GPU
NO_CONTEXT = (201, 400)  # CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE: another device's context is current
_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

# struct CUlaunchConfig: gridDim, blockDim, sharedMemBytes (7 ints and 4 bytes of padding), hStream, attrs, numAttrs
CONFIG_BYTES, CONFIG_STREAM_AT, CONFIG_ATTRIBUTES_AT = 56, 32, 40
_CLUSTER_DIMENSION, _PROGRAMMATIC_STREAM_SERIALIZATION = 4, 6  # CUlaunchAttributeID
ATTRIBUTE_BYTES = 72  # struct CUlaunchAttribute: an id, 4 bytes of padding, a value of 64 bytes


class DriverError(RuntimeError):
    """A function of the driver failed."""

    def __init__(self, what: str, status: int, name: str):
        self.status = status
        super().__init__(f"{what}: {name}")


@dataclass(frozen=True)
class Function:
    """A kernel loaded into a device's context."""

    handle: ctypes.c_void_p
    context: ctypes.c_void_p
    device: int


@dataclass(frozen=True)
class Driver:
    """``launch(config, function, arguments, extra)`` is cuLaunchKernelEx itself; it returns a status, 0 for success."""

    library: Any
    launch: Callable[..., int]

    def call(self, name: str, *args: Any) -> None:
        """A function of the driver; raises DriverError with CUDA's own name of what went wrong."""
        status = getattr(self.library, name)(*args)
        if status:
            raise DriverError(name, status, self.name_status(status))

    def name_status(self, status: int) -> str:
        """CUDA's name of a status."""
        text = ctypes.c_char_p()
        self.library.cuGetErrorName(status, ctypes.byref(text))
        return text.value.decode() if text.value else f"CUDA error {status}"

    def current_device(self) -> int:
        """The device of the current context, else the first."""
        device = ctypes.c_int()
        return device.value if self.library.cuCtxGetDevice(ctypes.byref(device)) == 0 else 0

    def compute_capability(self, device: int) -> tuple[int, int]:
        """The device's generation, e.g. (9, 0)."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(major), _COMPUTE_CAPABILITY_MAJOR, device)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), _COMPUTE_CAPABILITY_MINOR, device)
        return major.value, minor.value

    def count_devices(self) -> int:
        """The GPUs that this process sees."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def device_of(self, pointer: int) -> int | None:
        """The device whose memory a pointer leads to; None if CUDA does not know the pointer."""
        device = ctypes.c_int(-1)
        asked = (ctypes.byref(device), _POINTER_DEVICE_ORDINAL, ctypes.c_uint64(pointer))
        status = self.library.cuPointerGetAttribute(*asked)
        if status in NO_CONTEXT:  # a thread that has called nothing of CUDA before
            with self.in_context(self.primary_context(0)):
                status = self.library.cuPointerGetAttribute(*asked)
        return None if status or device.value < 0 else device.value

    def primary_context(self, device: int) -> ctypes.c_void_p:
        """The context of a device that CuPy and torch use too."""
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        return context

    def load(self, image: bytes, kernel: str, device: int, dynamic_bytes: int) -> Function:
        """A cubin's kernel in the device's primary context."""
        context, module, handle = self.primary_context(device), ctypes.c_void_p(), ctypes.c_void_p()
        with self.in_context(context):
            self.call("cuModuleLoadData", ctypes.byref(module), image)
            self.call("cuModuleGetFunction", ctypes.byref(handle), module, kernel.encode())
            if dynamic_bytes:  # beyond 48 KB a kernel gets shared memory only if it was promised
                self.call("cuFuncSetAttribute", handle, _MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic_bytes)
        return Function(handle, context, device)

    def count_resident(
        self, function: Function, threads: int, dynamic_bytes: int, cluster: tuple[int, int, int]
    ) -> int:
        """CTAs that the function's device holds at once, of whole clusters; 0 if none fits."""
        count, size = ctypes.c_int(), prod(cluster)
        with self.in_context(function.context):
            if size > 1:
                config = describe_clusters(threads, dynamic_bytes, cluster)
                self.call("cuOccupancyMaxActiveClusters", ctypes.byref(count), function.handle, config)
                return count.value * size
            sms = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(sms), _MULTIPROCESSOR_COUNT, function.device)
            asked = (function.handle, threads, ctypes.c_size_t(dynamic_bytes))
            self.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(count), *asked)
        return count.value * sms.value

    def allocate(self, size: int) -> int:
        """Memory of the current context, which ``free`` gives back."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer.value

    def free(self, pointer: int) -> None:
        """Give memory back, once the device is done with it."""
        self.call("cuMemFree_v2", ctypes.c_uint64(pointer))

    def fill(self, pointer: int, byte: int, size: int, stream: int) -> None:
        """Set bytes of memory, in the order of a stream."""
        self.call(
            "cuMemsetD8Async", ctypes.c_uint64(pointer), ctypes.c_ubyte(byte), ctypes.c_size_t(size),
            ctypes.c_void_p(stream),
        )  # fmt: skip

    def read(self, pointer: int, size: int, stream: int) -> bytes:
        """Bytes of memory, once all is done that a stream was given."""
        image = ctypes.create_string_buffer(size)
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))
        self.call("cuMemcpyDtoH_v2", image, ctypes.c_uint64(pointer), ctypes.c_size_t(size))
        return image.raw

    def is_capturing(self, stream: int) -> bool:
        """Whether launches on a stream become a part of a CUDA graph. Where CUDA cannot say, the launch fails too."""
        status = ctypes.c_int()
        failed = self.library.cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(status))
        return not failed and status.value != 0  # CU_STREAM_CAPTURE_STATUS_NONE

    @contextmanager
    def in_context(self, context: ctypes.c_void_p) -> Iterator[None]:
        """The context is current inside."""
        self.call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def describe_clusters(threads: int, dynamic_bytes: int, cluster: tuple[int, int, int]) -> ctypes.Array[ctypes.c_char]:
    """A CUlaunchConfig of one cluster, its one attribute behind it."""
    memory = (ctypes.c_char * (CONFIG_BYTES + ATTRIBUTE_BYTES))()
    attribute = ctypes.addressof(memory) + CONFIG_BYTES
    struct.pack_into("=7I4xQQI", memory, 0, *cluster, threads, 1, 1, dynamic_bytes, 0, attribute, 1)
    struct.pack_into("=I4x3I", memory, CONFIG_BYTES, _CLUSTER_DIMENSION, *cluster)
    return memory


def describe_overlap(
    grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_bytes: int, stream: int
) -> ctypes.Array[ctypes.c_char]:  # fmt: skip
    """A CUlaunchConfig of a launch that may start while the kernel before still runs, its one attribute behind it."""
    memory = (ctypes.c_char * (CONFIG_BYTES + ATTRIBUTE_BYTES))()
    attribute = ctypes.addressof(memory) + CONFIG_BYTES
    struct.pack_into("=7I4xQQI", memory, 0, *grid, *block, dynamic_bytes, stream, attribute, 1)
    write_overlap(memory, CONFIG_BYTES)
    return memory


def write_overlap(memory: ctypes.Array[Any], at: int) -> None:
    """The attribute of a launch that may start while the kernel before still runs, into some memory."""
    struct.pack_into("=I4xI", memory, at, _PROGRAMMATIC_STREAM_SERIALIZATION, 1)


@cache
def load_driver() -> Driver:
    """The driver of this machine. Raises EnvironmentLack (TG502) where there is none, or no GPU."""
    try:
        library = ctypes.CDLL(_LIBRARY)
        launch = library.cuLaunchKernelEx
    except (OSError, AttributeError) as e:
        why = "the driver is older than CUDA 11.8" if isinstance(e, AttributeError) else f"no {_LIBRARY}"
        raise _lack(why) from None
    driver, count = Driver(library, launch), ctypes.c_int()
    try:
        driver.call("cuInit", 0)
        driver.call("cuDeviceGetCount", ctypes.byref(count))
    except DriverError as e:
        raise _lack(str(e)) from None
    if not count.value:
        raise _lack("CUDA sees no device")
    return driver


def _lack(why: str) -> EnvironmentLack:
    message = f"calling a kernel needs an NVIDIA GPU: {why}"
    return EnvironmentLack(Diagnostic("TG502", message, hint="`tilegen doctor` lists what is here"))
