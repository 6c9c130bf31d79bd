"""Tuning measured: gemm, softmax and layernorm tuned on this GPU; what goes wrong in between; a client that is killed.

    python benchmarks/tune_cases.py [--out DIR] [--seconds 40] [--name gemm] [--gpus 1] [--jobs 16]
    python benchmarks/tune_cases.py --again DIR [--out DIR2]   # on another loan: the best few of DIR take turns again

DIR (docs/results/tune) gets <device>.json, and the lines of each case beside it. The file is written after each case.
It needs a GPU, CuPy, a compiler and the extra `tune`; about 7 minutes of an H200 beside 16 cores.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_files import gpu_file

from tilegen.tuned import MEASURED, read_records
from tilegen.tuning import Devices, TuneResult, TuneWishes, tune

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "results" / "tune"
GEMM = """\
kernel: gemm
arch: sm_90a
params: {{M: {0}, N: {1}, K: {2}}}
buffers:
  A: {{scope: global, dtype: bfloat16, shape: [M, K]}}
  B: {{scope: global, dtype: bfloat16, shape: [K, N], layout: col}}
  D: {{scope: global, dtype: bfloat16, shape: [M, N]}}
ops:
  - gemm: {{a: A, b: B, d: D}}
"""
ROWS = """\
kernel: {kernel}
arch: sm_80
params:
  M: {{default: {rows}, multiple_of: 8}}
  N: {columns}
  R: {{choices: [1, 2, 4]}}
  T: {{choices: [{first}]}}
  {eps}
grid: {{bx: M // R}}
threads: T
buffers:
  X: {{scope: global, dtype: bfloat16, shape: [M, N]}}
  Y: {{scope: global, dtype: bfloat16, shape: [M, N]}}
  {arrays}
  x: {{scope: register, dtype: float32, shape: [R, N], layout: auto}}
  s: {{scope: register, dtype: float32, shape: [R, 1], layout: auto}}
ops:
  - cast: {{src: "X[bx*R : +R]", dst: x}}
"""
SOFTMAX = """\
  - reduce: {src: x, dst: s, axis: 1, op: max}
  - elementwise: {dst: x, expr: "exp2((x - s) * 1.4426950408889634)"}
  - reduce: {src: x, dst: s, axis: 1, op: sum}
  - elementwise: {dst: s, expr: "1.0 / s"}
  - elementwise: {dst: "Y[bx*R : +R]", expr: "x * s"}
"""
LAYERNORM = """\
  - reduce: {src: x, dst: s, axis: 1, op: sum}
  - elementwise: {dst: x, expr: "x - s / N"}
  - reduce: {expr: "x * x", dst: s, axis: 1, op: sum}
  - elementwise: {dst: s, expr: "rsqrt(s / N + eps)"}
  - elementwise: {dst: "Y[bx*R : +R]", expr: "fma(x * s, w, b)", with: {w: W, b: B}}
"""
AFFINE = "W: {scope: global, dtype: bfloat16, shape: [N]}\n  B: {scope: global, dtype: bfloat16, shape: [N]}"
MOVE = """\
kernel: move
arch: sm_80
params: {M: {default: 16384}, N: 4096, T: {choices: [256, 32, 64, 96, 128, 160, 192, 224, 288, 320, 384, 448, 512]}}
grid: {bx: M}
threads: T
buffers:
  X: {scope: global, dtype: float32, shape: [M, N]}
  Y: {scope: global, dtype: float32, shape: [M, N]}
ops:
  - copy: {src: "X[bx : +1]", dst: "Y[bx : +1]"}
"""


@dataclass(frozen=True)
class TuneCase:
    """A spec to tune. ``held_out``: no constant of the model was fitted to its sizes."""

    name: str
    text: str
    held_out: bool


def write_rows(kernel: str, rows: int, columns: int) -> str:
    """Softmax or layernorm of rows, whose threads and rows a CTA are open; the first are those of specs/."""
    most = max(64, max(min(256, -(-columns // 1024) * 64), -(-columns // 2048) * 32))
    threads = [most, *(t for t in (64, 128, 256, 512) if t != most)]
    norm = kernel == "layernorm"
    head = ROWS.format(
        kernel=kernel, rows=rows, columns=columns, first=", ".join(map(str, threads)),
        eps="eps: {dtype: float32, default: 1.0e-5}" if norm else "", arrays=AFFINE if norm else "",
    )  # fmt: skip
    return "\n".join(line for line in head.splitlines() if line.strip()) + "\n" + (LAYERNORM if norm else SOFTMAX)


def list_cases() -> list[TuneCase]:
    shapes = {(4096, 4096, 4096): False, (4096, 4096, 1024): False, (1536, 5120, 3072): True, (640, 2304, 6144): True}
    rows = [(8192, 1024), (4096, 4096)]
    return [
        *(TuneCase("gemm_{}x{}x{}".format(*s), GEMM.format(*s), held_out) for s, held_out in shapes.items()),
        *(TuneCase(f"{k}_{m}x{n}", write_rows(k, m, n), True) for k in ("softmax", "layernorm") for m, n in rows),
    ]


def describe_result(case: TuneCase, result: TuneResult, seconds: float) -> dict[str, Any]:
    """What a run found, as data. ``regret``: the time of what a plain build is over the best that was measured."""
    measured = [r for r in result.records if r.outcome == MEASURED]
    busy = sum(r.seconds for r in measured)
    plain = result.plain  # None where the time was over before it had its turn
    by_medians = round(plain.median_us / result.best.median_us, 4) if plain else None
    return {
        "held_out": case.held_out, "environment": vars(result.environment),
        "outcomes": dict(Counter(r.outcome for r in result.records)), "left_out": len(result.left_out),
        "untried": result.untried, "measured": result.measured, "seconds": round(seconds, 1),
        "device_seconds": round(busy, 1), "a_minute": round(60 * result.measured / seconds, 1),
        "a_minute_of_the_device": round(60 * len(measured) / busy, 1) if busy else None,
        "plain_us": plain and plain.median_us, "best_us": result.best.median_us,
        "regret": plain.ratio if plain and plain.final else by_medians,
        "best": result.best.name, "best_pins": result.best.pins, "notes": list(result.notes),
        "wrong": [[r.name, r.outcome, r.message] for r in result.records if r.outcome not in (MEASURED, "refused")],
    }  # fmt: skip


def tune_case(case: TuneCase, folder: Path, wishes: TuneWishes) -> dict[str, Any]:
    begun = time.monotonic()
    result = tune(case.text, folder / f"{case.name}.jsonl", wishes)
    return describe_result(case, result, time.monotonic() - begun)


# ---------------------------------------------------------------- what goes wrong
def tune_wrongly(folder: Path, jobs: int) -> dict[str, Any]:
    """One kernel hangs, one faults, one process is killed, in the middle; then the rest once more."""
    from tune_faults import WrongMeter

    from tilegen.tuning.gpu_bench import find_gpus

    known, measurers = find_gpus()
    wrongs = (("T = 96", "hang"), ("T = 160", "fault"), ("T = 224", "kill"))
    file, log = folder / "wrong.jsonl", folder / "wrong.log"
    found: dict[str, Any] = {}
    for turn, own in (("first", wrongs), ("again", ())):
        log.unlink(missing_ok=True)
        meter = WrongMeter(known.capability, own, str(log))
        begun = time.monotonic()
        result = tune(MOVE, file, TuneWishes(jobs=jobs, limit_seconds=5.0), Devices(meter, measurers))
        ran = Counter(log.read_text(encoding="utf-8").splitlines()) if log.exists() else Counter()
        found[turn] = {
            "seconds": round(time.monotonic() - begun, 1), "ran": dict(ran), "notes": list(result.notes),
            "outcomes": {r.name: [r.outcome, r.message] for r in result.records}, "best": result.best.name,
        }  # fmt: skip
    return found


def kill_client(folder: Path, jobs: int) -> dict[str, Any]:
    """A client is killed once it has some results; the next one goes on."""
    file, log = folder / "killed.jsonl", folder / "killed.log"
    command = [sys.executable, __file__, "--client", str(file), "--log", str(log), "--jobs", str(jobs)]
    client = subprocess.Popen(command)
    until = time.monotonic() + 90
    while time.monotonic() < until and client.poll() is None:
        if file.exists() and len(file.read_text(encoding="utf-8").splitlines()) >= 4:
            break
        time.sleep(0.02)
    client.send_signal(signal.SIGKILL)
    client.wait()
    kept = [r.name for r in read_records(file).records]
    time.sleep(1.0)
    again = subprocess.run(command, timeout=150).returncode
    ran = Counter(log.read_text(encoding="utf-8").splitlines())
    return {
        "kept_before": kept, "exit_code": again, "ran": dict(ran), "twice_of_kept": [n for n in kept if ran[n] > 1],
        "records": len({r.key for r in read_records(file).records}),
    }  # fmt: skip


def be_client(file: str, log: str, jobs: int) -> None:
    from tune_faults import WrongMeter

    from tilegen.tuning.gpu_bench import find_gpus

    known, measurers = find_gpus()
    tune(MOVE, file, TuneWishes(jobs=jobs), Devices(WrongMeter(known.capability, (), log), measurers))


# ---------------------------------------------------------------- everything
def run_all(args: argparse.Namespace, out: Path) -> int:
    wishes = TuneWishes(seconds=args.seconds, jobs=args.jobs, again=bool(args.again))
    found: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "gpus": args.gpus, "jobs": args.jobs, "cases": {}}

    def keep(parts: Mapping[str, Any]) -> None:
        found.update(parts)
        devices = [c["environment"]["device"] for c in found["cases"].values() if "environment" in c]
        file = gpu_file(devices[0]) if devices else "unknown.json"
        (out / file).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    for case in list_cases():
        if not any(part in case.name for part in args.name):
            continue
        if args.again:
            file = Path(args.again, f"{case.name}.jsonl")
            (out / file.name).write_bytes(file.read_bytes())
        try:
            row = tune_case(case, out, wishes)
            print(f"{case.name}: {json.dumps({k: v for k, v in row.items() if k != 'best_pins'})}", flush=True)
        except Exception as error:
            row = {"error": f"{type(error).__name__}: {error}"[:500]}
            print(f"{case.name}: {row}", flush=True)
        found["cases"][case.name] = row
        keep({})
    if args.again or args.name != [""]:
        return 0
    for name, work in (("wrong", tune_wrongly), ("killed", kill_client)):
        try:
            part = work(out, args.jobs)
        except Exception as error:
            part = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(f"{name}: {json.dumps(part)}", flush=True)
        keep({name: part})
    return 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=str(OUT))
    parser.add_argument("--again", default="", help="a folder of an earlier run: its best few take turns once more")
    parser.add_argument("--seconds", type=float, default=40.0, help="of each case, until no more candidate begins")
    parser.add_argument("--name", nargs="*", default=[""])
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--client", default="", help=argparse.SUPPRESS)
    parser.add_argument("--log", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(args.gpus)))
    if args.client:
        be_client(args.client, args.log, args.jobs)
        return 0
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    return run_all(args, out)


if __name__ == "__main__":
    sys.exit(main())
