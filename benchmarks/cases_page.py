"""Tables and a picture of the measured cases, for docs/performance.md."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

from tilegen.bench import Bar, BarGroup, svg_picture

RIVALS = ("torch", "torch.compile", "triton")  # what the goals speak of; cupy and the copy stand beside
GROUPS = ("transpose", "permute", "odd", "ttc", "tensor")
HEAD = ("case", "MB", "us", "GB/s", "of a copy", *RIVALS, "of the best")


def case_tables(name: str, result: dict[str, Any], group: str) -> str:
    """The cases of a group as a table, and what they say together. Raises ValueError for another group."""
    if group not in GROUPS:
        raise ValueError(f"cases are of {', '.join(GROUPS)}, not {group}")
    rows = {n: row for n, row in result["cases"].items() if row["group"] == group}
    if not rows:
        return f"Not measured on {result['device']} yet."
    lines = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    lines += [_case_line(row) for row in rows.values()]
    where = f"{result['device']}, driver {result['driver']}, from `docs/results/{name}`; a copy of 1 GiB there: "
    changed: dict[str, int] = {}
    for row in rows.values():
        if "since" in row:
            changed[row["since"]] = changed.get(row["since"], 0) + 1
    notes = [f"\n\\* of {count}, measured before: {text}." for text, count in changed.items()]
    said = where + f"{result['ceiling_gb_per_s']:.0f} GB/s."
    return "\n".join([said, "", *lines, "", summarize(rows), *notes])


def _case_line(row: dict[str, Any]) -> str:
    sizes = " x ".join(map(str, row["shape"]))
    mark = " \\*" if "since" in row else ""
    label = f"{sizes} by {','.join(map(str, row['axes']))}, {row['dtype']}{mark}"
    if not row["correct"]:
        return f"| {label} | WRONG: {row['error'].splitlines()[0][:80]} |" + " |" * (len(HEAD) - 2)
    moved = f"{row['bytes'] / 1e6:.3g}"
    ratios = [_ratio(row, peer) for peer in ("copy", *RIVALS)]
    best = best_ratio(row)
    cells = (label, moved, row["median_us"], row["gb_per_s"], *ratios, "-" if best is None else f"{best:.3f}")
    return f"| {' | '.join(map(str, cells))} |"


def _ratio(row: dict[str, Any], peer: str) -> str:
    return f"{row['peers'][peer]['ratio']:.3f}" if peer in row["peers"] else "absent"


def best_ratio(row: dict[str, Any]) -> float | None:
    """t / t of the fastest rival that took part, or None where none did.

    >>> best_ratio({"peers": {"torch": {"ratio": 3.5}, "triton": {"ratio": 1.02}, "cupy": {"ratio": 0.5}}})
    1.02
    """
    ratios = [row["peers"][peer]["ratio"] for peer in RIVALS if peer in row["peers"]]
    return min(ratios, default=None)


def summarize(rows: dict[str, Any]) -> str:
    """How many are right, and the least of each ratio."""
    right = [row for row in rows.values() if row["correct"]]
    parts = [f"{len(right)} of {len(rows)} are right, bit for bit"]
    for what, found in (
        ("a copy", [row["peers"]["copy"]["ratio"] for row in right if "copy" in row["peers"]]),
        ("the best rival", [best for row in right if (best := best_ratio(row)) is not None]),
    ):
        if found:
            parts.append(f"least ratio to {what} {min(found):.3f}")
    return "; ".join(parts) + "."


def tile_table(name: str, rows: dict[str, Any]) -> str:
    """How far the model's pick is from the best of all candidates, case by case, the farthest first."""
    lines = ["| case | candidates | pick | of a copy | best | of a copy | pick / best |", "|" + "---|" * 7]
    off = {case: row for case, row in rows.items() if row["picked_to_best"] < _NEAR}
    for case, row in sorted(off.items(), key=lambda r: float(r[1]["picked_to_best"])):
        cells = (case, row["candidates"], _say_tile(row["picked"]), row["picked_to_copy"], _say_tile(row["best"]),
                 row["best_to_copy"], row["picked_to_best"])  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    counts = []
    for said, groups in _SETS.items():
        own = [row for case, row in rows.items() if case.split("_")[0] in groups]
        if own:
            near = sum(row["picked_to_best"] >= 0.97 for row in own)
            copies = [float(row["picked_to_copy"]) for row in own]
            counts.append(
                f"* {near} of {len(own)} {said}, the farthest at {min(r['picked_to_best'] for r in own)} of the best;"
                f" of a copy the picks are at least {min(copies)}, at the median {median(copies):.3f}"
            )
    said = f"From `docs/results/tiles/{name}`, picks within 3 % of the best candidate:"
    return "\n".join([said, "", *counts, "", f"Those that are more than {1 - _NEAR:.0%} off:", "", *lines])


_NEAR = 0.99
_SETS = {
    "of the transposes, the permutes and the odd ones": ("transpose", "permute", "odd"),
    "of TTC's": ("ttc",),
    "of the tensors": ("tensor",),
}


def row_table(name: str, result: dict[str, Any]) -> str:
    """Of each length of a row the best shapes that were measured, in parts of a copy."""
    where = f"{result['device']}, driver {result['driver']}, {result['date']}, from `docs/results/rows/{name}`."
    lines = ["| case | shapes | best | of a copy | best with `cache: stream` | of a copy |", "|" + "---|" * 6]
    for case, rows in result["cases"].items():
        good = [row for row in rows if "ratio" in row and not row["spill_bytes"]]
        cells = [case, str(len(good))]
        for streams in (False, True):
            best = max((row for row in good if row.get("streams", False) == streams), key=lambda row: row["ratio"])
            cells += [_say_shape(best), f"{best['ratio']:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([where, "", *lines])


def _say_shape(row: dict[str, Any]) -> str:
    return f"{row['threads']}" + (f" for {row['rows']} rows" if row["rows"] else "") + (
        f", {row['ctas']} CTAs" if row["ctas"] else "")  # fmt: skip


def experiment_tables(folder: str, name: str, result: dict[str, Any]) -> str:
    """What was tried, what was found, and a table of ratios for each."""
    where = f"{result['device']}, driver {result['driver']}, {result['date']}, from `docs/results/{folder}/{name}`."
    parts = [where]
    for e in result["experiments"]:
        ways = list(next(iter(e["ratios"].values())))
        lines = [f"| | {' | '.join(ways)} |", "|" + "---|" * (len(ways) + 1)]
        lines += [f"| {case} | {' | '.join(f'{row[w]:.3f}' for w in ways)} |" for case, row in e["ratios"].items()]
        parts += [f"**{e['tried']}**: {e['found']}.", "\n".join(lines)]
    return "\n\n".join(parts)


def _say_tile(pins: str) -> str:
    tile = json.loads(pins)
    return f"{tile['variant']} {' x '.join(map(str, tile['box']))}, {tile['threads']}"


def draw_cases(result: dict[str, Any]) -> str:
    """Bars of the transposes and the permutes: GB/s of the kernel and its peers, as a picture."""
    rows = [(n, row) for n, row in result["cases"].items() if row["correct"] and row["group"] != "odd"]
    note = f"GB/s read and written on {result['device']}; dashed: its own copy of 1 GiB"
    return svg_picture([BarGroup(name, _bars(row, result["ceiling_gb_per_s"])) for name, row in rows], note)


def _bars(row: dict[str, Any], ceiling: float) -> tuple[Bar, ...]:
    rates = {"tilegen": row["gb_per_s"]} | {name: peer["gb_per_s"] for name, peer in row["peers"].items()}
    return tuple(Bar(n, rate / ceiling, f"{rate:.0f} GB/s", n == "tilegen") for n, rate in rates.items())
