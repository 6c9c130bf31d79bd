"""TMA rounds float32 to tf32 on its way: what it makes of every kind of number, and that a proof sees who rounds."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilegen
from tilegen.arithmetic.products import even_to_tfloat32
from tilegen.errors import ProofError, SpecError
from tilegen.ops.gemm.parts import Writing
from tilegen.proofs.meaning import check_meaning

ROWS = 64
COPY: dict[str, Any] = {
    "kernel": "rounded", "arch": "sm_90a", "grid": {"bx": 64}, "threads": 128,
    "buffers": {
        "X": {"scope": "global", "dtype": "float32", "shape": [64 * ROWS, 32]},
        "Y": {"scope": "global", "dtype": "float32", "shape": [64 * ROWS, 32]},
        "t": {"scope": "shared", "dtype": "float32", "shape": [ROWS, 32], "layout": "auto"},
    },
    "barriers": {"full": {}},
    "ops": [
        {"copy": {"src": f"X[bx*{ROWS} : +{ROWS}]", "dst": "t", "variant": "tma", "barrier": "full", "round": "tf32"}},
        {"wait": {"barrier": "full"}},
        {"copy": {"src": "t", "dst": f"Y[bx*{ROWS} : +{ROWS}]"}},
    ],
}  # fmt: skip
PRODUCT: dict[str, Any] = {
    "kernel": "product", "arch": "sm_90a",
    "buffers": {
        "A": {"scope": "global", "dtype": "float32", "shape": [256, 64]},
        "B": {"scope": "global", "dtype": "float32", "shape": [64, 128], "layout": "col"},
        "D": {"scope": "global", "dtype": "float32", "shape": [256, 128]},
    },
    "ops": [{"gemm": {"a": "A", "b": "B", "d": "D", "math": "tf32"}}],
}  # fmt: skip


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
def test_rounded_to_even_is_the_nearest_of_ten_bits(bits: list[int]) -> None:
    """By brute force: of the two neighbours with 10 mantissa bits the nearer, of two as near that with a last bit 0."""
    x = np.array(bits, np.uint32)
    x = x[(x >> 23 & 255) < 254]  # neither infinite nor rounded to it
    got = even_to_tfloat32(x.view(np.float32)).view(np.uint32)
    low, high = x & ~np.uint32(8191), (x & ~np.uint32(8191)) + np.uint32(8192)
    down, up = (np.abs(n.view(np.float32).astype(np.float64) - x.view(np.float32)) for n in (low, high))
    even = np.where(low >> 13 & 1 == 0, low, high)
    assert np.array_equal(got, np.where(down < up, low, np.where(up < down, high, even)))


def test_the_largest_become_infinite_and_no_number_stays_none() -> None:
    x = np.array([0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0x7F800001, 0x80000000], np.uint32).view(np.float32)
    got = even_to_tfloat32(x)
    assert got[:3].tolist() == [np.inf, -np.inf, np.inf] and np.isnan(got[3])
    assert got[4] == 0 and np.signbit(got[4])


def test_a_copy_that_rounds_is_proved_to_and_one_that_does_not_is_not() -> None:
    rounding, plain = deepcopy(COPY), deepcopy(COPY)
    del plain["ops"][0]["copy"]["round"]
    built, other = tilegen.build(tilegen.load(rounding)), tilegen.build(tilegen.load(plain))
    for spec, plan in ((built.spec, other.plan), (other.spec, built.plan)):
        with pytest.raises(ProofError):
            check_meaning(spec, plan, [(0, 0, 0)], {})


@pytest.mark.slow
def test_a_product_whose_factors_nobody_rounds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tilegen.build(tilegen.load(deepcopy(PRODUCT)))
    monkeypatch.setattr(Writing, "rounding", lambda self: "")
    with pytest.raises(ProofError):
        tilegen.build(tilegen.load(deepcopy(PRODUCT)))


@pytest.mark.slow
def test_factors_that_mma_sync_rounds_are_brought_as_they_are() -> None:
    """By cvt.rna, in registers: nothing is rounded twice."""
    spec = deepcopy(PRODUCT)
    spec["ops"][0]["gemm"] |= {"variant": "mma_sync", "tile": [64, 64, 16], "stages": 3}
    built = tilegen.build(spec)
    assert "mbarrier_expect" in built.source and "cvt.rna.tf32" in built.source
    assert "rounds_to" not in str(built.manifest) and "rounds_to" in str(tilegen.build(PRODUCT).manifest)


@pytest.mark.parametrize(("change", "said"), [
    ({"barrier": None, "variant": "auto"}, "TMA loads"), ({"variant": "cp_async"}, "'round' is for TMA"),
])  # fmt: skip
def test_only_loads_of_tma_round(change: dict[str, Any], said: str) -> None:
    spec = deepcopy(COPY)
    fields = spec["ops"][0]["copy"]
    spec["ops"][0]["copy"] = {k: v for k, v in (fields | change).items() if v is not None}
    with pytest.raises(SpecError, match=said):
        tilegen.build(tilegen.load(spec))


def test_only_float32_is_rounded() -> None:
    spec = deepcopy(COPY)
    for name in ("X", "Y", "t"):
        spec["buffers"][name]["dtype"] = "bfloat16"
    with pytest.raises(SpecError, match="rounds float32, 'X' is bfloat16"):
        tilegen.load(spec)
