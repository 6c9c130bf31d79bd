"""Fragments against the formulas of the PTX ISA, written out element by element."""

from __future__ import annotations

import pytest

from tilegen.errors import LayoutError
from tilegen.layouts import mma_fragment, parse, size, span


def owners(atom: str, operand: str, lane: int, i: int) -> tuple[int, int]:
    """(row, column) of register i of a lane, as the PTX ISA states them."""
    g, t = lane // 4, lane % 4
    if operand in "CD":
        return (g if i < 2 else g + 8), t * 2 + (i & 1)
    if atom == "m16n8k8":
        return ((g if i < 2 else g + 8), t * 2 + (i & 1)) if operand == "A" else (t * 2 + i, g)
    if atom == "m16n8k16":
        if operand == "A":
            row = g if 0 <= i < 2 or 4 <= i < 6 else g + 8
            return row, t * 2 + (i & 1) if i < 4 else t * 2 + (i & 1) + 8
        return (t * 2 + (i & 1) if i < 2 else t * 2 + (i & 1) + 8), g
    if operand == "A":
        row = g if 0 <= i < 4 or 8 <= i < 12 else g + 8
        return row, t * 4 + (i & 3) if i < 8 else t * 4 + (i & 3) + 16
    return (t * 4 + (i & 3) if i < 4 else t * 4 + (i & 3) + 16), g


SHAPES = {
    ("m16n8k8", "A"): (16, 8), ("m16n8k8", "B"): (8, 8), ("m16n8k8", "C"): (16, 8),
    ("m16n8k16", "A"): (16, 16), ("m16n8k16", "B"): (16, 8), ("m16n8k16", "C"): (16, 8),
    ("m16n8k32", "A"): (16, 32), ("m16n8k32", "B"): (32, 8), ("m16n8k32", "C"): (16, 8), ("m16n8k32", "D"): (16, 8),
}  # fmt: skip


@pytest.mark.parametrize(("atom", "operand"), SHAPES)
def test_fragments(atom: str, operand: str) -> None:
    shape = SHAPES[atom, operand]
    layout = mma_fragment(atom, operand)
    registers = span(layout, "m")
    assert size(layout) == 32 * registers == shape[0] * shape[1]
    for lane in range(32):
        for i in range(registers):
            assert layout.place(owners(atom, operand, lane, i), shape) == {"m": i, "laneid": lane}


@pytest.mark.parametrize(("atom", "operand"), SHAPES)
def test_larger_shapes_repeat_the_atom_row_major(atom: str, operand: str) -> None:
    m, n = SHAPES[atom, operand]
    atom_layout, layout = mma_fragment(atom, operand), mma_fragment(atom, operand, (3 * m, 2 * n))
    registers = span(atom_layout, "m")
    assert mma_fragment(atom, operand, (m, n)) == atom_layout
    for i in range(3 * m):
        for j in range(2 * n):
            within = atom_layout.place((i % m, j % n), (m, n))
            tile = i // m * 2 + j // n
            expect = {"laneid": within["laneid"], "m": within["m"] + registers * tile}
            assert layout.place((i, j), (3 * m, 2 * n)) == expect


def test_the_texts_of_the_design() -> None:
    assert mma_fragment("m16n8k16", "A") == parse("S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]")
    assert mma_fragment("m16n8k16", "B") == parse("S[(2,4,2,8):(2,1@laneid,1,4@laneid)]")


@pytest.mark.parametrize("shape", [(17, 16), (0, 16), (16,), (16, 16, 16)])
def test_shapes_that_do_not_divide(shape: tuple[int, ...]) -> None:
    with pytest.raises(LayoutError, match="does not divide"):
        mma_fragment("m16n8k16", "A", shape)
