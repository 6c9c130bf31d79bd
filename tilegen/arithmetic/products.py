"""Products of matrices as tensor cores make them: exact products, summed in double precision, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.dtypes import numpy_dtype

Array = NDArray[Any]

TFLOAT32 = "tfloat32"  # a float32 of which a multiplication reads 8 exponent and 10 mantissa bits
TFLOAT32_CUT = "tfloat32 cut off"  # the same, the other bits dropped: what hardware makes of a float32 by itself
TFLOAT32_EVEN = "tfloat32 to even"  # the same, ties to even: what TMA makes of a float32 that it rounds
TFLOAT32_UNITS = {TFLOAT32: 2.0**-11, TFLOAT32_CUT: 2.0**-10, TFLOAT32_EVEN: 2.0**-11}  # relative errors of each
TFLOAT32_LEAST = 2.0**-136  # and the error among the denormals
SCALED = "float8 scaled"  # products of 8-bit floats by powers of two, held exactly
_HELD = {**dict.fromkeys(TFLOAT32_UNITS, "float32"), SCALED: "float64"}
_DROPPED_BITS = 13  # of a float32's mantissa that a tfloat32 has not
_EXACT = 1 << 53  # integers below this are exact in float64
_DEEP = 128  # of K that it takes at once, so that what it multiplies stays in its caches
_ALONE = 1 << 18  # multiplications that OpenBLAS makes without other threads
_SIDE, _LEAST_SIDE = 64, 16  # of a block: so many rows and columns, and no fewer


def held_type(dtype_ab: str) -> str:
    """The element type that holds what a product multiplies as ``dtype_ab``.

    >>> held_type(TFLOAT32), held_type("float16")
    ('float32', 'float16')
    """
    return _HELD.get(dtype_ab, dtype_ab)


def multiply(a: Array, b: Array, c: Array, dtype_ab: str, dtype_acc: str) -> Array:
    """c + a b for typed arrays (.., M, K), (.., K, N) and (.., M, N), as elements of ``dtype_acc``.

    ``dtype_ab``: what elements of a and b are multiplied as; of "tfloat32" they are float32, and rounded (or cut off)
    first. The sum of a float type is rounded once, where hardware may round in between (PTX ISA, mma: "accumulation ..
    is with at least single precision", its order and rounding unspecified); that of integers wraps.

    >>> one = np.ones((2, 2), np.float16)
    >>> multiply(one, one, np.full((2, 2), 0.5, np.float32), "float16", "float32").tolist()
    [[2.5, 2.5], [2.5, 2.5]]
    """
    target = numpy_dtype(dtype_acc)
    if target.kind in "iu":
        return _multiply_integers(a, b, c, target)
    if dtype_ab in TFLOAT32_UNITS:
        a, b = (_AS_TFLOAT32[dtype_ab](x) for x in (a, b))
    with np.errstate(all="ignore"):
        total: Array = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
        return total.astype(target)


def _multiply_integers(a: Array, b: Array, c: Array, target: np.dtype[Any]) -> Array:
    """Modulo the accumulator's size: PTX ISA, mma: without .satfinite the sum wraps around."""
    reach = [int(np.abs(x.astype(np.float64)).max(initial=0)) for x in (a, b)]
    if reach[0] * reach[1] * a.shape[-1] < _EXACT:  # the product of float64 matrices is BLAS's
        product = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
    else:
        product = a.astype(np.int64) @ b.astype(np.int64)
    return (product + c.astype(np.int64)).astype(target)


def round_to_tfloat32(x: Array) -> Array:
    """float32 values rounded to 10 mantissa bits: to nearest, ties away from zero (PTX ISA, cvt.rna.tf32.f32).

    >>> round_to_tfloat32(np.array([1 + 2**-11, -(1 + 2**-11), 1 + 2**-12], np.float32)).tolist()
    [1.0009765625, -1.0009765625, 1.0]
    """
    return _keep_bits(x, np.uint32(1 << _DROPPED_BITS - 1))


def cut_to_tfloat32(x: Array) -> Array:
    """float32 values with the last 13 mantissa bits dropped.

    >>> cut_to_tfloat32(np.array([1 + 2**-11, -(1 + 2**-10), 1 - 2**-12], np.float32)).tolist()
    [1.0, -1.0009765625, 0.99951171875]
    """
    return _keep_bits(x, np.uint32(0))


def even_to_tfloat32(x: Array) -> Array:
    """float32 values rounded to 10 mantissa bits: to nearest, ties to even; beyond the largest is infinity.

    So TMA does with CU_TENSOR_MAP_DATA_TYPE_TFLOAT32: the driver API names the type alone; measured on an H200 for
    half a million random patterns, ties and subnormals among them.

    >>> even_to_tfloat32(np.array([1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-12], np.float32)).tolist()
    [1.0, 1.001953125, 1.0]
    """
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return _keep_bits(x, np.uint32((1 << _DROPPED_BITS - 1) - 1) + (bits >> np.uint32(_DROPPED_BITS) & np.uint32(1)))


def _keep_bits(x: Array, added: NDArray[np.uint32] | np.uint32) -> Array:
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    with np.errstate(over="ignore"):
        kept = ((bits + added) & np.uint32(~((1 << _DROPPED_BITS) - 1) & 0xFFFFFFFF)).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), kept)


_AS_TFLOAT32 = {TFLOAT32: round_to_tfloat32, TFLOAT32_CUT: cut_to_tfloat32, TFLOAT32_EVEN: even_to_tfloat32}


def multiply_by_rows(a: Array, b: Array) -> Array:
    """a @ b, so many rows at a time as BLAS takes in one thread: to start others takes it longer than these.

    >>> bool((multiply_by_rows(np.ones((128, 64)), np.eye(64)) == 1).all())
    True
    """
    rows, depth = a.shape[-2:]
    if depth > _DEEP:
        ends = range(0, depth, _DEEP)
        return sum(multiply_by_rows(a[..., k : k + _DEEP], b[..., k : k + _DEEP, :]) for k in ends)  # type: ignore[return-value]
    most = min(rows, max(1, _ALONE // max(1, depth * b.shape[-1])))
    part = next(n for n in range(most, 0, -1) if rows % n == 0) if rows else 1
    parts: Array = np.matmul(a.reshape(*a.shape[:-2], rows // part, part, depth), b[..., None, :, :])
    product: Array = parts.reshape(*parts.shape[:-3], rows, b.shape[-1])
    return product


def multiply_exactly(a: Array, b: Array) -> Array:
    """a @ b for float64 integers of which every sum is exact, so that their order is free: block by block, each as
    near a cube as BLAS takes in one thread.

    >>> bool((multiply_exactly(np.ones((128, 512)), np.ones((512, 256))) == 512).all())
    True
    """
    rows, depth, columns = *a.shape[-2:], b.shape[-1]
    m, n = (next((d for d in range(min(size, _SIDE), 0, -1) if size % d == 0), 0) for size in (rows, columns))
    if m < min(rows, _LEAST_SIDE) or n < min(columns, _LEAST_SIDE) or not rows * columns * depth:
        return multiply_by_rows(a, b)
    left = a.reshape(*a.shape[:-2], rows // m, 1, m, depth)
    right = b.reshape(*b.shape[:-2], 1, depth, columns // n, n).swapaxes(-2, -3)
    right = np.ascontiguousarray(right) if n < columns else right
    most = max(1, _ALONE // (m * n))
    total: Array = np.matmul(left[..., :most], right[..., :most, :])
    for k in range(most, depth, most):
        total += np.matmul(left[..., k : k + most], right[..., k : k + most, :])
    product: Array = total.swapaxes(-2, -3).reshape(*total.shape[:-4], rows, columns)
    return product
