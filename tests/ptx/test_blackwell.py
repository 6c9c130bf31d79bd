"""Kernels for sm_100a on the machine: right as they are, and with faults that it finds."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.ptx.blackwell import KERNELS
from tests.ptx.blackwell_faults import FAULTS, VALUES, Planted
from tests.ptx.blackwell_runs import ARCH, compile_kernel, count_instructions, find_disassembler, run, run_ptx, source
from tests.ptx.kernels import requires_nvrtc
from tilegen.gpu import compile_cubin, print_ptx
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


# What nvcc 13.0 makes of larger kernels written by hand for the same work, by family.
FAMILIES = {
    "one": {"UTCHMMA": 4, "UTCBAR": 2, "LDTM.x8": 1, "UTMALDG.2D": 2},
    "pair": {"UTCHMMA.2CTA": 4, "UTCBAR.2CTA.MULTICAST": 2, "LDTM.x8": 1, "UTMALDG.2D.2CTA": 2},
    "scaled": {"UTCQMMA": 4, "UTCCP.T.S.4x32dp128bit": 2, "UTCBAR": 2, "LDTM.x8": 1, "UTMALDG.2D": 4},
    "attention": {"UTCHMMA": 8, "UTCBAR": 4, "LDTM.x8": 10, "STTM.x8": 5, "UTMALDG.2D": 3},
}


@requires_nvrtc
@pytest.mark.skipif(find_disassembler() is None, reason="there is no nvdisasm")
@pytest.mark.parametrize("name", KERNELS)
def test_machine_code_has_the_instructions_without_loops(name):
    """Where ptxas does not see that one thread starts a copy or a product, it elects one in a loop around each."""
    found = count_instructions(compile_kernel(name).image)
    mine = ("UTCH", "UTCQ", "UTCB", "UTCCP", "LDTM", "STTM", "UTMALDG")
    assert {op: n for op, n in found.items() if op.startswith(mine)} == FAMILIES[name]
    assert not [op for op in found if op.startswith(("VOTE.", "R2UR.BROADCAST"))]
    looped = source(name, lambda text: text.replace("if (elected())", "if ((threadIdx.x & 31) == 0)"))
    assert count_instructions(compile_cubin(looped, ARCH, name).image)["ELECT"] >= found["ELECT"] + 4


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


# What may be dropped alone: the permit; fences where columns are taken, which is not asynchronous; a fence that another
# one follows; a barrier of a warp before the CTA's; one of two fences of mbarriers.
NEEDLESS = {
    "one": {"relinquish_alloc_permit": 1, "fence::before": 2, "fence::after": 2, "bar.warp": 1},
    "pair": {"relinquish_alloc_permit": 1, "fence::before": 2, "fence::after": 2, "bar.warp": 1, "fence.": 2},
    "scaled": {"relinquish_alloc_permit": 1, "fence::before": 1, "fence::after": 1, "bar.warp": 1},
    "attention": {"relinquish_alloc_permit": 1, "fence::before": 1, "fence::after": 1, "bar.warp": 1},
}
SYNCHRONIZES = re.compile(r"\s*(@!?%p\d+\s+)?(tcgen05|mbarrier|bar|barrier|fence|elect|cp\.async|mapa)\.?.*;")


@pytest.mark.slow
@requires_nvrtc
@pytest.mark.parametrize("name", KERNELS)
def test_each_synchronizing_instruction_is_needed(name):
    lines = print_ptx(source(name), ARCH, name).split("\n")
    survived: Counter[str] = Counter()
    for k, line in enumerate(lines):
        if not SYNCHRONIZES.fullmatch(line):
            continue
        try:
            is_right = run_ptx(name, "\n".join([*lines[:k], "", *lines[k + 1 :]])) < 1
        except (PtxFault, PtxError):
            continue
        if is_right:
            survived[next(part for part in NEEDLESS["pair"] if part in line)] += 1
    assert survived == NEEDLESS[name]


def test_each_fault_of_the_list_is_tried():
    assert {fault.number for fault in FAULTS} == set(range(34))
