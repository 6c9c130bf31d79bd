"""gemm on Hopper without wgmma: a warp that loads by TMA, warps that multiply by mma.sync, each a tile of its own."""

from __future__ import annotations

from typing import Any

from tilegen.layouts.constructors import find_atom
from tilegen.ops.gemm.parts import Writing

PANEL_ROWS = 16  # of a warp's sums that leave at once


def write_ring(w: Writing) -> dict[str, Any]:
    """The launch, buffers and statements."""
    r, (along_m, along_n) = w.recipe, w.recipe.atoms[:2]
    warps = along_m * along_n
    return w.fill_in(
        "gemm/ring.yaml", ctas=r.ctas, atom=r.atom, depth=find_atom(r.atom).shape[2], rows=r.tile[0] // along_m,
        columns=r.tile[1] // along_n, warps_m=along_m, warps=warps, panel_rows=PANEL_ROWS,
        has_budgets=w.has_budgets and warps % 4 == 0,  # whole warpgroups
    )  # fmt: skip
