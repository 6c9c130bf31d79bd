"""What the second pass of a gemm means whose K several CTAs share: d, made of the sums of all parts in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.dtypes import DTYPES
from tilegen.ops.expanding import mean_pass
from tilegen.ops.gemm.epilogue import read_epilogue
from tilegen.ops.gemm.problem import read_problem
from tilegen.ops.gemm.reference import make_results
from tilegen.ops.op import WholeHere
from tilegen.ops.strided import find_coordinates, find_offsets
from tilegen.spec.data import Buffer, WholeCall

Array = NDArray[Any]


@dataclass(frozen=True)
class SumFields:
    """``product``: the gemm, of so many ``parts`` of K. ``is_turned``: their sums lie as those of the transpose."""

    product: WholeCall
    parts: int
    is_turned: bool


def mean_sum(fields: SumFields, sums: Buffer) -> WholeCall:
    """The second pass as an op on whole arrays, which reads ``sums``: [parts, M, N]."""
    arrays = {name: array for name, array in fields.product.arrays.items() if name not in ("a", "b")}
    return WholeCall(OP, fields, arrays | {"sums": sums}, fields.product.mark)


def _add_up(call: WholeCall, offsets: Array, here: WholeHere) -> dict[str, Array]:
    """The elements of d at flat offsets."""
    fields, sums, d = call.fields, call.arrays["sums"], call.arrays["d"]
    rows, columns = find_coordinates(d, offsets, here.params)
    place = (columns, rows) if fields.is_turned else (rows, columns)
    parts = [
        here.inputs["sums"](find_offsets(sums, [np.full_like(rows, n), *place], here.params))
        for n in range(fields.parts)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = here.domain.combine("+", total, part, sums.dtype)
    epilogue = read_epilogue(fields.product, read_problem(fields.product), here.scalar_types)
    made = make_results(fields.product, epilogue, total, (0, rows, columns), here)
    return {"d": made.view(here.domain.bits(DTYPES[d.dtype].bytes))}


OP = mean_pass("gemm_sum", ("c", "bias", "sums"), ("d",), _add_up)
