"""Blackwell's tensor memory: where tcgen05.mma writes, and which registers tcgen05.ld and .st move.

Lanes and shapes are those of the PTX ISA, "Tensor Memory and Register Load/Store Instructions" and "Data Path Layout
Organization" of tcgen05.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.errors import LayoutError
from tilegen.layouts.constructors.arguments import element_bits, require_extents
from tilegen.layouts.core.canonical import canonicalize
from tilegen.layouts.core.cells import CELL_BITS
from tilegen.layouts.core.iters import Iter
from tilegen.layouts.core.values import TileLayout, tile_of

# datapath -> (rows, into how many groups of lanes the columns are split)
DATAPATHS = {"A": (128, 1), "B": (64, 2), "C": (64, 1), "D": (128, 1), "E": (64, 2), "F": (64, 1), "G": (32, 4)}
SLABS = ("C", "F")  # rows 16 w to 16 w + 15 in half of warp w's 32 lanes


def tmem_datapath_layout(datapath: str, rows: int, cols: int, sub_slab: int = 0) -> TileLayout:
    """The accumulator that tcgen05.mma writes on one CTA, over (rows, cols), on TLane and TCol (in elements).

    A (M=256, two CTAs) and D (M=128): row r in lane r. C (M=128, two CTAs, sparse) and F (M=64): lane 32 * (r / 16) +
    r % 16, plus 16 with ``sub_slab`` 1. B (M=128, two CTAs) and E (M=64, .ws): the right half of the columns in lanes
    64 to 127. G (M=32, .ws): each quarter of the columns in 32 lanes of its own. Raises LayoutError for another number
    of rows, columns that do not split, and a sub-slab where the lanes are all taken.

    >>> print(tmem_datapath_layout("F", 64, 256, sub_slab=1))
    S[(4, 16, 256):(32@TLane, 1@TLane, 1@TCol)] + 16@TLane
    >>> print(tmem_datapath_layout("G", 32, 128))
    S[(32, 4, 32):(1@TLane, 32@TLane, 1@TCol)]
    """
    if datapath not in DATAPATHS:
        raise LayoutError(f"there is no datapath {datapath!r}", hint=f"datapaths are {', '.join(DATAPATHS)}")
    rows, cols = require_extents((rows, cols), 2, "an accumulator")
    expected, groups = DATAPATHS[datapath]
    if rows != expected:
        fitting = [name for name, (count, _) in DATAPATHS.items() if count == rows]
        hint = f"datapaths with {rows} rows: {', '.join(fitting)}" if fitting else f"give it {expected} rows"
        raise LayoutError(f"datapath {datapath} has {expected} rows, not {rows}", hint=hint)
    if cols % groups:
        raise LayoutError(f"datapath {datapath} splits its columns into {groups} groups of lanes, {cols} do not split")
    if isinstance(sub_slab, bool) or sub_slab not in ((0, 1) if datapath in SLABS else (0,)):
        reason = "sub_slab is 0 or 1" if datapath in SLABS else f"datapath {datapath} takes all lanes: sub_slab is 0"
        raise LayoutError(f"{reason}, not {sub_slab}")
    columns = Iter(cols // groups, 1, "TCol")
    if datapath in SLABS:
        return TileLayout((Iter(4, 32, "TLane"), Iter(16, 1, "TLane"), columns), (), (("TLane", 16 * sub_slab),))
    if groups == 1:
        return TileLayout((Iter(rows, 1, "TLane"), columns))
    return TileLayout((Iter(rows, 1, "TLane"), Iter(groups, rows, "TLane"), columns))


# M of the instruction, CTAs that share it -> the datapath of its accumulator, without .ws
_DATAPATH_OF = {(64, 1): "F", (128, 1): "D", (128, 2): "B", (256, 2): "A"}


def tmem_mma_operand_layout(operand: str, m: int, cols: int, cta_group: int = 1) -> TileLayout:
    """Operand A [m, k] or C [m, n] of tcgen05.mma in one CTA's tensor memory, over (rows, cols); TCol in elements.

    ``m``: rows of the instruction, of which the CTA has m / cta_group. C lies as ``tmem_datapath_layout`` says. A of
    128 rows has row r in lane r; A of 64 rows of a pair is there twice, for each half of the columns of C. Elements of
    A are packed, 32 / bits in a column of 32 bits. Raises LayoutError for another operand or M, and for A of 64 rows of
    one CTA, for which sources differ.

    >>> print(tmem_mma_operand_layout("A", 128, 64), "and", tmem_mma_operand_layout("A", 128, 64, cta_group=2))
    S[(128, 64):(1@TLane, 1@TCol)] and S[(64, 64):(1@TLane, 1@TCol)] + R[2:64@TLane]
    """
    if (m, cta_group) not in _DATAPATH_OF:
        known = ", ".join(f"{rows} of cta_group {ctas}" for rows, ctas in _DATAPATH_OF)
        raise LayoutError(f"tcgen05.mma has no M of {m} with cta_group {cta_group}", hint=f"M is {known}")
    datapath = _DATAPATH_OF[m, cta_group]
    rows = DATAPATHS[datapath][0]
    if operand == "C":
        return tmem_datapath_layout(datapath, rows, cols)
    if operand != "A":
        raise LayoutError(f"operand A or C of tcgen05.mma lies in tensor memory, not {operand!r}")
    if datapath == "F":
        raise LayoutError("where 64 rows of A lie is not known for sure", hint="128 rows lie in lanes 0 to 127")
    (cols,) = require_extents((cols,), 1, "operand A")
    twice = (Iter(2, rows, "TLane"),) if datapath == "B" else ()
    return TileLayout((Iter(rows, 1, "TLane"), Iter(cols, 1, "TCol")), twice)


# Scale factors of one byte, four a column: 128 rows are a block, 512 bytes of shared memory that tcgen05.cp moves.
_BLOCK_ROWS, _LANES, _COLUMN_BYTES = 128, 32, 4


def tmem_scale_layout(rows: int, factors: int) -> TileLayout:
    """The scale factors of a block-scaled product in tensor memory, over (rows, factors), one byte each; TCol in bytes.

    Row r is in lane r % 32 and again 32, 64 and 96 lanes on. Rows are 4 bytes, one column, apart for every 32 of them;
    four factors along K share a column, the next four lie behind all rows. Source: PTX ISA, tcgen05, "Scale factor A
    layout". Raises LayoutError for rows that are no multiple of 32, and factors that are none of 4.

    >>> print(tmem_scale_layout(256, 8))
    S[(8, 32, 2, 4):(4@TCol, 1@TLane, 32@TCol, 1@TCol)] + R[4:32@TLane]
    """
    rows, factors = _require_scales(rows, factors, _LANES)
    groups, columns = rows // _LANES, factors // _COLUMN_BYTES
    shard = (
        Iter(groups, _COLUMN_BYTES, "TCol"), Iter(_LANES, 1, "TLane"),
        Iter(columns, groups * _COLUMN_BYTES, "TCol"), Iter(_COLUMN_BYTES, 1, "TCol"),
    )  # fmt: skip
    return tile_of(canonicalize(TileLayout(shard, (Iter(4, _LANES, "TLane"),))))


def shared_scale_layout(rows: int, factors: int) -> TileLayout:
    """Scale factors in shared memory as tcgen05.cp.32x128b.warpx4 takes them to tensor memory, over (rows, factors).

    A block of 128 rows by four factors is 512 bytes: 32 times 16 bytes, of which row r has the four at 16 * (r % 32) +
    4 * (r / 32). Blocks are one behind the other along K, then along rows. Raises LayoutError for rows that are no
    multiple of 128, and factors that are none of 4.

    >>> print(shared_scale_layout(256, 8))
    S[(2, 4, 32, 2, 4):(1024, 4, 16, 512, 1)]
    """
    rows, factors = _require_scales(rows, factors, _BLOCK_ROWS)
    blocks, block = factors // _COLUMN_BYTES, _BLOCK_ROWS * _COLUMN_BYTES
    shard = (
        Iter(rows // _BLOCK_ROWS, blocks * block), Iter(_BLOCK_ROWS // _LANES, _COLUMN_BYTES),
        Iter(_LANES, 4 * _COLUMN_BYTES), Iter(blocks, block), Iter(_COLUMN_BYTES, 1),
    )  # fmt: skip
    return tile_of(canonicalize(TileLayout(shard)))


def _require_scales(rows: int, factors: int, step: int) -> tuple[int, int]:
    rows, factors = require_extents((rows, factors), 2, "a block of scale factors")
    if rows % step or factors % _COLUMN_BYTES:
        wanted = f"a multiple of {step} rows and of {_COLUMN_BYTES} factors each"
        raise LayoutError(f"scale factors are of {wanted}, not {rows} x {factors}")
    return rows, factors


# shape -> (32-bit columns of one repetition, largest number of repetitions)
_ATOMS = {"32x32b": (1, 128), "16x64b": (2, 128), "16x128b": (4, 64), "16x256b": (8, 32), "16x32bx2": (2, 128)}


def tcgen05_atom_layout(instr_shape: str, tensor_shape: Sequence[int], dtype: str) -> TileLayout:
    """The registers of a warpgroup that one tcgen05.ld or .st moves, over (rows, cols); m counts elements.

    Warp w holds the rows in its 32 lanes of tensor memory; 64 rows are 16 of each warp, 128 rows all (two instructions
    for the 16-lane shapes, the second one's registers after the first's). A 32-bit register holds 32 / bits
    neighbours of one row. ``cols`` is (columns of one repetition) * 1, 2, 4, ... up to the shape's largest number.
    32x32b of (64, N) is the image of datapath B: the right half of the columns in threads 64 to 127. 16x32bx2 has
    the right half of the columns, its second access, in lanes 16 to 31. Raises LayoutError for other shapes and for
    types that are not 8, 16 or 32 bits wide.

    >>> print(tcgen05_atom_layout("16x64b", (64, 64), "float32"))
    S[(4, 2, 8, 32, 2):(1@wid_in_wg, 1@laneid, 4@laneid, 1, 2@laneid)]
    """
    if instr_shape not in _ATOMS:
        raise LayoutError(f"tcgen05 has no shape {instr_shape!r}", hint=f"shapes are {', '.join(_ATOMS)}")
    bits = element_bits(dtype)
    if bits not in (8, 16, 32):
        raise LayoutError(f"tcgen05 registers hold elements of 8, 16 or 32 bits, {dtype} has {bits}")
    rows, cols = require_extents(tensor_shape, 2, "a tile of tensor memory")
    if rows not in (64, 128):
        raise LayoutError(f"a warpgroup reads 64 or 128 rows of tensor memory, not {rows}")
    if instr_shape == "32x32b" and rows == 64:
        return _datapath_b(cols, bits)
    packed = CELL_BITS // bits
    repeats = _count_repeats(instr_shape, cols, packed)
    if instr_shape == "32x32b":
        return TileLayout((Iter(128, 1, "tid_in_wg"), Iter(cols, 1)))
    row_iters, column_iters, registers = _cells(instr_shape, repeats)
    slab = (Iter(2, registers),) if rows == 128 else ()
    iters = [_widen(i, packed) for i in (Iter(4, 1, "wid_in_wg"), *slab, *row_iters, *column_iters)]
    return TileLayout((*iters, *((Iter(packed, 1),) if packed > 1 else ())))


def _count_repeats(instr_shape: str, cols: int, packed: int) -> int:
    columns, most = _ATOMS[instr_shape]
    repeats, rest = divmod(cols, columns * packed)
    if rest or repeats not in [1 << k for k in range(most.bit_length())]:
        raise LayoutError(
            f"{cols} columns are no repetition of {instr_shape}, which has {columns * packed}",
            hint=f"{columns * packed} times 1, 2, 4, ... up to {most}",
        )
    return repeats


def _datapath_b(cols: int, bits: int) -> TileLayout:
    if bits != CELL_BITS:
        raise LayoutError(f"32x32b with 64 rows is the image of datapath B, which has 32-bit elements, not {bits}-bit")
    half = cols // 2
    if cols % 2 or half not in [1 << k for k in range(8)]:
        raise LayoutError(f"32x32b with 64 rows has 2, 4, 8, ..., 256 columns, not {cols}")
    return TileLayout((Iter(64, 1, "tid_in_wg"), Iter(2, 64, "tid_in_wg"), Iter(half, 1)))


def _cells(instr_shape: str, n: int) -> tuple[tuple[Iter, ...], tuple[Iter, ...], int]:
    """Rows and columns of one 16-lane instruction of n repetitions, in 32-bit cells, and the registers of a thread."""

    def lanes(extent: int, stride: int) -> Iter:
        return Iter(extent, stride, "laneid")

    if instr_shape == "16x32bx2":
        return (lanes(16, 1),), (lanes(2, 16), Iter(n, 1)), n
    if instr_shape == "16x64b":
        return (lanes(2, 1), lanes(8, 4)), (Iter(n, 1), lanes(2, 2)), n
    if instr_shape == "16x128b":
        return (Iter(2, 1), lanes(8, 4)), (Iter(n, 2), lanes(4, 1)), 2 * n
    return (Iter(2, 2), lanes(8, 4)), (Iter(n, 4), lanes(4, 1), Iter(2, 1)), 4 * n


def _widen(i: Iter, packed: int) -> Iter:
    """Registers count elements, ``packed`` in one."""
    return Iter(i.extent, i.stride * packed, i.axis) if i.axis == "m" else i
