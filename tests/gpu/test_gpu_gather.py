"""Gathers on a GPU: against their meaning, against NumPy, and with an index that breaks its promise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilegen
from tests.proofs.test_gather import SHAPES, take, write_gather
from tilegen.gpu.device import probe_device
from tilegen.pipeline import build
from tilegen.verifying import verify_built

DEVICE, WHY_NOT = probe_device()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(DEVICE is None, reason=WHY_NOT)]
SPECS = Path(__file__).parents[2] / "specs"


@pytest.mark.parametrize("name", ["dequantize_nf4", "permute_columns"])
def test_a_spec_is_what_it_means(name: str) -> None:
    assert verify_built(build(SPECS / f"{name}.yaml"), "gpu", [1, 2, 3]).lines


@pytest.mark.parametrize("kinds", ["ggg", "sgr", "gsg"])
@pytest.mark.parametrize("src, index, dst, axis", SHAPES)
def test_a_gather_is_take_along_axis(
    src: tuple[int, ...], index: tuple[int, ...], dst: tuple[int, ...], axis: int | None, kinds: str
) -> None:
    cupy = pytest.importorskip("cupy")
    kernel = tilegen.compile(write_gather(src, index, dst, axis, kinds))
    rng = np.random.default_rng(len(dst))
    x = rng.normal(size=src).astype("f4")
    i = rng.integers(-3, src[axis or 0] + 3, index, np.int32)
    found = cupy.full(dst, 7, "f4")
    kernel(cupy.asarray(x), cupy.asarray(i), found)
    assert np.array_equal(found.get(), take(x, i, dst, axis))


def test_rows_are_read_in_vectors() -> None:
    cupy = pytest.importorskip("cupy")
    text = (
        "kernel: rows\narch: sm_80\nthreads: 128\ngrid: {bx: 50}\nbuffers:\n"
        "  X: {scope: global, dtype: float16, shape: [3000, 64]}\n"
        '  I: {scope: global, dtype: int32, shape: [50, 32, 1], values: "0 : 3000"}\n'
        "  Y: {scope: global, dtype: float16, shape: [50, 32, 64]}\n"
        'ops:\n  - gather: {src: X, index: i, with: {i: "I[bx]"}, dst: "Y[bx]", axis: 0}\n'
    )
    rng = np.random.default_rng(3)
    x, i = rng.normal(size=(3000, 64)).astype("f2"), rng.integers(0, 3000, (50, 32, 1), np.int32)
    found = cupy.zeros((50, 32, 64), np.float16)
    tilegen.compile(text)(cupy.asarray(x), cupy.asarray(i), found)
    assert np.array_equal(found.get(), x[i[..., 0]])


def test_an_order_that_breaks_its_promise_gives_zeros() -> None:
    """What is outside of a row is 0, however far outside it is: nothing else is read."""
    cupy = pytest.importorskip("cupy")
    kernel = tilegen.compile(SPECS / "permute_columns.yaml")
    x = np.random.default_rng(1).normal(size=(9, 2056)).astype("f2")
    order = np.random.default_rng(2).integers(0, 2056, 2056).astype(np.int32)
    lies = np.array([-1, 2056, -(1 << 31), (1 << 31) - 1, 1 << 20], np.int32)
    order[100:105] = lies
    found = cupy.full(x.shape, 7, np.float16)
    kernel(cupy.asarray(x), cupy.asarray(order), found)
    want = x[:, np.where(np.isin(order, lies), 0, order)]
    want[:, 100:105] = 0
    assert np.array_equal(found.get(), want)
