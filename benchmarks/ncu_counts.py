"""Counters of Nsight Compute, one value per launch: what the device has, and what a command's kernels counted."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
Counts = dict[str, int]  # counter -> what one launch counted


def list_counters() -> set[str]:
    """Every counter that ncu names for this device, without the roll-up (``.sum``); empty if it names none."""
    done = subprocess.run(["ncu", "--query-metrics"], capture_output=True, text=True)
    return set(re.findall(r"^\s*([a-z0-9]+__\w+)", done.stdout, re.M))


def count_launches(command: Sequence[str], metrics: Sequence[str], kernels: str) -> list[Counts]:
    """Run the command under ncu, clocks untouched: one dict per launch of a kernel whose name matches, in order."""
    ncu = ["ncu", "--clock-control", "none", "--csv", "--print-units", "base", "--kernel-name", f"regex:{kernels}"]
    done = subprocess.run([*ncu, "--metrics", ",".join(metrics), *command], cwd=ROOT, capture_output=True, text=True)
    launches: dict[int, Counts] = {}
    for row in read_csv(done.stdout):
        if row.get("Metric Name") in metrics and re.fullmatch(r"[\d,.]+", row["Metric Value"]):
            value = int(float(row["Metric Value"].replace(",", "")))
            launches.setdefault(int(row["ID"]), {})[row["Metric Name"]] = value
    if not launches:
        print(done.stdout[-3000:], done.stderr[-3000:], file=sys.stderr)
    return [launches[k] for k in sorted(launches)]


def count_in_batches(
    command: Sequence[str], numbers: Iterable[int], metrics: Sequence[str], kernels: str, size: int, until: float
) -> Iterator[tuple[int, Counts]]:
    """(number, counts) of each numbered launch, ``size`` of them under one ncu; no batch starts after ``until``."""
    left = list(numbers)
    while left and time.monotonic() < until:
        batch, left = left[:size], left[size:]
        found = count_launches([*command, "--launch", *map(str, batch)], metrics, kernels)
        if len(found) != len(batch):
            print(f"{len(found)} launches counted of {len(batch)}: this batch is left out", file=sys.stderr)
            continue
        yield from zip(batch, found, strict=True)


def read_csv(text: str) -> list[dict[str, str]]:
    """The rows of ncu's CSV, which starts at the first line in quotes."""
    lines = text.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    return list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))
