"""Other ways to share a long K than the one that is picked, beside the pick and cuBLAS: where does the time go?

    python benchmarks/sweep_split.py                          # all shapes; 2 minutes on 16 cores
    python benchmarks/sweep_split.py --shape 144x584x32728
    python benchmarks/sweep_split.py --list                   # no GPU: the candidates, as the model ranks them

Candidates are pinned: tiles that fit M and N (of the transpose, too) with a part for each multiprocessor, pairs of
CTAs and CTAs alone, a k-tile of 128, and descriptors whose lines come into the L2 by 256 bytes. They are built without
proofs, compared with float64, and timed in one process in CUDA graphs, in turns.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from gpu_files import read_driver
from measure_cases import describe_bug
from measure_programs import TorchWatch, prepare_product, time_all
from program_cases import SplitCase
from unproved import build_unproved, open_workers

import tilegen
from tilegen import gpu
from tilegen.arch import ARCHES
from tilegen.arch.data import typical_device
from tilegen.bench.libraries import load_library
from tilegen.bench.measuring import paired_ratio
from tilegen.calling import kernel_of
from tilegen.gpu import tensor_maps
from tilegen.ops import ALL_OPS
from tilegen.ops.gemm.choose import rank_recipes
from tilegen.ops.gemm.problem import MOST_PARTS, read_problem
from tilegen.pipeline import Built, BuiltProgram, kernels_of
from tilegen.spec import load
from tilegen.spec.data import WholeCall

ARCH = "sm_90a"
# Behind cuBLAS: rows that begin between lines of 128 bytes, and few tiles. Then the controls.
SHAPES = ((144, 584, 32728), (112, 768, 21336), (472, 120, 19736), (512, 4096, 14336), (64, 64, 100000),
          (128, 128, 65536), (2048, 7168, 18432))  # fmt: skip
FITTED, SMALL, WHOLE = 7, 3, 12  # how many candidates: of tiles that fit, of tiles of warps, of those without a split
LONG = 16  # times the larger of M and N: a long K
BY_256 = 3  # CU_TENSOR_MAP_L2_PROMOTION_L2_256B
Pins = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """Pins of a gemm, the model's microseconds, and whether the L2 takes 256 bytes at a time."""

    pins: Pins
    model_us: float
    by_256: bool = False

    def __str__(self) -> str:
        p = self.pins
        said = f"{p.get('variant', '')} {'x'.join(map(str, p.get('tile', ['auto'])))}"
        said += "".join(f" {key} {p[key]}" for key in ("split", "k_parts", "stages", "order", "panel") if key in p)
        said += " turned" if p.get("turned") else ""
        return said + (" pairs" if p.get("cluster", 1) > 1 else "") + (" by 256" if self.by_256 else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="*", default=["x".join(map(str, sides)) for sides in SHAPES])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    cases = [SplitCase(*map(int, name.split("x"))) for name in args.shape]
    ways = {case: list_ways(case) for case in cases}
    if args.list:
        print("\n".join(f"{case.name}  {way.model_us:8.1f}  {way}" for case in cases for way in ways[case]))
        return 0
    device, torch = gpu.require_gpu(), load_library("torch")
    found: dict[str, Any] = {}
    with open_workers() as pool:
        waiting = {case: [pool.submit(build_one, case, way.pins) for way in ways[case]] for case in cases}
        for case in cases:
            found[case.name] = measure(torch, device, case, ways[case], waiting[case], args.rounds)
            print(f"{case.name}\n{tabulate(found[case.name])}", flush=True)
            if args.out:
                head = {"device": device.name, "driver": read_driver(), "date": datetime.date.today().isoformat()}
                args.out.write_text(json.dumps(head | {"shapes": found}, indent=1) + "\n", encoding="utf-8")
    return 0


# ---------------------------------------------------------------- candidates
def list_ways(case: SplitCase) -> list[Way]:
    """The pick, and then the others, each once."""
    pick = rank(case, {})[0]
    ways = [pick, *vary(case, pick)]
    if case.k > LONG * max(case.m, case.n):
        fitted = sorted(fit_tiles(case), key=lambda way: way.model_us)
        wide = [way for way in fitted if way.pins["variant"] == "wgmma"][:FITTED]
        for number, way in enumerate(wide):
            ways += [way, *vary(case, way)] if number < FITTED // 2 else [way, *vary(case, way)[:1]]
        for way in [way for way in fitted if way.pins["variant"] != "wgmma"][:SMALL]:
            ways += [way, *vary(case, way)]
    else:
        ways += rank(case, {"split": 1})[:WHOLE]
        ways += vary(case, ways[-WHOLE])
        for more in ({"cluster": 1}, {"cluster": 2}, {"cluster": 2, "turned": True}):
            ways += rank(case, {"split": 2, **more})[:1]
    unique: dict[str, Way] = {}
    for way in ways:
        unique.setdefault(f"{sorted(way.pins.items(), key=str)} {way.by_256}", way)
    return list(unique.values())


def rank(case: SplitCase, pins: Pins) -> list[Way]:
    """The recipes that have these pins, the model's best first; none where the pins cannot be."""
    spec = case.spec()
    spec["ops"][0]["gemm"] |= pins
    (call,) = load(spec, ALL_OPS).ops  # type: ignore[union-attr]
    assert isinstance(call, WholeCall)
    ranked, _ = rank_recipes(read_problem(call), ARCHES[ARCH], call.fields)
    return [Way(one.recipe.fields() | {"split": one.recipe.split}, one.time.total * 1e6) for one in ranked]


def fit_tiles(case: SplitCase) -> Iterator[Way]:
    """The best recipe of each tile that cuts N, or M, evenly, with as many parts as multiprocessors have room for."""
    for turned in (False, True):
        m, n = (case.n, case.m) if turned else (case.m, case.n)
        for bm in (64, 128, 256):
            for cut in range(1, 7):
                bn = -(-n // cut // 8) * 8
                room = typical_device(ARCH).sm_count // (-(-m // bm) * -(-n // bn))
                for parts in {room, room // 2} if bn <= 256 else ():
                    if 1 < parts <= MOST_PARTS:
                        yield from rank(case, {"tile": [bm, bn, 64], "split": parts, "turned": turned})[:1]


def vary(case: SplitCase, way: Way) -> list[Way]:
    """The same in pairs of CTAs, or without, by k-tiles of 128, of the transpose, and with lines of 256 bytes."""
    pins, found = {k: v for k, v in way.pins.items() if k != "stages"}, list[Way]()
    if way.pins.get("load") != "tma":
        return found
    if way.pins["split"] > 1:
        bm, bn, _ = pins["tile"]
        other = 3 - pins.get("cluster", 1)
        for more in ({"cluster": other}, {"tile": [bm, bn, 128]}, {"turned": not pins.get("turned", False)}):
            found += rank(case, pins | more)[:1]
    return [*found, Way(way.pins, way.model_us, True)]


def build_one(case: SplitCase, pins: Pins) -> Built | BuiltProgram | str:
    """A build whose cubins are kept on disk, or what was said against it."""
    spec = case.spec()
    spec["ops"][0]["gemm"] |= pins
    try:
        built = build_unproved(tilegen.load(spec, ARCH))
        for one in kernels_of(built):
            gpu.compile_cubin(one.source, one.plan.arch, one.plan.name)
    except Exception as error:  # a way that cannot be built is a row of the table
        return describe_bug(error)
    return built


# ---------------------------------------------------------------- times
def measure(
    torch: Any, device: gpu.Device, case: SplitCase, ways: list[Way], waiting: list[Future[Any]], rounds: int
) -> list[dict[str, Any]]:
    """A row for each way: microseconds, and the pick's and cuBLAS's time over its own."""
    torch.cuda.empty_cache()
    torch.manual_seed(1)
    work = prepare_product(torch, device, case)
    candidates: dict[str, Callable[[int], Any]] = dict(work.peers)
    rows: list[dict[str, Any]] = []
    for number, (way, build) in enumerate(zip(ways, waiting, strict=True)):
        rows.append({"way": str(way), "pins": way.pins, "by_256": way.by_256, "model_us": round(way.model_us, 1)})
        try:
            built = build.result()
            if isinstance(built, str):
                raise ValueError(built)
            run = work.launch(kernel_of(built))
            candidates[str(number)] = promote(run) if way.by_256 else run
            rows[-1]["largest_error"] = work.check(candidates[str(number)])
        except Exception as error:
            candidates.pop(str(number), None)
            rows[-1]["error"] = describe_bug(error)
    if "0" not in candidates:
        return rows
    begin = time.perf_counter()
    while time.perf_counter() - begin < 1.0:  # a device that is warm
        candidates["cublas"](0)
        torch.cuda.synchronize()
    timed = time_all(TorchWatch(torch), candidates, rounds, work.sets)
    for number, row in enumerate(rows):
        if (own := timed.rounds.get(str(number))) is not None:
            row["us"] = round(median(own), 2)
            row["of_cublas"] = round(paired_ratio(own, timed.rounds["cublas"]).median, 4)
            row["of_pick"] = round(paired_ratio(own, timed.rounds["0"]).median, 4)
    return rows


def promote(run: Callable[[int], Any]) -> Callable[[int], Any]:
    """The same with descriptors that are encoded for 256 bytes at a time; a kernel keeps its own."""

    def run_promoted(k: int) -> Any:
        before = tensor_maps._PROMOTE_128_BYTES
        tensor_maps._PROMOTE_128_BYTES = BY_256
        try:
            return run(k)
        finally:
            tensor_maps._PROMOTE_128_BYTES = before

    return run_promoted


def tabulate(rows: list[dict[str, Any]]) -> str:
    """A line for each way, the pick first, then the fastest."""
    lines = [f"  {'model':>7} {'us':>8} {'cublas/t':>9} {'pick/t':>7}"]
    for row in [rows[0], *sorted(rows[1:], key=lambda row: row.get("us", 1e9))]:
        each = [row["model_us"], row.get("us", "-"), row.get("of_cublas", "-"), row.get("of_pick", "-")]
        said = " ".join(f"{x:>{width}}" for x, width in zip(each, (7, 8, 9, 7), strict=True))
        lines.append(f"  {said}  {row['way']} {row.get('error', '')}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
