"""Ampere: sm_80 (A100, A30) and sm_86 (GA10x: A10, A40, RTX 30).

Source: CUDA Programming Guide, "Compute Capabilities", columns 8.0 and 8.6. 8.0: 164 KB of shared memory per SM, 163 KB
per CTA, 64 warps, 32 CTAs; 8.6: 100 KB, 99 KB, 48 warps, 16 CTAs. Features: PTX ISA, "Target ISA Notes" of
``ldmatrix`` (sm_75), ``cp.async`` and ``mma`` with .bf16 and .tf32 (sm_80).
"""

from __future__ import annotations

from tilegen.arch.data import KB, Arch

FEATURES = frozenset({"ldmatrix", "cp_async", "mma_f16", "mma_bf16", "mma_tf32", "mma_f64", "mma_int8"})

SM_80 = Arch("sm_80", (8, 0), 163 * KB, 164 * KB, max_warps_per_sm=64, max_ctas_per_sm=32, features=FEATURES)
SM_86 = Arch("sm_86", (8, 6), 99 * KB, 100 * KB, max_warps_per_sm=48, max_ctas_per_sm=16, features=FEATURES)
