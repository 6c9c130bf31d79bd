"""The GPU room: compilers and cubins (no GPU needed), the device, and runs that compare physical images.

The only door to CuPy, NVRTC and nvcc. Nothing of them is imported or started before a function here needs it.
"""

from __future__ import annotations

from tilegen.gpu.compilers import CompileError, Compiler, find_compilers
from tilegen.gpu.cubins import Cubin, cache_dir, compile_cubin
from tilegen.gpu.device import Device, find_device, require_gpu
from tilegen.gpu.run import POISON, Launch, launch, load_function, run_images
from tilegen.gpu.tensor_maps import encode_tensor_maps

__all__ = [
    "POISON", "CompileError", "Compiler", "Cubin", "Device", "Launch", "cache_dir", "compile_cubin",
    "encode_tensor_maps", "find_compilers",
    "find_device", "launch", "load_function", "require_gpu", "run_images",
]  # fmt: skip
