"""Count what TMA tile copies cost on this machine's GPU, one launch per box, and time them. Command line:

    python3 benchmarks/count_tma.py --out h200_tma.json

Needs numpy, CuPy, ncu and a device of compute capability 9.0 or later, nothing of tilegen. Takes about a minute. Every
counter whose name tells of TMA, of the shared memory banks or of sectors read from L2 is taken: which of them see TMA's
writes to shared memory is what the result is to say. ``clocks`` is per copy, of copies that hit L2, eight in flight.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from count_cp_async import describe_device
from ncu_counts import count_in_batches, list_counters

COUNTERS = re.compile(
    r"\w+__\w*(?:tma|ublkcp)\w*|l1tex__data_bank_\w+|l1tex__data_pipe\w*|l1tex__m_xbar2l1tex_read_(?:sectors|bytes)"
    r"|lts__t_sectors_srcunit_tex_op_read"
)
MOST_COUNTERS = 60
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
ELEMENTS = {1: 0, 2: 1, 4: 2, 8: 4}  # bytes -> CU_TENSOR_MAP_DATA_TYPE_UINT8, 16, 32, 64
ROWS, PITCH_BYTES = 512, 4096
SHARED_BYTES = 64 << 10
BARRIER_AT = SHARED_BYTES - 64
IN_FLIGHT, ROUNDS = 8, 64

SOURCE = r"""
__device__ __align__(64) unsigned char tensor_map[128];

__device__ void wait(unsigned barrier, unsigned parity) {
    asm volatile("{ .reg .pred done;\n again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again; }" :: "r"(barrier), "r"(parity) : "memory");
}

extern "C" __global__ void tile_ld(int bytes, int copies, int rounds, long long* clocks) {
    extern __shared__ __align__(1024) unsigned char tile[];
    const unsigned base = (unsigned)__cvta_generic_to_shared(tile), barrier = base + BARRIER_AT;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    const long long start = clock64();
    for (int k = 0; k < rounds; ++k) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(barrier), "r"(copies * bytes) : "memory");
        for (int c = 0; c < copies; ++c)
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                         " [%0], [%1, {%2, %3}], [%4];"
                         :: "r"(base), "l"(tensor_map), "r"(0), "r"(0), "r"(barrier) : "memory");
        wait(barrier, k & 1);
    }
    if (clocks) *clocks = clock64() - start;
}

extern "C" __global__ void tile_st(int bytes, int copies, int rounds, long long* clocks) {
    extern __shared__ __align__(1024) unsigned char tile[];
    const unsigned base = (unsigned)__cvta_generic_to_shared(tile);
    const long long start = clock64();
    for (int k = 0; k < rounds; ++k) {
        for (int c = 0; c < copies; ++c)
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                         :: "l"(tensor_map), "r"(0), "r"(0), "r"(base) : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
    if (clocks) *clocks = clock64() - start;
}
"""


def make_boxes() -> list[dict[str, Any]]:
    """Boxes of one to 64 rows, 16 bytes to 1 KiB wide, in every swizzle that allows their width; loads and stores."""
    boxes = []
    for kind in ("ld", "st"):
        for swizzle, widest in (("none", 1024), ("32B", 32), ("64B", 64), ("128B", 128)):
            for width in (16, 32, 48, 64, 112, 128, 256, 512, 1024):
                for rows in (1, 8, 32):
                    if width <= widest and width * rows <= BARRIER_AT:
                        boxes.append({"kind": kind, "swizzle": swizzle, "width_bytes": width, "rows": rows})
    return [box | {"element_bytes": element} for box, element in _with_elements(boxes)]


def _with_elements(boxes: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], int]]:
    for box in boxes:
        wide = box["width_bytes"] > 256 * 4
        yield box, 8 if wide else 4
        if box["rows"] == 8 and box["width_bytes"] in (32, 128):
            yield from ((box, element) for element in (1, 2, 8))


# ---- launching
def launch(boxes: list[dict[str, Any]], timed: bool) -> list[float]:
    """Launch each box once, alone; or timed, eight copies in flight: clocks per copy."""
    import cupy

    code = SOURCE.replace("BARRIER_AT", str(BARRIER_AT))
    module = cupy.RawModule(code=code)
    slot = cupy.ndarray((128,), np.uint8, module.get_global("tensor_map"))
    data = cupy.empty(ROWS * PITCH_BYTES, np.uint8)
    clocks = cupy.empty(1, np.int64)
    found = []
    for box in boxes:
        slot.set(encode_map(box, data.data.ptr))
        kernel = module.get_function(f"tile_{box['kind']}")
        kernel.max_dynamic_shared_size_bytes = SHARED_BYTES
        bytes_ = np.int32(box["width_bytes"] * box["rows"])
        how = (bytes_, np.int32(IN_FLIGHT), np.int32(ROUNDS), clocks) if timed else (bytes_, *map(np.int32, (1, 1, 0)))
        for _ in range(3 if timed else 1):
            kernel((1,), (1,), how if timed else (*how[:3], np.uint64(0)), shared_mem=SHARED_BYTES)
        if timed:
            found.append(round(float(clocks.get()[0]) / (IN_FLIGHT * ROUNDS), 1))
    cupy.cuda.Device().synchronize()
    return found


def encode_map(box: dict[str, Any], address: int) -> Any:
    """The 128 bytes of the CUtensorMap of a 2-D array, encoded by the driver."""
    driver = ctypes.CDLL("libcuda.so.1")
    memory = np.zeros(192, np.uint8)
    at = -memory.ctypes.data % 64
    element = box["element_bytes"]
    dims = (ctypes.c_uint64 * 2)(PITCH_BYTES // element, ROWS)
    strides = (ctypes.c_uint64 * 1)(PITCH_BYTES)
    extents = (ctypes.c_uint32 * 2)(box["width_bytes"] // element, box["rows"])
    ones = (ctypes.c_uint32 * 2)(1, 1)
    state = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(memory.ctypes.data + at), ELEMENTS[element], ctypes.c_uint32(2), ctypes.c_void_p(address), dims,
        strides, extents, ones, 0, SWIZZLES[box["swizzle"]], 0, 0,
    )  # fmt: skip
    if state:
        raise ValueError(f"cuTensorMapEncodeTiled answers {state} for {box}")
    return memory[at : at + 128]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="h200_tma.json")
    parser.add_argument("--seconds", type=float, default=75)
    parser.add_argument("--launch", type=int, nargs="+", help="only launch the boxes of these numbers (for ncu)")
    parser.add_argument("--timed", action="store_true", help="only time the boxes, without ncu")
    args = parser.parse_args()
    boxes = make_boxes()
    if args.launch:
        launch([boxes[k] for k in args.launch], timed=False)
        return 0
    if args.timed:
        print(json.dumps(launch(boxes, timed=True)))
        return 0
    clocks = launch(boxes, timed=True)
    available = list_counters()
    metrics = sorted(f"{name}.sum" for name in available if COUNTERS.fullmatch(name))[:MOST_COUNTERS]
    until = time.monotonic() + args.seconds
    order = [int(k) for k in np.random.default_rng(0).permutation(len(boxes))]
    counted = dict(count_in_batches([sys.executable, __file__], order, metrics, "^tile_", 30, until))
    about = {"device": describe_device(), "clocks": f"per copy, {IN_FLIGHT} in flight, from L2", "counters": metrics}
    measured = enumerate(zip(boxes, clocks, strict=True))
    rows = [box | {"clocks": t, "counts": counted.get(k, {})} for k, (box, t) in measured]
    Path(args.out).write_text(json.dumps({"about": about, "boxes": rows, "names": sorted(available)}, indent=0) + "\n")
    print(f"{len(boxes)} boxes timed, {len(counted)} counted -> {args.out}")
    return 0 if len(counted) == len(boxes) else 1


if __name__ == "__main__":
    sys.exit(main())
