"""Every way to lay a row over threads, measured: where the table of compute_cases.py comes from.

    python benchmarks/sweep_rows.py --out FILE [--name layernorm] [--rounds 9]

Kernels are built in other processes, then timed in turns with a copy of the same bytes,
one launch a sample, over rotated buffers.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from compute_cases import ComputeCase, Shape, compute_cases
from measure_compute import build_compute, lay_out_rows

from tilegen import bench, gpu
from tilegen.bench.buffers import load_kernel
from tilegen.bench.measuring import make_samplers, measure_spread, paired_ratio, take_turns, warm_up
from tilegen.pipeline import Built
from tilegen.proofs.meaning import parameter_cases
from tilegen.verifying import compile_for

REGISTERS = 65536  # of a multiprocessor of sm_80 to sm_100


def list_shapes(case: ComputeCase) -> Iterator[Shape]:
    """Threads that hold 4 to 64 elements each, with and without a bound on registers, a warp a row where it fits."""
    for threads in (32, 64, 128, 256, 512, 1024):
        if 4 <= case.columns // threads <= 64:
            fits = {REGISTERS // (threads * r) for r in (32, 40, 48, 64, 80)}
            for ctas in (0, *sorted(n for n in fits if 1 <= n <= 2048 // threads)):
                yield Shape(threads, ctas)
    if case.columns <= 2048:
        for rows in (2, 4, 8):
            yield Shape(32 * rows, rows=rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    device = gpu.require_gpu()
    arch = "sm_{}{}".format(*device.compute_capability)
    cases = [case for case in compute_cases() if args.name in case.name]
    tried = {case.name: [dataclasses.replace(case, pinned=shape) for shape in list_shapes(case)] for case in cases}
    found: dict[str, list[Any]] = {}
    with bench.open_session() as session, ProcessPoolExecutor(
        max(1, (os.cpu_count() or 2) - 2), get_context("spawn")
    ) as pool:  # fmt: skip
        waiting = {name: [pool.submit(build_compute, c, arch) for c in ways] for name, ways in tried.items()}
        for name, ways in tried.items():
            built = [w.result() for w in waiting[name]]
            found[name] = time_shapes(session, ways, built, args.rounds)
            best = max(found[name], key=lambda row: row.get("ratio", 0))
            print(f"{name:42s} {json.dumps(best)}", flush=True)
            args.out.write_text(write_sweep(device, found), encoding="utf-8")
    return 0


def write_sweep(device: gpu.Device, found: dict[str, list[Any]]) -> str:
    """The file's text: what was measured on, then a line for each shape."""
    head = {"device": device.name, "driver": device.driver, "date": datetime.date.today().isoformat()}
    cases = ",\n".join(
        f" {json.dumps(name)}: [\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n ]"
        for name, rows in found.items()
    )
    return json.dumps(head)[:-1] + f', "cases": {{\n{cases}\n}}}}\n'


def time_shapes(session: bench.Session, ways: list[ComputeCase], built: list[Built | str], rounds: int) -> list[Any]:
    """Rows of the shapes in order: microseconds, the ratio of the copy's time to it, registers, spilled bytes."""
    import torch

    good = {f"{k}": b for k, b in enumerate(built) if not isinstance(b, str)}
    params = parameter_cases(next(iter(good.values())).spec)[0]
    buffers = lay_out_rows(session, torch, next(iter(good.values())), params)
    candidates = {key: load_kernel(session, b, params, buffers.images) for key, b in good.items()}
    candidates["copy"] = lambda k: gpu.copy_bytes(*buffers.copies[k % len(buffers.copies)])
    for candidate in candidates.values():
        warm_up(session.watch, candidate)
    samplers = {name: make_samplers(session.watch, c, len(buffers.images), 1) for name, c in candidates.items()}
    times = take_turns(session.watch, samplers, rounds, 1, buffers.is_cold).rounds
    rows = []
    for k, (case, b) in enumerate(zip(ways, built, strict=True)):
        row: dict[str, Any] = dataclasses.asdict(case.shape)
        if isinstance(b, str):
            row["error"] = b[:300]
        else:
            cubin = compile_for(session.device, b)
            row |= {
                "us": round(measure_spread(times[f"{k}"]).median, 2),
                "ratio": round(paired_ratio(times[f"{k}"], times["copy"]).median, 4),
                "registers": cubin.registers,
                "spill_bytes": cubin.spill_store_bytes + cubin.spill_load_bytes,
            }  # fmt: skip
        rows.append(row)
    return rows


if __name__ == "__main__":
    sys.exit(main())
