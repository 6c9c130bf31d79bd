"""Permutes of ragged rows beside a copy of as many bytes and torch.compile; docs/results/permutes/<device>.json.

    python benchmarks/measure_permutes.py                      # the 40 cases of cases.ragged_cases: some minutes
    python benchmarks/measure_permutes.py --name 10_ --out /tmp/found.json

One process; launches are in CUDA graphs on all sides, take turns, and rotate through buffers that are four times the
L2. Every output is poisoned before it is checked. The build takes none of the time: other processes do that before.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cases import ragged_cases
from gpu_files import gpu_file, read_driver
from measure_cases import measure_cases

from tilegen import bench, gpu
from tilegen.bench.measuring import GRAPH_LAUNCHES

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results" / "permutes"
PEERS = ("copy", "torch.compile")


def say_table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The cases as a table, and the least and the median of each ratio below.

    >>> row = {"correct": True, "bytes": 2000000, "median_us": 2.5, "peers": {
    ...     "copy": {"ratio": 0.8}, "torch.compile": {"ratio": 1.2}}}
    >>> print(say_table({"ragged_10_3x5_int8": row}))
    | case | MB | us | of a copy | of torch.compile |
    |---|--:|--:|--:|--:|
    | ragged_10_3x5_int8 | 2.0 | 2.50 | 0.800 | 1.200 |
    | least | | | 0.800 | 1.200 |
    | median | | | 0.800 | 1.200 |
    """
    lines = ["| case | MB | us | of a copy | of torch.compile |", "|---|--:|--:|--:|--:|"]
    ratios: dict[str, list[float]] = {name: [] for name in PEERS}
    for case, row in rows.items():
        if not row["correct"]:
            lines.append(f"| {case} | WRONG: {row['error']} | | | |")
            continue
        for name, found in ratios.items():
            if name in row["peers"]:
                found.append(row["peers"][name]["ratio"])
        own = (f"{row['peers'][name]['ratio']:.3f}" if name in row["peers"] else "absent" for name in PEERS)
        lines.append(f"| {case} | {row['bytes'] / 1e6:.1f} | {row['median_us']:.2f} | {' | '.join(own)} |")
    for word, pick in (("least", min), ("median", statistics.median)):
        picked = (f"{pick(found):.3f}" if found else "-" for found in ratios.values())
        lines.append(f"| {word} | | | {' | '.join(picked)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", help="the file, instead of docs/results/permutes/<device>.json")
    parser.add_argument("--name", nargs="*", default=[""], help="cases with one of these in their name alone")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    device = gpu.require_gpu()
    cases = [c for c in ragged_cases() if any(part in c.name for part in args.name)]
    target = Path(args.out) if args.out else RESULTS / gpu_file(device.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    rows: dict[str, Any] = {}
    today = datetime.date.today().isoformat()
    with bench.open_session() as session:
        for name, row in measure_cases(session, cases, args.rounds, PEERS, GRAPH_LAUNCHES):
            rows[name] = row
            found = {"device": device.name, "driver": read_driver(), "date": today, "cases": rows}
            target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")  # a run cut off leaves these
    print(say_table(rows))
    return 0 if all(row["correct"] for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
