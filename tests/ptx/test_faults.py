"""Faults in the text that plans do not know of: found by name, or shown to change nothing."""

from __future__ import annotations

import pytest

from tests.ptx.faults import FAULTS, Fault
from tests.ptx.kernels import list_kernels, requires_nvrtc
from tilegen.errors import ProofError
from tilegen.verifying.on_ptx import verify_ptx

FOUND = [fault for fault in FAULTS if fault.said]
HIDDEN = [fault for fault in FAULTS if not fault.said]


def run(fault: Fault) -> None:
    for kernel in list_kernels(fault.spec):
        verify_ptx(kernel, (1,), text=fault.plant(kernel.source))


@requires_nvrtc
@pytest.mark.sweep(12)
@pytest.mark.parametrize("fault", FOUND, ids=lambda fault: fault.name)
def test_found(fault):
    with pytest.raises(ProofError, match=fault.said):
        run(fault)


@requires_nvrtc
@pytest.mark.sweep(1)
@pytest.mark.parametrize("fault", HIDDEN, ids=lambda fault: fault.name)
def test_what_no_execution_shows(fault):
    assert fault.why
    run(fault)
