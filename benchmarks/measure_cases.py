"""The cases of cases.py, each beside all peers. They are built in other processes while the GPU measures."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from cases import Case, spec_text
from gpu_files import hash_code
from measure_kernels import resources, summary

import tilegen
from tilegen import bench, gpu
from tilegen.pipeline import Built
from tilegen.verifying import compile_for

KEPT = (
    "bytes", "launches", "sets", "cold", "median_us", "quartiles_us", "gb_per_s", "of_ceiling",
    "checked", "peers", "absent",
)  # fmt: skip


def measure_cases(
    session: bench.Session, cases: Sequence[Case], rounds: int, peers: Sequence[str] = bench.NAMES,
    launches: int = 0,
) -> Iterator[tuple[str, dict[str, Any]]]:  # fmt: skip
    """(name, row) of every case, as soon as it has been measured. ``launches``: as in BenchWishes."""
    arch = "sm_{}{}".format(*session.device.compute_capability)
    workers = max(1, min(8, (os.cpu_count() or 2) - 2))
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        waiting = [pool.submit(build_case, case, arch) for case in cases]
        for case, built in zip(cases, waiting, strict=True):
            start = time.monotonic()
            row = {"group": case.group, "shape": case.shape, "axes": case.axes, "dtype": case.dtype, "arch": arch}
            row |= measure_case(session, built.result(), rounds, peers, launches)
            print(f"{summary(case.name, row | ratios_of(row))} ({time.monotonic() - start:.1f} s)", flush=True)
            yield case.name, row


def build_case(case: Case, arch: str) -> Built | str:
    """The case's kernel, its cubin in the cache on disk, or what was said against it; runs in a process of its own."""
    try:
        built = tilegen.build(spec_text(case, arch))
        gpu.compile_cubin(built.source, arch, built.plan.name)
    except Exception as error:  # a bug in one kernel must not hide the others
        return describe_bug(error)
    return built


def measure_case(
    session: bench.Session, built: Built | str, rounds: int, peers: Sequence[str], launches: int = 0
) -> dict[str, Any]:
    """Right or not, the times and ratios; a kernel that fails leaves the error and the others go on."""
    if isinstance(built, str):
        return {"correct": False, "error": built}
    try:
        result = bench.bench_built(session, built, bench.BenchWishes(tuple(peers), rounds, launches=launches))
    except Exception as error:
        return {"correct": False, "error": describe_bug(error)}
    data = bench.result_data(result)
    variants = [f"{o.op} {o.variant}" for o in built.plan.operations]
    resourced = resources(compile_for(session.device, built))
    row = {"correct": True, "variants": variants, "code_sha256": hash_code(built.source)}
    return row | {key: data[key] for key in KEPT} | resourced


def describe_bug(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:400]


def ratios_of(row: dict[str, Any]) -> dict[str, Any]:
    return {"ratios": {name: peer["ratio"] for name, peer in row.get("peers", {}).items()}}
