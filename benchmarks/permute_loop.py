"""Shared memory throughput of permute_layout: a loop of permutes in every warp, timed by the SM's own clock."""

from __future__ import annotations

import re
import statistics
from typing import Any

import numpy as np

import tilegen
from tilegen import gpu
from tilegen.pipeline import Built
from tilegen.plan import arrays
from tilegen.proofs.meaning import parameter_cases
from tilegen.verifying import launch_case, make_image

LOOP_SPEC = """kernel: permute_loop
arch: sm_90
threads: 1024
grid: {{bx: {ctas}}}
buffers:
  In:  {{scope: global, dtype: float32, shape: [32, 4, 32]}}
  Out: {{scope: global, dtype: float32, shape: [{ctas}, 32, 4, 32], layout: "S[({ctas},32,4,32):(4096,128,1,4)]"}}
  A: {{scope: shared, dtype: float32, shape: [32, 4, 32], layout: "S[(32,4,32):(128,32,1)]"}}
  B: {{scope: shared, dtype: float32, shape: [32, 4, 32], layout: "S[(32,4,32):(128,1,4)]"}}
ops:
  - copy: {{scope: warp, src: "In[warpid]", dst: "A[warpid]"}}
  - sync: warp
  - for: {{trip: {trips}}}
    do:
      - permute_layout: {{scope: warp, src: "A[warpid]", dst: "B[warpid]"{variant}}}
  - copy: {{scope: warp, src: "B[warpid]", dst: "Out[bx, warpid]"}}
"""


def measure_permute_loop(device: gpu.Device) -> dict[str, Any]:
    """32 warps an SM, each permuting its own 4x32 float32 pair 4096 times: bytes over clocks times 128, lowest SM."""
    out = {}
    for variant in ("auto", "warp_xor_swizzle", "warp_linear_swizzle", "warp_vector"):
        pin = "" if variant == "auto" else f", variant: {variant}"
        trips = 4096
        built = tilegen.build(LOOP_SPEC.format(ctas=device.sm_count, trips=trips, variant=pin))
        row = run_timed_loop(built, device.sm_count, trips)
        row["variant"] = built.plan.operations[1].variant
        out[variant] = row
        print(f"permute loop {variant}: {row}", flush=True)
    return out


def run_timed_loop(built: Built, ctas: int, trips: int) -> dict[str, Any]:
    """Run the kernel with clock64 read around its loop by the first thread of every warp."""
    import cupy

    source = built.source.replace("float *__restrict__ Out)", "float *__restrict__ Out, long long *span)")
    loop = re.search(r"\n    for \(int trip = 0;.*?\n    }\n", source, re.S)
    assert loop and source.count("long long *span") == 1, "the loop's text has changed"
    timed = (
        "\n    __syncthreads();\n    const long long start = clock64();" + loop[0]
        + "    if (laneid == 0) span[(bx * 32 + warpid) * 2] = start, span[(bx * 32 + warpid) * 2 + 1] = clock64();\n"
    )  # fmt: skip
    source = source.replace(loop[0], timed)
    cubin = gpu.compile_cubin(source, built.plan.arch, built.plan.name)
    case = parameter_cases(built.spec)[0]
    how = launch_case(built, case)
    how = gpu.GpuLaunch(how.kernel, how.grid, how.block, (*how.arguments, "span"), (), how.shared_bytes)
    memories = arrays(built.plan)
    buffers = [cupy.asarray(make_image(built.spec, m, case, 1).view(np.uint8)) for m in memories]
    span = cupy.zeros(ctas * 32 * 2 * 8, cupy.uint8)
    ratios = []
    for _ in range(5):
        gpu.launch(cubin, how, [*buffers, span])
        cupy.cuda.runtime.deviceSynchronize()
        clocks = span.view(cupy.int64).reshape(ctas, 32, 2).get()
        cycles = clocks[:, :, 1].max(1) - clocks[:, :, 0].min(1)
        moved = 32 * trips * 128 * 4 * 2  # bytes read and written by 32 warps
        ratios.append(float((moved / (cycles * 128.0)).min()))
    return {"lowest_sm_ratio": round(statistics.median(ratios), 4), "runs": [round(r, 4) for r in ratios]}
