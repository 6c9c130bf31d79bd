"""Faults in the text of kernels that read tables, which plans do not know of: the machine finds each by name."""

from __future__ import annotations

import pytest

from tests.faults.texts import change_text
from tests.proofs.test_programs_with_tables import GATHER
from tests.ptx.kernels import draft, requires_nvrtc
from tests.session import once
from tilegen.errors import ProofError
from tilegen.pipeline import Built, kernels_of, load
from tilegen.verifying.on_ptx import verify_ptx

pytestmark = requires_nvrtc
_HEAD = "gathered_gather(const float *X, float *Y, const int *place, int N)"
_READ = "const int at = place[row];"
FAULTS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    # 18: what the L1 keeps may be older than what the pass before wrote.
    "a table by the read-only cache": ("TG494.*ld.global.nc", ((_HEAD, _HEAD.replace("*", "*__restrict__ ")),)),
    "the first element always": ("TG421", ((_READ, "const int at = place[0];"),)),
    "the next element": ("TG421|TG494", ((_READ, "const int at = place[row + 1];"),)),
    "the element of the CTA's first warp": ("TG421", ((_READ, "const int at = place[bx * 8];"),)),
    "16 bits of an element": ("TG421", ((_READ, "const int at = (unsigned char)place[row];"),)),
    "the guard of the index dropped": ("TG494.*out of bounds", (("if (row < N) {", "if (row < N + 7) {"),)),
}  # fmt: skip


@once
def draft_gather() -> Built:
    return kernels_of(draft(load(GATHER, params={"N": 300})))[1]


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_the_text_of_tables_are_found(fault: str) -> None:
    said, pairs = FAULTS[fault]
    built = draft_gather()
    text = built.source
    start = text.index(_HEAD)
    with pytest.raises(ProofError, match=said):
        verify_ptx(built, (1,), text=text[:start] + change_text(text[start:], *pairs))


def test_the_text_itself_is_right() -> None:
    assert verify_ptx(draft_gather(), (1,)).lines


def test_a_table_that_is_read_before_the_wait_is_found() -> None:
    """19: the kernel before may still write it."""
    built = draft_gather()
    text = built.source
    start = text.index(_HEAD)
    body = text[start:]
    wait = next(line for line in body.splitlines() if "wait_previous()" in line)
    late = body.replace(f"{wait}\n", "", 1)
    line = next(line for line in late.splitlines() if _READ in line)
    with pytest.raises(ProofError, match=r"before griddepcontrol\.wait"):
        verify_ptx(built, (1,), text=text[:start] + late.replace(line, f"{line}\n{wait}", 1))
