"""The GPU room: compilers and cubins (no GPU needed), the device, and runs that compare physical images.

The only door to CuPy, NVRTC and nvcc. Nothing of them is imported or started before a function here needs it.
"""

from __future__ import annotations

from tilegen.gpu.compilers import CompileError, Compiler, find_compilers
from tilegen.gpu.cubins import Cubin, cache_dir, compile_cubin
from tilegen.gpu.device import Device, find_device, require_gpu
from tilegen.gpu.instruments import Difference, compare_images, fill_random, gather_image
from tilegen.gpu.run import POISON, GpuLaunch, Image, arguments_of, launch, load_function, run_guarded, run_images
from tilegen.gpu.tensor_maps import encode_tensor_maps
from tilegen.gpu.timing import (
    Stopwatch,
    allocate_bytes,
    copy_bytes,
    fill_bytes,
    free_memory,
    open_stopwatch,
    view_elems,
)

__all__ = [
    "POISON",
    "CompileError",
    "Compiler",
    "Cubin",
    "Device",
    "Difference",
    "GpuLaunch",
    "Image",
    "Stopwatch",
    "allocate_bytes",
    "arguments_of",
    "cache_dir",
    "compare_images",
    "compile_cubin",
    "copy_bytes",
    "encode_tensor_maps",
    "fill_bytes",
    "fill_random",
    "find_compilers",
    "find_device",
    "free_memory",
    "gather_image",
    "launch",
    "load_function",
    "open_stopwatch",
    "require_gpu",
    "run_guarded",
    "run_images",
    "view_elems",
]  # fmt: skip
