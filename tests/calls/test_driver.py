"""The driver's functions as they are called, against cuda.h: a library of their names notes what reaches it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nvcc.compile import requires_nvcc
from specs.test_launchers import cuda_includes

from tilegen.errors import EnvironmentLack
from tilegen.gpu import driver
from tilegen.gpu.call.launch_memory import LaunchForm, as_argument, make_memory, write_launch, write_params
from tilegen.gpu.driver import ATTRIBUTE_BYTES, CONFIG_BYTES, CONFIG_STREAM_AT, Driver, DriverError, load_driver

LIBRARY = """
#include <cuda.h>
#include <string.h>
static long long noted[32];
static int context, devices = 2;
long long *notes(void) { return noted; }
int depth(void) { return context; }
void set_devices(int n) { devices = n; }
CUresult cuInit(unsigned flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *n) { *n = devices; return CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice *d) { *d = 1; return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d) {
    *v = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
         : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 5
         : a == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 132 : -1;
    return d == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { *c = (CUcontext)(0x1000000000 + d); return CUDA_SUCCESS; }
CUresult cuCtxPushCurrent(CUcontext c) { context += c == (CUcontext)0x1000000001; return CUDA_SUCCESS; }
CUresult cuCtxPopCurrent(CUcontext *c) { *c = 0; --context; return CUDA_SUCCESS; }
CUresult cuModuleLoadData(CUmodule *m, const void *image) {
    *m = (CUmodule)0x2000000000;
    return context != 1 ? CUDA_ERROR_INVALID_CONTEXT : memcmp(image, "\\177ELF\\0x", 6) ? CUDA_ERROR_INVALID_IMAGE : 0;
}
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
    *f = (CUfunction)0x3000000000;
    return m != (CUmodule)0x2000000000 || strcmp(name, "kernel") ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value) {
    noted[20] = f == (CUfunction)0x3000000000 && a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? value : -1;
    return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute a, CUdeviceptr p) {
    *(int *)data = (int)(p >> 40);
    return a == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL && p >> 40 < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorName(CUresult e, const char **name) {
    *name = e == CUDA_ERROR_NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : 0;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
    long long seen[] = {
        c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes,
        (long long)c->hStream, (long long)c->attrs, c->numAttrs, (long long)f, *(long long *)params[0],
        *(long long *)params[1], *(int *)params[2], (long long)(*(float *)params[3] * 4), (long long)extra,
        sizeof(CUlaunchConfig), (char *)&c->hStream - (char *)c, c->numAttrs && c->attrs->id ==
        CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION && c->attrs->value.programmaticStreamSerializationAllowed,
        sizeof(CUlaunchAttribute),
    };
    memcpy(noted, seen, sizeof seen);
    return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int threads, size_t bytes) {
    *n = context == 1 && f == (CUfunction)0x3000000000 && threads == 96 && bytes == 40000 ? 3 : -1;
    return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveClusters(int *n, CUfunction f, const CUlaunchConfig *c) {
    const CUlaunchAttribute *a = c->attrs;
    int is_right = c->gridDimX == 4 && c->gridDimY == 2 && c->gridDimZ == 1 && c->blockDimX == 96 && c->blockDimY == 1
        && c->blockDimZ == 1 && c->sharedMemBytes == 40000 && c->numAttrs == 1 && c->hStream == 0
        && a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && a->value.clusterDim.x == 4 && a->value.clusterDim.y == 2
        && a->value.clusterDim.z == 1;
    *n = context == 1 && f == (CUfunction)0x3000000000 && is_right ? 16 : -1;
    return CUDA_SUCCESS;
}
"""
pytestmark = [requires_nvcc, pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(LIBRARY)
    command = ["gcc", "-shared", "-fPIC", *cuda_includes(folder), "driver.c", "-o", "libcuda.so"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "libcuda.so"


@pytest.fixture
def noting(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.setattr(driver, "_LIBRARY", str(path))
    load_driver.cache_clear()
    yield load_driver()
    load_driver.cache_clear()


def test_a_launch_is_what_cuda_h_says(noting: Driver) -> None:
    form = LaunchForm((3, 4, 5), 128, 65536, 2, (("i", -7), ("f", None)))
    memory = make_memory(form)
    write_launch(memory, 0x5000000000, (0x6000000001, 0xF000000000000002))
    write_params(form, memory, [0.25])
    function = noting.load(b"\x7fELF\0x", "kernel", 1, 65536)
    assert noting.launch(memory.config, as_argument(function.handle), memory.arguments, None) == 0
    noting.library.notes.restype = ctypes.POINTER(ctypes.c_int64)
    seen = noting.library.notes()[:21]
    signed = 0xF000000000000002 - (1 << 64)
    assert seen[:10] == [3, 4, 5, 128, 1, 1, 65536, 0x5000000000, 0, 0]
    assert seen[10:16] == [0x3000000000, 0x6000000001, signed, -7, 1, 0]
    assert seen[16:18] == [CONFIG_BYTES, CONFIG_STREAM_AT]
    assert seen[20] == 65536, "dynamic shared memory was asked for"


@pytest.mark.parametrize("maps", [0, 2])
def test_a_launch_that_overlaps_the_kernel_before(noting: Driver, maps: int) -> None:
    form = LaunchForm((3, 4, 5), 128, 0, 2, (("i", -7), ("f", 0.25)), maps, overlaps=True)
    memory = make_memory(form)
    write_launch(memory, 5, (8, 9))
    function = noting.load(b"\x7fELF\0x", "kernel", 1, 0)
    assert noting.launch(memory.config, as_argument(function.handle), memory.arguments, None) == 0
    noting.library.notes.restype = ctypes.POINTER(ctypes.c_int64)
    seen = noting.library.notes()[:20]
    assert seen[:8] == [3, 4, 5, 128, 1, 1, 0, 5] and seen[9] == 1 and seen[11:15] == [8, 9, -7, 1]
    assert seen[18] == 1, "programmatic stream serialization is allowed"
    assert seen[19] == ATTRIBUTE_BYTES


def test_devices(noting: Driver) -> None:
    assert noting.current_device() == 1
    assert noting.compute_capability(1) == (9, 5)
    assert [noting.device_of(p) for p in (5, (1 << 40) + 7, 7 << 40)] == [0, 1, None]


def test_ctas_that_fit_at_once(noting: Driver) -> None:
    function = noting.load(b"\x7fELF\0x", "kernel", 1, 40000)
    assert noting.count_resident(function, 96, 40000, (1, 1, 1)) == 3 * 132
    assert noting.count_resident(function, 96, 40000, (4, 2, 1)) == 16 * 8, "CTAs of whole clusters"


def test_what_fails_has_cudas_name_and_leaves_no_context(noting: Driver) -> None:
    with pytest.raises(DriverError, match="cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"):
        noting.load(b"\x7fELF\0x", "absent", 1, 0)
    with pytest.raises(DriverError, match="cuModuleLoadData: CUDA error 200"):
        noting.load(b"text", "kernel", 1, 0)
    assert noting.library.depth() == 0


def test_a_driver_without_a_gpu(path: Path, monkeypatch: pytest.MonkeyPatch, noting: Driver) -> None:
    noting.library.set_devices(0)
    load_driver.cache_clear()
    with pytest.raises(EnvironmentLack, match=r"TG502: .*: CUDA sees no device"):
        load_driver()
    noting.library.set_devices(2)


def test_a_driver_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        cuInit: Any = None

    load_driver.cache_clear()
    monkeypatch.setattr(driver.ctypes, "CDLL", lambda _: Old())
    with pytest.raises(EnvironmentLack, match=r"TG502: .* older than CUDA 11.8"):
        load_driver()
    load_driver.cache_clear()
