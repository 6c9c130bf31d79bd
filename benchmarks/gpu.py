"""``make gpu``: verify every spec on a GPU, count what it does, time it and the cases; docs/results/<device>.json.

    python benchmarks/gpu.py                              # everything: about 15 minutes on an H200
    python benchmarks/gpu.py --part kernels loop          # specs/ and their counters, the loop of permutes
    python benchmarks/gpu.py --part kernels sanitizer --specs specs/copy_tile.yaml    # some of the specs
    python benchmarks/gpu.py --part programs              # specs with passes, all but their times: about 3 minutes
    python benchmarks/gpu.py --part cases --group odd     # some of the cases of cases.py
    python benchmarks/gpu.py --part cases --name 3210 210_  # those whose name has one of these in it
    python benchmarks/gpu.py --part compute               # specs that compute on rows, beside torch: about 3 minutes
    python benchmarks/gpu.py --part compute --name softmax

A part that is not run keeps what the file says of it, if the file is of this device. The file is written after every
case, so that a run that is cut off leaves what it found.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench_call import is_late, measure_calls
from cases import Case, all_cases
from compute_cases import ComputeCase, compute_cases
from counting import PER_INSTRUCTION, compare_counts, count_instructions, count_kernels, is_as_predicted
from gpu_files import gpu_file, hash_code, is_program, list_kernels, list_programs, read_driver
from launch_once import COUNTED_AT
from launch_ways import check_ways
from measure_cases import measure_cases
from measure_compute import measure_compute
from measure_kernels import LARGE, build_and_check, check_kernel, summary, time_kernel
from measure_products import measure_products
from measure_random import disassemble, explain_difference, measure_mixed, measure_random
from permute_loop import measure_permute_loop
from sanitizing import CLEAN, run_sanitizer
from soak import is_soaked, soak_kernels
from unproved import WORKERS, open_workers

import tilegen
from tilegen import bench, gpu
from tilegen.pipeline import Built, BuiltProgram
from tilegen.planner import plan_spec
from tilegen.proofs.fillings import is_decided
from tilegen.proofs.run_integers import find_run
from tilegen.render import render
from tilegen.spec.data import Spec
from tilegen.spec.outline import outline
from tilegen.verifying import compile_for

SUNK = "replicas"  # all of them load what only one adds, as the text has it: a compiler leaves the other loads out
ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
TABLES = "tables"  # what they hold decides it, or other elements: predictions are for other contents, or the least
PARTS = ("kernels", "sanitizer", "soak", "programs", "loop", "random", "mixed", "calls", "cases", "compute", "products")


def main() -> int:
    args = read_arguments()
    device = gpu.require_gpu()
    target = result_path(args.out, device)
    start = time.monotonic()
    programs = [path for path in args.specs if is_program(path)]
    specs = [path for path in args.specs if path not in programs]
    result = start_result(target, device)
    with bench.open_session() as session:
        result["ceiling_gb_per_s"] = round(session.ceiling_gb_per_s, 1)
        print(f"{device.name}: a copy of 1 GiB moves {session.ceiling_gb_per_s:.0f} GB/s", flush=True)
        if "kernels" in args.part and specs:
            for _ in run_kernels(session, specs, result, not args.untimed):
                write_result(target, result)
        if "sanitizer" in args.part:
            for _ in sanitize_kernels(specs, result):
                write_result(target, result)
        if "soak" in args.part:
            for path, said in soak_kernels(specs):
                result["kernels"][Path(path).stem]["soak"] = said
                print(f"{Path(path).stem}: {said}", flush=True)
                write_result(target, result)
        if "programs" in args.part and programs:
            for _ in run_programs(device, programs, result):
                write_result(target, result)
        if "loop" in args.part:
            result["warp_permute_loop"] = measure_permute_loop(device)
            write_result(target, result)
        if "random" in args.part:
            found = result["random"] = measure_random(device, first=args.first)
            print(f"{found['equal']} of {found['kernels']} random kernels as predicted", flush=True)
            write_result(target, result)
        if "mixed" in args.part:
            found = result["mixed"] = measure_mixed(device)
            print(f"{found['equal']} of {found['kernels']} kernels of mixed widths as predicted", flush=True)
            write_result(target, result)
        if "calls" in args.part:
            result["calls"] = list(measure_calls(pretend=False))
            write_result(target, result)
        if "cases" in args.part:
            for name, row in measure_cases(session, chosen_cases(args), args.rounds, args.peers):
                result.setdefault("cases", {})[name] = row
                write_result(target, result)
        if "compute" in args.part:
            known = result.get("compute", {}) if args.stale else {}
            computed = [c for c in compute_cases() if is_named(c.name, args) and not is_measured(c, known.get(c.name))]
            for name, row in measure_compute(session, computed, args.rounds):
                result.setdefault("compute", {})[name] = row
                write_result(target, result)
        if "products" in args.part:
            for name, row in measure_products(session, args.name):
                result.setdefault("products", {})[name] = row
                write_result(target, result)
    failures = list(list_failures(result))
    print(f"\n{time.monotonic() - start:.0f} s, {len(failures)} failures -> {target.name}")
    for failure in failures:
        print("  FAILED", failure)
    return 1 if failures else 0


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=str(RESULTS))
    parser.add_argument("--specs", nargs="*", default=[*list_kernels(), *list_programs()])
    parser.add_argument("--part", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--group", nargs="*", default=[], help="cases of these groups alone")
    parser.add_argument("--name", nargs="*", default=[""], help="cases with one of these in their name alone")
    parser.add_argument("--stale", action="store_true", help="of compute, those whose kernel was not measured alone")
    parser.add_argument("--untimed", action="store_true", help="kernels are right and counted, and take no time")
    parser.add_argument("--first", type=int, default=0, help="the number of the first random kernel")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--peers", nargs="*", choices=bench.NAMES, default=list(bench.NAMES))
    return parser.parse_args()


def chosen_cases(args: argparse.Namespace) -> list[Case]:
    return [c for c in all_cases() if (not args.group or c.group in args.group) and is_named(c.name, args)]


def is_named(name: str, args: argparse.Namespace) -> bool:
    return any(part in name for part in args.name)


def is_measured(case: ComputeCase, row: dict[str, Any] | None) -> bool:
    """Whether a row is of the kernel that this tree builds."""
    if row is None or not row["correct"]:
        return False
    plan = plan_spec(tilegen.load(case.text, row["arch"], case.params))
    return bool(hash_code(render(plan)) == row["code_sha256"])


# ---------------------------------------------------------------- the file
def result_path(folder: str, device: gpu.Device) -> Path:
    return Path(folder) / gpu_file(device.name)


def start_result(target: Path, device: gpu.Device) -> dict[str, Any]:
    """What is known of this device already, dated today."""
    for path in (target, RESULTS / target.name):
        if path.exists():
            known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            break
    else:
        known = {}
    head = {"device": device.name, "driver": read_driver(), "cuda": device.driver}
    return {**head, "date": datetime.date.today().isoformat(), **{k: v for k, v in known.items() if k in KEPT}}


KEPT = (
    "kernels", "programs", "launches", "per_instruction", "warp_permute_loop", "random", "mixed", "calls", "cases",
    "compute", "products",
)  # fmt: skip


def write_result(target: Path, result: dict[str, Any]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def list_failures(result: dict[str, Any]) -> list[str]:
    """Kernels and cases that are not right, and counters that differ from the prediction."""
    out = []
    parts = (result.get(part, {}) for part in ("kernels", "programs", "cases", "compute", "products"))
    for name, k in (row for part in parts for row in part.items()):
        if not k["correct"]:
            out.append(f"{name}: {k['error']}")
        for kernel, own in (k.get("passes") or {name: k}).items():
            out += list_miscounted(kernel, own.get("counters") or {})
        out += [f"{name} by {way}: {words}" for way, words in k.get("ways", {}).items() if words != "ok"]
        if "soak" in k and not is_soaked(k["soak"]):
            out.append(f"{name}: {k['soak']}")
        said = k.get("sanitizer", {}).items()
        out += [f"{name} {tool}: {words}" for tool, words in said if not CLEAN.fullmatch(words)]
    for way, said in result.get("launches", {}).items():
        out += [f"{name} by {way}: {words}" for name, words in said.items() if words != "ok"]
    others = [row for part in ("random", "mixed") for row in result.get(part, {}).get("others", {}).items()]
    found = ((n, what, row) for n, rows in others for what, row in rows.items() if not row["why"])
    out += [f"{n} {what}: predicted {row['predicted']}, counted {row['counted']}" for n, what, row in found]
    late = (row for row in result.get("calls", []) if is_late(row))
    out += [f"call with {r['arrays']}: {r['mean_us']} us, at most {r['limit_us']}" for r in late]
    instructions = result.get("per_instruction", {}).items()
    return out + [f"{n}: instructions differ from the prediction" for n, p in instructions if not p.get("agree")]


def list_miscounted(name: str, counters: Mapping[str, Any]) -> Iterator[str]:
    """Counters of a kernel that are not as predicted, nor said why, and those that were not counted."""
    for what, row in counters.items():
        if row["counted"] is None:
            yield f"{name} {what}: not counted"
        elif not is_as_predicted(row) and not row.get("why"):
            yield f"{name} {what}: predicted {row['predicted']}, counted {row['counted']}"


# ---------------------------------------------------------------- the specs
def run_kernels(
    session: bench.Session, specs: list[str], result: dict[str, Any], is_timed: bool
) -> Iterator[None]:  # fmt: skip
    """Every spec: right, launched in every way, counted; timed at last, the large ones at sizes at which it says much.

    Yields when a row has come. What is known of the kernels of other specs stays; where nothing is timed, and the code
    is the same, what is known of these too.
    """
    before, names = result.get("kernels", {}), {Path(path).name for path in specs}
    others = {Path(path).name for path in list_kernels()} - names
    kernels = {name: row for name, row in before.items() if row["spec"] in others}
    result["kernels"] = kernels
    builds = dict[str, Built]()
    with open_workers() as pool:
        for path, (built, checked) in zip(specs, pool.map(build_and_check, specs), strict=True):
            builds[path], name = built, built.plan.name
            row = {"spec": Path(path).name, "arch": built.plan.arch}
            row |= {"params": COUNTED_AT[name]} if name in COUNTED_AT else {}
            last = before.get(name, {})
            is_same = not is_timed and last.get("code_sha256") == checked["code_sha256"]
            kernels[name] = (last if is_same else {}) | row | checked
            print(summary(name, kernels[name]), flush=True)
            yield
        known = result.get("launches", {})
        ways = merge_ways(pool.map(check_ways, (list(builds.values())[k::WORKERS] for k in range(WORKERS))))
    result["launches"] = {way: {n: s for n, s in known.get(way, {}).items() if n in kernels} | said
                          for way, said in ways.items()}  # fmt: skip
    count_specs(session, builds, result)
    yield
    for name, row in time_specs(session, builds, kernels) if is_timed else ():
        kernels[name] = row
        print(summary(name, row), flush=True)
        yield
    result["kernels"] = dict(sorted(kernels.items(), key=lambda item: (item[0].endswith(" large"), item[0])))
    yield


def count_specs(session: bench.Session, builds: Mapping[str, Built], result: dict[str, Any]) -> None:
    """Put beside the kernel of every spec what ncu counts of it, and of some what it counts of each instruction."""
    counted = count_kernels(list(builds))
    for built in builds.values():
        row = result["kernels"][built.plan.name]
        row["counters"] = _with_witness(session.device, built, counted.get(built.plan.name))
    result["per_instruction"] = result.get("per_instruction", {}) | {
        b.plan.name: count_instructions(b, path) for path, b in builds.items() if b.plan.name in PER_INSTRUCTION
    }


def time_specs(
    session: bench.Session, builds: Mapping[str, Built], kernels: Mapping[str, dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, row) of every kernel that is right, with its times; then of the large ones."""
    for built in builds.values():
        row = kernels[built.plan.name]
        if row["correct"]:
            yield built.plan.name, row | time_kernel(session, built)
    names = {Path(path).name for path in builds}
    for path, params in LARGE:
        if Path(path).name in names:
            built = tilegen.build(ROOT / path, params=params)
            row = {"spec": Path(path).name, "arch": built.plan.arch, "params": params}
            row |= check_kernel(session.device, built)
            yield f"{Path(path).stem} large", row | (time_kernel(session, built) if row["correct"] else {})


def merge_ways(parts: Iterable[dict[str, dict[str, str]]]) -> dict[str, dict[str, str]]:
    """What was said of all kernels, by the way of a launch, from what was said of some each.

    >>> merge_ways([{"cupy": {"a": "ok"}}, {"cupy": {"b": "ok"}}])
    {'cupy': {'a': 'ok', 'b': 'ok'}}
    """
    found: dict[str, dict[str, str]] = {}
    for part in parts:
        for way, said in part.items():
            found.setdefault(way, {}).update(said)
    return found


def _with_witness(device: gpu.Device, built: Any, counted: dict[str, int] | None) -> dict[str, Any]:
    """Predictions beside counts; beside a count that differs what a second witness says of it, if there is one."""
    rows = compare_counts(built, counted)
    for what, row in rows.items():
        if row["counted"] is not None and not is_as_predicted(row):
            sass = disassemble(compile_for(device, built).image)
            why = explain_difference(what, row, counted or {}, sass)
            is_open = is_decided(built.spec) or find_run(built.spec)
            row["why"] = why or (TABLES if is_open else say_sunk(built.spec, what, row))
    return rows


def say_sunk(spec: Spec, what: str, row: Mapping[str, Any]) -> str:
    """SUNK where a compiler may have sunk loads of shared memory under the guard that lets one of several replicas act.

    "" elsewhere.
    """
    acts_once = any(call.accumulates for call in outline(spec).calls)
    return SUNK if acts_once and what == "shared_ld" and row["predicted"] % max(1, row["counted"]) == 0 else ""


def sanitize_kernels(specs: list[str], result: dict[str, Any]) -> Iterator[None]:
    """What compute-sanitizer sums up of a launch of each of these kernels; yields when a row has come."""
    for path, said in run_sanitizer(specs):
        print(f"{Path(path).stem}: {', '.join(f'{tool} {words}' for tool, words in said.items())}", flush=True)
        for name, row in result["kernels"].items():
            if row["spec"] == Path(path).name and not name.endswith(" large"):
                row["sanitizer"] = said
        yield


# ---------------------------------------------------------------- the specs with passes
def run_programs(device: gpu.Device, specs: list[str], result: dict[str, Any]) -> Iterator[None]:
    """Every spec with passes: right one by one, in a row and in every way of launching; each pass counted; sanitized;
    launched many times. Times are measure_programs.py's.

    Yields when something has come. What is known of other specs stays.
    """
    names = {Path(path).name for path in specs}
    rows = {name: row for name, row in result.get("programs", {}).items() if row["spec"] not in names}
    result["programs"], builds = rows, list[BuiltProgram]()
    with open_workers() as pool:
        for path, (built, checked) in zip(specs, pool.map(build_and_check, specs), strict=True):
            builds.append(built)
            name = built.plan.name
            sizes = {"params": COUNTED_AT[name]} if name in COUNTED_AT else {}
            rows[name] = {"spec": Path(path).name, "arch": built.plan.arch} | sizes | checked
            print(summary(name, rows[name]), flush=True)
            yield
        for way, said in merge_ways(pool.map(check_ways, [[built] for built in builds])).items():
            for name, words in said.items():
                rows[name].setdefault("ways", {})[way] = words
    counted = count_kernels(specs)
    for built in builds:
        for one in built.passes if rows[built.plan.name]["correct"] else ():
            counters = _with_witness(device, one, counted.get(one.plan.name))
            rows[built.plan.name]["passes"][one.plan.name]["counters"] = counters
    yield
    named = {row["spec"]: name for name, row in rows.items()}
    for tool, found in (("sanitizer", run_sanitizer(specs)), ("soak", soak_kernels(specs))):
        for path, words in found:
            rows[named[Path(path).name]][tool] = words
            print(f"{Path(path).stem}: {words}", flush=True)
            yield
    result["programs"] = dict(sorted(rows.items()))
    yield


if __name__ == "__main__":
    sys.exit(main())
