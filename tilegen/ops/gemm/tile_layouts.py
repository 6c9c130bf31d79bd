"""How tiles of a CTA lie in shared memory and registers, where that is not left to the chooser."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tilegen.access import LINE_BYTES, WARP_LANES, cp_async_cost
from tilegen.cost.tally import BY_CP_ASYNC, BY_THREADS
from tilegen.layouts import Iter, TileLayout, lay_out_mma, tile_mma
from tilegen.layouts.constructors import find_atom
from tilegen.ops.gemm.problem import Matrix, Problem, bytes_of
from tilegen.ops.gemm.recipe import Recipe
from tilegen.ops.mma.atoms import SIMT


def lay_out_k_tiles(recipe: Recipe, p: Problem) -> tuple[str, str]:
    """The layouts of a's and b's k-tiles: what the chooser finds, or rows of k where those are as free of conflicts.

    Rows of b are read and written along themselves. Of a, a warp's 4-byte copies of 8 k by 4 m meet 32 banks if rows
    are 4 elements longer. The compiler folds the addresses of rows into its accesses, where a swizzle costs an
    exclusive or for each, and of what threads bring one by one many: docs/gemm.md has the times.
    """
    bm, bn, bk = recipe.tile
    if recipe.load == BY_THREADS and bytes_of(p.a.dtype) == 2:
        return _lay_out_rows(p.a, bm, bk), _lay_out_rows(p.b, bk, bn)
    is_by_rows = find_atom(recipe.atom).kind == SIMT and recipe.load == BY_CP_ASYNC and bytes_of(p.a.dtype) == 4
    if not is_by_rows or recipe.k_parts > 1:
        return "auto", "auto"
    return _lay_out_k(recipe, bm, p.a.runs_along_rows), _lay_out_k(recipe, bn, not p.b.runs_along_rows)


def lay_out_sums(recipe: Recipe) -> str:
    """Of a tile's sums, as products take them; as a layout, atoms of warps that share K lie on the CTA's threads."""
    if recipe.k_parts > 1 and find_atom(recipe.atom).kind == SIMT:
        return "auto"
    tiling = f"'{recipe.atom}', {_say(recipe.atoms)}, {_say(recipe.permutation)}"
    return f"tiled_mma({tiling}, 'C', {recipe.tile})"


def _lay_out_k(recipe: Recipe, length: int, is_turned: bool) -> str:
    """Rows of k, each ``length`` elements of 4 bytes; ``is_turned``: the array has k side by side, and elements come
    one by one. Rows are then longer by as few elements as leave the fewest conflicts."""
    stages, (_, _, bk) = recipe.stages, recipe.tile
    if not is_turned:
        return "row"
    k, row = np.arange(WARP_LANES) % bk, np.arange(WARP_LANES) // bk

    def conflict(pad: int) -> int:
        return int(cp_async_cost("ca", 4, (k * (length + pad) + row) * 4, k * 4 + row * LINE_BYTES).wavefronts)

    pitch = length + min(range(0, WARP_LANES, 4), key=conflict)
    return f"S[({stages}, {bk}, {length}):({bk * pitch}, {pitch}, 1)]"


def _lay_out_rows(x: Matrix, rows: int, columns: int) -> str:
    """Rows (or columns) of 16-bit elements as the array has them, each an odd number of 16 bytes: eight rows of a
    matrix that ldmatrix reads lie in different banks."""
    length, count = (columns, rows) if x.runs_along_rows else (rows, columns)
    pitch = length + (8 if length % 16 == 0 else 0)
    strides = f"{pitch}, 1" if x.runs_along_rows else f"1, {pitch}"
    return f"S[(1, {rows}, {columns}):({count * pitch}, {strides})]"


def lay_out_results(recipe: Recipe) -> str:
    """Of what leaves the registers: of fused multiply-adds, each thread's elements of a row one after another."""
    if recipe.k_parts > 1:
        return "auto"
    layout = lay_out_mma(tile_mma(recipe.atom, recipe.atoms, recipe.permutation, recipe.tile), "C")
    if find_atom(recipe.atom).kind != SIMT or not isinstance(layout, TileLayout) or layout.replica or layout.offset:
        return "auto"
    stride, by_rows = 1, list[Iter]()
    for part in reversed(layout.shard):
        is_register = part.axis == "m"
        by_rows.append(replace(part, stride=stride) if is_register else part)
        stride *= int(part.extent) if is_register else 1  # type: ignore[arg-type]
    return str(replace(layout, shard=tuple(reversed(by_rows))))


def _say(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return "(" + ", ".join("None" if x is None else f"'{x}'" if isinstance(x, str) else str(x) for x in value) + ")"
