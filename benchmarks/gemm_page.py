"""The table of docs/gemm.md: what the chooser of gemm picks, and what all its recipes were measured to be."""

from __future__ import annotations

from typing import Any

HEAD = ("product", "picked", "measured, us", "model, us", "t_cublas / t", "best recipe", "t_cublas / t", "regret",
        "rms of cuBLAS's")  # fmt: skip


def gemm_table(name: str, result: dict[str, Any]) -> str:
    """A row for each product of the sweep; its first recipe is the one that is picked."""
    where = f"{result['device']}, driver {result['driver']}, {result['date']}, from `docs/results/gemm/{name}`."
    rows = [_row(product, rows) for product, rows in result["shapes"].items()]
    lines = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    return "\n".join([where, "", *lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _row(product: str, rows: list[dict[str, Any]]) -> tuple[str, ...]:
    right = [row for row in rows if "ratio" in row]
    picked, best = min(right, key=lambda row: row["predicted_us"]), max(right, key=lambda row: row["ratio"])
    regret = 100 * (best["ratio"] / picked["ratio"] - 1)
    error = picked["rms"] / picked["rms_cublas"] if picked["rms_cublas"] else 1.0
    return (
        product, _say(picked["pins"]), f"{picked['us']}", f"{picked['predicted_us']}", f"{picked['ratio']:.3f}",
        _say(best["pins"]), f"{best['ratio']:.3f}", f"{regret:.1f} %", f"{error:.2f}",
    )  # fmt: skip


def _say(pins: dict[str, Any]) -> str:
    more = [f"{pins['stages']} stages"] + ["pairs"] * (pins.get("cluster") == 2) + ["turned"] * bool(pins.get("turned"))
    return f"{pins['variant']} {' x '.join(map(str, pins['tile']))}, {', '.join(more)}"
