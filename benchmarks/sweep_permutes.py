"""Boxes and ways of permutes of ragged rows, beside the pick, a copy and torch.compile: which bound was met?

    python benchmarks/sweep_permutes.py                      # the cases below; 2 minutes on 16 cores
    python benchmarks/sweep_permutes.py --case 3667x6732     # those of the 40 cases that have this in their name
    python benchmarks/sweep_permutes.py --list               # no GPU: the candidates, as the model ranks them
    python benchmarks/sweep_permutes.py --rank FILE          # no GPU: how far today's pick is from the best of a FILE

``by bytes``: as before rows of dst that begin at any element took words out of shared memory, with the box and the
threads that were picked then. All are built without proofs, compared with torch, and timed in one process in CUDA
graphs, in turns.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from cases import Case, ragged_cases, spec_text
from gpu_files import read_driver
from measure_cases import describe_bug
from measure_programs import TorchWatch, time_all
from unproved import build_kernel_unproved, open_workers

import tilegen
from tilegen import gpu
from tilegen.arch import ARCHES
from tilegen.bench.libraries import load_library
from tilegen.bench.measuring import paired_ratio
from tilegen.calling import kernel_of
from tilegen.dtypes import DTYPES
from tilegen.ops import ALL_OPS
from tilegen.ops.copy.ragged_rows import RaggedRows
from tilegen.ops.permute import model
from tilegen.ops.permute.choose import list_estimates
from tilegen.ops.permute.op import dims_of
from tilegen.ops.permute.tiles import TileChoice
from tilegen.pipeline import Built
from tilegen.spec import load
from tilegen.spec.data import WholeCall

ARCH = "sm_90a"
NAMES = ("3667x6732", "14894x9728", "2993x3005", "4829x1151", "116397x855", "515x34315", "18025x5134", "8543x510",
         "66x37x58810", "34x17x19x9x49x10", "220x30x461x37", "129x6x27x11x101")  # fmt: skip
BEST, BY_BYTES = 8, 3
BYTES = " by bytes"  # in the name of a way that takes vectors so
ROTATED_L2S = 4


@dataclass(frozen=True)
class Way:
    """A box, its threads, and whether vectors are taken element by element; the model's microseconds."""

    choice: TileChoice
    model_us: float
    by_bytes: bool = False

    def __str__(self) -> str:
        c = self.choice
        return f"{c.variant} {'x'.join(map(str, c.box))}, {c.threads}{BYTES if self.by_bytes else ''}"

    @property
    def pins(self) -> str:
        return f"variant: {self.choice.variant}, box: {list(self.choice.box)}, threads: {self.choice.threads}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="*", default=NAMES)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--rank", type=Path)
    args = parser.parse_args()
    if args.rank:
        print(say_regret(json.loads(args.rank.read_text(encoding="utf-8"))["cases"]))
        return 0
    cases = [case for case in ragged_cases() if any(f"_{name}_" in case.name for name in args.case)]
    ways = {case: list_ways(case) for case in cases}
    if args.list:
        print("\n".join(f"{case.name:44} {way.model_us:8.1f}  {way}" for case in cases for way in ways[case]))
        return 0
    device, torch = gpu.require_gpu(), load_library("torch")
    found: dict[str, Any] = {}
    with open_workers() as by_words, open_workers() as by_bytes:  # plans are kept within a process
        pools = {False: by_words, True: by_bytes}
        waiting = {case: [pools[way.by_bytes].submit(build_one, case, way) for way in ways[case]] for case in cases}
        for case in cases:
            built = [one.result() for one in waiting[case]]
            found[case.name] = measure(torch, device, case, list(zip(ways[case], built, strict=True)), args.rounds)
            print(f"{case.name}\n{tabulate(found[case.name])}", flush=True)
            if args.out:
                head = {"device": device.name, "driver": read_driver(), "date": datetime.date.today().isoformat()}
                args.out.write_text(json.dumps(head | {"cases": found}, indent=1) + "\n", encoding="utf-8")
    return 0


# ---------------------------------------------------------------- candidates
@contextmanager
def taking_bytes(is_so: bool) -> Iterator[None]:
    """What is planned within reads no words; the model knows of none, either."""
    with ExitStack() as stack:
        if is_so:
            stack.enter_context(mock.patch.object(RaggedRows, "find_words", lambda rows, inside: None))
            stack.enter_context(mock.patch.object(model, "find_ragged_vectors", lambda *given: 0))
            stack.enter_context(mock.patch.object(model, "list_even_threads", lambda *given: ()))
        yield


def list_ways(case: Case) -> list[Way]:
    """The pick and the next best boxes, each once; then those that were best before, by bytes and by words."""
    ways = rank(case, False)[:BEST]
    for way in rank(case, True)[:BY_BYTES]:
        ways += [way, Way(way.choice, way.model_us)]
    unique: dict[tuple[str, bool], Way] = {}
    for way in ways:
        unique.setdefault((way.pins, way.by_bytes), way)
    return list(unique.values())


def rank(case: Case, by_bytes: bool) -> list[Way]:
    """Boxes by the model's time, each with its best number of threads, and the first box with all of its numbers."""
    with taking_bytes(by_bytes):
        (call,) = load(spec_text(case, ARCH), ALL_OPS).ops  # type: ignore[union-attr]
        assert isinstance(call, WholeCall)
        found = list_estimates(dims_of(call), DTYPES[case.dtype].bytes, {}, ARCHES[ARCH])
    seen: set[Any] = set()
    ways: list[Way] = []
    for choice, estimate in found:
        if choice.box == found[0][0].box or choice.box not in seen:
            seen.add(choice.box)
            ways.append(Way(choice, estimate.seconds * 1e6, by_bytes))
    return ways


def build_one(case: Case, way: Way) -> Built | str:
    """A kernel whose cubin is kept on disk, or what was said against it."""
    text = spec_text(case, ARCH)
    try:
        with taking_bytes(way.by_bytes):
            call = f"axes: [{', '.join(map(str, case.axes))}]"
            if call not in text:
                raise ValueError(f"no {call} in the spec")
            built = build_kernel_unproved(tilegen.load(text.replace(call, f"{call}, {way.pins}"), ARCH))
        gpu.compile_cubin(built.source, built.plan.arch, built.plan.name)
    except Exception as error:  # a way that cannot be built is a row of the table
        return describe_bug(error)
    return built


def say_regret(measured: dict[str, list[dict[str, Any]]]) -> str:
    """The time of the pick over the best, of the candidates that were measured, for each case; and their mean."""
    lines, regrets = [], []
    for case in ragged_cases():
        known = {
            row["pins"]: row["us"] for row in measured.get(case.name, ()) if "us" in row and BYTES not in row["way"]
        }
        if known:
            ways = rank(case, False)
            pick = next(way for way in ways if way.pins in known)
            regrets.append(known[pick.pins] / min(known.values()))
            note = "" if pick is ways[0] else f", the model's first, {ways[0]}, was not measured"
            lines.append(f"{regrets[-1]:.3f}  {case.name:44} {pick}{note}")
    mean = math.exp(sum(map(math.log, regrets)) / len(regrets))
    return "\n".join([*lines, f"{mean:.4f}  geometric mean; {max(regrets):.3f} at most"])


# ---------------------------------------------------------------- times
def measure(
    torch: Any, device: gpu.Device, case: Case, ways: list[tuple[Way, Built | str]], rounds: int
) -> list[dict[str, Any]]:
    """A row for each way: microseconds, and the times of the pick, of a copy and of torch.compile over its own."""
    torch.cuda.empty_cache()
    torch.manual_seed(1)
    dtype = getattr(torch, case.dtype)
    each = 2 * math.prod(case.shape) * DTYPES[case.dtype].bytes
    count = max(2, min(32, math.ceil(ROTATED_L2S * device.l2_bytes / each)))
    draw = lambda: torch.randint(-128, 128, (each // 2,), dtype=torch.int8, device="cuda")  # noqa: E731
    inputs = [draw().view(dtype).reshape(case.shape) for _ in range(count)]
    outputs = [torch.empty([case.shape[a] for a in case.axes], dtype=dtype, device="cuda") for _ in range(count)]
    want = inputs[0].permute(case.axes).contiguous().view(torch.int8)
    compiled = torch.compile(lambda x, y: y.copy_(x.permute(case.axes)), dynamic=False)
    candidates: dict[str, Callable[[int], Any]] = {
        "copy": lambda k: outputs[k % count].view(-1).copy_(inputs[k % count].view(-1)),
        "torch.compile": lambda k: compiled(inputs[k % count], outputs[k % count]),
    }
    rows: list[dict[str, Any]] = []
    for number, (way, built) in enumerate(ways):
        rows.append({"way": str(way), "pins": way.pins, "model_us": round(way.model_us, 1)})
        try:
            if isinstance(built, str):
                raise ValueError(built)
            kernel = kernel_of(built)
            outputs[0].view(torch.int8).fill_(0x55)
            kernel(inputs[0], outputs[0])
            if not torch.equal(outputs[0].view(torch.int8), want):
                raise ValueError("its result is wrong")
            candidates[str(number)] = lambda k, kernel=kernel: kernel(inputs[k % count], outputs[k % count])
        except Exception as error:
            rows[-1]["error"] = describe_bug(error)
    begin = time.perf_counter()
    while time.perf_counter() - begin < 0.5:  # a device that is warm, and what torch compiles
        for run in (candidates["copy"], candidates["torch.compile"]):
            run(0)
        torch.cuda.synchronize()
    timed = time_all(TorchWatch(torch), candidates, rounds, count)
    for number, row in enumerate(rows):
        if (own := timed.rounds.get(str(number))) is not None:
            row["us"] = round(median(own), 2)
            for name, peer in (("of_copy", "copy"), ("of_compile", "torch.compile"), ("of_pick", "0")):
                row[name] = round(paired_ratio(own, timed.rounds[peer]).median, 4) if peer in timed.rounds else None
    return rows


def tabulate(rows: list[dict[str, Any]]) -> str:
    """A line for each way, the pick first, then the fastest."""
    lines = [f"  {'model':>7} {'us':>8} {'copy/t':>7} {'compile/t':>9} {'pick/t':>7}"]
    for row in [rows[0], *sorted(rows[1:], key=lambda row: row.get("us", 1e9))]:
        each = [row["model_us"], *(row.get(name, "-") for name in ("us", "of_copy", "of_compile", "of_pick"))]
        said = " ".join(f"{x!s:>{width}}" for x, width in zip(each, (7, 8, 7, 9, 7), strict=True))
        lines.append(f"  {said}  {row['way']} {row.get('error', '')}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
