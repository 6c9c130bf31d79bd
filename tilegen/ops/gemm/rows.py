"""gemm whose result has one column, or one row: each element is a sum that threads share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tilegen.access import WARP_LANES
from tilegen.arch import Arch
from tilegen.arithmetic import TFLOAT32
from tilegen.cost.tally import BY_THREADS
from tilegen.layouts.constructors import MmaAtom
from tilegen.ops.gemm.parts import Writing
from tilegen.ops.gemm.problem import WIDEST, Problem, bytes_of
from tilegen.ops.gemm.recipe import AS_ATOMS, WAITING_BYTES, Recipe

_THREADS = 256  # that share the sums of a tile of one column


@dataclass(frozen=True)
class RowsRecipe(Recipe):
    """Products stay where they are made, and threads add them up at the end."""

    @property
    def threads(self) -> int:
        return _THREADS

    def fits(self, p: Problem, arch: Arch) -> bool:
        """Threads that share a sum are 1, 2, 4 .. apart, so that lanes can exchange what they have."""
        bm, bn, bk = self.tile
        is_shared = all(n & (n - 1) == 0 for n in self.tile) and (bn if p.sides[1] == 1 else bm) == 1
        return is_shared and bm * bn * bk * bytes_of(p.sums) <= WAITING_BYTES * self.threads

    def find_product(self, p: Problem) -> MmaAtom | None:
        return None

    def count_reads(self) -> int:
        return 0

    def write(self, w: Writing) -> dict[str, Any]:
        """The spec of one column; of one row, that of the transpose."""
        recipe = self
        if w.problem.sides[1] != 1:
            rows, columns, deep = self.tile
            w, recipe = replace(w, problem=w.problem.turned()), replace(self, tile=(columns, rows, deep))
        w = replace(w, problem=replace(w.problem, b=w.problem.b.turned()))  # a row of it meets each row of a
        return recipe.fill_in(w, "gemm/rows.yaml", threads=self.threads)

    def _own_fields(self) -> dict[str, Any]:
        return {}

    def _say_stages(self) -> str:
        return ""


def refuse_rows(p: Problem, arch: Arch) -> str:
    if p.parts > 1:
        return "the threads of a CTA share K, and no others do"
    if p.factors == TFLOAT32:
        return "what is summed up without a product's instruction is not multiplied as tf32"
    return "" if 1 in p.sides[:2] else "the result has more than one column, and more than one row"


def list_rows(p: Problem, arch: Arch, fields: Any) -> Iterator[Recipe]:
    """Tiles whose elements a warp reads side by side: rows of a along K, or the columns of many rows."""
    if p.parts > 1:
        return
    matrix, is_column = (p.a, True) if p.sides[1] == 1 else (p.b, False)
    along_k = matrix.runs_along_rows == is_column
    deep = WIDEST // bytes_of(matrix.dtype) * WARP_LANES  # elements of K that a warp reads at once
    along = [(8, deep), (8, 2 * deep), (2, 4 * deep), (2, 8 * deep), (1, 8 * deep), (1, 16 * deep)]
    sides = along if along_k else [(64, 32), (128, 16), (32, 64)]
    tiles = [(rows, 1, depth) if is_column else (1, rows, depth) for rows, depth in sides]
    for tile in [tuple(fields.tile)] if fields.tile else tiles:
        yield RowsRecipe("rows", tile, "", "", AS_ATOMS, 1, 1, load=BY_THREADS)
