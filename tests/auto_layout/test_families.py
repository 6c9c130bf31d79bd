"""Families, costs and refusals of the layout chooser; the search for linear layouts against all of them."""

from __future__ import annotations

import random
from itertools import combinations
from math import prod

import numpy as np
import pytest

from tests.oracles import layout_brute
from tests.oracles.layout_regret import place, rank_drawn
from tilegen import layouts
from tilegen.auto_layout.families import enumerate_layouts, place_elements, span_elems
from tilegen.auto_layout.linear_search import find_linear
from tilegen.auto_layout.tile_access import TileAccess, count_floor, count_wavefronts, tile_access
from tilegen.spec.data import Buffer

COLUMN = tile_access("ld", 1, [32 * lane for lane in range(32)])
ROW = tile_access("st", 4, [4 * lane for lane in range(32)])


# ---------------------------------------------------------------- families
@pytest.mark.parametrize(
    ("shape", "elem_bytes"), [((16, 32), 4), ((12, 20), 2), ((3, 8, 16), 4), ((64,), 1), ((5, 7), 8)]
)
def test_every_layout_of_the_families_is_one_of_a_spec(shape: tuple[int, ...], elem_bytes: int) -> None:
    """Numbers, value and text say the same; nothing lies on anything else."""
    found = enumerate_layouts(shape, elem_bytes)
    elements = np.arange(prod(shape))
    placed = place_elements(found, shape, elements)
    for f, addresses in zip(found, placed, strict=True):
        assert (addresses == place(f.layout, shape)).all()
        assert len(np.unique(addresses)) == len(elements)
        assert span_elems(f, shape) == addresses.max() + 1 == layouts.extent_of(f.layout)
        assert f.text == "row" or layouts.parse(f.text) == f.layout
    assert len({f.layout for f in found}) == len(found)


def test_pads_are_whole_elements() -> None:
    pads = [f.strides[0] - 16 for f in enumerate_layouts((8, 16), 8) if f.family == "padding"]
    assert pads == list(range(1, 17)), "pads of 2, 4, .. 32 words"
    pads = [f.strides[0] - 16 for f in enumerate_layouts((8, 16), 1) if f.family == "padding"]
    assert pads == list(range(4, 129, 4))


# ---------------------------------------------------------------- costs
def test_vectors_stay_whole() -> None:
    found = enumerate_layouts((32, 32), 4)
    cut = count_wavefronts(found, (32, 32), 4, [ROW])[:, 0] < 0
    for f, is_cut in zip(found, cut, strict=True):
        brute = layout_brute.count(place(f.layout, (32, 32)), 4, [ROW])
        assert is_cut == (brute is None), f.text


def test_weights_scale_wavefronts_and_instructions() -> None:
    often = TileAccess("ld", 1, COLUMN.elements, np.array([7]))
    pick = rank_drawn((32, 32), "float32", [often])[0]
    assert (pick.cost.wavefronts, pick.cost.instructions) == (7, 7)
    assert count_floor((32, 32), 4, [often]) == 7


def test_what_is_asked_of_a_layout_is_kept() -> None:
    def dense_only(call: object, buffer: Buffer) -> str | None:
        return None if isinstance(buffer.layout, layouts.TileLayout) else "no swizzle here"

    both = [COLUMN, tile_access("st", 1, range(32))]
    best, *others = rank_drawn((32, 32), "float32", both, dense_only)
    assert best.layout.text == "S[(32, 32):(33, 1)]"
    assert {o.reason for o in others if o.layout.family == "swizzle"} == {"no swizzle here"}
    best, *_ = rank_drawn((32, 32), "float32", both, dense_only, room_bytes=4096)
    assert best.cost.shared_bytes == 4096 and best.cost.wavefronts > 2
    assert all(c.reason for c in rank_drawn((32, 32), "float32", [COLUMN], room_bytes=100))


@pytest.mark.parametrize(
    ("kind", "width", "elements", "words"),
    [("read", 1, range(32), "unknown kind"), ("ld", 3, range(32), "not 3"), ("ld", 1, range(16), "shape")],
)
def test_accesses_that_cannot_be(kind: str, width: int, elements: range, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tile_access(kind, width, list(elements))


# ---------------------------------------------------------------- linear layouts
def _draw_accesses(draw: random.Random, bits: int) -> list[TileAccess]:
    """One or two accesses whose lanes step along random vectors, and perhaps one at random."""
    found = []
    for _ in range(draw.randint(1, 2)):
        vectors = draw.sample(range(1, 1 << bits), 5)
        lanes = [0]
        for v in vectors:
            lanes += [x ^ v for x in lanes]
        found.append(tile_access("ld", 1, lanes))
    if draw.random() < 0.3:
        found.append(tile_access("ld", 1, [draw.randrange(1 << bits) for _ in range(32)]))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_linear_layouts_against_all_of_them(seed: int) -> None:
    """float32, 64 or 128 elements: one or two offset bits lie above the banks; every choice of their space is tried."""
    draw = random.Random(seed)
    shape = draw.choice([(8, 8), (4, 16), (8, 16)])
    bits = prod(shape).bit_length() - 1
    accesses = _draw_accesses(draw, bits)
    found = find_linear(shape, 4, accesses)
    spaces = [{0, a, b, a ^ b} if bits == 7 else {0, a} for a, b in combinations(range(1, 1 << bits), 2)]
    apart = {int(x ^ y) for a in accesses for x, y in combinations(a.elements[0], 2) if x != y}
    exists = any(not (space - {0}) & apart for space in spaces)
    assert (found.layout is not None) == exists, found.reason
    if found.layout is not None:
        assert found.wavefronts == count_floor(shape, 4, accesses)
        offset = _offsets(found.layout, shape)
        assert layout_brute.count(offset, 4, accesses) == found.wavefronts


def _offsets(layout: layouts.LinearLayout, shape: tuple[int, ...]) -> np.ndarray:
    """The offset of every element, from the bases as printed: bit k of an offset adds bases[k] to the coordinates."""
    offset = np.arange(prod(shape))
    element = np.zeros_like(offset)
    for k, base in enumerate(layout.bases["offset"]):
        element ^= np.where(offset >> k & 1, np.ravel_multi_index(tuple(base), shape), 0)
    result = np.empty_like(offset)
    result[element] = offset
    return result


def test_linear_layouts_that_do_not_exist() -> None:
    rows = tile_access("st", 4, np.arange(0, 4096, 4).reshape(-1, 32))
    columns = tile_access("ld", 1, np.arange(4096).reshape(64, 64).T.reshape(-1, 32))
    assert find_linear((64, 64), 4, [rows, columns]).reason == (
        "no linear layout is free of conflicts, vectors kept whole"
    )
    assert find_linear((24, 32), 4, [COLUMN]).reason == "an extent is no power of two"
    assert find_linear((512, 512), 1, [COLUMN]).reason == "more than 2**16 elements were not searched"
