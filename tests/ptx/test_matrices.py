"""Products of warps, descriptors, and matrices to and from shared memory, against tilegen's own layouts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx.machine import run_text
from tilegen.layouts.constructors.mma_atoms import ATOMS, fragment_of
from tilegen.ptx.descriptors import place_matrix, read_descriptor
from tilegen.ptx.matrices import BITS, place_a, place_b, place_c

PLAIN = {atom.instruction: atom for atom in ATOMS if atom.kind == "mma_sync"}


@pytest.mark.parametrize("instruction", PLAIN)
def test_fragments_are_those_of_the_atoms(instruction):
    """Two readings of PTX's figures: the formulas here, and the layouts that plans are made of."""
    atom = PLAIN[instruction]
    m, n, k = atom.shape
    _, kind_a, kind_b, kind_c = atom.name.split(".")[-4:]
    words = {"A": m * k, "B": k * n, "C": m * n}
    bits = {"A": BITS[kind_a], "B": BITS[kind_b], "C": BITS[kind_c]}
    each = {o: max(1, 32 // bits[o]) for o in "ABC"}
    count = {o: words[o] // 32 // each[o] for o in "ABC"}
    places = {
        "A": place_a(m, bits["A"], count["A"]),
        "B": place_b(bits["B"], count["B"]),
        "C": place_c(m, bits["C"], count["C"]),
    }
    shape = {"A": (m, k), "B": (k, n), "C": (m, n)}
    for operand, (rows, columns) in places.items():
        rows, columns = np.broadcast_arrays(rows, columns)
        found = fragment_of(atom, operand).place((rows, columns), shape[operand])
        lanes, registers = np.asarray(found["laneid"]), np.broadcast_to(found.get("m", 0), rows.shape)
        assert (lanes == np.arange(32)[:, None, None]).all(), operand
        assert (registers.reshape(32, -1) == np.arange(registers[0].size)).all(), operand


def test_a_product_of_a_warp():
    rng = np.random.default_rng(3)
    a, b = rng.integers(-8, 8, (16, 32)).astype(np.int8), rng.integers(-8, 8, (32, 8)).astype(np.int8)
    c = rng.integers(-100, 100, (16, 8)).astype(np.int32)
    (ar, ac), (br, bc), (cr, cc) = place_a(16, 8, 4), place_b(8, 2), place_c(16, 32, 4)
    packed = [x[r, q].reshape(32, -1).view(np.uint32) for x, r, q in ((a, ar, ac), (b, br, bc), (c, cr, cc))]
    body = "mov.u32 %r0, %tid.x;\n"
    for k, words in enumerate((4, 2, 4, 4)):
        body += f"mul.wide.u32 %rd9, %r0, {4 * words}; add.s64 %rd{k}, %rd{k}, %rd9;\n"
    for k, words in enumerate((4, 2, 4)):
        body += "".join(f"ld.global.u32 %r{4 * k + j + 1}, [%rd{k}+{4 * j}];\n" for j in range(words))
    body += """mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32
        {%r20, %r21, %r22, %r23}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r9, %r10, %r11, %r12};
    st.global.v4.u32 [%rd3], {%r20, %r21, %r22, %r23};
    """
    arrays = {"A": packed[0], "B": packed[1], "C": packed[2], "D": np.zeros((32, 4), np.uint32)}
    got = run_text(body, arrays, "D").reshape(32, 4).view(np.int32)
    want = a.astype(np.int32) @ b.astype(np.int32) + c
    assert (got == want[cr, cc][..., 0]).all()


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_matrices_to_registers_and_back(trans):
    """ldmatrix hands lane 4 r + c the elements 2 c, 2 c + 1 of row r, or of column r; stmatrix takes them back."""
    elements = np.arange(128, dtype=np.uint16)
    head = ".shared .align 128 .b8 tile[256];\n"
    body = f"""mov.u32 %r0, %tid.x; mov.u32 %r1, tile; shl.b32 %r2, %r0, 3; add.s32 %r3, %r1, %r2;
    cvt.u64.u32 %rd9, %r2; add.s64 %rd0, %rd0, %rd9; add.s64 %rd1, %rd1, %rd9;
    ld.global.v2.u32 {{%r4, %r5}}, [%rd0]; st.shared.v2.u32 [%r3], {{%r4, %r5}}; bar.warp.sync -1;
    and.b32 %r6, %r0, 15; shl.b32 %r6, %r6, 4; add.s32 %r6, %r1, %r6;
    ldmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 {{%r10, %r11}}, [%r6];
    st.global.v2.u32 [%rd1], {{%r10, %r11}};
    """
    got = run_text(body, {"X": elements, "Y": np.zeros(128, np.uint16)}, "Y", 32, head)
    matrices = elements.reshape(2, 8, 8)
    if trans:
        matrices = matrices.swapaxes(1, 2)
    assert (got.reshape(32, 2, 2) == matrices.reshape(2, 32, 2).swapaxes(0, 1)).all()
    back = body.replace("st.global.v2.u32 [%rd1]", f"""bar.warp.sync -1;
    stmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 [%r6], {{%r10, %r11}}; bar.warp.sync -1;
    ld.shared.v2.u32 {{%r10, %r11}}, [%r3]; st.global.v2.u32 [%rd1]""")  # fmt: skip
    assert (run_text(back, {"X": elements, "Y": np.zeros(128, np.uint16)}, "Y", 32, head) == elements).all()


@pytest.mark.parametrize("span, code", [(128, 1), (64, 2), (32, 3)])
def test_descriptors_of_rows_along_k(span, code):
    """Rows of a swizzle's span: 16 bytes of row r go to the place whose number is changed by r's bits."""
    matrix = read_descriptor(code << 62 | (8 * span >> 4) << 32 | 1 << 16 | 2048 >> 4)
    assert (matrix.start, matrix.stride, matrix.span) == (2048, 8 * span, span)
    at = place_matrix(matrix, (64, span // 2), 2, along_k=True) - 2048
    rows, columns = np.indices(at.shape)
    straight = rows * span + columns * 2
    assert (at == straight ^ (straight >> 7 & span // 16 - 1) << 4).all()
    assert len(np.unique(at)) == at.size
