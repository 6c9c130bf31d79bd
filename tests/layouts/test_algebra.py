"""Tiles, sums, packing, inverses and checks against their definitions, element by element."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilegen.errors import LayoutError
from tilegen.layouts import (
    AXES,
    ComposeLayout,
    Iter,
    Layout,
    SwizzleLayout,
    TileLayout,
    canonicalize,
    direct_sum,
    group,
    inverse,
    is_direct_sum_left,
    is_direct_sum_right,
    is_injective,
    is_tile_inner,
    is_tile_outer,
    is_trivial,
    pack,
    parse,
    permute_by_groups,
    permute_dims,
    size,
    span,
    swizzle_of,
    tile,
    tile_of,
    tile_to,
    unpack,
    verify,
)
from tilegen.layouts.core.canonical import spell_threads_as

from .strategies import COMPOSED, law, swizzles, tiles
from .test_laws import UNITS, by_definition, nonzero, swizzle_by_definition

Place = dict[str, int]
MEMORY_AND_LANES = ("m", "laneid", "TCol")


@st.composite
def parts(draw: Any, axes: tuple[str, ...] = MEMORY_AND_LANES, rank: int | None = None) -> Any:
    """A tile layout of at most 36 elements, and a shape of one extent for each iter."""
    rank = rank or draw(st.integers(1, 3))
    iters = st.builds(Iter, st.sampled_from((1, 2, 3)), st.sampled_from((0, 1, 2, 3, 6, 8)), st.sampled_from(axes))
    replica = draw(st.lists(iters, max_size=1))
    offset = draw(st.dictionaries(st.sampled_from(axes), st.integers(0, 9), max_size=1))
    shard = [draw(iters) for _ in range(rank)]
    return TileLayout.from_iters(shard, replica, offset), tuple(i.extent for i in shard)


@st.composite
def pairs(draw: Any, axes: tuple[str, ...] = MEMORY_AND_LANES) -> Any:
    rank = draw(st.integers(1, 2))
    return (*draw(parts(axes, rank)), *draw(parts(axes, rank)))


# Every tile layout of two iters of extents 1 and 2 and strides 0 to 3.
SMALL = [TileLayout(tuple(iters)) for iters in product([Iter(1, 1), *(Iter(2, s) for s in range(4))], repeat=2)]


def added(*terms: tuple[int, Place], factors: dict[str, int] | None = None) -> Place:
    total = dict.fromkeys(AXES, 0)
    for is_outer, place in terms:
        for axis, value in place.items():
            total[axis] += value * ((factors or {}).get(axis, 1) if is_outer else 1)
    return nonzero(total)


def assert_sum(whole: Layout, left: Layout, left_shape: Any, right: Layout, right_shape: Any, factors: Any) -> None:
    """Element (l * |right| + r) is at factors * left(l) + right(r), and what swizzles right swizzles the sum."""
    shape = [a * b for a, b in zip(left_shape, right_shape, strict=True)]
    swizzle, plain = swizzle_of(right), right.tile if isinstance(right, ComposeLayout) else right
    assert size(whole) == prod(shape)
    for x, a in enumerate(product(*map(range, left_shape))):
        for y, b in enumerate(product(*map(range, right_shape))):
            expect = [
                added((1, p), (0, q), factors=factors) for p in by_definition(left, x) for q in by_definition(plain, y)
            ]
            if swizzle is not None:
                expect = [nonzero({"m": swizzle_by_definition(swizzle, p.get("m", 0))}) for p in expect]
            coord = [l * n + r for l, n, r in zip(a, right_shape, b, strict=True)]  # noqa: E741
            found = [nonzero(p) for p in whole.apply(*coord, shape=shape)]
            assert sorted(map(str, found)) == sorted(map(str, expect))


def interleave(a: Any, b: Any) -> list[int]:
    return [n for pair in zip(a, b, strict=True) for n in pair]


def same(a: Layout, b: Layout) -> bool:
    """One canonical form, up to the axis on which a layout of one element takes no step."""
    places = [[nonzero(p) for p in layout.apply(0)] for layout in (a, b)]
    return canonicalize(a) == canonicalize(b) or (size(a) == size(b) == 1 and places[0] == places[1])


def spans(layout: Layout) -> dict[str, int]:
    return {axis: span(tile_of(layout), axis) for axis in AXES}  # type: ignore[misc]


# ---------------------------------------------------------------- direct sums and tiles
@law
@given(pairs())
def test_direct_sum_adds_places(case: Any) -> None:
    left, left_shape, right, right_shape = case
    assert_sum(direct_sum(left, left_shape, right, right_shape), *case, factors=None)


@law
@given(pairs())
def test_tile_stretches_the_outer_by_the_span_of_the_inner(case: Any) -> None:
    outer, outer_shape, inner, inner_shape = case
    assert_sum(tile(outer, outer_shape, inner, inner_shape), *case, factors=spans(inner))


@law
@given(pairs(axes=("m",)), swizzles())
def test_a_swizzle_of_the_inner_acts_on_the_sum(case: Any, swizzle: SwizzleLayout) -> None:
    outer, outer_shape, inner, inner_shape = case
    swizzled = ComposeLayout(swizzle, inner)
    assert_sum(tile(outer, outer_shape, swizzled, inner_shape), outer, outer_shape, swizzled, inner_shape, spans(inner))
    assert_sum(direct_sum(outer, outer_shape, swizzled, inner_shape), outer, outer_shape, swizzled, inner_shape, None)
    for combine in (tile, direct_sum):
        with pytest.raises(LayoutError, match="swizzle"):
            combine(swizzled, inner_shape, outer, outer_shape)


@law
@given(pairs())
def test_parts_of_a_sum_are_found_again(case: Any) -> None:
    left, left_shape, right, right_shape = case
    whole, shape = direct_sum(left, left_shape, right, right_shape), interleave(left_shape, right_shape)
    found_right = is_direct_sum_left(left, whole, shape, left_shape)
    found_left = is_direct_sum_right(right, whole, shape, right_shape)
    assert found_right is not None and direct_sum(left, left_shape, found_right, right_shape) == whole
    assert found_left is not None and direct_sum(found_left, left_shape, right, right_shape) == whole
    assert same(found_right, right) and same(found_left, left)


@law
@given(pairs())
def test_parts_of_a_tile_are_found_again(case: Any) -> None:
    outer, outer_shape, inner, inner_shape = case
    whole = tile(outer, outer_shape, inner, inner_shape)
    shape = [a * b for a, b in zip(outer_shape, inner_shape, strict=True)]
    found_outer = is_tile_inner(inner, whole, shape, inner_shape)
    found_inner = is_tile_outer(outer, whole, shape, outer_shape)
    assert found_outer is not None and tile(found_outer, outer_shape, inner, inner_shape) == whole
    assert found_inner is not None and tile(outer, outer_shape, found_inner, inner_shape) == whole
    assert same(found_outer, outer)


@law
@given(pairs(axes=("m",)), swizzles())
def test_parts_of_swizzled_tiles(case: Any, swizzle: SwizzleLayout) -> None:
    outer, outer_shape, plain, inner_shape = case
    inner, shape = ComposeLayout(swizzle, plain), [a * b for a, b in zip(outer_shape, inner_shape, strict=True)]
    whole = tile(outer, outer_shape, inner, inner_shape)
    found_outer = is_tile_inner(inner, whole, shape, inner_shape)
    found_inner = is_tile_outer(outer, whole, shape, outer_shape)
    assert found_outer is not None and tile(found_outer, outer_shape, inner, inner_shape) == whole
    assert found_inner is not None and tile(outer, outer_shape, found_inner, inner_shape) == whole
    assert is_tile_inner(plain, whole, shape, inner_shape) is None


@pytest.mark.slow
def test_every_small_pair() -> None:
    """Exhaustive: tiles and sums by definition, and a part is found exactly when some other part completes it."""
    for outer, inner in product(SMALL, repeat=2):
        sizes = (size(outer),), (size(inner),)
        assert_sum(tile(outer, sizes[0], inner, sizes[1]), outer, sizes[0], inner, sizes[1], spans(inner))
        assert_sum(direct_sum(outer, sizes[0], inner, sizes[1]), outer, sizes[0], inner, sizes[1], None)


def test_no_part_is_found_where_there_is_none() -> None:
    twos = [x for x in SMALL if size(x) == 2]
    fours = [x for x in SMALL if size(x) == 4]
    for part, whole in product(twos, fours):
        goal = canonicalize(whole)
        exists = {
            is_tile_inner: any(tile(o, (2,), part, (2,)) == goal for o in twos),
            is_tile_outer: any(tile(part, (2,), i, (2,)) == goal for i in twos),
            is_direct_sum_right: any(direct_sum(o, (2,), part, (2,)) == goal for o in twos),
            is_direct_sum_left: any(direct_sum(part, (2,), i, (2,)) == goal for i in twos),
        }
        for find, expected in exists.items():
            shape = (4,) if find in (is_tile_inner, is_tile_outer) else (2, 2)
            assert (find(part, whole, shape, (2,)) is not None) == expected, (find, str(part), str(whole))


@law
@given(parts(axes=("m", "laneid")), st.lists(st.integers(1, 3), min_size=3, max_size=3))
def test_tile_to_repeats_row_major(case: Any, counts: list[int]) -> None:
    layout, shape = case
    to_shape = [n * k for n, k in zip(shape, counts, strict=False)]
    outer = parse(f"S[({', '.join(map(str, counts[: len(shape)]))})]")
    assert tile_to(layout, to_shape, shape) == tile(outer, counts[: len(shape)], layout, shape)


def test_tiles_of_swizzles_as_tensor_cores_want_them() -> None:
    atom = SwizzleLayout(3, 3, 3)
    assert str(tile(parse("S[(8, 4):(1, 8)]"), (8, 4), atom, (8, 64))) == (
        "Swizzle(3, 3, 3) o S[(64, 4, 64):(64, 4096, 1)]"
    )
    tiled = parse("Swizzle(3,3,3) o S[(64,4,64):(64,4096,1)]")
    inner = is_tile_outer(parse("S[(8, 4):(1, 8)]"), tiled, (64, 256), (8, 4))
    assert str(inner) == "Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]"


@pytest.mark.parametrize(
    "call",
    [
        lambda: tile(parse("S[8:1]"), (8,), parse("S[(2, 2)]"), (2, 2)),
        lambda: tile(parse("S[8:1]"), (4,), parse("S[2:1]"), (2,)),
        lambda: tile(parse("S[(3, 4):(1, 8)]"), (4, 3), parse("S[(2, 2)]"), (2, 2)),
        lambda: tile_to(parse("S[(8, 8)]"), (12, 8), (8, 8)),
        lambda: tile_to(parse("S[(8, 8)]"), (64,), (8, 8)),
        lambda: tile_to(parse("S[(8, 8)]"), (4, 8), (8, 8)),
        lambda: direct_sum(parse("S[8:1]"), (8,), parse("S[(2, 2)]"), (2, 2)),
        lambda: is_tile_inner(parse("S[8:1]"), parse("S[64:1]"), (64,), (7,)),
        lambda: is_tile_inner(parse("S[8:1]"), parse("S[64:1]"), (32,), (8,)),
        lambda: is_tile_outer(parse("Swizzle(3,3,3)"), parse("S[1024:1]"), (1024,), (512,)),
        lambda: is_direct_sum_left(parse("S[8:1]"), parse("S[64:1]"), (64,), (8,)),
        lambda: is_direct_sum_right(parse("S[8:1]"), parse("S[64:1]"), (8, 8), (4,)),
    ],
)
def test_tiles_and_sums_refuse(call: Any) -> None:
    with pytest.raises(LayoutError):
        call()


# ---------------------------------------------------------------- thread axes
@law
@given(tiles(axes=("tx", "tid_in_wg", "warpid", "laneid", "m"), max_iters=3), st.sampled_from(sorted(UNITS)))
def test_threads_in_other_words_are_the_same_threads(layout: TileLayout, axis: str) -> None:
    spelled = spell_threads_as(layout, TileLayout((Iter(2, 1, axis),)))

    def threads(x: int, of: Layout) -> list[tuple[int, int]]:
        places = by_definition(of, x)
        return sorted((sum(v * UNITS.get(a, 0) for a, v in p.items()), p.get("m", 0)) for p in places)

    for x in range(min(size(layout), 200)):
        assert threads(x, spelled) == threads(x, layout)


def test_threads_split_where_iters_do_not_cross_a_warp() -> None:
    warp = parse("S[32:1@laneid]")
    assert isinstance(warp, TileLayout)
    for text, expect in [
        ("S[128:1@tx]", "S[(4, 32):(1@warpid, 1@laneid)]"),
        ("S[(2, 8):(64@tx, 4@tx)]", "S[(2, 8):(2@warpid, 4@laneid)]"),
        ("S[48:1@tx]", "S[48:1@tx]"), ("S[32:1@tx] + 16@tx", "S[32:1@tx] + 16@tx"),
        ("S[16:1@tx] + 80@tx", "S[16:1@laneid] + 2@warpid + 16@laneid"),
        ("S[(4, 32):(1@wid_in_wg, 1@laneid)]", "S[(4, 32):(1@wid_in_wg, 1@laneid)]"),
    ]:  # fmt: skip
        assert str(spell_threads_as(parse(text), warp)) == str(parse(expect))


# ---------------------------------------------------------------- groups
@law
@given(parts(), st.randoms(use_true_random=False))
def test_permute_by_groups_is_permute_dims(case: Any, random: Any) -> None:
    layout, shape = case
    grouped, separators = group(layout, shape)
    axes = list(range(len(shape)))
    random.shuffle(axes)
    assert permute_by_groups(grouped, separators, axes) == permute_dims(grouped, shape, axes)


@pytest.mark.parametrize(
    ("separators", "axes"),
    [((0, 2), (0,)), ((0, 2, 1, 3), (0, 1, 2)), ((1, 3), (0,)), ((0, 1, 3), (0, 0)), ((0, 1, 3), (1, 0, 2)), ((), ())],
)
def test_permute_by_groups_refuses(separators: Any, axes: Any) -> None:
    with pytest.raises(LayoutError):
        permute_by_groups(parse("S[(2, 2, 2)]"), separators, axes)


# ---------------------------------------------------------------- packing
@law
@given(st.one_of(tiles(axes=("laneid", "m"), max_iters=3), COMPOSED, swizzles()), st.sampled_from((1, 2, 3, 4, 8)))
def test_unpack_by_definition_and_back(layout: Layout, num: int) -> None:
    if swizzle_of(layout) and num == 3:
        with pytest.raises(LayoutError, match="power of two"):
            unpack(layout, num)
        return
    wider = unpack(layout, num)
    assert size(wider) == size(layout) * num
    for x in range(min(size(layout), 60)):
        for k in range(num):
            expect = [nonzero({**p, "m": p.get("m", 0) * num + k}) for p in by_definition(layout, x)]
            assert [nonzero(p) for p in wider.apply(num * x + k)] == expect
    assert canonicalize(pack(wider, num)) == canonicalize(layout)


@law
@given(st.one_of(tiles(axes=("laneid", "m"), max_iters=3), COMPOSED), st.sampled_from((2, 3, 4)))
def test_pack_by_definition(layout: Layout, num: int) -> None:
    try:
        narrow = pack(layout, num)
    except LayoutError:
        return
    assert size(narrow) * num == size(layout)
    for x in range(min(size(narrow), 60)):
        for k in range(num):
            expect = [nonzero({**p, "m": p.get("m", 0) * num + k}) for p in by_definition(narrow, x)]
            assert [nonzero(p) for p in layout.apply(num * x + k)] == expect


def test_pack_refuses_exactly_what_is_no_whole_number_of_elements() -> None:
    """Exhaustive: refused exactly when some group of ``num`` does not lie at num * q, num * q + 1, ..."""
    for first, second in product(SMALL[:25], repeat=2):
        layout = TileLayout((*first.shard, *second.shard))
        for num in (2, 4):
            at = [p["m"] for x in range(size(layout)) for p in layout.apply(x)]
            whole = len(at) % num == 0 and all(
                at[x] % num == 0 and at[x : x + num] == list(range(at[x], at[x] + num)) for x in range(0, len(at), num)
            )
            try:
                pack(layout, num)
            except LayoutError:
                assert not whole, (str(layout), num)
            else:
                assert whole, (str(layout), num)


@pytest.mark.parametrize(
    "call",
    [
        lambda: pack(parse("S[(8, 16):(15, 1)]"), 2), lambda: pack(parse("S[8:1] + 1"), 2),
        lambda: pack(parse("S[8:1] + R[2:9]"), 2), lambda: pack(parse("Swizzle(0, 3, 3)"), 2),
        lambda: pack(parse("S[8:1]"), 0), lambda: unpack(parse("S[8:1]"), True), lambda: pack(parse("S[8:2]"), 2),
        lambda: unpack(parse("S[(8, 8):(1@P, 1@F)]"), 2), lambda: unpack(parse("S[8:1]"), 2, axis="zzz"),
    ],
)  # fmt: skip
def test_packing_refuses(call: Any) -> None:
    with pytest.raises(LayoutError):
        call()


def test_packing_counts_on_the_memory_axis() -> None:
    cells = parse("S[(128, 64):(1@TLane, 1@TCol)]")
    assert str(unpack(cells, 2, axis="TCol")) == "S[(128, 64, 2):(1@TLane, 2@TCol, 1@TCol)]"
    assert str(pack(parse("S[(128, 64):(1@TLane, 1@TCol)]"), 4, axis="TCol")) == "S[(128, 16):(1@TLane, 1@TCol)]"


# ---------------------------------------------------------------- checks
@law
@given(st.one_of(parts().map(lambda case: case[0]), tiles(axes=("m",), max_iters=3), COMPOSED, swizzles()))
def test_is_trivial_by_counting(layout: Layout) -> None:
    n = size(layout)
    found = all([nonzero(p) for p in by_definition(layout, x)] == [nonzero({"m": x})] for x in range(n))
    replicas = prod(i.extent for i in tile_of(layout).replica)
    if swizzle_of(layout) is None:
        assert is_trivial(layout) == (found and replicas == 1)
    else:
        assert not is_trivial(layout) or found


def box_of(layout: TileLayout) -> dict[str, int]:
    return {axis: span(layout, axis) for axis in AXES if any(i.axis == axis for i in layout.shard)}  # type: ignore[misc]


@law
@given(tiles(axes=("laneid", "m"), max_iters=4))
def test_inverse_by_definition(layout: TileLayout) -> None:
    try:
        back = inverse(layout)
    except LayoutError:
        return
    places = list(box_of(tile_of(canonicalize(layout))).values())
    for x in range(size(layout)):
        (place,) = layout.apply(x)
        at = [place.get(axis, 0) for axis in box_of(tile_of(canonicalize(layout)))]
        assert back.apply(*at, shape=places) == ({"m": x},)


def test_an_inverse_exists_exactly_for_bijections_onto_a_box() -> None:
    for first, second in product(SMALL, repeat=2):
        layout = TileLayout((*first.shard, *second.shard))
        at = sorted(p["m"] for x in range(size(layout)) for p in layout.apply(x))
        try:
            back = inverse(layout)
        except LayoutError:
            assert at != list(range(len(at))), str(layout)
        else:
            assert at == list(range(len(at))), str(layout)
            assert canonicalize(inverse(back)) == canonicalize(layout)


def test_inverse_in_an_order_of_axes_and_of_swizzles() -> None:
    fragment = parse("S[(8, 4, 2):(4@laneid, 1@laneid, 1)]")
    assert str(inverse(fragment)) == "S[64:1]"
    assert str(inverse(fragment, ("m", "laneid"))) == "S[(2, 32):(1, 2)]"
    swizzled = parse("Swizzle(3,3,3) o S[(8, 64)]")
    for x in range(512):
        assert inverse(swizzled).apply(swizzled.apply(x)[0]["m"]) == ({"m": x},)
        assert inverse(SwizzleLayout(2, 2, 3, False)).apply(SwizzleLayout(2, 2, 3, False).apply(x)[0]["m"])[0]["m"] == x
    for text, reason in [
        ("S[8:1] + R[2:8]", "replicas"), ("S[8:1] + 4", "offset"), ("S[(8, 6):(8, 1)]", "from 6 to 7"),
        ("S[(8, 2):(1, 4)]", "share"), ("S[(8, 2):(1, 0)]", "share"),
        ("Swizzle(3,3,3) o S[(8, 64):(1, 8)]", "not dense"),
    ]:  # fmt: skip
        with pytest.raises(LayoutError, match=reason):
            inverse(parse(text))
    with pytest.raises(LayoutError, match="axes"):
        inverse(fragment, ("m",))


PLACES = {"laneid": 32, "tid_in_wg": 128, "wid_in_wg": 4, "warpid": 32, "tx": 1024, "wgid": 8, "TLane": 128, "Bank": 32}


@law
@given(tiles(axes=(*PLACES, "m", "TCol"), max_iters=3))
def test_verify_by_counting(layout: TileLayout) -> None:
    reasons = verify(layout)
    places = [p for x in range(min(size(layout), 512)) for p in by_definition(layout, x)]
    for axis, n in PLACES.items():
        reached = max(p.get(axis, 0) for p in places)
        assert any(r.startswith(f"{axis} reaches {reached},") for r in reasons) == (reached >= n)


def test_verify_says_all_that_is_wrong() -> None:
    assert verify(parse("S[(8, 64)]"), (512,)) == [] == verify(parse("Swizzle(3,3,3)"), (7, 9))
    assert len(verify(parse("S[(2, 64):(1@wgid, 1@laneid)] + 40@wid_in_wg"), (64,))) == 3
    assert is_injective(parse("S[(8, 64)]"))
