"""Layouts by which a product of tcgen05 finds its operands in tensor memory, and the error for others.

Source: PTX ISA, tcgen05.mma, "Data path layout organization" (D: row r in lane r) and "Packing formats" of A there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilegen.errors import Flaw
from tilegen.layouts import find_atom
from tilegen.ops.cells import CellsNeed, are_same, need_factors, need_rows
from tilegen.ops.held import matrix_of
from tilegen.ops.mma.atoms import FACTORS
from tilegen.ops.mma.tensor import LANES, begins_factors, find_columns
from tilegen.ops.operand import Refused, bind_alone
from tilegen.spec.data import Call, Region
from tilegen.spec.tensor_memory import lay_out_rows

_MOST_COLUMNS, _STEP = 256, 8  # of one product


def need_cells(call: Call, field: str) -> CellsNeed | None:
    """The layout over the whole buffer of an operand, by which a product finds it."""
    return need_factors(call, field) if field in FACTORS else need_rows(call, field)


def check_cells(fields: Any, regions: Mapping[str, Region]) -> Flaw | None:
    """Sums, and a where it is in tensor memory, in the lanes and columns that a product has them in."""
    widths = {"c": _find_width(fields, regions), "a": regions["a"].shape[1]}
    for field, columns in widths.items():
        region = regions[field]
        if region.buffer.traits.has_cells and not region.buffer.is_auto:
            try:
                find_columns(bind_alone(region), LANES, columns)
            except Refused as refusal:
                return Flaw("TG212", str(refusal), field, _say_layout(region))
    return None


def _find_width(fields: Any, regions: Mapping[str, Region]) -> int:
    """The N of the products that a call is made of; where none divides its own, 8: planning says so."""
    if fields.atom != "auto":
        return find_atom(fields.atom).shape[1]
    n, is_scaled = regions["c"].shape[1], any(field in regions for field in FACTORS)
    widths = [w for w in range(_STEP, _MOST_COLUMNS + 1, _STEP) if n % w == 0]
    return max((w for w in widths if not is_scaled or begins_factors(w, n)), default=_STEP)


def _say_layout(region: Region) -> str:
    """The layout of the whole buffer that fits; where it is that already, what else may be wrong."""
    shape = [int(n) for n in region.buffer.shape]  # type: ignore[arg-type]
    fitting = lay_out_rows(shape, *matrix_of(region))
    if are_same(fitting, region.buffer.layout):
        return f"begin at row 0, or at a multiple of {LANES} rows"
    return f"give '{region.buffer.name}' 'layout: auto', which is \"{fitting}\" here"
