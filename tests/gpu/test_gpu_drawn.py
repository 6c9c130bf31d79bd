"""Drawn kernels on a GPU: what a proof cannot know of the hardware, such as where TMA puts rows, shows there alone."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import pytest

import tilegen
from tests.oracles.test_early_regions import COPIES, draw_window, reading
from tests.test_gemm import draw_problem
from tilegen.errors import SpecError
from tilegen.gpu.device import probe_device, runs_cubin
from tilegen.verifying import verify_gpu

DEVICE, WHY_NOT = probe_device()
NOT_HOPPER = WHY_NOT or (
    "" if DEVICE is not None and runs_cubin(DEVICE.compute_capability, "sm_90a") else "this GPU runs no code for sm_90a"
)
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(NOT_HOPPER), reason=NOT_HOPPER)]
BYTES = {"uint8": 1, "float8_e4m3fn": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


@pytest.mark.parametrize("seed", range(100, 130))
def test_drawn_products_are_right(seed: int) -> None:
    assert verify_gpu(tilegen.build(draw_problem(seed)), [seed]).lines


PRODUCTS = {  # types of factors and of sums: products of one instruction
    ("float16", "float32"): ("mma.m16n8k16", "mma.m16n8k8"), ("float16", "float16"): ("mma.m16n8k16", "mma.m16n8k8"),
    ("bfloat16", "float32"): ("mma.m16n8k16", "mma.m16n8k8"), ("int8", "int32"): ("mma.m16n8k32",),
    ("float8_e4m3fn", "float32"): ("mma.m16n8k32",), ("float32", "float32"): ("fma.f32",),
    ("float64", "float64"): ("mma.m8n8k4", "mma.m16n8k4", "mma.m16n8k8", "mma.m16n8k16"),
}  # fmt: skip


def draw_tile_product(seed: int) -> dict[str, Any]:
    """A product of tiles of a warp by any atom, of factors from global or shared memory, on top of zeros said in one of
    five ways."""
    draw = random.Random(seed)
    (factors, sums), atoms = draw.choice(list(PRODUCTS.items()))
    atom = draw.choice(atoms)
    found = re.fullmatch(r"mma\.m(\d+)n(\d+)k(\d+)", atom)
    m, n, k = (int(x) for x in found.groups()) if found else (4, 8, 1)
    rows, columns, depth = m * draw.choice([1, 2]), n * draw.choice([1, 2, 4]), k * draw.choice([1, 2])
    steps, warps = draw.randint(1, 5), draw.choice([1, 2])
    a, b = (
        f"A[bx*{rows * warps} + warpid*{rows} : +{rows}, k*{depth} : +{depth}]",
        f"B[k*{depth} : +{depth}, 0 : +{columns}]",
    )
    ways = ["accumulate", "fill", "fill when", "fill in a block", *(["where"] if sums != "int32" else [])]
    zeros, staged = draw.choice(ways), draw.random() < 0.5
    fill: dict[str, Any] = {"dst": "c", "value": 0, "scope": "warp"}
    mma: dict[str, Any] = {"a": "a", "b": "b", "c": "c", "scope": "warp", "atom": atom}
    mma |= {"accumulate": "k > 0"} if zeros == "accumulate" else {}
    brought: list[dict[str, Any]] = [
        {"copy": {"src": a, "dst": "sa[warpid]", "scope": "warp"}},
        {"copy": {"src": b, "dst": "sb", "scope": "cta"}}, {"sync": "cta"},
    ]  # fmt: skip
    read = [{"copy": {"src": "sa[warpid]" if staged else a, "dst": "a", "scope": "warp"}},
            {"copy": {"src": "sb" if staged else b, "dst": "b", "scope": "warp"}}]  # fmt: skip
    each: dict[str, list[dict[str, Any]]] = {
        "fill when": [{"fill": {**fill, "when": "k < 1"}}],
        "fill in a block": [{"when": "k < 1", "do": [{"fill": fill}]}],
        "where": [{"elementwise": {"dst": "c", "expr": "where(k < 1, 0.0, c)", "scope": "warp"}}],
    }
    body = [
        *(brought if staged else []),
        *read,
        *each.get(zeros, []),
        {"mma": mma},
        *([{"sync": "cta"}] if staged else []),
    ]
    out = {
        "copy": {"src": "c", "dst": f"D[bx*{rows * warps} + warpid*{rows} : +{rows}, 0 : +{columns}]", "scope": "warp"}
    }
    array = {"scope": "global", "dtype": factors}
    shared = {
        "sa": {"scope": "shared", "dtype": factors, "shape": [warps, rows, depth], "layout": "auto"},
        "sb": {"scope": "shared", "dtype": factors, "shape": [depth, columns], "layout": "auto"},
    }
    return {
        "kernel": f"product{seed}", "arch": "sm_90", "threads": 32 * warps, "grid": {"bx": 2},
        "buffers": {
            "A": {**array, "shape": [2 * rows * warps, steps * depth], "layout": draw.choice(["row", "col"])},
            "B": {**array, "shape": [steps * depth, columns], "layout": draw.choice(["row", "col"])},
            "D": {"scope": "global", "dtype": sums, "shape": [2 * rows * warps, columns]},
            **(shared if staged else {}),
            **{name: {"scope": "register", "dtype": dtype, "shape": list(shape), "layout": "auto"}
               for name, dtype, shape in (("a", factors, (rows, depth)), ("b", factors, (depth, columns)),
                                          ("c", sums, (rows, columns)))},
        },
        "ops": [
            *([{"fill": fill}] if zeros in ("fill", "where") else []),
            {"for": {"k": steps}, "unroll": draw.random() < 0.3, "do": body}, out,
        ],
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(80))
def test_drawn_products_of_tiles_are_right(seed: int) -> None:
    assert verify_gpu(tilegen.build(draw_tile_product(seed)), [seed]).lines


def draw_reduction(seed: int) -> dict[str, Any]:
    """Rows reduced by threads, warps or a CTA, of elements that an expression makes."""
    draw = random.Random(seed)
    dtype = draw.choice(["int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
    computed = dtype if dtype in ("int64", "float32", "float64") else "float32" if dtype == "float16" else "int32"
    scope, rows, length = draw.choice([("warp", 4, 32), ("warp", 1, 128), ("cta", 2, 256), ("thread", 1, 16)])
    expr = draw.choice(
        [
            "-x",
            "x",
            "abs(x)",
            "min(x, 3)",
            "2 - x",
            "max(-x, -5)",
            "where(x > 1, -x, x)",
            "0 - x",
            "where(x > 3, x, 0 - x)",
        ]
    )
    first = {"warp": f"bx*{rows * 4} + warpid*{rows}", "cta": f"bx*{rows}", "thread": "bx*128 + tx"}[scope]
    at = f"{first} : +{rows}"
    many = {"warp": rows * 4, "cta": rows, "thread": 128}[scope] * 2
    array = {"scope": "global", "layout": "row"}
    held = {"scope": "register", "dtype": computed, "layout": "auto"}
    if scope == "thread":
        held.pop("layout")
    return {
        "kernel": f"reduce{seed}", "arch": "sm_90", "threads": 128, "grid": {"bx": 2},
        "buffers": {
            "X": {**array, "dtype": dtype, "shape": [many, length]},
            "Y": {**array, "dtype": computed, "shape": [many, 1]},
            "x": {**held, "shape": [rows, length]}, "q": {**held, "shape": [rows, 1]},
        },
        "ops": [
            {"cast" if computed != dtype else "copy": {"src": f"X[{at}]", "dst": "x", "scope": scope}},
            {"reduce": {"dst": "q", "axis": 1, "op": draw.choice(["max", "min", "sum"]), "expr": expr, "scope": scope}},
            {"copy": {"src": "q", "dst": f"Y[{at}]", "scope": scope}},
        ],
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_drawn_reductions_are_right(seed: int) -> None:
    """Of ints too that are negated: ptxas loses the sign of those that it sees under min and max."""
    assert verify_gpu(tilegen.build(draw_reduction(seed)), [seed]).lines


@pytest.mark.parametrize("expr", ["where(m > -x, m, -x)", "where(m > 0 - x, m, 0 - x)", "max(m, 0 - x)", "max(m, -x)"])
@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_a_running_maximum_of_negated_ints_is_right(expr: str, dtype: str) -> None:
    """Also where no op is called max."""
    held = {"scope": "register", "dtype": dtype, "shape": [1, 1]}
    run = {"elementwise": {"dst": "m", "expr": expr, "with": {"x": "row[:, f : +1]"}, "scope": "thread"}}
    spec = {
        "kernel": "running_maximum", "arch": "sm_90", "threads": 32,
        "buffers": {
            "X": {"scope": "global", "dtype": dtype, "shape": [32, 16]},
            "Y": {"scope": "global", "dtype": dtype, "shape": [32, 1]}, "row": {**held, "shape": [1, 16]}, "m": held,
        },
        "ops": [
            {"copy": {"src": "X[tx : +1]", "dst": "row", "scope": "thread"}},
            {"fill": {"dst": "m", "value": -100, "scope": "thread"}}, {"for": {"f": 16}, "unroll": True, "do": [run]},
            {"copy": {"src": "m", "dst": "Y[tx : +1]", "scope": "thread"}},
        ],
    }  # fmt: skip
    assert verify_gpu(tilegen.build(spec), [1, 2]).lines


def draw_tma_copy(seed: int, is_early: bool = False) -> dict[str, Any]:
    """A tile that TMA loads, stores, or both: widths of rows, swizzles, pitches, edges; it may not be possible.

    ``is_early``: the first tiles begin before the array, and threads store them: TMA does not.
    """
    draw = random.Random(seed)
    dtype = draw.choice(list(BYTES))
    unit = 16 // BYTES[dtype]
    rows, columns = (
        draw.choice([1, 2, 8, 16, 24, 64]),
        draw.choice([1, 2, 4, 8, 16]) * max(1, unit // draw.choice([1, 2])),
    )
    m, n = (size * draw.randint(1, 2) + draw.choice([0, 0, 1, more]) for size, more in ((rows, 3), (columns, unit)))
    pitch = -(-n // unit) * unit + draw.choice([0, 0, unit])
    swizzle = draw.choice([32, 64, 128])
    shifts = {1: 4, 2: 3, 4: 2, 8: 1}[BYTES[dtype]], {32: 1, 64: 2, 128: 3}[swizzle]
    layout = draw.choice([
        "auto", "auto", "row", f"mma_shared_layout('{dtype}', {swizzle}, ({rows}, {columns}))",
        f"Swizzle({shifts[0]},{shifts[1]},3) o S[({rows},{columns}):({columns},1)]",
    ])  # fmt: skip
    array = {"scope": "global", "dtype": dtype, "shape": [m, n], "layout": f"S[({m},{n}):({pitch},1)]"}
    tile = {"scope": "shared", "dtype": dtype, "shape": [rows, columns], "layout": layout}
    region, by_tma = (
        f"by*{rows} : +{rows}, bx*{columns} : +{columns}",
        draw.choice([(True, True), (True, False), (False, True)]) if not is_early else (True, False),
    )
    load: dict[str, Any] = {"src": f"X[{region}]", "dst": "t", "edge": "clip"}
    store: dict[str, Any] = {"src": "t", "dst": f"Y[{region}]", "edge": "clip"}
    up, left = (draw.randint(1, rows), draw.randint(0, columns // unit) * unit) if is_early else (0, 0)
    if is_early:
        region = f"by*{rows} - {up} : +{rows}, bx*{columns} - {left} : +{columns}"
        load, store = load | {"src": f"X[{region}]"}, store | {"dst": f"Y[{region}]"}
    load |= {"variant": "tma", "barrier": "full"} if by_tma[0] else {}
    store |= {"variant": "tma"} if by_tma[1] else {}
    met = [{"wait": {"barrier": "full"}}] if by_tma[0] else [{"sync": "async"}, {"sync": "cta"}]
    return {
        "kernel": f"tma{seed}", "arch": "sm_90", "threads": draw.choice([32, 128]),
        "grid": {"bx": f"ceil({n + left} / {columns})", "by": f"ceil({m + up} / {rows})"},
        "buffers": {"X": array, "Y": array, "t": tile},
        "ops": [{"copy": load}, *met, {"copy": store}, *([{"wait": 0}] if by_tma[1] else [])],
    }  # fmt: skip


def test_drawn_boxes_are_right_or_refused() -> None:
    """About half of them are possible."""
    found = Counter[str]()
    for seed in range(300):
        try:
            built = tilegen.build(draw_tma_copy(seed))
        except SpecError:
            found["refused"] += 1
            continue
        found["right"] += bool(verify_gpu(built, [seed]).lines)
    assert found["right"] > 60, found


def test_drawn_boxes_that_begin_before_their_array_are_right_or_refused() -> None:
    """What they read there is 0, and nothing is written: neither before the array nor in another row."""
    found = Counter[str]()
    for seed in range(300):
        try:
            built = tilegen.build(draw_tma_copy(seed, is_early=True))
        except SpecError:
            found["refused"] += 1
            continue
        found["right"] += bool(verify_gpu(built, [seed]).lines)
    assert found["right"] > 60, found


@pytest.mark.parametrize("how", COPIES)
def test_windows_that_begin_before_their_array_are_right(how: str) -> None:
    """Loads by threads and by cp.async, as wide as they may be."""
    for seed in range(8):
        window = draw_window(random.Random(f"{how} {seed}"), ("float32",))
        assert verify_gpu(tilegen.build(reading(window, how)), [seed]).lines


@pytest.mark.parametrize("pad", ["-1", "inf", "2.5"])
def test_pads_are_what_is_read(pad: str) -> None:
    for how in ("from array to array", "into registers", "by elementwise", "turned over"):
        window = draw_window(random.Random(f"{how} {pad}"), ("float32", "float16"))
        text = reading(window, how).replace("edge: clip", f"edge: clip, pad: {pad}")
        assert verify_gpu(tilegen.build(text), [1]).lines
