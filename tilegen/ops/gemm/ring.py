"""gemm on Hopper without wgmma: a warp that loads by TMA, warps that multiply by mma.sync, each a tile of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tilegen.arch import Arch
from tilegen.cost.tally import Work
from tilegen.layouts.constructors import MmaAtom, find_atom, find_tma_problems
from tilegen.ops.gemm.parts import Writing
from tilegen.ops.gemm.pins import read_atoms
from tilegen.ops.gemm.problem import WIDEST, Problem, bytes_of, count_tiles
from tilegen.ops.gemm.recipe import AS_ATOMS, Recipe, count_aside, place_without_gaps, share_tiles

_PANEL_ROWS = 16  # of a warp's sums that leave at once
_MOST_WARPS = 8  # that multiply: more have fewer than 240 registers a thread


@dataclass(frozen=True)
class RingRecipe(Recipe):
    """K-tiles come by TMA, to warps that multiply each a part of the tile."""

    @property
    def warps(self) -> int:
        """That multiply."""
        return int(prod(self.atoms))

    @property
    def threads(self) -> int:
        """Of a CTA, with the loading warp."""
        return 32 + 32 * self.warps

    def fits(self, p: Problem, arch: Arch) -> bool:
        (bm, bn, bk), size = self.tile, bytes_of(p.a.dtype)
        atom = find_atom(self.atom).shape
        parts = zip(self.tile, atom, (*self.atoms, 1), strict=False)
        is_whole = bm % (16 * self.atoms[0]) == 0 and all(n % (a * count) == 0 for n, a, count in parts)
        is_whole &= bk % (2 * atom[2]) == 0  # two fragments in turn: the next k-tile begins with the first
        if not p.a.runs_along_rows or p.b.runs_along_rows:  # a box has a row for each k
            is_whole &= not find_tma_problems(p.a.dtype, (bk, WIDEST // size))
        staged = self.stages * bk * (bm + bn) * size
        out = self.warps * _PANEL_ROWS * (bn // self.atoms[1]) * bytes_of(p.d.dtype)
        return is_whole and staged + out + 1024 <= arch.max_shared_bytes_per_cta

    def find_product(self, p: Problem) -> MmaAtom | None:
        return find_atom(self.atom, *p.types)

    def count_reads(self) -> int:
        bm, bn, _ = self.tile
        return int(bm * self.atoms[1] + bn * self.atoms[0])

    def describe_work(self, p: Problem) -> Work:
        parts = self.tile[0] // _PANEL_ROWS, self.atoms[1]
        return replace(super().describe_work(p), arrivers=self.warps, aside_bytes=count_aside(p, self.tile, parts))

    def write(self, w: Writing) -> dict[str, Any]:
        along_m, along_n = self.atoms[:2]
        return self.fill_in(
            w, "gemm/ring.yaml", atom=self.atom, depth=find_atom(self.atom).shape[2], rows=self.tile[0] // along_m,
            columns=self.tile[1] // along_n, warps_m=along_m, warps=self.warps, panel_rows=_PANEL_ROWS,
            has_budgets=w.has_budgets and self.warps % 4 == 0,  # whole warpgroups
        )  # fmt: skip

    def _place_atoms(self, atom: MmaAtom) -> tuple[Any, tuple[Any, Any, Any]]:
        return place_without_gaps(self.tile, self.atoms, atom)


def list_rings(p: Problem, arch: Arch, fields: Any, atom: str) -> Iterator[Recipe]:
    """Where TMA brings both arrays, and CTAs have all of K: tiles of which each warp has so much that its sums fit into
    registers."""
    if p.parts > 1 or "tma" not in arch.features or not all(x.is_dense and x.unit_bytes == WIDEST for x in (p.a, p.b)):
        return
    bk = 128 // bytes_of(p.a.dtype)
    tiles = [(256, 128), (128, 128), (128, 64), (64, 64)]
    tiles += [tuple(fields.tile[:2])] if fields.tile and tuple(fields.tile[:2]) not in tiles else []
    given = read_atoms(fields.atoms)
    if given and (isinstance(given, str) or given[2:] not in ((), (1,))):
        return  # warps lie side by side, as numbers say
    for bm, bn in tiles:
        side = 32 if p.sums == "float64" else 64  # of a warp's tile
        warps = (max(1, bm // side), max(1, bn // side), 1)
        if prod(warps) > _MOST_WARPS:
            continue
        tile = bm, bn, fields.tile[2] if fields.tile else bk
        ctas = fields.ctas or share_tiles(count_tiles(p, bm, bn), p, arch)
        for stages in (fields.stages,) if fields.stages else (4, 3):
            yield RingRecipe("mma_sync", tile, atom, given or warps, AS_ATOMS, stages, fields.order or 8, ctas=ctas)
