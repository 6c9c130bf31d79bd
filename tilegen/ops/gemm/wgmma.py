"""gemm on Hopper: a warp that loads by TMA, warpgroups that multiply by wgmma, CTAs that go from tile to tile."""

from __future__ import annotations

from typing import Any

from tilegen.arithmetic import TFLOAT32
from tilegen.ops.gemm.parts import Writing, bytes_of
from tilegen.ops.gemm.problem import WIDEST


def write_wgmma(w: Writing) -> dict[str, Any]:
    """The launch, buffers and statements."""
    r, is_tf32 = w.recipe, w.problem.factors == TFLOAT32
    return w.fill_in(
        "gemm/wgmma.yaml", ctas=r.ctas, pairs=r.cluster, groups=r.warpgroups, rows=r.tile[0] // r.warpgroups,
        panel=r.panel, by_tma=can_store_by_tma(w), rounding=w.rounding(),
        atom=f"atom: wgmma.m64n{r.tile[1]}k8.f32.tf32.tf32, " if is_tf32 else "",
    )  # fmt: skip


def can_store_by_tma(w: Writing) -> bool:
    """TMA writes rows that begin and end at multiples of 16 bytes, of an array that the kernel does not read."""
    d = w.problem.d
    return d.runs_along_rows and d.whole_bytes == WIDEST and not w.problem.is_read_again


def shared_bytes(w: Writing) -> int:
    """What the stages and the panel take."""
    (bm, bn, bk), p = w.recipe.tile, w.problem
    stage = bk * (bm * bytes_of(p.a.dtype) + bn * bytes_of(p.b.dtype))
    return w.recipe.stages * stage + bm * w.recipe.panel * bytes_of(p.d.dtype) + 16 * w.recipe.stages
