"""Registers of warps and warpgroups: of mma.sync, of ldmatrix and stmatrix, of wgmma, and a row for each thread."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.errors import LayoutError
from tilegen.index import Index
from tilegen.layouts.constructors.arguments import element_bits
from tilegen.layouts.core.iters import Iter, Iters, require_known
from tilegen.layouts.core.rows import drop_units
from tilegen.layouts.core.values import TileLayout, size

MMA_ATOMS = {"m16n8k4": 32, "m16n8k8": 16, "m16n8k16": 16, "m16n8k32": 8, "m16n8k64": 4, "m16n8k128": 1, "m16n8k256": 1}
REGISTER_BITS = 32


def on_lanes(extent: int, stride: int) -> Iter:
    """Lanes of a warp.

    >>> print(on_lanes(8, 4))
    8:4@laneid
    """
    return Iter(extent, stride, "laneid")


C_ITERS = ((Iter(2, 2), on_lanes(8, 4)), (on_lanes(4, 1), Iter(2, 1)))


def mma_fragment(atom: str, operand: str, shape: Sequence[int] | None = None, dtype: str | None = None) -> TileLayout:
    """The registers of one warp for an operand of mma.sync: lane on laneid, register number (in elements) on m.

    ``operand`` is A (M x K), B (K x N) or C (M x N, also D); ``dtype`` that of A and B (default: 16-bit for m16n8k8
    and m16n8k16, 8-bit for k32, 4-bit for k64, tf32 for k4, one bit for k128 and k256). A 32-bit register holds
    v = 32 / bits elements of one row of A or column of B, lane % 4 chooses among four such vectors, lane / 4 the row
    (column), and a K of 8 v takes two (PTX ISA, "Matrix Fragments for mma.m16n8k4" to "... k256"). With ``shape``
    (rows, columns) the atom is repeated: m = register + registers of an atom * (tile number, row-major). Raises
    LayoutError for names and widths that have no such instruction and for a shape that the atom does not divide.

    >>> print(mma_fragment("m16n8k16", "A"))
    S[(2, 8, 2, 4, 2):(2, 4@laneid, 4, 1@laneid, 1)]
    >>> print(mma_fragment("m16n8k8", "B", dtype="tfloat32"))
    S[(2, 4, 8):(1, 1@laneid, 4@laneid)]
    >>> print(mma_fragment("m16n8k16", "C", (16, 16)))
    S[(2, 8, 2, 4, 2):(2, 4@laneid, 4, 1@laneid, 1)]
    """
    if operand not in ("A", "B", "C", "D") or atom not in MMA_ATOMS:
        hint = f"atoms are {', '.join(MMA_ATOMS)}; operands A, B, C, D"
        raise LayoutError(f"there is no fragment of operand {operand!r} of {atom!r}", hint=hint)
    rows, columns = C_ITERS if operand in "CD" else _operand(atom, operand, dtype)
    return _repeat(f"operand {operand} of {atom}", rows, columns, shape)


def _operand(atom: str, operand: str, dtype: str | None) -> tuple[Iters, Iters]:
    bits, k = MMA_ATOMS[atom] if dtype is None else element_bits(dtype), int(atom.rpartition("k")[2])
    vectors = k * bits // (4 * REGISTER_BITS)  # along K for each lane
    if REGISTER_BITS % bits or vectors not in (1, 2) or k * bits % (4 * REGISTER_BITS):
        raise LayoutError(f"{atom} has no operands of {bits} bits", hint="k * bits is 128 or 256, bits at most 32")
    return iters_of_a(vectors, REGISTER_BITS // bits) if operand == "A" else iters_of_b(vectors, REGISTER_BITS // bits)


def iters_of_a(vectors: int, v: int) -> tuple[Iters, Iters]:
    """Rows and columns of A (16 x 4 v vectors): m = element + v * (upper or lower 8 rows) + 2 v * vector.

    >>> [[str(i) for i in iters] for iters in iters_of_a(2, 1)]
    [['2:1', '8:4@laneid'], ['2:2', '4:1@laneid']]
    """
    return (Iter(2, v), on_lanes(8, 4)), drop_units((Iter(vectors, 2 * v), on_lanes(4, 1), Iter(v, 1)))


def iters_of_b(vectors: int, v: int) -> tuple[Iters, Iters]:
    """Rows and columns of B (4 v vectors x 8): m = element + v * vector.

    >>> [[str(i) for i in iters] for iters in iters_of_b(2, 2)]
    [['2:2', '4:1@laneid', '2:1'], ['8:4@laneid']]
    """
    return drop_units((Iter(vectors, v), on_lanes(4, 1), Iter(v, 1))), (on_lanes(8, 4),)


def _repeat(what: str, rows: Iters, columns: Iters, shape: Sequence[int] | None) -> TileLayout:
    if shape is None:
        return TileLayout(rows + columns)
    down, across = _count_tiles(what, shape, size(TileLayout(rows)), size(TileLayout(columns)))
    registers = size(TileLayout(rows + columns), "m")
    outer_rows = drop_units((Iter(down, across * registers),))
    outer_columns = drop_units((Iter(across, registers),))
    return TileLayout(outer_rows + rows + outer_columns + columns)


def _count_tiles(what: str, shape: Sequence[int], rows: Index, columns: Index) -> tuple[int, int]:
    """Atoms down and across."""
    m, n = require_known(rows, "an atom"), require_known(columns, "an atom")
    if not isinstance(shape, (tuple, list)) or len(shape) != 2 or not all(isinstance(x, int) and x >= 1 for x in shape):
        raise LayoutError(f"{what} is {m} x {n}, which does not divide {shape!r}")
    if shape[0] % m or shape[1] % n:
        raise LayoutError(f"{what} is {m} x {n}, which does not divide {tuple(shape)}")
    return shape[0] // m, shape[1] // n


# ---------------------------------------------------------------- ldmatrix, stmatrix
def ldmatrix_fragment(matrices: int, trans: bool = False) -> TileLayout:
    """The registers of one warp after ldmatrix .m8n8.x1, .x2 or .x4 of 16-bit elements, over (matrices, 8, 8).

    Element (r, c) of matrix k is in lane 4 r + c / 2 at m = 2 k + c % 2; with ``trans`` rows and columns swap: lane
    4 c + r / 2 at m = 2 k + r % 2 (PTX ISA, "ldmatrix"). stmatrix stores the same registers. Raises LayoutError
    unless ``matrices`` is 1, 2 or 4.

    >>> print(ldmatrix_fragment(4))
    S[(4, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)]
    >>> print(ldmatrix_fragment(4, trans=True))
    S[(4, 4, 2, 8):(2, 1@laneid, 1, 4@laneid)]
    """
    _require_matrices(matrices)
    pairs = (on_lanes(4, 1), Iter(2, 1))
    return TileLayout((Iter(matrices, 2), *((*pairs, on_lanes(8, 4)) if trans else (on_lanes(8, 4), *pairs))))


def stmatrix_fragment(matrices: int, trans: bool = False) -> TileLayout:
    """The registers of one warp that stmatrix .m8n8.x1, .x2 or .x4 stores: those that ldmatrix loads.

    Raises LayoutError unless ``matrices`` is 1, 2 or 4.

    >>> stmatrix_fragment(2) == ldmatrix_fragment(2)
    True
    """
    return ldmatrix_fragment(matrices, trans)


def ldmatrix_rows(matrices: int) -> TileLayout:
    """The lane that gives the address of each row, over (matrices, 8): row r of matrix k is lane 8 k + r's.

    With 1 or 2 matrices the other lanes' addresses are not read. Raises LayoutError unless ``matrices`` is 1, 2 or 4.

    >>> print(ldmatrix_rows(4))
    S[(4, 8):(8@laneid, 1@laneid)]
    """
    _require_matrices(matrices)
    return TileLayout((on_lanes(matrices, 8), on_lanes(8, 1)))


def _require_matrices(matrices: int) -> None:
    if isinstance(matrices, bool) or matrices not in (1, 2, 4):
        raise LayoutError(f"ldmatrix and stmatrix move 1, 2 or 4 matrices of 8 x 8, not {matrices}")


# ---------------------------------------------------------------- wgmma
_WARPS = Iter(4, 1, "wid_in_wg")


def wgmma_accumulator(n: int) -> TileLayout:
    """D of wgmma.m64nNkK over (64, n): warp w holds rows 16 w to 16 w + 15, m counts the elements d0, d1, ...

    row = 16 w + lane / 4 + 8 * (i / 2 % 2), column = 8 * (i / 4) + 2 * (lane % 4) + i % 2 (PTX ISA, "Register
    Fragments" of wgmma.mma_async; the same for every type). Raises LayoutError unless n is 8, 16, ..., 256.

    >>> print(wgmma_accumulator(64))
    S[(4, 2, 8, 8, 4, 2):(1@wid_in_wg, 2, 4@laneid, 4, 1@laneid, 1)]
    """
    if isinstance(n, bool) or not isinstance(n, int) or n not in range(8, 257, 8):
        raise LayoutError(f"the n of wgmma is a multiple of 8 up to 256, not {n}")
    rows, columns = C_ITERS
    return TileLayout((_WARPS, *rows, *drop_units((Iter(n // 8, 4),)), *columns))


def wgmma_operand_a(dtype: str) -> TileLayout:
    """A of wgmma from registers, over (64, K) with K * bits = 256: in each warp the A of mma.m16n8 with that K.

    ``dtype`` has 8, 16 or 32 (tf32) bits (PTX ISA, "Register Fragments" of wgmma.mma_async). Raises LayoutError for
    other widths.

    >>> print(wgmma_operand_a("float16"))
    S[(4, 2, 8, 2, 4, 2):(1@wid_in_wg, 2, 4@laneid, 4, 1@laneid, 1)]
    """
    bits = element_bits(dtype)
    if bits not in (8, 16, 32):
        raise LayoutError(f"wgmma reads A of 8, 16 or 32 bits from registers, not {dtype} ({bits} bits)")
    rows, columns = iters_of_a(2, REGISTER_BITS // bits)
    return TileLayout((_WARPS, *rows, *columns))


# ---------------------------------------------------------------- a row for each thread
def wg_local_layout(cols: int, rows: int = 128) -> TileLayout:
    """A register tile of a warpgroup, one row for each thread: row i in thread i, column j in register j.

    Raises LayoutError unless 1 <= rows <= 128, the threads of a warpgroup.

    >>> print(wg_local_layout(16))
    S[(128, 16):(1@tid_in_wg, 1)]
    """
    if isinstance(rows, bool) or not (isinstance(rows, int) and 1 <= rows <= 128):
        raise LayoutError(f"a warpgroup has 128 threads, one for each row: rows is 1 to 128, not {rows}")
    return TileLayout((Iter(rows, 1, "tid_in_wg"), Iter(cols, 1)))
