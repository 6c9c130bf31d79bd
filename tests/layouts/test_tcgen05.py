"""Tensor memory against other compilers: registers of loads, operands, scale factors and how they get there."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.layouts.recorded import load_document
from tilegen.errors import LayoutError
from tilegen.layouts import (
    canonicalize,
    find_cells,
    parse,
    shared_scale_layout,
    tcgen05_atom_layout,
    tmem_datapath_layout,
    tmem_mma_operand_layout,
    tmem_scale_layout,
)

RECORDED = load_document("tcgen05.json")
Owners = NDArray[np.int64]  # (rows, columns, 3): register, lane and warp


def read_bases(rows: int, columns: int, bases: list[list[list[int]]]) -> Owners:
    """Who has each element, from where each bit of register, lane and warp leads."""
    found = np.full((rows, columns, 3), -1)
    for numbers in product(*(range(1 << len(part)) for part in bases)):
        at = np.zeros(2, int)
        for number, part in zip(numbers, bases, strict=True):
            for bit, base in enumerate(part):
                at ^= np.array(base) * (number >> bit & 1)
        found[tuple(at)] = numbers
    assert (found >= 0).all()
    return found


def owners_of(shape: str, rows: int, columns: int, dtype: str) -> Owners:
    place = tcgen05_atom_layout(shape, (rows, columns), dtype).place(
        tuple(np.indices((rows, columns))), (rows, columns)
    )
    zero = np.zeros((rows, columns), int)
    thread = place.get("tid_in_wg", 32 * place.get("wid_in_wg", zero) + place.get("laneid", zero))
    return np.stack((place.get("m", zero) + zero, thread % 32 + zero, thread // 32 + zero), axis=2)


def side_by_side(halves: list[Owners]) -> Owners:
    """Several instructions along the columns, the registers of each behind those of the one before."""
    registers = halves[0][..., 0].max() + 1
    return np.concatenate([half + np.array([k * registers, 0, 0]) for k, half in enumerate(halves)], axis=1)


def test_registers_of_loads_are_those_of_another_compiler() -> None:
    """Triton's 32x32b of 64 rows is the image of datapath F, which PTX reads by 16x32bx2; tilegen's is that of B.

    Its splitn of 64 rows is two such accesses of half of the columns each. 256 columns of 32 bits are two instructions
    of the 128 at most that PTX has. Everything else is one layout of tilegen's.
    """
    for rows, columns, shape, dtype, *bases in RECORDED["registers"]:
        name = shape.removesuffix("_splitn")
        count = 1
        if name == "32x32b" and rows == 64:
            name, count = "16x32bx2", 2 if shape != name else 1
        elif (name, columns, dtype) == ("32x32b", 256, "float32"):
            count = 2
        wanted = side_by_side([owners_of(name, rows, columns // count, dtype)] * count)
        assert np.array_equal(read_bases(rows, columns, bases), wanted), (rows, columns, shape, dtype)


def test_scale_factors_lie_as_another_compiler_has_them() -> None:
    for rows, factors, _, tensor, shared in RECORDED["factor_layouts"]:
        assert tmem_scale_layout(rows, factors) == canonicalize(parse(tensor))
        assert canonicalize(shared_scale_layout(rows, factors)) == canonicalize(parse(shared))


def column_of(rows: int, factors: int, k: int) -> tuple[int, int]:
    """The column of factor k of row 0, and the byte of it."""
    place = tmem_scale_layout(rows, factors).place((0, k), (rows, factors))
    return divmod(place["TCol"], 4)


def test_products_find_their_scale_factors_where_they_lie() -> None:
    """Columns and bytes that Triton's products name, in their order along K."""
    for m, n, k, _, _, each, _, products, copies in RECORDED["factors"]:
        count = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}[products[0][0]]
        first = [int(products[0][side], 16) for side in (2, 3)]
        for step, (_, descriptor, *columns) in enumerate(products):
            bits = int(descriptor, 16)
            for rows, start, column, byte in zip((m, n), first, columns, (bits >> 29 & 3, bits >> 4 & 3), strict=True):
                at = column_of(rows, k // each, step * count)
                assert (int(column, 16) - start, byte) == at
        cells = {start + at for rows, start in zip((m, n), first, strict=True)
                 for at in find_cells(tmem_scale_layout(rows, k // each), 8).columns}  # fmt: skip
        filled = {int(to, 16) + column for _, to, *_ in copies for column in range(4)}
        assert cells == filled and len(copies) == (m + n) * k // each // 512


@pytest.mark.parametrize(("rows", "factors"), [(128, 4), (128, 8), (256, 4), (384, 12), (512, 8)])
def test_copies_bring_scale_factors_from_shared_to_tensor_memory(rows: int, factors: int) -> None:
    """Row i of a block's 32 rows of 16 bytes comes to lanes i, i + 32, i + 64, i + 96, and four columns."""
    shared = shared_scale_layout(rows, factors).place(tuple(np.indices((rows, factors))), (rows, factors))["m"]
    assert sorted(shared.ravel().tolist()) == list(range(rows * factors))
    tensor, columns = tmem_scale_layout(rows, factors), factors // 4
    for row, k in product(range(rows), range(factors)):
        block, byte = divmod(int(shared[row, k]), 512)
        first = block % columns * (rows // 8) + block // columns * 16  # in bytes: behind all rows along K
        lanes = {(byte // 16 + 32 * copy, first + byte % 16) for copy in range(4)}
        found = tensor.apply(row, k, shape=(rows, factors))
        assert {(place["TLane"], place["TCol"]) for place in found} == lanes and len(found) == 4


def test_operands_in_tensor_memory() -> None:
    for m, ctas, datapath in ((64, 1, "F"), (128, 1, "D"), (128, 2, "B"), (256, 2, "A")):
        assert tmem_mma_operand_layout("C", m, 64, ctas) == tmem_datapath_layout(datapath, m // ctas, 64)
    for m, ctas in ((128, 1), (256, 2)):
        assert tmem_mma_operand_layout("A", m, 64, ctas) == parse("S[(128, 64):(1@TLane, 1@TCol)]")
    packed = find_cells(tmem_mma_operand_layout("A", 128, 64, 2), 16)
    assert (len(packed.lanes), len(packed.columns), packed.copies) == (128, 32, 2)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: tmem_mma_operand_layout("A", 64, 64), "64 rows of A"),
        (lambda: tmem_mma_operand_layout("B", 128, 64), "operand A or C"),
        (lambda: tmem_mma_operand_layout("C", 256, 64), "no M of 256 with cta_group 1"),
        (lambda: tmem_mma_operand_layout("A", 128, 0), "extent"),
        (lambda: tmem_scale_layout(48, 4), "multiple of 32 rows"), (lambda: tmem_scale_layout(128, 6), "not 128 x 6"),
        (lambda: shared_scale_layout(64, 4), "multiple of 128 rows"),
    ],
)  # fmt: skip
def test_what_tensor_memory_does_not_hold(make: Any, reason: str) -> None:
    with pytest.raises(LayoutError, match=reason):
        make()
