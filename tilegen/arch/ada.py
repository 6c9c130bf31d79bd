"""Ada: sm_89 (L4, L40, RTX 40).

Source: CUDA Programming Guide, "Compute Capabilities", column 8.9: 100 KB of shared memory per SM, 99 KB per CTA, 48
warps, 24 CTAs. Features: PTX ISA, "Target ISA Notes" of ``mma`` with .e4m3 and .e5m2 (sm_89).
"""

from __future__ import annotations

from tilegen.arch import ampere
from tilegen.arch.data import KB, Arch

FEATURES = ampere.FEATURES | {"mma_fp8"}

SM_89 = Arch("sm_89", (8, 9), 99 * KB, 100 * KB, max_warps_per_sm=48, max_ctas_per_sm=24, features=FEATURES)
