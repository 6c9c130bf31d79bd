"""What TMA does with rows shorter than a swizzle, and at the ends of rows it stores; which strides the driver takes.

    python benchmarks/probe_tma.py [--out FILE]

Needs CuPy and a device of compute capability 9.0 or later; takes seconds. docs/access-model.md says what came out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from count_cp_async import describe_device

from tilegen.gpu.tensor_maps import encode_tensor_map

ROWS, CHUNK, PITCH, SHARED = 16, 16, 128, 32768
UNTOUCHED = 0xEE
MODES = (0, 32, 64, 128)
ENDS = ((4, 3, 4), (4, 3, 32), (4, 5, 8), (2, 7, 8), (2, 9, 64), (1, 5, 16), (1, 17, 32), (4, 8, 8), (2, 24, 64))
SOURCE = r"""
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void load(const __grid_constant__ TensorMap map, unsigned char *out, int bytes)
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
                     " [%0], [%1, {%2, %2}], [%3];"
                     :: "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(&map), "r"(0), "r"(bar) : "memory");
        unsigned done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(bar) : "memory");
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SHARED; i += blockDim.x) out[i] = tile[i];
}
extern "C" __global__ void store(const __grid_constant__ TensorMap map)
{
    extern __shared__ __align__(1024) unsigned char tile[];
    for (int i = threadIdx.x; i < SHARED; i += blockDim.x) tile[i] = i / 16 & 127;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %2}], [%1];"
                     :: "l"(&map), "r"((unsigned)__cvta_generic_to_shared(tile)), "r"(0) : "memory");
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
    load((1,), (128,), (encode(source, [PITCH // size, ROWS], [PITCH], box, size, mode), seen, np.int32(row * ROWS)),
         shared_mem=SHARED)  # fmt: skip
    store((1,), (128,), (encode(target, [PITCH // size, ROWS], [PITCH], box, size, mode),), shared_mem=SHARED)
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
    store((1,), (128,), (encode(target, [columns, ROWS], [pitch], [box, ROWS], size, 0),), shared_mem=SHARED)
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
    out = parser.parse_args().out
    source = SOURCE.replace("SHARED", str(SHARED)).replace("UNTOUCHED", str(UNTOUCHED))
    module = cupy.RawModule(code=source, options=("-arch=sm_90a",))
    load, store = (module.get_function(name) for name in ("load", "store"))
    sizes = [(size, mode, row) for size in (1, 2) for mode in MODES for row in range(CHUNK, (mode or PITCH) + 1, CHUNK)]
    found = {
        "device": describe_device(),
        "rows": [probe_rows(load, store, *which) for which in sizes],
        "ends": [probe_end(store, *which) for which in ENDS],
        "strides_of_a_dimension_of_1": [probe_stride(n) for n in (2, 4, 16, 32)],
    }
    text = json.dumps(found, indent=1) + "\n"
    if out:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        Path(out).write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
