"""Traces on the GPU: orders of the proof in 32 CTAs, the longest waits beside predictions, and what stamps cost.

python benchmarks/trace_cases.py --out DIR [NAME ..]: writes DIR/<device>.json; of a few CTAs
DIR/<case>.svg and, as far as it shows, DIR/<case>.trace.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from gpu_files import hash_code
from measure_cases import describe_bug
from measure_kernels import resources

import tilegen
from tilegen import bench, gpu
from tilegen.bench.buffers import lay_out, load_passes
from tilegen.bench.measuring import Candidate, make_samplers, measure_spread, paired_ratio, take_turns, warm_up
from tilegen.pipeline import Built
from tilegen.plan import arrays, default_values
from tilegen.spec.outline import launch_of
from tilegen.tracing.files import keep_part, trace_text
from tilegen.tracing.picture import find_end, trace_picture
from tilegen.tracing.readings import Tracing, buffer_bytes, choose_clusters
from tilegen.tracing.running import Stamps, bind_traced, draw_inputs, judge_stamps, run_on_gpu, with_stamps
from tilegen.tracing.sites import Stamped, place_stamps
from tilegen.tracing.waits import waits_data
from tilegen.verifying import compile_for, launch_case

ROOT = Path(__file__).resolve().parent.parent
CTAS, STAMPS, KEPT_CTAS, SEED = 32, 4096, 2, 1
ROUNDS, LAUNCHES = 40, 20
PLAIN, SOME, ALL = "untraced", "32 CTAs traced", "all CTAs traced"


@dataclass(frozen=True)
class TraceCase:
    """A spec with params; ``is_traced``: orders are checked and a file is kept, else the cost alone is measured."""

    name: str
    spec: str
    params: Mapping[str, int]
    is_traced: bool = True


CASES = (
    TraceCase("attention 64x4096x64", "attention_hopper", {"BH": 64, "S": 4096, "D": 64}),
    TraceCase("attention 64x4096x128", "attention_hopper", {"BH": 64, "S": 4096, "D": 128}),
    TraceCase("attention 512x512x128", "attention_hopper", {"BH": 512, "S": 512, "D": 128}),
    TraceCase("attention causal 256x1000x128", "attention_hopper", {"BH": 256, "S": 1000, "D": 128, "causal": 1}),
    TraceCase("copy_staged 16384x4096", "copy_staged", {"M": 16384, "N": 4096}),
    TraceCase("hgemm_cluster 4096x4096x1024", "hgemm_cluster", {"M": 4096, "N": 4096, "K": 1024, "C": 128}),
    TraceCase("hgemm_cluster 4096", "hgemm_cluster", {"M": 4096, "N": 4096, "K": 4096, "C": 128}, False),
)


@dataclass(frozen=True)
class Prepared:
    """A proved kernel, and the same with stamps."""

    built: Built
    stamped: Stamped


def prepare(case: TraceCase, arch: str) -> Prepared:
    """All that needs no GPU; cubins stay on disk. Runs in a process of its own."""
    path = ROOT / "specs" / f"{case.spec}.yaml"
    own = tilegen.load(path).arch
    built = tilegen.build(path, own if own.startswith(arch) else arch, case.params)
    assert isinstance(built, Built)
    ready = Prepared(built, place_stamps(built.plan, STAMPS))
    for one in (built, with_stamps(built, ready.stamped)):
        gpu.compile_cubin(one.source, built.plan.arch, built.plan.name)
    return ready


def judge(built: Built, stamps: Stamps, path: Path) -> dict[str, Any]:
    """What the stamps say, and the file of a few CTAs. Runs in a process of its own."""
    traced = judge_stamps(built, stamps)
    kept = keep_part(traced.data, KEPT_CTAS)
    path.write_text(trace_text(keep_part(kept, KEPT_CTAS, find_end(kept))), encoding="utf-8")
    path.with_suffix("").with_suffix(".svg").write_text(trace_picture(kept) + "\n", encoding="utf-8")
    about = traced.data["otherData"]
    broken = [
        {"late_ns": b.late_ns, "first": str(b.claim.first), "second": str(b.claim.second)} for b in traced.orders.broken
    ]
    return waits_data(traced.data) | {
        "ghz": about["ghz"], "timer_resolution_ns": about["timer_resolution_ns"], "full": traced.full,
        "stamps": sum(t["stamps"] for t in about["threads"]), "broken": broken[:8], "file": path.name,
        "thread_ns": [t["ns"] for t in about["threads"]],
    }  # fmt: skip


def measure_cost(session: bench.Session, ready: Prepared) -> dict[str, Any]:
    """The kernel with and without stamps, in turns, in CUDA graphs, its outputs equal. Ratios: traced over plain."""
    built, device = ready.built, session.device
    case = default_values(built.spec.params)
    _, sets, rotation = lay_out(session, built, case, SEED)
    (plain,) = load_passes(session, built, case, sets)
    grid, cluster = launch_of(built.spec, case).grid, built.plan.cluster
    some, whole = choose_clusters(grid, cluster, CTAS), Tracing(tuple(grid), cluster, 1)
    candidates: dict[str, Candidate] = {PLAIN: plain}
    for name, tracing in ((SOME, some), (ALL, whole)):
        candidates[name] = _load_traced(device, built, ready.stamped, tracing, sets)
    written = [m.name for m in arrays(built.plan) if m.access == "out"]
    plain(0)
    session.watch.synchronize()
    want = {name: np.array(gpu.fetch_bytes(sets[0][name])) for name in written}
    for name, candidate in candidates.items():
        for array in written:
            gpu.fill_bytes(sets[0][array], gpu.POISON)
        candidate(0)
        session.watch.synchronize()
        for array in written:
            assert np.array_equal(want[array], gpu.fetch_bytes(sets[0][array])), f"{name} writes another {array}"
        warm_up(session.watch, candidate)
    samplers = {n: make_samplers(session.watch, c, rotation.sets, LAUNCHES) for n, c in candidates.items()}
    times = take_turns(session.watch, samplers, ROUNDS, LAUNCHES, rotation.is_cold).rounds
    found = {
        name: {"us": asdict(measure_spread(own)), "ratio": asdict(paired_ratio(times[PLAIN], own))}
        for name, own in times.items()
    }
    return {"launches": LAUNCHES, "rounds": ROUNDS, "sets": rotation.sets, "is_cold": rotation.is_cold, "times": found,
            "ctas": grid[0] * grid[1] * grid[2], "traced_ctas": len(some.list_ctas())}  # fmt: skip


def _load_traced(
    device: gpu.Device, built: Built, stamped: Stamped, tracing: Tracing, sets: Sequence[Mapping[str, Any]]
) -> Candidate:
    how = launch_case(built, default_values(built.spec.params))
    bind = bind_traced(compile_for(device, with_stamps(built, stamped)), how, tracing)
    buffer = gpu.allocate_bytes(buffer_bytes(stamped.plan, tracing))
    gpu.fill_bytes(buffer, 0)
    starts = [bind([*(images[name] for name in how.arguments), buffer]) for images in sets]
    return lambda k: starts[k % len(starts)]()


def run_case(session: bench.Session, case: TraceCase, ready: Prepared) -> tuple[dict[str, Any], Stamps | None]:
    """The row of a case, and the stamps of one launch where they are wanted."""
    built, values = ready.built, default_values(ready.built.spec.params)
    row: dict[str, Any] = {"spec": case.spec, "params": dict(case.params), "arch": built.plan.arch}
    row |= {"code_sha256": hash_code(built.source), "untraced": resources(compile_for(session.device, built))}
    row["traced"] = resources(compile_for(session.device, with_stamps(built, ready.stamped)))
    row["cost"] = measure_cost(session, ready)
    gpu.free_memory()
    if not case.is_traced:
        return row, None
    tracing = choose_clusters(launch_of(built.spec, values).grid, built.plan.cluster, CTAS)
    image, device = run_on_gpu(built, ready.stamped, tracing, draw_inputs(built, values, SEED))
    return row, Stamps(ready.stamped, tracing, np.array(image), device, SEED)


def main() -> None:
    """Measure the cases with one of the names in their names, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[""])
    parser.add_argument("--out", type=Path, required=True)
    wishes = parser.parse_args()
    wishes.out.mkdir(parents=True, exist_ok=True)
    cases = [case for case in CASES if any(name in case.name for name in wishes.names)]
    begun = time.perf_counter()
    workers = max(1, min(len(cases), (os.cpu_count() or 2) - 2))
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool, bench.open_session() as session:
        device = session.device
        arch = "sm_{}{}".format(*device.compute_capability)
        waiting = [pool.submit(prepare, case, arch) for case in cases]
        rows: dict[str, Any] = {}
        judged: dict[str, Future[dict[str, Any]]] = {}
        for case, waited in zip(cases, waiting, strict=True):
            try:
                rows[case.name], stamps = run_case(session, case, waited.result())
                if stamps is not None:
                    path = wishes.out / f"{case.name.replace(' ', '_')}.trace.json"
                    judged[case.name] = pool.submit(judge, waited.result().built, stamps, path)
            except Exception as error:  # a case that fails leaves the error, and the others go on
                rows[case.name] = {"spec": case.spec, "error": describe_bug(error)}
            print(case.name, f"{time.perf_counter() - begun:.0f} s", rows[case.name].get("error", ""), flush=True)
            for name, one in rows[case.name].get("cost", {}).get("times", {}).items():
                print(f"  {name}: {one['us']['median']:.2f} us, {one['ratio']['median']:.4f}", flush=True)
        for name, future in judged.items():
            try:
                rows[name]["trace"] = future.result()
            except Exception as error:
                rows[name]["error"] = describe_bug(error)
            print(
                name, rows[name].get("error") or rows[name]["trace"]["orders"], f"{time.perf_counter() - begun:.0f} s"
            )
        short = device.name.lower().replace(" ", "-")
        text = json.dumps({"device": device.name, "ctas": CTAS, "cases": rows}, indent=1, default=str)
        (wishes.out / f"{short}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
