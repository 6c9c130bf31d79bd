"""Seconds and memory of each spec's kernels on the machine that runs PTX: docs/results/ptx/seconds.json, docs/ptx.md.

Nothing is proved: the kernels are planned, printed, compiled and run. Programs run pass by pass.

Usage: PYTHONPATH=.:tests python benchmarks/ptx_seconds.py
"""

from __future__ import annotations

import datetime
import json
import multiprocessing
import resource
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULT, PAGE = ROOT / "docs" / "results" / "ptx" / "seconds.json", ROOT / "docs" / "ptx.md"
_COLUMNS, _HEAD = 3, "| kernel | s " * 3 + "|"


def measure(stem: str) -> dict[str, Any]:
    """Of each kernel of a spec the seconds, and of the process the largest memory."""
    from tests.ptx.kernels import SPECS, draft
    from tilegen.errors import TilegenError
    from tilegen.gpu import print_ptx
    from tilegen.pipeline import kernels_of, load
    from tilegen.proofs.composed import find_composed
    from tilegen.ptx import parse_kernel
    from tilegen.verifying.on_ptx import verify_kernel_text

    seconds = {}
    for kernel in kernels_of(draft(load(SPECS / f"{stem}.yaml"))):
        if find_composed(kernel.spec):
            continue  # what it reads, other passes make: `make ptx` runs them together
        text = parse_kernel(print_ptx(kernel.source, kernel.plan.arch, kernel.plan.name), kernel.plan.name)
        start = time.perf_counter()
        try:
            verify_kernel_text(kernel, text, kernel.source, (1, 2, 3))
        except TilegenError as error:
            raise SystemExit(f"{kernel.plan.name}: {error}") from None
        seconds[kernel.plan.name] = round(time.perf_counter() - start, 2)
    return {"seconds": seconds, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}


def main() -> None:
    """Measure all, write the results and the table of the page."""
    from tilegen.gpu import find_compilers

    kernels, memory = dict[str, float](), dict[str, int]()
    for stem in sorted(path.stem for path in (ROOT / "specs").glob("*.yaml")):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = pool.apply(measure, (stem,))
        kernels |= found["seconds"]
        memory[stem] = found["mb"]
        print(stem, found, flush=True)
    said = {"date": datetime.date.today().isoformat(), "compiler": str(find_compilers()[0]), "seconds": kernels}
    RESULT.write_text(json.dumps(said | {"peak_mb": memory}, indent=1) + "\n")
    write_table(kernels)


def write_table(kernels: dict[str, float]) -> None:
    """The table on the page, in columns."""
    names = sorted(kernels)
    rows = -(-len(names) // _COLUMNS)
    lines = [_HEAD, "|---" * 2 * _COLUMNS + "|"]
    for k in range(rows):
        cells = [f"| {n} | {kernels[n]:.2f} " for n in names[k::rows]]
        lines.append("".join(cells) + "| | " * (_COLUMNS - len(cells)) + "|")
    text = PAGE.read_text(encoding="utf-8")
    start = text.index(_HEAD)
    end = text.find("\n\n", start)
    PAGE.write_text(text[:start] + "\n".join(lines) + ("\n" if end < 0 else text[end:]), encoding="utf-8")


if __name__ == "__main__":
    main()
