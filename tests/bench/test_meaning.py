"""What a spec means to whole arrays, and its merged and tiled forms against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilegen
from tilegen.bench.meaning import Meaning, derive_meaning, is_copy, merged_dims
from tilegen.bench.tiling import Tiling, cut_permute, is_wide, tile_shapes
from tilegen.gpu.call.arrays import dense_strides
from tilegen.index import evaluate
from tilegen.ops import OPS, WHOLE_OPS, WholeOp
from tilegen.ops.permute import op as permute
from tilegen.ops.permute.tiles import next_power
from tilegen.spec.data import Call, Region, Spec, WholeCall

TEXT = """kernel: k
arch: sm_90
threads: 32
params: {M: 8, N: {default: 6, max: 64}}
grid: {bx: 1}
buffers:
  X: {scope: global, dtype: float16, shape: [M, N]}
  Y: {scope: global, dtype: float16, shape: [N, M]}
  Z: {scope: global, dtype: float16, shape: [M, N]}
  Pad: {scope: global, dtype: float16, shape: [8, 6], layout: "S[(8,6):(8,1)]"}
  Wide: {scope: global, dtype: float32, shape: [8, 6]}
  s: {scope: shared, dtype: float16, shape: [8, 6]}
ops: []
"""


COMPUTES = replace(permute.OP, name="gemm", axes=lambda call: None)  # an op on whole arrays that rearranges nothing


def copy_of(src: str, dst: str, op: str = "copy", cut: bool = False) -> Spec:
    spec = tilegen.load(TEXT)

    def whole(name: str) -> Region:
        shape = spec.buffer(name).shape
        lengths = (4, *shape[1:]) if cut else tuple(int(evaluate(n, {"M": 8, "N": 6})) for n in shape)
        return Region(spec.buffer(name), (0,) * len(shape), lengths, (True,) * len(shape), name)  # type: ignore[arg-type]

    return replace(
        spec, ops=(Call(OPS[op], "cta", SimpleNamespace(accumulate=None), {"src": whole(src), "dst": whole(dst)}),)
    )


def permute_of(src: str, dst: str, axes: list[int], op: WholeOp = permute.OP) -> Spec:
    spec = tilegen.load(TEXT)
    arrays = {"src": spec.buffer(src), "dst": spec.buffer(dst)}
    return replace(spec, ops=(WholeCall(op, SimpleNamespace(axes=axes), arrays),))


def test_a_permute_of_whole_arrays() -> None:
    spec = permute_of("X", "Y", [1, 0])
    found = derive_meaning(spec, {"M": 8, "N": 6})
    assert found == Meaning("X", "Y", (8, 6), (1, 0), 2)
    assert found.target_shape == (6, 8) and found.array_bytes == 96 and not is_copy(found)
    assert str(found) == "permute (1,0) of 8 x 6, 2 bytes each"
    (whole,) = spec.ops
    expanded = replace(copy_of("X", "s"), whole=whole)  # as it is once tiles carry it out
    assert derive_meaning(expanded, {"M": 8, "N": 6}) == found


def test_a_copy_of_whole_arrays() -> None:
    found = derive_meaning(copy_of("X", "Z"), {"M": 8, "N": 6})
    assert found == Meaning("X", "Z", (8, 6), (0, 1), 2) and is_copy(found)
    assert str(found) == "copy of 48 elements of 2 bytes"
    assert derive_meaning(permute_of("X", "Z", [0, 1]), {"M": 8, "N": 1}) == Meaning("X", "Z", (8, 1), (0, 1), 2)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (copy_of("X", "Z", op="fill"), "not one copy or one permute"),
        (permute_of("X", "Y", [1, 0], op=COMPUTES), "not one copy or one permute"),
        (replace(copy_of("X", "Z"), ops=copy_of("X", "Z").ops * 2), "not one copy or one permute"),
        (copy_of("X", "Z", cut=True), "X is not a whole array"),
        (copy_of("s", "Z"), "s is not a global array"),
        (copy_of("Pad", "Z"), "Pad is not dense"),
        (permute_of("Pad", "Z", [0, 1]), "Pad is not dense"),
        (copy_of("X", "Wide"), "changes its array in place, or its element type"),
        (copy_of("X", "X"), "changes its array in place, or its element type"),
    ],
)
def test_what_has_no_meaning_says_why(spec: Spec, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WHOLE_OPS, COMPUTES.name, COMPUTES)
    found = derive_meaning(spec, {"M": 8, "N": 6})
    assert isinstance(found, str) and why in found


# ---------------------------------------------------------------- merging
shapes = st.lists(st.sampled_from([1, 1, 2, 3, 4, 7]), min_size=1, max_size=6)
permutes = shapes.flatmap(lambda shape: st.tuples(st.just(tuple(shape)), st.permutations(range(len(shape)))))


def merge(shape: Sequence[int], axes: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes of the merged dimensions, and their order in the target."""
    dims = merged_dims(shape, axes)
    assert all(d.strides[0] == prod(other.extent for other in dims[k + 1 :]) for k, d in enumerate(dims))
    return tuple(d.extent for d in dims), tuple(sorted(range(len(dims)), key=lambda k: -dims[k].strides[1]))


@given(permutes)
def test_merged_dimensions_move_the_same_bytes(permute: tuple[tuple[int, ...], list[int]]) -> None:
    shape, axes = permute
    x = np.arange(prod(shape))
    sizes, order = merge(shape, axes)
    assert prod(sizes) == prod(shape) and 1 not in sizes
    merged = x.reshape(sizes).transpose(order) if sizes else x
    assert np.array_equal(merged.reshape(-1), x.reshape(shape).transpose(axes).reshape(-1))


@given(permutes)
def test_merging_is_done_in_one_go(permute: tuple[tuple[int, ...], list[int]]) -> None:
    sizes, order = merge(*permute)
    assert merge(sizes, order) == (sizes, order)
    assert all(b != a + 1 for a, b in pairwise(order))


def test_every_permute_of_four_dimensions_has_as_few_as_it_can() -> None:
    assert merge((2, 3, 4, 5), (0, 1, 2, 3)) == ((120,), (0,))
    assert merge((2, 3, 4, 5), (0, 2, 1, 3)) == ((2, 3, 4, 5), (0, 2, 1, 3))
    assert merge((2, 3, 4, 5), (3, 0, 1, 2)) == ((24, 5), (1, 0))


# ---------------------------------------------------------------- tiles
@settings(deadline=None)
@given(permutes, st.sampled_from([1, 2, 4, 8, 16]))
def test_tiles_of_all_planes_cover_the_arrays(permute: tuple[tuple[int, ...], list[int]], size: int) -> None:
    """The offsets of every tile's every element, against NumPy's transpose."""
    shape, axes = permute
    meaning = Meaning("X", "Y", shape, tuple(axes), size)
    tiling = cut_permute(meaning)
    if tiling is None:
        assert is_copy(meaning)
        return
    pair = 2 if size == 16 else 1  # 16 bytes are two elements
    x = np.arange(prod(shape) * pair)
    want = x.reshape(*shape, pair).transpose(*axes, len(shape)).reshape(-1)
    dims = (tiling.rows, tiling.cols, *tiling.outer)
    at = np.indices([d.extent for d in dims]).reshape(len(dims), -1)
    source, target = (np.array([d.strides[side] for d in dims]) @ at for side in (0, 1))
    assert len(np.unique(target)) == x.size
    got = np.full(x.size, -1)
    got[target] = x[source]
    assert np.array_equal(got, want)


@given(permutes)
def test_a_tile_runs_along_the_rows_of_both_sides(permute: tuple[tuple[int, ...], list[int]]) -> None:
    meaning = Meaning("X", "Y", permute[0], tuple(permute[1]), 4)
    tiling = cut_permute(meaning)
    if tiling is None:
        return
    assert tiling.cols.strides[0] == 1 and 1 in (tiling.cols.strides[1], tiling.rows.strides[1])
    for shape in tile_shapes(tiling, [64, 1024], [4]):
        assert shape.rows <= next_power(tiling.rows.extent) and shape.cols <= next_power(tiling.cols.extent)
        assert shape.rows * shape.cols <= 1024
        assert (next_power(shape.rows), next_power(shape.cols)) == (shape.rows, shape.cols)


def test_long_pitches_are_computed_in_64_bits() -> None:
    def square(n: int) -> Tiling:
        found = cut_permute(Meaning("X", "Y", (n, n), (1, 0), 1))
        assert found
        return found

    tile = tile_shapes(square(8192), [16384], [8])[1]
    assert (tile.rows, tile.cols) == (128, 128)
    assert not is_wide(square(8192), tile) and is_wide(square(1 << 25), tile)


def test_strides_are_dense() -> None:
    assert dense_strides((2, 3, 4)) == (12, 4, 1) and dense_strides(()) == ()


def test_elements_of_16_bytes_are_pairs() -> None:
    tiling = cut_permute(Meaning("X", "Y", (4, 6), (1, 0), 16))
    assert tiling
    assert [d.extent for d in (*tiling.outer, tiling.rows, tiling.cols)] == [6, 4, 2]
