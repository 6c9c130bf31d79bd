"""gemm on Hopper: a warp that loads by TMA, warpgroups that multiply by wgmma, CTAs that go from tile to tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tilegen.arch import Arch
from tilegen.arch.data import typical_device
from tilegen.arithmetic import TFLOAT32
from tilegen.cost.tally import Work
from tilegen.layouts.constructors import MmaAtom
from tilegen.ops.gemm.parts import Writing
from tilegen.ops.gemm.problem import LISTED, MOST_PARTS, Problem, bytes_of, typical_batch, typical_sides
from tilegen.ops.gemm.recipe import (
    AS_ATOMS,
    Recipe,
    can_store_by_tma,
    count_aside,
    find_instruction,
    most_stages,
    place_without_gaps,
    refuse_factors,
    refuse_tma,
    refuse_turned,
    share_tiles,
)
from tilegen.ops.mma.atoms import is_named

_ROWS, _WIDEST_N, _NARROWEST_N = (256, 128, 64), 256, 8
_MOST_SUMS = 128 * 256  # that two warpgroups hold
_TILES = tuple(
    (m, n) for n in (256, 224, 192, 160, 128, 96, 64, 32, 16, 8) for m in _ROWS if m * n <= _MOST_SUMS
)  # fmt: skip
_NARROWEST_FIT = 64  # columns of a tile that fits N; tiles of 24, 40 and 56 took 9 to 14 % longer than of 32 and 64
_CUTS = 6  # numbers of tiles along N that are looked at for tiles that fit


@dataclass(frozen=True)
class WgmmaRecipe(Recipe):
    """Warpgroups multiply what TMA brings, each the same rows of the tile."""

    @property
    def warpgroups(self) -> int:
        """That multiply."""
        return min(2, max(1, self.tile[0] // 64))

    @property
    def threads(self) -> int:
        """Of a CTA, with the loading warp and those that fill its warpgroup."""
        return 128 * (1 + self.warpgroups)

    def fits(self, p: Problem, arch: Arch) -> bool:
        (bm, bn, bk), size = self.tile, bytes_of(p.a.dtype)
        is_whole = bm in (64, 128, 256) and bk * size % 32 == 0 and find_instruction(p, "wgmma", 64, bn) is not None
        taken = self.staged_bytes(p) + bm * self.panel * bytes_of(p.d.dtype) + 16 * self.stages
        return is_whole and taken + 1024 <= arch.max_shared_bytes_per_cta

    def find_product(self, p: Problem) -> MmaAtom | None:
        return find_instruction(p, "wgmma", 64, self.tile[1])

    def count_reads(self) -> int:
        bm, bn, _ = self.tile
        return bm + bn * self.warpgroups

    def describe_work(self, p: Problem) -> Work:
        panels = self.tile[1] // self.panel if self.panel else 1
        aside = count_aside(p, self.tile, (self.warpgroups, panels))
        by_tma = self.panel > 0 and can_store_by_tma(p)
        work = replace(super().describe_work(p), arrivers=self.warpgroups, panels=panels, by_tma=by_tma)
        return replace(work, aside_bytes=aside, stores_singly=p.parts > 1 and not p.d.runs_along_rows)

    def write(self, w: Writing) -> dict[str, Any]:
        groups, is_tf32 = self.warpgroups, w.problem.factors == TFLOAT32
        template = "gemm/wgmma.yaml" if w.problem.parts == 1 else "gemm/wgmma_parts.yaml"
        return self.fill_in(
            w, template, pairs=self.cluster, groups=groups, rows=self.tile[0] // groups, panel=self.panel,
            by_tma=can_store_by_tma(w.problem), rounding=w.rounding(),
            atom=f"atom: wgmma.m64n{self.tile[1]}k8.f32.tf32.tf32, " if is_tf32 else "",
        )  # fmt: skip

    def _own_fields(self) -> dict[str, Any]:
        more = {"cluster": self.cluster} if self.panel or self.cluster > 1 else {}
        return super()._own_fields() | more | ({"panel": self.panel} if self.panel else {})

    def _place_atoms(self, atom: MmaAtom) -> tuple[Any, tuple[Any, Any, Any]]:
        return place_without_gaps(self.tile, (self.warpgroups, 1, 1), atom)


def list_parts_of_tiles(p: Problem, arch: Arch) -> set[int]:
    """Numbers of CTAs that share K, with which tiles of one size keep as many multiprocessors busy as can be."""
    return {_count_room(p, tile, cluster, arch) for tile in (*_TILES, *fit_tiles(p)) for cluster in (1, 2)} - {0, 1}


def _count_room(p: Problem, tile: tuple[int, int], cluster: int, arch: Arch) -> int:
    """As many CTAs of each tile as multiprocessors have room for, 0 where there are more tiles."""
    (m, n, _), (bm, bn) = typical_sides(p), tile
    return min(MOST_PARTS, typical_device(arch.name).sm_count // (-(-m // (bm * cluster)) * cluster * -(-n // bn)))


def fit_tiles(p: Problem) -> list[tuple[int, int]]:
    """Tiles that cut N into equal parts, of the fewest to a few more: as few columns as can be lie beyond its end.

    None is narrower than 64 columns: a multiplication then takes as long as its rows are read (docs/gemm.md).

    >>> from types import SimpleNamespace
    >>> p = SimpleNamespace(batch=1, sides=(144, 584, 32728))
    >>> [bn for bm, bn in fit_tiles(p) if bm == 64]
    [200, 152, 120, 104, 88, 80]
    """
    n = typical_sides(p)[1]
    cuts = range(-(-n // _WIDEST_N), -(-n // _WIDEST_N) + _CUTS)
    widths = dict.fromkeys(-(-n // cut // _NARROWEST_N) * _NARROWEST_N for cut in cuts)
    return [(bm, bn) for bn in widths for bm in _ROWS if bn >= _NARROWEST_FIT and bm * bn <= _MOST_SUMS]


def refuse_wgmma(p: Problem, arch: Arch) -> str:
    if "wgmma" not in arch.features:
        return f"{arch.name} has no wgmma, which sm_90a has"
    return (
        refuse_factors(p, "wgmma") or refuse_tma(p) or (refuse_turned(p, "wgmma") if bytes_of(p.a.dtype) != 2 else "")
    )


def list_wgmma(p: Problem, arch: Arch, fields: Any) -> Iterator[Recipe]:
    """Tiles of whose sums two warpgroups hold all, in panels, by one CTA or in pairs; a part's sums leave at once."""
    bk = fields.tile[2] if fields.tile else 128 // bytes_of(p.a.dtype)
    rows = typical_sides(p)[0]
    more = [tuple(fields.tile[:2])] if fields.tile else [] if p.parts == 1 else fit_tiles(p)
    for bm, bn in dict.fromkeys((*_TILES, *more)):
        is_usual = p.parts in LISTED and ((bm, bn) in _TILES or fields.tile)
        is_one_wave = p.parts > 1 and fields.split == "auto" and not is_usual  # or it is left out
        atom = find_instruction(p, "wgmma", 64, bn)
        if atom is None or not is_named(atom, fields.atom):
            continue
        panels = (x for x in (fields.panel, bn, 128, 64, 32) if x and bn % x == 0 and (x <= 128 or x == fields.panel))
        for panel in dict.fromkeys(panels) if p.parts == 1 else (0,):
            for cluster in (1, 2):
                if cluster == 2 and (rows <= bm or fields.cluster == 1):
                    continue
                if is_one_wave and p.parts != _count_room(p, (bm, bn), cluster, arch):
                    continue
                base = WgmmaRecipe(
                    "wgmma", (bm, bn, bk), fields.atom, "", AS_ATOMS, 1, cluster=cluster, panel=panel
                )  # fmt: skip
                stages = fields.stages or most_stages(base, p, arch)
                if stages >= 2:
                    yield _share(replace(base, stages=stages), p, arch, fields)


def _share(recipe: WgmmaRecipe, p: Problem, arch: Arch, fields: Any) -> WgmmaRecipe:
    """The recipe with CTAs that share the tiles, and how many rows of tiles they take together. Of parts of K each CTA
    has one."""
    (bm, bn, _), cluster, (m, n, _) = recipe.tile, recipe.cluster, typical_sides(p)
    tiles_m, tiles_n = -(-m // (bm * cluster)), -(-n // bn)
    group = fields.order or max(1, min(16 // cluster, tiles_m))
    if p.parts > 1:
        return replace(recipe, group=group)  # a cluster's CTAs have tiles of one part
    ctas = fields.ctas or share_tiles(tiles_m * tiles_n * typical_batch(p) * cluster, p, arch)
    return replace(recipe, group=group, ctas=-(-ctas // cluster) * cluster)
