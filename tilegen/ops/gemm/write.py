"""A recipe as a spec."""

from __future__ import annotations

from typing import Any

from tilegen.ops.gemm.parts import Writing
from tilegen.ops.gemm.ring import write_ring
from tilegen.ops.gemm.rows import write_rows
from tilegen.ops.gemm.tiles import write_tiles
from tilegen.ops.gemm.wgmma import write_wgmma


def write_recipe(w: Writing) -> dict[str, Any]:
    """The launch, the buffers and the statements of a spec."""
    if w.recipe.variant == "wgmma":
        return write_wgmma(w)
    if w.recipe.variant == "rows":
        return write_rows(w)
    return write_ring(w) if w.recipe.load == "tma" else write_tiles(w)
