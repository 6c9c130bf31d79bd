"""Matrix descriptors of wgmma: by every one that is made the hardware reads the elements of the tile, all of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tilegen.dtypes import DTYPES
from tilegen.errors import LayoutError
from tilegen.layouts import mma_shared_layout, parse
from tilegen.ops.mma.descriptors import describe_tile
from tilegen.plan import MatrixDescriptor

DTYPE_NAMES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "int8")
SWIZZLES = (0, 32, 64, 128)


def read_by(bits: int, elem_bytes: int, along: str, row: int, k: int) -> int:
    """The byte of shared memory at which the hardware reads an element of a matrix, from the 64 bits alone.

    PTX ISA, wgmma: Canonical Layouts and Matrix Descriptor Format, in chunks of 16 bytes ("T" elements).
    """
    start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    wide = {0: 1, 1: 8, 2: 4, 3: 2}[bits >> 62]  # chunks of a row of a swizzle atom
    assert bits >> 49 & 7 == 0
    t = 16 // elem_bytes
    if along == "k":  # ((8,m),(T,2k)) : ((wide T, SBO), (1, LBO or T))
        over = leading if wide == 1 else 16
        byte = row % 8 * wide * 16 + row // 8 * stride + k % t * elem_bytes + k // t * over
    elif wide == 1:  # ((T,1,m),(8,k)) : ((1, T, SBO), (1T, LBO))
        byte = row % t * elem_bytes + row // t * stride + k % 8 * 16 + k // 8 * leading
    else:  # ((T,wide,m),(8,k)) : ((1, T, LBO), (wide T, SBO))
        byte = row % t * elem_bytes + row // t % wide * 16 + row // (t * wide) * leading
        byte += k % 8 * wide * 16 + k // 8 * stride
    byte += start
    return byte ^ (byte >> 7 & wide - 1) << 4  # Swizzle<log2(wide), 4, 3>


def check(layout: object, shape: tuple[int, int], dtype: str, rows: int, transposed: bool, base: int) -> str:
    """Every element of a tile at a byte of shared memory is where the hardware reads it."""
    found, size = describe_tile(layout, shape, dtype, rows, transposed), DTYPES[dtype].bytes  # type: ignore[arg-type]
    lies = found.descriptor
    assert not lies.problem() and base % lies.pattern_bytes == 0
    place = layout.place(tuple(np.indices(shape)), shape)["m"] * size + base  # type: ignore[attr-defined]
    place = place.T if transposed else place
    ours = lies.offsets()
    for i, steps in enumerate(found.starts):
        for s, start in enumerate(steps):
            bits = lies.encode(base + start * size)
            for row, k in product(range(rows), range(lies.depth)):
                byte = read_by(bits, size, lies.along, row, k)
                assert byte == place[i * rows + row, s * lies.depth + k], (str(layout), row, k)
                assert byte == lies.swap_chunks(base + start * size + int(ours[row, k]))
    assert len(found.starts) * rows == place.shape[0] and len(found.starts[0]) * lies.depth == place.shape[1]
    return lies.along


@pytest.mark.sweep(2)
@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_tiles_along_k(dtype: str, swizzle: int) -> None:
    width = max(32, swizzle) // DTYPES[dtype].bytes
    for rows, many, steps in product((8, 24, 64), (1, 2), (1, 2, 3)):
        shape = (rows * many, width * steps)
        layout = mma_shared_layout(dtype, swizzle, shape)
        assert check(layout, shape, dtype, rows, False, 2048) == "k"


@pytest.mark.sweep(3)
@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_tiles_along_m_or_n(dtype: str, swizzle: int) -> None:
    """The buffer is K by N, with panels of N as wide as the swizzle one behind the other."""
    width = max(16, swizzle) // 2
    for rows, many, depth in product((width, 2 * width, 64), (1, 2), (16, 32, 48)):
        shape = (depth, rows * many)
        layout = mma_shared_layout(dtype, swizzle, shape)
        assert check(layout, shape, dtype, rows, True, 4096) == "mn"


def test_several_stages_and_other_orders_of_the_atoms() -> None:
    """Stages outermost; atoms one behind the other along K first, or along M first; gaps between them."""
    for text in (
        "Swizzle(3, 3, 3) o S[(16, 8, 2, 64):(1024, 64, 512, 1)]",  # the panels of 8 rows side by side
        "Swizzle(3, 3, 3) o S[(16, 8, 2, 64):(512, 64, 8192, 1)]",  # those of all rows one behind the other
        "Swizzle(3, 2, 3) o S[(16, 8, 4, 32):(512, 32, 8192, 1)]",  # room between groups of 8 rows
        "S[(16, 8, 16, 8):(1024, 8, 64, 1)]",  # chunks of 8 rows side by side
        "S[(16, 8, 16, 8):(64, 8, 1024, 1)]",
        "S[(16, 8, 16, 8):(72, 8, 2048, 1)]",  # a chunk of padding after each group
    ):
        assert check(parse(text), (128, 128), "bfloat16", 64, False, 1024) == "k"


def test_what_a_matrix_is_for_the_hardware() -> None:
    """The figures of PTX's examples, and of a kernel that multiplies right on an H200."""
    none, swizzled = parse("S[(2, 8, 4, 4):(32, 4, 64, 1)]"), parse("Swizzle(2, 1, 3) o S[(2, 8, 8):(64, 8, 1)]")
    found = describe_tile(none, (16, 16), "float32", 16).descriptor
    assert (found.leading_bytes >> 4, found.stride_bytes >> 4) == (16, 8)
    found = describe_tile(swizzled, (16, 8), "float32", 16).descriptor
    assert (found.leading_bytes >> 4, found.stride_bytes >> 4) == (1, 16)
    wide = mma_shared_layout("bfloat16", 128, (128, 64))
    found = describe_tile(wide, (128, 64), "bfloat16", 128).descriptor
    assert found.encode(0x8000) == 0x8000 >> 4 | 1 << 16 | 64 << 32 | 1 << 62
    for text, columns, leading, stride in (  # bf16 along MN: none, 32 and 64 bytes
        ("S[(2, 8, 2, 8):(128, 8, 64, 1)]", 16, 16, 8),
        ("Swizzle(3, 1, 3) o S[(2, 8, 2, 16):(256, 16, 128, 1)]", 32, 16, 32),
        ("Swizzle(3, 2, 3) o S[(2, 8, 2, 32):(512, 32, 256, 1)]", 64, 32, 64),
    ):
        found = describe_tile(parse(text), (16, columns), "bfloat16", columns, True).descriptor
        assert (found.along, found.leading_bytes >> 4, found.stride_bytes >> 4) == ("mn", leading, stride)


REFUSED = {
    "rows of 128 bytes as they are": ("S[4096:1]", (64, 64), "bfloat16", False, r"\(1, 0\) .* lies 16 bytes .* 128"),
    "a swizzle of another size of element": ("Swizzle(3, 3, 3) o S[4096:1]", (64, 64), "float32", False, "knows the"),
    "a swizzle over rows of another width": (
        "Swizzle(3, 3, 3) o S[8192:1]", (64, 128), "bfloat16", False, r"\(1, 0\) .* lies 128 bytes .* 256"),
    "padding between rows": ("S[(64, 64):(72, 1)]", (64, 64), "bfloat16", False, "lies 16 bytes"),
    "bytes along N": ("Swizzle(4, 3, 3) o S[4096:1]", (32, 128), "int8", True, "only elements of 2 bytes"),
    "floats along N": ("Swizzle(2, 3, 3) o S[1024:1]", (32, 32), "float32", True, "only elements of 2 bytes"),
    "half of an atom along N": ("Swizzle(3, 3, 3) o S[2048:1]", (32, 64), "bfloat16", True, "whole rows of 128 bytes"),
    "atoms that begin between patterns": (
        "Swizzle(3, 3, 3) o S[(64, 64):(64, 1)] + 64", (64, 64), "bfloat16", False, "begins at byte 128"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_descriptor_says_is_refused_with_the_reason(what: str) -> None:
    text, shape, dtype, transposed, reason = REFUSED[what]
    rows = 32 if what.startswith("half") else 32 if dtype == "float32" and transposed else 64
    with pytest.raises(LayoutError, match=reason):
        describe_tile(parse(text), shape, dtype, rows, transposed)


def test_fields_that_the_descriptor_does_not_hold() -> None:
    assert "below 262144" in MatrixDescriptor(64, 2, "k", 128, 16, 1 << 18).problem()
    assert "multiples of 16" in MatrixDescriptor(64, 2, "k", 0, 8, 128).problem()
    assert "not" in MatrixDescriptor(64, 2, "k", 16, 16, 128).problem()
    assert "2 bytes" in MatrixDescriptor(64, 1, "mn", 64, 16, 128).problem()
