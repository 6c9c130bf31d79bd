"""Every tile that the model of permute enumerates, measured: how far is the pick from the best?

    python benchmarks/tune.py [--out FILE] [--name 021] [--cache default stream]
    python benchmarks/tune.py --group ragged --out F   # the ragged cases, which no other group has in it
    python benchmarks/tune.py --most 16                # those alone that the model ranks first
    python benchmarks/tune.py --most 16 --also FILE    # and the best four that FILE measured
    python benchmarks/tune.py --again [--out FILE]     # of an earlier file: the pick and the best three once more
    python benchmarks/tune.py --rank FILE              # no GPU: today's pick among the candidates that FILE measured

The file is docs/results/tiles/<device>.json; docs/performance.md has its table (benchmarks/results_page.py). It is
written after every case, so that a run that is cut off leaves what it found.
Candidates are planned and compiled in other processes (without the proofs: the pick itself is proved where it is
built), checked once against the pick's own output, then timed in turns with a copy; the best three and the pick again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cases import Case, all_cases, ragged_cases, spec_text
from gpu_files import gpu_file

from tilegen import bench, gpu
from tilegen.arch import ARCHES
from tilegen.bench.measuring import choose_launches, make_samplers, paired_ratio, plan_rotation, take_turns, warm_up
from tilegen.dtypes import DTYPES
from tilegen.ops.permute.choose import rank_candidates
from tilegen.ops.permute.op import dims_of
from tilegen.pipeline import load, settle
from tilegen.planner import plan_spec
from tilegen.render import launch_info, render

ROUNDS, FINAL_ROUNDS = 15, 25
BEST, ALSO = 3, 4
TILES = Path(__file__).resolve().parent.parent / "docs" / "results" / "tiles"


@dataclass(frozen=True)
class Compiled:
    """A candidate's kernel: its pins, its launch and its cubin."""

    pins: dict[str, Any]
    estimate_us: float
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    cubin: gpu.Cubin


def list_pins(
    case: Case, arch: str, caches: Sequence[str], turns: Sequence[str], most: int | None = None
) -> list[tuple[dict[str, Any], float]]:
    """The pins of every candidate, the model's own order, each with its estimate in microseconds."""
    call = load(spec_text(case, arch)).whole
    assert call is not None
    ranked = rank_candidates(dims_of(call), DTYPES[case.dtype].bytes, {}, ARCHES[arch])
    out = []
    for choice, estimate in ranked[:most]:
        for turn in turns if choice.variant == "tiled" and turns else [choice.turn]:
            for cache in caches or ["default"]:
                pins = {"variant": choice.variant, "box": list(choice.box), "threads": choice.threads}
                pins |= {"turn": turn} if choice.variant == "tiled" else {}
                out.append((pins | {"cache": cache}, estimate.seconds * 1e6))
    return out


def with_best(
    chosen: list[tuple[dict[str, Any], float]], known: dict[str, Any], most: int
) -> list[tuple[dict[str, Any], float]]:  # fmt: skip
    """The chosen pins, and of the best ``most`` of an earlier run those that are not among them."""
    listed = [pins for pins, _ in chosen]
    best = (json.loads(p) for p in list(known.get("all", {}))[:most])
    return [*chosen, *((pins, 0.0) for pins in best if pins not in listed)]


def compile_candidate(case: Case, arch: str, pins: dict[str, Any], estimate_us: float) -> Compiled | str:
    """One candidate, planned and compiled; runs in a process of its own."""
    words = ", ".join(f"{name}: {value}" for name, value in pins.items())
    text = spec_text(case, arch).replace(f"axes: {list(case.axes)}", f"axes: {list(case.axes)}, {words}")
    try:
        plan = plan_spec(settle(load(text)))
        info = launch_info(plan)
        x, y, z = info["grid"]
        cubin = gpu.compile_cubin(render(plan), arch, plan.name)
        return Compiled(pins, estimate_us, (x, y, z), plan.threads, info["dynamic_shared_bytes"], cubin)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]


def tune_case(
    session: bench.Session, case: Case, built: Sequence[Future[Compiled | str]], known: dict[str, Any] | None
) -> dict[str, Any]:
    """Every candidate's ratio to a copy (or what is ``known`` of them), the best again, and where the pick stands."""
    gpu.free_memory()
    size = case.array_bytes
    rotation = plan_rotation(2 * size, session.device.l2_bytes, session.device.memory_bytes)
    sets = [(gpu.allocate_bytes(size), gpu.allocate_bytes(size)) for _ in range(rotation.sets)]
    for k, (source, _) in enumerate(sets):
        gpu.fill_random(session.watch.instruments, source, k)
    compiled = [b.result() for b in built]
    failed = [c for c in compiled if isinstance(c, str)]
    kernels = [c for c in compiled if not isinstance(c, str)]
    runs = [load_candidate(c, sets) for c in kernels]
    wrong = check_all(runs, sets)

    def copy(k: int) -> None:
        gpu.copy_bytes(*sets[k % len(sets)])

    if known is None:
        first = time_together(session, [copy, *runs], rotation, ROUNDS)
        order = sorted(range(len(runs)), key=lambda k: -first[k + 1])
        again = list(dict.fromkeys([0, *order[:BEST]]))
    else:
        again = list(range(len(runs)))
    final = time_together(session, [copy, *(runs[k] for k in again)], rotation, FINAL_ROUNDS)
    ratios = {k: round(r, 4) for k, r in zip(again, final[1:], strict=True)}
    best = max(ratios, key=lambda k: ratios[k])
    return {
        "candidates": known["candidates"] if known else len(kernels), "failed": failed,
        "wrong": [kernels[k].pins for k in wrong], "picked": say_pins(kernels[0].pins), "picked_to_copy": ratios[0],
        "best": say_pins(kernels[best].pins), "best_to_copy": ratios[best],
        "picked_to_best": round(ratios[0] / ratios[best], 4), "rounds": FINAL_ROUNDS,
        "all": known["all"] if known else {say_pins(kernels[k].pins): round(first[k + 1], 4) for k in order},
    }  # fmt: skip


def say_pins(pins: dict[str, Any]) -> str:
    """Pins as one line: what a candidate is called in the file."""
    return json.dumps(pins)


def load_candidate(c: Compiled, sets: Sequence[tuple[Any, Any]]) -> Any:
    how = gpu.GpuLaunch(c.cubin.kernel, c.grid, (c.threads, 1, 1), ("X", "Y"), (), c.shared_bytes)
    function = gpu.load_function(c.cubin, how)

    def run(k: int) -> None:
        function(how.grid, how.block, sets[k % len(sets)], shared_mem=how.shared_bytes)

    return run


def check_all(runs: Sequence[Any], sets: Sequence[tuple[Any, Any]]) -> list[int]:
    """Candidates whose output differs from the first one's."""
    wrong, target = [], sets[0][1]
    expected = None
    for k, run in enumerate(runs):
        gpu.fill_bytes(target, 0xA5)
        run(0)
        expected = target.copy() if expected is None else expected
        if not bool((target == expected).all()):
            wrong.append(k)
    return wrong


def time_together(session: bench.Session, works: Sequence[Any], rotation: Any, rounds: int) -> list[float]:
    """The median of the ratios of the first one's times to each one's."""
    estimates = [warm_up(session.watch, w) for w in works]
    launches = choose_launches(estimates[:1])
    samplers = {str(k): make_samplers(session.watch, w, rotation.sets, launches) for k, w in enumerate(works)}
    times = take_turns(session.watch, samplers, rounds, launches, rotation.is_cold).rounds
    return [paired_ratio(times[str(k)], times["0"]).median for k in range(len(works))]


def tune_all(session: bench.Session, args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    arch = "sm_{}{}".format(*session.device.compute_capability)
    workers = max(1, min(14, (os.cpu_count() or 2) - 2))
    ragged = ragged_cases() if "ragged" in args.group else []
    named = [c for c in (*all_cases(), *ragged) if any(n in c.name for n in args.name)]
    chosen = [c for c in named if not args.group or c.group in args.group]
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        known = json.loads(Path(args.out).read_text(encoding="utf-8")) if args.again else {}
        also = json.loads(Path(args.also).read_text(encoding="utf-8")) if args.also else {}
        pins = [
            with_best(list_pins(c, arch, [], [], 1), known[c.name], BEST) if args.again else
            with_best(list_pins(c, arch, args.cache, args.turn, args.most), also.get(c.name, {}), ALSO)
            for c in chosen
        ]  # fmt: skip
        waiting = [
            [pool.submit(compile_candidate, c, arch, *p) for p in mine] for c, mine in zip(chosen, pins, strict=True)
        ]
        for case, built in zip(chosen, waiting, strict=True):
            start = time.monotonic()
            row = tune_case(session, case, built, known.get(case.name))
            seconds = time.monotonic() - start
            print(f"{describe_row(case.name, row)} ({seconds:.1f} s)", flush=True)
            yield case.name, row


def describe_row(name: str, row: dict[str, Any]) -> str:
    pick, best = row["picked_to_copy"], row["best_to_copy"]
    counts = f"{row['candidates']} candidates, {len(row['failed'])} failed, {len(row['wrong'])} wrong"
    return f"{name}: pick {pick} of copy, best {best} with {row['best']}, {counts}"


def rank_known(known: dict[str, Any], arch: str) -> dict[str, Any]:
    """Every case with today's pick, and the best, as the candidates were measured."""
    cases = {c.name: c for c in (*all_cases(), *ragged_cases())}
    for name, row in known.items():
        pick = say_pins(list_pins(cases[name], arch, [], [])[0][0])
        if pick not in row["all"]:
            print(f"{name}: today's pick was not measured: {pick}")
            continue
        best, highest = max(row["all"].items(), key=lambda r: float(r[1]))
        row |= {"picked": pick, "picked_to_copy": row["all"][pick], "best": best, "best_to_copy": highest}
        row |= {"picked_to_best": round(row["all"][pick] / highest, 4), "rounds": ROUNDS}
    return known


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--name", nargs="*", default=[""])
    parser.add_argument("--group", nargs="*", default=[])
    parser.add_argument("--cache", nargs="*", default=[])
    parser.add_argument("--turn", nargs="*", default=[])
    parser.add_argument("--also", default="", help="an earlier file, whose best candidates are measured too")
    parser.add_argument("--most", type=int, help="candidates of a case, of those that the model ranks first; all")
    args = parser.parse_args()
    if args.rank:
        file = Path(args.rank)
        ranked = rank_known(json.loads(file.read_text(encoding="utf-8")), "sm_90")
        file.write_text(json.dumps(ranked, indent=1) + "\n", encoding="utf-8")
        return 0
    rows: dict[str, Any] = {}
    with bench.open_session() as session:
        args.out = args.out or str(TILES / gpu_file(session.device.name))
        Path(args.out).parent.mkdir(parents=True, exist_ok=True)
        for name, row in tune_all(session, args):
            rows[name] = row
            Path(args.out).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    shares = [r["picked_to_best"] for r in rows.values()] or [1.0]
    print(f"{len(rows)} cases, the worst pick at {min(shares)} of the best, median {statistics.median(shares)}")
    return 1 if any(r["wrong"] or r["failed"] for r in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
