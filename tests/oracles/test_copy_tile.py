"""copy between global and shared memory: at least as wide as TIRx on each side, or cheaper, for the same threads."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

from tests.layouts.recorded import select
from tests.oracles import brute
from tests.oracles.draw import draw_layout
from tests.oracles.kernels import build, cost_key, elem_bytes, tile_round_trip, whole
from tilegen import layouts

GENERATED = 70


def check(
    threads: int, dtype: str, g: Sequence[Any], s: Sequence[Any], width: int | None, partitions: Sequence[str] = ()
) -> None:
    """``g`` and ``s``: (shape, layout, box). ``width``: TIRx's in elements; None: the brute force's, row by row."""
    text = tile_round_trip(threads, dtype, *g, *s)
    built, ops = build(text)
    assert built.proof.steps > 0
    size = elem_bytes(dtype)
    sides = [brute.offsets(layout, shape, box) for shape, layout, box in (g, s)]
    if width is None:
        width = brute.widest_in_rows(sides, threads, size, brute.chunk(s[1]))
    walked = [_walk(p, s[1] if k else "", len(sides[0])) for k, p in enumerate(partitions)] or sides
    assert all(np.array_equal(np.sort(w), np.sort(x)) for w, x in zip(walked, sides, strict=True))
    for op, order, spaces in ((ops[0], walked, "gs"), (ops[1], walked[::-1], "sg")):
        assert {a["buffer"] for a in op["accesses"]} == ({"In", "s"} if spaces == "gs" else {"s", "Out"})
        theirs = brute.tile_cost(*order, spaces, threads, width, size)
        wide = all(a["width_bytes"] >= width * size for a in op["accesses"])
        assert wide or cost_key(op) < theirs, (width, op["accesses"], cost_key(op), theirs, text)
        assert cost_key(op)[:2] <= theirs[:2], (cost_key(op), theirs, text)


def _walk(partition: str, layout: str, count: int) -> Any:
    """Offsets in the order of a recorded partition [outer, threads, vector], through the layout's swizzle."""
    flat = np.arange(count)
    tile = layouts.parse(partition)
    at = np.broadcast_to(tile.place([flat], (count,))["m"], flat.shape)
    swizzle = layouts.swizzle_of(layouts.parse(layout)) if layout else None
    return at if swizzle is None else layouts.finish_of(swizzle)(at)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("case", select("tirx_ops.json", "copy_gmem_smem"))
def test_recorded_copies(case):
    g, s = ((case[f"{x}_shape"], case[f"{x}_layout"], case[f"{x}_region"]) for x in "gs")
    expect = case["expect"]
    check(case["threads"], case["dtype"], g, s, expect["vec"], (expect["g_partition"], expect["s_partition"]))


def generated() -> list[Any]:
    """Boxes of matrices and 3-D arrays, padded, turned, swizzled and sliced on either side, for 1 to 256 threads."""
    pick = random.Random(20240503)
    cases = []
    while len(cases) < GENERATED:
        dtype = pick.choice(["uint8", "int16", "float16", "float32", "float32", "int64", "complex128"])
        lengths = [pick.choice([1, 2, 3, 4, 8, 8, 16, 20, 32, 32, 64, 96]) for _ in range(pick.choice([1, 2, 2, 2, 3]))]
        threads = pick.choice([1, 4, 32, 32, 64, 128, 256])
        count = prod(lengths)
        if not 8 <= count <= 8192 or count // threads > 512:
            continue
        g, s = (_side(pick, lengths, swizzled) for swizzled in (False, pick.random() < 0.3))
        if brute.offsets(s[1], s[0], whole(s[0])).max() * elem_bytes(dtype) > 160_000:
            continue
        name = f"{threads}-{dtype}-{'x'.join(map(str, lengths))}-{len(cases)}"
        cases.append(pytest.param(threads, dtype, g, s, id=name))
    return cases


def _side(pick: random.Random, lengths: list[int], swizzled: bool) -> tuple[list[int], str, list[list[int]]]:
    begins = [pick.choice([0, 0, 0, 1, 4, 8]) if pick.random() < 0.4 else 0 for _ in lengths]
    shape = [b + n + pick.choice([0, 0, 0, 3, 8]) for b, n in zip(begins, lengths, strict=True)]
    box = [[b, b + n] for b, n in zip(begins, lengths, strict=True)]
    tiled = 0.2 if box == whole(shape) else 0.0  # a slice that cuts through tiles is copied one element at a time
    if swizzled:
        shape = [1 << (n - 1).bit_length() for n in shape]
        tiled = tiled if box == whole(shape) else 0.0
        tile = draw_layout(pick, shape, 0, 0.25, tiled)
        return shape, f"Compose(Swizzle({pick.randint(0, 4)},{pick.randint(1, 3)},3), {tile})", box
    return shape, draw_layout(pick, shape, pick.choice([0, 0, 0, 1, 4, 8]), 0.25, tiled), box


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("threads", "dtype", "g", "s"), generated())
def test_generated_copies(threads, dtype, g, s):
    check(threads, dtype, g, s, None)
