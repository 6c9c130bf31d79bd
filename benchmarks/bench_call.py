"""Host time of calling a kernel from Python: means over 10,000 calls, in chunks of 500.

python benchmarks/bench_call.py            with the GPU, and every library of arrays that is here; gpu.py keeps the rows
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
from tilegen.gpu.call import Kernel
from tilegen.gpu.call import libraries as readers
from tilegen.gpu.call.launch_memory import LaunchForm, make_memory, write_launch
from tilegen.gpu.driver import Driver, Function, load_driver

ROOT = Path(__file__).resolve().parent.parent
CALLS, CHUNK = 10_000, 500  # a chunk fits the driver's queue of launches, so that no call waits for the GPU
LIMITS_US = {"cupy": 5.0, "torch": 5.0, "DLPack": 15.0, "DLPack's C functions": 15.0, "__cuda_array_interface__": 15.0}
SHAPE = (64, 64)
SPEC = """kernel: bench_call
arch: sm_90
grid: {{bx: 1, by: 1}}
threads: 256
{params}
buffers:
  X: {{scope: global, dtype: float32, shape: [{m}, {n}]}}
  Y: {{scope: global, partial: true, dtype: float32, shape: [{m}, {n}]}}
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
    rows = list(measure_calls(parser.parse_args().pretend))
    return 1 if any(is_late(row) for row in rows) else 0


def measure_calls(pretend: bool) -> Iterator[dict[str, Any]]:
    """A row for every library and way of calling, as it is measured; that of no arrays is the driver's part of each."""
    kernels = {"fixed": make_kernel(FIXED, pretend), "runtime": make_kernel(RUNTIME, pretend)}
    for library, x, y, sync in libraries(pretend):
        for name, kernel in kernels.items():
            call = repeat(lambda x=x, y=y, kernel=kernel: kernel(x, y))
            yield say_row({"arrays": library, "sizes": name, "limit_us": LIMITS_US[library]} | time_calls(call, sync))
        if library not in ("cupy", "torch"):
            continue
        call = repeat_in_turn(kernels["fixed"], x, y)
        yield say_row({"arrays": library, "sizes": "fixed, other arrays each time"} | time_calls(call, sync))
        if pretend:
            continue
        call = repeat(lambda x=x: kernels["fixed"](x))
        yield say_row({"arrays": library, "sizes": "fixed, k(x) allocates"} | time_calls(call, sync))
        if library == "cupy":
            yield say_row({"arrays": "none", "sizes": "cuLaunchKernelEx in a loop of C"} | time_driver(x, y, sync))


def is_late(row: dict[str, Any]) -> bool:
    return bool(row["mean_us"] > row.get("limit_us", row["mean_us"]))


def say_row(row: dict[str, Any]) -> dict[str, Any]:
    limit = f" (at most {row['limit_us']:.0f})" if "limit_us" in row else ""
    print(f"{row['arrays']:26s} {row['sizes']:32s} mean {row['mean_us']:.2f} us, median chunk {row['median_us']:.2f}, "
          f"best chunk {row['best_us']:.2f}{limit}", flush=True)  # fmt: skip
    return row


def repeat(call: Callable[[], Any]) -> Callable[[int], None]:
    def calls(times: int) -> None:
        for _ in range(times):
            call()

    return calls


def repeat_in_turn(kernel: Any, x: Any, y: Any) -> Callable[[int], None]:
    """Calls over arrays that are never those of the call before."""

    def calls(times: int) -> None:
        for _ in range(times // 2):
            kernel(x, y)
            kernel(y, x)

    return calls


def time_calls(calls: Callable[[int], None], sync: Callable[[], Any]) -> dict[str, float]:
    """Microseconds a call: the mean of all, the median and the best of the chunks."""
    calls(CHUNK)
    sync()
    chunks = []
    gc.collect()
    gc.disable()
    for _ in range(CALLS // CHUNK):
        start = time.perf_counter()
        calls(CHUNK)
        chunks.append((time.perf_counter() - start) / CHUNK * 1e6)
        sync()
    gc.enable()
    took = {"mean_us": mean(chunks), "median_us": median(chunks), "best_us": min(chunks)}
    return {name: round(us, 3) for name, us in took.items()}


LOOP = """
void launch(int (*f)(const void *, void *, void **, void **), const void *config, void *kernel, void **args, int times)
{ while (times--) f(config, kernel, args, 0); }
"""


def time_driver(x: Any, y: Any, sync: Callable[[], Any]) -> dict[str, float]:
    """What the driver alone takes for such a launch, without Python."""
    form = LaunchForm((1, 1, 1), 256, 0, 2)
    memory = make_memory(form)
    write_launch(memory, 0, (x.data.ptr, y.data.ptr))
    arch = "sm_{}{}".format(*gpu.require_gpu().compute_capability)
    cubin = gpu.compile_cubin(tilegen.build(FIXED, arch).source, arch, "bench_call")
    driver, loop = load_driver(), compile_c(LOOP)
    handle = driver.load(cubin.image, "bench_call", 0, 0).handle
    return time_calls(lambda n: loop.launch(driver.launch, memory.config, handle, memory.arguments, n), sync)


def compile_c(text: str) -> Any:
    """A library of C functions."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "made.c"), Path(folder, "made.so")
        source.write_text(text)
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))


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
        if not pretend and name == "cupy":
            yield "DLPack's C functions", *offer_functions(x.data.ptr, y.data.ptr), sync
    if pretend:
        yield "DLPack's C functions", *offer_functions(1 << 40, 2 << 40), lambda: None
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


FUNCTIONS = """
#include <stdint.h>
#include <stdlib.h>
typedef struct { void *data; int32_t kind, device, ndim; uint8_t code, bits; uint16_t lanes; int64_t *shape, *strides;
                 uint64_t offset; } Tensor;
typedef struct Managed { uint32_t major, minor; void *manager; void (*deleter)(struct Managed *); uint64_t flags;
                         Tensor tensor; } Managed;
static int64_t shape[2] = {64, 64}, strides[2] = {64, 1};
static void *objects[2], *places[2];
static void delete(Managed *managed) { free(managed); }
static int export(void *object, Managed **out) {
    *out = malloc(sizeof(Managed));
    **out = (Managed){1, 3, 0, delete, 0, {places[object == objects[1]], 2, 0, 2, 2, 32, 1, shape, strides, 0}};
    return 0;
}
static int current(int kind, int device, void **out) { *out = 0; return 0; }
static const struct { uint32_t major, minor; void *older, *allocate, *export, *import, *view, *current; } api =
    {1, 3, 0, 0, export, 0, 0, current};
const void *functions(void) { return &api; }
void know(int k, void *object, void *place) { objects[k] = object; places[k] = place; }
"""


class Exported:
    """An array of no library whose type offers DLPack's C functions."""


def offer_functions(*places: int) -> list[Exported]:
    """Arrays of SHAPE at these two places."""
    library = compile_c(FUNCTIONS)
    library.functions.restype = ctypes.c_void_p
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    name = b"dlpack_exchange_api"
    Exported.__dlpack_c_exchange_api__, Exported.name = make(library.functions(), name, None), name
    arrays = [Exported() for _ in places]
    for k, (array, place) in enumerate(zip(arrays, places, strict=True)):
        library.know(k, ctypes.py_object(array), ctypes.c_void_p(place))
    return arrays


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
        loaded = compile_c(FAKE)
        kept["driver"] = PretendedDriver(loaded, loaded.cuLaunchKernelEx)
    return kept["driver"]


class PretendedDriver(Driver):
    def load(self, image: bytes, kernel: str, device: int, dynamic_bytes: int) -> Function:
        return Function(ctypes.c_void_p(1), ctypes.c_void_p(1), device)


def pretend_cupy(cupy: Any) -> tuple[Any, Any, Callable[[], Any]]:
    """Real arrays over memory that is nobody's; the current stream cannot be asked for without a GPU."""
    cuda = cupy.cuda
    readers.load_cupy().cuda.get_current_stream = lambda device: cuda.Stream.null

    def array(pointer: int) -> Any:
        memory = cuda.UnownedMemory(pointer, 1 << 20, None, 0)
        return cupy.ndarray(SHAPE, cupy.float32, cuda.MemoryPointer(memory, 0))

    return array(1 << 40), array(2 << 40), lambda: None


def pretend_torch(torch: Any) -> tuple[Any, Any, Callable[[], Any]]:
    """Real tensors in the CPU's memory, taken for device -1."""
    torch._C._cuda_getCurrentRawStream = abs
    look = readers.look_at_torch

    def look_as_on_gpu(tensor: Any) -> Any:
        seen = look(tensor)
        return type(seen)(seen.shape, seen.strides, seen.dtype, 0, seen.pointer)

    readers.look_at_torch = look_as_on_gpu
    return torch.zeros(SHAPE), torch.zeros(SHAPE), lambda: None


if __name__ == "__main__":
    sys.exit(main())
