"""``make gpu``: verify every spec on a GPU, count what it does, time it, write docs/results/<device>.json.

Counters come from Nsight Compute (``ncu``), clocks untouched; each is compared with what ``tilegen explain`` predicts.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import hashlib
import io
import json
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from launch_once import build_for
from launch_ways import check_ways

import tilegen
from tilegen import gpu
from tilegen.errors import TilegenError
from tilegen.pipeline import Built, parameter_cases
from tilegen.plan import arrays
from tilegen.verify import compile_for, launch_case, make_image, verify_gpu

ROOT = Path(__file__).resolve().parent.parent
SHARED = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
GLOBAL = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
COUNTERS = {f"shared_{k}": SHARED.format(k) for k in ("ld", "st", "ldsm", "stsm")} | {
    f"global_{k}": GLOBAL.format(k) for k in ("ld", "st")
}
PER_INSTRUCTION = ("permute_sf", "copy_reg", "mma_fragments")
LARGE = (("specs/transpose_tile.yaml", {"M": 8192, "N": 8000}),)  # sizes at which time says something
ROTATE_BYTES = 256 << 20  # buffers rotate through at least this many bytes: four times an H200's L2


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=str(ROOT / "docs" / "results"))
    parser.add_argument("--specs", nargs="*", default=sorted(map(str, (ROOT / "specs").glob("*.yaml"))))
    args = parser.parse_args()
    device = gpu.require_gpu()
    kernels: dict[str, Any] = {}
    builds: dict[str, Built] = {}
    for path in args.specs:
        built = build_for(device, path)
        builds[built.plan.name] = built
        row = {"spec": Path(path).name, "arch": built.plan.arch}
        kernels[built.plan.name] = row | verify_and_time(device, built)
        print(summary(built.plan.name, kernels[built.plan.name]), flush=True)
    for path, params in LARGE:
        built = tilegen.build(ROOT / path, params=params)
        row = {"spec": Path(path).name, "arch": built.plan.arch, "params": params}
        kernels[f"{built.plan.name} large"] = row | verify_and_time(device, built)
        print(summary(f"{built.plan.name} large", kernels[f"{built.plan.name} large"]), flush=True)
    launches = check_ways(device, list(builds.values()))
    counted = count_kernels(args.specs)
    for name, built in builds.items():
        kernels[name]["counters"] = compare_counts(built, counted.get(name))
    result = {
        "device": device.name,
        "driver": read_driver(),
        "cuda": device.driver,
        "date": datetime.date.today().isoformat(),
        "kernels": kernels,
        "launches": launches,
        "per_instruction": {n: count_instructions(builds[n], p) for n, p in paths_of(builds, args.specs).items()},
        "warp_permute_loop": measure_permute_loop(device),
    }
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    target = out / (re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-") + ".json")
    target.write_text(json.dumps(result, indent=1) + "\n")
    failures = list(list_failures(result))
    print(f"\n{len(kernels)} kernels, {len(failures)} failures -> {target.name}")
    for failure in failures:
        print("  FAILED", failure)
    return 1 if failures else 0


def read_driver() -> str:
    """The NVIDIA driver's version."""
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()


def list_failures(result: dict[str, Any]) -> list[str]:
    """Kernels that are not right, and counters that differ from the prediction."""
    out = []
    for name, k in result["kernels"].items():
        if not k["correct"]:
            out.append(f"{name}: {k['error']}")
        for what, row in (k.get("counters") or {}).items():
            if row["counted"] is not None and row["counted"] != row["predicted"]:
                out.append(f"{name} {what}: predicted {row['predicted']}, counted {row['counted']}")
            if row["counted"] is None:
                out.append(f"{name} {what}: not counted")
    for way, said in result["launches"].items():
        out += [f"{name} by {way}: {words}" for name, words in said.items() if words != "ok"]
    instructions = result["per_instruction"].items()
    return out + [f"{n}: instructions differ from the prediction" for n, p in instructions if not p["agree"]]


def summary(name: str, k: dict[str, Any]) -> str:
    state = "ok" if k["correct"] else f"WRONG {k['error']}"
    speed = f"{k.get('median_us', 0):.1f} us, {k.get('gb_per_s', 0)} GB/s"
    return f"{name:28s} {state}, {k.get('registers')} registers, {speed}"


# ---------------------------------------------------------------- right, and how fast
def verify_and_time(device: gpu.Device, built: Built) -> dict[str, Any]:
    """Correctness over two seeds and every parameter case; registers; median time and bytes per second."""
    row: dict[str, Any] = {"source_sha256": hashlib.sha256(built.source.encode()).hexdigest()}
    try:
        verified = verify_gpu(built, [1, 2])
        row |= {"correct": True, "max_error": 0, "cases": list(verified.lines)}
    except (TilegenError, gpu.CompileError) as error:
        row |= {"correct": False, "error": str(error)[:400]}
        return row
    cubin = compile_for(device, built)
    row |= {
        "registers": cubin.registers, "stack_bytes": cubin.stack_bytes, "shared_bytes": cubin.shared_bytes,
        "spill_bytes": cubin.spill_store_bytes + cubin.spill_load_bytes,
    }  # fmt: skip
    return row | time_kernel(built, cubin)


def time_kernel(built: Built, cubin: gpu.Cubin) -> dict[str, Any]:
    """Median time over rotated buffers, interleaved with a device-to-device copy of as many bytes."""
    import cupy

    case = parameter_cases(built.spec)[0]
    how = launch_case(built, case)
    memories = arrays(built.plan)
    images = {m.name: make_image(built.spec, m, case, 3).view(np.uint8) for m in memories}
    moved = sum(i.nbytes for i in images.values())
    sets = max(1, min(64, -(-ROTATE_BYTES // moved)))
    buffers = [[cupy.asarray(images[name]) for name in how.arguments] for _ in range(sets)]
    half = max(1, moved // 2)
    copies = [(cupy.empty(half, cupy.uint8), cupy.empty(half, cupy.uint8)) for _ in range(sets)]

    function = gpu.load_function(cubin, how)

    def run(k: int) -> None:
        function(how.grid, how.block, (*buffers[k % sets], *how.params), shared_mem=how.shared_bytes)

    def copy(k: int) -> None:
        source, target = copies[k % sets]
        cupy.cuda.runtime.memcpyAsync(target.data.ptr, source.data.ptr, half, 3, cupy.cuda.get_current_stream().ptr)

    pairs = [(time_once(cupy, run, k), time_once(cupy, copy, k)) for k in range(-5, 30)][5:]
    mine, ratio = statistics.median(a for a, _ in pairs), statistics.median(b / a for a, b in pairs)
    row: dict[str, Any] = {"median_us": round(mine, 2), "bytes": moved, "gb_per_s": round(moved / mine / 1e3, 1)}
    if moved >= 16 << 20:  # below, launch overhead is all that a ratio would show
        row["ratio_to_copy"] = round(ratio, 3)
    return row


def time_once(cupy: Any, function: Any, k: int) -> float:
    """Microseconds of one call, by events."""
    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    function(k)
    stop.record()
    stop.synchronize()
    return 1e3 * float(cupy.cuda.get_elapsed_time(start, stop))


# ---------------------------------------------------------------- counters
def run_ncu(*arguments: str) -> str:
    """ncu's standard output (CSV), clocks untouched."""
    command = ["ncu", "--clock-control", "none", "--csv", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    return done.stdout


def read_csv(text: str, first: str = '"') -> list[dict[str, str]]:
    """The rows of the CSV that starts at the line beginning with ``first``, after ncu's own lines."""
    lines = text.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith(first)), len(lines))
    return list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))


def count_kernels(specs: list[str]) -> dict[str, dict[str, int]]:
    """Counter name -> count, for the kernel of every spec."""
    if not shutil.which("ncu"):
        return {}
    target = [sys.executable, "benchmarks/launch_once.py", *specs]
    text = run_ncu("--metrics", ",".join(COUNTERS.values()), *target)
    names = {metric: name for name, metric in COUNTERS.items()}
    out: dict[str, dict[str, int]] = {}
    for row in read_csv(text):
        if row.get("Metric Name") in names:
            kernel = row["Kernel Name"].split("(")[0]
            out.setdefault(kernel, {})[names[row["Metric Name"]]] = int(float(row["Metric Value"].replace(",", "")))
    return out


def compare_counts(built: Built, counted: dict[str, int] | None) -> dict[str, Any]:
    """Prediction beside count, per space and kind."""
    totals = built.manifest["grid_totals"]
    out = {}
    for what in COUNTERS:
        unit = "wavefronts" if what.startswith("shared") else "sectors"
        predicted = totals.get(what, {}).get(unit, 0)
        out[what] = {"unit": unit, "predicted": predicted, "counted": (counted or {}).get(what)}
    return out


def paths_of(builds: dict[str, Built], specs: list[str]) -> dict[str, str]:
    return {n: p for (n, _), p in zip(builds.items(), specs, strict=True) if n in PER_INSTRUCTION}


def count_instructions(built: Built, path: str) -> dict[str, Any]:
    """ncu's source counters: wavefronts and sectors of every shared and global instruction, beside the accesses."""
    if not shutil.which("ncu"):
        return {}
    report = ROOT / "out" / f"{built.plan.name}.ncu-rep"
    report.parent.mkdir(exist_ok=True)
    metrics = "memory_l1_wavefronts_shared,memory_l2_theoretical_sectors_global,inst_executed"
    run_ncu(
        "-f", "-o", str(report.with_suffix("")), "--section", "SourceCounters", "--metrics", metrics, sys.executable,
        "benchmarks/launch_once.py", path,
    )  # fmt: skip
    done = subprocess.run(["ncu", "--import", str(report), "--page", "source", "--csv"], capture_output=True, text=True)
    rows = [r for r in read_csv(done.stdout, '"Address"') if re.search(r"\b(LDS|STS|LDG|STG)\b", r["Source"])]
    instructions = [read_instruction(r) for r in rows]
    predicted = [a for op in built.manifest["ops"] for a in op["accesses"]]
    groups = {}
    for (space, kind), unit in GROUPS.items():
        mine = [a for a in predicted if (a["space"], a["kind"]) == (space, kind)]
        seen = [i for i in instructions if (i["space"], i["kind"]) == (space, kind)]
        groups[f"{space}_{kind}"] = {
            "predicted": sorted([a["width_bytes"], a["instructions"], a[unit]] for a in mine),
            "counted": sorted([i["width_bytes"], i["instructions"], i[unit]] for i in seen),
        }
    return {"columns": "width_bytes, instructions, wavefronts or sectors", "groups": groups, "agree": agree(groups)}


GROUPS = {
    ("shared", "ld"): "wavefronts", ("shared", "st"): "wavefronts", ("global", "ld"): "sectors",
    ("global", "st"): "sectors",
}  # fmt: skip


def read_instruction(row: dict[str, str]) -> dict[str, Any]:
    """One memory instruction of the source page: what it is, how often it ran, what it cost."""
    name = re.search(r"\b(LDS|STS|LDG|STG)([.\w]*)", row["Source"])
    assert name
    width = next((int(w) // 8 for w in ("128", "64", "16", "8") if re.search(rf"\.[US]?{w}\b", name[2])), 4)
    return {
        "source": row["Source"].strip(),
        "space": "shared" if name[1].endswith("S") else "global",
        "kind": "ld" if name[1].startswith("LD") else "st",
        "width_bytes": width,
        "instructions": int(row["Instructions Executed"]),
        "wavefronts": int(row["L1 Wavefronts Shared"]),
        "sectors": int(row["L2 Theoretical Sectors Global"]),
    }


def agree(groups: dict[str, Any]) -> bool:
    """Per space, kind and width: as many instructions, as many wavefronts or sectors, and the same cost each."""

    def by_width(rows: list[list[int]]) -> dict[int, tuple[int, int, tuple[float, ...]]]:
        out = {}
        for width in {r[0] for r in rows}:
            mine = [r for r in rows if r[0] == width]
            each = tuple(sorted({r[2] / r[1] for r in mine}))
            out[width] = (sum(r[1] for r in mine), sum(r[2] for r in mine), each)
        return out

    return all(by_width(g["predicted"]) == by_width(g["counted"]) for g in groups.values())


# ---------------------------------------------------------------- shared memory throughput of permute_layout
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
    how = gpu.Launch(how.kernel, how.grid, how.block, (*how.arguments, "span"), (), how.shared_bytes)
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


if __name__ == "__main__":
    sys.exit(main())
