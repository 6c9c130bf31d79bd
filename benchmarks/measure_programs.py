"""Specs that become several kernels, beside cuBLAS and PyTorch; docs/results/programs/<device>.json.

    python benchmarks/measure_programs.py                            # all: some minutes
    python benchmarks/measure_programs.py --group named long         # products whose K is split
    python benchmarks/measure_programs.py --group arrays --name sum  # sums, gradients
    python benchmarks/measure_programs.py --regret                   # every number of parts beside the chosen one

One process; launches are in CUDA graphs on all sides, take turns, and rotate through inputs of four times the L2.
Outputs are poisoned, then compared with float64. Kernels are built and proved in other processes meanwhile.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from gpu_files import gpu_file, hash_code, read_driver
from measure_cases import describe_bug
from program_cases import PARTS, ArrayCase, SplitCase, array_cases, long_cases, named_cases
from torch_programs import Work, prepare_arrays, time_reading
from unproved import build_unproved

import tilegen
from tilegen import gpu
from tilegen.bench.libraries import load_library
from tilegen.bench.measuring import Candidate, Timed, make_samplers, paired_ratio, take_turns, warm_up
from tilegen.calling import kernel_of
from tilegen.pipeline import Built, BuiltProgram, kernels_of

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results" / "programs"
GROUPS = ("named", "long", "arrays")
SAMPLE_US, MOST_LAUNCHES = 2000.0, 20
ROTATED_L2S = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the file, instead of docs/results/programs/<device>.json")
    parser.add_argument("--group", nargs="*", choices=GROUPS, default=GROUPS)
    parser.add_argument("--name", nargs="*", default=[""], help="cases with one of these in their name alone")
    parser.add_argument("--regret", action="store_true", help="measure every number of parts, too")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    device = gpu.require_gpu()
    target = args.out or RESULTS / gpu_file(device.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(target.read_text(encoding="utf-8")).get("cases", {}) if target.exists() else {}
    chosen = [c for c in list_cases(args.group) if any(part in c.name for part in args.name)]
    torch = load_library("torch")
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 2), get_context("spawn")) as pool:
        waiting = [(case, submit_builds(pool, case, args.regret)) for case in chosen]
        for case, builds in waiting:
            try:
                known[case.name] = measure_case(torch, device, case, builds, args.rounds)
            except Exception as error:  # the others are measured all the same
                known[case.name] = {"correct": False, "error": describe_bug(error)}
            print(case.name, say_row(known[case.name]), flush=True)
            today = datetime.date.today().isoformat()
            found = {"device": device.name, "driver": read_driver(), "date": today, "cases": known}
            target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")  # a run cut off leaves these
    return 0 if all(row["correct"] for row in known.values()) else 1


def list_cases(groups: Sequence[str]) -> list[SplitCase | ArrayCase]:
    by_group = {"named": named_cases, "long": long_cases, "arrays": array_cases}
    return [case for group in groups for case in by_group[group]()]


# ---------------------------------------------------------------- builds
Asked = str  # "auto", or a number of parts
Builds = Mapping[Asked, "Future[Built | BuiltProgram | str]"]


def submit_builds(pool: ProcessPoolExecutor, case: SplitCase | ArrayCase, with_regret: bool) -> Builds:
    """The builds of a case that were begun: as it stands, and with every number of parts where that is asked."""
    if isinstance(case, ArrayCase):
        return {"auto": pool.submit(build_one, case.source(), dict(case.params))}
    asked: list[int | str] = ["auto", *(PARTS if with_regret else ())]
    return {str(split): pool.submit(build_one, case.spec(split), {}, split == "auto") for split in asked}


def build_one(source: Any, params: dict[str, int], is_proved: bool = True) -> Built | BuiltProgram | str:
    """A build with its cubin in the cache on disk, or what was said against it; runs in a process of its own.

    Without proofs where other numbers of parts are only timed beside what is chosen: they are compared with float64.
    """
    try:
        built = (
            tilegen.build(source, "sm_90a", params)
            if is_proved
            else build_unproved(tilegen.load(source, "sm_90a", params))
        )
        for one in kernels_of(built):
            gpu.compile_cubin(one.source, one.plan.arch, one.plan.name)
    except Exception as error:
        return describe_bug(error)
    return built


def count_parts(built: Built | BuiltProgram) -> int:
    """How many CTAs share K."""
    picked = (c.picked for one in kernels_of(built) for c in one.spec.choices if c.question == "gemm")
    return int(next(picked, {}).get("split", 1) or 1)


# ---------------------------------------------------------------- one case
def measure_case(
    torch: Any, device: gpu.Device, case: SplitCase | ArrayCase, builds: Builds, rounds: int
) -> dict[str, Any]:
    """What a row of the results says. Raises ValueError where the kernel is wrong, or was not built."""
    built = builds["auto"].result()
    if isinstance(built, str):
        raise ValueError(built)
    torch.cuda.empty_cache()
    torch.manual_seed(1)
    work = prepare_product(torch, device, case) if isinstance(case, SplitCase) else prepare_arrays(torch, device, case)
    candidates: dict[str, Candidate] = {"tilegen": work.launch(kernel_of(built)), **work.peers}
    row: dict[str, Any] = {
        "correct": True, "passes": len(kernels_of(built)), "code_sha256": hash_code(built.source), "bytes": work.bytes,
    }  # fmt: skip
    row["largest_error"] = work.check(candidates["tilegen"])
    others = {name: future.result() for name, future in builds.items() if name != "auto"}
    if isinstance(case, SplitCase):
        row |= {"group": case.group, "parts": count_parts(built)}
    for name, other in others.items():
        if isinstance(other, str):
            continue  # parts that this product has not
        candidates[f"parts {name}"] = work.launch(kernel_of(other))
        work.check(candidates[f"parts {name}"])
    timed = time_all(TorchWatch(torch), candidates, rounds, work.sets)
    own = timed.rounds["tilegen"]
    row |= {"median_us": round(median(own), 3), "launches": timed.launches, "sets": work.sets, "rounds": rounds}
    ratios = {name: {"ratio": round(paired_ratio(own, taken).median, 4), "median_us": round(median(taken), 3)}
              for name, taken in timed.rounds.items() if name != "tilegen"}  # fmt: skip
    row["peers"] = {name: said for name, said in ratios.items() if not name.startswith("parts ")}
    by_parts = {name.removeprefix("parts "): said for name, said in ratios.items() if name.startswith("parts ")}
    if by_parts:
        row["by_parts"] = by_parts
        row["regret"] = round(max(0.0, 1 / min(said["ratio"] for said in by_parts.values()) - 1), 4)
    if isinstance(case, SplitCase):
        row["tflops"] = round(case.flops / median(own) / 1e6, 1)
    else:
        row["of_reading"] = round(median(own) / time_reading(torch, device, work.read_bytes), 4)
    return row


def prepare_product(torch: Any, device: gpu.Device, case: SplitCase) -> Work:
    """Inputs of four times the L2, cuBLAS, and the check of a candidate against float64."""
    each = 2 * case.k * (case.m + case.n)
    count = max(2, min(64, math.ceil(ROTATED_L2S * device.l2_bytes / each)))
    sets = [
        (
            torch.randn((case.m, case.k), device="cuda", dtype=torch.bfloat16),
            torch.randn((case.n, case.k), device="cuda", dtype=torch.bfloat16).t(),
        )
        for _ in range(count)
    ]
    out = torch.empty((case.m, case.n), device="cuda", dtype=torch.bfloat16)
    other = torch.empty_like(out)

    def launch(kernel: Any) -> Candidate:
        return lambda k: kernel(*sets[k % count], out)

    def check(candidate: Candidate) -> float:
        """The largest error in parts of the value, or of what values are on average; the same bits twice."""
        out.fill_(float("nan"))
        candidate(0)
        first = out.clone()
        candidate(0)
        torch.cuda.synchronize()
        if not torch.equal(first, out):
            raise ValueError("two launches differ")
        want = sets[0][0].double() @ sets[0][1].double()
        error = ((out.double() - want).abs() / want.abs().clamp(min=want.abs().mean().item())).max().item()
        if not error <= 2.0**-7:
            raise ValueError(f"an element is off by {error:.2e} of its value")
        return float(f"{error:.3e}")

    cublas = lambda k: torch.mm(*sets[k % count], out=other)  # noqa: E731
    return Work(launch, {"cublas": cublas}, check, count, each + 2 * case.m * case.n, each)


@dataclass(frozen=True)
class TorchWatch:
    """Measures what is enqueued on torch's current stream."""

    torch: Any

    def time_us(self, work: Callable[[], object], is_cold: bool = False) -> float:
        """Microseconds; the stream is busy while the host enqueues."""
        cuda = self.torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda._sleep(400_000)
        start.record()
        work()
        end.record()
        end.synchronize()
        return 1e3 * float(start.elapsed_time(end))

    def capture(self, works: Sequence[Callable[[], object]]) -> Callable[[], object]:
        """A graph of the works, in whose pool torch's arrays lie."""
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for work in works:
                work()
        return graph.replay  # type: ignore[no-any-return]

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()


def time_all(watch: TorchWatch, candidates: Mapping[str, Candidate], rounds: int, sets: int) -> Timed:
    """Times of graphs of all candidates, in turns over all sets of inputs."""
    fastest = min(warm_up(watch, run) for run in candidates.values())
    launches = max(2, min(MOST_LAUNCHES, int(SAMPLE_US / fastest)))
    samplers = {name: make_samplers(watch, run, sets, launches) for name, run in candidates.items()}
    return take_turns(watch, samplers, rounds, launches)


def say_row(row: Mapping[str, Any]) -> str:
    """A row on one line, for whoever watches."""
    if not row["correct"]:
        return f"WRONG {row['error']}"
    peers = ", ".join(f"{name} {said['ratio']:.3f}" for name, said in row["peers"].items())
    parts = {name: said["ratio"] for name, said in row.get("by_parts", {}).items()}
    more = "".join(f", {key} {row[key]}" for key in ("parts", "regret", "of_reading", "tflops") if key in row)
    return f"{row['median_us']} us, {peers}{more}{f', by parts {parts}' if parts else ''}"


if __name__ == "__main__":
    sys.exit(main())
