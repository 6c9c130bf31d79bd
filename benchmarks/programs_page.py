"""The tables of docs/passes.md and docs/gemm.md: specs that become several kernels beside cuBLAS and PyTorch."""

from __future__ import annotations

from statistics import median
from typing import Any

BY_PARTS = "by_parts"  # files of every number of parts begin so


def split_table(name: str, result: dict[str, Any], group: str) -> str:
    """A row for each product of a group: its parts, its time, cuBLAS's time over it; the least and the median."""
    rows = {case: row for case, row in result["cases"].items() if row.get("group") == group}
    lines = [_where(name, result), "", "| M x N x K | parts | us | t_cublas / t |", "|---|--:|--:|--:|"]
    ratios = [row["peers"]["cublas"]["ratio"] for row in rows.values()]
    for (case, row), ratio in zip(rows.items(), ratios, strict=True):
        lines.append(f"| {case.replace('x', ' x ')} | {row['parts']} | {row['median_us']:.1f} | {ratio:.3f} |")
    return "\n".join([*lines, f"| least | | | {min(ratios):.3f} |", f"| median | | | {median(ratios):.3f} |"])


def array_table(name: str, result: dict[str, Any]) -> str:
    """A row for each spec of arrays: its time beside reading its inputs once, a copy, and PyTorch."""
    peers = ("torch", "torch.compile", "copy")
    head = ["spec", "passes", "us", "t / t_reading", *(f"t_{peer} / t" for peer in peers)]
    lines = [_where(name, result), "", f"| {' | '.join(head)} |", "|---|" + "--:|" * (len(head) - 1)]
    for case, row in result["cases"].items():
        if "of_reading" not in row:
            continue
        own = [f"{row['peers'][p]['ratio']:.3f}" if p in row["peers"] else "-" for p in peers]
        said = [case, str(row["passes"]), f"{row['median_us']:.1f}", f"{row['of_reading']:.3f}", *own]
        lines.append(f"| {' | '.join(said)} |")
    return "\n".join(lines)


def table_rows(name: str, result: dict[str, Any]) -> str:
    """A row for each kernel that reads tables: its time beside reading, a copy of the same bytes, and PyTorch."""
    peers = ("copy", "torch", "torch.compile")
    lines = [f"{result['device']}, driver {result['driver']}, {result['date']}, from `docs/results/tables/{name}`.", ""]
    lines += [
        f"| spec | sizes | us | t / t_reading | {' | '.join(f't_{p} / t' for p in peers)} |",
        "|---|---|" + "--:|" * 5,
    ]
    for spec, row in result["cases"].items():
        sizes = ", ".join(f"{key} {value}" for key, value in row["params"].items())
        own = [f"{row['peers'][p]['ratio']:.3f}" if p in row["peers"] else "-" for p in peers]
        lines.append(f"| {spec} | {sizes} | {row['median_us']:.1f} | {row['of_reading']:.3f} | {' | '.join(own)} |")
    return "\n".join(lines)


def say_regret(name: str, chosen: dict[str, Any], result: dict[str, Any]) -> str:
    """One sentence: the time of the chosen number of parts beside the least time of all numbers.

    ``chosen``: the cases as they are built now; ``result``: those that every number of parts was timed of.
    """
    found = []
    for case, row in result["cases"].items():
        now = chosen["cases"].get(case, {}).get("parts")
        times = {int(parts): said["median_us"] for parts, said in row["by_parts"].items()}
        if now in times:
            found.append((times[now] / min(times.values()) - 1, case))
    worst, case = max(found)
    return (
        f"Of {len(found)} products all numbers of parts were timed ({_where(name, result)[:-1]}). What is chosen now"
        f" takes {100 * sum(r for r, _ in found) / len(found):.1f} % longer than the best of them on average,"
        f" {100 * worst:.0f} % at most ({case.replace('x', ' x ')})."
    )


def _where(name: str, result: dict[str, Any]) -> str:
    where = f"{result['device']}, driver {result['driver']}, {result['date']}, from `docs/results/programs/{name}`."
    return where + (f" {result['note']}" if "note" in result else "")
