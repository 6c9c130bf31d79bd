"""Changed specs on a GPU: whatever a spec has become, a kernel that passes all proofs computes what it says."""

from __future__ import annotations

import warnings

import pytest

import tilegen
from tests.spec.changes import change_spec
from tilegen.errors import EnvironmentLack, ProofError, SpecError
from tilegen.gpu.device import probe_device
from tilegen.verifying import verify_gpu

DEVICE, WHY_NOT = probe_device()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(DEVICE is None, reason=WHY_NOT)]
EACH = 25


@pytest.mark.parametrize("part", range(16))
def test_what_is_proved_of_a_changed_spec_is_right(part: int) -> None:
    judged = 0
    for number in range(EACH * part, EACH * (part + 1)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                built = tilegen.build(change_spec(number))
        except (SpecError, ProofError):
            continue
        try:
            verify_gpu(built, [number])
        except EnvironmentLack:  # code that this GPU does not run
            continue
        except ProofError as error:
            raise AssertionError(f"change_spec({number}) is wrong on the GPU") from error
        judged += 1
    assert judged, "no changed spec was built"
