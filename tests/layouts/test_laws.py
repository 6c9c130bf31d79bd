"""Each operation on layouts against its definition, by brute force."""

from __future__ import annotations

from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilegen.errors import LayoutError
from tilegen.index import Var, evaluate
from tilegen.layouts import (
    AXES,
    ComposeLayout,
    Iter,
    Layout,
    SwizzleLayout,
    TileLayout,
    bank_and_line,
    bind,
    canonicalize,
    column_major,
    extent_of,
    finish_of,
    get_scope,
    group,
    is_injective,
    parse,
    permute_dims,
    row_major,
    size,
    slice_layout,
    span,
    storage,
    tile_of,
)

from .strategies import COMPOSED, LAYOUTS, grouped, law, swizzles, tiles

Place = dict[str, int]


def nonzero(place: dict[str, Any]) -> Place:
    """An axis at 0 and an axis that is not named are the same place."""
    return {axis: int(v) for axis, v in sorted(place.items()) if v}


def by_definition(layout: Layout, flat: int) -> list[Place]:
    """{ D(x) + r + O }, then the swizzle, in plain Python."""
    if isinstance(layout, SwizzleLayout):
        return [{"m": swizzle_by_definition(layout, flat)}]
    tile = tile_of(layout)
    places = []
    for steps in product(*(range(i.extent) for i in tile.replica)):
        place = dict.fromkeys(AXES, 0)
        rest = flat
        for i in reversed(tile.shard):
            place[i.axis] += rest % i.extent * i.stride
            rest //= i.extent
        for i, step in zip(tile.replica, steps, strict=True):
            place[i.axis] += step * i.stride
        for axis, value in tile.offset:
            place[axis] += value
        if isinstance(layout, ComposeLayout):
            place["m"] = swizzle_by_definition(layout.swizzle, place["m"])
        places.append(nonzero(place))
    return places


def swizzle_by_definition(s: SwizzleLayout, m: int) -> int:
    x, mask = m >> s.per_element, (1 << s.swizzle_len) - 1
    x ^= (x >> s.atom_len) & mask if s.inner else (x & mask) << s.atom_len
    return x << s.per_element | m & ((1 << s.per_element) - 1)


def places_of(layout: Layout) -> list[list[Place]]:
    return [[nonzero(p) for p in layout.apply(x)] for x in range(min(size(layout), 700))]


# ---------------------------------------------------------------- apply, place
@law
@given(LAYOUTS)
def test_apply_is_the_definition(layout: Layout) -> None:
    for flat in range(min(size(layout), 300)):
        assert [nonzero(p) for p in layout.apply(flat)] == [nonzero(p) for p in by_definition(layout, flat)]


@law
@given(tiles())
def test_apply_takes_one_coordinate_per_iter(layout: TileLayout) -> None:
    extents = [i.extent for i in layout.shard]
    for flat, coord in enumerate(product(*map(range, extents))):
        assert layout.apply(*coord) == layout.apply(flat)


@law
@given(grouped())
def test_place_is_replica_0_for_ints_and_arrays(case: tuple[Layout, tuple[int, ...]]) -> None:
    layout, shape = case
    arrays = layout.place(np.indices(shape), shape)
    for coord in product(*map(range, shape)):
        first = layout.apply(*coord, shape=shape)[0]
        assert layout.place(coord, shape) == first
        assert {axis: v[coord] for axis, v in arrays.items()} == first


@law
@given(grouped())
def test_symbolic_place_evaluates_to_the_numeric_one(case: tuple[Layout, tuple[int, ...]]) -> None:
    layout, shape = case
    coords = [Var(f"x{d}", n) for d, n in enumerate(shape)]
    values = {f"x{d}": v for d, v in enumerate(np.indices(shape))}
    symbolic, numeric = layout.place(coords, shape), layout.place(np.indices(shape), shape)
    assert symbolic.keys() == numeric.keys()
    for axis, expression in symbolic.items():
        assert np.array_equal(np.broadcast_to(evaluate(expression, values), shape), numeric[axis])


@law
@given(tiles(), st.sampled_from([(2, 3), (5, 4), (6, 6), (12,), (3, 4, 2)]))
def test_place_where_dimensions_and_iters_do_not_align(layout: TileLayout, shape: tuple[int, ...]) -> None:
    if size(layout) != prod(shape):
        with pytest.raises(LayoutError):
            layout.place([0] * len(shape), shape)
        return
    coords = [Var(f"x{d}", n) for d, n in enumerate(shape)]
    symbolic = layout.place(coords, shape)
    for coord in product(*map(range, shape)):
        first = layout.apply(*coord, shape=shape)[0]
        values = {v.name: x for v, x in zip(coords, coord, strict=True)}
        assert {axis: evaluate(e, values) for axis, e in symbolic.items()} == first == layout.place(coord, shape)


@law
@given(swizzles(), st.sampled_from([(3, 5), (16, 64), (7, 40), (512,)]))
def test_a_bare_swizzle_acts_on_the_row_major_address(swizzle: SwizzleLayout, shape: tuple[int, ...]) -> None:
    flat = np.arange(prod(shape)).reshape(shape)
    expect = np.vectorize(lambda m: swizzle_by_definition(swizzle, m))(flat)
    assert np.array_equal(swizzle.place(np.indices(shape), shape)["m"], expect)
    coords = [Var(f"x{d}", n) for d, n in enumerate(shape)]
    values = {f"x{d}": v for d, v in enumerate(np.indices(shape))}
    assert np.array_equal(evaluate(swizzle.place(coords, shape)["m"], values), expect)
    assert swizzle.apply(*(n - 1 for n in shape), shape=shape)[0]["m"] == expect.ravel()[-1]


def test_place_emits_no_needless_division() -> None:
    i, j, lane = Var("i", 8), Var("j", 64), Var("laneid", 32)
    assert str(parse("S[(8,64):(64,1)]").place((i, j), (8, 64))["m"]) == "i * 64 + j"
    assert str(parse("S[512:2]").place((i, j), (8, 64))["m"]) == "i * 128 + j * 2"
    assert str(parse("S[(2,4,64):(256,64,1)]").place((i, j), (8, 64))["m"]) == "i * 64 + j"
    assert str(parse("S[(8,2,32):(32,256,1)]").place((i, lane), (8, 64))["m"]) == "i * 32 + laneid"
    k, across = Var("k", 5), parse("S[(3,8,5):(8,1,100)]")  # 3 x 8 does not align with 8 x 3, but fuses first
    assert str(across.place((i, Var("c", 3), k), (8, 3, 5))["m"]) == "k * 100 + i * 3 + c"
    wide = Var("row", 1000)  # an edge tile's row may lie outside: the outermost component is not reduced
    assert str(parse("S[(2,4,8):(64,1,4)]").place((wide, 0), (8, 8))["m"]) == "(row >> 2) * 64 + (row & 3)"


def test_symbolic_swizzle_is_as_short_as_can_be() -> None:
    i, j = Var("i", 8), Var("j", 8)
    layout = parse("Swizzle(3,3,3) o S[(8,64):(64,1)]")
    assert str(layout.place((i, j * 8), (8, 64))["m"]) == "i * 64 + (j ^ i) * 8"
    assert str(layout.place((i, j * 8 + Var("v", 8)), (8, 64))["m"]) == "i * 64 + (j ^ i) * 8 + v"


def test_runtime_extents() -> None:
    m, n = Var("M", 1 << 10, 1, 1), Var("N", 1 << 10, 8, 1)
    row, column = Var("row", 1 << 10), Var("column", 1 << 10)
    layout = row_major((m, n))
    assert str(layout.place((row, column), (m, n))["m"]) == "row * N + column"
    assert str(column_major((m, n)).place((row, column), (m, n))["m"]) == "column * M + row"
    assert str(layout) == "S[(M, N):(N, 1)]" and parse(str(layout), {"M": m, "N": n}) == layout
    assert str(permute_dims(layout, (m, n), (1, 0))) == "S[(N, M):(1, N)]"
    assert str(bind(layout, {"M": 3, "N": 16})) == "S[(3, 16):(16, 1)]"
    assert bind(row_major((4, m, n)), {"M": 3, "N": 16}) == row_major((4, 3, 16))
    assert str(row_major((4, m, n)).place((3, row, column), (4, m, n))["m"]) == str(m * n * 3 + row * n + column)
    assert is_injective(layout) and is_injective(column_major((m, n))) and is_injective(row_major((4, m, n)))
    assert is_injective(parse("S[(M, N):(N + 8, 1)]", {"M": m, "N": n}))
    assert not is_injective(parse("S[(M, N):(8, 1)]", {"M": m, "N": n}))
    assert str(extent_of(layout)) == "M * N" and str(extent_of(row_major((4, m, n)))) == "M * N * 4"
    part = slice_layout(layout, (m, n), [(row, row + 2), (0, 8)])
    assert str(part) == "S[(2, 8):(N, 1)] + (row * N)"
    with pytest.raises(LayoutError, match="bind"):
        layout.place((np.arange(3), 0), (m, n))


def test_arrays_are_narrow_where_they_fit() -> None:
    x = np.arange(1 << 10)
    assert parse("S[1024:1]").place((x,), (1024,))["m"].dtype == np.int32
    assert parse(f"S[1024:{1 << 24}]").place((x,), (1024,))["m"].dtype == np.int64
    assert parse("S[(1024, 4):(4, 1)]").place((np.arange(200, dtype=np.uint8), 3), (1024, 4))["m"][-1] == 799
    assert parse("S[1024:8]").place((np.int64(3),), (1024,)) == {"m": 24}
    assert parse("S[(4, 4):(0, 1)]").place((x[:4], 0), (4, 4))["m"].shape == (4,)


@pytest.mark.parametrize(
    "call",
    [
        lambda: parse("S[(8,2):(2,1)]").apply(16), lambda: parse("S[(8,2):(2,1)]").apply(-1),
        lambda: parse("S[(8,2):(2,1)]").apply(0, 2), lambda: parse("S[(8,2):(2,1)]").apply(0, 0, 0),
        lambda: parse("S[(8,2):(2,1)]").apply(0, 4, shape=(4, 4)),
        lambda: parse("S[(8,2):(2,1)]").apply(0, 0, shape=(4, 5)),
        lambda: parse("Swizzle(3,3,3)").apply(-1), lambda: parse("Swizzle(3,3,3) o S[(8,64)]").apply(512),
        lambda: parse("S[8:1]").apply(1.5), lambda: parse("S[8:1]").place((1, 2), (8,)),
        lambda: parse("S[8:1]").place((np.zeros(3),), (8,)), lambda: parse("S[8:1]").place((0, 0), (3, 3)),
        lambda: parse(f"S[(8, 2):({1 << 61}, {1 << 62})]").place((np.arange(8), 0), (8, 2)),
    ],
)  # fmt: skip
def test_apply_refuses(call: Any) -> None:
    with pytest.raises(LayoutError):
        call()


# ---------------------------------------------------------------- swizzle, finish
@law
@given(swizzles())
def test_swizzle_permutes_every_aligned_period(swizzle: SwizzleLayout) -> None:
    n = size(swizzle)
    for start in (0, n, 5 * n):
        block = np.arange(start, start + n)
        assert np.array_equal(np.sort(swizzle.apply(block)[0]["m"]), block)


@law
@given(swizzles())
def test_inner_swizzle_moves_whole_vectors(swizzle: SwizzleLayout) -> None:
    vector = 1 << swizzle.per_element
    starts = np.arange(0, 4 * size(swizzle), vector)
    moved = swizzle.apply(starts)[0]["m"]
    for k in range(vector):
        assert np.array_equal(swizzle.apply(starts + k)[0]["m"], moved + k)


@pytest.mark.slow
@law
@given(COMPOSED)
def test_every_layout_is_finish_of_its_tile(layout: ComposeLayout) -> None:
    finish, tile = finish_of(layout), tile_of(layout)
    assert finish is not None and finish_of(tile) is None
    for x in range(size(layout)):
        assert [finish(p["m"]) for p in tile.apply(x)] == [p["m"] for p in layout.apply(x)]


# ---------------------------------------------------------------- canonicalize, group, slice, permute
@law
@given(LAYOUTS)
def test_canonicalize_keeps_the_map(layout: Layout) -> None:
    result = canonicalize(layout)
    assert size(result) == size(layout)
    for before, after in zip(places_of(layout), places_of(result), strict=True):
        assert sorted(map(str, before)) == sorted(map(str, after))
    assert canonicalize(result) == result


UNITS = {"tx": 1, "warpid": 32, "laneid": 1, "wgid": 128, "tid_in_wg": 1, "wid_in_wg": 32}


@law
@given(tiles(axes=("warpid", "laneid", "wgid", "tid_in_wg", "wid_in_wg", "m")), st.sampled_from(["warpgroup", "cta"]))
def test_fusing_thread_axes_keeps_the_thread(layout: TileLayout, scope: str) -> None:
    result = canonicalize(layout, fuse_threads=scope)

    def thread(place: Place) -> tuple[int, int]:
        return sum(v * UNITS.get(axis, 0) for axis, v in place.items()), place.get("m", 0)

    if get_scope_or_none(layout) is None:
        return
    for before, after in zip(places_of(layout), places_of(result), strict=True):
        assert sorted(map(thread, before)) == sorted(map(thread, after))


def get_scope_or_none(layout: TileLayout) -> tuple[str, str] | None:
    try:
        return get_scope(layout)
    except LayoutError:
        return None


def test_warps_of_warpgroups_fuse_to_warps() -> None:
    assert str(canonicalize(parse("S[(2,4):(1@wgid,1@wid_in_wg)]"), fuse_threads="cta")) == "S[8:1@warpid]"
    assert str(canonicalize(parse("S[(2,4,32):(1@wgid,1@wid_in_wg,1@laneid)]"), "warpgroup")) == (
        "S[(2, 128):(1@wgid, 1@tid_in_wg)]"
    )
    with pytest.raises(LayoutError):
        canonicalize(parse("S[8:1@laneid]"), fuse_threads="grid")


@law
@given(grouped())
def test_group_keeps_the_map_and_aligns(case: tuple[Layout, tuple[int, ...]]) -> None:
    layout, shape = case
    result, ends = group(layout, shape)
    assert places_of(result) == places_of(layout)
    extents = [i.extent for i in tile_of(result).shard]
    assert [prod(extents[a:b]) for a, b in pairwise(ends)] == list(shape)


@law
@given(grouped(), st.data())
def test_slice_is_the_layout_on_shifted_coordinates(case: tuple[Layout, tuple[int, ...]], data: Any) -> None:
    layout, shape = case
    begins = [data.draw(st.integers(0, n - 1)) for n in shape]
    ends = [data.draw(st.integers(b + 1, n)) for b, n in zip(begins, shape, strict=True)]
    try:
        part = slice_layout(layout, shape, list(zip(begins, ends, strict=True)))
    except LayoutError:
        return
    lengths = [e - b for b, e in zip(begins, ends, strict=True)]
    for coord in product(*map(range, lengths)):
        shifted = [c + b for c, b in zip(coord, begins, strict=True)]
        before, after = layout.apply(*shifted, shape=shape), part.apply(*coord, shape=lengths)
        assert sorted(str(nonzero(p)) for p in before) == sorted(str(nonzero(p)) for p in after)


def test_a_slice_may_begin_where_a_variable_says() -> None:
    stage, i, j = Var("stage", 3), Var("i", 8), Var("j", 64)
    stages = parse("Swizzle(3,3,3) o S[(3, 8, 64)]")
    part = slice_layout(stages, (3, 8, 64), [(stage, stage + 1), (0, 8), (0, 64)])
    place = part.place((0, i, j), (1, 8, 64))["m"]
    assert str(place) == "stage * 512 + i * 64 + (j ^ (i * 8))"
    rows = slice_layout(parse("S[(2, 4, 8):(256, 8, 1)]"), (8, 8), [(stage * 4, stage * 4 + 4), (0, 8)])
    assert str(rows) == "S[(4, 8):(8, 1)] + (stage * 256)"
    with pytest.raises(LayoutError):
        slice_layout(parse("S[(2, 4, 8):(256, 8, 1)]"), (8, 8), [(stage, stage + 4), (0, 8)])
    with pytest.raises(LayoutError, match="known at build time"):
        slice_layout(stages, (3, 8, 64), [(0, stage + 1), (0, 8), (0, 64)])


def test_a_slice_of_whole_dimensions_never_refuses() -> None:
    layout = parse("S[(4, 6, 8):(1@laneid, 8, 1)] + 3@warpid + 7")
    for region in product([(0, 4), (1, 3), (3, 4)], [(0, 6), (2, 5)], [(0, 8), (5, 8)]):
        slice_layout(layout, (4, 6, 8), list(region))


@pytest.mark.parametrize("region", [[(0, 9), (0, 8)], [(3, 3), (0, 8)], [(-1, 2), (0, 8)], [(0, 8)]])
def test_slice_refuses_boxes_outside(region: Any) -> None:
    with pytest.raises(LayoutError):
        slice_layout(parse("S[(8, 8)]"), (8, 8), region)


@law
@given(grouped(), st.randoms(use_true_random=False))
def test_permute_dims_is_the_logical_transpose(case: tuple[Layout, tuple[int, ...]], random: Any) -> None:
    layout, shape = case
    axes = list(range(len(shape)))
    random.shuffle(axes)
    result, permuted = permute_dims(layout, shape, axes), [shape[a] for a in axes]
    for coord in product(*map(range, shape)):
        moved = [coord[a] for a in axes]
        after, before = result.apply(*moved, shape=permuted), layout.apply(*coord, shape=shape)
        assert [nonzero(p) for p in after] == [nonzero(p) for p in before]


def test_permute_dims_fuses_where_iters_cross_dimensions() -> None:
    assert str(permute_dims(parse("S[(3, 8):(8, 1)]"), (8, 3), (1, 0))) == "S[(3, 8):(1, 3)]"
    with pytest.raises(LayoutError):
        permute_dims(parse("S[(3, 8):(9, 1)]"), (8, 3), (1, 0))


def test_a_shape_without_dimensions() -> None:
    for layout in (parse("S[1:1] + 3"), parse("S[(1, 1):(5, 1@laneid)] + 3")):
        assert layout.place((), ())["m"] == 3 == slice_layout(layout, (), []).place((), ())["m"]
        assert permute_dims(layout, (), ()).place((), ())["m"] == 3
    assert SwizzleLayout(3, 3, 3).place((), ()) == {"m": 0}


def test_permute_dims_of_a_bare_swizzle() -> None:
    swizzle = SwizzleLayout(3, 3, 3)
    result = permute_dims(swizzle, (16, 64), (1, 0))
    assert isinstance(result, ComposeLayout)
    for i, j in product(range(16), range(64)):
        assert result.place((j, i), (64, 16)) == swizzle.place((i, j), (16, 64))
    with pytest.raises(LayoutError):
        permute_dims(swizzle, (16, 64), (0, 0))


# ---------------------------------------------------------------- sizes
@law
@given(LAYOUTS)
def test_span_and_extent_are_those_of_the_places(layout: Layout) -> None:
    for axis in {i.axis for i in tile_of(layout).shard} if size(layout) <= 700 else ():
        values = [p.get(axis, 0) for places in places_of(layout) for p in places]
        assert extent_of(layout, axis) == max(values) + 1
        assert span(layout, axis) == max(values) - min(values) + 1


def test_sizes() -> None:
    assert extent_of(parse("S[(32, 8):(9, 1)]")) == 287  # where prod(shape) is 256
    assert extent_of(parse("S[8:1@laneid]"), "m") == 0
    assert extent_of(SwizzleLayout(3, 3, 3)) == 512
    assert extent_of(SwizzleLayout(3, 3, 3), shape=(64, 64)) == 4096
    assert extent_of(parse("Swizzle(0,2,2) o S[(3,1):(5,1)]")) == 1 + max(0, 5 ^ 1, 10 ^ 2)
    huge = parse(f"Swizzle(3,3,3) o S[({1 << 12}, {1 << 12}):({1 << 12}, 1)] + 1")
    assert extent_of(huge) == (1 << 24) + 64
    with pytest.raises(LayoutError, match="several memory axes"):
        span(parse("S[(8, 8):(1@P, 1@F)]"))


@law
@given(tiles(max_iters=3))
def test_storage_is_what_a_thread_holds(layout: TileLayout) -> None:
    memory = {name for name, axis in AXES.items() if axis.kind == "memory"}
    seen = {frozenset((a, v) for a, v in p.items() if a in memory) for ps in places_of(layout) for p in ps}
    kept = {frozenset(p.items()) for ps in places_of(storage(layout)) for p in ps}
    assert kept == seen


@law
@given(LAYOUTS)
def test_is_injective_by_counting(layout: Layout) -> None:
    if size(layout) > 700:
        return
    owners: dict[str, set[int]] = {}
    for x, places in enumerate(places_of(layout)):
        for p in places:
            owners.setdefault(str(sorted(p.items())), set()).add(x)
    assert is_injective(layout) == all(len(o) == 1 for o in owners.values())


def test_bank_and_line_of_the_seed() -> None:
    rows, zero = np.arange(8), np.zeros(8, int)
    plain, swizzled = parse("S[(8, 64):(64@m, 1@m)]"), parse("Swizzle(3,3,3) o S[(8, 64):(64@m, 1@m)]")
    bank, line = bank_and_line(plain, (rows, zero), (8, 64), 2)
    assert bank.tolist() == [0] * 8 and line.tolist() == list(range(8))
    assert bank_and_line(swizzled, (rows, zero), (8, 64), 2)[0].tolist() == [0, 4, 8, 12, 16, 20, 24, 28]
    assert [swizzled.apply(i, 0, shape=(8, 64))[0]["m"] for i in range(8)] == [72 * i for i in range(8)]
    with pytest.raises(LayoutError):
        bank_and_line(parse("S[8:1@laneid]"), (0,), (8,), 2)


# ---------------------------------------------------------------- values
def test_values_normalise_and_refuse() -> None:
    assert TileLayout((Iter(8, 1),), (), {"m": 0, "laneid": 2}) == TileLayout((Iter(8, 1),), (), (("laneid", 2),))
    assert hash(parse("S[8:1] + 2 + 3")) == hash(parse("S[8:1] + 5"))
    for build in (
        lambda: Iter(0, 1), lambda: Iter(8, -1), lambda: Iter(8, 1, "lane"), lambda: Iter(True, 1),
        lambda: Iter(2.0, 1), lambda: TileLayout(()), lambda: SwizzleLayout(3, 3, 2),
        lambda: TileLayout((Iter(8, 1),), offset={"m": -1}),
        lambda: SwizzleLayout(-1, 0, 0), lambda: SwizzleLayout(60, 3, 3),
        lambda: ComposeLayout(SwizzleLayout(3, 3, 3), parse("S[8:1@laneid]")),
        lambda: ComposeLayout(SwizzleLayout(3, 3, 3), SwizzleLayout(3, 3, 3)),  # type: ignore[arg-type]
        lambda: ComposeLayout(SwizzleLayout(3, 3, 3), parse("S[8:1] + 1@warpid")),
        lambda: row_major(()), lambda: row_major((0, 3)),
    ):  # fmt: skip
        with pytest.raises(LayoutError):
            build()
    assert {a.name for a in AXES.values() if a.kind == "thread"} == set(UNITS)
