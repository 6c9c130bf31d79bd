"""The products of gemm_cases.py beside cuBLAS, and some beside Triton and torch.compile: right, then timed in turns.

    python benchmarks/measure_gemm.py --out FILE [--group squares odd] [--name 4096] [--rounds 15] [--against cublas]

FILE keeps what it has of other products.
Each is built in another process without proofs (the tests have them for the specs of specs/), checked on rows in
float64, and timed in CUDA graphs on random normal data. bf16 work is limited by power: only ratios mean something.
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
from typing import Any

from gemm_cases import Product, all_products
from gemm_page import say_recipe
from gpu_files import hash_code, read_driver
from sweep_gemm import build_one

from tilegen import bench
from tilegen.bench.results import result_data

SAMPLE_US, MOST_LAUNCHES = 4000.0, 20
PACES = {"float64": 5e7, "float32": 4e7}  # operations in a microsecond, else of tensor cores
PEERS = {"squares": ("cublas", "triton"), "odd": ("cublas", "triton"), "few rows": ("cublas", "triton"),
         "types": ("cublas", "triton")}  # fmt: skip
COMPILED = ("8192x8192x8192 bfloat16", "4096x4096x4096 bfloat16", "2048x2048x2048 bfloat16", "1024x1024x1024 bfloat16")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--group", nargs="*", help="groups of gemm_cases.py; all")
    parser.add_argument("--name", nargs="*", help="parts of names; all")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--against", nargs="*", help="peers; else those of each group, and torch.compile for some")
    args = parser.parse_args()
    products = [p for p in all_products() if p.group in (args.group or [p.group])]
    products = [p for p in products if any(name in p.name for name in args.name or [""])]
    found: dict[str, Any] = json.loads(args.out.read_text(encoding="utf-8"))["products"] if args.out.exists() else {}
    with (
        ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 2), get_context("spawn")) as pool,
        bench.open_session() as session,
    ):
        waiting = [pool.submit(build_one, p, {}) for p in products]
        for product, future in zip(products, waiting, strict=True):
            built = future.result()
            if isinstance(built, str):
                found[product.name] = {"group": product.group, "error": built}
            else:
                found[product.name] = {"group": product.group} | _measure(session, product, built, args)
            print(product.name, _say(found[product.name]), flush=True)
            head = {"device": session.device.name, "driver": read_driver(), "date": datetime.date.today().isoformat()}
            args.out.write_text(json.dumps(head | {"products": found}, indent=1) + "\n", encoding="utf-8")
    return 1 if any("error" in row for row in found.values()) else 0


def _measure(session: Any, product: Product, built: Any, args: Any) -> dict[str, Any]:
    """A product's row; a kernel that is wrong is an error of the table, and of the run."""
    compiled = ("torch.compile",) if product.name in COMPILED else ()
    peers = tuple(args.against) if args.against else (*PEERS.get(product.group, ("cublas",)), *compiled)
    each = product.flops / PACES.get(product.dtype, 6e8)
    launches = max(2, min(MOST_LAUNCHES, int(SAMPLE_US / max(each, 1.0))))
    wishes = bench.BenchWishes(peers, args.rounds, is_verified=True, launches=launches)
    try:
        data = result_data(bench.bench_built(session, built, wishes))
    except Exception as error:  # the others are measured all the same
        return {"error": f"{type(error).__name__}: {error}"}
    kept = ("launches", "rounds", "sets", "cold", "median_us", "tflops", "of_ceiling", "rms_error", "largest_error",
            "peers", "absent", "reached_tflops", "checked")  # fmt: skip
    picked = next(c.picked for c in built.spec.choices if c.question == "gemm")
    code = {"picked": picked, "code_sha256": hash_code(built.source)}
    return code | {name: data[name] for name in kept if name in data}


def _say(row: dict[str, Any]) -> str:
    if "error" in row:
        return row["error"][:200]
    ratios = {name: peer["ratio"] for name, peer in row["peers"].items()}
    errors = {n: round(row["rms_error"] / p["rms_error"], 2) for n, p in row["peers"].items() if p.get("rms_error")}
    return f"{say_recipe(row['picked'])}: {row['median_us']} us, {ratios}, rms {errors}, absent {row['absent']}"


if __name__ == "__main__":
    sys.exit(main())
