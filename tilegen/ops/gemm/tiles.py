"""gemm by tiles of a CTA, whose threads all do the same: mma.sync or fused multiply-adds, k-tiles by cp.async or by
threads. They multiply together, or each warp its part of every k-tile (``k_parts``): then the sums are added up at the
end."""

from __future__ import annotations

from dataclasses import replace
from json import dumps
from typing import Any

import numpy as np

from tilegen.access import LINE_BYTES, WARP_LANES, cp_async_cost
from tilegen.cost.tally import BY_CP_ASYNC, BY_THREADS
from tilegen.layouts import Iter, TileLayout, lay_out_mma, tile_mma
from tilegen.layouts.constructors import find_atom
from tilegen.ops.gemm.parts import Writing, bytes_of, count_ctas, count_staged_bytes
from tilegen.ops.gemm.problem import Matrix, Problem, is_multiple
from tilegen.ops.gemm.recipe import Recipe
from tilegen.ops.mma.atoms import SIMT
from tilegen.scopes import SCOPES
from tilegen.spec.spelling import spell_index
from tilegen.spec.written import as_given

_LONG = 2048  # of K: there the products of 128 x 256 tiles take 99 % of the time (docs/gemm.md)


def write_tiles(w: Writing) -> dict[str, Any]:
    """The launch, buffers and statements: fragments of the next step are loaded while one is multiplied."""
    r, p = w.recipe, w.problem
    (bm, bn, bk), room = r.tile, count_staged_bytes(r, p)
    is_by_k = find_atom(r.atom).kind == SIMT  # threads read rows of a together: they lie side by side in shared memory
    is_shared, is_plain = r.k_parts > 1, not p.epilogue and p.d.dtype == p.sums
    is_staged = not is_shared and not is_by_k
    is_over = room >= bm * bn * bytes_of(p.d.dtype)
    is_read = r.load == BY_THREADS or reads_past_the_end(r, p)  # after the last meeting
    # Sums lie as products take them; in h, neighbours of a row of d lie side by side, to be stored together. That binds
    # the compiler's hands: of a long K, its products take longer by more than the stores gain.
    is_long = isinstance(p.sides[2], int) and p.sides[2] >= _LONG
    layout_a, layout_b = _lay_out(w)
    return w.fill_in(
        "gemm/tiles.yaml", ctas=count_ctas(w), threads=r.threads, atom=r.atom, k_parts=r.k_parts,
        depth=find_atom(r.atom).shape[2], steps=bk // find_atom(r.atom).shape[2] // r.k_parts,
        is_copied=r.load == BY_CP_ASYNC, is_by_k=is_by_k, is_shared=is_shared, is_staged=is_staged, is_over=is_over,
        is_one_warp=is_staged and r.threads == SCOPES["warp"].threads,
        is_joined_over=room >= r.k_parts * bm * bn * bytes_of(p.sums),
        is_moved=is_plain and is_by_k and not is_shared and not is_long,
        meets_at_end=is_read if is_shared else is_staged and is_over,  # what comes lies over the stages
        reads_past_the_end=reads_past_the_end(r, p), next_when=_divide_at_end(w), multiplying=_say_multiplying(r),
        layout_a=as_given(layout_a), layout_b=as_given(layout_b), layout_sums=_lay_out_sums(r),
        layout_h=as_given(_lay_out_h(r)),
    )  # fmt: skip


def _say_multiplying(recipe: Recipe) -> str:
    """What a product of fused multiply-adds says beside its operands.

    The longer side of a thread's part goes there and back, so that one factor of each product has just been read.
    """
    if find_atom(recipe.atom).kind != SIMT:
        return ""
    if recipe.k_parts == 1:
        return "order: nm_serpentine"
    pins = f"atoms: {dumps(recipe.atoms)}, permutation: {dumps(recipe.permutation)}"
    return f"order: nm_serpentine, {pins}"  # as a layout such atoms lie on the CTA's threads, not on a warp's


def _lay_out_sums(recipe: Recipe) -> str:
    if recipe.k_parts > 1 and find_atom(recipe.atom).kind == SIMT:
        return "auto"
    tiling = f"'{recipe.atom}', {_say(recipe.atoms)}, {_say(recipe.permutation)}"
    return as_given(f"tiled_mma({tiling}, 'C', {recipe.tile})")


def _divide_at_end(w: Writing) -> list[str]:
    """When the k-tile after ``k`` is loaded: apart, where K ends in it, which then has to be asked for each element."""
    (_, _, bk), size = w.recipe.tile, w.problem.sides[2]
    following = "k + 1 < kt"
    if is_multiple(size, bk) or (isinstance(size, int) and size < 2 * bk):
        return [following]
    inside = f"(k + 2)*{bk} <= {as_given(spell_index(size))}"
    return [inside, f"{following} and not ({inside})"]


def reads_past_the_end(recipe: Recipe, p: Problem) -> bool:
    """Are fragments read after the last k-tile too, of whatever is in the next place?

    Nobody uses them, and a condition would keep the compiler from moving these reads between the products. It takes a K
    that is known to fill every place once. After a k-tile that is the only one, nothing is read.
    """
    k, (_, _, bk) = p.sides[2], recipe.tile
    is_ring = recipe.load == BY_CP_ASYNC and recipe.stages > 1
    return is_ring and isinstance(k, int) and k > bk * (recipe.stages - 1)


def _lay_out(w: Writing) -> tuple[str, str]:
    """The layouts of a's and b's k-tiles: what the chooser finds, or rows of k where those are as free of conflicts.

    Rows of b are read and written along themselves. Of a, a warp's 4-byte copies of 8 k by 4 m meet 32 banks if rows
    are 4 elements longer. The compiler folds the addresses of rows into its accesses, where a swizzle costs an
    exclusive or for each, and of what threads bring one by one many: docs/gemm.md has the times.
    """
    p, (bm, bn, bk) = w.problem, w.recipe.tile
    if w.recipe.load == BY_THREADS and bytes_of(p.a.dtype) == 2:
        return _lay_out_rows(p.a, bm, bk), _lay_out_rows(p.b, bk, bn)
    is_by_rows = find_atom(w.recipe.atom).kind == SIMT and w.recipe.load == BY_CP_ASYNC and bytes_of(p.a.dtype) == 4
    if not is_by_rows or w.recipe.k_parts > 1:
        return "auto", "auto"
    return _lay_out_k(w.recipe, bm, p.a.runs_along_rows), _lay_out_k(w.recipe, bn, not p.b.runs_along_rows)


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


def _lay_out_h(recipe: Recipe) -> str:
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
