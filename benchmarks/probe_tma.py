"""What TMA does with rows shorter than a swizzle, at the ends of rows it stores, and where boxes begin amid 16 bytes;
which strides the driver takes.

    python benchmarks/probe_tma.py [--out FILE]

Needs CuPy and a device of compute capability 9.0 or later; takes seconds. docs/access-model.md says what came out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy
import numpy as np
from count_cp_async import describe_device
from gpu_files import put_out

from tilegen.gpu.tensor_maps import encode_tensor_map

ROWS, CHUNK, PITCH, SHARED = 16, 16, 128, 32768
UNTOUCHED = 0xEE
MODES = (0, 32, 64, 128)
ENDS = ((4, 3, 4), (4, 3, 32), (4, 5, 8), (2, 7, 8), (2, 9, 64), (1, 5, 16), (1, 17, 32), (4, 8, 8), (2, 24, 64))
SOURCE = r"""
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void load(const __grid_constant__ TensorMap map, unsigned char *out, int bytes, int x)
{
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ __align__(8) unsigned long long full;
    for (int i = threadIdx.x; i < SHARED; i += blockDim.x) tile[i] = UNTOUCHED;
    const unsigned bar = (unsigned)__cvta_generic_to_shared(&full);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%4, %2}], [%3];"
                     :: "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(&map), "r"(0), "r"(bar), "r"(x)
                     : "memory");
        unsigned done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(bar) : "memory");
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SHARED; i += blockDim.x) out[i] = tile[i];
}
extern "C" __global__ void store(const __grid_constant__ TensorMap map, int x)
{
    extern __shared__ __align__(1024) unsigned char tile[];
    for (int i = threadIdx.x; i < SHARED; i += blockDim.x) tile[i] = i / 16 & 127;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%3, %2}], [%1];"
                     :: "l"(&map), "r"((unsigned)__cvta_generic_to_shared(tile)), "r"(0), "r"(x) : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""


def encode(array: Any, dims: list[int], strides: list[int], box: list[int], size: int, mode: int) -> Any:
    said = {"dims": dims, "strides_bytes": strides, "box": box, "element_strides": [1] * len(dims)}
    found = encode_tensor_map(said | {"swizzle_bytes": mode, "elem_bytes": size}, array.data.ptr)
    return np.array([bytes(found)], dtype="V128")[0]


def probe_rows(load: Any, store: Any, size: int, mode: int, row: int) -> dict[str, Any]:
    """How far apart rows of a box lie in shared memory, when it is loaded and when it is stored."""
    numbers = np.arange(ROWS * PITCH // CHUNK).reshape(ROWS, -1)  # of chunks of the array
    source = cupy.asarray(np.repeat(numbers, CHUNK, axis=1).astype(np.uint8))
    box = [row // size, ROWS]
    seen, target = cupy.empty(SHARED, np.uint8), cupy.full(ROWS * PITCH, UNTOUCHED, np.uint8)
    said = [PITCH // size, ROWS], [PITCH], box, size, mode
    load((1,), (128,), (encode(source, *said), seen, np.int32(row * ROWS), np.int32(0)), shared_mem=SHARED)
    store(
        (1,), (128,), (encode(target, [PITCH // size, ROWS], [PITCH], box, size, mode), np.int32(0)), shared_mem=SHARED
    )
    chunks, stored = cupy.asnumpy(seen)[::CHUNK], cupy.asnumpy(target).reshape(ROWS, -1, CHUNK)[:, :, 0]
    apart: dict[str, list[int]] = {"loaded": [], "stored": []}
    for pitch in sorted({row, max(row, mode)}):
        at = np.arange(ROWS)[:, None] * (pitch // CHUNK) + np.arange(row // CHUNK)
        at ^= at >> 3 & max(0, mode // CHUNK - 1)
        if (chunks[at] == numbers[:, : row // CHUNK]).all():
            apart["loaded"].append(pitch)
        if (stored[:, : row // CHUNK] == at % 128).all():
            apart["stored"].append(pitch)
    return {"elem_bytes": size, "swizzle_bytes": mode, "row_bytes": row, "rows_apart": apart}


def probe_end(store: Any, size: int, columns: int, box: int) -> dict[str, int]:
    """Bytes that a store writes behind the ends of rows, of each, and behind the last row."""
    pitch = -(-columns * size // CHUNK) * CHUNK
    target = cupy.full(ROWS * pitch + 256, UNTOUCHED, np.uint8)
    store(
        (1,), (128,), (encode(target, [columns, ROWS], [pitch], [box, ROWS], size, 0), np.int32(0)), shared_mem=SHARED
    )
    rows = cupy.asnumpy(target)[: ROWS * pitch].reshape(ROWS, pitch) != UNTOUCHED
    behind = {int(n) for n in rows[:, columns * size :].sum(axis=1)}
    assert len(behind) == 1 and rows[:, : columns * size].all()
    return {
        "elem_bytes": size,
        "columns": columns,
        "pitch_bytes": pitch,
        "box": box,
        "bytes_behind_a_row": behind.pop(),
    }


def probe_start(load: Any, store: Any, way: str, size: int, mode: int, start: int) -> str:
    """What becomes of a box of rows of 32 bytes that begins ``start`` elements after its array: right, wrong, or an
    error, after which the process can launch nothing more."""
    row = 32
    random = np.random.default_rng(start).integers(0, 128, (ROWS, PITCH), np.uint8)
    array = cupy.asarray(random)
    said = encode(array, [PITCH // size, ROWS], [PITCH], [row // size, ROWS], size, mode)
    apart, part = max(row, mode), slice(start * size, start * size + row)
    at = np.arange(ROWS)[:, None] * apart + np.arange(row)
    at ^= (at >> 7 & max(0, mode // CHUNK - 1)) << 4
    try:
        if way == "load":
            seen = cupy.empty(SHARED, np.uint8)
            load((1,), (128,), (said, seen, np.int32(row * ROWS), np.int32(start)), shared_mem=SHARED)
            return "right" if (cupy.asnumpy(seen)[at] == random[:, part]).all() else "wrong"
        store((1,), (128,), (said, np.int32(start)), shared_mem=SHARED)
        random[:, part] = at // CHUNK & 127
        return "right" if (cupy.asnumpy(array) == random).all() else "wrong"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return str(error).partition(":")[0]


def probe_starts() -> list[dict[str, Any]]:
    """Each start in a process of its own, several at a time: an error leaves none that could launch again."""
    cases = [
        (way, size, mode, start)
        for way in ("load", "store") for size in (1, 2, 4, 8) for mode in (0, 32, 128)
        for start in sorted({1, 8 // size, CHUNK // size, 24 // size, 2 * CHUNK // size})
    ]  # fmt: skip

    def probe(case: tuple[str, int, int, int]) -> dict[str, Any]:
        command = [sys.executable, __file__, "--start", *map(str, case)]
        result = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        way, size, mode, start = case
        return {"way": way, "elem_bytes": size, "swizzle_bytes": mode, "start": start, "result": result}

    with ThreadPoolExecutor(12) as pool:
        return list(pool.map(probe, cases))


def probe_stride(stride: int) -> dict[str, Any]:
    """Does the driver take a stride of so many bytes for a dimension of 1?"""
    try:
        encode(cupy.zeros(4096, np.uint8), [88, 1], [stride], [8, 8], 2, 0)
    except ValueError:
        return {"stride_bytes": stride, "is_taken": False}
    return {"stride_bytes": stride, "is_taken": True}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="")
    parser.add_argument("--start", nargs=4, default=None)
    args = parser.parse_args()
    out = args.out
    source = SOURCE.replace("SHARED", str(SHARED)).replace("UNTOUCHED", str(UNTOUCHED))
    module = cupy.RawModule(code=source, options=("-arch=sm_90a",))
    load, store = (module.get_function(name) for name in ("load", "store"))
    if args.start:
        way, *numbers = args.start
        print(probe_start(load, store, way, *map(int, numbers)))
        return
    sizes = [(size, mode, row) for size in (1, 2) for mode in MODES for row in range(CHUNK, (mode or PITCH) + 1, CHUNK)]
    found = {
        "device": describe_device(),
        "rows": [probe_rows(load, store, *which) for which in sizes],
        "ends": [probe_end(store, *which) for which in ENDS],
        "starts": probe_starts(),
        "strides_of_a_dimension_of_1": [probe_stride(n) for n in (2, 4, 16, 32)],
    }
    put_out(found, out)


if __name__ == "__main__":
    main()
