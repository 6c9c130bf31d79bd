"""The derivation of a tile and the price of every R: the seed's numbers, design.md's, and counts by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.session import examples
from tilegen.cost.mma_runs import price_runs
from tilegen.layouts import MmaTiling, derive_mma, list_owned, list_runs, tile_mma, with_run
from tilegen.report.mma_chain import describe_mma, mma_data

SGEMM = tile_mma("fma.f32", "(16,16,1):(16,1,0)", ("R=4", "R=4", None), (128, 128, 8))
HGEMM = tile_mma("mma.m16n8k16", (2, 2, 1), (32, 32, 16), (128, 128, 32))


# ---------------------------------------------------------------- the chain
def test_the_chain_of_step_1() -> None:
    """seeds/permutation.txt, 4: F = 16, R = 4, period 64, 2 repetitions, (4, 2) per thread, (16,4):(4,1)."""
    m, n, k = derive_mma(SGEMM).modes
    for mode in (m, n):
        assert (mode.atoms, mode.run, mode.period, mode.repetitions, mode.shape) == (16, 4, 64, 2, (4, 2))
        assert (str(mode.permutation), mode.native, mode.expansion) == ("(16,4):(4,1)", 16, 4)
    assert (k.period, k.rounds) == (1, 8)


def test_the_chain_of_step_4() -> None:
    """8: native 32 x 16 x 16, N expanded by 2, 4 x 4 x 2 iterations; design.md 11.12: 128 accumulators, 64 products."""
    chain = derive_mma(HGEMM)
    assert [m.native for m in chain.modes] == [32, 16, 16]
    assert [m.expansion for m in chain.modes] == [1, 2, 1]
    assert [m.repetitions for m in chain.modes] == [4, 4, 2]
    assert (chain.accumulators, chain.products_per_step, chain.products, chain.threads) == (128, 32, 64, 128)
    assert chain.registers == (16, 16, 128)


def test_an_int_gathers_nothing() -> None:
    """design.md 11.12: neighbouring 8-column blocks need the layout; an int that divides leaves who owns what."""
    assert derive_mma(HGEMM).modes[1].run == 1
    assert derive_mma(with_run(HGEMM, 2)).modes[1].run == 2


def test_what_wgmma_holds() -> None:
    chain = derive_mma(tile_mma("wgmma.m64n128k16", (2, 1), None, (128, 128, 64)))
    assert (chain.accumulators, chain.registers, chain.products) == (64, (4, None, 64), 4)


def test_what_lies_outside() -> None:
    tiling = tile_mma("fma.f32", "(16,16,1):(16,1,0)", ("R=3", "R=3"), (128, 128, 8))
    assert derive_mma(tiling).outside == (2048, 2048, 4352)
    text = "\n".join(describe_mma(tiling))
    assert "past the end of the tile: 2048 of A, 2048 of B, 4352 of C" in text and "128 of 144" in text


# ---------------------------------------------------------------- prices
def test_every_r_of_step_1() -> None:
    """design.md 11.12: 1, 2 and 4 store whole sectors, 8 touches each twice; a warp's A + B take 16, 12, 12, 20."""
    prices = price_runs(SGEMM)
    assert [p.run for p in prices] == [1, 2, 4, 8]
    assert [p.store.width_bytes for p in prices] == [4, 8, 16, 16]
    assert [p.store.per_thread for p in prices] == [64, 32, 16, 16]
    assert [p.store.total / p.store.floor for p in prices] == [1, 1, 1, 2]
    assert [(p.load_a.total + p.load_b.total) / p.load_a.warps for p in prices] == [16, 12, 12, 20]  # type: ignore[union-attr]
    assert [p.shape for p in prices] == [(1, 8), (2, 4), (4, 2), (8, 1)]
    assert prices[0].columns == tuple((16 * i, 16 * i) for i in range(8))
    assert prices[2].columns == ((0, 3), (64, 67))


def test_a_lane_map_with_a_bit_on_the_other_operand_needs_8() -> None:
    """design.md 11.12: loads whose lanes agree in pairs merge, on both sides where a lane has bits of M and of N."""
    tiling = tile_mma("fma.f32", "((2,8),(2,8)):((1,32),(2,4))", None, (128, 128, 8))
    best = min((p.load_a.total + p.load_b.total) / p.load_a.warps for p in price_runs(tiling))  # type: ignore[union-attr]
    assert best == 8


def offsets_by_hand(tiling: MmaTiling, width: int) -> list[list[int]]:
    """Byte offsets of C's stores, lane by lane: the registers of a thread in the order of its elements in memory."""
    elem = {"float32": 4, "float64": 8, "float16": 2, "int32": 4}[tiling.atom.c]
    pitch = -(-tiling.tile[1] * elem // 128) * 128
    owned = list_owned(tiling, "C").tolist()
    threads = [sorted(r * pitch + c * elem for r, c in own) for own in owned]
    return [
        [own[at] for own in threads[warp : warp + 32]]
        for warp, at in product(range(0, len(threads), 32), range(0, len(threads[0]), width // elem))
    ]


@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_sectors_are_those_that_the_stores_touch(data: Any) -> None:
    name = data.draw(st.sampled_from(["fma.f32", "fma.f64", "mma.m16n8k16", "mma.m16n8k16.f16", "mma.m8n8k4"]))
    atoms = [data.draw(st.sampled_from([1, 2, 4])) for _ in "MN"]
    plain = tile_mma(name, (*atoms, 1), None, (1, 1, 1))
    tile = [plain.atom.shape[d] * atoms[d] * data.draw(st.sampled_from([1, 2, 4])) for d in (0, 1)]
    tiling = tile_mma(name, (*atoms, 1), None, (*tile, plain.atom.shape[2]))
    assert [p.run for p in price_runs(tiling)] == list_runs(tiling)
    for price in price_runs(tiling):
        width = price.store.width_bytes
        accesses = offsets_by_hand(price.tiling, width)
        sectors = [len({byte // 32 for x in lanes for byte in range(x, x + width)}) for lanes in accesses]
        assert (min(sectors), max(sectors)) == price.store.each and sum(sectors) == price.store.total
        assert price.store.floor <= price.store.total
        assert all(x % width == 0 for lanes in accesses for x in lanes)


def test_no_r_where_the_atoms_do_not_divide() -> None:
    tiling = tile_mma("mma.m16n8k16", (2, 2, 1), None, (100, 128, 32))
    assert list_runs(tiling) == [] and price_runs(tiling) == ()
    assert "every R" not in "\n".join(describe_mma(tiling))


def test_huge_tiles_are_not_counted() -> None:
    tiling = tile_mma("mma.m16n8k16", (2, 2, 1), None, (1 << 40, 1 << 40, 1 << 40))
    assert price_runs(tiling) == () and derive_mma(tiling).modes[0].rounds == 1 << 35


# ---------------------------------------------------------------- text and data
def test_the_text_marks_who_owns_what() -> None:
    marked = [line for line in describe_mma(SGEMM) if line.startswith("4*")]
    assert len(marked) == 1 and "0-3 64-67" in marked[0] and marked[0].endswith("12 of 12")
    assert any(line.startswith("1*") for line in describe_mma(HGEMM))  # an int gathers nothing: R = 1
    assert max(map(len, describe_mma(HGEMM))) <= 110


@pytest.mark.parametrize("tiling", [SGEMM, HGEMM], ids=["simt", "mma_sync"])
def test_the_data_says_what_the_text_says(tiling: MmaTiling) -> None:
    data = mma_data(tiling)
    assert data["products"] == derive_mma(tiling).products and data["registers"]["C"] == derive_mma(tiling).registers[2]
    assert [run["store"]["total"] for run in data["runs"]] == [p.store.total for p in price_runs(tiling)]
    assert data["atom"]["instruction"] == tiling.atom.instruction
