"""Layouts that hardware fixes, by name."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.errors import LayoutError
from tilegen.index import Index
from tilegen.layouts.iters import Iter, Iters, drop_units, product, require_index, require_known, row_major_strides
from tilegen.layouts.values import TileLayout, size


def row_major(shape: Sequence[Index]) -> TileLayout:
    """The dense layout whose last dimension is the fastest; extents may be runtime Index.

    Raises LayoutError for an empty shape and extents < 1.

    >>> print(row_major((8, 64)))
    S[(8, 64):(64, 1)]
    """
    shape = [require_index(n, "an extent", 1) for n in shape]
    return TileLayout(tuple(Iter(n, s) for n, s in zip(shape, row_major_strides(shape), strict=True)))


def column_major(shape: Sequence[Index]) -> TileLayout:
    """The dense layout whose first dimension is the fastest; extents may be runtime Index.

    Raises LayoutError for an empty shape and extents < 1.

    >>> print(column_major((8, 64)))
    S[(8, 64):(1, 8)]
    """
    shape = [require_index(n, "an extent", 1) for n in shape]
    return TileLayout(tuple(Iter(n, product(shape[:k])) for k, n in enumerate(shape)))


def wg_local_layout(cols: int, rows: int = 128) -> TileLayout:
    """A register tile of a warpgroup, one row for each thread: row i in thread i, column j in register j.

    Raises LayoutError unless 1 <= rows <= 128, the threads of a warpgroup.

    >>> print(wg_local_layout(16))
    S[(128, 16):(1@tid_in_wg, 1)]
    """
    if not (isinstance(rows, int) and 1 <= rows <= 128):
        raise LayoutError(f"a warpgroup has 128 threads, one for each row: rows is 1 to 128, not {rows}")
    return TileLayout((Iter(rows, 1, "tid_in_wg"), Iter(cols, 1)))


def _lanes(extent: int, stride: int) -> Iter:
    return Iter(extent, stride, "laneid")


# Rows and columns of each operand as iters, from the fragment figures of the PTX ISA, "Matrix Fragments for
# mma.m16n8k8", "... mma.m16n8k16 with floating point type" and "... mma.m16n8k32": groupID = laneid / 4 and
# threadID_in_group = laneid % 4 are the iters 8:4@laneid and 4:1@laneid; m counts the registers a0, a1, ... in order.
_C = ((Iter(2, 2), _lanes(8, 4)), (_lanes(4, 1), Iter(2, 1)))
_FRAGMENTS: dict[tuple[str, str], tuple[Iters, Iters]] = {
    ("m16n8k8", "A"): _C,
    ("m16n8k8", "B"): ((_lanes(4, 1), Iter(2, 1)), (_lanes(8, 4),)),
    ("m16n8k16", "A"): ((Iter(2, 2), _lanes(8, 4)), (Iter(2, 4), _lanes(4, 1), Iter(2, 1))),
    ("m16n8k16", "B"): ((Iter(2, 2), _lanes(4, 1), Iter(2, 1)), (_lanes(8, 4),)),
    ("m16n8k32", "A"): ((Iter(2, 4), _lanes(8, 4)), (Iter(2, 8), _lanes(4, 1), Iter(4, 1))),
    ("m16n8k32", "B"): ((Iter(2, 4), _lanes(4, 1), Iter(4, 1)), (_lanes(8, 4),)),
    **{(atom, "C"): _C for atom in ("m16n8k8", "m16n8k16", "m16n8k32")},
}
MMA_ATOMS = tuple(dict.fromkeys(atom for atom, _ in _FRAGMENTS))


def mma_fragment(atom: str, operand: str, shape: Sequence[int] | None = None) -> TileLayout:
    """The registers of one warp for an operand of mma.sync: lane on laneid, register number (in elements) on m.

    ``operand`` is A (M x K), B (K x N) or C (M x N, also D). m16n8k8 and m16n8k16 are those of 16-bit A and B,
    m16n8k32 that of 8-bit A and B (PTX ISA, warp-level matrix fragments). With ``shape`` (rows, columns) the atom is
    repeated: m = register + registers of an atom * (tile number, row-major). Raises LayoutError for other names and
    for a shape that the atom does not divide.

    >>> print(mma_fragment("m16n8k16", "A"))
    S[(2, 8, 2, 4, 2):(2, 4@laneid, 4, 1@laneid, 1)]
    >>> print(mma_fragment("m16n8k16", "C", (16, 16)))
    S[(2, 8, 2, 4, 2):(2, 4@laneid, 4, 1@laneid, 1)]
    """
    found = _FRAGMENTS.get((atom, "C" if operand == "D" else operand))
    if found is None:
        raise LayoutError(f"there is no fragment of operand {operand!r} of {atom!r}", hint=_offer_fragments())
    rows, columns = found
    if shape is None:
        return TileLayout(rows + columns)
    down, across = _count_tiles(atom, operand, shape, size(TileLayout(rows)), size(TileLayout(columns)))
    registers = size(TileLayout(rows + columns), "m")
    outer_rows = drop_units((Iter(down, across * registers),))
    outer_columns = drop_units((Iter(across, registers),))
    return TileLayout(outer_rows + rows + outer_columns + columns)


def _offer_fragments() -> str:
    return f"atoms are {', '.join(MMA_ATOMS)}; operands A, B, C, D"


def _count_tiles(atom: str, operand: str, shape: Sequence[int], rows: Index, columns: Index) -> tuple[int, int]:
    """Atoms down and across."""
    m, n = require_known(rows, "an atom"), require_known(columns, "an atom")
    if len(shape) != 2 or not all(isinstance(x, int) and x >= 1 for x in shape) or shape[0] % m or shape[1] % n:
        raise LayoutError(f"operand {operand} of {atom} is {m} x {n}, which does not divide {tuple(shape)}")
    return shape[0] // m, shape[1] // n
