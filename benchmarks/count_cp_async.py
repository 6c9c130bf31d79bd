"""Count what cp.async costs on this machine's GPU, one launch per pattern, with Nsight Compute. Command line:

    python3 benchmarks/count_cp_async.py --out h200_cp_async_more.json
    python3 benchmarks/count_cp_async.py --set zero_fill --out h200_cp_async_zero_fill.json
    python3 benchmarks/count_cp_async.py --set races --out h200_cp_async_races.json

Needs numpy, CuPy and ncu, nothing of tilegen. The first takes about two minutes, the others less (``--seconds`` bounds
them: batches that would start later are left out, and the patterns are shuffled, so what is there is a fair part).
``--patterns FILE`` takes patterns from a JSON in the same format instead of the seeded ones.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from cp_async_patterns import GLOBAL_BYTES, LANES, MODES, SEED, SETS, SHARED_BYTES, make_patterns
from ncu_counts import Counts, count_in_batches, list_counters
from numpy.typing import NDArray

COUNTERS = {
    "wavefronts_ldgsts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
    "sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l2_sectors": "l1tex__m_xbar2l1tex_read_sectors.sum",
}
# Counted too, for a part of the patterns, where the device has them: they say what the two above mean.
OTHER_COUNTERS = (
    "l1tex__m_xbar2l1tex_read_sectors", "lts__t_sectors_srcunit_tex_op_read",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld", "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld",
    "l1tex__data_pipe_lsu_wavefronts", "l1tex__data_bank_writes", "l1tex__data_bank_reads",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts_cache_access",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts_cache_bypass",
    "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts",
    "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts_cache_bypass",
    "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access",
    "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_bypass",
    "smsp__sass_l1tex_m_xbar2l1tex_read_sectors_mem_global_op_ldgsts_cache_bypass",
)  # fmt: skip
BATCH = 140

SOURCE = """
__constant__ int shared_at[32], global_at[32], src_bytes[32];
"""
KERNEL = """
extern "C" __global__ void access_{cache}_{width}{z}(const char* data, int repeats, int* out) {{
    extern __shared__ __align__(128) char tile[];
    const int lane = threadIdx.x, to = shared_at[lane];
    const unsigned target = (unsigned)__cvta_generic_to_shared(tile) + to;
    const char* source = data + global_at[lane];
    const int bytes = src_bytes[lane];
    #pragma unroll 1
    for (int k = 0; k < repeats; ++k) {{
        if (to >= 0)
            asm volatile("cp.async.{cache}.shared.global [%0], [%1], {width}{size};"
                         :: "r"(target), "l"(source), "r"(bytes) : "memory");
        asm volatile("cp.async.wait_all;" ::: "memory");
    }}
    __syncwarp();
    if (out)
        for (int k = lane; k < SHARED_BYTES / 4; k += 32) out[k] = ((const int*)tile)[k];
}}
"""


def kernel_sources() -> str:
    """One kernel for each cache mode, width, and with or without a source size."""
    kernels = [
        KERNEL.format(cache=cache, width=width, z=z, size=size)
        for cache, width in MODES
        for z, size in (("", ""), ("_z", ", %2"))
    ]
    return (SOURCE + "".join(kernels)).replace("SHARED_BYTES", str(SHARED_BYTES))


def launch(patterns: list[dict[str, Any]], read: bool = False) -> list[NDArray[np.int32]]:
    """Launch each pattern once; the tables lie in constant memory, so that they cost no sectors.

    ``read``: what each left in shared memory, every global word holding its own index.
    """
    import cupy

    module = cupy.RawModule(code=kernel_sources())
    names = ("shared_at", "global_at", "src_bytes")
    tables = {n: cupy.ndarray((LANES,), np.int32, module.get_global(n)) for n in names}
    data = cupy.asarray(np.arange(GLOBAL_BYTES // 4, dtype=np.int32))
    tile = cupy.empty(SHARED_BYTES // 4, np.int32)
    found = []
    assert data.data.ptr % 128 == 0
    for p in patterns:
        tables["shared_at"].set(np.array(p["offsets"], np.int32))
        tables["global_at"].set(np.array(p["global_offsets"], np.int32))
        tables["src_bytes"].set(np.array(p.get("src_bytes", [0] * LANES), np.int32))
        cache = p["kind"].rpartition(".")[2]
        kernel = module.get_function(f"access_{cache}_{p['width']}{'_z' if 'src_bytes' in p else ''}")
        kernel(
            (1,),
            (LANES,),
            (data, np.int32(p.get("repeats", 1)), tile if read else np.uint64(0)),
            shared_mem=SHARED_BYTES,
        )
        if read:
            found.append(tile.get())
    cupy.cuda.Device().synchronize()
    return found


def find_landed(pattern: dict[str, Any], tile: NDArray[np.int32]) -> list[int]:
    """1 for each active lane whose words are what stayed in shared memory."""
    both = zip(pattern["offsets"], pattern["global_offsets"], strict=True)
    return [int(to >= 0 and int(tile[to // 4]) == at // 4) for to, at in both]


def count(patterns: list[dict[str, Any]], given: list[str], seconds: float) -> dict[str, Any]:
    """Every pattern that was counted in time, with its counts; the first hundred also with the other counters."""
    command = [sys.executable, __file__, *given]
    until, names = time.monotonic() + seconds, {metric: name for name, metric in COUNTERS.items()}
    counted: dict[int, Counts] = {}
    for k, counts in count_in_batches(command, range(len(patterns)), list(names), "^access_", BATCH, until):
        counted[k] = {names[metric]: value for metric, value in counts.items()}
        if not (k + 1) % BATCH:
            print(k + 1, "patterns", flush=True)
    available = list_counters()
    others = [f"{name}.sum" for name in OTHER_COUNTERS if name in available]
    more = (
        dict(count_in_batches(command, range(min(120, len(patterns))), others, "^access_", 40, until + 40))
        if others
        else {}
    )
    rows = [p | counted[k] | ({"others": more[k]} if k in more else {}) for k, p in enumerate(patterns) if k in counted]
    return {"counted": rows, "names": sorted(n for n in available if any(w in n for w in ("ldgsts", "tma", "ublkcp")))}


def describe_device() -> str:
    """Name and driver."""
    asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="h200_cp_async_more.json")
    parser.add_argument("--patterns", help="JSON with a list `patterns`, instead of the seeded ones")
    parser.add_argument("--set", choices=sorted(SETS), default="mixed", help="which of the seeded patterns")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--launch", type=int, nargs="+", help="only launch the patterns of these numbers (for ncu)")
    args = parser.parse_args()
    patterns = (
        json.loads(Path(args.patterns).read_text())["patterns"] if args.patterns else make_patterns(args.set, args.seed)
    )
    if args.launch:
        launch([patterns[k] for k in args.launch])
        return 0
    if args.set == "races":
        tiles = launch(patterns, read=True)
        patterns = [p | {"landed": find_landed(p, t)} for p, t in zip(patterns, tiles, strict=True)]
    given = (
        ["--patterns", str(Path(args.patterns).resolve())]
        if args.patterns
        else ["--set", args.set, "--seed", str(args.seed)]
    )
    result = count(patterns, given, args.seconds)
    about = {
        "device": describe_device(),
        "how": "one warp, one cp.async per lane per launch; offsets: shared byte offsets (-1: lane inactive), "
        "global_offsets: global byte offsets, src_bytes: bytes copied (the rest zero-filled), repeats: times run, "
        "each waited for",
        "counters": COUNTERS,
    }
    Path(args.out).write_text(write_json(about, result))
    print(f"{len(result['counted'])} of {len(patterns)} patterns counted -> {args.out}")
    return 0 if len(result["counted"]) == len(patterns) else 1


def write_json(about: dict[str, Any], result: dict[str, Any]) -> str:
    """JSON with a pattern on each line."""
    rows = ",\n".join(json.dumps(p) for p in result["counted"])
    names = json.dumps(result["names"])
    return f'{{"about": {json.dumps(about, indent=1)},\n"patterns": [\n{rows}\n],\n"names": {names}}}\n'


if __name__ == "__main__":
    sys.exit(main())
