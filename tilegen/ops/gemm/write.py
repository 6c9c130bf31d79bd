"""A recipe as a spec: one writer for each variant."""

from __future__ import annotations

from typing import Any

from tilegen.ops.gemm.mma_sync import write_mma_sync
from tilegen.ops.gemm.parts import Writing
from tilegen.ops.gemm.wgmma import write_wgmma

_WRITERS = {"wgmma": write_wgmma, "mma_sync": write_mma_sync, "simt": write_mma_sync}


def write_recipe(w: Writing) -> dict[str, Any]:
    """The launch, the buffers and the statements of a spec."""
    return _WRITERS[w.recipe.variant](w)
