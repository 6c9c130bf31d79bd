"""Constructors against the formulas of the PTX ISA and the CUDA driver, element by element, from places to elements."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tilegen.errors import LayoutError
from tilegen.layouts import (
    ComposeLayout,
    SwizzleLayout,
    canonicalize,
    find_tma_problems,
    is_injective,
    ldmatrix_fragment,
    ldmatrix_rows,
    mma_fragment,
    mma_shared_layout,
    parse,
    size,
    stmatrix_fragment,
    swizzle_atom,
    swizzle_atom_shape,
    tcgen05_atom_layout,
    tile,
    tmem_datapath_layout,
    verify,
    wgmma_accumulator,
    wgmma_operand_a,
)
from tilegen.layouts.constructors import CONSTRUCTORS, element_bits

DTYPES = {4: "float4_e2m1fn", 8: "float8_e4m3fn", 16: "float16", 32: "float32", 64: "float64"}


# ---------------------------------------------------------------- mma.sync of every width
def owner_a(bits: int, lane: int, i: int) -> tuple[int, int]:
    """PTX: row = groupID, + 8 in odd registers; column = threadID_in_group * v + element, + 4 v from register 2."""
    v = 32 // bits
    register, element = divmod(i, v)
    return lane // 4 + 8 * (register % 2), lane % 4 * v + element + 4 * v * (register // 2)


def owner_b(bits: int, lane: int, i: int) -> tuple[int, int]:
    v = 32 // bits
    return lane % 4 * v + i % v + 4 * v * (i // v), lane // 4


@pytest.mark.parametrize(
    ("k", "dtype"),
    [(4, "tfloat32"), (8, "tfloat32"), (8, "bfloat16"), (16, "float16"), (16, "int8"), (32, "float8_e5m2"),
     (32, "int4"), (64, "float4_e2m1fn"), (128, "bit"), (256, "bit")],
)  # fmt: skip
def test_mma_operands_of_every_width(k: int, dtype: str) -> None:
    bits = element_bits(dtype)
    for operand, shape, owner in (("A", (16, k), owner_a), ("B", (k, 8), owner_b)):
        layout = mma_fragment(f"m16n8k{k}", operand, dtype=dtype)
        registers = size(layout) // 32
        assert size(layout) == shape[0] * shape[1] == 32 * registers
        for lane, i in product(range(32), range(registers)):
            assert {"m": 0} | layout.place(owner(bits, lane, i), shape) == {"laneid": lane, "m": i}


@pytest.mark.parametrize(("atom", "dtype"), [("m16n8k8", "int8"), ("m16n8k16", "float32"), ("m16n8k32", "float64"),
                                             ("m16n8k16", "float99"), ("m16n8k16", "float6_e2m3fn")])  # fmt: skip
def test_mma_has_no_such_operands(atom: str, dtype: str) -> None:
    with pytest.raises(LayoutError):
        mma_fragment(atom, "A", dtype=dtype)


# ---------------------------------------------------------------- ldmatrix, wgmma
@pytest.mark.parametrize(("matrices", "trans"), list(product([1, 2, 4], [False, True])))
def test_ldmatrix(matrices: int, trans: bool) -> None:
    layout = ldmatrix_fragment(matrices, trans)
    for lane, register, half in product(range(32), range(matrices), range(2)):
        row, column = lane // 4, 2 * (lane % 4) + half
        at = (register, column, row) if trans else (register, row, column)
        assert layout.place(at, (matrices, 8, 8)) == {"laneid": lane, "m": 2 * register + half}
    assert stmatrix_fragment(matrices, trans) == layout
    for lane in range(8 * matrices):
        assert ldmatrix_rows(matrices).place((lane // 8, lane % 8), (matrices, 8)) == {"laneid": lane}


def test_four_matrices_are_an_a_operand() -> None:
    """ldmatrix.x4 of a 16 x 16 tile, matrices down the rows first, leaves what mma.m16n8k16 reads."""
    loaded, operand = ldmatrix_fragment(4), mma_fragment("m16n8k16", "A")
    for i, j in product(range(16), range(16)):
        matrix = i // 8 + 2 * (j // 8)
        assert loaded.place((matrix, i % 8, j % 8), (4, 8, 8)) == operand.place((i, j), (16, 16))


@pytest.mark.parametrize("n", [8, 24, 64, 256])
def test_wgmma_accumulators(n: int) -> None:
    layout = wgmma_accumulator(n)
    for warp, lane, i in product(range(4), range(32), range(n // 2)):
        at = (16 * warp + lane // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (lane % 4) + i % 2)
        assert layout.place(at, (64, n)) == {"wid_in_wg": warp, "laneid": lane, "m": i}


@pytest.mark.parametrize(("dtype", "bits"), [("int8", 8), ("bfloat16", 16), ("tfloat32", 32)])
def test_wgmma_a_from_registers(dtype: str, bits: int) -> None:
    layout, k = wgmma_operand_a(dtype), 256 // bits
    for warp, lane, i in product(range(4), range(32), range(k // 2)):
        row, column = owner_a(bits, lane, i)
        assert layout.place((16 * warp + row, column), (64, k)) == {"wid_in_wg": warp, "laneid": lane, "m": i}


@pytest.mark.parametrize(
    "call",
    [lambda: ldmatrix_fragment(3), lambda: ldmatrix_rows(True),
     lambda: wgmma_accumulator(12), lambda: wgmma_accumulator(264),
     lambda: wgmma_accumulator(0), lambda: wgmma_operand_a("float64"), lambda: wgmma_operand_a("int4")],
)  # fmt: skip
def test_fragments_refuse(call: Any) -> None:
    with pytest.raises(LayoutError):
        call()


# ---------------------------------------------------------------- tensor memory
@pytest.mark.sweep(1)
@pytest.mark.parametrize("cols", [4, 20, 128])
def test_tmem_datapaths(cols: int) -> None:
    for datapath, rows, lane, col in [
        ("A", 128, lambda r, c: r, lambda c: c), ("D", 128, lambda r, c: r, lambda c: c),
        ("B", 64, lambda r, c: r + 64 * (c >= cols // 2), lambda c: c % (cols // 2)),
        ("E", 64, lambda r, c: r + 64 * (c >= cols // 2), lambda c: c % (cols // 2)),
        ("C", 64, lambda r, c: 32 * (r // 16) + r % 16, lambda c: c),
        ("F", 64, lambda r, c: 32 * (r // 16) + r % 16, lambda c: c),
        ("G", 32, lambda r, c: r + 32 * (c // (cols // 4)), lambda c: c % (cols // 4)),
    ]:  # fmt: skip
        slabs = (0, 1) if datapath in "CF" else (0,)
        for slab in slabs:
            layout = tmem_datapath_layout(datapath, rows, cols, slab)
            assert verify(layout, (rows, cols)) == [] and is_injective(layout)
            for r, c in product(range(rows), range(cols)):
                assert layout.place((r, c), (rows, cols)) == {"TLane": lane(r, c) + 16 * slab, "TCol": col(c)}


@pytest.mark.parametrize("args", [("H", 128, 8), ("D", 64, 8), ("F", 64, 8, 2), ("D", 128, 8, 1), ("B", 64, 7),
                                  ("G", 32, 6), ("E", 64, 8, 1), ("D", 128, 0), ("D", 128, 8.0)])  # fmt: skip
def test_tmem_datapaths_refuse(args: Any) -> None:
    with pytest.raises(LayoutError):
        tmem_datapath_layout(*args)


def cell(shape: str, lane: int, register: int, n: int) -> tuple[int, int]:
    """PTX, the figures of tcgen05.ld: (row of the 16 lanes, 32-bit column) of a register of a thread."""
    if shape == "16x64b":
        return lane // 4 + 8 * (lane % 2), 2 * register + lane // 2 % 2
    if shape == "16x128b":
        return lane // 4 + 8 * (register % 2), 4 * (register // 2) + lane % 4
    if shape == "16x256b":
        return lane // 4 + 8 * (register // 2 % 2), 8 * (register // 4) + 2 * (lane % 4) + register % 2
    return lane % 16, register + n * (lane // 16)  # 16x32bx2: the second access in lanes 16 to 31


REGISTERS = {"16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
COLUMNS = {"16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 2, "32x32b": 1}


@pytest.mark.sweep(9)
@pytest.mark.parametrize(("shape", "bits", "rows"), list(product(REGISTERS, [8, 16, 32], [64, 128])))
def test_tcgen05_atoms(shape: str, bits: int, rows: int) -> None:
    packed = 32 // bits
    for n in (1, 4):
        cols, registers = COLUMNS[shape] * n * packed, REGISTERS[shape] * n
        layout = tcgen05_atom_layout(shape, (rows, cols), DTYPES[bits])
        assert verify(layout, (rows, cols)) == []
        for warp, slab, lane, r, k in product(range(4), range(rows // 64), range(32), range(registers), range(packed)):
            row, column = cell(shape, lane, r, n)
            at = (rows // 4 * warp + 16 * slab + row, column * packed + k)
            place = {"wid_in_wg": warp, "laneid": lane, "m": (slab * registers + r) * packed + k}
            assert layout.place(at, (rows, cols)) == place


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_tcgen05_32x32b_is_a_row_for_each_thread(bits: int) -> None:
    for n in (1, 2, 128):
        cols = n * 32 // bits
        layout = tcgen05_atom_layout("32x32b", (128, cols), DTYPES[bits])
        assert all(layout.place((t, c), (128, cols)) == {"tid_in_wg": t, "m": c} for t in (0, 77) for c in range(cols))


def test_tcgen05_reads_what_the_datapaths_write() -> None:
    """The lane of tensor memory that a thread reads is in its warp's quarter, for every element."""
    for rows, datapath in ((64, "F"), (128, "D")):
        memory, registers = (
            tmem_datapath_layout(datapath, rows, 64),
            tcgen05_atom_layout("16x64b", (rows, 64), "float32"),
        )
        for r, c in product(range(rows), (0, 1, 63)):
            lane = memory.place((r, c), (rows, 64))["TLane"]
            assert lane // 32 == registers.place((r, c), (rows, 64))["wid_in_wg"]
    image, memory = tcgen05_atom_layout("32x32b", (64, 32), "float32"), tmem_datapath_layout("B", 64, 32)
    for r, c in product(range(64), range(32)):
        thread, cell_at = image.place((r, c), (64, 32)), memory.place((r, c), (64, 32))
        assert (thread["tid_in_wg"], thread["m"]) == (cell_at["TLane"], cell_at["TCol"])


@pytest.mark.parametrize(
    "args",
    [("64x32b", (128, 8), "float32"), ("16x64b", (32, 8), "float32"), ("16x64b", (64, 8), "float64"),
     ("16x64b", (64, 8), "float4_e2m1fn"), ("16x256b", (64, 512), "float32"), ("32x32b", (128, 1), "float16"),
     ("32x32b", (64, 8), "int8"), ("32x32b", (64, 512), "float32"), ("16x64b", (64,), "float32"),
     ("16x64b", "ab", "float32"), ("32x32b", (128, 0), "float32")],
)  # fmt: skip
def test_tcgen05_refuses(args: Any) -> None:
    with pytest.raises(LayoutError):
        tcgen05_atom_layout(*args)


def test_every_width_of_tcgen05() -> None:
    """PTX, the table of .num: x1 to x128 for .32x32b, .16x64b and .16x32bx2, x64 for .16x128b, x32 for .16x256b."""
    most = {"32x32b": 128, "16x64b": 128, "16x32bx2": 128, "16x128b": 64, "16x256b": 32}
    for shape, bits in product(most, (8, 16, 32)):
        rows = 128 if shape == "32x32b" else 64
        for n in range(1, 260):
            cols = n * COLUMNS[shape] * 32 // bits
            if n & (n - 1) == 0 and n <= most[shape]:
                assert size(tcgen05_atom_layout(shape, (rows, cols), DTYPES[bits])) == rows * cols
            else:
                with pytest.raises(LayoutError, match="repetition"):
                    tcgen05_atom_layout(shape, (rows, cols), DTYPES[bits])


# ---------------------------------------------------------------- shared memory
@pytest.mark.parametrize(("bits", "swizzle_bytes"), list(product(DTYPES, [0, 16, 32, 64, 128])))
def test_swizzle_atoms_by_their_bytes(bits: int, swizzle_bytes: int) -> None:
    """Chunk c of 16 bytes in line l of 128 bytes goes to c ^ (l's low bits), l counted as the swizzle repeats."""
    swizzle = swizzle_atom(DTYPES[bits], swizzle_bytes)
    exchanged = max(1, swizzle_bytes // 16) - 1
    for x in range(4096 * 8 // bits):
        byte, rest = divmod(x * bits, 8)
        moved = byte ^ (byte >> 7 & exchanged) << 4
        assert swizzle.apply(x) == ({"m": (moved * 8 + rest) // bits},)
    if exchanged:
        rows, row = swizzle_atom_shape(DTYPES[bits], swizzle_bytes)
        assert rows * row == size(swizzle) and row * bits == 8 * swizzle_bytes


@pytest.mark.sweep(8)
@pytest.mark.parametrize(("bits", "swizzle_bytes"), list(product(DTYPES, [0, 32, 64, 128])))
def test_operands_in_shared_memory(bits: int, swizzle_bytes: int) -> None:
    width = max(16, swizzle_bytes) * 8 // bits
    rows, cols = 16, 3 * width
    layout, swizzle = (
        mma_shared_layout(DTYPES[bits], swizzle_bytes, (2, rows, cols)),
        swizzle_atom(DTYPES[bits], swizzle_bytes),
    )
    for a, r, c in product(range(2), range(rows), range(cols)):
        linear = a * rows * cols + c // width * rows * width + r * width + c % width
        assert layout.place((a, r, c), (2, rows, cols)) == swizzle.apply(linear)[0]


@pytest.mark.parametrize(("bits", "swizzle_bytes"), list(product(DTYPES, [32, 64, 128])))
def test_operands_are_tiles_of_atoms(bits: int, swizzle_bytes: int) -> None:
    """Atoms down the rows first, then along the columns."""
    dtype = DTYPES[bits]
    rows, width = swizzle_atom_shape(dtype, swizzle_bytes)
    tiles = tile(parse("S[(4, 2):(1, 4)]"), (4, 2), swizzle_atom(dtype, swizzle_bytes), (rows, width))
    assert mma_shared_layout(dtype, swizzle_bytes, (4 * rows, 2 * width)) == tiles


def test_operands_that_are_no_whole_number_of_atoms() -> None:
    assert str(mma_shared_layout("float16", 0, (64, 12))) == "S[768:1]"
    assert str(mma_shared_layout("float16", 128, (12, 64))) == "Swizzle(3, 3, 3) o S[768:1]"
    for args in [("float16", 128, (64, 96)), ("float16", 128, (12, 128)), ("float16", 128, (2, 12, 64)),
        ("float16", 48, (8, 64)),
                 ("float16", 128, (64,)), ("complex128", 128, (8, 64)),
                 ("float16", True, (8, 64)), ("float16", 32, 64)]:  # fmt: skip
        with pytest.raises(LayoutError):
            mma_shared_layout(*args)
    with pytest.raises(LayoutError, match="no atom"):
        swizzle_atom_shape("float16", 0)


TMA = [
    (("float16", (64, 64), 128), []),
    (("float16", (256, 256)), []),
    (("float4_e2m1fn", (8, 256), 128), []),
    (("float16", (64, 128), 128), ["takes at most 128"]),
    (("float16", (64, 20), 32), ["40 bytes, not a multiple of 16", "takes at most 32"]),
    (("float16", (257, 64), 128), ["1 to 256"]),
    (("float16", (0, 64), 128), ["1 to 256"]),
    (("float16", (1,) * 5 + (64,)), ["1 to 5 dimensions"]),
    (("float16", ()), ["1 to 5 dimensions"]),
    (("float6_e2m3fn", (8, 64)), ["6"]),
    (("complex128", (8, 64)), ["128"]),
    (("float32", (256, 256, 8)), ["mbarrier"]),
    (("float16", (64, 64), 128, (100, 100)), ["stride of dimension 0 is 200 bytes"]),
    (("float16", (64, 64), 128, (100, 100), (208,)), []),
    (("float16", (64, 64), 128, (100, 100), (1 << 40,)), ["below 2**40"]),
    (("float16", (64, 64), 128, (100, 100), (208, 2)), ["all but the last"]),
    (("float16", (64, 64), 128, (100,)), ["1 dimensions, the box 2"]),
    (("float16", (64, 64), 128, (1 << 33, 64)), ["elements"]),
]


@pytest.mark.parametrize(("args", "expect"), TMA)
def test_tma_boxes(args: Any, expect: list[str]) -> None:
    reasons = find_tma_problems(*args)
    assert len(reasons) == len(expect)
    assert all(part in reason for part, reason in zip(expect, reasons, strict=True))


def test_tma_refuses_what_is_no_type_and_no_swizzle() -> None:
    for args in (("float17", (64, 64)), ("float16", (64, 64), 96)):
        with pytest.raises(LayoutError):
            find_tma_problems(*args)


# ---------------------------------------------------------------- by name
CALLS = [
    "row_major((8, 64))", "column_major((8, 64))", "wg_local_layout(16)",
    "mma_fragment('m16n8k8', 'A', dtype='tfloat32')",
    "ldmatrix_fragment(4, trans=True)", "stmatrix_fragment(2)", "ldmatrix_rows(4)", "wgmma_accumulator(n=64)",
    "wgmma_operand_a('float16')", "tmem_datapath_layout('F', 64, 256, sub_slab=1)",
    "tcgen05_atom_layout('16x64b', (64, 64), 'float32')", "swizzle_atom('float16', 128)",
    "mma_shared_layout('float16', 128, (64, 256))",
    "tiled_mma('mma.m16n8k16', (2, 2, 1), (32, 32, 16), 'A', tile=(128, 128, 32))",
    "tmem_mma_operand_layout('A', 128, 64, cta_group=2)", "tmem_scale_layout(256, 8)", "shared_scale_layout(128, 4)",
]  # fmt: skip


@pytest.mark.parametrize("text", CALLS)
def test_constructors_have_a_text_form(text: str) -> None:
    layout = parse(text)
    assert layout == eval(text, dict(CONSTRUCTORS))
    assert parse(str(layout)) == layout
    assert size(canonicalize(layout)) == size(layout)


def test_every_constructor_is_called_above() -> None:
    assert {text.partition("(")[0] for text in CALLS} == set(CONSTRUCTORS)


def test_a_named_swizzle_composes() -> None:
    layout = parse("swizzle_atom('float16', 128) o row_major((8, 64))")
    assert layout == ComposeLayout(SwizzleLayout(3, 3, 3), parse("S[(8, 64)]"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["tmem_datapath_layout('Z', 128, 8)", "tcgen05_atom_layout('16x64b', (64, 6), 'float32')", "wgmma_accumulator(7)",
     "mma_shared_layout('float16', 128, (8, 63))", "swizzle_atom('float17', 32)", "row_major((8, M))",
     "swizzle_atom('float16', 128) o S[8:1@laneid]"],
)  # fmt: skip
def test_what_constructors_refuse_has_a_place(text: str) -> None:
    with pytest.raises(LayoutError) as caught:
        parse(text)
    assert caught.value.span is not None
