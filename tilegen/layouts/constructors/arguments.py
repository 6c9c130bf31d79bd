"""What constructors are told: element types, of which there are more than kernels compute with, and extents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilegen.dtypes import DTYPES
from tilegen.errors import LayoutError
from tilegen.layouts.core.iters import require_index, require_known
from tilegen.near_words import suggest

# Types that tensor cores read and that have no arithmetic of their own in CUDA C++ (PTX ISA, "Alternate floating
# point data formats" and "Sub-byte types"); a tf32 element is a 32-bit word.
_TENSOR_CORE_BITS = {
    "bit": 1, "int4": 4, "uint4": 4, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float8_e8m0fnu": 8,
    "tfloat32": 32,
}  # fmt: skip


def element_bits(dtype: str) -> int:
    """The width of an element in bits.

    Raises LayoutError for a type that there is not.

    >>> element_bits("float16"), element_bits("float4_e2m1fn")
    (16, 4)
    """
    if dtype in _TENSOR_CORE_BITS:
        return _TENSOR_CORE_BITS[dtype]
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype].bits
    hint = suggest(str(dtype), [*DTYPES, *_TENSOR_CORE_BITS], most=32)
    raise LayoutError(f"there is no element type {dtype!r}", hint=hint)


def require_extents(shape: Sequence[Any], dimensions: int, what: str) -> tuple[int, ...]:
    """The extents of a shape that hardware fixes, known at build time.

    Raises LayoutError for another number of dimensions, and for extents that are no integer >= 1.

    >>> require_extents((64, 32), 2, "a tile")
    (64, 32)
    """
    if not isinstance(shape, (tuple, list)) or len(shape) != dimensions:
        raise LayoutError(f"{what} has {dimensions} dimensions, not {shape!r}")
    return tuple(require_known(require_index(n, "an extent", 1), "an extent") for n in shape)
