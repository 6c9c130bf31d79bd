"""The instruments' CUDA text: compiled for every arch, and run on the CPU by g++ against NumPy."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilegen.arch import ARCHES
from tilegen.arithmetic.formats import FLOAT_FORMATS
from tilegen.dtypes import DTYPES, FACTOR, numpy_dtype
from tilegen.gpu import compile_cubin, find_compilers
from tilegen.gpu.instruments import NAMES, SOURCE, describe_format

CTAS, THREADS = 3, 32
SHIM = """
#include <cmath>
#define __global__
#define __device__
#define __forceinline__ inline
struct dim3 { unsigned x, y, z; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;
static double cospi(double x) { return std::cos(3.141592653589793 * x); }
static double __dmul_rn(double x, double y) { return x * y; }
static double __dadd_rn(double x, double y) { return x + y; }
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
    command = ["g++", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-Werror", "i.cpp", "-o", "i.so"]
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


@pytest.mark.slow
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


@pytest.mark.parametrize("dtype", [*(name for name in FLOAT_FORMATS if name != FACTOR), "int8", "int32"])
def test_random_normal_elements(library: Any, dtype: str) -> None:
    """Each is a number of its type nearest to what float64 has for the same bits; all are normal."""
    drawn = {}
    for name in (dtype, "float64"):
        drawn[name] = np.zeros(20_000 * numpy_dtype(name).itemsize, np.uint8)
        size, digits, least = describe_format(name)
        seed = ctypes.c_ulonglong(3)
        run(library, "fill_normal", drawn[name], ctypes.c_longlong(20_000), seed, size, digits, least)
    found, exact = drawn[dtype].view(numpy_dtype(dtype)), drawn["float64"].view(np.float64)
    if DTYPES[dtype].kind == "int":
        assert np.array_equal(found, np.clip(np.rint(40 * exact), -127, 127).astype(numpy_dtype(dtype)))
    else:
        assert np.array_equal(found.view(np.uint8), exact.astype(numpy_dtype(dtype)).view(np.uint8))
    assert abs(exact.mean()) < 0.03 and abs(exact.std() - 1) < 0.03 and 3.5 < abs(exact).max() < 6
    assert abs(np.mean(abs(exact) < 0.6745) - 0.5) < 0.02  # half of what is normal


@pytest.mark.parametrize(
    ("a", "b"),
    [("bfloat16", "bfloat16"), ("float16", "float16"), ("float32", "float32"), ("float64", "float64"),
     ("float8_e4m3fn", "float8_e5m2"), ("int8", "int8")],
)  # fmt: skip
def test_rows_of_a_product(library: Any, a: str, b: str) -> None:
    """Rows 4 and 0 of a batch's second matrix by a shared one that lies column by column, against exact arithmetic."""
    rows, columns, depth = 2, 5, 33
    images = []
    for dtype, count, seed in ((a, 2 * 6 * depth, 1), (b, columns * depth, 2)):
        image = np.zeros(count * numpy_dtype(dtype).itemsize, np.uint8)
        run(library, "fill_normal", image, ctypes.c_longlong(count), ctypes.c_ulonglong(seed), *describe_format(dtype))
        images.append(image)
    x, y = (i.view(numpy_dtype(d)).astype(np.float64) for i, d in zip(images, (a, b), strict=True))
    sums = np.zeros(rows * columns)
    starts = np.array([(6 + 4) * depth, 6 * depth]), np.array([0, 0])
    long = ctypes.c_longlong
    run(library, "multiply_rows", *images, sums, *starts, long(rows * columns), long(columns), long(depth), long(1),
        long(1), long(depth), *describe_format(a), *describe_format(b))  # fmt: skip
    left, right = x.reshape(2, 6, depth)[1, [4, 0]], y.reshape(columns, depth)
    want = [[float(sum(p, start=Fraction(0))) for p in _terms(row, right)] for row in left]
    assert np.array_equal(sums.reshape(rows, columns), want)


def _terms(row: Any, columns: Any) -> list[list[Fraction]]:
    return [[Fraction(float(s)) * Fraction(float(t)) for s, t in zip(row, c, strict=True)] for c in columns]


def test_every_small_float_is_read(library: Any) -> None:
    """Each of the 256 numbers of 8 bits, and denormals of 16, times 1."""
    for dtype in ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"):
        kind = numpy_dtype(dtype)
        numbers = np.arange(256, dtype=np.uint8 if kind.itemsize == 1 else np.uint16).view(kind)
        numbers = numbers[np.isfinite(numbers.astype(np.float64))]
        one, sums = np.ones(1, np.int8), np.zeros(len(numbers))
        starts, long = (np.arange(len(numbers)), np.zeros(len(numbers), np.int64)), ctypes.c_longlong
        run(library, "multiply_rows", numbers.view(np.uint8), one.view(np.uint8), sums, *starts, long(len(numbers)),
            long(1), long(1), long(0), long(0), long(0), *describe_format(dtype), *describe_format("int8"))  # fmt: skip
        assert np.array_equal(sums, numbers.astype(np.float64)), dtype


def test_what_has_no_normal_elements() -> None:
    with pytest.raises(ValueError, match="bool has no random normal"):
        describe_format("bool")


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
