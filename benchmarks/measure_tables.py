"""Kernels whose places, counts or orders memory decides, beside PyTorch and a copy; docs/results/tables/<device>.json.

    python benchmarks/measure_tables.py                   # all: a minute
    python benchmarks/measure_tables.py --name embedding

One process; launches are in CUDA graphs on all sides, take turns, and rotate through inputs of four times the L2.
Outputs are poisoned, then compared with what PyTorch computes. Kernels are built without proofs: tests prove the specs.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from element_cases import CASES as ELEMENTS
from element_cases import Case, Work, count_sets
from gpu_files import gpu_file, hash_code, read_driver
from measure_cases import describe_bug
from measure_programs import TorchWatch, build_one, time_all
from torch_programs import time_reading

from tilegen import gpu
from tilegen.bench.libraries import load_library
from tilegen.bench.measuring import Candidate, paired_ratio
from tilegen.calling import kernel_of
from tilegen.pipeline import Built, BuiltProgram

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results" / "tables"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the file, instead of docs/results/tables/<device>.json")
    parser.add_argument("--name", nargs="*", default=[""], help="cases with one of these in their name alone")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    device, torch = gpu.require_gpu(), load_library("torch")
    target = args.out or RESULTS / gpu_file(device.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(target.read_text(encoding="utf-8"))["cases"] if target.exists() else {}
    chosen = {s: case for s, case in (TABLES | ELEMENTS).items() if any(part in s for part in args.name)}
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 2), get_context("spawn")) as pool:
        specs = {s: ROOT / "specs" / f"{SPECS.get(s, s)}.yaml" for s in chosen}
        builds = {s: pool.submit(build_one, specs[s], c.params, is_proved=False) for s, c in chosen.items()}
        for spec, case in chosen.items():
            torch.manual_seed(1)
            try:
                known[spec] = measure_case(torch, device, case, builds[spec].result(), args.rounds)
            except Exception as error:  # the others are measured all the same
                known[spec] = {"correct": False, "error": describe_bug(error)}
            print(spec, known[spec], flush=True)
            today = datetime.date.today().isoformat()
            found = {"device": device.name, "driver": read_driver(), "date": today, "cases": known}
            target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["correct"] for row in known.values()) else 1


def measure_case(
    torch: Any, device: gpu.Device, case: Case, built: Built | BuiltProgram | str, rounds: int
) -> dict[str, Any]:
    """A row of the results. Raises ValueError where the kernel is wrong, or was not built."""
    if isinstance(built, str):
        raise ValueError(built)
    work, kernel = case.prepare(torch, device), kernel_of(built)
    own: Candidate = lambda k: work.launch(kernel, k)  # noqa: E731
    work.check(own)
    copies = [torch.empty(work.moved_bytes // 2, dtype=torch.uint8, device="cuda") for _ in range(2 * work.sets)]
    copy: Candidate = lambda k: copies[2 * k % len(copies)].copy_(copies[(2 * k + 1) % len(copies)])  # noqa: E731
    timed = time_all(TorchWatch(torch), {"tilegen": own, "copy": copy, **work.peers}, rounds, work.sets)
    mine, watch = timed.rounds["tilegen"], TorchWatch(torch)
    eager = {name: median(watch.time_us(lambda: run(k)) for k in range(rounds)) for name, run in work.eager.items()}  # noqa: B023
    return {
        "correct": True, "params": dict(case.params), "code_sha256": hash_code(built.source), "rounds": rounds,
        "bytes": work.moved_bytes, "median_us": round(median(mine), 3),
        "of_reading": round(median(mine) / time_reading(torch, device, work.read_bytes), 4),
        "peers": {
            name: {"ratio": round(paired_ratio(mine, taken).median, 4), "median_us": round(median(taken), 3)}
            for name, taken in timed.rounds.items() if name != "tilegen"
        } | {name: {"ratio": round(us / median(mine), 4), "median_us": round(us, 3)} for name, us in eager.items()},
    }  # fmt: skip


def prepare_embedding(torch: Any, device: gpu.Device) -> Work:
    """16384 tokens, 4096 numbers each, of a vocabulary of 128256."""
    tokens, rows, width = 16384, 128256, 4096
    weight = torch.randn((rows, width), device="cuda").to(torch.bfloat16)
    sets = [torch.randint(0, rows, (tokens,), device="cuda", dtype=torch.int32) for _ in range(4)]
    out = [torch.empty((tokens, width), device="cuda", dtype=torch.bfloat16) for _ in sets]

    def check(run: Candidate) -> None:
        out[0].fill_(float("nan"))
        run(0)
        if not torch.equal(out[0], weight[sets[0].long()]):
            raise ValueError("a row is another one")

    peer = lambda k: torch.nn.functional.embedding(sets[k % 4], weight)  # noqa: E731
    moved = 2 * 2 * tokens * width
    return Work(
        lambda kernel, k: kernel(sets[k % 4], weight, out[k % 4]), check,
        {"torch": peer}, 4, moved, moved // 2,
    )  # fmt: skip


def prepare_permute(torch: Any, device: gpu.Device) -> Work:
    """16384 tokens of 4096 numbers, laid one behind the other by which of 64 experts each has."""
    tokens, width = 16384, 4096
    given = torch.randn((tokens, width), device="cuda").to(torch.bfloat16)
    experts = [torch.randint(0, 64, (tokens,), device="cuda") for _ in range(4)]
    order = [torch.argsort(one, stable=True) for one in experts]
    sets, out = [one.int() for one in order], [torch.empty_like(given) for _ in order]

    def check(run: Candidate) -> None:
        out[0].fill_(float("nan"))
        run(0)
        if not torch.equal(out[0], given[order[0]]):
            raise ValueError("a token lies at another place")

    moved = 2 * 2 * tokens * width
    return Work(
        lambda kernel, k: kernel(sets[k % 4], given, out[k % 4]), check,
        {"torch": lambda k: torch.index_select(given, 0, order[k % 4])}, 4, moved, moved // 2,
    )  # fmt: skip


def prepare_append(torch: Any, device: gpu.Device) -> Work:
    """Keys and values of 16384 tokens of 8 heads of 128 into pages of 16."""
    tokens, width, pages = 16384, 1024, 4096
    count = count_sets(device, 8 * tokens * width)
    shape = (tokens, width)
    given = [[torch.randn(shape, device="cuda").to(torch.bfloat16) for _ in range(2)] for _ in range(count)]
    caches = [torch.zeros((pages * 16, width), device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    slots = [torch.randperm(pages * 16, device="cuda")[:tokens].int() for _ in range(count)]
    wide = [one.long() for one in slots]

    def check(run: Candidate) -> None:
        for cache in caches:
            cache.fill_(float("nan"))
        run(0)
        for cache, rows in zip(caches, given[0], strict=True):
            want = torch.full_like(cache, float("nan"))
            want[wide[0]] = rows
            if not torch.equal(cache.view(torch.int16), want.view(torch.int16)):
                raise ValueError("a row went elsewhere")

    def peer(k: int) -> None:
        for cache, rows in zip(caches, given[k % count], strict=True):
            cache.index_copy_(0, wide[k % count], rows)

    moved = 2 * 2 * 2 * tokens * width
    return Work(
        lambda kernel, k: kernel(slots[k % count], *given[k % count], *caches, PAGES=pages),
        check, {"torch": peer}, count, moved, moved // 2,
    )  # fmt: skip


def prepare_cross_entropy(torch: Any, device: gpu.Device) -> Work:
    """16384 rows of 32064 logits."""
    rows, columns = 16384, 32064
    logits = torch.randn((rows, columns), device="cuda").to(torch.bfloat16)
    labels = torch.randint(0, columns, (rows,), device="cuda", dtype=torch.int32)
    labels[::7] = -100
    wide = labels.long()
    loss, total = (torch.empty(rows, device="cuda") for _ in range(2))

    def check(run: Candidate) -> None:
        loss.fill_(float("nan"))
        run(0)
        want = torch.nn.functional.cross_entropy(logits.float(), wide, reduction="none")
        if not torch.allclose(loss, want, rtol=1e-4, atol=1e-4):
            raise ValueError(f"a loss is off by {(loss - want).abs().max().item():.2e}")

    compiled = torch.compile(lambda x, y: torch.nn.functional.cross_entropy(x.float(), y, reduction="none"))
    moved = 2 * rows * columns
    return Work(
        lambda kernel, k: kernel(logits, labels, loss, total), check,
        {"torch.compile": lambda k: compiled(logits, wide)}, 1, moved, moved,
    )  # fmt: skip


TABLES = {
    "embedding": Case({"V": 128256, "D": 4096, "T": 16384}, prepare_embedding),
    "token_permute": Case({"V": 16384, "D": 4096, "T": 16384}, prepare_permute),
    "kv_append": Case({"T": 16384, "PAGES": 4096}, prepare_append),
    "cross_entropy": Case({"M": 16384, "V": 32064}, prepare_cross_entropy),
}
SPECS = {"token_permute": "embedding"}  # of cases that are called otherwise

if __name__ == "__main__":
    sys.exit(main())
