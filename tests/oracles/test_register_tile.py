"""copy's register_tile: every element by one thread once, whole vectors where both sides allow them, its refusals."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tilegen
from tests.faults.verdicts import refusal_of
from tests.oracles.kernels import buffer, build, choice, kernel
from tilegen.dtypes import DTYPES
from tilegen.errors import SpecError
from tilegen.ops.copy.register_tiles import coalesced, count_lines, digits_at, orders_of, shapes_of
from tilegen.ops.copy.register_turns import block_elems
from tilegen.ops.ordered_tile import place_of, tile_over
from tilegen.planner import survey_calls

GENERATED = 24


def turned(threads: int, dtype: str, rows: int, columns: int, variant: str = "register_tile", outer: int = 1) -> str:
    """X, outer matrices of rows x columns, is copied into the transposed view of Y."""
    return kernel(threads, [
        buffer("X", "global", dtype, [outer, rows, columns]), buffer("Y", "global", dtype, [outer, columns, rows]),
        "  T: {view: Y, axes: [0, 2, 1]}",
    ], [f"copy: {{src: X, dst: T, variant: {variant}}}"])  # fmt: skip


def generated() -> list[Any]:
    pick = random.Random(20251121)
    cases = []
    for n in range(GENERATED):
        dtype = pick.choice(["uint8", "bool", "int16", "bfloat16", "float32", "int64", "complex128"])
        rows, columns = (pick.choice([1, 3, 4, 8, 12, 20, 32, 48, 64]) * pick.choice([2, 4]) for _ in range(2))
        threads, outer = pick.choice([1, 24, 32, 96, 128]), pick.choice([1, 1, 3])
        if rows * columns * outer // threads <= 2048 and dtype != "complex128":
            cases.append(pytest.param(threads, dtype, rows, columns, outer, id=f"{n}-{dtype}-{outer}x{rows}x{columns}"))
    return cases


@pytest.mark.sweep(2)
@pytest.mark.parametrize(("threads", "dtype", "rows", "columns", "outer"), generated())
def test_a_transpose_is_exact_and_as_wide_as_its_sides_allow(threads, dtype, rows, columns, outer):
    built, (op,) = build(turned(threads, dtype, rows, columns, outer=outer))  # its proofs compare every element
    assert built.proof.steps > 0
    size = DTYPES[dtype].bytes
    widest = [max(w for w in (1, 2, 4, 8, 16) if n % w == 0 and w * size <= 16) for n in (columns, rows)]
    picked = choice(op, "register_tile")
    for whole, count, wide in ((columns, picked["columns"], widest[0]), (rows, picked["rows"], widest[1])):
        assert count <= wide or count == whole
    widths = {a["kind"]: a["width_bytes"] for a in op["accesses"]}
    assert widths == {"ld": picked["load_bytes"], "st": picked["store_bytes"]}
    scalar = build(turned(threads, dtype, rows, columns, "scalar", outer))[1][0]
    if min(rows, columns) * size >= 32:  # smaller rows share sectors
        assert op["cost"]["sectors"] <= scalar["cost"]["sectors"]


def tile(dtype: str, rows: int, columns: int, outer: int = 1) -> Any:
    spec = tilegen.load(turned(32, dtype, rows, columns, outer=outer))
    ((call, context),) = survey_calls(spec)
    return tile_over(context, [context.operand(call, name) for name in ("src", "dst")], call.scope)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns", "outer"), [
    (32, 32, 1), (6, 4, 5), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((24, 40, 3), (128, 16, 2))),
])  # fmt: skip
def test_every_walk_meets_every_element_once(rows, columns, outer):
    it = tile("float16", rows, columns, outer)
    for shape in shapes_of(it):
        orders = orders_of(it, shape)
        assert set(coalesced(it, shape)) <= set(orders)
        for order in orders:
            seen = {
                place_of(it, digits_at(it, shape, order, group, r, c))
                for group in range(it.count // shape.elems) for r in range(shape.rows) for c in range(shape.columns)
            }  # fmt: skip
            assert len(seen) == rows * columns * outer, (shape, order)


def test_lanes_that_are_looked_up_together_cover_a_line_where_the_tile_has_one():
    """No other way to lay a warp over the tile touches fewer lines, group by group."""
    it = tile("float32", 64, 64)
    shape = shapes_of(it)[0]
    least = min(count_lines(it, shape, order) for order in orders_of(it, shape))
    assert {count_lines(it, shape, order) for order in coalesced(it, shape)} == {least}


def test_lookups_are_counted_by_groups_of_lanes():
    it = tile("float32", 64, 64)
    shape = shapes_of(it)[0]
    orders = {(w.inner, w.along_src, w.along_dst): count_lines(it, shape, w) for w in orders_of(it, shape)}
    # 8 warps; src: 4 loads of 4 groups, each one line; dst: 4 stores of 4 groups, a line for each of the 8 columns
    assert orders["src", 8, 4] == 8 * (4 * 4 * 1 + 4 * 4 * 8)
    assert orders["dst", 8, 4] == 8 * (4 * 4 * 4 + 4 * 4 * 2)


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("elem_bytes", "permutes"), [(1, 8), (2, 2), (4, 0)])
def test_small_elements_turn_by_byte_permutes(elem_bytes, permutes):
    """As few as there are: a word of a result for each; 4 bytes and more only change their names."""
    built, _ = build(turned(32, {1: "uint8", 2: "uint16", 4: "uint32"}[elem_bytes], 32, 64))
    assert built.source.count("__byte_perm") == permutes
    assert block_elems(elem_bytes, 16, 16) == (4 // elem_bytes if permutes else 1)


PIXELS = [(dtype, n) for dtype in ("uint8", "float16", "float32", "int64") for n in (3, 5, 7)]


@pytest.mark.sweep(9)
@pytest.mark.parametrize("planes_are", ["src", "dst"])
@pytest.mark.parametrize(("dtype", "channels"), PIXELS)
def test_pixels_of_an_odd_number_of_channels_go_in_whole_vectors(dtype, channels, planes_are):
    """Pixels are one run of shared memory, planes one each; vectors an odd number apart meet in no bank."""
    planes, pixels = [channels, 256], [256, channels]
    shapes = (planes, pixels) if planes_are == "src" else (pixels, planes)
    ops = ["copy: {src: X, dst: V}", "sync: cta", "copy: {src: a, dst: Y}"]
    if planes_are == "dst":
        ops = ["copy: {src: X, dst: a}", "sync: cta", "copy: {src: V, dst: Y}"]
    _, found = build(kernel(32, [
        buffer("X", "global", dtype, shapes[0]), buffer("Y", "global", dtype, shapes[1]),
        buffer("a", "shared", dtype, pixels), "  V: {view: a, axes: [1, 0]}",
    ], ops))  # fmt: skip
    op = next(op for op in found if op["variant"] == "register_tile")
    picked, size = choice(op, "register_tile"), DTYPES[dtype].bytes
    elems = picked["rows"] * picked["columns"]
    assert {a["width_bytes"] for a in op["accesses"]} == {picked["load_bytes"], picked["store_bytes"]} == {16}
    trips = -(-256 * channels // elems // 32)
    assert sum(a["instructions"] for a in op["accesses"]) == 2 * trips * elems * size // 16


@pytest.mark.parametrize(
    ("dtype", "channels", "each"),
    [("uint8", 3, 2), ("uint8", 5, 3), ("uint16", 3, 1), ("uint16", 5, 1)],
)
def test_a_word_of_a_run_takes_a_permute_for_two_words_that_it_comes_from(dtype, channels, each):
    """3 bytes of pixels lie in three words, bytes of wider ones in four, halves in two."""
    size = DTYPES[dtype].bytes
    for sizes in ((channels, 64), (64, channels)):
        built, _ = build(turned(32, dtype, *sizes))
        assert built.source.count("__byte_perm") == channels * each, size


def test_a_run_is_not_taken_across_an_edge():
    """64 pixels of 3 bytes at a time, the last time fewer: they end with a vector of each plane, or they do not."""
    for pixels, width in ((205, 1), (208, 16)):
        text = kernel(32, [
            buffer("X", "global", "uint8", [pixels, 3]), buffer("Y", "global", "uint8", [3, pixels]),
            "  T: {view: Y, axes: [1, 0]}",
        ], ["copy: {src: 'X[bx*64 : +64, 0 : +3]', dst: 'T[bx*64 : +64, 0 : +3]', edge: clip}"])  # fmt: skip
        _, (op,) = build(text.replace("threads: 32", "threads: 32\ngrid: {bx: 4}"))
        assert {a["width_bytes"] for a in op["accesses"] if a["kind"] == "st"} == {width}


@pytest.mark.parametrize(("dtype", "channels"), [("uint8", 3), ("uint8", 6), ("float16", 3), ("float16", 6)])
def test_pixels_of_a_number_known_at_the_launch_are_proved(dtype, channels):
    said = "X[0:2, bx*32 : +32, 0 : +{n}]", "V[0:2, bx*32 : +32, 0 : +{n}]"
    src, dst = (text.format(n=channels) for text in said)
    built = tilegen.build(
        "kernel: k\nparams: {N: {default: 16, max: 4096, multiple_of: 16}}\ngrid: {bx: ceil(N / 32)}\nthreads: 32\n"
        f"buffers:\n  X: {{scope: global, dtype: {dtype}, shape: [2, N, {channels}]}}\n"
        f"  Y: {{scope: global, dtype: {dtype}, shape: [2, {channels}, N]}}\n  V: {{view: Y, axes: [0, 2, 1]}}\n"
        f'ops:\n  - copy: {{src: "{src}", dst: "{dst}", edge: clip}}\n'
    )
    assert built.proof.steps > 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (turned(32, "float32", 1, 64), "contiguous along the same dimension"),
        (turned(32, "complex128", 8, 8), "two contiguous, aligned elements"),
        (turned(32, "float32", 7, 9), "two contiguous, aligned elements"),
    ],
)
def test_it_refuses_what_it_cannot_widen(text, why):
    raised = refusal_of(SpecError, build, text)
    assert [d.code for d in raised.diagnostics] == ["TG302"]
    assert why in raised.diagnostics[0].message
