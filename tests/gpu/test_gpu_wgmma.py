"""Products by wgmma on a real GPU, against float64. ``pytest -m gpu``; they need sm_90a, an H100 or an H200."""

from __future__ import annotations

import importlib
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import tilegen
from tests.wgmma.kernels import SPECS, draw, operands_of, ring
from tests.wgmma.test_rounding import COPY
from tilegen.arithmetic.products import even_to_tfloat32
from tilegen.gpu.device import probe_device, runs_cubin

DEVICE, WHY_NOT = probe_device()
HAS_WGMMA = DEVICE is not None and runs_cubin(DEVICE.compute_capability, "sm_90a")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HAS_WGMMA, reason=f"no GPU with wgmma: {WHY_NOT}")]

KERNELS = SPECS | {
    "a ring": ring(trips=40), "a long ring": ring(stages=8, trips=400), "two groups in flight": ring(5, 2, 40),
}  # fmt: skip
# How far a sum may be from float64's, of the sum of the terms' sizes: the accumulator's rounding, and of 8-bit floats
# that tensor cores add up in fewer bits.
NEAR = {"float32": 2.0**-16, "float16": 2.0**-8, "int32": 0.0}
NEAR_OF_FLOAT8 = 2.0**-10


@pytest.fixture(scope="module", params=KERNELS)
def case(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Any]:
    spec = KERNELS[request.param]
    return spec, tilegen.compile(deepcopy(spec))


def run(spec: dict[str, Any], kernel: Any, drawn: dict[str, Any]) -> Any:
    """C in float64; types that CuPy has not go in as their bits."""
    cupy = importlib.import_module("cupy")
    bits = {2: np.uint16, 1: np.uint8}
    given = [x.view(bits[x.itemsize]) if x.dtype.kind == "V" else x for x in (drawn["A"], drawn["B"])]
    buffer = spec["buffers"]["C"]
    result = cupy.zeros(tuple(buffer["shape"]), buffer["dtype"])
    kernel(*map(cupy.asarray, given), result)
    return cupy.asnumpy(result).astype(np.float64)


def test_whole_numbers_are_multiplied_exactly(case: tuple[dict[str, Any], Any]) -> None:
    spec, kernel = case
    for seed in range(3):
        drawn = draw(spec, seed)
        a, b = operands_of(spec, drawn)
        assert np.array_equal(run(spec, kernel, drawn), a @ b)


def test_normal_numbers_are_multiplied_as_float64_does(case: tuple[dict[str, Any], Any]) -> None:
    """Of tf32 the last bits of float32 are dropped: rounded ones would be further off."""
    spec, kernel = case
    near = NEAR[spec["buffers"]["C"]["dtype"]]
    if spec["buffers"]["A"]["dtype"].startswith("float8"):
        near = max(near, NEAR_OF_FLOAT8)
    for seed in range(3):
        drawn = draw(spec, seed, whole=False)
        a, b = operands_of(spec, drawn)
        error = np.abs(run(spec, kernel, drawn) - a @ b)
        assert (error <= near * (np.abs(a) @ np.abs(b))).all(), (error / (np.abs(a) @ np.abs(b))).max()


@pytest.mark.parametrize("name", KERNELS)
def test_every_byte_is_within_its_bound(name: str) -> None:
    tilegen.verify(deepcopy(KERNELS[name]), device="gpu", seeds=[1, 2])


def test_tma_rounds_float32_as_numpy_does() -> None:
    cupy = importlib.import_module("cupy")
    random = np.random.default_rng(3)
    bits = random.integers(0, 2**32, 4096 * 32, dtype=np.uint64).astype(np.uint32)
    bits[:8192] = bits[:8192] & np.uint32(0xFFFFE000) | np.uint32(0x1000)  # ties
    bits[8192:16384] &= np.uint32(0x807FFFFF)  # subnormals
    x = bits.view(np.float32).reshape(-1, 32)
    y = cupy.zeros(x.shape, cupy.float32)
    tilegen.compile(deepcopy(COPY))(cupy.asarray(x), y)
    want, got = even_to_tfloat32(x), cupy.asnumpy(y)
    assert np.array_equal(np.isnan(want), np.isnan(got))
    some = ~np.isnan(want)
    assert np.array_equal(want[some].view(np.uint32), got[some].view(np.uint32))
