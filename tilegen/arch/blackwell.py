"""Blackwell: sm_100 (B200, GB200), sm_100a with tensor memory, and sm_120 (RTX 50, RTX PRO).

Source: CUDA Programming Guide, "Compute Capabilities", columns 10.0 and 12.0. 10.0: 228 KB of shared memory per SM,
227 KB per CTA, 64 warps, 32 CTAs; 12.0: 100 KB, 99 KB, 48 warps, 24 CTAs. Features: PTX ISA, "Target ISA Notes" of
``tcgen05`` and ``setmaxnreg`` (sm_100a); ``wgmma`` is Hopper's alone.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.arch import hopper
from tilegen.arch.data import KB, Arch, TensorMemory

FEATURES = hopper.FEATURES | {"wide_global"}  # 32-byte global loads and stores per thread (ld.global.v8.b32)

SM_100 = Arch("sm_100", (10, 0), 227 * KB, 228 * KB, max_warps_per_sm=64, max_ctas_per_sm=32, features=FEATURES)
SM_100A = replace(
    SM_100, name="sm_100a", features=FEATURES | {"tcgen05", "setmaxnreg", "multicast"},
    tensor_memory=TensorMemory(),
)  # fmt: skip
SM_120 = Arch("sm_120", (12, 0), 99 * KB, 100 * KB, max_warps_per_sm=48, max_ctas_per_sm=24, features=FEATURES)
