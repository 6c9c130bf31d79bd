"""Drawn kernels on a GPU: what a proof cannot know of the hardware, such as where TMA puts rows, shows there alone."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import tilegen
from tests.test_gemm import draw_problem
from tilegen.errors import SpecError
from tilegen.gpu.device import probe_device, runs_cubin
from tilegen.verifying import verify_gpu

DEVICE, WHY_NOT = probe_device()
NOT_HOPPER = WHY_NOT or (
    "" if DEVICE is not None and runs_cubin(DEVICE.compute_capability, "sm_90a") else "this GPU runs no code for sm_90a"
)
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(NOT_HOPPER), reason=NOT_HOPPER)]
BYTES = {"uint8": 1, "float8_e4m3fn": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


@pytest.mark.parametrize("seed", range(100, 130))
def test_drawn_products_are_right(seed: int) -> None:
    assert verify_gpu(tilegen.build(draw_problem(seed)), [seed]).lines


def draw_tma_copy(seed: int) -> dict[str, Any]:
    """A tile that TMA loads, stores, or both: widths of rows, swizzles, pitches, edges; it may not be possible."""
    draw = random.Random(seed)
    dtype = draw.choice(list(BYTES))
    unit = 16 // BYTES[dtype]
    rows, columns = (
        draw.choice([1, 2, 8, 16, 24, 64]),
        draw.choice([1, 2, 4, 8, 16]) * max(1, unit // draw.choice([1, 2])),
    )
    m, n = (size * draw.randint(1, 2) + draw.choice([0, 0, 1, more]) for size, more in ((rows, 3), (columns, unit)))
    pitch = -(-n // unit) * unit + draw.choice([0, 0, unit])
    swizzle = draw.choice([32, 64, 128])
    shifts = {1: 4, 2: 3, 4: 2, 8: 1}[BYTES[dtype]], {32: 1, 64: 2, 128: 3}[swizzle]
    layout = draw.choice([
        "auto", "auto", "row", f"mma_shared_layout('{dtype}', {swizzle}, ({rows}, {columns}))",
        f"Swizzle({shifts[0]},{shifts[1]},3) o S[({rows},{columns}):({columns},1)]",
    ])  # fmt: skip
    array = {"scope": "global", "dtype": dtype, "shape": [m, n], "layout": f"S[({m},{n}):({pitch},1)]"}
    tile = {"scope": "shared", "dtype": dtype, "shape": [rows, columns], "layout": layout}
    region, by_tma = (
        f"by*{rows} : +{rows}, bx*{columns} : +{columns}",
        draw.choice([(True, True), (True, False), (False, True)]),
    )
    load: dict[str, Any] = {"src": f"X[{region}]", "dst": "t", "edge": "clip"}
    store: dict[str, Any] = {"src": "t", "dst": f"Y[{region}]", "edge": "clip"}
    load |= {"variant": "tma", "barrier": "full"} if by_tma[0] else {}
    store |= {"variant": "tma"} if by_tma[1] else {}
    met = [{"wait": {"barrier": "full"}}] if by_tma[0] else [{"sync": "async"}, {"sync": "cta"}]
    return {
        "kernel": f"tma{seed}", "arch": "sm_90", "threads": draw.choice([32, 128]),
        "grid": {"bx": f"ceil({n} / {columns})", "by": f"ceil({m} / {rows})"},
        "buffers": {"X": array, "Y": array, "t": tile},
        "ops": [{"copy": load}, *met, {"copy": store}, *([{"wait": 0}] if by_tma[1] else [])],
    }  # fmt: skip


def test_drawn_boxes_are_right_or_refused() -> None:
    """About half of them are possible."""
    found = Counter[str]()
    for seed in range(300):
        try:
            built = tilegen.build(draw_tma_copy(seed))
        except SpecError:
            found["refused"] += 1
            continue
        found["right"] += bool(verify_gpu(built, [seed]).lines)
    assert found["right"] > 60, found
