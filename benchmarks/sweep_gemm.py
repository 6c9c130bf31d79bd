"""Every recipe that the chooser of gemm ranks, measured beside cuBLAS: what its picks cost, and what the model gets wrong.

    python benchmarks/sweep_gemm.py --out FILE [--name 4096] [--most 64]

Kernels are built in other processes, without proofs, and checked here against float32; then timed in CUDA graphs, in
turns with torch.matmul, on random normal data.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import tilegen
from tilegen import gpu
from tilegen.bench.peers import load_library
from tilegen.calling import kernel_of
from tilegen.pipeline import Built, describe_build
from tilegen.planner import plan_spec
from tilegen.proofs import Proof
from tilegen.render import render

ROTATED = 200e6  # bytes of all sets of inputs


@dataclass(frozen=True)
class Shape:
    """A product of two matrices: sides and the type of all three."""

    m: int
    n: int
    k: int
    dtype: str = "bfloat16"

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}x{self.k} {self.dtype}"

    def spec(self, pins: dict[str, Any]) -> dict[str, Any]:
        """The spec: a row by row, b column by column, as Linear layers have them."""
        shapes = {"A": [self.m, self.k], "B": [self.k, self.n], "D": [self.m, self.n]}
        buffers = {name: {"scope": "global", "dtype": self.dtype, "shape": s} for name, s in shapes.items()}
        buffers["B"]["layout"] = "col"
        gemm = {"a": "A", "b": "B", "d": "D"} | pins
        return {"kernel": "product", "arch": "sm_90a", "buffers": buffers, "ops": [{"gemm": gemm}]}


SHAPES = (
    Shape(8192, 8192, 8192), Shape(4096, 4096, 4096), Shape(2048, 2048, 2048), Shape(1024, 1024, 1024),
    Shape(4096, 4096, 1024), Shape(128, 7168, 16384), Shape(3000, 5000, 2048), Shape(16384, 1024, 1024),
)  # fmt: skip


def list_pins(shape: Shape) -> list[tuple[dict[str, Any], float]]:
    """What pins each recipe, and the model's microseconds, the best first."""
    from tilegen.arch import ARCHES
    from tilegen.ops.gemm.choose import rank_recipes
    from tilegen.ops.gemm.problem import read_problem

    call = tilegen.load(shape.spec({})).whole
    assert call is not None
    ranked, _ = rank_recipes(read_problem(call), ARCHES["sm_90a"], call.fields)
    return [(r.recipe.fields(), r.time.total * 1e6) for r in ranked]


def build_one(shape: Shape, pins: dict[str, Any]) -> Built | str:
    try:
        spec = tilegen.load(shape.spec(pins))
        plan = plan_spec(spec)
        source, unproved = render(plan, ""), Proof((), 0)
        gpu.compile_cubin(source, plan.arch, plan.name)  # the cubin is kept
        return Built(source, describe_build(spec, plan, source, unproved), plan, spec, unproved)
    except Exception as error:  # a recipe that cannot be built is a row of the table
        return f"{type(error).__name__}: {error}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", default="")
    parser.add_argument("--most", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    device = gpu.require_gpu()
    shapes = [s for s in SHAPES if args.name in s.name]
    found: dict[str, list[dict[str, Any]]] = {}
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 2), get_context("spawn")) as pool:
        listed = {s: list_pins(s)[: args.most] for s in shapes}
        waiting = {s: [pool.submit(build_one, s, pins) for pins, _ in rows] for s, rows in listed.items()}
        for shape, rows in listed.items():
            built = [w.result() for w in waiting[shape]]
            found[shape.name] = list(time_recipes(shape, rows, built, args.rounds))
            best = max(found[shape.name], key=lambda row: row.get("ratio", 0))
            print(f"{shape.name}: picked {found[shape.name][0]}, best {best}", flush=True)
            head = {"device": device.name, "driver": device.driver, "date": datetime.date.today().isoformat()}
            args.out.write_text(json.dumps(head | {"shapes": found}, indent=1) + "\n", encoding="utf-8")
    return 0


def time_recipes(
    shape: Shape, rows: list[tuple[dict[str, Any], float]], built: list[Built | str], rounds: int
) -> Iterator[dict[str, Any]]:
    """A row for each recipe: the model's time, its own, and cuBLAS's time over it."""
    torch = load_library("torch")
    torch.manual_seed(1)
    dtype = getattr(torch, shape.dtype)
    each = 2 * (shape.m * shape.k + shape.n * shape.k + shape.m * shape.n)
    sets = [
        tuple(torch.randn(x, device="cuda").to(dtype) for x in ((shape.m, shape.k), (shape.n, shape.k)))
        + (torch.empty(shape.m, shape.n, device="cuda", dtype=dtype),)
        for _ in range(max(2, int(ROTATED / each) + 1))
    ]
    launches = max(2, min(100, int(4e-3 / (2.0 * shape.m * shape.n * shape.k / 6e14))))
    want = sets[0][0].float() @ sets[0][1].t().float()

    def capture(run: Any) -> Any:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            run(0)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for k in range(launches):
                run(k % len(sets))
        return graph

    def time_one(graph: Any) -> float:
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / launches * 1e3

    def cublas(k: int) -> Any:
        a, b, d = sets[k]
        return torch.matmul(a, b.t(), out=d)

    base = capture(cublas)
    for (pins, predicted), kernel_built in zip(rows, built, strict=True):
        row: dict[str, Any] = {"pins": pins, "predicted_us": round(predicted, 1)}
        if isinstance(kernel_built, str):
            yield row | {"error": kernel_built[:300]}
            continue
        try:
            kernel = kernel_of(kernel_built)
            sets[0][2].fill_(float("nan"))
            kernel(sets[0][0], sets[0][1].t(), sets[0][2])
            error = ((sets[0][2].float() - want).norm() / want.norm()).item()
            if not error < 4e-3:
                yield row | {"error": f"off by {error}"}
                continue
            graph = capture(lambda k, kernel=kernel: kernel(sets[k][0], sets[k][1].t(), sets[k][2]))
            pairs = []
            for _ in range(rounds):
                pairs.append((time_one(graph), time_one(base)))
            ratio = median(b / a for a, b in pairs[1:])
            yield row | {"us": round(median(a for a, _ in pairs[1:]), 2), "ratio": round(ratio, 4)}
        except Exception as problem:
            yield row | {"error": str(problem)[:300]}


if __name__ == "__main__":
    sys.exit(main())
