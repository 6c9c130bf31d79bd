"""cp.async in the layout chooser: what it costs under each layout, and that equal patterns may be counted once."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from specs.kernels import ROOT

import tilegen
from tests.oracles.layout_regret import rank_drawn
from tilegen.access import cp_async_cost
from tilegen.auto_layout.families import enumerate_layouts, place_elements
from tilegen.auto_layout.tile_access import (
    TileAccess,
    count_costs,
    count_floor,
    count_least_sectors,
    fold,
    keep_vectors,
    tile_access,
)
from tilegen.cost.asynchronous import CP_ASYNC

SHAPES = st.sampled_from([(8, 16), (16, 32), (3, 64), (2, 8, 32)])


@st.composite
def filled_tiles(draw: st.DrawFn) -> tuple[tuple[int, ...], int, TileAccess]:
    """(shape, element bytes, an access): vectors of a tile in some order, read from anywhere or not at all."""
    shape, kind = draw(SHAPES), draw(st.sampled_from(CP_ASYNC))
    size = draw(st.sampled_from([2, 4, 8]))
    width = (16 if ".cg" in kind else draw(st.sampled_from([w for w in (4, 8) if w >= size]))) // size
    seed = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    vectors, rows = prod(shape) // width, draw(st.integers(1, 6))
    elements = np.stack([_some_vectors(seed, vectors, draw(st.booleans())) for _ in range(rows)]) * width
    elements[elements < 0] = -1
    source = elements // shape[-1] * 512 + elements % shape[-1] * size
    if draw(st.booleans()):
        source = seed.integers(0, 256, source.shape) * width * size
    holes = (elements < 0) | (seed.random(source.shape) < 0.2 if kind.endswith(".zfill") else False)
    access = tile_access(kind, width, elements, seed.integers(1, 9, rows), np.where(holes, -1, source))
    return shape, size, access


def _some_vectors(seed: np.random.Generator, vectors: int, in_order: bool) -> np.ndarray:
    """32 vectors, each once: in order from somewhere, or any; -1 where there are no more."""
    taken = np.arange(vectors) if in_order else seed.permutation(vectors)
    start = int(seed.integers(0, max(1, vectors - 31))) if in_order else 0
    row = np.full(32, -1, np.int64)
    row[: len(taken[start : start + 32])] = taken[start : start + 32]
    return row


@pytest.mark.slow
@given(filled_tiles())
def test_costs_are_the_sum_over_every_row_placed_on_its_own(drawn: tuple[tuple[int, ...], int, TileAccess]) -> None:
    """The chooser counts one row of each pattern; here every row is placed under every layout."""
    shape, size, a = drawn
    layouts = enumerate_layouts(shape, size)
    waves, sectors = count_costs(layouts, shape, size, [fold(a, shape, size)])
    assert a.source is not None
    _, _, cache, *fill = a.kind.split(".")
    for k in np.flatnonzero(keep_vectors(layouts, shape, size, a)):
        to = place_elements([layouts[k]], shape, a.elements)[0] * size
        cost = cp_async_cost(cache, a.width_elems * size, np.where(a.elements >= 0, to, -1), a.source, bool(fill))
        # A cg that every lane reads has its fills alone.
        idle = ((a.elements >= 0) & (np.asarray(a.source) < 0)).any(axis=1)
        own = np.where(idle | (cache == "ca") | (not fill), cost.wavefronts, 0)
        wanted = (own + cost.fills) @ a.weights, cost.sectors @ a.weights
        assert (waves[k, 0], sectors[k, 0]) == wanted, layouts[k].text
        assert count_floor(shape, size, [a]) <= wanted[0] and count_least_sectors(size, [a]) <= wanted[1]


def test_padding_by_half_a_sector_is_passed_over_for_the_sectors_that_it_costs() -> None:
    """Rows of 128 bytes filled by cp.async.cg and read by columns of 16 bytes: padding and swizzles free the reads."""
    lanes = np.arange(32)
    rows = [256 * k + 8 * lanes for k in range(16)]
    fills = tile_access("cp.async.cg", 8, rows, 1, [2 * r for r in rows])
    reads = tile_access("ld", 8, [(lanes + 32 * half) * 64 + 8 * c for half in (0, 1) for c in range(8)])
    ranked = rank_drawn((64, 64), "float16", [fills, reads])
    costed = {c.layout.text: c.cost for c in ranked}
    half, whole = (costed[f"S[(64, 64):({pitch}, 1)]"] for pitch in (72, 80))
    assert (half.wavefronts, half.sectors) == (64 + 168, 288)  # reads without conflicts, but odd rows part sectors
    assert (whole.wavefronts, whole.sectors) == (128 + 112, 256)
    pick = ranked[0]
    assert pick.layout.family == "swizzle"
    assert (pick.cost.wavefronts, pick.cost.sectors) == (64 + 64, 256)  # a fill for each row of 128 bytes


@pytest.mark.parametrize("name", ["copy_staged", "staged_odd"])
def test_the_kind_names_the_instruction_of_the_text(name: str) -> None:
    built = tilegen.build(ROOT / "specs" / f"{name}.yaml")
    kinds = {a["kind"].removesuffix(".zfill") for op in built.manifest["ops"] for a in op["accesses"]}
    assert {k for k in kinds if k in CP_ASYNC} == {k for k in CP_ASYNC if f"{k}.shared" in built.source}
