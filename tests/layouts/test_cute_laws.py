"""The law of every operation on CuTe layouts, on all small layouts and on random nested ones, by brute force."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from itertools import product as combinations
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tilegen.errors import LayoutError
from tilegen.index import Var, evaluate
from tilegen.layouts import cute, parse
from tilegen.layouts.cute import CuteLayout
from tilegen.layouts.cute.values import flat_modes, leaves, map_leaves

from .strategies import law, tiles

EXTENTS = st.sampled_from((1, 2, 3, 4, 6))
TREES = st.recursive(EXTENTS, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=4)


@st.composite
def layouts(draw: Any, most: int = 600) -> CuteLayout:
    """Random strides, dense ones, and dense ones in another order with gaps."""
    shape = draw(TREES.filter(lambda tree: prod(leaves(tree)) <= most))
    kind = draw(st.sampled_from(("any", "dense", "gaps")))
    if kind == "dense":
        return CuteLayout(shape)
    if kind == "any":
        return CuteLayout(shape, map_leaves(lambda _: draw(st.sampled_from((0, 1, 2, 3, 4, 6, 12, 17))), shape))
    return CuteLayout(shape, spread(draw, shape))


def spread(draw: Any, shape: Any) -> Any:
    """Strides of an injective layout: the leaves in a random order, each after what is below, sometimes a gap."""
    extents = list(leaves(shape))
    strides, step = [0] * len(extents), 1
    for k in draw(st.permutations(range(len(extents)))):
        strides[k] = step * draw(st.sampled_from((1, 1, 1, 2, 3)))
        step = strides[k] * extents[k]
    rest = iter(strides)
    return map_leaves(lambda _: next(rest), shape)


@st.composite
def spreads(draw: Any) -> CuteLayout:
    shape = draw(TREES)
    return CuteLayout(shape, spread(draw, shape))


def coordinates(shape: Any) -> Any:
    """All nested coordinates, column-major."""
    if isinstance(shape, int):
        return list(range(shape))
    return [tuple(reversed(c)) for c in combinations(*(coordinates(n) for n in reversed(shape)))]


def dot(coord: Any, stride: Any) -> int:
    return coord * stride if isinstance(coord, int) else sum(map(dot, coord, stride))


def nesting(text: str) -> list[str]:
    """The parentheses that are open at each character."""
    opened, found = "", []
    for c in text:
        opened = opened + c if c == "(" else opened[:-1] if c == ")" else opened
        found.append(opened)
    return found


def image(layout: Any, count: int | None = None) -> list[int]:
    """Where the first elements lie, of one array: the first law compares numbers one by one with it."""
    return places_of(layout, range(cute.size(layout) if count is None else count))


def places_of(layout: Any, elements: Sequence[int]) -> list[int]:
    """Few are faster one by one."""
    if len(elements) < 40:
        return [layout(i) for i in elements]
    numbers = np.array(elements, np.int64)
    found: list[int] = np.broadcast_to(layout(numbers), numbers.shape).tolist()
    return found


SMALL = [
    *(CuteLayout(n, d) for n in (1, 2, 3, 4, 6) for d in (0, 1, 2, 3, 4)),
    *(CuteLayout(n, d) for n in combinations((1, 2, 3, 4), repeat=2) for d in combinations((0, 1, 2, 4, 6), repeat=2)),
    *(CuteLayout(n, d) for n in combinations((2, 3), repeat=3) for d in combinations((1, 2, 4, 6), repeat=3)),
]


# ---------------------------------------------------------------- the function and its text
@law
@given(layouts())
def test_a_layout_is_the_dot_product_of_column_major_coordinates(layout: CuteLayout) -> None:
    expected = [dot(c, layout.stride) for c in coordinates(layout.shape)]
    assert image(layout) == expected == [layout(c) for c in coordinates(layout.shape)]
    assert expected == [layout(i) for i in range(cute.size(layout))]
    assert layout(np.arange(len(expected))).tolist() == expected
    assert [cute.idx2crd(i, layout.shape) for i in range(len(expected))] == coordinates(layout.shape)
    i = Var("i", len(expected))
    assert [evaluate(layout(i), {"i": x}) for x in range(len(expected))] == expected
    assert cute.size(layout) == len(expected) and cute.cosize(layout) == 1 + max(expected)
    assert cute.join(cute.modes_of(layout))(0) == 0 and len(cute.modes_of(layout)) == cute.rank(layout)
    assert cute.depth(layout) == max(len(c) for c in nesting(str(cute.CuteLayout(layout.shape, layout.shape))))


@law
@given(layouts(), st.data())
def test_each_mode_takes_its_own_index(layout: CuteLayout, data: Any) -> None:
    modes = cute.modes_of(layout)
    coord = tuple(data.draw(st.integers(0, cute.size(mode) - 1)) for mode in modes)
    assert layout(coord) == sum(mode(x) for mode, x in zip(modes, coord, strict=True)) == cute.join(modes)(coord)
    assert cute.crd2idx(coord, layout.shape, layout.stride) == layout(coord)


@law
@given(layouts())
def test_text_is_read_back(layout: CuteLayout) -> None:
    assert cute.parse(str(layout)) == layout
    assert cute.parse(str(layout).replace(",", " , ").replace(":", " : ")) == layout
    composed = cute.ComposedLayout(cute.Swizzle(2, 1, 3), 5, layout)
    assert cute.parse(str(composed)) == composed


@pytest.mark.parametrize(
    "text",
    ["", "(4,2):(1)", "4:(1)", "(4,2", "4:1:2", "4 2", "()", "0:1", "4:-1", "Sw<3,3>", "Sw<3,3,2>", "Sw<3,3,3> bits",
     "Sw<3,3,3> o", "Sw<3,3,3> o 5 o", "x", "(" * 40 + "1" + ")" * 40, "9" * 30, "1," * 3000],
)  # fmt: skip
def test_text_that_is_none(text: str) -> None:
    with pytest.raises(LayoutError) as found:
        cute.parse(text)
    assert found.value.span is not None


def as_printed(layout: CuteLayout) -> str:
    """The text as CuTe's ``print`` has static ints."""
    return re.sub(r"\d+", lambda n: f"_{n[0]}", str(layout))


@law
@given(layouts(), st.integers(1, 3), st.sampled_from((8, 16, 32, 64)), st.sampled_from(("", "s", "g", "r")))
def test_what_cute_prints_is_read(layout: CuteLayout, bits: int, elem_bits: int, space: str) -> None:
    """A swizzle before a pointer permutes the bytes of the address, and the layout counts elements."""
    text = as_printed(layout)
    assert cute.parse(text) == layout and cute.is_printed(text)
    pointer = f"{space}mem_ptr[{elem_bits}b]" if space else f"ptr[{elem_bits}b]"
    assert cute.parse(f"{pointer}(0x7f8800000400) o {text}") == layout
    for between in (f" o {pointer}(unset) o ", f"_{pointer}(0x7f8800000400) o "):
        composed = cute.parse(f"Sw<{bits},4,3>{between}{text}")
        assert isinstance(composed, cute.ComposedLayout)
        in_bytes = cute.Swizzle(bits, 4, 3, "bytes")
        for x in range(0, cute.size(layout), 5):
            assert composed(x) * elem_bits // 8 == in_bytes(layout(x) * elem_bits // 8)
    assert cute.parse(f"S<{bits},4,3> o 0 o {layout}") == cute.parse(f"Swizzle<{bits},4,3> o _0 o {text}")


@pytest.mark.parametrize(("text", "hint"), [("(?,64):(64,_1)", "put them in"), ("(64,8):(1@0,1@1)", "coordinates")])
def test_what_cute_prints_without_numbers_says_what_is_missing(text: str, hint: str) -> None:
    with pytest.raises(LayoutError) as found:
        cute.parse(text)
    assert hint in found.value.hint and found.value.span is not None


@pytest.mark.parametrize("coord", [(-1,), (4, 0), (0, 6), (0, 0, 0), ((0, 0), 0), (1.5,), (0, (2, 0))])
def test_coordinates_outside(coord: Any) -> None:
    with pytest.raises(LayoutError):
        CuteLayout((4, (2, 3)))(*coord)


@pytest.mark.parametrize("shape, stride", [((4, 2), 1), (4, -1), (0, 1), ((), ()), (2.0, 1), (True, 1), ("4", 1)])
def test_layouts_that_cannot_be(shape: Any, stride: Any) -> None:
    with pytest.raises(LayoutError):
        CuteLayout(shape, stride)


# ---------------------------------------------------------------- coalesce, filter_zeros
@law
@given(layouts(most=60))
def test_coalesce_keeps_the_function_in_the_fewest_modes(layout: CuteLayout) -> None:
    short = cute.coalesce(layout)
    past = 3 * cute.size(layout)  # also where the last leaf goes on
    assert cute.size(short) == cute.size(layout)
    if cute.size(layout) > 1:
        assert image(short, past) == image(layout, past)
    modes = flat_modes(short)
    assert all(n != 1 for n, _ in modes) or str(short) == "1:0"
    assert all(b[1] != a[0] * a[1] for a, b in pairwise(modes))
    assert cute.coalesce(short) == short


@law
@given(layouts(), st.integers(1, 3))
def test_coalesce_by_profile_keeps_every_mode(layout: CuteLayout, count: int) -> None:
    modes = cute.modes_of(layout)
    if count > len(modes):
        with pytest.raises(LayoutError):
            cute.coalesce(layout, (1,) * count)
        return
    result = cute.modes_of(cute.coalesce(layout, (1,) * count))
    assert list(result) == [*map(cute.coalesce, modes[:count]), *modes[count:]]


@law
@given(layouts())
def test_filter_zeros_counts_broadcasts_once(layout: CuteLayout) -> None:
    kept = cute.filter_zeros(layout)
    assert set(image(kept)) == set(image(layout))
    assert cute.size(kept) == prod(n for n, d in flat_modes(layout) if d)


# ---------------------------------------------------------------- composition
def refines(inner: Any, outer: Any) -> bool:
    """Whether a shape is another with leaves split."""
    if isinstance(outer, int):
        return prod(leaves(inner)) == outer
    return isinstance(inner, tuple) and len(inner) == len(outer) and all(map(refines, inner, outer))


def check_composition(a: CuteLayout, b: CuteLayout) -> bool:
    try:
        result = cute.composition(a, b)
    except LayoutError:
        return False
    assert image(result) == places_of(a, image(b)), f"{a} o {b} = {result}"
    assert refines(result.shape, b.shape)
    return True


@pytest.mark.slow
def test_composition_of_many_small_layouts() -> None:
    accepted = sum(check_composition(a, b) for a in SMALL[::7] for b in SMALL[::9])
    assert accepted > 2500


@law
@given(layouts(), layouts())
def test_composition_is_function_composition(a: CuteLayout, b: CuteLayout) -> None:
    check_composition(a, b)


@law
@given(layouts(), layouts())
def test_composition_with_a_strided_line_always_exists(a: CuteLayout, b: CuteLayout) -> None:
    assert check_composition(CuteLayout(cute.cosize(b), 3), b)
    same = cute.composition(a, CuteLayout(cute.size(a), 1))
    assert same == cute.coalesce(a) or cute.size(a) == 1  # the stride of a unit places nothing


@law
@given(spreads(), spreads(), spreads())
def test_composition_is_associative(a: CuteLayout, b: CuteLayout, c: CuteLayout) -> None:
    try:
        left = cute.composition(cute.composition(a, b), c)
        right = cute.composition(a, cute.composition(b, c))
    except LayoutError:
        assume(False)
    inside = max(image(c)) < cute.size(b)  # past its size A o B goes on along its own last leaf
    assert not inside or image(left) == image(right)


@law
@given(layouts(), layouts(), st.booleans())
def test_composition_by_mode(a: CuteLayout, b: CuteLayout, leave: bool) -> None:
    first, *rest = cute.modes_of(a)
    try:
        expected = first if leave else cute.composition(first, b)
    except LayoutError:
        assume(False)
    result = cute.composition(a, (None if leave else b,))
    assert cute.modes_of(result) == (expected, *rest)


def test_large_carries_are_not_guessed() -> None:
    with pytest.raises(LayoutError, match="not checked"):
        cute.composition(cute.parse("(6,4194304):(1,7)"), cute.parse("(3,4194304):(2,3)"))


# ---------------------------------------------------------------- complement, inverses
def check_complement(layout: CuteLayout, cotarget: int) -> None:
    try:
        rest = cute.complement(layout, cotarget)
    except LayoutError:
        nested = sorted((d, n) for n, d in flat_modes(layout) if n != 1 and d)
        assert any(d < below * n for (below, n), (d, _) in pairwise(nested))
        return
    both = Counter(x + y for x in set(image(layout)) for y in image(rest))
    assert max(both.values()) == 1, "disjoint"
    assert image(rest) == sorted(image(rest)), "ordered"
    steps = sorted((d, n) for n, d in flat_modes(layout) if n != 1 and d)
    if all(d % (below * n) == 0 for (below, n), (d, _) in zip([(1, 1), *steps], steps, strict=False)):
        assert set(range(cotarget)) <= set(both), "complete"


def test_complement_of_all_small_layouts() -> None:
    for layout in SMALL:
        for cotarget in (1, 7, 24):
            check_complement(layout, cotarget)


@law
@given(layouts(most=60), st.integers(1, 100))
def test_complement_fills_the_gaps(layout: CuteLayout, cotarget: int) -> None:
    check_complement(layout, cotarget)


def check_right_inverse(layout: CuteLayout) -> None:
    inverse = cute.right_inverse(layout)
    assert [layout(j) for j in image(inverse)] == list(range(cute.size(inverse)))
    assert max(image(inverse)) < cute.size(layout)


def check_left_inverse(layout: CuteLayout) -> None:
    places = image(layout)
    try:
        inverse = cute.left_inverse(layout)
    except LayoutError:
        strides = sorted(d for n, d in flat_modes(layout) if n != 1)
        dividing = all(b % a == 0 for a, b in pairwise(strides) if a)
        assert len(set(places)) < len(places) or not dividing
        return
    assert [inverse(y) for y in places] == list(range(len(places)))


def test_inverses_of_all_small_layouts() -> None:
    for layout in SMALL:
        check_right_inverse(layout)
        check_left_inverse(layout)


@law
@given(layouts())
def test_inverses(layout: CuteLayout) -> None:
    check_right_inverse(layout)
    check_left_inverse(layout)


@law
@given(spreads())
def test_inverses_of_injective_layouts(layout: CuteLayout) -> None:
    inverse = cute.left_inverse(layout)  # its strides divide: always there
    assert [inverse(y) for y in image(layout)] == list(range(cute.size(layout)))
    assert sorted(image(inverse)) == list(range(cute.size(inverse))), "injective on the gaps too"
    dense = cute.size(layout) == cute.cosize(layout)
    assert (cute.size(cute.right_inverse(layout)) == cute.size(layout)) == dense


# ---------------------------------------------------------------- divide
@law
@given(layouts(), spreads())
def test_logical_divide_is_the_composition_with_tile_and_rest(layout: CuteLayout, tile: CuteLayout) -> None:
    try:
        divided = cute.logical_divide(layout, tile)
    except LayoutError:
        assume(False)
    rest = cute.complement(tile, cute.size(layout))
    inner, outer = cute.modes_of(divided)
    assert image(inner) == [layout(j) for j in image(tile)]
    assert image(outer) == [layout(j) for j in image(rest)]
    assert image(divided) == [layout(x + y) for y in image(rest) for x in image(tile)]
    covered = sorted(x + y for y in image(rest) for x in image(tile))
    if covered == list(range(cute.size(layout))):
        assert sorted(image(divided)) == sorted(image(layout)), "every element once"


def test_logical_divide_by_what_divides_always_works() -> None:
    for layout in SMALL:
        n = cute.size(layout)
        short = cute.coalesce(layout)
        fastest = flat_modes(short)[0][0]
        for tile in (k for k in range(1, n + 1) if fastest % k == 0):
            assert image(cute.logical_divide(layout, tile)) == image(layout)


@law
@given(st.integers(1, 60), st.integers(1, 20))
def test_a_tile_with_a_remainder_covers_more(n: int, tile: int) -> None:
    divided = cute.logical_divide(CuteLayout(n, 5), tile)
    assert cute.size(divided) == -(-n // tile) * tile
    assert image(divided) == [5 * i for i in range(cute.size(divided))]


@law
@given(st.lists(st.sampled_from((2, 4, 6)), min_size=1, max_size=3), st.data())
def test_gathered_divides_permute_the_modes(shape: list[int], data: Any) -> None:
    layout = CuteLayout(tuple(shape), spread(data.draw, tuple(shape)))
    parts = st.sampled_from((1, 2, None, CuteLayout(2, 2)))
    tiler = tuple(data.draw(st.lists(parts, min_size=1, max_size=len(shape))))
    try:
        pairs = cute.modes_of(cute.logical_divide(layout, tiler))
    except LayoutError:
        assume(False)
    zipped = cute.zipped_divide(layout, tiler)
    tile, rest = cute.modes_of(zipped)
    unit = CuteLayout(1, 0)
    split = [(unit, pair) if t is None else cute.modes_of(pair) for pair, t in zip(pairs, tiler, strict=False)]
    assert cute.modes_of(tile) == tuple(first for first, _ in split)
    assert cute.modes_of(rest) == (*(second for _, second in split), *pairs[len(tiler) :])
    assert cute.tiled_divide(layout, tiler) == cute.join([tile, *cute.modes_of(rest)])
    assert cute.flat_divide(layout, tiler) == cute.join([*cute.modes_of(tile), *cute.modes_of(rest)])
    for divide in (cute.logical_divide, cute.zipped_divide, cute.tiled_divide, cute.flat_divide):
        assert sorted(image(divide(layout, tiler))) == sorted(image(zipped))


# ---------------------------------------------------------------- product
@law
@given(spreads(), layouts(most=60))
def test_logical_product_places_disjoint_copies_in_the_tiler_s_order(block: CuteLayout, tiler: CuteLayout) -> None:
    try:
        product = cute.logical_product(block, tiler)
    except LayoutError:
        assume(False)
    inner, copies = cute.modes_of(product)
    free = cute.complement(block, cute.size(block) * cute.cosize(tiler))
    assert inner == block
    assert image(copies) == [free(j) for j in image(tiler)]
    assert image(product) == [x + y for y in image(copies) for x in image(block)]
    places = {x + y for y in set(image(copies)) for x in image(block)}
    assert len(places) == len(set(image(copies))) * cute.size(block), "copies at different places share none"


@law
@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 9))
def test_a_product_with_an_int_multiplies(n: int, d: int, copies: int) -> None:
    try:
        product = cute.logical_product(CuteLayout(n, d), copies)
    except LayoutError:
        assume(False)
    assert product == cute.logical_product(CuteLayout(n, d), CuteLayout(copies, 1))
    assert cute.size(product) == n * copies == len(set(image(product)))


@law
@given(st.data())
def test_gathered_products_permute_the_modes(data: Any) -> None:
    shape = data.draw(st.lists(st.sampled_from((1, 2, 3)), min_size=1, max_size=3).map(tuple))
    block = CuteLayout(shape, spread(data.draw, shape))
    tiler = CuteLayout(data.draw(st.lists(st.sampled_from((1, 2, 3)), min_size=1, max_size=3).map(tuple)))
    try:
        inner, copies = cute.modes_of(cute.logical_product(block, tiler))
    except LayoutError:
        assume(False)
    blocked, raked = cute.blocked_product(block, tiler), cute.raked_product(block, tiler)
    assert cute.zipped_product(block, tiler) == cute.join([inner, copies])
    assert cute.tiled_product(block, tiler) == cute.join([inner, *cute.modes_of(copies)])
    for c in coordinates(shape):
        for t in coordinates(tiler.shape):
            most = max(len(c), len(t))
            pairs = list(zip(pad(c, most), pad(t, most), strict=True))
            place = inner(c) + copies(t)
            assert blocked(tuple(pairs)) == place == raked(tuple((y, x) for x, y in pairs))


def pad(coord: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (*coord, *(0,) * (rank - len(coord)))


@law
@given(st.integers(1, 4), st.sampled_from((1, 2, 4)))
def test_products_by_mode(first: int, second: int) -> None:
    block = CuteLayout((2, 3))
    result = cute.logical_product(block, (first, second))
    modes = cute.modes_of(block)
    assert cute.modes_of(result) == tuple(map(cute.logical_product, modes, (first, second)))
    tile, copies = cute.modes_of(cute.zipped_product(block, (first, second)))
    assert tile == block and cute.size(copies) == first * second
    assert cute.logical_product(block, (None, 2)).shape == (2, (3, 2))


# ---------------------------------------------------------------- swizzle
@pytest.mark.parametrize("bits, base, shift", [(b, m, s) for b in range(4) for m in range(4) for s in range(-4, 5)])
def test_swizzle_by_bits(bits: int, base: int, shift: int) -> None:
    if abs(shift) < bits:
        with pytest.raises(LayoutError, match="overlap"):
            cute.Swizzle(bits, base, shift)
        return
    swizzle = cute.Swizzle(bits, base, shift)
    for x in range(swizzle.size):
        source = [x >> (base + max(0, shift) + k) & 1 for k in range(bits)]
        flips = sum(bit << (base + max(0, -shift) + k) for k, bit in enumerate(source))
        assert swizzle(x) == x ^ flips
    period = np.arange(swizzle.size)
    assert np.array_equal(np.sort(swizzle(period)), period)
    assert np.array_equal(swizzle(period + swizzle.size), swizzle(period) + swizzle.size)
    assert cute.from_tile(cute.to_tile(swizzle)) == swizzle or not bits
    assert cute.parse(str(swizzle)) == swizzle


@law
@given(st.integers(1, 3), st.integers(0, 6), st.sampled_from((4, 8, 16, 32, 64)))
def test_a_swizzle_of_bytes_moves_whole_elements_or_has_none(bits: int, base: int, elem_bits: int) -> None:
    in_bytes = cute.Swizzle(bits, base, 3, "bytes")
    assert str(in_bytes) == f"Sw<{bits},{base},3> bytes" and cute.parse(str(in_bytes)) == in_bytes
    if 8 << base < elem_bits:
        with pytest.raises(LayoutError, match="less than one"):
            in_bytes.in_elements(elem_bits)
        return
    elements = in_bytes.in_elements(elem_bits)
    assert elements.unit == "elements" and elements.in_bytes(elem_bits) == in_bytes
    for x in range(0, in_bytes.size, 7):
        bit = 8 * x
        moved = elements(bit // elem_bits) * elem_bits + bit % elem_bits
        assert moved == 8 * in_bytes(x)


@pytest.mark.parametrize("args", [(-1, 0, 3), (1, -1, 3), (1, 0, 3, "bits"), (20, 20, 30), (1.0, 0, 3)])
def test_swizzles_that_cannot_be(args: Any) -> None:
    with pytest.raises(LayoutError):
        cute.Swizzle(*args)


@law
@given(layouts(), layouts(), st.integers(0, 9))
def test_a_composed_layout_swizzles_last(layout: CuteLayout, inner: CuteLayout, offset: int) -> None:
    swizzle = cute.Swizzle(2, 1, 3)
    composed = cute.ComposedLayout(swizzle, offset, layout)
    assert cute.composition(swizzle, layout) == cute.ComposedLayout(swizzle, 0, layout)
    assert [composed(i) for i in range(cute.size(layout))] == [swizzle(offset + y) for y in image(layout)]
    try:
        deeper = cute.composition(composed, inner)
    except LayoutError:
        assume(False)
    assert [deeper(i) for i in range(cute.size(inner))] == [composed(j) for j in image(inner)]


# ---------------------------------------------------------------- vectors
@law
@given(layouts(), st.data())
def test_a_common_vector_is_consecutive_in_both(a: CuteLayout, data: Any) -> None:
    extents = data.draw(st.permutations([n for n, _ in flat_modes(cute.coalesce(a))]))
    b = data.draw(st.sampled_from([a, CuteLayout(a.shape), CuteLayout(tuple(extents))]))
    common = cute.max_common_layout(a, b)
    count = cute.size(common)
    assert [a(j) for j in image(common)] == [b(j) for j in image(common)] == list(range(count))
    assert count == cute.max_common_vector(a, b)
    inverse = cute.right_inverse(b)
    agree = [a(inverse(i)) == i for i in range(cute.size(inverse))]
    run = agree.index(False) if False in agree else len(agree)
    assert count <= run < 2 * count, "nothing is left on the table but a part of a row"
    bits = cute.common_vector_bits(a, b, 16)
    assert bits == 16 or (bits <= 128 and (count * 16) % bits == 0)


def test_layouts_of_different_sizes_have_no_copy_in_common() -> None:
    with pytest.raises(LayoutError, match="elements"):
        cute.max_common_vector(CuteLayout(4), CuteLayout(8))


@law
@given(layouts())
def test_places_fall_into_aligned_groups(layout: CuteLayout) -> None:
    n, places = cute.max_alignment(layout), set(image(layout))
    assert all(y // n * n + k in places for y in places for k in range(n))


# ---------------------------------------------------------------- TileLayout and back
@law
@given(layouts(), st.integers(0, 9))
def test_tile_layouts_agree_on_coordinates(layout: CuteLayout, offset: int) -> None:
    sizes = tuple(map(cute.size, cute.modes_of(layout)))
    tile = cute.to_tile(layout)
    composed = cute.ComposedLayout(cute.Swizzle(2, 1, 3), offset, layout)
    over = cute.to_tile(composed)
    back = cute.from_tile(tile, sizes)
    for coord in coordinates(sizes):
        assert tile.place(coord, sizes)["m"] == layout(coord) == back(coord)
        assert over.place(coord, sizes)["m"] == composed(coord) == cute.from_tile(over, sizes)(coord)


@law
@given(tiles(axes=("m",)))
def test_what_cute_cannot_say_is_refused(tile: Any) -> None:
    extents = tuple(i.extent for i in tile.shard)
    if tile.replica or tile.offset:
        with pytest.raises(LayoutError, match="cannot say"):
            cute.from_tile(tile, extents)
        return
    layout = cute.from_tile(tile)
    assert isinstance(layout, CuteLayout) and cute.to_tile(layout) == tile
    assert all(tile.place(c, extents)["m"] == layout(*c) for c in coordinates(extents))


@pytest.mark.parametrize(
    "text", ["S[(8,2):(4@laneid,1)]", "S[8:1] + R[2:4]", "S[8:1] + 3", "S[8:1] + 3@warpid", "S[(8,6):(8,1)]"]
)
def test_refusals(text: str) -> None:
    with pytest.raises(LayoutError):
        cute.from_tile(parse(text), shape=(5,))
    if text != "S[(8,6):(8,1)]":
        with pytest.raises(LayoutError):
            cute.from_tile(parse(text))


def test_bytes_are_not_elements() -> None:
    with pytest.raises(LayoutError, match="counts bytes"):
        cute.to_tile(cute.Swizzle(3, 4, 3, "bytes"))
    assert cute.to_tile(cute.Swizzle(3, 4, 3, "bytes").in_elements(16)) == parse("Swizzle(3, 3, 3)")


# ---------------------------------------------------------------- no operation without a law
def test_every_name_is_tried_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in cute.__all__ if name not in text and name != "Tiler"] == []
