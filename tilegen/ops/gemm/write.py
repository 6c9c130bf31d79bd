"""A recipe as a spec: one writer for each variant."""

from __future__ import annotations

from typing import Any

from tilegen.ops.gemm.parts import Writing
from tilegen.ops.gemm.wgmma import write_wgmma

_WRITERS = {"wgmma": write_wgmma}


def write_recipe(w: Writing) -> dict[str, Any]:
    """The launch, the buffers and the statements of a spec."""
    return _WRITERS[w.recipe.variant](w)
