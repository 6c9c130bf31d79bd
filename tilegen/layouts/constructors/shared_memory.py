"""Shared memory as TMA, wgmma and tcgen05 read it: swizzle atoms, tiles of them, and what fits a TMA box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilegen.errors import LayoutError
from tilegen.layouts.constructors.arguments import element_bits, require_extents
from tilegen.layouts.core.canonical import canonicalize
from tilegen.layouts.core.dimensions import row_major
from tilegen.layouts.core.iters import Iter, product, require_known
from tilegen.layouts.core.values import ComposeLayout, SwizzleLayout, TileLayout

VECTOR_BITS = 128  # of the 16-byte chunks that a swizzle keeps whole
ATOM_ROWS = 8
SWIZZLES = {0: 0, 16: 0, 32: 1, 64: 2, 128: 3}  # bytes of a row -> bits that are exchanged; 16 is "no swizzle" too


_MODES = {"none": 0, "32B": 32, "64B": 64, "128B": 128}


def swizzle_atom(dtype: str, swizzle_bytes: int | str) -> SwizzleLayout:
    """The swizzle of 32-, 64- or 128-byte rows: 16-byte chunks stay whole, the row number is XORed into the chunk.

    On bytes b: b ^ ((b >> 7) & (swizzle_bytes / 16 - 1)) << 4 (CUDA Driver API, CUtensorMapSwizzle); 0 is none.
    Raises LayoutError for other sizes and elements that are not 4 to 64 bits wide.

    >>> print(swizzle_atom("float16", 128), swizzle_atom("float4_e2m1fn", 32))
    Swizzle(3, 3, 3) Swizzle(5, 1, 3)
    """
    return SwizzleLayout(_chunk_elems(dtype).bit_length() - 1, _swizzle_bits(swizzle_bytes), 3)


def _chunk_elems(dtype: str) -> int:
    bits = element_bits(dtype)
    if bits not in (4, 8, 16, 32, 64):
        raise LayoutError(f"a swizzle atom has elements of 4, 8, 16, 32 or 64 bits, {dtype} has {bits}")
    return VECTOR_BITS // bits


def _swizzle_bits(swizzle_bytes: int | str) -> int:
    if isinstance(swizzle_bytes, str):  # "128B" and "none", as the hardware's modes are named
        swizzle_bytes = _MODES.get(swizzle_bytes, -1)
    if isinstance(swizzle_bytes, bool) or swizzle_bytes not in SWIZZLES:
        raise LayoutError(f"a swizzle has rows of 32, 64 or 128 bytes (0 for none), not {swizzle_bytes}")
    return SWIZZLES[swizzle_bytes]


def swizzle_atom_shape(dtype: str, swizzle_bytes: int | str) -> tuple[int, int]:
    """(rows, elements of a row) of one swizzle atom: 8 rows of ``swizzle_bytes``.

    Raises LayoutError as swizzle_atom does, and without a swizzle, which has no atom.

    >>> swizzle_atom_shape("float16", 128)
    (8, 64)
    """
    chunk, bits = _chunk_elems(dtype), _swizzle_bits(swizzle_bytes)
    if bits == 0:
        raise LayoutError("without a swizzle there is no atom")
    return ATOM_ROWS, chunk << bits


def mma_shared_layout(dtype: str, swizzle_bytes: int | str, shape: Sequence[int]) -> TileLayout | ComposeLayout:
    """A K-major operand of wgmma or tcgen05.mma over (..., rows, cols): columns cut into blocks as wide as the swizzle.

    Element (r, c) is at block * rows * w + r * w + c % w before the swizzle, w = swizzle_bytes / element size and
    block = c / w; leading dimensions are row-major. Without a swizzle (0) blocks are 16 bytes wide, and columns that
    are no whole number of those stay row-major, which no descriptor describes. Raises LayoutError for fewer than two
    dimensions, columns that are no whole number of blocks, and several blocks whose rows are no whole number of atoms.

    >>> print(mma_shared_layout("float16", 128, (64, 256)))
    Swizzle(3, 3, 3) o S[(64, 4, 64):(64, 4096, 1)]
    """
    if not isinstance(shape, (tuple, list)) or len(shape) < 2:
        raise LayoutError(f"an operand in shared memory has rows and columns, not {shape!r}")
    *leading, rows, cols = require_extents(shape, len(shape), "an operand in shared memory")
    bits, chunk = _swizzle_bits(swizzle_bytes), _chunk_elems(dtype)
    width = chunk << bits
    if cols % width:
        if bits == 0:
            return canonicalize(row_major((*leading, rows, cols)))
        raise LayoutError(f"{cols} columns of {dtype} are no whole number of {swizzle_bytes} bytes ({width} elements)")
    blocks = require_known(product((*leading, cols // width)), "an extent")
    if bits and rows % ATOM_ROWS and blocks > 1:
        raise LayoutError(f"{rows} rows are no whole number of atoms of {ATOM_ROWS}: a second block starts inside one")
    outer = [Iter(i.extent, i.stride * (rows * cols)) for i in (row_major(leading).shard if leading else ())]
    tile = TileLayout((*outer, Iter(rows, width), Iter(cols // width, rows * width), Iter(width, 1)))
    return canonicalize(ComposeLayout(swizzle_atom(dtype, swizzle_bytes), tile) if bits else tile)


# CUDA Driver API, cuTensorMapEncodeTiled: the limits of its arguments; PTX ISA, mbarrier: transaction counts < 2**20.
_MOST_DIMENSIONS = 5
_MOST_BOX_EXTENT = 256
_BOX_ALIGN_BYTES = 16
_MOST_EXTENT = 1 << 32
_STRIDE_LIMIT_BYTES = 1 << 40
_TRANSACTION_LIMIT_BYTES = 1 << 20
_TMA_BITS = (4, 8, 16, 32, 64)


def find_tma_problems(
    dtype: str,
    box: Sequence[int],
    swizzle_bytes: int = 0,
    shape: Sequence[int] | None = None,
    strides_bytes: Sequence[int] | None = None,
) -> list[str]:
    """Why TMA cannot copy a box of a tensor, one sentence for each reason; [] when it can.

    ``box`` and ``shape`` are in elements, the last dimension contiguous (the driver's boxDim reversed);
    ``strides_bytes`` are those of all dimensions but the last (default: dense). Raises LayoutError for what is no
    element type and no swizzle.

    >>> find_tma_problems("float16", (64, 64), 128)
    []
    >>> find_tma_problems("float16", (64, 128), 128)
    ['a row of the box is 256 bytes, a 128-byte swizzle takes at most 128']
    """
    bits, swizzle = element_bits(dtype), _swizzle_bits(swizzle_bytes)
    if bits not in _TMA_BITS:
        return [f"TMA moves elements of {', '.join(map(str, _TMA_BITS))} bits, {dtype} has {bits}"]
    reasons = _box_problems(box, bits, swizzle_bytes if swizzle else 0)
    if shape is not None and not reasons:
        reasons = _tensor_problems(shape, strides_bytes, len(box), bits)
    return reasons


def _box_problems(box: Sequence[int], bits: int, swizzle_bytes: int) -> list[str]:
    if not 1 <= len(box) <= _MOST_DIMENSIONS:
        return [f"a box has 1 to {_MOST_DIMENSIONS} dimensions, not {len(box)}"]
    reasons = [
        f"dimension {d} of the box is 1 to {_MOST_BOX_EXTENT} elements, not {n}"
        for d, n in enumerate(box)
        if not _is_between(n, 1, _MOST_BOX_EXTENT)
    ]
    if reasons:
        return reasons
    row_bits = box[-1] * bits
    if row_bits % (8 * _BOX_ALIGN_BYTES):
        reasons.append(f"a row of the box is {row_bits / 8:g} bytes, not a multiple of {_BOX_ALIGN_BYTES}")
    if swizzle_bytes and row_bits > 8 * swizzle_bytes:
        reasons.append(
            f"a row of the box is {row_bits // 8} bytes, a {swizzle_bytes}-byte swizzle takes at most {swizzle_bytes}"
        )
    box_bytes = require_known(product(box), "a box") * bits // 8
    if box_bytes >= _TRANSACTION_LIMIT_BYTES:
        reasons.append(f"the box is {box_bytes} bytes, an mbarrier counts at most {_TRANSACTION_LIMIT_BYTES - 1}")
    return reasons


def _tensor_problems(
    shape: Sequence[int], strides_bytes: Sequence[int] | None, dimensions: int, bits: int
) -> list[str]:
    if len(shape) != dimensions:
        return [f"the tensor has {len(shape)} dimensions, the box {dimensions}"]
    reasons = [
        f"dimension {d} of the tensor is 1 to {_MOST_EXTENT} elements, not {n}"
        for d, n in enumerate(shape)
        if not _is_between(n, 1, _MOST_EXTENT)
    ]
    if reasons:
        return reasons
    strides = _dense_strides(shape, bits) if strides_bytes is None else list(strides_bytes)
    if len(strides) != dimensions - 1:
        return [f"{len(strides)} strides for {dimensions} dimensions: all but the last have one"]
    return [
        f"the stride of dimension {d} is {s:g} bytes, not a multiple of {_BOX_ALIGN_BYTES} below 2**40"
        for d, s in enumerate(strides)
        if s % _BOX_ALIGN_BYTES or not 0 <= s < _STRIDE_LIMIT_BYTES
    ]


def _dense_strides(shape: Sequence[int], bits: int) -> list[float]:
    return [require_known(product(shape[d + 1 :]), "a stride") * bits / 8 for d in range(len(shape) - 1)]


def _is_between(n: Any, low: int, high: int) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and low <= n <= high
