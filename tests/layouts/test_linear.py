"""Linear layouts: every operation against its definition, exhaustively where the domain is small."""

from __future__ import annotations

import re
from itertools import product as combinations
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tilegen.errors import LayoutError
from tilegen.index import Var, evaluate
from tilegen.layouts import (
    ComposeLayout,
    Iter,
    LinearLayout,
    NVMMADistributedLayout,
    NVMMASharedLayout,
    PaddedSharedLayout,
    SwizzleLayout,
    TileLayout,
    linear,
    mma_fragment,
    mma_shared_layout,
    parse,
    row_major,
    size,
    wgmma_accumulator,
)
from tilegen.layouts.linear.matrices import (
    eliminate,
    image_of,
    join_bits,
    multiply,
    right_inverse,
    runs,
    span_basis,
    split_bits,
)

from .strategies import law, swizzles

SHAPES = st.lists(st.sampled_from((1, 2, 4, 8)), min_size=1, max_size=3).map(tuple)


@st.composite
def layouts(draw: Any, shape: Any = SHAPES, names: tuple[str, ...] = ("register", "lane", "warp")) -> LinearLayout:
    extents = draw(shape)
    basis = st.tuples(*(st.integers(0, n - 1) for n in extents))
    return LinearLayout(shape=extents, **{name: draw(st.lists(basis, max_size=3)) for name in names})


def places(layout: LinearLayout) -> list[dict[str, int]]:
    counts = [range(n) for n in layout.in_sizes.values()]
    return [dict(zip(layout.names, reversed(p), strict=True)) for p in combinations(*reversed(counts))]


def all_places(layout: LinearLayout) -> dict[str, Any]:
    """The same as one array for each input."""
    every = places(layout)
    return {name: np.array([place[name] for place in every]) for name in layout.names}


def held(layout: LinearLayout, place: dict[str, int]) -> tuple[int, ...]:
    """The XOR of the bases at the ones, in plain Python."""
    result = [0] * len(layout.shape)
    for name, vectors in layout.bases.items():
        for k, vector in enumerate(vectors):
            if place[name] >> k & 1:
                result = [a ^ b for a, b in zip(result, vector, strict=True)]
    return tuple(result)


# ---------------------------------------------------------------- F2, exhaustively: all matrices of 3 columns of 3 bits
@pytest.mark.parametrize("columns", list(combinations(range(8), repeat=3)))
def test_matrices(columns: tuple[int, ...]) -> None:
    images = [image_of(columns, x) for x in range(8)]
    assert all(images[x ^ y] == images[x] ^ images[y] for x in range(8) for y in range(8))
    kernel, rows = eliminate(columns).kernel, eliminate(columns).rows
    assert len(kernel) + len(rows) == 3
    assert {image_of(kernel, k) for k in range(1 << len(kernel))} == {x for x in range(8) if images[x] == 0}
    assert all(image_of(columns, combination) == vector for vector, combination in rows.values())
    basis = span_basis(columns)
    assert {image_of(basis, k) for k in range(1 << len(basis))} == set(images) and len(basis) == len(rows)
    assert basis == span_basis(tuple(v for v in images if v))
    inverse = right_inverse(columns, 3)
    reached = [1 << j in images for j in range(3)]
    if isinstance(inverse, tuple):
        assert multiply(columns, inverse) == (1, 2, 4)
    else:
        assert not reached[inverse] and all(reached[:inverse])
    for x in range(8):
        moved = 0
        for run in runs(columns):
            moved ^= (x >> run.source) % (1 << run.length) << run.target
        assert moved == images[x]


@law
@given(st.lists(st.integers(0, 4), max_size=4), st.integers(0, 2**16 - 1))
def test_fields_split_and_join(widths: list[int], x: int) -> None:
    x %= 1 << sum(widths)
    assert join_bits(split_bits(x, widths), widths) == x


# ---------------------------------------------------------------- the value
@law
@given(layouts())
def test_element_is_the_definition_for_ints_and_arrays(layout: LinearLayout) -> None:
    every = places(layout)
    arrays = layout.element(**{name: np.array([p[name] for p in every]) for name in layout.names})
    for k, place in enumerate(every):
        assert layout.element(**place) == held(layout, place)
        assert tuple(np.broadcast_to(a, len(every))[k] for a in arrays) == held(layout, place)


@law
@given(layouts())
def test_apply_gives_every_place_of_an_element(layout: LinearLayout) -> None:
    owners: dict[tuple[int, ...], list[dict[str, int]]] = {}
    for place in places(layout):
        owners.setdefault(held(layout, place), []).append(place)
    for flat, coord in enumerate(np.ndindex(*layout.shape)):
        if not linear.is_surjective(layout):
            with pytest.raises(LayoutError, match="nowhere"):
                layout.apply(*coord)
            return
        found = layout.apply(*coord)
        assert sorted(map(str, found)) == sorted(map(str, owners[coord]))
        assert found == layout.apply(flat) == layout.apply(flat, shape=(prod(layout.shape),))
        assert found[0] == layout.place(coord, layout.shape)


@law
@given(layouts(), st.sampled_from([None, (2, 4), (16,), (4, 2, 2)]))
def test_place_takes_arrays_and_expressions_in_any_shape(layout: LinearLayout, shape: Any) -> None:
    shape = layout.shape if shape is None or prod(shape) != prod(layout.shape) else shape
    if not linear.is_surjective(layout):
        return
    arrays = layout.place(np.indices(shape), shape)
    symbolic = layout.place([Var(f"x{d}", n) for d, n in enumerate(shape)], shape)
    values = {f"x{d}": v for d, v in enumerate(np.indices(shape))}
    for name in layout.names:
        assert np.array_equal(np.broadcast_to(evaluate(symbolic[name], values), shape), arrays[name])
    for coord in np.ndindex(*shape):
        assert {name: v[coord] for name, v in arrays.items()} == layout.place(coord, shape)


@law
@given(layouts())
def test_text_and_value_are_one(layout: LinearLayout) -> None:
    assert parse(str(layout)) == layout
    named = LinearLayout(shape=layout.shape, outs=[f"o{d}" for d in range(len(layout.shape))], **layout.bases)
    assert parse(str(named)) == named
    assert hash(parse(str(layout))) == hash(layout)


REFUSED = [
    ({"lane": [[1], [1, 2]]}, "has 2 coordinates"), ({"lane": [[4]], "shape": [4]}, "outside"),
    ({"lane": [[1]], "shape": [3]}, "power of two"), ({"lane": [1]}, "list of coordinates"),
    ({"lane": [[-1]]}, "at least 0"), ({}, "needs a shape"), ({"lane": [[0]] * 63}, "62 bits"),
    ({"lane": [[1]], "outs": ["a", "b"]}, "one name for each"), ({"lane": [[1.5]]}, "an integer"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "reason"), REFUSED)
def test_what_is_no_linear_layout(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(LayoutError, match=reason):
        LinearLayout(**arguments)


def test_places_and_coordinates_are_checked() -> None:
    layout = LinearLayout(lane=[[1], [2]])
    for wrong in ({"lane": 4}, {"lane": -1}, {"warp": 0}, {"lane": 1.0}):
        with pytest.raises(LayoutError):
            layout.element(**wrong)
    for coord in ((4,), (-1,), (0, 0)):
        with pytest.raises(LayoutError):
            layout.apply(*coord)
    with pytest.raises(LayoutError):
        layout.place((0,), (8,))


# ---------------------------------------------------------------- operations
@law
@given(layouts())
def test_kernel_and_image(layout: LinearLayout) -> None:
    kernel, image = linear.kernel(layout), linear.image(layout)
    elements = {held(layout, p) for p in places(layout)}
    zeros = [p for p in places(layout) if not any(held(layout, p))]
    assert len(kernel) + len(image) == sum(layout.widths)
    assert len(zeros) == 1 << len(kernel) and len(elements) == 1 << len(image)
    assert all(layout.element(**p) == (0,) * len(layout.shape) for p in kernel)
    assert set(image) <= elements
    assert linear.is_injective(layout) == (len(elements) == len(places(layout)))
    assert linear.is_surjective(layout) == (len(elements) == prod(layout.shape))


@st.composite
def chains(draw: Any) -> tuple[LinearLayout, LinearLayout, LinearLayout]:
    """Three maps, each from the outs of the one before: 2 x 8 -> 4 x 4 -> 8."""
    sizes = [("p", "q"), (2, 8)], [("a", "b"), (4, 4)], [("x",), (8,)]
    chain = []
    for (names, counts), (outs, shape) in ((sizes[0], sizes[1]), (sizes[1], sizes[2]), (sizes[2], sizes[1])):
        basis = st.tuples(*(st.integers(0, n - 1) for n in shape))
        bits = [n.bit_length() - 1 for n in counts]
        inputs = {name: draw(st.lists(basis, min_size=n, max_size=n)) for name, n in zip(names, bits, strict=True)}
        chain.append(LinearLayout(shape=shape, outs=outs, **inputs))
    return tuple(chain)


@law
@given(chains())
def test_composition_is_pointwise_and_associative(chain: tuple[LinearLayout, ...]) -> None:
    first, second, third = chain
    both = linear.compose(second, first)
    for place in places(first):
        between = dict(zip(first.outs, first.element(**place), strict=True))
        assert both.element(**place) == second.element(**between)
    assert linear.compose(third, both) == linear.compose(linear.compose(third, second), first)


def test_compositions_that_do_not_fit() -> None:
    inner = LinearLayout(lane=[[1], [2]], outs=["offset"])
    with pytest.raises(LayoutError, match="no input"):
        linear.compose(LinearLayout(register=[[1]]), inner)
    with pytest.raises(LayoutError, match="reaches 4"):
        linear.compose(LinearLayout(offset=[[1]]), inner)


@law
@given(layouts())
def test_inverse(layout: LinearLayout) -> None:
    if not linear.is_surjective(layout):
        with pytest.raises(LayoutError, match="nowhere"):
            linear.inverse(layout)
        return
    inverse = linear.inverse(layout)
    for coord in np.ndindex(*layout.shape):
        place = inverse.element(**dict(zip(layout.outs, coord, strict=True)))
        assert layout.element(**dict(zip(layout.names, place, strict=True))) == coord
    if linear.is_injective(layout):
        assert linear.inverse(inverse) == layout


@law
@given(layouts(names=("register", "lane")), layouts(names=("lane", "warp")))
def test_product_is_side_by_side(inner: LinearLayout, outer: LinearLayout) -> None:
    both = linear.product(inner, outer)
    assert both.names == ("register", "lane", "warp")
    for p, q in combinations(places(inner)[:8], places(outer)[:8]):
        place = {"register": p["register"], "lane": p["lane"] + inner.in_sizes["lane"] * q["lane"], "warp": q["warp"]}
        a = dict(zip(inner.outs, inner.element(**p), strict=True))
        b = dict(zip(outer.outs, outer.element(**q), strict=True))
        scale = dict(zip(inner.outs, inner.shape, strict=True))
        expect = tuple(a.get(o, 0) + scale.get(o, 1) * b.get(o, 0) for o in both.outs)
        assert both.element(**place) == expect


@law
@given(layouts(st.just((4, 8))), st.sampled_from([(32,), (8, 4), (2, 2, 8), (4, 8)]))
def test_reshape_keeps_the_flat_index(layout: LinearLayout, shape: tuple[int, ...]) -> None:
    other, every = linear.reshape(layout, shape), all_places(layout)
    flat = np.ravel_multi_index(layout.element(**every), layout.shape)
    assert np.array_equal(np.ravel_multi_index(other.element(**every), shape), flat)


# ---------------------------------------------------------------- from tiles
AXES = ("m", "laneid", "warpid")
POWERS = st.builds(Iter, st.sampled_from((1, 2, 4)), st.sampled_from((0, 1, 2, 3, 4, 5, 8, 16)), st.sampled_from(AXES))


@st.composite
def power_tiles(draw: Any, axes: tuple[str, ...] = AXES) -> TileLayout:
    """Tiles of power-of-two extents: many are XOR-linear, many are not."""
    if draw(st.booleans()):
        iters = draw(st.lists(POWERS, min_size=1, max_size=4))
        iters = [i if i.axis in axes else Iter(i.extent, i.stride, axes[0]) for i in iters]
        return TileLayout(tuple(iters), (), draw(st.sampled_from([(), (), (("m", 2),)])))
    bits, reached = draw(st.permutations(range(draw(st.integers(1, 7))))), dict.fromkeys(axes, 0)
    iters = []
    for _ in bits:
        axis = draw(st.sampled_from(axes))
        if axis == "laneid" and reached[axis] == 5:
            continue
        iters.append(Iter(2, 1 << reached[axis], axis))
        reached[axis] += 1
    iters = draw(st.permutations(iters or [Iter(1, 1)]))
    cut = draw(st.integers(1, len(iters)))
    return TileLayout(tuple(iters[:cut]), tuple(iters[cut:]))


NAMES = {"laneid": "lane", "warpid": "warp"}


def by_brute_force(layout: Any) -> tuple[bool, int | None]:
    """(whether logical to hardware is a bijection and XOR-linear, copies left out; the first index where XOR fails)."""
    n = size(layout)
    whole = [[tuple(sorted(p.items())) for p in layout.apply(x)] for x in range(n)]
    vectors = [[dict(p) for p in row] for row in whole]
    bits = range(n.bit_length() - 1)
    for x in range(n):
        expect = {axis: 0 for axis in vectors[x][0]}
        for k in bits:
            if x >> k & 1:
                expect = {axis: expect[axis] ^ vectors[1 << k][0][axis] for axis in expect}
        if expect != vectors[x][0]:
            return False, x
    every = [p for row in whole for p in set(row)]
    reached = {axis: 1 + max(dict(p)[axis] for p in every) for axis in vectors[0][0]}
    full = prod(1 << (r - 1).bit_length() for r in reached.values())
    linear_copies = all(
        {(axis, v ^ dict(copy)[axis] ^ first[axis]) for axis, v in vectors[0][c].items()}
        == {(axis, vectors[0][0][axis]) for axis in vectors[0][0]}
        for x in range(n) for first in [vectors[x][0]] for c, copy in enumerate(whole[x])
    )  # fmt: skip
    if len(set(every)) != len(every) or len(every) != full or not linear_copies:
        return False, None
    span = set(every)
    closed = all(tuple((a, u ^ v) for (a, u), (_, v) in zip(p, q, strict=True)) in span for p in span for q in span)
    return closed, None


@law
@given(st.one_of(power_tiles(), st.builds(ComposeLayout, swizzles(), power_tiles(("m",)))))
def test_bases_exist_exactly_where_the_map_is_linear(layout: Any) -> None:
    shape = (size(layout),)
    is_linear, index = by_brute_force(layout)
    if any(axis == "laneid" and p["laneid"] > 31 for x in range(shape[0]) for p in layout.apply(x) for axis in p):
        is_linear = False
    try:
        found = linear.to_linear(layout, shape)
    except LayoutError as error:
        assert not is_linear
        if at := re.search(r"not XOR-linear at index (\d+): ", str(error)):
            assert index == int(at[1])
        return
    assert is_linear
    renamed = {axis: NAMES.get(axis, "register" if "lane" in found.names else "offset") for axis in AXES}
    for x in range(shape[0]):
        for place in layout.apply(x):
            assert found.element(**{renamed[a]: v for a, v in place.items() if renamed[a] in found.names}) == (x,)
        assert len(found.apply(x)) == len({str(p) for p in layout.apply(x)})
    assert linear.bases(layout, shape) == found.bases


@law
@given(st.one_of(power_tiles(), st.builds(ComposeLayout, swizzles(), power_tiles(("m",)))))
def test_bases_and_back(layout: Any) -> None:
    shape = (size(layout),)
    try:
        found = linear.to_linear(layout, shape)
    except LayoutError:
        return
    try:
        back = linear.as_buffer_layout(found, shape)
    except LayoutError:  # a swizzle that XORs copies with elements: which place is the first is not in the bases
        assert isinstance(layout, ComposeLayout) and layout.tile.replica
        return
    for x in range(shape[0]):
        assert _places(layout, x) == _places(back, x)
    again = linear.to_linear(back, shape)
    assert all(again.bases[name] == vectors for name, vectors in found.bases.items() if any(map(any, vectors)))


def _places(layout: Any, x: int) -> list[list[tuple[str, int]]]:
    return sorted(sorted((axis, v) for axis, v in place.items() if v) for place in layout.apply(x))


@law
@given(layouts(st.sampled_from([(8,), (4, 4), (2, 8)])))
@example(LinearLayout(register=[[1], [3]], lane=[], warp=[[4]], shape=(8,)))
def test_to_tile_is_the_same_map_or_refuses(layout: LinearLayout) -> None:
    try:
        tile = linear.to_tile(layout)
    except LayoutError as error:
        assert "no tile layout is" in str(error)
        return
    axes = {"m": "register", "laneid": "lane", "warpid": "warp"}
    for coord in np.ndindex(*layout.shape):
        got = sorted(sorted((axes[a], v) for a, v in p.items() if v) for p in tile.apply(*coord, shape=layout.shape))
        assert got == sorted(sorted((n, v) for n, v in p.items() if v) for p in layout.apply(*coord))


NOT_LINEAR = [
    ("S[(4, 4):(5, 1)]", (4, 4), r"at index \(1, 1\): m is 6 there, the XOR gives 4"),
    ("S[6:1]", (6,), "index 4 XOR 2 = 6"),
    ("S[8:1] + 3", (8,), "at index 0: m is 3 there, not 0"),
    ("S[8:2]", (8,), "no element at offset 1"),
    ("S[(2, 8):(0, 1)]", (16,), "elements 0 and 8 at one place"),
    ("S[(32, 4):(2@laneid, 1)]", (128,), "32 threads"),
    ("S[(32, 2):(1@laneid, 1@tx)]", (64,), "twice"),
    ("S[8:1] + R[2:4]", (8,), "of copy 1"),
    ("S[8:1]", (4, 4), "16 elements"),
    ("S[8:1]", None, "shape"),
    ("PaddedSharedLayout.with_identity_for([[4, 1]], [8], [0])", (8,), "at index 5: m is 6 there, the XOR gives 4"),
    ("PaddedSharedLayout.with_identity_for([[4, 4]], [8], [0])", (8,), "no element at offset 4"),
]


@pytest.mark.parametrize(("text", "shape", "reason"), NOT_LINEAR)
def test_what_is_not_linear_says_where(text: str, shape: Any, reason: str) -> None:
    with pytest.raises(LayoutError, match=reason):
        linear.bases(parse(text), shape)


def test_padding_that_never_comes_is_linear() -> None:
    layout = PaddedSharedLayout.with_identity_for([[64, 4]], [4, 16], [1, 0], [[1, 0]])
    assert linear.bases(layout)["block"] == [[2, 0]]
    assert linear.bases(layout)["offset"] == [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0]]


NO_TILE = [
    ("LinearLayout(offset=[[1], [2], [7]])", "at once|no swizzle"),
    ("LinearLayout(register=[[1]], lane=[[1]])", "a copy moves"),
    ("LinearLayout(offset=[[1]], shape=[4])", "nowhere"),
    ("LinearLayout(phase=[[1]])", "no axis"),
    ("LinearLayout(offset=[[1]], register=[[2]])", "one axis"),
]


@pytest.mark.parametrize(("text", "reason"), NO_TILE)
def test_what_is_no_tile_says_why(text: str, reason: str) -> None:
    with pytest.raises(LayoutError, match=reason):
        linear.to_tile(parse(text))


# ---------------------------------------------------------------- two ways to one layout
def test_thread_axes_are_lane_and_warp() -> None:
    ways = ["S[(4, 32, 2):(1@warpid, 1@laneid, 1)]", "S[(128, 2):(1@tx, 1)]", "S[(128, 2):(1@tid_in_wg, 1)]",
            "S[(4, 32, 2):(1@wid_in_wg, 1@laneid, 1)]"]  # fmt: skip
    found = [linear.to_linear(parse(text), (128, 2)) for text in ways]
    assert found[0].in_sizes == {"register": 2, "lane": 32, "warp": 4, "block": 1}
    assert all(other == found[0] for other in found)
    groups = linear.to_linear(parse("S[(2, 128):(1@wgid, 1@tid_in_wg)]"), (256,))
    assert groups == linear.to_linear(parse("S[256:1@tx]"), (256,))


@pytest.mark.parametrize("shape", [(16, 8), (32, 16), (64, 64)])
def test_mma_accumulators_are_gluons(shape: tuple[int, int]) -> None:
    ours = linear.to_linear(mma_fragment("m16n8k16", "C", shape), shape)
    assert ours == NVMMADistributedLayout([2, 0], [1, 1], [16, 8]).to_linear(shape)


@pytest.mark.parametrize("columns", [8, 64, 256])
def test_wgmma_accumulators_are_gluons(columns: int) -> None:
    ours = linear.to_linear(wgmma_accumulator(columns), (64, columns))
    assert ours == NVMMADistributedLayout([3, 0], [4, 1], [16, columns, 16]).to_linear((64, columns))


@pytest.mark.parametrize("swizzle_bytes", [32, 64, 128])
def test_mma_shared_layouts_are_gluons(swizzle_bytes: int) -> None:
    shape = (64, swizzle_bytes // 2)
    ours = linear.to_linear(mma_shared_layout("float16", swizzle_bytes, shape), shape)
    assert ours == NVMMASharedLayout(swizzle_bytes, 16).to_linear(shape)


def test_tensor_memory_keeps_its_axes() -> None:
    assert linear.bases(parse("S[(128, 64):(1@TLane, 1@TCol)]"), (128, 64)).keys() == {"TLane", "TCol", "block"}


# ---------------------------------------------------------------- speed
@pytest.mark.parametrize("layout", [row_major((256, 256)), SwizzleLayout(3, 3, 3)], ids=str)
def test_a_conversion_of_2_to_the_16_elements_takes_less_than_5_ms(layout: Any) -> None:
    times = []
    for _ in range(5):
        begin = perf_counter()
        linear.bases(layout, (256, 256))
        times.append(perf_counter() - begin)
    assert min(times) < 0.005
