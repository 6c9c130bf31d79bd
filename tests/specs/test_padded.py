"""Padded shared buffers on their way through specs: allocated, widened and addressed as their layout says.

Every spec is built, so its addresses are proved and its simulated memory is compared with the reference.
"""

from __future__ import annotations

import random
import re

import pytest

from specs.kernels import ROOT, build_spec
from tilegen.layouts import PaddedSharedLayout, chunk_of
from tilegen.pipeline import Built, build

HEAD = "kernel: demo\narch: sm_90\nthreads: 32\n"


def build_roundtrip(dtype: str, shape: list[int], layout: str, more: str = "", read: str = "s") -> Built:
    return build(
        f"{HEAD}buffers:\n"
        f"  X: {{scope: global, dtype: {dtype}, shape: {shape}}}\n"
        f"  Y: {{scope: global, dtype: {dtype}, shape: {shape}}}\n"
        f"  s: {{scope: shared, dtype: {dtype}, shape: {shape}, layout: {layout}}}\n"
        f"{more}ops:\n"
        "  - copy: {src: X, dst: s}\n"
        "  - sync: cta\n"
        f"  - copy: {{src: {read}, dst: Y}}\n"
    )


def allocated(built: Built) -> int:
    return next(int(n) for n in re.findall(r"__shared__ [^;]*\bs\[(\d+)\]", built.source))


WIDTHS = [
    ("float32", [32, 32], [[32, 4]], 4),
    ("float32", [32, 32], [[32, 2]], 2),
    ("float32", [32, 32], [[32, 1]], 1),
    ("float32", [32, 32], [[2, 4]], 2),  # the interval cuts
    ("float32", [32, 32], [[4096, 1]], 4),  # padding behind the last element is none
    ("float32", [32, 32], [[32, 4], [512, 1]], 1),
    ("int16", [32, 32], [[32, 8]], 8),
    ("int16", [32, 32], [[32, 2]], 2),
    ("int8", [32, 32], [[16, 4]], 4),
    ("int8", [32, 32], [[32, 16]], 16),
]


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("dtype", "shape", "pairs", "width"), WIDTHS)
def test_vectors_keep_inside_intervals_and_aligned(
    dtype: str, shape: list[int], pairs: list[list[int]], width: int
) -> None:
    """No vector crosses padding and none is misaligned: the widest that the padding allows, where it costs nothing."""
    layout = PaddedSharedLayout.with_identity_for(pairs, shape, [1, 0])
    built = build_roundtrip(dtype, shape, f"{{interval_padding_pairs: {pairs}, order: [1, 0]}}")
    assert allocated(built) == layout.allocated_elems
    assert chunk_of(layout) >= width
    assert max(store_widths(built, dtype)) == width


def store_widths(built: Built, dtype: str) -> list[int]:
    """Elements of each access to s: whole vectors through a cast, one element without."""
    bytes_each = {"complex128": 16, "float32": 4, "int16": 2, "int8": 1}[dtype]
    vectors = {
        "uint4": 16,
        "float4": 16,
        "uint2": 8,
        "float2": 8,
        "unsigned": 4,
        "unsigned int": 4,
        "unsigned short": 2,
        "unsigned char": 1,
    }
    casts = re.findall(r"\*\((?:const )?([a-z]\w*(?: \w+)?) \*\)&s\[", built.source)
    return [1] * bool(re.search(r"[^&\w]s\[", built.source.split("__device__", 1)[1])) + [
        vectors.get(name, bytes_each) // bytes_each for name in casts
    ]


def draw_layout(seed: int) -> tuple[PaddedSharedLayout, str]:
    draw = random.Random(seed)
    rank = draw.randint(1, 3)
    bits = [draw.randint(1, (9, 5, 3)[rank - 1]) for _ in range(rank)]
    bases = [[1 << k if e == d else 0 for e in range(rank)] for d in reversed(range(rank)) for k in range(bits[d])]
    keep = draw.randrange(len(bases) + 1)  # so many low bits stay: contiguous runs of every length
    tail = bases[keep:]
    draw.shuffle(tail)
    pairs = [[1 << k, 1 << draw.randint(0, 4)] for k in draw.sample(range(8), draw.randint(1, 3))]
    layout = PaddedSharedLayout(pairs, bases[:keep] + tail, [], [1 << b for b in bits])
    return layout, draw.choice(("float32", "int16", "int8", "complex128"))


@pytest.mark.sweep(3)
@pytest.mark.parametrize("seed", range(40))
def test_any_padded_buffer_builds(seed: int) -> None:
    layout, dtype = draw_layout(seed)
    mapping = (
        f"{{interval_padding_pairs: {rows(layout.interval_padding_pairs)}, offset_bases: {rows(layout.offset_bases)}}}"
    )
    built = build_roundtrip(dtype, list(layout.shape), mapping)
    assert allocated(built) == layout.allocated_elems
    assert all(width <= chunk_of(layout) for width in store_widths(built, dtype))
    again = build_roundtrip(dtype, list(layout.shape), f'"{layout}"')
    assert strip(again.source) == strip(built.source)


def rows(pairs: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    return [list(row) for row in pairs]


def strip(source: str) -> str:
    return re.sub(r" *// .*\n", "\n", source).replace("\n\n", "\n")


@pytest.mark.parametrize("begin", range(13))
def test_a_region_that_starts_inside_an_interval(begin: int) -> None:
    """Element 7 lies at 8, which is aligned, but a vector of 4 from there would cross the padding behind it."""
    built = build(
        f"{HEAD}buffers:\n"
        "  X: {scope: global, dtype: float32, shape: [16]}\n"
        "  Y: {scope: global, dtype: float32, shape: [4]}\n"
        "  s: {scope: shared, dtype: float32, shape: [16], layout: {interval_padding_pairs: [[4, 1]], order: [0]}}\n"
        "ops:\n"
        "  - copy: {src: X, dst: s}\n"
        "  - sync: cta\n"
        f'  - copy: {{src: "s[{begin} : +4]", dst: Y}}\n'
    )
    assert store_widths(built, "float32") == [1]


def test_views_of_padded_buffers() -> None:
    """A transpose, another shape and other bits of the same bytes."""
    padded = "{interval_padding_pairs: [[32, 4]], order: [1, 0]}"
    build_roundtrip("float32", [32, 32], padded, "  t: {view: s, axes: [1, 0]}\n  v: {view: t, axes: [1, 0]}\n", "v")
    build_roundtrip(
        "float32", [32, 32], padded, "  v: {view: s, shape: [8, 4, 32]}\n  w: {view: v, shape: [32, 32]}\n", "w"
    )


@pytest.mark.parametrize("pairs", [[[32, 1]], [[16, 2]], [[8, 1], [64, 4]]], ids=str)
def test_permute_layout_takes_padded_tiles(pairs: list[list[int]]) -> None:
    head = f"scope: shared, dtype: float32, shape: [4, 32], layout: {{interval_padding_pairs: {pairs}"
    built = build(
        f"{HEAD}buffers:\n"
        "  X: {scope: global, dtype: float32, shape: [4, 32]}\n"
        "  Y: {scope: global, dtype: float32, shape: [4, 32]}\n"
        f"  a: {{{head}, order: [1, 0]}}}}\n  b: {{{head}, order: [0, 1]}}}}\n"
        "ops:\n"
        "  - copy: {scope: warp, src: X, dst: a}\n"
        "  - sync: warp\n"
        "  - permute_layout: {scope: warp, src: a, dst: b}\n"
        "  - copy: {scope: warp, src: b, dst: Y}\n"
    )
    assert "permute_a_b" in built.source


def test_padding_by_strides_and_by_pairs_is_the_same_kernel() -> None:
    plain, gluon = (build_spec(ROOT / "specs" / f"{name}.yaml").source for name in ("padded_rows", "padded_rows_gluon"))
    bodies = [strip(s[s.index("__device__") :]).replace("padded_rows_gluon", "padded_rows") for s in (plain, gluon)]
    assert bodies[0] == bodies[1]
