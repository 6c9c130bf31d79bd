"""What a spec's kernel did, as Nsight Compute (``ncu``) counts it, beside what ``tilegen explain`` predicts.

Clocks are left alone. Without ncu nothing is counted, and the results say so.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilegen.pipeline import Built

ROOT = Path(__file__).resolve().parent.parent
SHARED = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
GLOBAL = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
COUNTERS = {f"shared_{k}": SHARED.format(k) for k in ("ld", "st", "ldsm", "stsm", "ldgsts")} | {
    f"global_{k}": GLOBAL.format(k) for k in ("ld", "st")
}
# What the hardware itself counts of loads and stores, arbitration with it; ncu reckons those above from addresses.
WITNESSES = {
    f"shared_{k} by the hardware": f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{k}.sum" for k in ("ld", "st")
}
BESIDE = {"global_ld": ("global_ldgsts",)}  # counted together with it: the sectors of cp.async are loads'
PER_INSTRUCTION = ("permute_sf", "copy_reg", "mma_fragments")


def run_ncu(*arguments: str) -> str:
    """ncu's standard output (CSV), clocks untouched."""
    command = ["ncu", "--clock-control", "none", "--target-processes", "application-only", "--csv", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    return done.stdout


def read_csv(text: str, first: str = '"') -> list[dict[str, str]]:
    """The rows of the CSV that starts at the line beginning with ``first``, after ncu's own lines."""
    lines = text.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith(first)), len(lines))
    return list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))


def count_kernels(specs: list[str], more: Mapping[str, str] | None = None) -> dict[str, dict[str, int]]:
    """Counter name -> count, for the kernel of every spec; ``more``: counters beside the seven."""
    counters = COUNTERS | dict(more or {})
    if not shutil.which("ncu"):
        return {}
    target = [sys.executable, "benchmarks/launch_once.py", *specs]
    text = run_ncu("--metrics", ",".join(counters.values()), *target)
    names = {metric: name for name, metric in counters.items()}
    out: dict[str, dict[str, int]] = {}
    for row in read_csv(text):
        if row.get("Metric Name") in names:
            kernel = row["Kernel Name"].split("(")[0]
            out.setdefault(kernel, {})[names[row["Metric Name"]]] = int(float(row["Metric Value"].replace(",", "")))
    return out


def compare_counts(built: Built, counted: dict[str, int] | None) -> dict[str, Any]:
    """Prediction beside count, per space and kind; ``least`` where a compiler may leave loads out."""
    totals = built.manifest["grid_totals"]
    out = {}
    for what in COUNTERS:
        unit = "wavefronts" if what.startswith("shared") else "sectors"
        predicted = sum(totals.get(name, {}).get(unit, 0) for name in (what, *BESIDE.get(what, ())))
        out[what] = {"unit": unit, "predicted": predicted, "counted": (counted or {}).get(what)}
        least = sum(totals.get(name, {}).get("least_sectors", 0) for name in (what, *BESIDE.get(what, ())))
        if unit == "sectors" and least < predicted:
            out[what]["least"] = least
    return out


def is_as_predicted(row: Mapping[str, Any]) -> bool:
    """Whether a count is the prediction, or one that a compiler may make of it."""
    return row["counted"] is not None and row["counted"] in (row["predicted"], row.get("least", row["predicted"]))


def count_instructions(built: Built, path: str) -> dict[str, Any]:
    """ncu's source counters: wavefronts and sectors of every shared and global instruction, beside the accesses."""
    if not shutil.which("ncu"):
        return {}
    report = ROOT / "out" / f"{built.plan.name}.ncu-rep"
    report.parent.mkdir(exist_ok=True)
    metrics = "memory_l1_wavefronts_shared,memory_l2_theoretical_sectors_global,inst_executed"
    run_ncu(
        "-f", "-o", str(report.with_suffix("")), "--section", "SourceCounters", "--metrics", metrics, sys.executable,
        "benchmarks/launch_once.py", path,
    )  # fmt: skip
    done = subprocess.run(["ncu", "--import", str(report), "--page", "source", "--csv"], capture_output=True, text=True)
    rows = [r for r in read_csv(done.stdout, '"Address"') if re.search(r"\b(LDS|STS|LDG|STG)\b", r["Source"])]
    instructions = [read_instruction(r) for r in rows]
    predicted = [a for op in built.manifest["ops"] for a in op["accesses"]]
    groups = {}
    for (space, kind), unit in GROUPS.items():
        mine = [a for a in predicted if (a["space"], a["kind"]) == (space, kind)]
        seen = [i for i in instructions if (i["space"], i["kind"]) == (space, kind)]
        groups[f"{space}_{kind}"] = {
            "predicted": sorted([a["width_bytes"], a["instructions"], a[unit]] for a in mine),
            "counted": sorted([i["width_bytes"], i["instructions"], i[unit]] for i in seen),
        }
    return {"columns": "width_bytes, instructions, wavefronts or sectors", "groups": groups, "agree": agree(groups)}


GROUPS = {
    ("shared", "ld"): "wavefronts", ("shared", "st"): "wavefronts", ("global", "ld"): "sectors",
    ("global", "st"): "sectors",
}  # fmt: skip


def read_instruction(row: dict[str, str]) -> dict[str, Any]:
    """One memory instruction of the source page: what it is, how often it ran, what it cost."""
    name = re.search(r"\b(LDS|STS|LDG|STG)([.\w]*)", row["Source"])
    assert name
    width = next((int(w) // 8 for w in ("128", "64", "16", "8") if re.search(rf"\.[US]?{w}\b", name[2])), 4)
    return {
        "source": row["Source"].strip(),
        "space": "shared" if name[1].endswith("S") else "global",
        "kind": "ld" if name[1].startswith("LD") else "st",
        "width_bytes": width,
        "instructions": int(row["Instructions Executed"]),
        "wavefronts": int(row["L1 Wavefronts Shared"]),
        "sectors": int(row["L2 Theoretical Sectors Global"]),
    }


def agree(groups: dict[str, Any]) -> bool:
    """Per space, kind and width: as many instructions, as many wavefronts or sectors, and the same cost each."""

    def by_width(rows: list[list[int]]) -> dict[int, tuple[int, int, tuple[float, ...]]]:
        out = {}
        for width in {r[0] for r in rows}:
            mine = [r for r in rows if r[0] == width]
            each = tuple(sorted({r[2] / r[1] for r in mine}))
            out[width] = (sum(r[1] for r in mine), sum(r[2] for r in mine), each)
        return out

    return all(by_width(g["predicted"]) == by_width(g["counted"]) for g in groups.values())
