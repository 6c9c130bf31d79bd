"""More cases of the recorded kinds, drawn from a seed and judged by arithmetic on whole arrays."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest

from tilegen.errors import LayoutError
from tilegen.layouts import (
    AXES,
    Iter,
    Layout,
    SwizzleLayout,
    TileLayout,
    canonicalize,
    direct_sum,
    group,
    is_direct_sum_left,
    is_direct_sum_right,
    is_tile_inner,
    is_tile_outer,
    parse,
    slice_layout,
    span,
    tile,
    tile_of,
    tile_to,
)
from tilegen.layouts.core.iters import row_major_strides

SEED = 20260
CASES = 250
EXTENTS = (1, 1, 2, 3, 4, 5, 8)


def draw_tile(random: Random, axes: tuple[str, ...]) -> TileLayout:
    """Dense, padded or overlapping strides over one to three iters, with a replica or an offset now and then."""
    extents = [random.choice(EXTENTS) for _ in range(random.randint(1, 3))]
    strides = row_major_strides(extents)
    if random.random() < 0.5:
        strides = [random.choice((0, 1, 2, 3, 6, 8, 12, 32)) for _ in extents]
    elif random.random() < 0.5:
        random.shuffle(strides)
    shard = [Iter(n, s, random.choice(axes)) for n, s in zip(extents, strides, strict=True)]
    replica = [Iter(random.choice((2, 3)), random.choice((1, 4, 64)), random.choice(axes))] * (random.random() < 0.2)
    return TileLayout.from_iters(shard, replica, {random.choice(axes): random.choice((0, 0, 0, 5))})


def draw_shape(random: Random, layout: TileLayout, rank: int) -> tuple[int, ...]:
    """A shape of the same size: neighbours multiplied, units put in; one in five may cross the iters."""
    factors = [p for i in layout.shard for p in _primes(i.extent)]
    if random.random() < 0.2:
        random.shuffle(factors)
    cuts = sorted(random.randint(0, len(factors)) for _ in range(rank - 1))
    return tuple(prod(factors[a:b]) for a, b in zip([0, *cuts], [*cuts, len(factors)], strict=True))


def _primes(n: Any) -> list[int]:
    return [] if n == 1 else next([p, *_primes(n // p)] for p in range(2, n + 1) if n % p == 0)


def arrays(layout: Layout) -> np.ndarray[Any, Any]:
    """Places of every element as [axis, replica, element], the definition on arrays."""
    layout_tile = tile_of(layout)
    strides = row_major_strides([i.extent for i in layout_tile.shard])
    flat = np.arange(prod(i.extent for i in layout_tile.shard))  # type: ignore[misc]
    times = [i.extent for i in layout_tile.replica]
    copies = np.indices(times).reshape(len(times), prod(times))  # type: ignore[misc, arg-type]
    result = np.zeros((len(AXES), copies.shape[1], len(flat)), dtype=np.int64)
    for row, axis in enumerate(AXES):
        for i, step in zip(layout_tile.shard, strides, strict=True):
            result[row] += (flat // step % i.extent * i.stride)[None] * (i.axis == axis)
        for i, steps in zip(layout_tile.replica, copies, strict=True):
            result[row] += (steps * i.stride)[:, None] * (i.axis == axis)
        result[row] += dict(layout_tile.offset).get(axis, 0)
    return result


def as_sets(places: np.ndarray[Any, Any]) -> list[list[tuple[int, ...]]]:
    return [sorted(map(tuple, places[:, :, x].T.tolist())) for x in range(places.shape[2])]


def interleaved(a: np.ndarray[Any, Any], a_shape: Any, b: np.ndarray[Any, Any], b_shape: Any) -> np.ndarray[Any, Any]:
    """a(l) + b(r) for all replicas, at element l_d * |b_d| + r_d."""
    rank = len(a_shape)
    whole = a[:, :, None, :, None] + b[:, None, :, None, :]
    whole = whole.reshape(len(AXES), -1, *a_shape, *b_shape)
    order = [axis for d in range(rank) for axis in (2 + d, 2 + rank + d)]
    return whole.transpose(0, 1, *order).reshape(len(AXES), whole.shape[1], -1)


@pytest.mark.parametrize("case", range(CASES))
def test_tiles_and_sums(case: int) -> None:
    random = Random(SEED + case)
    axes = random.choice((("m",), ("m", "laneid"), ("m", "warpid", "laneid"), ("TLane", "TCol")))
    outer, inner, rank = draw_tile(random, axes), draw_tile(random, axes), random.randint(1, 2)
    outer_shape, inner_shape = draw_shape(random, outer, rank), draw_shape(random, inner, rank)
    try:
        whole, total = tile(outer, outer_shape, inner, inner_shape), direct_sum(outer, outer_shape, inner, inner_shape)
    except LayoutError:
        assert any(not groups(part, shape) for part, shape in ((outer, outer_shape), (inner, inner_shape)))
        return
    spans = np.array([span(inner, axis) for axis in AXES])[:, None, None]
    a, b = arrays(outer), arrays(inner)
    assert as_sets(arrays(whole)) == as_sets(interleaved(a * spans, outer_shape, b, inner_shape))
    assert as_sets(arrays(total)) == as_sets(interleaved(a, outer_shape, b, inner_shape))
    shape = [m * n for m, n in zip(outer_shape, inner_shape, strict=True)]
    mixed = [n for pair in zip(outer_shape, inner_shape, strict=True) for n in pair]
    found = is_tile_inner(inner, whole, shape, inner_shape), is_tile_outer(outer, whole, shape, outer_shape)
    assert found[0] and tile(found[0], outer_shape, inner, inner_shape) == whole
    assert found[1] and tile(outer, outer_shape, found[1], inner_shape) == whole
    parts = is_direct_sum_right(inner, total, mixed, inner_shape), is_direct_sum_left(outer, total, mixed, outer_shape)
    assert parts[0] and direct_sum(parts[0], outer_shape, inner, inner_shape) == total
    assert parts[1] and direct_sum(outer, outer_shape, parts[1], inner_shape) == total


def groups(layout: TileLayout, shape: tuple[int, ...]) -> bool:
    try:
        group(canonicalize(layout), shape)
    except LayoutError:
        return False
    return True


@pytest.mark.parametrize("case", range(CASES))
def test_slices_groups_and_shortest_forms(case: int) -> None:
    random = Random(2 * SEED + case)
    layout = draw_tile(random, ("m", "laneid", "warpid"))
    shape = draw_shape(random, layout, random.randint(1, 3))
    assert as_sets(arrays(canonicalize(layout))) == as_sets(arrays(layout))
    begins = [random.randrange(n) for n in shape]
    region = [(b, random.randint(b + 1, n)) for b, n in zip(begins, shape, strict=True)]
    try:
        part = slice_layout(layout, shape, region)
    except LayoutError:
        return
    whole = arrays(layout).reshape(len(AXES), -1, *shape)
    box = whole[(slice(None), slice(None), *(slice(b, e) for b, e in region))]
    assert as_sets(arrays(part)) == as_sets(box.reshape(len(AXES), whole.shape[1], -1))


@pytest.mark.parametrize("case", range(40))
def test_swizzled_atoms_tiled(case: int) -> None:
    random = Random(3 * SEED + case)
    bits = random.randint(0, 3)
    swizzle = SwizzleLayout(random.randint(0, 4), bits, random.randint(bits, 3), random.random() < 0.7)
    period = 1 << (swizzle.per_element + swizzle.swizzle_len + swizzle.atom_len)
    rows = 1 << random.randint(0, period.bit_length() - 1)
    counts = (random.randint(1, 4), random.randint(1, 4))
    shape = (rows, period // rows)
    whole = tile_to(swizzle, [a * b for a, b in zip(shape, counts, strict=True)], shape)
    outer = parse(f"S[({counts[0]}, {counts[1]})]")
    assert is_tile_inner(swizzle, whole, [a * b for a, b in zip(shape, counts, strict=True)], shape)
    for x in range(0, period * counts[0] * counts[1], 7):
        r, c = divmod(x, shape[1] * counts[1])
        block = outer.apply(r // shape[0], c // shape[1])[0]["m"]
        inside = r % shape[0] * shape[1] + c % shape[1]
        assert whole.apply(x) == ({"m": block * period + swizzle.apply(inside)[0]["m"]},)
