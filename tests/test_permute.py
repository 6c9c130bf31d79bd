"""permute: its dimensions, boxes and accesses by law and brute force, whole kernels by their proofs and by NumPy."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text.run import requires_runner, run_text

import tilegen
from tests.faults.mutants import plant
from tests.faults.verdicts import refusal_of
from tests.mutants.judging import EVERY, list_survivors
from tests.session import examples
from tilegen import spec as spec_room
from tilegen.arch import ARCHES
from tilegen.arithmetic import TYPED
from tilegen.dtypes import numpy_dtype
from tilegen.errors import ProofError, SpecError
from tilegen.index import evaluate, variables
from tilegen.ops import ALL_OPS
from tilegen.ops.op import WholeHere
from tilegen.ops.permute.choose import choose_tiles, list_estimates, rank_candidates
from tilegen.ops.permute.dims import Dims, is_launchable, merge_dims
from tilegen.ops.permute.model import access_elems, describe_work, estimate
from tilegen.ops.permute.op import OP, dims_of
from tilegen.ops.permute.tiles import MAX_CANDIDATES, fill_box, list_boxes, list_threads, run_elems, sizes_of
from tilegen.pipeline import load
from tilegen.plan import Block, all_steps, effects, flatten
from tilegen.planner import plan_spec
from tilegen.proofs import unproven_ranges
from tilegen.proofs.meaning import check_meaning
from tilegen.render import render, render_launcher
from tilegen.report import explain_text
from tilegen.spec.outline import launch_of, outline

SIZES = st.lists(st.sampled_from([1, 1, 2, 3, 4, 5, 7, 8]), min_size=1, max_size=6)


def text(dtype: str, shape: list[Any], axes: list[int], more: str = "", params: str = "") -> str:
    words = [f"[{', '.join(map(str, s))}]" for s in (shape, [shape[a] for a in axes])]
    return (
        f"kernel: permuted\n{params}buffers:\n  X: {{scope: global, dtype: {dtype}, shape: {words[0]}}}\n"
        f"  Y: {{scope: global, dtype: {dtype}, shape: {words[1]}}}\n"
        f"ops:\n  - permute: {{src: X, dst: Y, axes: {axes}{more}}}\n"
    )


def strides_of(shape: list[int]) -> list[int]:
    return [prod(shape[d + 1 :]) for d in range(len(shape))]


@st.composite
def permutes(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    shape = draw(SIZES)
    return shape, list(draw(st.permutations(range(len(shape)))))


def merged(shape: list[int], axes: list[int]) -> Dims:
    moved = strides_of([shape[a] for a in axes])
    return merge_dims(shape, strides_of(shape), [moved[axes.index(a)] for a in range(len(shape))])


# ---------------------------------------------------------------- dimensions
# ---------------------------------------------------------------- threads that make trips even
def test_rows_of_37_are_shared_out_without_divisions_in_a_trip() -> None:
    """555 threads take 15 rows: the next trip is a constant step away, and the last of 18 warps is not full."""
    given = text("int8", [3, 30, 45, 37], [0, 2, 1, 3], ", box: [1, 30, 8, 37], threads: 555")
    built = tilegen.build(given)
    function = built.source[built.source.index("void copy_") : built.source.index('extern "C"')]
    assert built.manifest["block"] == [555, 1, 1] and " % " not in function and " / " not in function
    uneven = tilegen.build(given.replace("555", "256")).source
    assert " / 37 % 30" in uneven


def test_even_threads_are_picked_where_extents_are_no_powers_of_two() -> None:
    dims = merged([220, 30, 461, 37], [0, 2, 1, 3])
    work = describe_work(dims, (220, 30, 461, 37), "direct", (1, 30, 8, 37), 1)
    assert {370, 555} <= {*work.list_threads()}
    best = min(work.list_threads(), key=lambda n: estimate(work, n, ARCHES["sm_90a"]).instructions)
    assert best in (370, 555)


# ---------------------------------------------------------------- runs that end inside of words
def test_short_runs_cost_more_where_they_end_inside_of_words() -> None:
    """Two CTAs share a word at each end. On an H200 boxes of 128 x 128 took 83.4 us, those of 256 x 64 took 60.9."""

    def seconds(rows: int, box: tuple[int, int]) -> float:
        work = describe_work(merged([rows, 5134], [1, 0]), (rows, 5134), "tiled", box, 1)
        assert [side.ends_in_words for side in work.sides] == [True, rows % 4 > 0]
        return estimate(work, 512, ARCHES["sm_90a"]).seconds

    assert seconds(18025, (256, 64)) < seconds(18025, (128, 128))
    assert seconds(18024, (256, 64)) > seconds(18024, (128, 128))


# ---------------------------------------------------------------- guards that are asked once
def test_boxes_inside_of_the_array_load_without_guards() -> None:
    """One condition, the same for all threads; boxes that an edge cuts ask at each load."""
    given = text("int8", [75, 37], [1, 0], ", turn: load, box: [64, 32], threads: 64")
    source = tilegen.build(given).source
    inside, cut = "if (bx * 64 + 63 < 75 && by * 32 + 31 < 37)", "if (75 < bx * 64 + 64 || 37 < by * 32 + 32)"
    function = source[source.index(inside) : source.index("tile_turned[((")]
    easy, hard = function.split(cut)
    assert "?" not in easy and "= X[" in easy and "? X[" in hard


@pytest.mark.parametrize(("dtype", "shape", "box"), [
    ("float16", [75, 40], [32, 32]),  # loads of 16 bytes: a guard is little beside them
    ("float32", [75, 37], [64, 32]),  # four loads to a register tile
    ("int8", [80, 37], [64, 32]),  # edges fall between register tiles: one guard for all loads already
    ("int8", [128, 64], [64, 32]),  # nothing is cut
])  # fmt: skip
def test_guards_stay_where_asking_once_saves_little(dtype: str, shape: list[int], box: list[int]) -> None:
    source = tilegen.build(text(dtype, shape, [1, 0], f", turn: load, box: {box}")).source
    assert " || " not in source and f"if (bx * {box[0]} + {box[0] - 1} <" not in source


@requires_runner
@pytest.mark.parametrize(("dtype", "shape", "more"), [
    ("int8", [75, 37], "turn: load, box: [64, 32], threads: 64"), ("float16", [70, 75], "turn: load, box: [32, 32]"),
    ("int8", [99, 130], "turn: load, box: [64, 64], threads: 64"),
])  # fmt: skip
def test_the_text_that_asks_once_moves_every_element(dtype: str, shape: list[int], more: str) -> None:
    """Executed as C++: boxes inside, at each edge and in the corner."""
    plan = plan_spec(load(text(dtype, shape, [1, 0], f", {more}")))
    assert " || " in render(plan)
    bits = np.uint8 if dtype == "int8" else np.uint16
    x = np.random.default_rng(1).integers(1, 1 << 8 * bits().itemsize, shape).astype(bits)
    got = run_text(plan, {"X": x.ravel().view(numpy_dtype(dtype))})["Y"].view(bits)
    assert (got == x.T.ravel()).all()


@pytest.mark.parametrize("every", EVERY)
def test_mutants_of_guards_that_are_asked_once_are_found(every: int) -> None:
    spec = load(text("int8", [75, 37], [1, 0], ", turn: load, box: [64, 32], threads: 64"))
    plan = plan_spec(spec)
    mutants = [m for m in plant(plan) if m.where.startswith("0.")]
    assert {"guard tightened", "condition flipped", "step dropped", "global address"} <= {m.kind for m in mutants}
    assert list_survivors(spec, plan, mutants[::every]) == []


@settings(deadline=None)
@given(permutes())
def test_merged_dimensions_move_every_element_as_the_permute_does(case):
    shape, axes = case
    x = np.arange(prod(shape)).reshape(shape)
    dims = merged(shape, axes)
    grid = np.indices([d.extent for d in dims.dims]).reshape(len(dims.dims), -1)
    src = sum(g * d.strides[0] for g, d in zip(grid, dims.dims, strict=True))
    dst = sum(g * d.strides[1] for g, d in zip(grid, dims.dims, strict=True))
    got = np.empty(prod(shape), int)
    got[dst] = src
    assert (got == x.transpose(axes).ravel()).all()


@settings(deadline=None)
@given(permutes())
def test_no_two_merged_dimensions_could_be_one(case):
    shape, axes = case
    dims = merged(shape, axes).dims
    assert dims == merge_dims([d.extent for d in dims], *zip(*(d.strides for d in dims), strict=True)).dims
    for a, b in product(dims, repeat=2):
        assert a is b or a.strides != tuple(stride * b.extent for stride in b.strides)


def test_an_identity_is_one_dimension():
    assert len(merged([4, 1, 6, 5], [0, 2, 1, 3]).dims) == 1


# ---------------------------------------------------------------- boxes
@settings(deadline=None)
@given(permutes(), st.integers(0, 10))
def test_a_box_holds_as_many_neighbours_as_were_asked_for(case, log):
    shape, axes = case
    dims = merged(shape, axes)
    sizes = sizes_of(dims, {})
    for order in (tuple(range(len(sizes))), dims.order):
        box = fill_box(order, sizes, [True] * len(sizes), 1 << log)
        assert run_elems(order, box, sizes) >= min(1 << log, prod(sizes)) or prod(box) >= prod(sizes)
        assert all(b <= max(n, 1 << (n - 1).bit_length()) for b, n in zip(box, sizes, strict=True))


@settings(deadline=None, max_examples=examples(40))
@given(permutes(), st.sampled_from([1, 2, 4, 8, 16]))
def test_every_access_is_aligned_and_inside_of_its_run(case, elem_bytes):
    """The widths that the model claims, against every run of every box: the addresses themselves."""
    shape, axes = case
    dims = merged(shape, axes)
    sizes = sizes_of(dims, {})
    for _, box in list_boxes(dims, elem_bytes, {})[::3]:
        for side in (0, 1):
            width = access_elems(dims, sizes, box, side, elem_bytes)
            order = dims.order if side else tuple(range(len(sizes)))
            strides = [d.strides[side] for d in dims.dims]
            run = run_elems(order, box, sizes)
            inner = [d for d in order if d in whole_suffix(order, box, sizes)]
            for at in product(*(range(0, n, b) for n, b in zip(sizes, box, strict=True))):
                for rest in product(*(range(1 if d in inner else min(b, n - a)) for d, (a, b, n) in
                                      enumerate(zip(at, box, sizes, strict=True)))):  # fmt: skip
                    first = sum((a + r) * s for a, r, s in zip(at, rest, strides, strict=True))
                    assert first % width == 0, (box, side)
            assert run % width == 0 and width * elem_bytes <= 16


def whole_suffix(order: tuple[int, ...], box: tuple[int, ...], sizes: tuple[int, ...]) -> list[int]:
    """The dimensions that a run goes over."""
    out = []
    for d in reversed(order):
        out.append(d)
        if box[d] < sizes[d]:
            break
    return out


@settings(deadline=None)
@given(permutes(), st.sampled_from([1, 2, 4, 8, 16]))
def test_candidates_are_few_and_the_first_is_the_shortest(case, elem_bytes):
    dims = merged(*case)
    ranked = rank_candidates(dims, elem_bytes, {}, ARCHES["sm_90"])
    assert 1 <= len(ranked) <= MAX_CANDIDATES
    assert [c for c, _ in ranked] == list(dict.fromkeys(c for c, _ in ranked))
    assert ranked[0][1].seconds <= min(e.seconds for _, e in ranked) + 1e-9


def test_a_pin_that_no_leading_candidate_has_leaves_the_best_that_has_it():
    call = load(text("float16", [7, 877, 405], [2, 0, 1], ", threads: 448")).whole
    assert call is not None
    every = [c for c, _ in list_estimates(dims_of(call), 2, {}, ARCHES["sm_90"]) if c.threads == 448]
    found, _ = choose_tiles(call, dims_of(call), 2, {}, ARCHES["sm_90"])
    assert found == every[0]


def test_a_box_that_is_no_candidates_gets_the_threads_with_the_shortest_estimate():
    call = load(text("float16", [64, 4096, 12, 64], [0, 2, 1, 3], ", variant: direct, box: [1, 8, 8, 64]")).whole
    assert call is not None
    found, _ = choose_tiles(call, dims_of(call), 2, {}, ARCHES["sm_90"])
    work = describe_work(dims_of(call), [64, 4096, 12, 64], "direct", (1, 8, 8, 64), 2)
    assert found.box == (1, 8, 8, 64) and found.threads in work.list_threads()
    seconds = {n: estimate(work, n, ARCHES["sm_90"]).seconds for n in work.list_threads()}
    assert seconds[found.threads] == min(seconds.values())


@settings(deadline=None, max_examples=examples(60))
@given(permutes(), st.sampled_from([1, 2, 4, 8, 16]))
def test_a_part_that_divides_its_dimension_is_near_to_what_was_asked_for(case, elem_bytes):
    dims = merged(*case)
    sizes = sizes_of(dims, {})
    for order in (tuple(range(len(sizes))), dims.order):
        for elems in (4, 16, 100):
            box = fill_box(order, sizes, [True] * len(sizes), elems, max(1, 32 // elem_bytes))
            powers = fill_box(order, sizes, [True] * len(sizes), elems)
            for b, n in zip(box, sizes, strict=True):
                assert n % b == 0 or b & (b - 1) == 0
            assert prod(powers) / 4 <= prod(box) <= 4 * max(elems, prod(powers))


@settings(deadline=None)
@given(st.lists(st.integers(1, 20000), min_size=1, max_size=2), st.integers(1, 48 * 1024))
def test_threads_are_whole_warps_that_have_something_to_do(groups, box_bytes):
    found = list_threads(groups, box_bytes)
    assert found and list(found) == sorted(set(found)) and all(t % 32 == 0 for t in found)
    for threads in found:
        assert threads == 64 or threads < max(groups) + 32  # no warp without a group on either way
        trips = [-(-n // threads) for n in groups]
        full = min(n / (threads * t) for n, t in zip(groups, trips, strict=True))
        assert threads & (threads - 1) == 0 or full >= 0.95 or found == (threads,)


def test_wider_accesses_and_longer_runs_take_less_time():
    arch, dims = ARCHES["sm_90"], merged([4096, 4096], [1, 0])

    def seconds(box: tuple[int, int], threads: int = 256) -> float:
        return estimate(describe_work(dims, (4096, 4096), "tiled", box, 4), threads, arch).seconds

    assert seconds((64, 64)) < seconds((16, 64)) < seconds((8, 64))
    odd = merged([4095, 4097], [1, 0])
    aligned, ragged = (
        estimate(describe_work(d, sizes_of(d, {}), "tiled", (64, 64), 2), 256, arch) for d in (dims, odd)
    )  # fmt: skip
    assert (aligned.src_elems, aligned.dst_elems, ragged.src_elems, ragged.dst_elems) == (8, 8, 1, 1)
    assert aligned.instructions * 4 < ragged.instructions


# ---------------------------------------------------------------- whole kernels
SHAPES = [
    ([5], [0], "int64"), ([1, 1, 1], [2, 0, 1], "uint8"), ([37, 53], [1, 0], "float16"),
    ([3, 5, 7, 2], [3, 1, 0, 2], "uint8"),
    ([2, 3, 2, 3, 2, 3, 2, 3], [7, 5, 3, 1, 6, 4, 2, 0], "float32"), ([64, 48], [1, 0], "complex128"),
    ([130, 4, 66], [2, 1, 0], "bfloat16"), ([4, 100, 12], [1, 0, 2], "float64"), ([257, 129], [1, 0], "int8"),
]  # fmt: skip


@pytest.mark.sweep(1)
@requires_runner
@pytest.mark.parametrize("pins", ["", ", variant: tiled", ", variant: scalar"])
@pytest.mark.parametrize(("shape", "axes", "dtype"), SHAPES, ids=lambda x: str(x).replace(" ", ""))
def test_the_text_permutes_as_numpy_does(shape, axes, dtype, pins):
    built = tilegen.build(text(dtype, shape, axes, pins))
    size = tilegen.dtypes.DTYPES[dtype].bytes
    x = np.random.default_rng(0).integers(0, 256, prod(shape) * size, np.uint8)
    got = run_text(built.plan, {"X": x})["Y"].view(np.uint8)
    assert (got.reshape(-1, size) == x.reshape(*shape, size).transpose(*axes, len(shape)).reshape(-1, size)).all()


@pytest.mark.sweep(1)
@requires_runner
@pytest.mark.parametrize("sizes", [{}, {"M": 1, "N": 1}, {"M": 65, "N": 3}, {"M": 31, "N": 128}])
def test_runtime_sizes(sizes):
    params = "params: {M: {default: 70, max: 5000}, N: {default: 33, max: 5000}}\n"
    built = tilegen.build(text("int32", ["M", 3, "N"], [2, 1, 0], params=params))
    m, n = sizes.get("M", 70), sizes.get("N", 33)
    x = np.arange(m * 3 * n, dtype=np.int32)
    got = run_text(built.plan, {"X": x}, sizes)["Y"]
    assert (got == x.reshape(m, 3, n).transpose(2, 1, 0).ravel()).all()


@pytest.mark.slow
def test_offsets_beyond_an_int_are_computed_in_size_t():
    plan = plan_spec(load(text("uint8", [3, 50000, 40000], [0, 2, 1])))
    assert not [f for f in unproven_ranges(plan) if f.severity == "error"]
    assert "(size_t)" in render(plan) and prod([3, 50000, 40000]) > 2**32


def test_tiles_of_more_than_three_dimensions_fold_into_one_axis_of_the_grid():
    pins = ", box: [4, 4, 1, 1, 1, 1]"
    built = tilegen.build(text("float32", [8, 8, 3, 5, 3, 5], [5, 4, 3, 2, 1, 0], pins))
    assert built.manifest["grid"] == [2 * 2 * 3 * 5 * 3 * 5, 1, 1]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("turn", ["load", "store"])
@pytest.mark.parametrize("cache", ["default", "stream"])
def test_pins_are_kept(turn, cache):
    pins = f", variant: tiled, box: [32, 64], threads: 128, turn: {turn}, cache: {cache}"
    built = tilegen.build(text("float32", [256, 256], [1, 0], pins))
    (tile,) = (c.picked for c in built.plan.choices if c.question == "tile")
    assert tile == {"variant": "tiled", "box": [32, 64], "threads": 128, "turn": turn}
    assert ("load_stream_16" in built.source) == (cache == "stream")
    assert [o.variant for o in built.plan.operations][turn == "store"] == "register_tile"


@pytest.mark.parametrize(
    ("pins", "why"),
    [
        (", box: [64]", "1 extents, but the permute has 2 dimensions once merged"),
        (", box: [256, 256]", "a tile of [256, 256] takes 262144 bytes"),
        (", box: [512, 4]", "the box takes 512 of dimension 0, which has 256 elements"),
        (', box: [64, 64], layout: "S[(32,32):(32,1)]"', "is no layout of a shared tile"),
        (', box: [64, 64], layout: "S[(64,64):(1@laneid,1)]"', "it places elements on laneid"),
        (', box: [64, 64], layout: "S[(64,64):(1,1)]"', "two elements share a place"),
    ],
)
def test_pins_that_cannot_be_are_told_so(pins, why):
    (found,) = refusal_of(SpecError, tilegen.build, text("float32", [256, 256], [1, 0], pins)).diagnostics
    assert found.code == "TG302" and why in found.message and found.mark


def test_a_layout_of_the_tile_may_be_written_over_other_dimensions():
    """One of whole dense rows is a map of the elements in their order, whatever extents it is written with."""
    pins = ', box: [16, 20], turn: load, layout: "Swizzle(3,2,3) o S[(16,20):(20,1)]"'
    tilegen.build(text("float32", [16, 80], [1, 0], pins))


def test_a_box_may_be_larger_than_the_default_of_a_size_that_is_known_at_launch():
    params = "params: {M: {default: 9, max: 4096}, N: {default: 9, max: 4096}}\n"
    spec = load(text("float32", ["M", "N"], [1, 0], ", box: [64, 32], threads: 128", params))
    (tile,) = (c.picked for c in spec.choices if c.question == "tile")
    assert tile["box"] == [64, 32]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "turn"),
    [([1223, 1437, 38], "store"), ([128, 40, 1437], "load"), ([128, 64, 64], "load"), ([128, 41, 1437], "load")],
)
def test_tiles_turn_over_where_accesses_are_single_anyway(shape, turn):
    """Rows of 38 bytes come in by twos and columns of 1437 go out alone: on the way in, all would be single."""
    spec = load(text("uint8", shape, [0, 2, 1]))
    (tile,) = (c.picked for c in spec.choices if c.question == "tile")
    assert (tile["variant"], tile["turn"]) == ("tiled", turn)


def test_a_pinned_turn_or_layout_means_a_tile():
    rows_stay = text("float32", [2048, 64, 32], [1, 0, 2], ", turn: store, box: [4, 4, 32]")
    (tile,) = (c.picked for c in load(rows_stay).choices if c.question == "tile")
    assert tile["variant"] == "tiled" and tile["turn"] == "store"


@pytest.mark.parametrize("layout", ["row", "col"])
def test_plain_layouts_of_the_tile_have_their_names(layout):
    """`explain --resolved` writes 'row' where plain rows were chosen."""
    built = tilegen.build(text("float32", [96, 64], [1, 0], f", box: [32, 32], layout: {layout}"))
    assert "float tile[1024];  // " + layout in built.source


def test_nobody_is_warned_of_a_sync_that_is_not_the_specs():
    """Each thread reads back what it wrote: true, and nothing that the spec could leave out."""
    built = tilegen.build(text("float32", [100, 60], [0, 1], ", variant: tiled"))
    assert "__syncthreads" in built.source and not built.proof.warnings


def test_costs_are_those_of_a_whole_tile_where_the_second_of_two_is_cut():
    explained = tilegen.explain(text("uint8", [33, 65], [1, 0], ", variant: tiled, box: [64, 64], threads: 256"))
    (load_x,) = (a for a in explained["ops"][0]["accesses"] if a["space"] == "global")
    assert 33 * 2 < load_x["sectors"] <= 33 * 2 * 2  # 32 bytes of a row of X in two sectors; columns take 33 * 64


def test_elements_of_src_may_share_places():
    built = tilegen.build(
        "kernel: sums\nbuffers:\n  X: {scope: global, dtype: float32, shape: [100, 60], "
        "layout: 'S[(100,60):(1,1)]'}\n  Y: {scope: global, dtype: float32, shape: [60, 100]}\n"
        "ops:\n  - permute: {src: X, dst: Y, axes: [1, 0]}\n"
    )
    assert built.proof.steps > 0


# ---------------------------------------------------------------- grids
LARGE = "params: {M: {default: 4096, max: 2097152}, N: {default: 4096, max: 2097152}}\n"


def test_boxes_that_cannot_be_launched_are_left_out_while_there_are_others():
    (call,) = spec_room.load(text("float32", ["M", "N"], [1, 0], params=LARGE), ALL_OPS, None, {}).ops
    dims, defaults = dims_of(call), {"M": 4096, "N": 4096}
    assert not all(is_launchable(dims, box) for _, box in list_boxes(dims, 4, defaults))
    assert all(is_launchable(dims, c.box) for c, _ in rank_candidates(dims, 4, defaults, ARCHES["sm_90"]))


@pytest.mark.parametrize(
    ("params", "shape", "ctas"),
    [("params: {M: {default: 65536}, N: {default: 65536}}\n", ["M", "N"], "4294967296 CTAs with M = 65536, N = 65536"),
     ("", [65536, 65536], "4294967296 CTAs")],
)  # fmt: skip
def test_too_many_ctas_are_told_so(params, shape, ctas):
    (found,) = refusal_of(SpecError, load, text("uint8", shape, [1, 0], ", box: [1, 1]", params)).diagnostics
    assert found.code == "TG302" and found.hint == "take a larger box"
    assert found.message == f"boxes of [1, 1] take {ctas}; 2147483647 can be launched"


@pytest.mark.slow
def test_sizes_that_only_a_launch_can_refuse_are_refused_there():
    built = tilegen.build(text("uint8", ["M", "N"], [1, 0], params="params: {M: {default: 9}, N: {default: 9}}\n"))
    checks = render_launcher(built.plan).split("{", 1)[1].split(";\n")
    assert any("> 2147483647) return cudaErrorInvalidConfiguration" in check for check in checks)


# ---------------------------------------------------------------- the meaning
@settings(deadline=None, max_examples=examples(25))
@given(permutes())
def test_the_reference_is_numpys_transpose(case):
    shape, axes = case
    spec = load(f"{text('int32', shape, axes)}")
    assert spec.whole is not None
    offsets = np.arange(prod(shape))
    want = offsets.reshape(shape).transpose(axes).ravel()
    here = WholeHere({"src": lambda at: at}, {}, TYPED)
    assert (OP.reference(spec.whole, offsets, here)["dst"] == want).all()


def test_tiles_that_carry_out_another_permute_are_found():
    """The statements are right by themselves, but they are not what the op means."""
    spec = load(text("float32", [64, 64], [1, 0], ", box: [32, 32]"))
    assert spec.whole is not None
    fields = spec.whole.fields.model_copy(update={"axes": [0, 1]})
    other = replace(spec, whole=replace(spec.whole, fields=fields))
    check_meaning(spec, plan_spec(spec), [(0, 0, 0)], {})
    caught = refusal_of(ProofError, check_meaning, other, plan_spec(other), [(1, 0, 0)], {})
    assert caught.diagnostics[0].code == "TG420"


def test_elements_that_no_tile_writes_are_an_error():
    spec = load(text("float32", [96, 64], [1, 0], ", box: [32, 32]"))
    x, y, z = spec.grid
    caught = refusal_of(ProofError, tilegen.build, replace(spec, grid=(x - 1, y, z)))
    assert "no owner" in caught.diagnostics[0].message


def test_merged_arrays_of_a_call():
    spec = load(text("float32", [2, 3, 4], [2, 0, 1]))
    assert spec.whole is not None
    assert [d.extent for d in dims_of(spec.whole).dims] == [6, 4]


# ---------------------------------------------------------------- proofs that take more than ranges
@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "shape", "axes", "most", "pins"),
    [
        ("uint8", ["N", 48, 8], [0, 2, 1], 4096, ""),  # a digit of the tile runs across dimensions of Y
        ("uint8", ["N", 48, 8], [0, 2, 1], 4096, ", turn: store"),
        ("float32", ["N", 64, 128], [0, 2, 1], 4096, ""),
        ("float16", ["N", 31, 128], [0, 2, 1], 4096, ""),
        ("float16", ["N", 64, 128], [0, 2, 1], 1 << 20, ""),  # the grid is folded into bx
        ("float64", ["N", 3, 512], [1, 0, 2], 1 << 20, ""),
        ("uint8", [128, 200, 65], [1, 0, 2], 0, ""),  # trips that are guarded inside of a quotient
        ("complex128", [48, 130, 5, 13], [3, 2, 1, 0], 0, ""),
        ("float32", [130, 7, 128, 17], [0, 3, 2, 1], 0, ""),
        ("float16", [32, 48, 33, 31], [1, 2, 0, 3], 0, ", threads: 96"),
        ("float64", [32, 8, 96, 16], [3, 0, 2, 1], 0, ", box: [5, 2, 31, 8], threads: 512, turn: load"),
    ],
)
def test_every_address_is_proved(dtype, shape, axes, most, pins):
    pins = pins if most or "box" in pins else f", variant: tiled{pins}"
    params = f"params: {{N: {{default: 29, max: {most}}}}}\n" if most else ""
    assert tilegen.build(text(dtype, shape, axes, pins, params)).proof.steps > 0


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(10))
@given(
    st.lists(st.tuples(st.sampled_from([1, 3, 8, 31, 48, 64, 65]), st.booleans()), min_size=2, max_size=4),
    st.randoms(use_true_random=False),
    st.sampled_from(["uint8", "float16", "float32", "float64"]),
    st.sampled_from([4096, 1 << 20]),
)
def test_every_address_is_proved_for_sizes_known_at_launch(dims, random, dtype, most):
    """Whichever dimensions they are."""
    axes = random.sample(range(len(dims)), len(dims))
    sizes = [f"N{d}" if is_param else n for d, (n, is_param) in enumerate(dims)]
    named = ", ".join(f"N{d}: {{default: {n}, max: {most}}}" for d, (n, is_param) in enumerate(dims) if is_param)
    pins = random.choice(["", ", variant: scalar"])
    tilegen.build(text(dtype, sizes, axes, pins, f"params: {{{named}}}\n" if named else ""))


# ---------------------------------------------------------------- small arrays, element by element
@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("dtype", "shape", "axes", "variant"),
    [
        ("uint8", [13, 32, 34], [1, 2, 0], "scalar"), ("float64", [10007, 3], [1, 0], "scalar"),
        ("float32", [9, 10007], [1, 0], "scalar"), ("float32", [9, 20014], [1, 0], "tiled"),
        ("uint8", [6, 7, 103, 3, 38], [0, 3, 4, 1, 2], "tiled"),
    ],
)  # fmt: skip
def test_small_arrays_go_element_by_element(dtype: str, shape: list[int], axes: list[int], variant: str) -> None:
    """In one trip through memory, and with no more instructions than there are warps of elements."""
    found = tilegen.explain(text(dtype, shape, axes))
    (tile,) = [c for c in found["choices"] if c["question"] == "tile"]
    assert tile["picked"]["variant"] == variant
    if variant == "scalar":
        assert len(found["ops"]) == 1
        warps = sum(part["instructions"] for part in found["grid_totals"].values()) / 2
        assert prod(shape) / 32 <= warps <= 1.25 * prod(shape) / 32


def test_sizes_that_may_be_large_do_not_go_element_by_element() -> None:
    params = "params: {N: {default: 3, max: 100000}}\n"
    (tile,) = [c for c in tilegen.explain(text("float32", [9, "N"], [1, 0], params=params))["choices"]
               if c["question"] == "tile"]  # fmt: skip
    assert tile["picked"]["variant"] == "tiled"


# ---------------------------------------------------------------- guards
@pytest.mark.sweep(1)
@pytest.mark.parametrize("threads", [256, 512])
@pytest.mark.parametrize("box", [[64, 64], [32, 64]])
def test_accesses_behind_guards_are_constants_away_from_a_base_of_their_thread(box: list[int], threads: int) -> None:
    """Behind a guard a compiler makes each address anew."""
    built = tilegen.build(text("float32", [111, 250], [1, 0], f", variant: tiled, box: {box}, threads: {threads}"))
    blocks = [step for step in all_steps(built.plan) if isinstance(step, Block)]
    bases = {formal.name: (block, base) for block in blocks for formal, base in block.args}
    for name in ("X", "Y"):
        block, base = bases[name]
        refs = [t.ref for s in flatten(block.body) for t in effects(s).touches if t.ref.memory.name == name]
        assert refs and not {v.name for r in refs for x in r.at for v in variables(x)} & {"tx", "laneid", "warpid"}
        assert "tx" in {v.name for x in base.at for v in variables(x)}


# ---------------------------------------------------------------- images and what else travels in short runs
SHORT_RUNS = {
    "pixels to planes": ("uint8", [32, 1080, 1920, 3], [0, 3, 1, 2]),
    "planes to pixels": ("uint8", [128, 3, 224, 224], [0, 2, 3, 1]),
    "five channels of halves": ("float16", [16, 512, 512, 5], [0, 3, 1, 2]),
    "patches": ("uint8", [1024, 14, 16, 14, 16, 3], [0, 1, 3, 5, 2, 4]),
    "weights": ("float32", [1024, 512, 3, 3], [0, 2, 3, 1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", SHORT_RUNS)
def test_what_travels_in_short_runs_goes_in_whole_vectors(what: str) -> None:
    """16 bytes a lane, no sector twice and no bank either: as many instructions as a copy by way of a tile."""
    dtype, shape, axes = SHORT_RUNS[what]
    found = tilegen.explain(text(dtype, shape, axes))
    accesses = [a for op in found["ops"] for a in op["accesses"]]
    assert {a["width_bytes"] for a in accesses} == {16}
    totals = found["grid_totals"].values()
    total = {what: sum(part[what] for part in totals) for what in ("sectors", "wavefronts", "instructions")}
    array_bytes = prod(shape) * {"uint8": 1, "float16": 2, "float32": 4}[dtype]
    assert total["sectors"] == 2 * array_bytes // 32
    assert total["wavefronts"] <= 1.02 * 2 * array_bytes / 128
    assert total["instructions"] <= 1.05 * 4 * array_bytes / 512


@pytest.mark.parametrize(
    ("dtype", "shape", "variant"),
    [
        ("float32", [1, 211, 2], "gmem_gmem"), ("float64", [1, 5, 133], "gmem_gmem"),
        ("uint8", [9, 1, 112], "gmem_gmem"), ("uint8", [9, 1, 100], "shifted"),
    ],
)  # fmt: skip
def test_a_small_direct_permute_has_no_warps_that_are_idle(dtype: str, shape: list[int], variant: str) -> None:
    """But those that have none of the few elements that are in no vector."""
    found = tilegen.explain(text(dtype, shape, [1, 0, 2], ", variant: direct"))
    assert [op["variant"] for op in found["ops"]] == [variant]
    accesses = [a for op in found["ops"] for a in op["accesses"]]
    assert min(a["idle_warps"] for a in accesses if a["width_bytes"] > 1) == 0


def test_what_the_model_of_time_counts_is_not_named_like_what_is_counted() -> None:
    arrays = {
        "X": {"scope": "global", "dtype": "float32", "shape": [1024, 768]},
        "Y": {"scope": "global", "dtype": "float32", "shape": [768, 1024]},
    }
    spec = {"kernel": "p", "buffers": arrays, "ops": [{"permute": {"src": "X", "dst": "Y", "axes": [1, 0]}}]}
    lines = explain_text(tilegen.explain(spec), ARCHES["sm_90"]).splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("  tile: "))
    assert lines[at + 1].split() == ["~sectors", "~wavefronts", "~instructions"]
    assert any(line.strip().startswith("~ estimated by the model of time") for line in lines[at:])


@pytest.mark.slow
def test_costs_are_those_of_a_whole_tile_where_one_axis_numbers_several_dimensions() -> None:
    """The middle CTA of 2850 has seven of the 64 rows of a tile."""
    spec = tilegen.build(
        "kernel: p\narch: sm_90\nbuffers:\n"
        "  X: {scope: global, dtype: float16, shape: [19, 5, 5, 71, 6, 32]}\n"
        "  Y: {scope: global, dtype: float16, shape: [32, 5, 6, 5, 19, 71]}\n"
        "ops:\n  - permute: {src: X, dst: Y, axes: [5, 1, 4, 2, 0, 3]}\n"
    ).spec
    x, _, _ = launch_of(spec).interior
    begins = [evaluate(b, {"bx": x}) for call in outline(spec).calls for b in call.regions["src"].begins]
    assert launch_of(spec).grid == (2850, 1, 1) and x % 2 == 0 and 64 not in begins
