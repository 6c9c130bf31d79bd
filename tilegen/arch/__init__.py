"""GPU generations: one file each, all in ``ARCHES`` by the name that a spec's ``arch`` uses.

>>> ARCHES["sm_90"].max_shared_bytes_per_cta
232448
>>> [name for name, arch in ARCHES.items() if arch.access_model_measured]
['sm_90', 'sm_90a']
"""

from __future__ import annotations

from tilegen.arch import ada, ampere, blackwell, hopper
from tilegen.arch.data import Arch, occupancy

ARCHES: dict[str, Arch] = {
    arch.name: arch
    for arch in (
        ampere.SM_80, ampere.SM_86, ada.SM_89, hopper.SM_90, hopper.SM_90A, blackwell.SM_100, blackwell.SM_100A,
        blackwell.SM_120,
    )
}  # fmt: skip
WITH_TENSOR_MEMORY = tuple(name for name, arch in ARCHES.items() if arch.tensor_memory is not None)
DEFAULT_ARCH = "sm_90"  # of a spec that names none

__all__ = ["ARCHES", "DEFAULT_ARCH", "WITH_TENSOR_MEMORY", "Arch", "occupancy"]
