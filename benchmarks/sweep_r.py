"""Steps 1 and 4 of the permutation chapter with every R that divides, measured: what R is worth.

    python benchmarks/sweep_r.py [--out docs/results/gemm/r_table-nvidia-h200.json]

Products of 4096 x 4096 x 4096, built without proofs and checked here against float64 of the first rows; timed in CUDA
graphs in turns, so that all of a step see the same clocks, on random normal data.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from gpu_files import hash_code, read_driver
from r_page import SIDE, STEPS, runs_of, spec_of_run
from sweep_gemm import build_spec, draw

from tilegen import gpu
from tilegen.bench.peers import load_library
from tilegen.calling import kernel_of

SETS = 4  # of inputs, by turns
_WORST = {"float32": 1e-5, "float16": 2e-3}  # of the norm of what is wanted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/results/gemm/r_table-nvidia-h200.json"))
    parser.add_argument("--rounds", type=int, default=11)
    args = parser.parse_args()
    device = gpu.require_gpu()
    steps = {step: time_step(step, args.rounds) for step in STEPS}
    head = {"device": device.name, "driver": read_driver(), "date": datetime.date.today().isoformat()}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(head | {"side": SIDE, "steps": steps}, indent=1) + "\n", encoding="utf-8")
    return 0


def time_step(step: str, rounds: int) -> list[dict[str, Any]]:
    """A row for each R: its time, over that of the chapter's R in the same round, and its error."""
    torch = load_library("torch")
    torch.manual_seed(1)
    dtype, is_turned = STEPS[step]["dtype"], STEPS[step]["b"] == "col"
    sets = [tuple(draw(torch, dtype, (SIDE, SIDE)) for _ in range(2)) for _ in range(SETS)]
    out = torch.empty(SIDE, SIDE, device="cuda", dtype=getattr(torch, dtype))
    inputs = [(a, b.t() if is_turned else b) for a, b in sets]
    want = inputs[0][0][:512].double() @ inputs[0][1].double()
    rows: dict[int, dict[str, Any]] = {}
    graphs: dict[int, Any] = {}
    for run in runs_of(step):
        rows[run] = {"run": run}
        try:
            built = build_spec(spec_of_run(step, run))
            kernel = kernel_of(built)
            out.fill_(float("nan"))
            kernel(*inputs[0], out)
            error = float(((out[:512].double() - want).norm() / want.norm()).item())
            if not error <= _WORST[dtype]:
                raise ValueError(f"off by {error:.3g}")
            rows[run] |= {"rms": float(f"{error:.3g}"), "code_sha256": hash_code(built.source)}
            graphs[run] = capture(torch, kernel, inputs, out)
        except Exception as problem:  # a kernel that cannot be built or run is a row of the table
            rows[run] |= {"error": f"{type(problem).__name__}: {problem}"[:200]}
    times: dict[int, list[float]] = {run: [] for run in graphs}
    for _ in range(rounds):
        for run, graph in graphs.items():
            times[run].append(time_graph(torch, graph))
    for run, each in times.items():
        rows[run] |= {"us": round(median(each[1:]), 1)}
        print(step, rows[run], flush=True)
    return list(rows.values())


def capture(torch: Any, kernel: Any, inputs: list[Any], out: Any) -> Any:
    """A graph of one launch on each set of inputs."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        kernel(*inputs[0], out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for a, b in inputs:
            kernel(a, b, out)
    return graph


def time_graph(torch: Any, graph: Any) -> float:
    """Microseconds of one launch."""
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / SETS * 1e3


if __name__ == "__main__":
    sys.exit(main())
