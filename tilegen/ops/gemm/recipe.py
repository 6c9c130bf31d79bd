"""How a gemm is carried out: everything that is chosen, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tilegen.layouts.constructors import tile_mma
from tilegen.layouts.constructors.mma_tiling import count_atoms


@dataclass(frozen=True)
class Recipe:
    """``tile``: M, N and K of a CTA's tile. ``atom`` multiplies; ``atoms`` of them side by side make the CTA's.

    ``permutation``: of each dimension how many elements, or which, the tiling covers (docs/permutation.md), None for
    what the atoms cover. ``stages``: k-tiles in shared memory. ``group``: tile rows that CTAs take together.
    ``cluster``: CTAs that share tiles of b. ``ctas``: that share the tiles of d, 0 where each tile has its own.
    ``panel``: columns of d that leave at once. ``load``: what brings k-tiles, tma,
    cp_async or threads. ``is_turned``: the
    transpose of d is made, of the transposes of b and a.
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

    @property
    def threads(self) -> int:
        """Of a CTA; of wgmma with the loading warp and those that fill its warpgroup."""
        if self.variant == "wgmma":
            return 128 * (1 + min(2, max(1, self.tile[0] // 64)))
        if self.load == "tma":
            return 32 + 32 * int(prod(self.atoms))
        tiling = tile_mma(self.atom, self.atoms, self.permutation, self.tile)
        return prod(count_atoms(tiling.atoms)) * tiling.atom.threads

    def fields(self) -> dict[str, Any]:
        """The fields of the op that pin it."""
        said: dict[str, Any] = {"variant": self.variant, "tile": list(self.tile)}
        said |= {"atom": self.atom} if self.atom != "auto" else {}
        if self.atoms:
            said["atoms"] = self.atoms if isinstance(self.atoms, str) else list(self.atoms)
        if any(p is not None for p in self.permutation):
            said["permutation"] = list(self.permutation)
        said |= {"load": self.load, "stages": self.stages, "order": self.group}
        said |= {"cluster": self.cluster, "panel": self.panel} if self.variant == "wgmma" else {}
        said |= {"ctas": self.ctas} if self.ctas else {}
        return said | ({"turned": True} if self.is_turned else {})

    def __str__(self) -> str:
        size = " x ".join(map(str, self.tile))
        more = ", pairs of CTAs share b" if self.cluster > 1 else ""
        more += ", of the transposes" if self.is_turned else ""
        return f"{self.variant} {size}, {self.stages} stages by {self.load}{more}"
