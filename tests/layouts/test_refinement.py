"""group_many, apply_to_shape and broadcast against their definitions, on drawn layouts."""

from __future__ import annotations

from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layouts.strategies import COMPOSED, grouped, law, tiles
from tilegen.errors import LayoutError
from tilegen.index import Var
from tilegen.layouts import (
    Layout,
    SwizzleLayout,
    TileLayout,
    apply_to_shape,
    broadcast,
    group,
    group_many,
    is_injective,
    parse,
    row_major,
    size,
    tile_of,
)


def places(layout: Layout, shape: tuple[int, ...]) -> dict[str, Any]:
    return {axis: np.broadcast_to(x, shape) for axis, x in layout.place(tuple(np.indices(shape)), shape).items()}


def same(a: Layout, b: Layout, shape: tuple[int, ...]) -> bool:
    """Whether two layouts put each element of a buffer at one place."""
    one, other = places(a, shape), places(b, shape)
    return all((one.get(x, 0) == other.get(x, 0) + np.zeros(shape, int)).all() for x in {*one, *other})


@st.composite
def several(draw: Any) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Extents, and shapes that merge neighbours of them, with units put in."""
    extents = draw(st.lists(st.sampled_from((1, 2, 3, 4)), min_size=1, max_size=5))
    shapes = []
    for _ in range(draw(st.integers(1, 3))):
        shape: list[int] = []
        for n in extents:
            if shape and draw(st.booleans()):
                shape[-1] *= n
            else:
                shape += [1] * draw(st.integers(0, 1)) + [n]
        shapes.append(tuple(shape + [1] * draw(st.integers(0, 1))))
    return tuple(extents), shapes


@law
@given(several(), st.data())
def test_group_many_refines_all_shapes(case: tuple[tuple[int, ...], list[tuple[int, ...]]], data: Any) -> None:
    """The map is the same; each shape's dimensions are its groups of iters; no cut is there that no shape asks for."""
    extents, shapes = case
    layout = row_major(data.draw(st.sampled_from([(prod(extents),), extents, *shapes])))
    found, separators = group_many(layout, shapes)
    shard = tile_of(found).shard
    assert len(separators) == len(shapes)
    cuts = set()
    for shape, ends in zip(shapes, separators, strict=True):
        assert same(found, layout, shape) and ends[0] == 0 and ends[-1] == len(shard) and len(ends) == len(shape) + 1
        assert all(a < b for a, b in pairwise(ends))
        assert tuple(prod(i.extent for i in shard[a:b]) for a, b in pairwise(ends)) == shape
        cuts |= {prod(shape[d:]) for d in range(len(shape) + 1)}
    own = {prod(i.extent for i in tile_of(layout).shard[d:]) for d in range(len(tile_of(layout).shard) + 1)}
    reached = {prod(i.extent for i in shard[d:]) for d in range(len(shard) + 1)}
    assert cuts <= reached <= cuts | own
    most = max(sum(n == 1 for n in shape) for shape in shapes)
    assert sum(i.extent == 1 for i in shard) <= sum(n == 1 for shape in shapes for n in shape)
    assert sum(i.extent == 1 for i in shard) >= most


@law
@given(grouped())
def test_group_many_of_one_shape_is_group(case: tuple[Layout, tuple[int, ...]]) -> None:
    layout, shape = case
    one, ends = group(layout, shape)
    assert group_many(layout, [shape]) == (one, (ends,))
    assert group_many(layout, [shape, shape]) == (one, (ends, ends))


def test_group_many_of_shapes_that_cross() -> None:
    for shapes in ([(4, 6), (6, 4)], [(4, 6), (4, 5)], [(2, 3), (2, 3, 2)]):
        with pytest.raises(LayoutError, match="no common refinement"):
            group_many(row_major((24,)), shapes)
    with pytest.raises(LayoutError, match="no shape"):
        group_many(row_major((24,)), [])
    with pytest.raises(LayoutError):
        group_many(parse("S[(3, 8):(8, 1)]"), [(2, 12), (4, 6)])
    m = Var("M", 1 << 20)
    found, separators = group_many(row_major((m, 64)), [(m, 64), (m, 8, 8)])
    assert (len(tile_of(found).shard), separators) == (3, ((0, 1, 3), (0, 1, 2, 3)))


@law
@given(grouped())
def test_digits_times_strides_are_places(case: tuple[Layout, tuple[int, ...]]) -> None:
    layout, shape = case
    digits = apply_to_shape(layout, tuple(np.indices(shape)), shape)
    assert tuple(i for i, _ in digits) == tile_of(group(layout, shape)[0]).shard
    assert all(((x >= 0) & (x < i.extent)).all() for i, x in digits)
    check_places(layout, digits, shape)


def check_places(layout: Layout, digits: Any, shape: tuple[int, ...]) -> None:
    tile = tile_of(layout)
    assert isinstance(tile, TileLayout)
    wanted, offset = places(tile, shape), dict(tile.offset)
    for axis in {i.axis for i, _ in digits} | set(wanted):
        own = sum((x * i.stride for i, x in digits if i.axis == axis), np.zeros(shape, int))
        assert (own + offset.get(axis, 0) == wanted.get(axis, 0)).all()


@law
@given(tiles())
def test_digits_of_a_shape_that_crosses_iters(layout: TileLayout) -> None:
    """The flat index, cut by the layout's own extents."""
    whole = int(size(layout))  # type: ignore[arg-type]
    for n in (2, 3, 5):
        if whole % n == 0:
            shape = (whole // n, n)
            check_places(layout, apply_to_shape(layout, tuple(np.indices(shape)), shape), shape)


def test_digits_that_there_are_not() -> None:
    with pytest.raises(LayoutError, match="1 coordinates for 2"):
        apply_to_shape(row_major((4, 4)), (0,), (4, 4))
    with pytest.raises(LayoutError):
        apply_to_shape(row_major((4, 4)), (0, 0), (4, 5))


@law
@given(st.one_of(tiles(), COMPOSED), st.sampled_from((1, 2, 5)), st.data())
def test_a_broadcast_moves_nothing(layout: Layout, num: int, data: Any) -> None:
    extents = tuple(int(i.extent) for i in tile_of(layout).shard)  # type: ignore[arg-type]
    position = data.draw(st.integers(-len(extents) - 1, len(extents)))
    wide = broadcast(layout, num, position)
    at = position % (len(extents) + 1)
    shape = (*extents[:at], num, *extents[at:])
    assert tuple(i.extent for i in tile_of(wide).shard) == shape and size(wide) == num * prod(extents)
    before, after = places(layout, extents), places(wide, shape)
    for axis in {*before, *after}:
        one = np.expand_dims(np.broadcast_to(before.get(axis, 0), extents), at)
        assert (after.get(axis, 0) == np.broadcast_to(one, shape)).all()
    assert num == 1 or not is_injective(wide)


def test_broadcasts_that_there_are_not() -> None:
    for layout, position in product((row_major((4, 4)), parse("Swizzle(3, 3, 3) o S[4096:1]")), (9, -9, True, 1.0)):
        with pytest.raises(LayoutError, match="is not one of the"):
            broadcast(layout, 2, position)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match="has no iters"):
        broadcast(SwizzleLayout(3, 3, 3), 2)
    with pytest.raises(LayoutError):
        broadcast(row_major((4,)), 2, axis="nowhere")
