"""The GPU room: compilers and cubins (no GPU needed), the device, and runs that compare physical images.

The only door to CuPy, NVRTC and nvcc. Nothing of them is imported or started before a function here needs it.
"""

from __future__ import annotations

from tilegen.gpu.ceilings import Ceiling, count_trips, list_loops, prepare_ceiling
from tilegen.gpu.compilers import CompileError, Compiler, find_compilers
from tilegen.gpu.cubins import Cubin, cache_dir, compile_cubin, print_ptx
from tilegen.gpu.device import Device, find_device, find_fault, refuse_arch, require_gpu
from tilegen.gpu.instruments import (
    Difference,
    Factor,
    compare_images,
    fill_normal,
    fill_random,
    gather_image,
    multiply_rows,
)
from tilegen.gpu.run import (
    FAULT,
    POISON,
    GpuLaunch,
    Image,
    arguments_of,
    bind_launch,
    launch,
    load_function,
    read_launch,
    run_guarded,
    run_images,
)
from tilegen.gpu.serving import GpuAccess, GpuServer, can_serve
from tilegen.gpu.tensor_maps import encode_tensor_maps
from tilegen.gpu.timing import (
    Stopwatch,
    allocate_bytes,
    copy_bytes,
    fetch_bytes,
    fill_bytes,
    free_memory,
    keep_bytes,
    make_stopwatch,
    open_stopwatch,
    synchronize,
    upload_bytes,
    view_elems,
)

__all__ = [
    "FAULT",
    "POISON",
    "Ceiling",
    "CompileError",
    "Compiler",
    "Cubin",
    "Device",
    "Difference",
    "Factor",
    "GpuAccess",
    "GpuLaunch",
    "GpuServer",
    "Image",
    "Stopwatch",
    "allocate_bytes",
    "arguments_of",
    "bind_launch",
    "cache_dir",
    "can_serve",
    "compare_images",
    "compile_cubin",
    "copy_bytes",
    "count_trips",
    "encode_tensor_maps",
    "fetch_bytes",
    "fill_bytes",
    "fill_normal",
    "fill_random",
    "find_compilers",
    "find_device",
    "find_fault",
    "free_memory",
    "gather_image",
    "keep_bytes",
    "launch",
    "list_loops",
    "load_function",
    "make_stopwatch",
    "multiply_rows",
    "open_stopwatch",
    "prepare_ceiling",
    "print_ptx",
    "read_launch",
    "refuse_arch",
    "require_gpu",
    "run_guarded",
    "run_images",
    "synchronize",
    "upload_bytes",
    "view_elems",
]  # fmt: skip
