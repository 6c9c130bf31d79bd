"""Products beside float64: whole rows from all over the result, and how far off each element may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen import gpu
from tilegen.arithmetic import TFLOAT32
from tilegen.arithmetic.formats import FLOAT_FORMATS
from tilegen.bench.products import Doubles, Product, Strided, evaluate_exactly, read_rows
from tilegen.decisions import count_words

ROWS, FEW_ROWS = 512, 256  # that are compared; the fewer where float64 has more than LARGE products for each
LARGE = 1 << 25
# What is allowed is many times what sums are off on average (which fits what an H200 measured, docs/results/gemm).
_TIMES = 16.0
_TF32_BITS = 10  # after the point; wgmma cuts others off
_EIGHT_BIT_SUMS = 13  # bits that Hopper keeps of sums of 8-bit floats, cut off where each instruction adds
_EIGHT_BIT_DEPTH = 32  # products in an instruction
_SUM_BITS = {"float64": 53}  # else those of float32
_FUNCTION_ERROR = 2.0**-19  # of an epilogue in float32, in parts of what results are


@dataclass(frozen=True)
class Accuracy:
    """How far from float64, in parts of the root mean square of results: that of the errors, and the largest error."""

    rms: float
    largest: float


@dataclass(frozen=True)
class Exact:
    """Rows of a product in float64, counted through all batches: ``sums`` before the epilogue, ``wanted`` after it.

    ``start``: a copy of d's bytes where the epilogue reads them, else None.
    """

    product: Product
    rows: tuple[int, ...]
    sums: Doubles
    wanted: Doubles
    named: Mapping[str, Doubles]
    start: Any = None

    def __str__(self) -> str:
        total = self.product.d.shape[0] * self.product.sizes[0]
        count = count_words(len(self.rows), "row", "rows")
        return f"all {count}" if len(self.rows) == total else f"{count} of {total}, evenly spread"


def choose_rows(product: Product) -> tuple[int, ...]:
    """Rows that are compared, evenly spread over all batches, the first and the last among them.

    Every tile of 128 rows of a result of 8192 has some of them, in all of its columns.
    """
    m, n, k = product.sizes
    total, most = product.d.shape[0] * m, FEW_ROWS if n * k > LARGE else ROWS
    if total <= most:
        return tuple(range(total))
    return tuple(int(r) for r in np.linspace(0, total - 1, most).round())


def find_exact(instruments: Any, product: Product, images: Mapping[str, Any]) -> Exact:
    """Some rows of a product of arrays on the GPU, in float64 (a plain loop there); ``images``: their bytes by name."""
    rows = choose_rows(product)
    m, n, k = product.sizes
    batches, inside = np.divmod(np.asarray(rows), m)
    a, b = product.a, product.b
    left = gpu.Factor(images[a.name], a.dtype, batches * a.strides[0] + inside * a.strides[1], (0, a.strides[2]))
    right = gpu.Factor(images[b.name], b.dtype, batches * b.strides[0], (b.strides[1], b.strides[2]))
    sums = gpu.multiply_rows(instruments, left, right, (len(rows), n, k))
    named = {
        name: read_rows(gpu.fetch_bytes(images[array.name]), array, product, rows)
        for name, array in product.named.items()
    }
    start, image = None, images[product.d.name]
    if product.is_read_again:
        start = gpu.allocate_bytes(image.nbytes)
        gpu.copy_bytes(image, start)
    return Exact(product, rows, sums, evaluate_exactly(product, sums, named), named, start)


def measure_accuracy(exact: Exact, got: Doubles, is_whole: bool = True) -> Accuracy:
    """The errors of rows; not ``is_whole``: of what has no epilogue. Where float64 has no number there is no error."""
    wanted = exact.wanted if is_whole else exact.sums
    known = np.isfinite(wanted)
    with np.errstate(all="ignore"):
        errors = np.where(known, got - wanted, 0.0)
        size = float(np.sqrt(np.mean(np.square(wanted, where=known, out=np.zeros_like(wanted))))) or 1.0
        rms, largest = float(np.sqrt(np.mean(np.square(errors)))) / size, float(np.abs(errors).max()) / size
    return Accuracy(rms, largest)


def find_beyond(exact: Exact, got: Doubles, is_whole: bool = True, rounds_sums: bool = False) -> str:
    """ "" where every element is as near to float64 as its types allow, else the first that is not, in words.

    ``rounds_sums``: sums may be rounded to the type of the factors before the epilogue, as libraries do.
    """
    product, wanted = exact.product, exact.wanted if is_whole else exact.sums
    allowed = allow_errors(exact, is_whole, rounds_sums)
    low, high = _limits(product.d.dtype) if is_whole else (-np.inf, np.inf)
    with np.errstate(all="ignore"):
        wrong = np.isfinite(wanted) & ~(np.abs(got - np.clip(wanted, low, high)) <= allowed)
    if not wrong.any():
        return ""
    row, column = (int(x) for x in np.argwhere(wrong)[0])
    batch, inside = divmod(exact.rows[row], product.sizes[0])
    at = [batch, inside, column] if product.is_batched else [inside, column]
    return (
        f"{product.d.name}{at} is {got[row, column]:.8g}, not {wanted[row, column]:.8g}, within "
        f"{allowed[row, column]:.2g}; "
        f"{int(wrong.sum())} of {wrong.size} elements are too far off"
    )


def allow_errors(exact: Exact, is_whole: bool, rounds_sums: bool) -> Doubles:
    """How far each element may be from float64: the sum's error through the epilogue, and the result's rounding."""
    product = exact.product
    size = float(np.sqrt(np.mean(np.square(exact.sums))))
    error = np.full_like(exact.sums, _TIMES * _sum_error(product) * size)
    if rounds_sums or not is_whole:
        error += 2 * _rounding(product.a.dtype) * np.abs(exact.sums)
    if not is_whole:
        return error + 2 * _rounding(product.d.dtype) * np.abs(exact.sums)
    with np.errstate(all="ignore"):
        moved = [
            np.abs(evaluate_exactly(product, exact.sums + sign * error, exact.named) - exact.wanted) for sign in (-1, 1)
        ]
        known = np.where(np.isfinite(exact.wanted), exact.wanted, 0.0)
        through = np.fmax(*moved)
        if product.tree is not None:
            through += _FUNCTION_ERROR * (np.abs(known) + float(np.sqrt(np.mean(np.square(known)))))
            through += 0.5 if product.d.dtype not in FLOAT_FORMATS else 0.0
        through += 2 * _rounding(product.d.dtype) * np.abs(known) + _least(product.d.dtype)
    return np.asarray(through, np.float64)


def _sum_error(product: Product) -> float:
    """The error of a sum, in parts of what sums are."""
    depth = product.sizes[2]
    if product.a.dtype not in FLOAT_FORMATS:
        return 0.0
    if product.a.dtype.startswith("float8"):
        return 2.0**-_EIGHT_BIT_SUMS * max(1.0, float(np.sqrt(depth / _EIGHT_BIT_DEPTH)))
    factors = 2.0**-_TF32_BITS if product.factors == TFLOAT32 else 0.0
    bits = _SUM_BITS.get(product.a.dtype, FLOAT_FORMATS["float32"].precision)
    return factors + 2.0**-bits * float(np.sqrt(depth))


def _rounding(dtype: str) -> float:
    """Half of the distance of neighbours, in parts of them; integers are not rounded."""
    return 2.0 ** -FLOAT_FORMATS[dtype].precision if dtype in FLOAT_FORMATS else 0.0


def _least(dtype: str) -> float:
    """The distance of denormals."""
    return 2.0 ** FLOAT_FORMATS[dtype].least if dtype in FLOAT_FORMATS else 0.0


def _limits(dtype: str) -> tuple[float, float]:
    """The last values of types that saturate."""
    if dtype.startswith("float8"):
        most = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}[dtype]
        return -most, most
    if dtype not in FLOAT_FORMATS:
        info = np.iinfo(dtype)
        return float(info.min), float(info.max)
    return -np.inf, np.inf


def count_unwritten(image: NDArray[np.uint8], array: Strided, elem_bytes: int, poison: int) -> int:
    """Elements that still hold the poison, less those between the array's own; below 0: some of these were written."""
    elements = image.reshape(-1, elem_bytes)
    held = int((elements == poison).all(1).sum())
    return held - (len(elements) - int(np.prod(array.shape)))
