"""Host time of calling a kernel from Python: means over 10,000 calls, in chunks of 500.

python benchmarks/bench_call.py            with the GPU, and every library of arrays that is here
python benchmarks/bench_call.py --pretend  without one: a C function that returns at once stands for cuLaunchKernelEx,
                                           and the arrays lie nowhere; what is left is the time of Python's side

Exits with 1 if a mean is above its limit.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any

import tilegen
from tilegen import calling, gpu
from tilegen.gpu.call import Kernel, cupy_arrays, torch_tensors
from tilegen.gpu.driver import Driver, Function

ROOT = Path(__file__).resolve().parent.parent
CALLS, CHUNK = 10_000, 500  # a chunk fits the driver's queue of launches, so that no call waits for the GPU
LIMITS_US = {"cupy": 5.0, "torch": 5.0, "DLPack": 15.0, "__cuda_array_interface__": 15.0}
SHAPE = (64, 64)
SPEC = """kernel: bench_call
arch: sm_90
grid: {{bx: 1, by: 1}}
threads: 256
{params}
buffers:
  X: {{scope: global, dtype: float32, shape: [{m}, {n}]}}
  Y: {{scope: global, dtype: float32, shape: [{m}, {n}]}}
  t: {{scope: shared, dtype: float32, shape: [64, 64]}}
ops:
  - copy: {{src: "X[0:64, 0:64]", dst: t, edge: clip}}
  - sync: cta
  - copy: {{src: t, dst: "Y[0:64, 0:64]", edge: clip}}
"""
FIXED = SPEC.format(params="", m=64, n=64)
RUNTIME = SPEC.format(params="params: {M: {default: 64, max: 1024}, N: {default: 64, max: 1024}}", m="M", n="N")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pretend", action="store_true", help="no GPU: time Python's side alone")
    pretend = parser.parse_args().pretend
    kernels = {"fixed": make_kernel(FIXED, pretend), "runtime": make_kernel(RUNTIME, pretend)}
    late = []
    for library, x, y, sync in libraries(pretend):
        for name, kernel in kernels.items():
            took = time_calls(lambda x=x, y=y, kernel=kernel: kernel(x, y), sync)
            limit = LIMITS_US[library]
            late += [library] if took["mean"] > limit else []
            print(f"{library:26s} {name:8s} mean {took['mean']:.2f} us, median chunk {took['median']:.2f}, "
                  f"best chunk {took['best']:.2f} (at most {limit:.0f})", flush=True)  # fmt: skip
        if not pretend and library in ("cupy", "torch"):
            took = time_calls(lambda x=x: kernels["fixed"](x), sync)
            print(f"{library:26s} k(x)     mean {took['mean']:.2f} us, with the allocation of its output")
    return 1 if late else 0


def time_calls(call: Callable[[], Any], sync: Callable[[], Any]) -> dict[str, float]:
    """Microseconds a call: the mean of all, the median and the best of the chunks."""
    for _ in range(CHUNK):
        call()
    sync()
    chunks = []
    gc.collect()
    gc.disable()
    for _ in range(CALLS // CHUNK):
        start = time.perf_counter()
        for _ in range(CHUNK):
            call()
        chunks.append((time.perf_counter() - start) / CHUNK * 1e6)
        sync()
    gc.enable()
    return {"mean": mean(chunks), "median": median(chunks), "best": min(chunks)}


# ---------------------------------------------------------------- with a GPU
def make_kernel(spec: str, pretend: bool) -> Kernel:
    if not pretend:
        return tilegen.compile(spec)
    built = tilegen.build(spec)
    cubin = gpu.Cubin(built.plan.name, built.plan.arch, "none", b"", "", 0, 0, 0, 0, 0)
    return Kernel(calling.terms_of(built.spec, built.plan), cubin, built.source, pretended_driver)


def libraries(pretend: bool) -> Iterator[tuple[str, Any, Any, Callable[[], Any]]]:
    """Name, two arrays, and what waits for the GPU, of every library that is here."""
    makers = {"cupy": pretend_cupy, "torch": pretend_torch} if pretend else {"cupy": real_cupy, "torch": real_torch}
    for name, make in makers.items():
        try:
            module = importlib.import_module(name)
        except ImportError:
            print(f"{name} is not here")
            continue
        x, y, sync = make(module)
        yield name, x, y, sync
        if not pretend:
            yield "__cuda_array_interface__", Interface(x), Interface(y), sync
            yield "DLPack", Exchange(x), Exchange(y), sync
    if pretend:
        yield "__cuda_array_interface__", Interface(Nowhere(1 << 40)), Interface(Nowhere(2 << 40)), lambda: None


def real_cupy(cupy: Any) -> tuple[Any, Any, Callable[[], Any]]:
    return cupy.zeros(SHAPE, "float32"), cupy.zeros(SHAPE, "float32"), cupy.cuda.runtime.deviceSynchronize


def real_torch(torch: Any) -> tuple[Any, Any, Callable[[], Any]]:
    return torch.zeros(SHAPE, device="cuda"), torch.zeros(SHAPE, device="cuda"), torch.cuda.synchronize


class Interface:
    """An array of no library: what Numba's and others' arrays show, made anew at each look, as theirs is."""

    def __init__(self, array: Any):
        self.array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        said = self.array.__cuda_array_interface__
        return {"shape": said["shape"], "typestr": said["typestr"], "data": said["data"], "version": 3}


class Exchange:
    """An array of no library that speaks DLPack alone."""

    def __init__(self, array: Any):
        self.array = array

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return tuple(self.array.__dlpack_device__())


# ---------------------------------------------------------------- without one
FAKE = """
int cuLaunchKernelEx(const void *c, void *f, void **p, void **e) { return 0; }
int cuPointerGetAttribute(int *out, int what, unsigned long long p) { *out = 0; return 0; }
"""


class Nowhere:
    def __init__(self, pointer: int):
        data = (pointer, False)
        self.__cuda_array_interface__ = {"shape": SHAPE, "typestr": "<f4", "data": data, "strides": None, "version": 3}


def pretended_driver(kept: dict[str, Driver] = {}) -> Driver:  # noqa: B006 - one for all
    if not kept:
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "fake.c"), Path(folder, "fake.so")
            source.write_text(FAKE)
            subprocess.run(["gcc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
            loaded = ctypes.CDLL(str(library))
        kept["driver"] = PretendedDriver(loaded, loaded.cuLaunchKernelEx)
    return kept["driver"]


class PretendedDriver(Driver):
    def load(self, image: bytes, kernel: str, device: int, dynamic_bytes: int) -> Function:
        return Function(ctypes.c_void_p(1), ctypes.c_void_p(1), device)


def pretend_cupy(cupy: Any) -> tuple[Any, Any, Callable[[], Any]]:
    """Real arrays over memory that is nobody's; the current stream cannot be asked for without a GPU."""
    cuda = cupy.cuda
    cupy_arrays.load_cupy().cuda.get_current_stream = lambda device: cuda.Stream.null

    def array(pointer: int) -> Any:
        memory = cuda.UnownedMemory(pointer, 1 << 20, None, 0)
        return cupy.ndarray(SHAPE, cupy.float32, cuda.MemoryPointer(memory, 0))

    return array(1 << 40), array(2 << 40), lambda: None


def pretend_torch(torch: Any) -> tuple[Any, Any, Callable[[], Any]]:
    """Real tensors in the CPU's memory, taken for device -1."""
    torch._C._cuda_getCurrentRawStream = abs
    look = torch_tensors.look_at_torch

    def look_as_on_gpu(tensor: Any) -> Any:
        seen = look(tensor)
        return type(seen)(seen.shape, seen.strides, seen.dtype, 0, seen.pointer)

    torch_tensors.look_at_torch = look_as_on_gpu
    return torch.zeros(SHAPE), torch.zeros(SHAPE), lambda: None


if __name__ == "__main__":
    sys.exit(main())
