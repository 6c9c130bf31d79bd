"""Faults in the text that plans do not know of: found by name, or shown to change nothing."""

from __future__ import annotations

import pytest

from tests.ptx.faults import FAULTS, Fault
from tests.ptx.kernels import list_kernels, requires_nvrtc
from tilegen.errors import ProofError
from tilegen.verifying.on_ptx import verify_ptx

# Kernels that are proved in a second; `make slow` has the faults of the others.
QUICK = (
    "copy_tile",
    "copy_tma",
    "mma_tile",
    "wgmma_tile",
    "broadcast_cluster",
    "epilogue_panels",
    "fragment_cast",
    "swiglu",
)
CASES = [pytest.param(f, id=f.name, marks=() if f.spec in QUICK else pytest.mark.slow) for f in FAULTS]


def run(fault: Fault) -> None:
    for kernel in list_kernels(fault.spec):
        verify_ptx(kernel, (1,), text=fault.plant(kernel.source))


@requires_nvrtc
@pytest.mark.parametrize("fault", CASES)
def test_faults_are_found_or_change_nothing(fault):
    if not fault.said:
        assert fault.why
        return run(fault)
    with pytest.raises(ProofError, match=fault.said):
        run(fault)
