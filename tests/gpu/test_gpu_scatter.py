"""Kernels whose places registers decide, on a GPU: against their meaning, and against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilegen
from tilegen.gpu.device import probe_device
from tilegen.pipeline import build
from tilegen.verifying import verify_built

DEVICE, WHY_NOT = probe_device()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(DEVICE is None, reason=WHY_NOT)]
SPECS = Path(__file__).parents[2] / "specs"


@pytest.mark.parametrize("name", ["histogram", "inverse_permutation", "moe_permute", "moe_route", "top2_rows"])
def test_a_spec_is_what_it_means(name: str) -> None:
    assert verify_built(build(SPECS / f"{name}.yaml"), "gpu", [1, 2, 3]).lines


@pytest.mark.parametrize("count", [1, 32767, 32769, 1 << 22, (1 << 22) + 5])
@pytest.mark.parametrize("most", [1, 2, 256])
def test_a_histogram_counts_as_numpy_does(count: int, most: int) -> None:
    """One byte everywhere is the worst case of atomics: all lanes of all warps add to one bin."""
    cupy = pytest.importorskip("cupy")
    kernel = tilegen.compile(SPECS / "histogram.yaml")
    x = np.random.default_rng(count).integers(0, most, count, np.uint8)
    found = cupy.full(256, 77, np.uint32)
    kernel(cupy.asarray(x), found)
    assert np.array_equal(found.get(), np.bincount(x, minlength=256))


@pytest.mark.parametrize("count", [1, 255, 100_003])
def test_pairs_are_sorted_by_expert_and_stay_in_their_order(count: int) -> None:
    cupy = pytest.importorskip("cupy")
    kernel = tilegen.compile(SPECS / "moe_permute.yaml")
    ids = np.random.default_rng(count).integers(0, 64, count).astype(np.int32)
    offsets, to, of = (cupy.zeros(n, np.int32) for n in (65, count, count))
    kernel(cupy.asarray(ids), offsets, to, of)
    order = np.argsort(ids, kind="stable")
    assert np.array_equal(of.get(), order) and np.array_equal(to.get()[order], np.arange(count))
    assert np.array_equal(offsets.get(), np.searchsorted(ids[order], np.arange(65)))
