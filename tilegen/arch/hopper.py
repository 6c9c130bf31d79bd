"""Hopper: sm_90 (H100, H200), and sm_90a with what only that generation has.

Source: CUDA Programming Guide, "Compute Capabilities", column 9.0: 228 KB of shared memory per SM, 227 KB per CTA, 64
warps, 32 CTAs. Features: PTX ISA, "Target ISA Notes" of ``stmatrix``, ``mbarrier.try_wait``, ``cp.async.bulk``,
``cp.async.bulk.tensor``, ``.cluster``, ``griddepcontrol``, ``red`` of vectors and of bf16 (sm_90), ``wgmma`` and
``setmaxnreg`` (sm_90a).

The access model was counted on an H200. sm_90a is the same SM under another target name, so it counts as measured too.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.arch import ada
from tilegen.arch.data import KB, Arch

FEATURES = ada.FEATURES | {
    "stmatrix", "mbarrier", "bulk_copy", "tma", "cluster", "dependent_launch", "red_vectors", "red_bf16",
}  # fmt: skip

SM_90 = Arch(
    "sm_90", (9, 0), 227 * KB, 228 * KB, max_warps_per_sm=64, max_ctas_per_sm=32, features=FEATURES,
    access_model_measured=True,
)  # fmt: skip
SM_90A = replace(SM_90, name="sm_90a", features=FEATURES | {"wgmma", "setmaxnreg", "multicast"})
