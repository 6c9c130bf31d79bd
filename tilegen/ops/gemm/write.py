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
        written = write_rows(w)
        return _follow(written) if w.recipe.overlap else written
    written = write_ring(w) if w.recipe.load == "tma" else write_tiles(w)
    return _follow(written) if w.recipe.overlap else written


def _follow(written: dict[str, Any]) -> dict[str, Any]:
    """The same kernel, started while the one before it still runs: whoever touches arrays waits for that one first."""
    waits = [{"wait": "previous"}]
    ops = [s | {"do": [*waits, *s["do"]]} if "role" in s else s for s in written["ops"]]
    return written | {"overlap": "previous", "ops": ops if "roles" in written else [*waits, *ops]}
