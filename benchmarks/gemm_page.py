"""The tables of docs/gemm.md: what the chooser of gemm picks beside libraries, and beside all its own recipes."""

from __future__ import annotations

from typing import Any

HEAD = ("product", "picked", "measured, us", "model, us", "t_cublas / t", "best recipe", "t_cublas / t", "regret",
        "rms of cuBLAS's")  # fmt: skip


def gemm_table(name: str, result: dict[str, Any]) -> str:
    """A row for each product of the sweep; its first recipe is the one that is picked."""
    where = f"{result['device']}, driver {result['driver']}, {result['date']}, from `docs/results/gemm/{name}`."
    where += f" {result['note']}" if "note" in result else ""
    rows = [_row(product, rows) for product, rows in result["shapes"].items()]
    lines = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    return "\n".join([where, "", *lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _row(product: str, rows: list[dict[str, Any]]) -> tuple[str, ...]:
    found = find_pick_and_best(rows)
    if not found:
        return (product, f"none of {len(rows)} is right: {rows[0]['error']}", *["-"] * (len(HEAD) - 2))
    picked, best = found
    regret = 100 * (best["ratio"] / picked["ratio"] - 1)
    error = picked["rms"] / picked["rms_cublas"] if picked["rms_cublas"] else 1.0
    return (
        product, say_recipe(picked["pins"]), f"{picked['us']}", f"{picked['predicted_us']}", f"{picked['ratio']:.3f}",
        say_recipe(best["pins"]), f"{best['ratio']:.3f}", f"{regret:.1f} %", f"{error:.2f}",
    )  # fmt: skip


def find_pick_and_best(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The first row that is right, which the chooser picks, and the fastest, as they were timed together where they
    were. None where none is right."""
    right = [row for row in rows if "ratio" in row]
    if not right:
        return None
    together = [row | row["together"] for row in right if "together" in row] or right
    return together[0], max(together, key=lambda row: row["ratio"])


def say_recipe(pins: dict[str, Any]) -> str:
    """A recipe in a few words: its variant, its tile, and what else tells it from others."""
    more = [f"{pins['k_parts']} parts"] if pins.get("k_parts", 1) > 1 else []
    more += [f"{pins['stages']} stages"] if "stages" in pins else []  # the variant rows has none
    more += ["pairs"] * (pins.get("cluster") == 2) + ["turned"] * bool(pins.get("turned"))
    return ", ".join([f"{pins['variant']} {' x '.join(map(str, pins['tile']))}", *more])


PRODUCT_HEAD = ("product", "picked", "us", "t_cublas / t", "t_triton / t", "of the ceiling", "rms of cuBLAS's",
                "largest error of cuBLAS's")  # fmt: skip


def product_rows(name: str, result: dict[str, Any]) -> str:
    """A row for each product that was measured beside libraries, group by group."""
    where = f"{result['device']}, driver {result['driver']}, {result['date']}, from `docs/results/products/{name}`."
    where += f" {result['note']}" if "note" in result else ""
    lines = [f"| {' | '.join(PRODUCT_HEAD)} |", "|" + "---|" * len(PRODUCT_HEAD)]
    for product, row in result["products"].items():
        lines.append(f"| {' | '.join(_product_row(product, row))} |")
    since = {row["since"] for row in result["products"].values() if "since" in row}
    changed = {text: [n for n, row in result["products"].items() if row.get("since") == text] for text in sorted(since)}
    notes = [f"* since {', '.join(names)} was measured, {text}" for text, names in changed.items()]
    absent = {f"{product}: {why}" for product, row in result["products"].items() for why in row["absent"].values()}
    notes += [f"- without a peer: {text}" for text in sorted(absent)]
    compiled = {n: row["peers"]["torch.compile"]["ratio"] for n, row in result["products"].items()
                if "torch.compile" in row["peers"]}  # fmt: skip
    if compiled:
        said = ", ".join(f"{n} {ratio:.3f}" for n, ratio in compiled.items())
        notes.append(f"- beside torch.compile (max-autotune), t / t: {said}")
    return "\n".join([where, "", *lines, "", *notes])


def _product_row(product: str, row: dict[str, Any]) -> tuple[str, ...]:
    peers = row["peers"]
    cublas = peers.get("cublas", {})

    def ratio(name: str) -> str:
        return f"{peers[name]['ratio']:.3f}" if name in peers else "-"

    def error(name: str) -> str:
        return f"{row[name] / cublas[name]:.2f}" if cublas.get(name) else "-"

    picked = say_recipe(row["picked"]) + (f" by {row['picked']['load']}" if "load" in row["picked"] else "")
    mark = " *" if "since" in row else ""
    return (
        product + mark, picked, f"{row['median_us']}", ratio("cublas"), ratio("triton"),
        f"{row['of_ceiling']:.2f}" if "of_ceiling" in row else "-", error("rms_error"), error("largest_error"),
    )  # fmt: skip
