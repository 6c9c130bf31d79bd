"""Promises checked on a GPU, and lies that a clip drops there. ``pytest -m gpu``; ``compute-sanitizer`` where it is."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from text.test_lies import CASES, READERS, WRITERS, D, T, V, draw_table, expect_rows, write_spec

import tilegen
from tilegen.errors import CallError
from tilegen.gpu.device import probe_device
from tilegen.pipeline import build, output_texts

DEVICE, WHY_NOT = probe_device()
SPECS = Path(__file__).parents[2] / "specs"
SIZES = {"T": 333, "PAGES": 64}
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(DEVICE is None, reason=f"no GPU: {WHY_NOT}")]


def cupy() -> Any:
    return importlib.import_module("cupy")


def append_arrays(slots: Any) -> list[Any]:
    """What kv_append takes."""
    xp = cupy()
    rows = [xp.ones((SIZES["T"], 1024), "uint16") for _ in range(2)]
    caches = [xp.zeros((SIZES["PAGES"] * 16, 1024), "uint16") for _ in range(2)]
    return [xp.asarray(slots), *rows, *caches]


def draw_slots() -> Any:
    slots = np.random.default_rng(1).permutation(SIZES["PAGES"] * 16)[: SIZES["T"]].astype("int32")
    slots[::7] = -1
    return slots


@pytest.fixture(scope="module")
def append() -> Any:
    return tilegen.compile(SPECS / "kv_append.yaml", check_values=True)


def test_a_promise_that_is_kept_launches(append: Any) -> None:
    slots = draw_slots()
    given = append_arrays(slots)
    append(*given)
    written = np.zeros(SIZES["PAGES"] * 16, bool)
    written[slots[slots >= 0]] = True
    assert (given[3].get()[:, 0].astype(bool) == written).all()


@pytest.mark.parametrize(("at", "value", "said"), [
    (332, 1024, "slots[332] is 1024 (element 332)"), (5, -2, "slots[5] is -2 (element 5)"), (200, None, "is {} too"),
])  # fmt: skip
def test_a_false_promise_launches_nothing(append: Any, at: int, value: int | None, said: str) -> None:
    slots = draw_slots()
    first = int(np.flatnonzero(slots[:100] >= 0)[3])
    slots[at] = slots[first] if value is None else value
    given = append_arrays(slots)
    with pytest.raises(CallError) as caught:
        append(*given)
    (found,) = caught.value.diagnostics
    assert found.code == "TG716" and said.format(slots[first]) in found.message
    assert not given[3].any() and not given[4].any()


def test_many_elements_give_the_same_first(append: Any) -> None:
    """Whatever order threads run in."""
    kernel = tilegen.compile(SPECS / "embedding.yaml", check_values=True, params={"V": 1000, "D": 64})
    xp, count = cupy(), 1 << 20
    ids = xp.zeros(count, "int32")
    ids[777_777:] = 1000
    weights, out = xp.zeros((1000, 64), "uint16"), xp.zeros((count, 64), "uint16")
    said = set()
    for _ in range(5):
        with pytest.raises(CallError) as caught:
            kernel(ids, weights, out)
        said.add(str(caught.value))
    assert len(said) == 1 and "ids[777777] is 1000" in said.pop()


def test_a_captured_stream_is_refused(append: Any) -> None:
    xp, given = cupy(), append_arrays(draw_slots())
    append.check(*given)
    stream = xp.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            with pytest.raises(CallError, match="TG717"):
                append(*given)
            append.check_values = False
            append(*given)
        finally:
            append.check_values = True
            graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
    assert given[3].any()


@pytest.mark.parametrize(("name", "idtype"), CASES)
def test_a_lie_is_dropped(name: str, idtype: str) -> None:
    """As g++'s kernel drops it (tests/text/test_lies.py), with cp.async, vectors and TMA of the GPU itself."""
    kernel, xp = tilegen.compile(write_spec(name, idtype)), cupy()
    is_reader = name in READERS
    ids, kept = draw_table(idtype, 0 if is_reader else -1)
    poison = np.full((T if is_reader else V, D), 0xA5A5A5A5, np.uint32)
    out = xp.asarray(poison).view("float32")
    if is_reader:
        table = np.arange(V * D, dtype=np.float32).reshape(V, D) + 1
        kernel(xp.asarray(ids), xp.asarray(table), out)
        wanted = expect_rows(name, ids, kept, table).astype("f4").view("u4")
    else:
        assert name in WRITERS
        ids = np.where(kept, np.where((np.arange(T) < 2 * V) & (ids >= 0), ids, -1), ids).astype(idtype)
        rows = np.arange(T * D, dtype=np.float32).reshape(T, D) + 1
        kernel(xp.asarray(ids), xp.asarray(rows), out)
        wanted = poison
        for t in np.flatnonzero(kept & (ids >= 0)):
            wanted[ids[t]] = rows[t].view("u4")
    np.testing.assert_array_equal(out.get().view("u4"), wanted)


@pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="no compute-sanitizer")
def test_no_lie_touches_what_is_outside() -> None:
    """memcheck sees each access of each kernel of the tests above."""
    tool = shutil.which("compute-sanitizer") or ""
    tests = f"{Path(__file__)}::test_a_lie_is_dropped"
    command = [
        tool,
        "--tool",
        "memcheck",
        "--error-exitcode",
        "9",
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-m",
        "gpu",
    ]
    done = subprocess.run([*command, tests], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_a_launcher_in_cpp_checks(tmp_path: Path) -> None:
    """It says which element, launches nothing, and goes on once the promise is kept."""
    for name, text in output_texts(build(SPECS / "kv_append.yaml")).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "all.cu").write_text(_PROGRAM, encoding="utf-8")
    flags = ("-DTILEGEN_CHECK_VALUES", "-std=c++17", "-arch=native")
    subprocess.run(["nvcc", *flags, "all.cu", "-o", "all"], cwd=tmp_path, check=True)
    done = subprocess.run([str(tmp_path / "all")], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["own", "slots", "5", "0", "0", "900", "1"]


_PROGRAM = """
#include "kv_append.cu"
#include "kv_append.h"
#include <cstdio>
int main()
{
    const int T = 8, PAGES = 2;
    int slots[T] = { 3, -1, 7, 0, -1, 7, 9, 1 };
    int *at;
    __nv_bfloat16 *k, *v, *K, *V;
    unsigned short seen = 0;
    cudaMalloc(&at, sizeof slots);
    cudaMalloc(&k, T * 2048);
    cudaMalloc(&v, T * 2048);
    cudaMalloc(&K, PAGES * 16 * 2048);
    cudaMalloc(&V, PAGES * 16 * 2048);
    cudaMemset(k, 1, T * 2048);
    cudaMemset(K, 0, PAGES * 16 * 2048);
    cudaMemcpy(at, slots, sizeof slots, cudaMemcpyHostToDevice);
    cudaError_t error = launch_kv_append(at, k, v, K, V, T, PAGES);
    std::printf("%s %s %llu\\n", error == TILEGEN_FALSE_PROMISE ? "own" : cudaGetErrorName(error),
        tilegen_false_promise.array, tilegen_false_promise.element);
    cudaDeviceSynchronize();
    cudaMemcpy(&seen, K + 3 * 1024, 2, cudaMemcpyDeviceToHost);
    std::printf("%d\\n", seen);
    slots[5] = 8;
    cudaMemcpy(at, slots, sizeof slots, cudaMemcpyHostToDevice);
    std::printf("%d\\n", (int)launch_kv_append(at, k, v, K, V, T, PAGES));
    cudaMemcpy(&seen, K + 3 * 1024, 2, cudaMemcpyDeviceToHost);
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    error = launch_kv_append(at, k, v, K, V, T, PAGES, stream);
    std::printf("%d %d\\n", (int)error, seen == 0x0101);
}
"""
