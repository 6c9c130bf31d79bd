"""From the layout of a shared buffer to the descriptors by which wgmma or tcgen05 reads its matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilegen.dtypes import DTYPES
from tilegen.errors import LayoutError
from tilegen.layouts import ComposeLayout, Layout, SwizzleLayout, TileLayout, row_major, swizzle_atom
from tilegen.plan import MatrixDescriptor
from tilegen.plan.descriptors import (
    CHUNK_BYTES,
    DEPTH_BYTES,
    GROUP,
    MODES,
    TCGEN05,
    WGMMA,
    WIDE_BYTES,
    WIDE_ELEM_BYTES,
    WIDE_ROW_BYTES,
)

_MAJORS = {"k": "along K", "mn": "along M or N"}


class SwizzleMode(NamedTuple):
    """A swizzle that an engine reads: bytes of its rows (0: none), and of the chunks that trade places in them."""

    engine: str
    bytes: int = 0
    chunk_bytes: int = CHUNK_BYTES


@dataclass(frozen=True)
class DescribedTile:
    """A tile as the matrices that single products multiply, all with one descriptor.

    ``starts[i][k]``: where the matrix of rows ``i`` and step ``k`` along K begins, in elements, before chunks trade
    places.
    """

    descriptor: MatrixDescriptor
    starts: tuple[tuple[int, ...], ...]


def describe_tile(
    layout: Layout, shape: Sequence[int], dtype: str, rows: int, transposed: bool = False, engine: str = WGMMA
) -> DescribedTile:
    """The descriptor of the matrices of ``rows`` rows that make up a tile (M or N, K); ``transposed``: (K, M or N).

    ``engine``: wgmma or tcgen05, which multiplies them. Every element of the tile is compared with what the hardware
    reads. Raises LayoutError where no descriptor says how the tile lies, with the reason. The tile's buffer begins at a
    multiple of ``descriptor.pattern_bytes``.

    >>> from tilegen.layouts import mma_shared_layout
    >>> found = describe_tile(mma_shared_layout("bfloat16", 128, (64, 128)), (64, 128), "bfloat16", 64)
    >>> found.descriptor.along, found.descriptor.stride_bytes, found.starts
    ('k', 1024, ((0, 16, 32, 48, 4096, 4112, 4128, 4144),))
    """
    size = DTYPES[dtype].bytes
    return describe_places(_linear_bytes(layout, shape, size, transposed), size, mode_of(layout, dtype, engine), rows)


def describe_places(linear: NDArray[np.int64], size: int, mode: SwizzleMode, rows: int) -> DescribedTile:
    """The same from where each element (M or N, K) lies before the swizzle, in bytes. Raises LayoutError."""
    depth = DEPTH_BYTES // size
    if linear.shape[0] % rows or linear.shape[1] % depth:
        raise LayoutError(f"matrices of {rows} x {depth} do not divide a tile of {linear.shape[0]} x {linear.shape[1]}")
    if linear.shape != (rows, depth):
        describe_places(linear[:rows, :depth], size, mode, rows)  # which says of most others why not
    blocks = linear.reshape(linear.shape[0] // rows, rows, linear.shape[1] // depth, depth).swapaxes(1, 2)
    reasons = []
    for along, why in _MAJORS.items():
        descriptor = _guess(blocks[0, 0] - blocks[0, 0, 0, 0], size, along, mode)
        reason = descriptor.problem() or _find_difference(blocks, descriptor)
        if not reason:
            starts = tuple(tuple(int(x) // size for x in row) for row in blocks[:, :, 0, 0])
            return DescribedTile(descriptor, starts)
        reasons.append(f"{why}, {reason}")
    raise LayoutError(f"no descriptor of {mode.engine} says how the tile lies: {'; '.join(reasons)}")


@cache
def _modes_of(dtype: str, engine: str) -> dict[SwizzleLayout, SwizzleMode]:
    """The modes that an engine has for elements of a type, by their swizzles."""
    found = {swizzle_atom(dtype, n): SwizzleMode(engine, n) for n in MODES}
    if engine == TCGEN05 and DTYPES[dtype].bytes == WIDE_ELEM_BYTES:
        found[WIDE_SWIZZLE] = SwizzleMode(engine, WIDE_ROW_BYTES, WIDE_BYTES)
    return found


# Chunks of 32 bytes in rows of 128, of elements of 4: byte b is at b ^ (b >> 7 & 3) << 5 (CUDA Driver API,
# CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B).
WIDE_SWIZZLE = SwizzleLayout(3, 2, 2)


@cache
def _list_modes(dtype: str, engine: str) -> str:
    return ", ".join(str(s) for s, mode in _modes_of(dtype, engine).items() if mode.bytes)


def mode_of(layout: Layout, dtype: str, engine: str = WGMMA) -> SwizzleMode:
    """Which of the swizzles that an engine reads a layout has. Raises LayoutError for others.

    >>> mode_of(swizzle_atom("float16", 64), "float16", "tcgen05")
    SwizzleMode(engine='tcgen05', bytes=64, chunk_bytes=16)
    """
    if isinstance(layout, TileLayout):
        return SwizzleMode(engine)
    known = _modes_of(dtype, engine)
    swizzle = layout.swizzle if isinstance(layout, ComposeLayout) else layout
    if not isinstance(swizzle, SwizzleLayout):
        raise LayoutError(f"{engine} reads tiles and swizzles of them, not {layout}")
    if swizzle not in known:
        raise LayoutError(f"{engine} knows the swizzles {_list_modes(dtype, engine)} of {dtype}, not {swizzle}")
    return known[swizzle]


def _linear_bytes(layout: Layout, shape: Sequence[int], size: int, transposed: bool) -> NDArray[np.int64]:
    """Where each element (M or N, K) lies before the swizzle, in bytes."""
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    coords = tuple(np.indices(tuple(shape)))
    if isinstance(tile, SwizzleLayout):  # which acts on the row-major place
        tile = row_major(tuple(shape))
    place = tile.place(coords, shape)
    if set(place) - {"m"}:
        raise LayoutError(f"a product reads shared memory, where there is only an axis m, not {', '.join(place)}")
    linear = np.broadcast_to(np.asarray(place["m"]), tuple(shape)).astype(np.int64) * size
    return linear.T if transposed else linear


def _guess(block: NDArray[np.int64], size: int, along: str, mode: SwizzleMode) -> MatrixDescriptor:
    """The only descriptor that may fit, its offsets read off the first matrix; what is not used is one chunk."""
    rows, chunk = block.shape[0], CHUNK_BYTES // size
    pitch = max(CHUNK_BYTES, mode.bytes) // size

    def at(row: int, k: int) -> int:
        return int(block[row, k]) if row < block.shape[0] and k < block.shape[1] else CHUNK_BYTES

    if along == "k":
        leading, stride = CHUNK_BYTES if mode.bytes else at(0, chunk), at(GROUP, 0)
    else:
        leading, stride = at(pitch, 0), at(0, GROUP * CHUNK_BYTES // mode.chunk_bytes)
        leading, stride = (leading, stride) if mode.bytes else (stride, leading)
    return MatrixDescriptor(rows, size, along, mode.bytes, leading, stride, mode.engine, mode.chunk_bytes)


def _find_difference(blocks: NDArray[np.int64], descriptor: MatrixDescriptor) -> str:
    """The first element that lies elsewhere than the descriptor says; "" if there is none."""
    wanted = descriptor.offsets()
    for i, k in product(range(blocks.shape[0]), range(blocks.shape[1])):
        start = int(blocks[i, k, 0, 0])
        if start % CHUNK_BYTES or start % descriptor.pattern_bytes >= descriptor.room_bytes:
            return f"a matrix begins at byte {start}, not a multiple of {descriptor.pattern_bytes}"
        found = blocks[i, k] - start
        if (found != wanted).any():
            row, column = (int(x[0]) for x in np.nonzero(found != wanted))
            wide = f" of {WIDE_BYTES}-byte chunks" if descriptor.chunk_bytes == WIDE_BYTES else ""
            swizzle = f"the {descriptor.swizzle_bytes}-byte swizzle{wide}" if descriptor.swizzle_bytes else "no swizzle"
            return (
                f"with {swizzle}, element ({row}, {column}) of a matrix lies {int(wanted[row, column])} bytes from its "
                f"start, here {int(found[row, column])}"
            )
    return ""
