"""Kernels for sm_100a on the machine: right as they are, and with faults that it finds."""

from __future__ import annotations

import re

import pytest

from tests.ptx.blackwell import KERNELS
from tests.ptx.blackwell_faults import FAULTS, VALUES, Planted
from tests.ptx.blackwell_runs import compile_kernel, run
from tests.ptx.kernels import requires_nvrtc
from tilegen.ptx import PtxError, PtxFault

# One of each way to be found; `make ptx` has the others.
QUICK = (1, 4, 8, 16, 20, 21, 29)
CASES = [pytest.param(f, id=f.name, marks=() if f.number in QUICK else pytest.mark.slow) for f in FAULTS]


@requires_nvrtc
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_right(name):
    assert run(name) < 1


@requires_nvrtc
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compile_without_spills(name):
    cubin = compile_kernel(name)
    assert cubin.spill_store_bytes == cubin.spill_load_bytes == 0 and not cubin.losses
    assert "warning" not in cubin.log


def find(fault: Planted) -> str:
    """What the machine says of a fault; "" where the result is right."""
    try:
        far = run(fault.kernel, fault.plant)
    except (PtxFault, PtxError) as error:
        return str(error)
    return VALUES if far > 1 else ""


@requires_nvrtc
@pytest.mark.parametrize("fault", CASES)
def test_faults_are_found_or_change_nothing(fault):
    found = find(fault)
    if fault.said:
        assert re.search(fault.said, found), found
    else:
        assert fault.why and not found


def test_each_fault_of_the_list_is_tried():
    assert {fault.number for fault in FAULTS} == set(range(34))
