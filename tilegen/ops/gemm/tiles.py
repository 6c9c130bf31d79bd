"""gemm by tiles of a CTA, whose threads all do the same: mma.sync or fused multiply-adds, k-tiles by cp.async or by
threads. They multiply together, or each warp its part of every k-tile (``k_parts``): then the sums are added up at the
end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from json import dumps
from math import prod
from typing import Any

from tilegen.access import WARP_LANES
from tilegen.arch import Arch
from tilegen.arch.data import registers_for
from tilegen.cost.tally import BY_CP_ASYNC, BY_THREADS, Work
from tilegen.errors import LayoutError
from tilegen.layouts.constructors import MmaAtom, MmaTiling, derive_mma, find_atom, tile_mma
from tilegen.layouts.constructors.mma_tiling import count_atoms
from tilegen.ops.gemm.parts import Writing
from tilegen.ops.gemm.problem import WIDEST, Matrix, Problem, bytes_of, count_own_k_tiles, is_multiple
from tilegen.ops.gemm.recipe import WAITING_BYTES, Recipe
from tilegen.ops.gemm.tile_layouts import lay_out_k_tiles, lay_out_results, lay_out_sums
from tilegen.ops.mma.atoms import SIMT
from tilegen.scopes import SCOPES
from tilegen.spec.spelling import spell_index
from tilegen.spec.written import as_given

_LONG = 2048  # of K: there the products of 128 x 256 tiles take 99 % of the time (docs/gemm.md)
_OTHERS = 28  # registers that fragments and addresses need of small tiles at least, where many threads leave each few


@dataclass(frozen=True)
class TilesRecipe(Recipe):
    """All threads of a CTA bring k-tiles, and multiply."""

    @property
    def tiling(self) -> MmaTiling:
        return tile_mma(self.atom, self.atoms, self.permutation, self.tile)

    @property
    def is_simt(self) -> bool:
        """By fused multiply-adds: threads read rows of a together, which lie side by side in shared memory."""
        return find_atom(self.atom).kind == SIMT

    @property
    def threads(self) -> int:
        tiling = self.tiling
        return prod(count_atoms(tiling.atoms)) * tiling.atom.threads * self.k_parts

    @property
    def step(self) -> int:
        """Elements of K whose fragments are loaded at a time: what an atom multiplies, or a permutation rearranges."""
        if self.permutation[2] is None:
            return find_atom(self.atom).shape[2]
        return derive_mma(self.tiling).modes[2].period

    def fits(self, p: Problem, arch: Arch) -> bool:
        try:
            chain = derive_mma(self.tiling)
        except LayoutError:
            return False
        (bm, bn, bk), depth = self.tile, self.step
        if bm * bn * bytes_of(p.sums) > 4 * arch.max_registers_per_thread * chain.threads:
            return False  # a thread's sums alone need more registers than it may have
        if self.load == BY_THREADS and not self._can_wait(p, arch, chain.threads):
            return False
        if depth % chain.modes[2].native:
            return False  # fragments that are loaded together are whole atoms
        if (self.k_parts > 1 and chain.threads != WARP_LANES) or bk % (self.k_parts * depth):
            return False
        is_whole = chain.threads % WARP_LANES == 0 and all(mode.tile == mode.covered for mode in chain.modes)
        has_room = self._shared_bytes(p) <= arch.max_shared_bytes_per_cta
        return is_whole and has_room and self.k_parts * chain.threads <= arch.max_threads_per_cta

    def _shared_bytes(self, p: Problem) -> int:
        """Of the stages, and of what leaves, or is added up, where it does not lie over them."""
        bm, bn, bk = self.tile
        leaving = 0 if self.is_simt else bm * bn * bytes_of(p.d.dtype)
        leaving = bm * bn * bytes_of(p.sums) * self.k_parts if self.k_parts > 1 else leaving
        staged = self.staged_bytes(p)
        longer = WIDEST * (max(bm, bk) + max(bn, bk)) if self.load == BY_THREADS else 0  # of rows, at most
        return staged + longer + (leaving if leaving > staged else 0)

    def _can_wait(self, p: Problem, arch: Arch, threads: int) -> bool:
        """Do registers hold the next k-tile beside the sums, each access in whole ones?"""
        (bm, bn, bk), size = self.tile, bytes_of(p.a.dtype)
        each = sum(n * size * max(1, 4 // x.unit_bytes) for x, n in ((p.a, bm), (p.b, bn)))
        waiting = bk * each // self.k_parts + bm * bn * bytes_of(p.sums)
        left = 4 * (registers_for(arch, self.threads, 1) - _OTHERS)
        return waiting <= min(WAITING_BYTES, left) * threads

    def find_product(self, p: Problem) -> MmaAtom | None:
        return find_atom(self.atom, *p.types)

    def count_reads(self) -> int:
        return _count_reads(self.tiling)

    def describe_work(self, p: Problem) -> Work:
        work = super().describe_work(p)
        unused = self.step * work.reads * self.k_parts if self.reads_past_the_end(p) else 0
        copies = self._count_copies(p) if self.load == BY_CP_ASYNC else 0
        return replace(work, unused_reads=unused, copies=copies)

    def _count_copies(self, p: Problem) -> float:
        """Copies that bring one column of K of a tile: fused multiply-adds take rows of k, however the array lies."""
        is_simt, (bm, bn, _) = self.is_simt, self.tile

        def count(x: Matrix, along_k: bool, elements: int) -> float:
            size = bytes_of(x.dtype)
            return elements * size / (size if is_simt and along_k else max(size, x.whole_bytes))

        return count(p.a, p.a.runs_along_rows, bm) + count(p.b, not p.b.runs_along_rows, bn)

    def reads_past_the_end(self, p: Problem) -> bool:
        """Are fragments read after the last k-tile too, of whatever is in the next place?

        Nobody uses them, and a condition would keep the compiler from moving these reads between the products. It takes
        a K that is known to fill every place once. After a k-tile that is the only one, nothing is read.
        """
        k, (_, _, bk) = p.sides[2], self.tile
        is_ring = self.load == BY_CP_ASYNC and self.stages > 1
        return is_ring and isinstance(k, int) and count_own_k_tiles(k, bk, p.parts)[0] >= self.stages

    def write(self, w: Writing) -> dict[str, Any]:
        """Fragments of the next step are loaded while one is multiplied."""
        p, (bm, bn, bk), room = w.problem, self.tile, self.staged_bytes(w.problem)
        is_shared, is_plain = self.k_parts > 1, not p.epilogue and p.d.dtype == p.sums
        is_staged = not is_shared and not self.is_simt
        is_over = room >= bm * bn * bytes_of(p.d.dtype)
        is_read = self.load == BY_THREADS or self.reads_past_the_end(p) or self.stages == 1  # after the last meeting
        # Sums lie as products take them; in h, neighbours of a row of d lie side by side, to be stored together. That
        # binds the compiler's hands: of a long K, its products take longer by more than the stores gain.
        is_long = isinstance(p.sides[2], int) and p.sides[2] >= _LONG * p.parts
        layout_a, layout_b = lay_out_k_tiles(self, p)
        return self.fill_in(
            w, "gemm/tiles.yaml", threads=self.threads, atom=self.atom, k_parts=self.k_parts, depth=self.step,
            steps=bk // self.step // self.k_parts, is_copied=self.load == BY_CP_ASYNC, is_by_k=self.is_simt,
            is_shared=is_shared, is_staged=is_staged, is_over=is_over,
            is_one_warp=is_staged and self.threads == SCOPES["warp"].threads,
            is_joined_over=room >= self.k_parts * bm * bn * bytes_of(p.sums),
            is_moved=is_plain and self.is_simt and not is_shared and not is_long,
            meets_at_end=is_read if is_shared else is_staged and is_over,  # what comes lies over the stages
            reads_past_the_end=self.reads_past_the_end(p), next_when=_divide_at_end(w, bk),
            multiplying=self._say_multiplying(), layout_a=as_given(layout_a), layout_b=as_given(layout_b),
            layout_sums=as_given(lay_out_sums(self)), layout_h=as_given(lay_out_results(self)),
        )  # fmt: skip

    def _say_multiplying(self) -> str:
        """What a product of fused multiply-adds says beside its operands.

        The longer side of a thread's part goes there and back, so that one factor of each product has just been read.
        """
        if not self.is_simt:
            return ""
        pins = f", atoms: {dumps(self.atoms)}, permutation: {dumps(self.permutation)}" if self.k_parts > 1 else ""
        return f"order: nm_serpentine{pins}"


def _divide_at_end(w: Writing, bk: int) -> list[str]:
    """When the k-tile after ``k`` is loaded: apart, where K ends in it, which then has to be asked for each element."""
    size, following = w.problem.sides[2], "k + 1 < kt"
    if is_multiple(size, bk) or (isinstance(size, int) and size < 2 * bk):
        return [following]
    at = "k0 + k" if w.problem.parts > 1 else "k"
    inside = f"({at} + 2)*{bk} <= {as_given(spell_index(size))}"
    return [inside, f"{following} and not ({inside})"]


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
