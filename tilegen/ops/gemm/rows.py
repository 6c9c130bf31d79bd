"""gemm whose result has one column, or one row: each element is a sum that threads share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilegen.ops.gemm.parts import Writing, count_ctas


def write_rows(w: Writing) -> dict[str, Any]:
    """The launch, buffers and statements: of one row, those of the transpose."""
    if w.problem.sides[1] != 1:
        rows, columns, deep = w.recipe.tile
        w = replace(w, problem=w.problem.turned(), recipe=replace(w.recipe, tile=(columns, rows, deep)))
    w = replace(w, problem=replace(w.problem, b=w.problem.b.turned()))  # a row of it meets each row of a
    return w.fill_in("gemm/rows.yaml", ctas=count_ctas(w), threads=w.recipe.threads)
