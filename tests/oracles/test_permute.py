"""permute_layout against TIRx: what it accepts is as cheap here, what it declines builds, what cannot be is refused."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tilegen
from tests.faults.verdicts import refusal_of
from tests.layouts.recorded import select
from tests.oracles import brute
from tests.oracles.draw import draw_layout
from tests.oracles.kernels import DTYPE_OF_BYTES, build, choice, cost_key, elem_bytes, permutation, strided, whole
from tilegen.errors import SpecError

FILE = "tirx_ops.json"
GENERATED = 70


def check(shape: list[int], dtype: str, src: str, dst: str, expect: dict[str, Any] | None, part: str = "") -> None:
    """Build and prove; the floor where the tile is dense; TIRx's k or a cheaper plan."""
    text = permutation(shape, dtype, src, dst, part=part)
    built, ops = build(text)
    op, size = ops[1], elem_bytes(dtype)
    assert op["op"] == "permute_layout" and built.proof.steps > 0
    box = [[0, 1], *whole(shape[1:])] if part else whole(shape)
    sides = [brute.offsets(layout, shape, box) for layout in (src, dst)]
    loads, stores = ([a for a in op["accesses"] if a["kind"] == k] for k in ("ld", "st"))
    assert loads and stores
    if all(brute.is_dense(s) for s in sides):
        for phase in (loads, stores):
            assert sum(a["wavefronts"] for a in phase) == sum(a["floor"] for a in phase), text
    if expect is not None and expect.get("k") is not None:
        mine = choice(op, "xor_k")
        same = mine is not None and {n: mine[n] for n in ("k", "shift", "mask")} == {
            n: expect[n] for n in ("k", "shift", "mask")
        }
        theirs = brute.xor_cost(*sides, expect["shift"], expect["mask"], size)
        assert cost_key(op) <= theirs, text
        assert same or cost_key(op) < theirs, (mine, expect, text)
    elif expect is None:  # never worse than any XOR on the lane
        steps = len(sides[0]) // 32
        family = [(0, 0)] + [(s, (1 << k) - 1) for k in range(1, 6) if steps % (1 << k) == 0 for s in range(6 - k)]
        assert cost_key(op) <= min(brute.xor_cost(*sides, *f, size) for f in family), text


@pytest.mark.sweep(5)
@pytest.mark.parametrize("case", select(FILE, "permute_choose_xor_k"))
def test_recorded_xor_k(case):
    shape = case["extent"]
    src, dst = strided(shape, case["src_strides"]), strided(shape, case["dst_strides"])
    check(shape, DTYPE_OF_BYTES[case["dtype_bytes"]], src, dst, case["expect"])


@pytest.mark.parametrize("case", select(FILE, "permute_layout"))
def test_recorded_permutes(case):
    shape, dtype, expect = case["shape"], case["dtype"], case["expect"]
    part = "[0]" if case.get("region_note", "").startswith("(0,") else ""
    reason = expect.get("reason", "")
    if not expect["accept"] and "bank-free" not in reason:
        layouts = case["src_layout"], case["dst_layout"]
        text = permutation(shape, dtype, *layouts, case["scope"], case.get("dst_dtype", ""))
        with pytest.raises(SpecError):
            tilegen.build(tilegen.load(text))
        return
    check(shape, dtype, case["src_layout"], case["dst_layout"], expect, part)


@pytest.mark.parametrize("variant", ["auto", "warp_xor_swizzle"])
def test_the_seed_s_numbers(variant):
    row, column = "S[(4,32):(32,1)]", "S[(4,32):(1,4)]"
    text = permutation([4, 32], "float32", row, column).replace("dst: B}", f"dst: B, variant: {variant}}}", 1)
    explained = tilegen.explain(text)
    op = explained["ops"][1]
    assert variant in ("auto", op["variant"])
    assert choice(op, "registers_per_lane") == 4
    lost = [r for r in op["refused"] if r["variant"] == "warp_xor_swizzle"]
    assert choice((lost or [op])[0], "xor_k") == {"k": 2, "shift": 3, "mask": 3}
    assert all(a["wavefronts"] == a["floor"] == a["bytes_floor"] for a in op["accesses"])
    assert explained["ops"] == build(text)[1], "explain and the manifest say the same"


def refused(text: str) -> str:
    return str(refusal_of(SpecError, tilegen.build, tilegen.load(text)))


def test_structural_refusals_say_why():
    row, column = "S[(4,32):(32,1)]", "S[(4,32):(1,4)]"
    assert "scope" in refused(permutation([4, 32], "float32", row, column, scope="cta"))
    assert "dtypes differ" in refused(permutation([4, 32], "float32", row, column, dst_dtype="int32"))
    assert "32 lanes" in refused(permutation([3, 16], "float32", "S[(3,16):(16,1)]", "S[(3,16):(1,3)]"))
    refused(permutation([4, 32], "float32", "S[(4,32):(0,1)]", column))  # the layout itself is refused
    halves = permutation([4, 32], "float32", row, column).replace("src: A, dst: B", 'src: "A[0:2]", dst: B')
    assert "shape" in refused(halves)


def generated() -> list[Any]:
    """Boxes of 32 to 1024 elements: axes permuted, rows padded, odd extents, every element size."""
    pick = random.Random(20240501)
    cases = []
    while len(cases) < GENERATED:
        rank = pick.choice([1, 2, 2, 3, 3, 4])
        shape = [pick.choice([1, 2, 2, 3, 4, 4, 5, 8, 8, 16, 32, 64]) for _ in range(rank)]
        count = 1
        for n in shape:
            count *= n
        if count % 32 or not 32 <= count <= 1024:
            continue
        pads = [pick.choice([0, 0, 0, 1, 4, 8]) for _ in range(2)]
        texts = [draw_layout(pick, shape, pad, 0.8, tiled=0.25) for pad in pads]
        dtype = DTYPE_OF_BYTES[pick.choice([1, 2, 4, 8, 16])]
        cases.append(pytest.param(shape, dtype, *texts, id=f"{dtype}-{'x'.join(map(str, shape))}-{len(cases)}"))
    return cases


@pytest.mark.sweep(5)
@pytest.mark.parametrize(("shape", "dtype", "src", "dst"), generated())
def test_generated_permutes(shape, dtype, src, dst):
    check(shape, dtype, src, dst, None)
