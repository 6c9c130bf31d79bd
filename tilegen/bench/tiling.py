"""How a permute is cut into two-dimensional tiles, for a peer that is written as anybody would write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.bench.meaning import Meaning, merged_dims
from tilegen.index.runs import Run
from tilegen.ops.permute.tiles import next_power

OUTER_DIMS = 6  # of 8 dimensions, two are in the tile
_MOST_ELEMS = 1 << 31


@dataclass(frozen=True)
class Tiling:
    """Tiles of ``rows`` by ``cols``, where cols run along the source's rows; ``outer`` numbers the planes of tiles.

    The sides of each are the source and the target.
    """

    rows: Run[int]
    cols: Run[int]
    outer: tuple[Run[int], ...]


@dataclass(frozen=True)
class TileShape:
    """Elements of a tile, and the warps that move it."""

    rows: int
    cols: int
    warps: int

    def __str__(self) -> str:
        return f"{self.rows} x {self.cols} tiles, {self.warps} warps"


def cut_permute(meaning: Meaning) -> Tiling | None:
    """The tiling over the fastest dimensions of either side, or None where the permute is a plain copy.

    Where both sides have the same fastest dimension, its rows are moved, many rows a tile.

    >>> cut_permute(Meaning("X", "Y", (8, 64, 32), (0, 2, 1), 4)).outer
    (Run(extent=8, strides=(2048, 2048), guard=None),)
    """
    shape, axes = meaning.shape, meaning.axes
    if meaning.elem_bytes == 16:  # pairs of 8 bytes
        shape, axes = (*shape, 2), (*axes, len(shape))
    dims = merged_dims(shape, axes)
    if len(dims) < 2:
        return None
    cols = next(d for d in dims if d.strides[0] == 1)
    others = sorted((d for d in dims if d is not cols), key=lambda d: d.strides[1])
    return Tiling(others[0], cols, tuple(others[1:]))


def tile_shapes(tiling: Tiling, areas: Sequence[int], warps: Sequence[int]) -> list[TileShape]:
    """Tiles of about so many elements, square and four times as long as wide either way, as far as the sizes allow.

    >>> square = Run(8192, (8192, 1)), Run(8192, (1, 8192))
    >>> [str(s) for s in tile_shapes(Tiling(*square, ()), [1024], [4])]
    ['16 x 64 tiles, 4 warps', '32 x 32 tiles, 4 warps', '64 x 16 tiles, 4 warps']
    >>> [str(s) for s in tile_shapes(Tiling(Run(3, (9, 1)), Run(9999, (1, 3)), ()), [1024], [4])]
    ['4 x 256 tiles, 4 warps']
    """
    found = [_fit(tiling, area, 2**half) for area in areas for half in (-1, 0, 1)]
    return [TileShape(*shape, count) for shape in dict.fromkeys(found) for count in warps]


def _fit(tiling: Tiling, area: int, stretch: float) -> tuple[int, int]:
    most_rows, most_cols = next_power(tiling.rows.extent), next_power(tiling.cols.extent)
    rows = min(most_rows, int(area**0.5 * stretch))
    cols = min(most_cols, area // rows)
    return min(most_rows, area // cols), cols


def is_wide(tiling: Tiling, shape: TileShape) -> bool:
    """Whether offsets inside of a tile need 64 bits."""
    sides = ((tiling.rows, shape.rows), (tiling.cols, shape.cols))
    return any(sum((n - 1) * d.strides[k] for d, n in sides) >= _MOST_ELEMS for k in (0, 1))
