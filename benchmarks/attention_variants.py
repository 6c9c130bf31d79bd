"""Other ways to lay attention_hopper out, beside the present one and cuDNN: right to float64, timed in turns.

python benchmarks/attention_variants.py --out DIR [NAME ..]: writes DIR/<device>.json. ``--check`` only builds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from gpu_files import gpu_file, hash_code
from measure_cases import describe_bug

import tilegen
from tilegen import bench
from tilegen.bench.libraries import load_library
from tilegen.bench.measuring import paired_ratio
from tilegen.calling import kernel_of
from tilegen.pipeline import Built

SPEC = Path(__file__).resolve().parent.parent / "specs" / "attention_hopper.yaml"
ROUNDS, LAUNCHES = 25, 4
Change = Sequence[tuple[str, str]]
PRESENT, CUDNN = "present", "cudnn"

HEAVY_FIRST: Change = (  # a causal CTA of late queries has the most blocks: of each head it begins first
    ("  - let: {blocks:", '  - let: {tile: "max(ceil(S / 128) - 1 - bx, 0)"}\n  - let: {blocks:'),
    ("bx + 1)", "tile + 1)"),
    ("Q[by, bx*128 : +128]", "Q[by, tile*128 : +128]"),
    ("row: bx*128 + wgid*64", "row: tile*128 + wgid*64"),
)
THREE: Change = (  # three warpgroups multiply, 192 queries a CTA
    ("grid: {bx: ceil(S / 128), by: BH}", "grid: {bx: ceil(S / 192), by: BH}"),
    ("min(ceil(S / 128), bx + 1)", "min(ceil(S / 128), (bx*192 + 191) // 128 + 1)"),
    ("shape: [128, D], layout: auto}\n  sk:", "shape: [192, D], layout: auto}\n  sk:"),
    ("{threads: 256, registers: 240}", "{threads: 384, registers: 160}"),
    ("Q[by, bx*128 : +128]", "Q[by, bx*192 : +192]"),
    ("row: bx*128 + wgid*64", "row: bx*192 + wgid*64"),
)


@dataclass(frozen=True)
class Shape:
    """Batch, heads, queries and keys, depth of a head."""

    batch: int
    heads: int
    length: int
    depth: int
    causal: int = 0

    def __str__(self) -> str:
        causal = " causal" if self.causal else ""
        return f"{self.batch}x{self.heads}x{self.length}x{self.depth}{causal}"


SHAPES: Mapping[Shape, Mapping[str, Change]] = {
    Shape(4, 16, 4096, 64): {"three": THREE},
    Shape(4, 16, 4096, 64, 1): {"three": THREE, "heavy first": HEAVY_FIRST},
    Shape(32, 16, 512, 128): {},
    Shape(16, 16, 1000, 128, 1): {"heavy first": HEAVY_FIRST},
    Shape(4, 16, 4096, 128, 1): {"heavy first": HEAVY_FIRST},
}


def change_text(text: str, changes: Change) -> str:
    """The spec with its changes; each of them is somewhere in it."""
    for old, new in changes:
        if old not in text:
            raise ValueError(f"attention_hopper has no {old!r} any more")
        text = text.replace(old, new)
    return text


def build_variant(shape: Shape, changes: Change) -> Built:
    """A variant, proved, at the sizes of a shape. Runs in a process of its own."""
    text = change_text(SPEC.read_text(encoding="utf-8"), changes)
    sizes = {"BH": shape.batch * shape.heads, "S": shape.length, "D": shape.depth, "causal": shape.causal}
    built = tilegen.build(text, params=sizes)
    assert isinstance(built, Built)
    return built


def measure_shape(shape: Shape, builts: Mapping[str, Built]) -> dict[str, Any]:
    """Times of all variants and of cuDNN, in turns, in CUDA graphs; ratios: cuDNN's and the present kernel's time over
    each one's.
    """
    torch = load_library("torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as sdpa

    torch.manual_seed(1)
    full = (shape.batch, shape.heads, shape.length, shape.depth)
    flat = (shape.batch * shape.heads, shape.length, shape.depth)
    sets = [[torch.randn(full, device="cuda", dtype=torch.bfloat16) for _ in range(3)] for _ in range(2)]
    scale = math.log2(math.e) / math.sqrt(shape.depth)
    outs = {name: torch.full(full, float("nan"), device="cuda", dtype=torch.bfloat16) for name in builts}

    def run_kernel(name: str) -> Callable[[int], Any]:
        kernel, out = kernel_of(builts[name]), outs[name]

        def run(k: int) -> Any:
            kernel(*(x.view(flat) for x in sets[k % 2]), out.view(flat), S=shape.length, scale=scale)
            return out

        return run

    def run_cudnn(k: int) -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return sdpa(*sets[k % 2], is_causal=bool(shape.causal))

    runs = {name: run_kernel(name) for name in builts} | {CUDNN: run_cudnn}
    with sdpa_kernel(SDPBackend.MATH):
        want = sdpa(*(x[:1, :2].double() for x in sets[0]), is_causal=bool(shape.causal))
    errors = {name: float((run(0)[:1, :2].double() - want).abs().max()) for name, run in runs.items()}
    wrong = [name for name in builts if not errors[name] <= 2 * errors[CUDNN]]
    if wrong:
        raise ValueError(f"errors of {wrong} are beyond twice those of cuDNN: {errors}")
    times = _time_in_turns(torch, runs)
    own = {name: median(us) for name, us in times.items()}
    return {
        "errors": errors, "us": own, "launches": LAUNCHES, "rounds": ROUNDS,
        "to_cudnn": {n: paired_ratio(times[n], times[CUDNN]).median for n in builts},
        "to_present": {n: paired_ratio(times[n], times[PRESENT]).median for n in builts},
        "code_sha256": {n: hash_code(b.source) for n, b in builts.items()},
    }  # fmt: skip


def _time_in_turns(torch: Any, runs: Mapping[str, Callable[[int], Any]]) -> dict[str, list[float]]:
    """Microseconds of a launch, of graphs of several, a round each in changing order."""
    graphs = {}
    for name, run in runs.items():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for k in range(3):
                run(k)
        torch.cuda.current_stream().wait_stream(side)
        graphs[name] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[name]):
            for k in range(LAUNCHES):
                run(k)
    times: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for turn in range(ROUNDS + 2):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graphs[name].replay()
            end.record()
            end.synchronize()
            if turn >= 2:  # the first are warm-up
                times[name].append(1e3 * start.elapsed_time(end) / LAUNCHES)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[""])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true")
    wishes = parser.parse_args()
    shapes = [shape for shape in SHAPES if any(name in str(shape) for name in wishes.names)]
    begun, rows, device = time.perf_counter(), dict[str, Any](), ""
    with ProcessPoolExecutor(max(1, min(12, (os.cpu_count() or 2) - 1)), get_context("spawn")) as pool:
        waiting = {
            shape: {n: pool.submit(build_variant, shape, c) for n, c in {PRESENT: (), **SHAPES[shape]}.items()}
            for shape in shapes
        }
        for shape, futures in waiting.items():
            try:
                builts = {name: future.result() for name, future in futures.items()}
                if not wishes.check:
                    with bench.open_session() as session:
                        device = session.device.name
                        rows[str(shape)] = measure_shape(shape, builts)
            except Exception as error:
                rows[str(shape)] = {"error": describe_bug(error)}
            row = rows.get(str(shape), {})
            print(shape, {k: row[k] for k in ("error", "us", "to_cudnn", "to_present") if k in row},
                  f"{time.perf_counter() - begun:.0f} s", flush=True)  # fmt: skip
    if wishes.out:
        wishes.out.mkdir(parents=True, exist_ok=True)
        found = {"device": device, "date": time.strftime("%Y-%m-%d"), "shapes": rows}
        (wishes.out / gpu_file(device)).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
