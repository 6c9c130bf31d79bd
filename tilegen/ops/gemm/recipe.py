"""How a gemm is carried out: everything that is chosen, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tilegen.layouts.constructors import MmaAtom, derive_mma, find_atom, tile_mma
from tilegen.layouts.constructors.mma_tiling import count_atoms

ROWS_THREADS = 256  # that share the sums of a tile of one column


@dataclass(frozen=True)
class Recipe:
    """``tile``: M, N and K of a CTA's tile. ``atom`` multiplies; ``atoms`` of them side by side make the CTA's.

    ``permutation``: of each dimension how many elements, or which, the tiling covers (docs/permutation.md), None for
    what the atoms cover. ``stages``: k-tiles in shared memory. ``group``: tile rows that CTAs take together.
    ``cluster``: CTAs that share tiles of b. ``ctas``: that share the tiles of d, 0 where each tile has its own.
    ``panel``: columns of d that leave at once. ``load``: what brings k-tiles, tma, cp_async or threads. ``is_turned``:
    the transpose of d is made, of the transposes of b and a. ``overlap``: "previous" where the kernel starts while the
    one before it still runs. ``k_parts``: warps that share K, each with sums of the whole tile, of its part of every
    k-tile; ``atoms`` are those of one of them.
    """

    variant: str
    tile: tuple[int, int, int]
    atom: str
    atoms: Any
    permutation: tuple[Any, Any, Any]
    stages: int
    group: int = 8
    cluster: int = 1
    ctas: int = 0
    panel: int = 0
    load: str = "tma"
    is_turned: bool = False
    overlap: str = ""
    k_parts: int = 1

    @property
    def warpgroups(self) -> int:
        """Those that multiply by wgmma, each the same rows of the tile."""
        return min(2, max(1, self.tile[0] // 64))

    @property
    def threads(self) -> int:
        """Of a CTA; of wgmma with the loading warp and those that fill its warpgroup."""
        if self.variant == "wgmma":
            return 128 * (1 + self.warpgroups)
        if self.variant == "rows":
            return ROWS_THREADS
        if self.load == "tma":
            return 32 + 32 * int(prod(self.atoms))
        tiling = tile_mma(self.atom, self.atoms, self.permutation, self.tile)
        return prod(count_atoms(tiling.atoms)) * tiling.atom.threads * self.k_parts

    @property
    def step(self) -> int:
        """Elements of K whose fragments are loaded at a time: what an atom multiplies, or a permutation rearranges."""
        if self.permutation[2] is None:
            return find_atom(self.atom).shape[2]
        return derive_mma(tile_mma(self.atom, self.atoms, self.permutation, self.tile)).modes[2].period

    def fields(self) -> dict[str, Any]:
        """The fields of the op that pin it."""
        said: dict[str, Any] = {"variant": self.variant, "tile": list(self.tile)}
        said |= {"atom": self.atom} if self.atom not in ("", "auto") else {}
        if self.atoms:
            said["atoms"] = self.atoms if isinstance(self.atoms, str) else list(self.atoms)
        if any(p is not None for p in self.permutation):
            said["permutation"] = list(self.permutation)
        said |= {"load": self.load, "stages": self.stages, "order": self.group} if self.variant != "rows" else {}
        said |= {"cluster": self.cluster, "panel": self.panel} if self.variant == "wgmma" else {}
        said |= {"ctas": self.ctas} if self.ctas else {}
        said |= {"k_parts": self.k_parts} if self.k_parts > 1 else {}
        said |= {"overlap": self.overlap} if self.overlap else {}
        return said | ({"turned": True} if self.is_turned else {})

    def __str__(self) -> str:
        size = " x ".join(map(str, self.tile))
        more = ", pairs of CTAs share b" if self.cluster > 1 else ""
        more += f", {self.k_parts} warps share K" if self.k_parts > 1 else ""
        more += ", of the transposes" if self.is_turned else ""
        return (
            f"{self.variant} {size}"
            + ("" if self.variant == "rows" else f", {self.stages} stages by {self.load}")
            + more
        )


def spell_tiling(recipe: Recipe, atom: MmaAtom) -> str:
    """Which elements of a CTA's tile each thread has, as ``tiled_mma`` says it.

    Where k-tiles come by TMA each warp, or warpgroup, has a part of its own without gaps: as many atoms side by side as
    that part has are its R.

    >>> from tilegen.layouts.constructors import find_atom
    >>> ring = Recipe("mma_sync", (128, 64, 32), "mma.m16n8k16", (2, 1, 1), (None, None, None), 4)
    >>> spell_tiling(ring, find_atom(ring.atom))
    "tiled_mma('mma.m16n8k16.f32.f16.f16.f32', (2, 1, 1), ('R=4', 'R=8', None), 'C', (128, 64, 32))"
    """
    atoms, permutation = recipe.atoms, tuple[Any, ...](recipe.permutation)
    if recipe.load == "tma":
        atoms = (recipe.warpgroups, 1, 1) if recipe.variant == "wgmma" else recipe.atoms
        runs = (recipe.tile[d] // (atoms[d] * atom.shape[d]) for d in range(2))
        permutation = (*(f"R={run}" if run > 1 else None for run in runs), None)
    return f"tiled_mma({atom.name!r}, {atoms!r}, {permutation!r}, 'C', {recipe.tile!r})"
