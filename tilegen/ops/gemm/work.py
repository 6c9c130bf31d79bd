"""What a recipe does in a launch, in the numbers that closed forms take."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import prod

from tilegen.access import WARP_LANES
from tilegen.cost.tally import BY_CP_ASYNC, BY_THREADS, BY_TMA
from tilegen.cost.time import Work
from tilegen.layouts.constructors import MmaTiling, tile_mma
from tilegen.layouts.constructors.mma_tiling import count_atoms
from tilegen.ops.gemm.parts import Writing, bytes_of
from tilegen.ops.gemm.problem import Matrix, Problem, typical_batch, typical_sides
from tilegen.ops.gemm.recipe import Recipe
from tilegen.ops.gemm.ring import PANEL_ROWS
from tilegen.ops.gemm.tiles import reads_past_the_end
from tilegen.ops.gemm.wgmma import can_store_by_tma


def describe_work(recipe: Recipe, p: Problem) -> Work:
    """What a recipe does of a problem (turned where the recipe is), in the numbers that closed forms take."""
    bm, bn, _ = recipe.tile
    by_tma = recipe.load == BY_TMA
    if recipe.variant == "wgmma":
        parts, reads = (recipe.warpgroups, bn // recipe.panel), bm + bn * recipe.warpgroups
    elif by_tma:
        parts, reads = (bm // PANEL_ROWS, recipe.atoms[1]), bm * recipe.atoms[1] + bn * recipe.atoms[0]
    elif recipe.variant == "rows":
        parts, reads = (1, 1), 0
    else:
        parts, reads = (1, 1), _count_reads(tile_mma(recipe.atom, recipe.atoms, recipe.permutation, recipe.tile))
    return Work(
        recipe.variant,
        p.factors,
        typical_sides(p),
        typical_batch(p),
        recipe.tile,
        bytes_of(p.a.dtype),
        bytes_of(p.d.dtype),
        recipe.stages,
        recipe.ctas,
        recipe.cluster,
        recipe.threads,
        reads,
        0 if not by_tma else recipe.warpgroups if recipe.variant == "wgmma" else prod(recipe.atoms),
        recipe.load,
        bn // recipe.panel if recipe.panel else 1,
        can_store_by_tma(Writing(p, recipe, frozenset())),
        sum(_count_stretched(x, (bm, bn), parts) * bytes_of(x.dtype) for x in p.named.values()),
        recipe.step * reads * recipe.k_parts if reads_past_the_end(recipe, p) else 0,
        recipe.k_parts,
        bytes_of(p.sums),
        sum(n for x, n in ((p.a, bm), (p.b, bn)) if recipe.load == BY_THREADS and x.comes_singly),
        _count_copies(recipe, p) if recipe.load == BY_CP_ASYNC else 0,
    )


def _count_copies(recipe: Recipe, p: Problem) -> float:
    """Copies that bring one column of K of a tile: fused multiply-adds take rows of k, whatever lies side by side."""
    by_k, (bm, bn, _) = recipe.variant == "simt", recipe.tile

    def count(x: Matrix, along_k: bool, elements: int) -> float:
        size = bytes_of(x.dtype)
        return elements * size / (size if by_k and along_k else max(size, x.whole_bytes))

    return count(p.a, p.a.runs_along_rows, bm) + count(p.b, not p.b.runs_along_rows, bn)


def _count_stretched(x: Matrix, tile: tuple[int, int], parts: tuple[int, int]) -> int:
    """Elements that a tile's epilogue reads of an array: a part of the tile needs each of its rows and columns once."""
    (bm, bn), (rows, columns) = tile, parts
    return (rows if x.rows == 1 else bm) * (columns if x.columns == 1 else bn)


@cache
def _count_reads(tiling: MmaTiling) -> int:
    """Elements of a and b that warps read in all for one column of K: of each the rows and columns of its atoms."""
    (bm, bn, _), counts = tiling.tile, count_atoms(tiling.atoms)
    rows, columns = set[tuple[int, ...]](), set[tuple[int, ...]]()
    for i, j, k in product(*map(range, counts)):
        warp = int(tiling.atoms(i, j, k)) * tiling.atom.threads // WARP_LANES
        rows.add((warp, i, k))
        columns.add((warp, j, k))
    return (len(rows) * (bm // counts[0]) + len(columns) * (bn // counts[1])) // counts[2]
