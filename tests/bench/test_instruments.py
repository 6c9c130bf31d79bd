"""The instruments' CUDA text: compiled for every arch, and run on the CPU by g++ against NumPy."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilegen.arch import ARCHES
from tilegen.gpu import compile_cubin, find_compilers
from tilegen.gpu.instruments import NAMES, SOURCE

CTAS, THREADS = 3, 32
SHIM = """
#define __global__
#define __device__
#define __forceinline__ inline
struct dim3 { unsigned x, y, z; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;
static long long clock64() { static long long now; return now += 100; }
static void atomicAdd(unsigned long long *at, unsigned long long n) { *at += n; }
static void atomicMin(unsigned long long *at, unsigned long long n) { if (n < *at) *at = n; }
extern "C" void place(unsigned cta, unsigned ctas, unsigned thread, unsigned threads)
{
    blockIdx.x = cta, gridDim.x = ctas, threadIdx.x = thread, blockDim.x = threads;
}
"""
PERMUTES = [((5, 7), (1, 0), 4), ((3, 4, 5), (2, 0, 1), 2), ((9,), (0,), 1), ((2, 3, 1, 4), (3, 2, 1, 0), 16)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder = tmp_path_factory.mktemp("instruments")
    text = SHIM + SOURCE.read_text(encoding="utf-8")
    (folder / "i.cpp").write_text(text, encoding="utf-8")
    command = ["g++", "-O1", "-fPIC", "-shared", "-Wall", "-Werror", "i.cpp", "-o", "i.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "i.so"))


def run(library: Any, name: str, *arguments: Any) -> None:
    """Each thread of each CTA, one after another."""
    raw = [a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else a for a in arguments]
    for cta in range(CTAS):
        for thread in range(THREADS):
            library.place(cta, CTAS, thread, THREADS)
            getattr(library, name)(*raw)


FIRST, *OTHERS = ("sm_90", *(a for a in ARCHES if a != "sm_90"))


@pytest.mark.parametrize("arch", [FIRST, *(pytest.param(arch, marks=pytest.mark.slow) for arch in OTHERS)])
def test_the_instruments_compile(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not find_compilers():
        pytest.skip("neither NVRTC nor nvcc is here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in NAMES:
        cubin = compile_cubin(SOURCE.read_text(encoding="utf-8"), arch, name)
        assert (cubin.stack_bytes, cubin.spill_store_bytes) == (0, 0)


@pytest.mark.parametrize(("shape", "axes", "size"), PERMUTES)
def test_the_plain_loop_is_a_transpose(library: Any, shape: tuple[int, ...], axes: tuple[int, ...], size: int) -> None:
    x = np.random.default_rng(1).integers(0, 256, (*shape, size), np.uint8)
    want = np.ascontiguousarray(x.transpose(*axes, len(shape)))
    strides = [s // (size * x.itemsize) for s in x.strides[:-1]]
    sizes, steps = np.array(want.shape[:-1]), np.array([strides[a] for a in axes])
    got = np.zeros(want.size, np.uint8)
    run(library, "gather_bytes", x, got, sizes, steps, len(shape), size, ctypes.c_longlong(got.size))
    assert np.array_equal(got, want.reshape(-1))


def test_random_bytes_depend_on_the_seed_and_fill_all(library: Any) -> None:
    images = []
    for seed in (1, 2, 1):
        image = np.zeros(4099, np.uint8)
        run(library, "fill_random", image, ctypes.c_longlong(image.size), ctypes.c_ulonglong(seed), 0xFF)
        images.append(image)
    assert np.array_equal(images[0], images[2]) and (images[0] != images[1]).mean() > 0.95
    counts = np.bincount(images[0], minlength=256)
    assert counts.min() > 0 and counts.max() < 50  # 16 of each on average
    bools = np.full(100, 7, np.uint8)
    run(library, "fill_random", bools, ctypes.c_longlong(100), ctypes.c_ulonglong(1), 1)
    assert set(bools) == {0, 1}


@pytest.mark.parametrize("wrong", [[], [0], [998, 17, 500]])
def test_differences_are_counted_and_the_first_is_found(library: Any, wrong: list[int]) -> None:
    a = np.random.default_rng(2).integers(0, 256, 999, np.uint8)
    b = a.copy()
    b[wrong] ^= 4
    found = np.array([0, 999], np.uint64)
    run(library, "compare_bytes", a, b, ctypes.c_longlong(999), found)
    assert list(found) == [len(wrong), min(wrong, default=999)]


def test_reading_through_reads_all(library: Any) -> None:
    """Each thread keeps its sum if it is the one asked for: the sums of all threads are those of the words."""
    words = np.random.default_rng(3).integers(0, 1000, 777, np.uint32)
    sums = {int(words[first :: CTAS * THREADS].sum()) for first in range(CTAS * THREADS)}
    for sum_ in sorted(sums)[:5]:
        kept = np.zeros(1, np.uint32)
        run(library, "read_through", words, ctypes.c_longlong(777), ctypes.c_uint(sum_), kept)
        assert kept[0] == sum_


def test_a_hold_ends(library: Any) -> None:
    library.hold(ctypes.c_longlong(10_000))
