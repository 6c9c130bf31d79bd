"""Every number that the layout chapter prints for tile, swizzle and compose layouts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tilegen.errors import LayoutError
from tilegen.layouts import (
    AXES,
    Iter,
    SwizzleLayout,
    TileLayout,
    bank_and_line,
    canonicalize,
    direct_sum,
    extent_of,
    get_scope,
    is_injective,
    pack,
    parse,
    size,
    span,
    swizzle_atom,
    tcgen05_atom_layout,
    tile,
    tile_of,
    tmem_datapath_layout,
    wg_local_layout,
)

REGISTER_TILE = "S[(8, 2, 4, 2) : (4@laneid, 1@warpid, 1@laneid, 1)] + R[2 : 4@warpid] + 5@warpid"


def test_register_tile_case_study() -> None:
    """Case Study: Tensor Core Register Tile."""
    layout = parse(REGISTER_TILE)
    for i, j in product(range(8), range(16)):
        expect = [{"laneid": 4 * i + j // 2 % 4, "warpid": j // 8 + 5 + 4 * r, "m": j % 2} for r in range(2)]
        assert list(layout.apply(i, j, shape=(8, 16))) == expect
        assert list(layout.apply(16 * i + j)) == expect
        assert list(layout.apply(i, j // 8, j // 2 % 4, j % 2)) == expect
    warps = {p["warpid"] for x in range(128) for p in layout.apply(x)}
    assert warps == {5, 6, 9, 10}


def test_the_same_layout_from_iters() -> None:
    """Putting the Pieces Together."""
    shard = [Iter(8, 4, "laneid"), Iter(2, 1, "warpid"), Iter(4, 1, "laneid"), Iter(2, 1)]
    layout = TileLayout.from_iters(shard, [Iter(2, 4, "warpid")], {"warpid": 5})
    assert layout == parse(REGISTER_TILE)
    assert str(layout) == "S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid"


def test_without_a_replica_the_set_has_one_element() -> None:
    """Putting the Pieces Together: R contains only the zero offset."""
    assert len(parse("S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)]").apply(77)) == 1


def test_accumulator_in_tensor_memory() -> None:
    """Layouts by Example: rows on TLane, columns on TCol."""
    layout = parse("S[(128, 256) : (1@TLane, 1@TCol)]")
    assert layout.apply(100, 200, shape=(128, 256)) == ({"TLane": 100, "TCol": 200},)


def test_224_columns() -> None:
    """Case Study: Blackwell Tensor Memory."""
    layout = parse("S[(2, 128, 112) : (112@TCol, 1@TLane, 1@TCol)]")
    a, lane, c = np.indices((2, 128, 112))
    place = layout.place((a, lane, c), (2, 128, 112))
    assert np.array_equal(place["TLane"], lane) and np.array_equal(place["TCol"], 112 * a + c)
    assert extent_of(layout, "TCol") == span(layout, "TCol") == 224 and extent_of(layout, "TLane") == 128
    assert is_injective(layout)


@pytest.mark.parametrize("sf_per_mma", [1, 4])
def test_scale_factors(sf_per_mma: int) -> None:
    """Scale Factor Layouts: four copies, 32 lanes apart."""
    layout = parse("S[(32, sf_per_mma) : (1@TLane, 1@TCol)] + R[4 : 32@TLane]", {"sf_per_mma": sf_per_mma})
    for r, s in product(range(32), range(sf_per_mma)):
        places = layout.apply(r, s, shape=(32, sf_per_mma))
        assert list(places) == [{"TLane": r + 32 * q, "TCol": s} for q in range(4)]
    assert extent_of(layout, "TLane") == 128


def test_axes() -> None:
    """Named Axes."""
    names = "bx by bz cbx cby cbz tx warpid laneid wgid tid_in_wg wid_in_wg m P F Bank TLane TCol"
    assert " ".join(AXES) == names
    kinds = {a.name: (a.kind, a.scope) for a in AXES.values()}
    assert kinds["bx"][0] == "grid" and kinds["cbx"][0] == "cluster" and kinds["TCol"][0] == "memory"
    assert kinds["laneid"] == ("thread", "warp") and kinds["tx"] == ("thread", "cta")
    assert kinds["wid_in_wg"] == kinds["tid_in_wg"] == ("thread", "warpgroup")


def test_swizzle_transform_as_printed() -> None:
    """The Swizzle Transform."""
    swizzle = SwizzleLayout(per_element=3, swizzle_len=3, atom_len=3)
    for m in range(4096):
        x = m >> 3
        assert swizzle.apply(m) == ({"m": ((x ^ ((x >> 3) & 7)) << 3) | (m & 7)},)
    assert size(swizzle) == 512


def test_worked_example_of_the_128_byte_swizzle() -> None:
    """Worked Example: 128B Swizzle on an (8, 64) float16 Tile."""
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
    """Ready-Made Layouts: one row per thread on tid_in_wg."""
    assert wg_local_layout(16).apply(100, 7, shape=(128, 16)) == ({"tid_in_wg": 100, "m": 7},)


def test_row_major_flattening_and_splitting() -> None:
    """Forward Mapping: the four steps, over any logical shape of equal size."""
    layout = parse("S[(4, 3, 2):(7@laneid, 1@warpid, 1)] + R[2:8@warpid] + 5@m")
    for shape in [(24,), (4, 6), (2, 2, 6), (3, 8), (1, 24, 1), (2, 3, 4)]:
        for flat, coord in enumerate(product(*map(range, shape))):
            c0, c1, c2 = flat // 6, flat // 2 % 3, flat % 2
            expect = [{"laneid": 7 * c0, "warpid": c1 + 8 * r, "m": c2 + 5} for r in range(2)]
            assert list(layout.apply(*coord, shape=shape)) == expect
    at = parse("S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + 2@warpid").apply(1, 0, 3, 1)
    assert at == ({"laneid": 7, "warpid": 2, "m": 1},)


def test_replica_and_offset_alone() -> None:
    """Replica, Offset: R[2 : 4@warpid] makes two copies four warps apart, 5@warpid shifts by five."""
    assert [p["warpid"] for p in parse("S[1:1] + R[2 : 4@warpid]").apply(0)] == [0, 4]
    assert [p["warpid"] for p in parse("S[1:1] + R[2 : 4@warpid] + 5@warpid").apply(0)] == [5, 9]


def test_one_axis_twice_and_the_default_axis() -> None:
    """Layouts by Example: two iters both contribute to laneid; a stride without an axis is on m."""
    frag = parse("S[(8, 2, 4, 2) : (4@laneid, 1@warpid, 1@laneid, 1)]")
    assert {p["laneid"] for x in range(128) for p in frag.apply(x)} == set(range(32))
    assert parse("S[8:1]") == parse("S[8:1@m]")


def test_axis_names_are_part_of_the_layout() -> None:
    """Named Axes: 1@tx is not 1@tid_in_wg, 1@laneid is not 1@TLane."""
    assert parse("S[8:1@tx]") != parse("S[8:1@tid_in_wg]") and parse("S[8:1@laneid]") != parse("S[8:1@TLane]")


def test_constructors_as_printed() -> None:
    """Layouts by Example, Ready-Made Layouts: the two constructor calls are ordinary tile layouts."""
    assert tmem_datapath_layout("D", 128, 256) == parse("S[(128, 256) : (1@TLane, 1@TCol)]")
    assert canonicalize(tcgen05_atom_layout("32x32b", (128, 64), "float32")) == wg_local_layout(64)
    assert tmem_datapath_layout("F", 64, 256).apply(40, 3, shape=(64, 256)) == ({"TLane": 72, "TCol": 3},)
    for shape in ("16x64b", "16x128b"):
        assert get_scope(tcgen05_atom_layout(shape, (64, 64), "float32")) == ("thread", "warpgroup")


def test_a_block_scaled_scale_factor_layout() -> None:
    """Scale Factor Layouts: outer iters, stride-zero reuse, and four fp8 values in one 32-bit cell."""
    atom = "S[(32, sf_per_mma) : (1@TLane, 1@TCol)] + R[4 : 32@TLane]"
    scale = parse(atom, {"sf_per_mma": 4})
    blocks = tile(parse("S[(4, 2):(1@TCol, 4@TCol)]"), (4, 2), scale, (32, 4))
    for r, s in product(range(128), range(8)):
        expect = [{"TLane": r % 32 + 32 * q, "TCol": 4 * (r // 32) + 16 * (s // 4) + s % 4} for q in range(4)]
        assert list(blocks.apply(r, s, shape=(128, 8))) == expect
    cells = pack(blocks, 4, axis="TCol")
    assert cells.apply(0, 1, shape=(128, 2))[0] == {"TLane": 0, "TCol": 4} and span(cells, "TCol") == 8
    reused = direct_sum(parse("S[3:0@TCol]"), (3, 1), scale, (32, 4))
    assert len({str(reused.apply(32 * k, 0, shape=(96, 4))) for k in range(3)}) == 1


def test_parameters_of_the_swizzle_modes() -> None:
    """Choosing Swizzle Parameters: M = log2(8) = 3 for float16; S is at least B."""
    assert swizzle_atom("float16", 128) == SwizzleLayout(per_element=3, swizzle_len=3, atom_len=3)
    with pytest.raises(LayoutError, match=r"less than swizzle_len"):
        SwizzleLayout(3, 3, 2)


@pytest.mark.parametrize("elem_bytes", [1, 2, 4, 8])
def test_bank_and_line_of_an_element(elem_bytes: int) -> None:
    """Bank and Line of an Element: byte = addr * b, bank = byte / 4 mod 32, line = byte / 128."""
    swizzled = parse("Swizzle(3,3,3) o S[(8, 64) : (64@m, 1@m)]")
    for i, j in product(range(8), range(64)):
        byte = (64 * i + 8 * (j // 8 ^ i) + j % 8) * elem_bytes
        assert bank_and_line(swizzled, (i, j), (8, 64), elem_bytes) == (byte // 4 % 32, byte // 128)
        if elem_bytes == 2:
            assert byte // 4 % 32 == (byte // 2) // 2 % 32


def test_the_swizzle_keeps_vectors_of_16_bytes() -> None:
    """Why Swizzle, Choosing Swizzle Parameters: eight distinct banks for any column, 16-byte groups whole."""
    swizzled, plain = parse("Swizzle(3,3,3) o S[(8, 64)]"), parse("S[(8, 64)]")
    for j in range(64):
        assert len({bank_and_line(swizzled, (i, j), (8, 64), 2)[0] for i in range(8)}) == 8
        assert len({bank_and_line(plain, (i, j), (8, 64), 2)[0] for i in range(8)}) == 1
    for x in range(0, 512, 8):
        first = swizzled.apply(x)[0]["m"]
        assert [p["m"] for k in range(8) for p in swizzled.apply(x + k)] == list(range(first, first + 8))


def test_shapes_are_not_limited_to_powers_of_two() -> None:
    """Design Rationale: general shapes, sets of places, explicit axes."""
    layout = parse("S[(3, 5, 7) : (35@TLane, 7@TCol, 1@TCol)] + R[3:11@warpid]")
    assert size(layout) == 105 and len(layout.apply(104)) == 3
    assert layout.apply(104)[2] == {"TLane": 70, "TCol": 34, "warpid": 22}
