"""Laws of the register layout that a copy's partition is: one owner each, vectors whole, most threads at work."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilegen
from tilegen.index import bound
from tilegen.layouts import TileLayout, counted_shape, extent_of, parse
from tilegen.ops.partition_layout import MemoryTile, box_layout, lane_axis, partition_layout, vector_elems

extents = st.integers(1, 48) | st.sampled_from([64, 96, 128, 192, 1000, 1024])
shapes = st.lists(extents, min_size=1, max_size=3).map(tuple).filter(lambda s: prod(s) <= 1 << 16)
threads = st.sampled_from([1, 32, 96, 128, 256, 1024])
sizes = st.sampled_from([1, 2, 4, 8, 16])


def places(layout: TileLayout, shape: tuple[int, ...], axis: str) -> tuple[np.ndarray, np.ndarray]:
    """(thread, register) of each element, row-major."""
    place = layout.place(np.unravel_index(np.arange(prod(shape)), shape), shape)
    return tuple(np.broadcast_to(np.asarray(place.get(a, 0)), prod(shape)) for a in (axis or "none", "m"))


@settings(deadline=None)
@given(shapes, sizes, threads, st.data())
def test_each_element_has_an_owner_and_a_register_of_its_own(shape, size, count, data) -> None:
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    axis = "tx" if count > 1 else ""
    layout = partition_layout(MemoryTile(shape, size, order), count, axis)
    thread, register = places(layout, shape, axis)
    assert len(set(zip(thread.tolist(), register.tolist(), strict=True))) == prod(shape)
    assert thread.max() < count
    owners = int(thread.max()) + 1
    assert prod(shape) % owners == 0 and register.max() + 1 == prod(shape) // owners  # all that own, own as many
    assert parse(str(layout)) == layout

    # Registers in order are vectors that lie together in memory: the widest power of two that fills the fastest
    # dimension (and those that follow, once it is whole), up to 16 bytes.
    memory = np.empty(prod(shape), int)
    dims = np.unravel_index(np.arange(prod(shape)), shape)
    memory[:] = np.ravel_multi_index([dims[d] for d in order], [shape[d] for d in order])
    width, most = 1, max(1, 16 // size)
    for d in reversed(order):
        taken = int(np.gcd(shape[d], most // width))
        width *= taken
        if taken < shape[d]:
            break
    by_thread = np.empty((owners, prod(shape) // owners), int)
    by_thread[thread, register] = memory
    vectors = by_thread.reshape(owners, -1, width)
    assert (vectors == vectors[:, :, :1] + np.arange(width)).all() and not (vectors[:, :, 0] % width).any()


@settings(deadline=None)
@given(shapes, sizes, threads, st.data())
def test_uneven_shares_are_fewer_vectors_for_each(shape, size, count, data) -> None:
    """Each element has an owner and a register of its own, vectors are whole, and no thread has more than evenly."""
    order, axis = tuple(data.draw(st.permutations(range(len(shape))))), "tx" if count > 1 else ""
    even = partition_layout(MemoryTile(shape, size, order), count, axis)
    uneven = partition_layout(MemoryTile(shape, size, order), count, axis, sharing="unevenly")
    if uneven == even:
        return
    assert bound(extent_of(uneven, "m")) < bound(extent_of(even, "m"))
    counted = counted_shape(uneven, shape)
    place = uneven.place(np.unravel_index(np.arange(prod(shape)), shape), counted)
    thread, register = (np.broadcast_to(np.asarray(place.get(a, 0)), prod(shape)) for a in ("tx", "m"))
    assert len(set(zip(thread.tolist(), register.tolist(), strict=True))) == prod(shape) and thread.max() < count
    dims = np.unravel_index(np.arange(prod(shape)), shape)
    memory = np.ravel_multi_index([dims[d] for d in order], [shape[d] for d in order])
    width = vector_elems(MemoryTile(shape, size, order), max(1, 16 // size))
    at = np.lexsort((register, thread))
    vectors = memory[at].reshape(-1, width)
    assert (vectors == vectors[:, :1] + np.arange(width)).all() and not (vectors[:, 0] % width).any()
    assert parse(str(uneven)) == uneven and counted_shape(parse(str(uneven)), shape) == counted


@settings(deadline=None)
@given(shapes, sizes, threads)
def test_as_many_threads_as_divide_or_whole_sectors(shape, size, count) -> None:
    """No other way to divide the tile gives more threads work, unless their accesses would cut sectors."""
    axis = "tx" if count > 1 else ""
    thread, _ = places(partition_layout(MemoryTile(shape, size), count, axis, 1), shape, axis)
    ways = product(*([n for n in range(1, min(extent, count) + 1) if extent % n == 0] for extent in shape))
    most = max(n for way in ways if (n := prod(way)) <= count)
    used = int(thread.max()) + 1
    runs = np.flatnonzero(places(partition_layout(MemoryTile(shape, size), count, axis, 1), shape, axis)[1] == 0)
    first = np.split(runs, np.flatnonzero(np.diff(runs) != 1) + 1)[0]
    assert used == most or len(first) * size % 32 == 0 or len(first) == prod(shape)


@pytest.mark.parametrize(
    ("shape", "size", "count", "text"),
    [
        ((1, 8192), 2, 512, "S[(2, 512, 8):(8, 1@tx, 1)]"),
        ((64, 64), 4, 256, "S[(4, 16, 16, 4):(4, 16@tx, 1@tx, 1)]"),
        ((32, 20), 4, 32, "S[(8, 4, 5, 4):(4, 5@tx, 1@tx, 1)]"),  # 4 whole rows, 320 bytes
        ((32, 48), 4, 32, "S[(4, 8, 3, 4, 4):(12, 4@tx, 4, 1@tx, 1)]"),
        ((7,), 4, 32, "S[7:1@tx]"),
        ((1, 1), 4, 32, "S[1:1@tx]"),
    ],
)
def test_known_layouts(shape, size, count, text) -> None:
    assert str(partition_layout(MemoryTile(shape, size), count, "tx")) == text


SPEC = """kernel: k
threads: 96
buffers:
  X: {{scope: global, dtype: {dtype}, shape: [{blocks}, {rows}, {columns}]}}
  Y: {{scope: global, dtype: {dtype}, shape: [{blocks}, {rows}, {columns}]}}
  r: {{scope: register, dtype: {dtype}, shape: [{rows}, {columns}], layout: "{layout}"}}
ops:
  - copy: {{scope: {scope}, src: "X[{at}]", dst: r}}
  - copy: {{scope: {scope}, src: r, dst: "Y[{at}]"}}
"""
CASES = [
    ("cta", "float32", 64, 12), ("cta", "float16", 3, 40), ("warp", "float64", 5, 6), ("warp", "uint8", 12, 48),
    ("thread", "float32", 2, 8), ("warp", "float32", 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("scope", "dtype", "rows", "columns"), CASES)
def test_ops_invert_it_and_move_vectors_of_its_width(scope, dtype, rows, columns) -> None:
    """A kernel that copies in and out through it is proved, and its accesses are the layout's vectors."""
    size = np.dtype(dtype).itemsize
    axis, count = lane_axis(scope, 96)
    layout = partition_layout(MemoryTile((rows, columns), size), count, axis)
    blocks, at = {"cta": (1, "0"), "warp": (3, "warpid"), "thread": (96, "tx")}[scope]
    built = tilegen.build(SPEC.format(**locals()))
    widths = {c.picked["elems"] for o in built.plan.operations for c in o.choices if c.question == "vector_width"}
    own = [i.extent for i in layout.shard if i.axis == "m" and i.stride == 1]
    assert widths == {min(own[-1], 16 // size) if own else 1}


# ---------------------------------------------------------------- boxes, wide along two dimensions
@settings(deadline=None)
@given(st.sampled_from([32, 64, 128, 256]), st.data())
def test_threads_own_whole_boxes(count, data) -> None:
    box, lanes = [data.draw(st.sampled_from([1, 2, 3, 4, 8])) for _ in range(2)], [0, 0]
    lanes[0] = data.draw(st.sampled_from([1, 2, 4, 8]))
    lanes[1] = data.draw(st.sampled_from([1, 2, 4]))
    shape = tuple(n * k * data.draw(st.sampled_from([1, 2, 3])) for n, k in zip(box, lanes, strict=True))
    order = tuple(data.draw(st.permutations(range(2))))
    layout = box_layout(MemoryTile(shape, 2, order), count, "tx", dict(enumerate(box)), dict(enumerate(lanes)))
    thread, register = places(layout, shape, "tx")
    assert len(set(zip(thread.tolist(), register.tolist(), strict=True))) == prod(shape) and thread.max() < count
    at = np.stack(np.unravel_index(np.arange(prod(shape)), shape), 1)
    mine = register < prod(box)  # the first box of each thread
    corners = at[mine] // box
    for t in range(thread.max() + 1):
        assert len(np.unique(corners[thread[mine] == t], axis=0)) == 1
    own = corners[(thread[mine] < prod(lanes)) & (register[mine] == 0)]  # threads of a warp that lie side by side
    assert sorted(map(tuple, own)) == [(i, j) for i in range(lanes[0]) for j in range(lanes[1])]


@pytest.mark.parametrize("box,lanes,count", [({0: 3}, {1: 2}, 32), ({0: 2}, {1: 8}, 4), ({}, {}, 0)])
def test_boxes_that_do_not_divide_a_tile_are_refused(box, lanes, count) -> None:
    with pytest.raises(ValueError):
        box_layout(MemoryTile((8, 16), 4), count, "tx", box, lanes)
