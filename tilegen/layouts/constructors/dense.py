"""Dense arrays, and a warpgroup's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilegen.errors import LayoutError
from tilegen.index import Index
from tilegen.layouts.core.iters import Iter, product, require_index, require_known, row_major_strides
from tilegen.layouts.core.values import TileLayout


def row_major(shape: Sequence[Index]) -> TileLayout:
    """The dense layout whose last dimension is the fastest; extents may be runtime Index.

    Raises LayoutError for an empty shape and extents < 1.

    >>> print(row_major((8, 64)))
    S[(8, 64):(64, 1)]
    """
    shape = [require_index(n, "an extent", 1) for n in shape]
    return TileLayout(tuple(Iter(n, s) for n, s in zip(shape, row_major_strides(shape), strict=True)))


def column_major(shape: Sequence[Index]) -> TileLayout:
    """The dense layout whose first dimension is the fastest; extents may be runtime Index.

    Raises LayoutError for an empty shape and extents < 1.

    >>> print(column_major((8, 64)))
    S[(8, 64):(1, 8)]
    """
    shape = [require_index(n, "an extent", 1) for n in shape]
    return TileLayout(tuple(Iter(n, product(shape[:k])) for k, n in enumerate(shape)))


def wg_local_layout(cols: int, rows: int = 128) -> TileLayout:
    """A register tile of a warpgroup, one row for each thread: row i in thread i, column j in register j.

    Raises LayoutError unless 1 <= rows <= 128, the threads of a warpgroup.

    >>> print(wg_local_layout(16))
    S[(128, 16):(1@tid_in_wg, 1)]
    """
    if isinstance(rows, bool) or not (isinstance(rows, int) and 1 <= rows <= 128):
        raise LayoutError(f"a warpgroup has 128 threads, one for each row: rows is 1 to 128, not {rows}")
    return TileLayout((Iter(rows, 1, "tid_in_wg"), Iter(cols, 1)))


def require_extents(shape: Sequence[Any], dimensions: int, what: str) -> tuple[int, ...]:
    """The extents of a shape that hardware fixes, known at build time.

    Raises LayoutError for another number of dimensions, and for extents that are no integer >= 1.

    >>> require_extents((64, 32), 2, "a tile")
    (64, 32)
    """
    if not isinstance(shape, (tuple, list)) or len(shape) != dimensions:
        raise LayoutError(f"{what} has {dimensions} dimensions, not {shape!r}")
    return tuple(require_known(require_index(n, "an extent", 1), "an extent") for n in shape)
