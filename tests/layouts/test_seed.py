"""Every number that the layout chapter prints for tile, swizzle and compose layouts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tilegen.layouts import (
    AXES,
    Iter,
    SwizzleLayout,
    TileLayout,
    bank_and_line,
    extent_of,
    is_injective,
    parse,
    size,
    span,
    tile_of,
    wg_local_layout,
)

REGISTER_TILE = "S[(8, 2, 4, 2) : (4@laneid, 1@warpid, 1@laneid, 1)] + R[2 : 4@warpid] + 5@warpid"


def test_register_tile_case_study() -> None:
    layout = parse(REGISTER_TILE)
    for i, j in product(range(8), range(16)):
        expect = [{"laneid": 4 * i + j // 2 % 4, "warpid": j // 8 + 5 + 4 * r, "m": j % 2} for r in range(2)]
        assert list(layout.apply(i, j, shape=(8, 16))) == expect
        assert list(layout.apply(16 * i + j)) == expect
        assert list(layout.apply(i, j // 8, j // 2 % 4, j % 2)) == expect
    warps = {p["warpid"] for x in range(128) for p in layout.apply(x)}
    assert warps == {5, 6, 9, 10}


def test_the_same_layout_from_iters() -> None:
    shard = [Iter(8, 4, "laneid"), Iter(2, 1, "warpid"), Iter(4, 1, "laneid"), Iter(2, 1)]
    layout = TileLayout.from_iters(shard, [Iter(2, 4, "warpid")], {"warpid": 5})
    assert layout == parse(REGISTER_TILE)
    assert str(layout) == "S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid"


def test_without_a_replica_the_set_has_one_element() -> None:
    assert len(parse("S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)]").apply(77)) == 1


def test_accumulator_in_tensor_memory() -> None:
    layout = parse("S[(128, 256) : (1@TLane, 1@TCol)]")
    assert layout.apply(100, 200, shape=(128, 256)) == ({"TLane": 100, "TCol": 200},)


def test_224_columns() -> None:
    layout = parse("S[(2, 128, 112) : (112@TCol, 1@TLane, 1@TCol)]")
    a, lane, c = np.indices((2, 128, 112))
    place = layout.place((a, lane, c), (2, 128, 112))
    assert np.array_equal(place["TLane"], lane) and np.array_equal(place["TCol"], 112 * a + c)
    assert extent_of(layout, "TCol") == span(layout, "TCol") == 224 and extent_of(layout, "TLane") == 128
    assert is_injective(layout)


@pytest.mark.parametrize("sf_per_mma", [1, 4])
def test_scale_factors(sf_per_mma: int) -> None:
    layout = parse("S[(32, sf_per_mma) : (1@TLane, 1@TCol)] + R[4 : 32@TLane]", {"sf_per_mma": sf_per_mma})
    for r, s in product(range(32), range(sf_per_mma)):
        places = layout.apply(r, s, shape=(32, sf_per_mma))
        assert list(places) == [{"TLane": r + 32 * q, "TCol": s} for q in range(4)]
    assert extent_of(layout, "TLane") == 128


def test_axes() -> None:
    names = "bx by bz cbx cby cbz tx warpid laneid wgid tid_in_wg wid_in_wg m P F Bank TLane TCol"
    assert " ".join(AXES) == names
    kinds = {a.name: (a.kind, a.scope) for a in AXES.values()}
    assert kinds["bx"][0] == "grid" and kinds["cbx"][0] == "cluster" and kinds["TCol"][0] == "memory"
    assert kinds["laneid"] == ("thread", "warp") and kinds["tx"] == ("thread", "cta")
    assert kinds["wid_in_wg"] == kinds["tid_in_wg"] == ("thread", "warpgroup")


def test_swizzle_transform_as_printed() -> None:
    swizzle = SwizzleLayout(per_element=3, swizzle_len=3, atom_len=3)
    for m in range(4096):
        x = m >> 3
        assert swizzle.apply(m) == ({"m": ((x ^ ((x >> 3) & 7)) << 3) | (m & 7)},)
    assert size(swizzle) == 512


def test_worked_example_of_the_128_byte_swizzle() -> None:
    plain = parse("S[(8, 64) : (64@m, 1@m)]")
    swizzled = parse("Compose(Swizzle(3,3,3), S[(8, 64) : (64@m, 1@m)])")
    assert tile_of(swizzled) == plain
    for i, j in product(range(8), range(64)):
        assert plain.place((i, j), (8, 64)) == {"m": 64 * i + j}
        assert swizzled.place((i, j), (8, 64)) == {"m": 64 * i + 8 * (j // 8 ^ i) + j % 8}
    banks = [bank_and_line(swizzled, (i, 0), (8, 64), elem_bytes=2)[0] for i in range(8)]
    assert banks == [0, 4, 8, 12, 16, 20, 24, 28]
    assert swizzled.place((5, 0), (8, 64)) == {"m": 72 * 5}
    assert {bank_and_line(plain, (i, 0), (8, 64), elem_bytes=2)[0] for i in range(8)} == {0}
    assert [bank_and_line(plain, (i, 0), (8, 64), elem_bytes=2)[1] for i in range(8)] == list(range(8))


def test_warpgroup_tile() -> None:
    assert wg_local_layout(16).apply(100, 7, shape=(128, 16)) == ({"tid_in_wg": 100, "m": 7},)
