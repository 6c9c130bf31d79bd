"""The GPU generations, and the occupancy that NVIDIA's cuda_occupancy.h (CUDA 13.0) computes for them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from tilegen.arch import ARCHES, occupancy

# (arch, threads, registers, shared bytes, warps per SM): drawn from 20,000 random cases computed by cuda_occupancy.h
OCCUPANCY = [
    ("sm_80", 32, 79, 19437, 8), ("sm_80", 256, 238, 113184, 8), ("sm_86", 384, 207, 9634, 0),
    ("sm_86", 128, 164, 9531, 12), ("sm_86", 160, 123, 11932, 15), ("sm_86", 827, 226, 18949, 0),
    ("sm_86", 256, 64, 0, 32), ("sm_89", 160, 31, 64937, 5), ("sm_89", 256, 208, 73838, 8),
    ("sm_89", 128, 105, 0, 16), ("sm_89", 128, 26, 32552, 12), ("sm_90", 128, 45, 4863, 40),
    ("sm_90", 32, 245, 225255, 1), ("sm_90", 256, 192, 0, 8), ("sm_90a", 256, 108, 208719, 8),
    ("sm_100", 512, 221, 0, 0), ("sm_100", 96, 137, 14527, 12), ("sm_100", 128, 38, 4856, 48),
    ("sm_100a", 1024, 157, 9018, 0), ("sm_100a", 128, 103, 0, 16), ("sm_100a", 242, 38, 9676, 48),
    ("sm_120", 384, 24, 0, 48), ("sm_120", 96, 153, 6225, 12), ("sm_120", 96, 99, 1777, 15),
]  # fmt: skip


@pytest.mark.parametrize(("arch", "threads", "registers", "shared_bytes", "warps"), OCCUPANCY)
def test_occupancy_is_nvidias(arch: str, threads: int, registers: int, shared_bytes: int, warps: int) -> None:
    assert occupancy(ARCHES[arch], threads, registers, shared_bytes) == warps


def test_occupancy_refuses_what_is_no_launch() -> None:
    with pytest.raises(ValueError, match="cannot launch 0 threads"):
        occupancy(ARCHES["sm_90"], 0, 32, 0)


@pytest.mark.parametrize("name", ARCHES)
def test_an_arch_is_consistent(name: str) -> None:
    arch = ARCHES[name]
    major, minor = arch.compute_capability
    assert name.rstrip("a") == f"sm_{major}{minor}"
    assert arch.banks * arch.bank_bytes == 128
    # What a CTA may ask for is what an SM has, less the part reserved for that CTA.
    assert arch.max_shared_bytes_per_cta == arch.shared_bytes_per_sm - arch.reserved_shared_bytes_per_cta
    assert arch.max_threads_per_cta <= arch.max_warps_per_sm * arch.warp_lanes
    assert arch.access_model_measured == (arch.compute_capability == (9, 0))
    with pytest.raises(FrozenInstanceError):
        arch.banks = 16  # type: ignore[misc]


def test_instructions_of_one_generation_stay_there() -> None:
    assert [name for name, arch in ARCHES.items() if "wgmma" in arch.features] == ["sm_90a"]
    assert [name for name, arch in ARCHES.items() if "tcgen05" in arch.features] == ["sm_100a"]
    assert [name for name, arch in ARCHES.items() if arch.tensor_memory] == ["sm_100a"]
    assert all("cp_async" in arch.features for arch in ARCHES.values())
