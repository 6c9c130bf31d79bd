"""gemm whose result has one column, or one row: each element is a sum that threads share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilegen.ops.gemm.parts import Statements, Writing, count_ctas, finish, number_tiles, tile_buffer


def write_rows(w: Writing) -> dict[str, Any]:
    """The launch, buffers and statements: products stay where they are made, and are added up at the end."""
    if w.problem.sides[1] != 1:
        rows, columns, deep = w.recipe.tile
        w = replace(w, problem=w.problem.turned(), recipe=replace(w.recipe, tile=(columns, rows, deep)))
    w = replace(w, problem=replace(w.problem, b=w.problem.b.turned()))  # a row of it meets each row of a
    r, p = w.recipe, w.problem
    bm, _, bk = r.tile
    acc, sums, h, x, y = (w.fresh(name) for name in ("terms", "sums", "h", "x", "y"))
    k, kt, m = (w.fresh(name) for name in ("k", "kt", "m"))
    counts, place = number_tiles(w, "bx")
    at, one, depth = (f"{m}*{bm}", bm), ("0", 1), (f"{k}*{bk}", bk)
    terms = {
        "dst": acc,
        "expr": f"{acc} + {x} * {y}" if p.sums == "int32" else f"fma({x}, {y}, {acc})",
        "with": {x: w.region(p.a, at, depth), y: w.region(p.b, one, depth)},
        **w.edge((p.a.rows, bm), (p.a.columns, bk)),
    }
    is_plain = not p.epilogue and p.d.dtype == p.sums
    store = {"dst": w.region(p.d, at, one), **w.edge((p.sides[0], bm))}
    ops: Statements = [
        {"let": counts | place},
        {"fill": {"dst": acc, "value": 0}},
        {"for": {k: kt}, "do": [{"elementwise": terms}]},
        {"reduce": {"src": acc, "dst": sums, "axis": 1, "op": "sum"}},
        *([] if is_plain else [finish(w, "cta", sums, at, one, h)]),
        {"copy": {"src": sums if is_plain else h, **store}},
    ]
    buffers = {
        **w.views(),
        acc: tile_buffer("register", p.sums, (bm, bk)),
        sums: tile_buffer("register", p.sums, (bm, 1)),
        **({} if is_plain else {h: tile_buffer("register", p.d.dtype, (bm, 1))}),
    }
    return {"grid": {"bx": count_ctas(w)}, "threads": r.threads, "buffers": buffers, "ops": ops}
