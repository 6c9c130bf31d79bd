"""What a gemm means: every element of d from a row of a and a column of b, by its coordinates alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic import TFLOAT32_EVEN
from tilegen.dtypes import DTYPES
from tilegen.index import evaluate
from tilegen.ops.gemm.epilogue import read_epilogue
from tilegen.ops.gemm.problem import read_problem, sums_of
from tilegen.ops.op import WholeHere
from tilegen.ops.strided import find_coordinates, find_offsets
from tilegen.spec.data import Buffer, Expression, WholeCall
from tilegen.spec.form import operand_field

Array = NDArray[Any]

_DEPTH = 512  # of K, that is read at a time where sums may be made in parts: what is read stays in a processor's caches


def multiply_whole(call: WholeCall, offsets: Array, here: WholeHere) -> dict[str, Array]:
    """The elements of d at flat offsets: sums of whole rows times whole columns, then the epilogue."""
    d = call.arrays["d"]
    at = find_coordinates(d, offsets, here.params)
    values = np.zeros(offsets.shape, here.domain.bits(DTYPES[d.dtype].bytes))
    batches = at[0] if len(at) == 3 else np.zeros(offsets.shape, np.int64)
    epilogue = read_epilogue(call, read_problem(call), here.scalar_types)
    for batch in np.unique(batches):
        own = np.flatnonzero(batches == batch)
        values[own] = _multiply_one(call, epilogue, int(batch), at[-2][own], at[-1][own], here).view(values.dtype)
    return {"d": values}


def _multiply_one(
    call: WholeCall, epilogue: Expression | None, batch: int, rows: Array, columns: Array, here: WholeHere
) -> Array:  # fmt: skip
    """Elements of one product, of which a block of these rows and columns is made."""
    depth = int(extent_of(call.arrays["a"].shape[-1], here))
    acc = add_products(call, batch, rows, columns, range(depth), here)
    return make_results(call, epilogue, acc, (batch, rows, columns), here)


def add_products(
    call: WholeCall, batch: int, rows: Array, columns: Array, along_k: range, here: WholeHere
) -> Array:  # fmt: skip
    """Sums of products of rows of a and columns of b, over the elements ``along_k``."""
    a, b = call.arrays["a"], call.arrays["b"]
    m, row_of = np.unique(rows, return_inverse=True)
    n, column_of = np.unique(columns, return_inverse=True)
    sums = sums_of(a.dtype)
    factors = a.dtype if call.fields.math == "exact" else TFLOAT32_EVEN
    total: Array | None = None
    part = _DEPTH if here.domain.adds_freely else len(along_k)
    for first in range(along_k.start, along_k.stop, part):
        k = np.arange(first, min(first + part, along_k.stop))
        left = _read(call, "a", a, (batch, m[:, None], k[None, :]), here)
        right = _read(call, "b", b, (batch, k[:, None], n[None, :]), here)
        total = here.domain.matmul(left, right, total, factors, sums)
    assert total is not None  # K is at least 1
    return total[row_of, column_of]


def make_results(
    call: WholeCall, epilogue: Expression | None, acc: Array, at: tuple[int, Array, Array], here: WholeHere
) -> Array:  # fmt: skip
    """What the epilogue makes of sums, for elements of d at a batch, rows and columns."""
    d = call.arrays["d"]
    if epilogue is None:
        return np.ascontiguousarray(here.domain.convert(acc, sums_of(call.arrays["a"].dtype), d.dtype))
    fields = {name: name if name in ("c", "bias") else operand_field(name) for name in epilogue.operands}
    elements = [
        acc if name == "acc" else _read(call, fields[name], call.arrays[fields[name]], at, here)
        for name in epilogue.operands
    ]
    return np.ascontiguousarray(here.domain.compute(epilogue.tree, elements, [], here.scalars, d.dtype))


def _read(call: WholeCall, field: str, array: Buffer, at: tuple[Any, ...], here: WholeHere) -> Array:
    """Elements of an array; along extents of 1 there is one."""
    own = [0 * x if extent_of(n, here) == 1 else x for x, n in zip(at[-len(array.shape) :], array.shape, strict=True)]
    full = np.broadcast_shapes(*(np.shape(x) for x in at))
    offsets = np.broadcast_to(find_offsets(array, own, here.params), full)
    return here.inputs[field](np.ascontiguousarray(offsets))


def extent_of(n: Any, here: WholeHere) -> int:
    """An extent with the params of the place."""
    return int(evaluate(n, dict(here.params)))
