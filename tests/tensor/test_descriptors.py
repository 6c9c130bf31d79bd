"""Descriptors of tcgen05.mma: the bits that other compilers give, and that the hardware reads the tile by them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.faults.texts import change_text
from tests.faults.verdicts import refusal_of
from tests.layouts.recorded import load_document
from tests.ptx.kernels import requires_nvrtc
from tilegen.dtypes import DTYPES
from tilegen.errors import LayoutError, SpecError
from tilegen.layouts import ATOMS, ComposeLayout, TileLayout, canonicalize, mma_shared_layout, parse, swizzle_atom
from tilegen.ops.mma.descriptors import WIDE_SWIZZLE, describe_tile
from tilegen.pipeline import build
from tilegen.plan import MatrixDescriptor
from tilegen.plan.instruction_descriptor import InstructionDescriptor, decode_instruction
from tilegen.verifying.devices import verify

RECORDED = load_document("tcgen05.json")
SIZES = {"tfloat32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1}


# ---------------------------------------------------------------- the instruction
def has(row: list[Any]) -> InstructionDescriptor:
    m, n, a, b, c, a_along, b_along, factors, a_factor, b_factor = row[1:11]
    return InstructionDescriptor(m, n, a, b, c, a_along, b_along, m > 128, factors, a_factor, b_factor)


def test_instruction_descriptors_are_those_of_other_compilers() -> None:
    for row in RECORDED["instructions"]:
        assert has(row).encode() == int(row[11], 16), row


def test_what_bits_say_is_what_was_encoded() -> None:
    """Decoded from what other compilers gave, not from what is encoded here; every other bit set is no product."""
    for row in RECORDED["instructions"]:
        said, bits = has(row), int(row[11], 16)
        if said.problem() and not said.kind:
            continue
        assert decode_instruction(bits, said.kind) == replace(said, pair=False), row
        with pytest.raises(ValueError, match="no product of"):
            decode_instruction(bits | 1 << 3, said.kind)  # saturate


# What other compilers encode though no instruction has it; the bits are what the fields mean all the same.
NOT_THERE = {
    "of one CTA multiplies 128 rows, not 64": "CUTLASS fills the fields of block-scaled products of any shape",
    "columns in steps of": "TIRx and CUTLASS fill the fields for any N",
    "begin at byte": "CUTLASS fills the ids of factors whatever the kind",
}


def test_instructions_of_other_compilers_that_there_are_not() -> None:
    found = {why: 0 for why in NOT_THERE}
    for row in RECORDED["instructions"]:
        if problem := has(row).problem():
            (why,) = (w for w in NOT_THERE if w in problem)
            found[why] += 1
            assert "triton" not in row[0] and "cute_dsl" not in row[0], (row, problem)
    assert all(found.values()), found


def test_products_with_factors_take_the_bytes_that_they_come_to() -> None:
    """Triton's products in their order along K: each takes its own factors of the four in a column."""
    for m, n, _, a, b, each, factors, products, _ in RECORDED["factors"]:
        count = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}[products[0][0]]  # of factors a product, K / each
        assert count == {"mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}[products[0][0]] // each
        for k, (kind, descriptor, _, _) in enumerate(products):
            byte = k * count % 4
            own = InstructionDescriptor(m, n, a, b, "float32", factors=factors, a_factor=byte, b_factor=byte)
            assert (own.kind, own.problem(), own.encode()) == (kind, "", int(descriptor, 16))


def read_instruction(bits: int) -> tuple[int, ...]:
    """D's, A's and B's format, majors, N and M (PTX ISA, tcgen05: Instruction descriptor, dense kinds)."""
    assert not bits & ~0x1F7F9FB0 | bits >> 29
    fields = ((4, 2), (7, 3), (10, 3), (15, 1), (16, 1), (17, 6), (24, 5))
    return tuple(bits >> at & (1 << width) - 1 for at, width in fields)


def test_every_atom_has_its_descriptor() -> None:
    formats = {"float16": 0, "bfloat16": 1, "tfloat32": 2, "float8_e4m3fn": 0, "float8_e5m2": 1, "uint8": 0, "int8": 1}
    sums = {"float16": 0, "float32": 1, "int32": 2}
    for atom in (a for a in ATOMS if a.kind == "tcgen05"):
        m, n, _ = atom.shape
        for a_along, b_along in product(("k", "mn"), repeat=2):
            types, is_paired = (atom.a, atom.b, atom.c), atom.ctas == 2
            own = InstructionDescriptor(m, n, *types, a_along, b_along, is_paired, atom.factors)
            assert own.kind == atom.ptx_kind
            is_across = own.b_along == "mn" and SIZES.get(atom.b, 1) == 1
            assert bool(own.problem()) == (is_across and n % (16 * atom.ctas) > 0)  # bytes along N: twice the steps
            wanted = sums[atom.c], formats[atom.a], formats[atom.b], a_along == "mn", b_along == "mn", n // 8, m // 16
            scaled = wanted[1:] if atom.factors else wanted  # their type stands in bit 23, in the place of the sums'
            assert read_instruction(own.encode() & ~(bool(atom.factors) << 23))[-len(scaled) :] == scaled


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"m": 96}, "64 or 128 rows, not 96"), ({"m": 256}, "64 or 128 rows, not 256"),
        ({"m": 64, "pair": True}, "a pair of CTAs multiplies 128 or 256 rows, not 64"),
        ({"n": 264}, "8 to 256 columns in steps of 8, not 264"), ({"n": 0}, "not 0"), ({"n": 12}, "steps of 8, not 12"),
        ({"n": 24, "pair": True, "m": 256}, "steps of 16, not 24"),
        ({"a": "int8", "b": "uint8", "c": "int32", "n": 40}, "steps of 16, not 40"),
        ({"a": "int8", "b": "uint8", "c": "int32", "n": 16, "m": 128, "pair": True}, "steps of 32, not 16"),
        ({"a": "float8_e5m2", "b": "float8_e5m2", "b_along": "mn", "n": 24}, "steps of 16, not 24"),
        ({"a": "float16"}, "does not multiply float16 by bfloat16"), ({"c": "float16"}, "into float16"),
        ({"c": "int32"}, "into int32"), ({"b_along": "n"}, "along k or mn"),
        ({"factors": "float8_e8m0fnu"}, "with factors of float8_e8m0fnu"),
        ({"a": "float8_e5m2", "b": "float8_e5m2", "factors": "float8_e4m3fn"}, "with factors of float8_e4m3fn"),
        ({"a": "float8_e5m2", "b": "float8_e5m2", "factors": "float8_e8m0fnu", "m": 64}, "128 rows, not 64"),
        ({"a": "float4_e2m1fn", "b": "float4_e2m1fn", "factors": "float8_e8m0fnu", "a_along": "mn"}, "lie along K"),
        ({"a": "float4_e2m1fn", "b": "float4_e2m1fn", "factors": "float8_e8m0fnu", "a_factor": 1}, "byte 0 or 2"),
        ({"a_factor": 1}, "begin at byte 0 of"),
    ],
)  # fmt: skip
def test_products_that_there_are_not(changes: dict[str, Any], reason: str) -> None:
    plain = {"m": 128, "n": 256, "a": "bfloat16", "b": "bfloat16", "c": "float32"}
    assert not InstructionDescriptor(**plain).problem()  # type: ignore[arg-type]
    assert reason in InstructionDescriptor(**{**plain, **changes}).problem()


# ---------------------------------------------------------------- matrices in shared memory
def matrix_of(
    dtype: str, rows: int, along: str, swizzle: int, wide: bool, offsets: tuple[int, int]
) -> MatrixDescriptor:
    return MatrixDescriptor(rows, SIZES[dtype], along, swizzle, *offsets, "tcgen05", 32 if wide else 16)


def test_matrix_descriptors_are_those_of_other_compilers() -> None:
    """All bits where the offsets are theirs."""
    for _, dtype, rows, _, along, swizzle, wide, leading, stride, descriptor, steps in RECORDED["matrices"]:
        lies = matrix_of(dtype, rows, along, swizzle, wide, (leading, stride))
        assert not lies.problem()
        for start in steps:
            assert lies.encode(start) == int(descriptor, 16) + (start >> 4)


def tile_of_tool(tool: str, dtype: str, rows: int, k: int, along: str, swizzle: int, wide: bool) -> Any:
    """The shared layout that a compiler has for an operand, over (MN, K), or (K, MN) where it lies along MN."""
    size = SIZES[dtype]
    width, group = max(16, swizzle) // size, 4 if wide else 8
    if along == "k":  # blocks of the swizzle's width one behind the other along K
        tile = parse(f"S[({rows}, {k // width}, {width}):({width}, {rows * width}, 1)]")
    elif tool == "triton":  # panels along MN one behind the other
        tile = parse(f"S[({k}, {rows // width}, {width}):({width}, {k * width}, 1)]")
    else:  # CUTLASS: blocks of one group of K, all of MN first
        many, block = rows // width, group * width
        tile = parse(f"S[({k // group}, {group}, {many}, {width}):({many * block}, {width}, {block}, 1)]")
    assert isinstance(tile, TileLayout)
    swizzled = WIDE_SWIZZLE if wide else swizzle_atom("float32" if size == 4 else dtype, swizzle)
    return canonicalize(ComposeLayout(swizzled, tile) if swizzle else tile)


# Offsets that no matrix of the case needs, so that compilers write what they like.
NOT_READ = {
    "leading, along K under a swizzle": "Triton writes 0, CUTLASS and tilegen 16: PTX ISA says that it is not used",
    "leading, one block along MN": "Triton and CUTLASS write 0, tilegen 16: there is no next block",
    "stride, one group of rows": "Triton writes 0, tilegen 16: there is no next group of 8 rows",
}


def test_descriptors_of_tiles_are_those_of_other_compilers() -> None:
    """From the layout that each compiler has: its offsets and steps along K, but for those that nothing is read by."""
    seen = set()
    for tools, dtype, rows, k, along, swizzle, wide, leading, stride, descriptor, steps in RECORDED["matrices"]:
        for tool in tools.split("+"):
            layout = tile_of_tool(tool, dtype, rows, k, along, swizzle, wide)
            shape, size = ((rows, k) if along == "k" else (k, rows)), SIZES[dtype]
            own = describe_tile(
                layout, shape, "float32" if size == 4 else dtype, rows, transposed=along == "mn", engine="tcgen05"
            )
            lies, (starts,) = own.descriptor, own.starts
            assert (lies.along, lies.swizzle_bytes, lies.chunk_bytes) == (along, swizzle, 32 if wide else 16)
            assert [start * size for start in starts] == steps
            if lies.leading_bytes != leading:
                one = along == "mn" and rows * size == swizzle
                assert one or not lies.uses_leading
                seen.add("leading, one block along MN" if one else "leading, along K under a swizzle")
            if lies.stride_bytes != stride:
                assert along == "k" and rows == 8
                seen.add("stride, one group of rows")
            same = matrix_of(dtype, rows, along, swizzle, wide, (leading, stride))
            if lies.stride_bytes == stride and lies.leading_bytes == leading:
                assert lies == same and lies.encode(0) == int(descriptor, 16)
            assert np.array_equal(lies.offsets(), same.offsets())
    assert seen == set(NOT_READ)


def test_places_of_operands_are_those_of_another_compiler() -> None:
    for dtype, rows, _, along, swizzle, wide, leading, stride, steps, places in RECORDED["places"]:
        lies = matrix_of(dtype, rows, along, swizzle, wide, (leading, stride))
        offsets = lies.offsets()
        for row, k, byte in places:
            start = steps[k // lies.depth]
            at = start + int(offsets[row, k % lies.depth])
            assert lies.swap_chunks(at) == byte
            assert read_by(lies.encode(start), lies.elem_bytes, along, row, k % lies.depth) == byte


def read_by(bits: int, elem_bytes: int, along: str, row: int, k: int) -> int:
    """The byte of shared memory at which the hardware reads an element of a matrix, from the 64 bits alone.

    PTX ISA, tcgen05: Canonical layouts and Shared memory descriptor.
    """
    start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    width, chunk = {0: (16, 16), 1: (128, 32), 2: (128, 16), 4: (64, 16), 6: (32, 16)}[bits >> 61]
    assert bits >> 46 & 7 == 1 and bits >> 49 & 0xFFF == 0  # version; base offset 0, leading offset no address
    if along == "k":
        over = leading if bits >> 61 == 0 else 16
        byte = row % 8 * width + row // 8 * stride + k * elem_bytes % 16 + k * elem_bytes // 16 * over
    else:
        group = 8 * 16 // chunk
        over, deep = (stride, leading) if bits >> 61 == 0 else (leading, stride)
        at = row * elem_bytes
        byte = at % width + at // width * over + k % group * width + k // group * deep
    byte += start
    return byte ^ (byte >> 7 & width // chunk - 1) * chunk


def test_copies_of_scale_factors_read_32_rows_of_16_bytes() -> None:
    """The descriptors of Triton's cp.32x128b.warpx4, of 512 bytes without a swizzle.

    Triton writes base offset 4 for some: without a swizzle there is no pattern for which anything reads it.
    """
    lies = MatrixDescriptor(32, 1, "k", 0, 0, 128, "tcgen05")
    assert lies.offsets()[:, :16].ravel().tolist() == list(range(512))
    for *_, copies in RECORDED["factors"]:
        for op, _, start, leading, stride, version, base_offset, swizzle in copies:
            assert (op, base_offset % 4) == ("tcgen05.cp.cta_group::1.warpx4.32x128b", 0)
            fields = start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | version << 46 | swizzle << 61
            assert lies.encode(start) == fields


def check(layout: Any, shape: tuple[int, int], dtype: str, rows: int, transposed: bool) -> str:
    """Every element of a tile at a byte of shared memory is where the hardware reads it; along which it lies."""
    base = 4096
    found, size = describe_tile(layout, shape, dtype, rows, transposed, "tcgen05"), DTYPES[dtype].bytes
    lies = found.descriptor
    assert not lies.problem() and base % lies.pattern_bytes == 0 and lies.engine == "tcgen05"
    place = layout.place(tuple(np.indices(shape)), shape)["m"] * size + base
    place = place.T if transposed else place
    for i, steps in enumerate(found.starts):
        for s, start in enumerate(steps):
            bits = lies.encode(base + start * size)
            for row, k in product(range(rows), range(lies.depth)):
                byte = read_by(bits, size, lies.along, row, k)
                assert byte == place[i * rows + row, s * lies.depth + k], (str(layout), row, k)
    assert len(found.starts) * rows == place.shape[0] and len(found.starts[0]) * lies.depth == place.shape[1]
    return lies.along


@pytest.mark.sweep(2)
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float8_e4m3fn"])
def test_tiles_along_k(dtype: str, swizzle: int) -> None:
    width = max(32, swizzle) // DTYPES[dtype].bytes
    for rows, many, steps in product((8, 24, 64), (1, 2), (1, 2)):
        shape = (rows * many, width * steps)
        assert check(mma_shared_layout(dtype, swizzle, shape), shape, dtype, rows, False) == "k"


@pytest.mark.sweep(2)
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_tiles_along_m_or_n(dtype: str, swizzle: int) -> None:
    """The buffer is K by N, with panels of N as wide as the swizzle one behind the other."""
    size = DTYPES[dtype].bytes
    for panels, many, depth in product((1, 2, 3), (1, 2), (32 // size, 96 // size)):
        rows = panels * max(16, swizzle) // size
        shape = (depth, rows * many)
        assert check(mma_shared_layout(dtype, swizzle, shape), shape, dtype, rows, True) == "mn"


def test_floats_along_n_trade_places_by_32_bytes() -> None:
    panels = "Swizzle(3, 2, 2) o S[(16, 4, 32):(32, 512, 1)]"  # of N, one behind the other
    groups = "Swizzle(3, 2, 2) o S[(4, 4, 4, 32):(512, 32, 128, 1)]"  # four of K each, all of N first
    for text, rows in ((panels, 32), (panels, 64), (panels, 128), (groups, 64), (groups, 128)):
        assert check(parse(text), (16, 128), "float32", rows, True) == "mn"
    with pytest.raises(LayoutError, match="begins at byte 512, not a multiple of 1024"):
        describe_tile(parse(groups), (16, 128), "float32", 32, True, "tcgen05")


REFUSED = {
    "floats along N, by 16 bytes": (
        "Swizzle(2, 3, 3) o S[1024:1]", (32, 32), "float32", True, "in chunks of 16 bytes only elements of 1 or 2"),
    "floats along N, as they are": (
        "S[(32, 8, 4):(4, 128, 1)]", (32, 32), "float32", True, "in chunks of 16 bytes only elements of 1 or 2"),
    "floats along K, by 32 bytes": (
        "Swizzle(3, 2, 2) o S[1024:1]", (32, 32), "float32", False, "only tcgen05's elements of 4 bytes along mn"),
    "halves by 32 bytes": ("Swizzle(4, 2, 2) o S[4096:1]", (64, 64), "bfloat16", False, "tcgen05 knows the swizzles"),
    "half of a panel": ("Swizzle(3, 3, 3) o S[2048:1]", (32, 64), "bfloat16", True, "whole rows of 128 bytes"),
    "padding between rows": ("S[(64, 64):(72, 1)]", (64, 64), "bfloat16", False, "lies 16 bytes"),
    "between patterns": (
        "Swizzle(3, 3, 3) o S[(64, 64):(64, 1)] + 64", (64, 64), "bfloat16", False, "begins at byte 128"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_descriptor_says_is_refused_with_the_reason(what: str) -> None:
    text, shape, dtype, transposed, reason = REFUSED[what]
    rows = 32 if "half" in what or dtype == "float32" else 64
    with pytest.raises(LayoutError, match=reason):
        describe_tile(parse(text), shape, dtype, rows, transposed, "tcgen05")


def test_a_descriptor_of_one_engine_is_not_the_others() -> None:
    """The version, and the number of each swizzle where there is one, differ; wide chunks are tcgen05's."""
    for swizzle, size in product((0, 32, 64, 128), (1, 2, 4)):
        ours, theirs = (MatrixDescriptor(64, size, "k", swizzle, 16, 1024, e) for e in ("tcgen05", "wgmma"))
        assert ours.encode(1024) ^ theirs.encode(1024) == 1 << 46
    assert "only tcgen05's" in MatrixDescriptor(64, 4, "mn", 128, 4096, 512, "wgmma", 32).problem()
    assert "only tcgen05's" in MatrixDescriptor(64, 4, "mn", 64, 4096, 512, "tcgen05", 32).problem()
    assert "only tcgen05's" in MatrixDescriptor(64, 2, "mn", 128, 4096, 512, "tcgen05", 32).problem()
    assert not MatrixDescriptor(64, 4, "mn", 128, 4096, 512, "tcgen05", 32).problem()
    assert "wgmma or tcgen05 reads" in MatrixDescriptor(64, 2, "k", 128, 16, 1024, "mma").problem()


# ---------------------------------------------------------------- float32 along N
ALONG_N = """kernel: k
arch: sm_100a
threads: 128
buffers:
  A: {scope: global, dtype: float32, shape: [128, 32]}
  B: {scope: global, dtype: float32, shape: [32, 64]}
  C: {scope: global, dtype: float32, shape: [128, 64]}
  sa: {scope: shared, dtype: float32, shape: [128, 32], layout: auto}
  sb: {scope: shared, dtype: float32, shape: [32, 64], layout: "Swizzle(3,2,2) o S[(32,2,32):(32,1024,1)]"}
  acc: {scope: tmem, dtype: float32, shape: [128, 64], layout: auto}
  x: {scope: register, dtype: float32, shape: [128, 64], layout: auto}
barriers: {done: {slots: 1}}
ops:
  - copy: {src: B, dst: sb}
  - copy: {src: A, dst: sa}
  - sync: async
  - sync: cta
  - mma: {a: sa, b: sb, c: acc, accumulate: false, async: true, atom: tcgen05.m128n64k8.f32.tf32.tf32}
  - commit: {barrier: done}
  - wait: {barrier: done}
  - copy: {src: acc, dst: x}
  - copy: {src: x, dst: C}
"""


def test_float32_along_n_is_multiplied_in_chunks_of_32_bytes() -> None:
    """Threads write the tile: its buffer begins at 1024 bytes, though the swizzle repeats after 512."""
    built = build(ALONG_N)
    (sb,) = [m for m in built.plan.memories if m.name == "sb"]
    assert sb.align_bytes == 1024 and built.plan.operations[2].variant == "tcgen05"


@requires_nvrtc
def test_the_machine_multiplies_float32_along_n() -> None:
    assert verify(ALONG_N, device="ptx", seeds=[1]).device == "ptx"


def test_float32_along_n_by_tma_is_refused_with_what_does() -> None:
    """Not by the other operand, whose layout would be fine."""
    text = change_text(
        ALONG_N, ('"Swizzle(3,2,2) o S[(32,2,32):(32,1024,1)]"', "auto"), ("s: {done", "s: {full: {slots: 1}, done"),
        ("  - copy: {src: B, dst: sb}", "  - copy: {src: B, dst: sb, variant: tma, barrier: full}"),
        ("  - mma", "  - wait: {barrier: full}\n  - mma"),
    )  # fmt: skip
    (found,) = refusal_of(SpecError, build, text).diagnostics
    assert found.code == "TG301" and "tcgen05: sb: no descriptor" in found.message and "sa:" not in found.message
    assert "those of 4 do in chunks of 32 bytes, Swizzle(3, 2, 2) over rows of 128" in found.message
    assert "which threads write and TMA does not; along K all may" in found.message
