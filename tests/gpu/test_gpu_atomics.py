"""Kernels that accumulate, on a GPU: every function, type and width, by threads and by TMA, against NumPy's sums."""

from __future__ import annotations

import pytest

from tests.atomics.kernels import boxes_by_tma, global_sums, rows_by_index, shared_sums
from tests.atomics.test_values import CASES
from tilegen.gpu.device import probe_device
from tilegen.pipeline import build
from tilegen.verifying import verify_built

DEVICE, WHY_NOT = probe_device()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(DEVICE is None, reason=WHY_NOT)]
INTEGERS = [case for case in CASES if case[1] in ("int32", "uint32", "int64", "uint64")]
BY_TMA = [*INTEGERS, ("add", "float32"), ("add", "float16"), ("add", "bfloat16")]


def check(text: str) -> None:
    """The kernel is what its spec means: integers bit for bit, floats within the bound of any order."""
    assert verify_built(build(text), "gpu", [1, 2]).lines


@pytest.mark.parametrize(("function", "dtype"), CASES)
def test_global_memory(function: str, dtype: str) -> None:
    check(global_sums(function, dtype))


@pytest.mark.parametrize(("function", "dtype"), CASES)
def test_shared_memory(function: str, dtype: str) -> None:
    check(shared_sums(dtype=dtype).replace("accumulate: add", f"accumulate: {function}"))


@pytest.mark.parametrize(("function", "dtype"), CASES)
def test_rows_at_places_of_a_table(function: str, dtype: str) -> None:
    """Vectors, the widest that there are; many rows come to one."""
    check(rows_by_index(function, dtype))


@pytest.mark.parametrize(("function", "dtype"), BY_TMA)
def test_boxes(function: str, dtype: str) -> None:
    check(boxes_by_tma(function, dtype))
