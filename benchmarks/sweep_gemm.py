"""Every recipe that the chooser of gemm ranks, measured beside cuBLAS: what its picks and its model are worth.

    python benchmarks/sweep_gemm.py --out FILE [--name 4096] [--most 64]
    python benchmarks/sweep_gemm.py --out FILE --product "907x1288x1232 bfloat16 col col row" "96x64x20000 bfloat16"
    python benchmarks/sweep_gemm.py --out FILE --orders float32 float64
    python benchmarks/sweep_gemm.py --rank FILE  # no GPU: what FILE measured, as today's model ranks it

``--name``: those of SHAPES whose names have it. ``--product``: names of SHAPES, FEW_TILES or gemm_cases.py, as a whole.
``--orders``: products of these types in every storage order, the pick of each beside those of ORDERED_PINS alone; a
table of them is printed at the end.
Kernels are built in other processes, without proofs, and checked here against float64; then timed in CUDA graphs, in
turns with torch.matmul, on random normal data. The pick and the best are timed once more, all in turns (``together``):
one after another they run on a device that is not equally warm, which is more than what tells them apart.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from math import prod
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from gemm_cases import Product, all_products
from gemm_page import find_pick_and_best
from gpu_files import read_driver
from unproved import build_kernel_unproved

import tilegen
from tilegen import gpu
from tilegen.bench.libraries import load_library
from tilegen.calling import kernel_of
from tilegen.pipeline import Built

ROTATED = 200e6  # bytes of all sets of inputs
BEST = 3  # recipes that are timed together with the pick
WARM = 1.0  # seconds of cuBLAS before the first recipe, which else runs on a cooler and faster device than all others


SHAPES = (
    *(Product(n, n, n) for n in (8192, 4096, 2048, 1024)),
    Product(4096, 4096, 1024), Product(128, 7168, 16384), Product(3000, 5000, 2048), Product(16384, 1024, 1024),
    Product(1, 7168, 16384), Product(16, 7168, 16384), Product(64, 7168, 16384),
    Product(1000, 1000, 1000), Product(2048, 7168, 18432), Product(512, 4096, 14336),
    *(Product(n, n, n, pinned=(("variant", "mma_sync"),)) for n in (8192, 4096)),
    *(Product(n, n, n, "float32", orders=("row", "row", "row")) for n in (4096, 8192)),
    Product(4096, 4096, 4096, "float32", pinned=(("math", "tf32"),)),
    Product(4096, 4096, 4096, "float64"), Product(8192, 8192, 8192, "float8_e4m3fn", "bfloat16"),
    Product(8192, 8192, 8192, "int8", "int32"),
)  # fmt: skip
FEW_TILES = (Product(96, 64, 20000), Product(100, 100, 30000, "float32", orders=("row", "row", "row")))  # a long K
ORDERED = {
    dtype: [
        Product(*sides, dtype, orders=(a, b, "row"))
        for sides in ((4096, 4096, 4096), (2048, 2048, 2048), (3001, 2503, 1100)) for a in ("row", "col")
        for b in ("row", "col")
    ] for dtype in ("float32", "float64")
}  # fmt: skip
ORDERED_PINS: dict[str, list[dict[str, Any]]] = {
    "float32": [
        {"variant": "simt", "tile": list(tile), "stages": stages}
        for *tile, stages in ((128, 256, 16, 4), (128, 256, 16, 3), (256, 128, 16, 3), (128, 256, 16, 2),
                              (128, 256, 8, 5), (128, 256, 8, 3), (256, 128, 8, 3), (128, 128, 16, 3),
                              (128, 128, 16, 2), (128, 128, 8, 5), (128, 128, 8, 4), (128, 128, 8, 3))
    ],
    "float64": [
        {"variant": "mma_sync", "tile": list(tile), "stages": stages, "turned": turned, "load": "cp_async"}
        for *tile, stages, turned in ((64, 112, 16, 4, False), (96, 64, 16, 4, False), (64, 96, 16, 4, False),
                                      (64, 64, 16, 4, False), (64, 112, 16, 4, True), (96, 64, 16, 4, True),
                                      (64, 96, 16, 4, True))
    ],
}  # fmt: skip


def find_shapes(names: list[str]) -> list[Product]:
    """The products of these names. Raises SystemExit for one that there is not."""
    ordered = [p for products in ORDERED.values() for p in products]
    known = {p.name: p for p in (*ordered, *all_products(), *FEW_TILES, *SHAPES)}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"no product is called {', '.join(map(repr, unknown))}; python benchmarks/gemm_cases.py lists them")
    return [known[name] for name in names]


def list_pins(shape: Product, pins: dict[str, Any] | None = None) -> list[tuple[dict[str, Any], float]]:
    """What pins each recipe that has ``pins``, and the model's microseconds, the best first."""
    from tilegen.arch import ARCHES
    from tilegen.ops import ALL_OPS
    from tilegen.ops.gemm.choose import rank_recipes
    from tilegen.ops.gemm.problem import read_problem
    from tilegen.spec import load
    from tilegen.spec.data import WholeCall

    (call,) = load(shape.spec(pins), ALL_OPS).ops
    assert isinstance(call, WholeCall)
    ranked, _ = rank_recipes(read_problem(call), ARCHES["sm_90a"], call.fields)
    return [(r.recipe.fields(), r.time.total * 1e6) for r in ranked]


def list_ordered(shape: Product) -> list[tuple[dict[str, Any], float]]:
    """The pick, and the best recipe of each of ORDERED_PINS that carries the product out."""
    rows = list_pins(shape)[:1]
    for pins in ORDERED_PINS[shape.dtype]:
        rows += [row for row in list_pins(shape, pins)[:1] if row not in rows]
    return rows


def build_spec(given: dict[str, Any]) -> Built:
    """A kernel without proofs, whose cubin is kept."""
    built = build_kernel_unproved(tilegen.load(given))
    gpu.compile_cubin(built.source, built.plan.arch, built.plan.name)
    return built


def build_one(shape: Product, pins: dict[str, Any]) -> Built | str:
    try:
        return build_spec(shape.spec(pins))
    except Exception as error:  # a recipe that cannot be built is a row of the table
        return f"{type(error).__name__}: {error}"


def draw(torch: Any, dtype: str, shape: tuple[int, ...], order: str = "row") -> Any:
    """Random normal elements, or small integers; ``order`` "col": the last two dimensions lie the other way round."""
    if order == "col":
        return draw(torch, dtype, (*shape[:-2], shape[-1], shape[-2])).mT
    if dtype == "int8":
        return torch.randint(-127, 128, shape, device="cuda", dtype=torch.int8)
    return torch.randn(shape, device="cuda").to(getattr(torch, dtype))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rank", type=Path)
    parser.add_argument("--name", nargs="*")
    parser.add_argument("--product", nargs="*")
    parser.add_argument("--orders", nargs="*", choices=[*ORDERED])
    parser.add_argument("--most", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    if args.rank:
        ranked = rank_known(json.loads(args.rank.read_text(encoding="utf-8")))
        args.rank.write_text(json.dumps(ranked, indent=1) + "\n", encoding="utf-8")
        return 0
    if args.out is None:
        parser.error("say where the results go: --out FILE")
    device = gpu.require_gpu()
    shapes = [s for s in SHAPES if any(name in s.name for name in args.name or [""])]
    shapes = find_shapes(args.product) if args.product else shapes
    shapes = shapes if args.orders is None else [p for dtype in args.orders or ORDERED for p in ORDERED[dtype]]
    rows_of = list_pins if args.orders is None else list_ordered
    found: dict[str, list[dict[str, Any]]] = {}
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 2), get_context("spawn")) as pool:
        listed = {s: rows_of(s)[: args.most] for s in shapes}
        waiting = {s: [pool.submit(build_one, s, pins) for pins, _ in rows] for s, rows in listed.items()}
        for shape, rows in listed.items():
            built = [w.result() for w in waiting[shape]]
            found[shape.name] = time_recipes(shape, rows, built, args.rounds)
            picked, best = find_pick_and_best(found[shape.name]) or (found[shape.name][0],) * 2
            print(f"{shape.name}: picked {picked}, best {best}", flush=True)
            head = {"device": device.name, "driver": read_driver(), "date": datetime.date.today().isoformat()}
            args.out.write_text(json.dumps(head | {"shapes": found}, indent=1) + "\n", encoding="utf-8")
    if args.orders is not None:
        print(tabulate(found))
    return 0


def tabulate(found: dict[str, list[dict[str, Any]]]) -> str:
    """A line for each recipe of each product: the model's microseconds, its own, and cuBLAS's time over it."""
    lines = [f"{'product':42} {'recipe':34} {'model':>9} {'us':>9} {'cublas/t':>9} {'together':>9}"]
    for name, rows in found.items():
        for k, row in enumerate(rows):
            pins = row["pins"]
            said = f"{'x'.join(map(str, pins['tile']))} {pins.get('stages', 1)} stages"
            said += (" turned" if pins.get("turned") else "") + ("" if k else " (picked)")
            numbers = [row["predicted_us"], row.get("us"), row.get("ratio"), row.get("together", {}).get("ratio")]
            each = " ".join(f"{'-' if x is None else x:>9}" for x in numbers)
            lines.append(f"{name:42} {said:34} {each} {row.get('error', '')}")
    return "\n".join(lines)


def rank_known(result: dict[str, Any]) -> dict[str, Any]:
    """A file's rows in the order of today's model, with its times; recipes that there are no more are left out."""
    shapes: dict[str, list[dict[str, Any]]] = {}
    for name, rows in result["shapes"].items():
        measured = {json.dumps(row["pins"]): row for row in rows}
        ranked = [(json.dumps(pins), round(us, 1)) for pins, us in list_pins(*find_shapes([name]))]
        shapes[name] = [measured[pins] | {"predicted_us": us} for pins, us in ranked if pins in measured]
    return result | {"shapes": shapes}


def time_recipes(
    shape: Product, rows: list[tuple[dict[str, Any], float]], built: list[Built | str], rounds: int
) -> list[dict[str, Any]]:
    """A row for each recipe: the model's time, its own, and cuBLAS's time over it; of the pick and the best, as they
    are timed together too."""
    torch = load_library("torch")
    torch.manual_seed(1)
    tf32 = ("math", "tf32") in shape.pinned
    torch.backends.cuda.matmul.allow_tf32 = tf32
    elements = sum(prod(x) for x in shape.shapes.values())
    each = torch.empty(0, dtype=getattr(torch, shape.dtype)).element_size() * elements
    types = {"A": shape.dtype, "B": shape.dtype, "D": shape.result_type}
    sets = [
        tuple(draw(torch, types[x], shape.shapes[x], order) for x, order in zip("ABD", shape.orders, strict=True))
        for _ in range(max(2, int(ROTATED / each) + 1))
    ]
    pace = {"float64": 5e13, "float32": 4e13}.get(shape.dtype, 6e14)
    launches = max(1, min(100, int(4e-3 / (shape.flops / pace))))
    want = sets[0][0][..., :512, :].double() @ sets[0][1].double()
    one = torch.ones((), device="cuda")

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

    def compare(graphs: list[Any], rounds: int) -> list[dict[str, float]]:
        """Of all graphs but the first: microseconds, and the first one's time over theirs. The first round warms up."""
        first, *others = zip(*([time_one(graph) for graph in graphs] for _ in range(rounds + 1)), strict=True)
        return [
            {
                "us": round(median(times[1:]), 2),
                "ratio": round(median(b / a for a, b in zip(times[1:], first[1:], strict=True)), 4),
            }
            for times in others
        ]

    def cublas(k: int) -> Any:
        a, b, d = sets[k]
        if shape.dtype.startswith("float8"):
            return torch._scaled_mm(a, b, one, one, out_dtype=d.dtype, use_fast_accum=True)
        if shape.dtype == "int8":
            return torch._int_mm(a, b, out=d)
        return torch.matmul(a, b, out=d)

    def find_error(got: Any) -> float:
        return float(((got[..., :512, :].double() - want).norm() / want.norm()).item())

    theirs = find_error(cublas(0))

    base = capture(cublas)
    begin = time.perf_counter()
    while time.perf_counter() - begin < WARM:
        time_one(base)
    found: list[dict[str, Any]] = []
    graphs: dict[int, Any] = {}
    for k, ((pins, predicted), kernel_built) in enumerate(zip(rows, built, strict=True)):
        found.append({"pins": pins, "predicted_us": round(predicted, 1)})
        if isinstance(kernel_built, str):
            found[k]["error"] = kernel_built[:300]
            continue
        try:
            kernel = kernel_of(kernel_built)
            sets[0][2].fill_(float("nan") if sets[0][2].is_floating_point() else -1)
            kernel(*sets[0])
            torch.cuda.synchronize()
            error = find_error(sets[0][2])
            if not error <= (3 if tf32 else 2) * theirs:  # wgmma cuts float32 off where others round
                found[k]["error"] = f"off by {error}, cuBLAS by {theirs}"
                continue
            graphs[k] = capture(lambda at, kernel=kernel: kernel(*sets[at]))
            found[k] |= compare([base, graphs[k]], rounds)[0]
            found[k] |= {"rms": float(f"{error:.3g}"), "rms_cublas": float(f"{theirs:.3g}")}
        except Exception as problem:
            found[k]["error"] = str(problem)[:300]
    order = sorted((k for k in graphs if "ratio" in found[k]), key=lambda k: -found[k]["ratio"])
    again = [k for k in order if k == 0 or k in order[:BEST]]
    for k, row in zip(again, compare([base, *(graphs[k] for k in again)], 3 * rounds) if again else [], strict=True):
        found[k]["together"] = row
    return found


if __name__ == "__main__":
    sys.exit(main())
