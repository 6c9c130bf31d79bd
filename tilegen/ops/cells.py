"""What ops ask of buffers in tensor memory whose layout is to be chosen: in which lanes and columns operands lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilegen.errors import Mark
from tilegen.layouts import Iter, TileLayout, canonicalize
from tilegen.layouts.core.cells import COLUMN_BYTES
from tilegen.spec.data import Call, Region
from tilegen.spec.tensor_memory import lay_out_rows

GROUP, GROUPS = 32, 4  # lanes that hold scale factors, and how often: each warp of a warpgroup reaches one group
_UNIT_COLUMNS = 4  # factors begin at a multiple of so many columns: those of 128 rows


@dataclass(frozen=True)
class CellsNeed:
    """The layout over the whole buffer by which a call finds an operand in tensor memory, and why.

    ``is_fixed``: nothing else carries the call out. Registers follow the others.
    """

    layout: TileLayout
    why: str
    is_fixed: bool = True
    mark: Mark | None = None


def need_rows(call: Call, field: str, is_fixed: bool = True) -> CellsNeed | None:
    """Row r of a matrix in lane r, its elements neighbours there; None for what is no matrix of a buffer."""
    region = call.regions[field]
    kept, shape = [d for d, is_kept in enumerate(region.kept) if is_kept], _extents(region)
    if len(kept) != 2 or not region.buffer.traits.has_cells:
        return None
    why = "row r in lane r, its elements neighbours there"
    return CellsNeed(lay_out_rows(shape, *kept), why, is_fixed, call.mark_of(field))


def need_factors(call: Call, field: str) -> CellsNeed | None:
    """Scale factors as a product finds them, and tcgen05.cp leaves them; None for what is none of one byte."""
    region = call.regions[field]
    layout = lay_out_factors(_extents(region)) if region.buffer.traits.has_cells else None
    why = f"row r in lane r % {GROUP}, and in each further {GROUP} lanes again"
    return CellsNeed(layout, why, True, call.mark_of(field)) if layout else None


def lay_out_factors(shape: Sequence[int]) -> TileLayout | None:
    """Scale factors of one byte over [.., rows, steps along K]; None for rows and steps that fill no columns.

    Row r is in lane r % 32 of all four groups of lanes, byte r / 32 of the columns on; four steps share a column, the
    next four lie behind all rows. Source: PTX ISA, tcgen05.mma, "Scale factor layouts".

    >>> print(lay_out_factors((4, 128, 4)))
    S[(4, 4, 32, 4):(16@TCol, 4@TCol, 1@TLane, 1@TCol)] + R[4:32@TLane]
    """
    if len(shape) < 2:
        return None
    *outer, rows, steps = shape
    if rows % GROUP or (steps > COLUMN_BYTES and steps % COLUMN_BYTES):
        return None
    columns = -(-rows // (GROUP * GROUPS)) * _UNIT_COLUMNS
    whole = columns * COLUMN_BYTES * -(-steps // COLUMN_BYTES)
    along: tuple[Iter, ...] = (Iter(rows // GROUP, COLUMN_BYTES, "TCol"), Iter(GROUP, 1, "TLane"))
    if steps > COLUMN_BYTES:
        behind = columns * COLUMN_BYTES
        along += (Iter(steps // COLUMN_BYTES, behind, "TCol"), Iter(COLUMN_BYTES, 1, "TCol"))
    else:
        along += (Iter(steps, 1, "TCol"),)
    first = tuple(Iter(n, whole * prod(outer[d + 1 :]), "TCol") for d, n in enumerate(outer))
    return TileLayout((*first, *along), (Iter(GROUPS, GROUP, "TLane"),))


def are_same(one: TileLayout, other: object) -> bool:
    """Do two layouts place every element alike, however they are written?

    >>> are_same(TileLayout((Iter(2, 2, "TCol"), Iter(2, 1, "TCol"))), TileLayout((Iter(4, 1, "TCol"),)))
    True
    """
    return isinstance(other, TileLayout) and canonicalize(one) == canonicalize(other)


def _extents(region: Region) -> tuple[int, ...]:
    return tuple(int(n) for n in region.buffer.shape)  # type: ignore[arg-type]
