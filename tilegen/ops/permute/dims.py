"""The dimensions of a permute, those that stay together on both sides as one; and which CTA takes which box of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.index import Index, bound, ceil_div, div, mod, mul
from tilegen.index.runs import Run, fuse
from tilegen.scopes import GRID_LIMITS, cta_variables


@dataclass(frozen=True)
class Dims:
    """The dimensions in src's order, slowest first, each with its strides in src and in dst, in elements.

    ``order``: their positions in dst's order, slowest first.
    """

    dims: tuple[Run[Index], ...]
    order: tuple[int, ...]

    @property
    def src_inner(self) -> int:
        """The dimension in which src is fastest."""
        return len(self.dims) - 1

    @property
    def dst_inner(self) -> int:
        """The dimension in which dst is fastest."""
        return self.order[-1]


def merge_dims(extents: Sequence[Index], src: Sequence[Index], dst: Sequence[Index]) -> Dims:
    """The fewest dimensions that say the same: extents of 1 dropped, neighbours that both sides keep together joined.

    ``extents`` and ``src`` and ``dst`` (strides, in elements) are per dimension, in any order.

    >>> merge_dims((8, 4, 6), (24, 6, 1), (1, 48, 8)).dims  # (8, 24) to (24, 8): a plain transpose
    (Run(extent=8, strides=(24, 1), guard=None), Run(extent=24, strides=(1, 8), guard=None))
    >>> merge_dims((8, 1, 6), (6, 6, 1), (6, 6, 1)).dims  # nothing moves
    (Run(extent=48, strides=(1, 1), guard=None),)
    """
    sides = zip(src, dst, strict=True)
    own = (Run(n, strides) for n, strides in zip(extents, sides, strict=True) if not (isinstance(n, int) and n == 1))
    dims = fuse(sorted(own, key=lambda d: -bound(d.strides[0]))) or (Run(1, (1, 1)),)
    return Dims(dims, tuple(sorted(range(len(dims)), key=lambda k: -bound(dims[k].strides[1]))))


# ---------------------------------------------------------------- which CTA takes which box
@dataclass(frozen=True)
class TileGrid:
    """CTAs along x, y, z, and each dimension's tile number as a function of the CTA."""

    axes: tuple[Index, Index, Index]
    tiles: tuple[Index, ...]


def number_tiles(dims: Dims, box: Sequence[int]) -> TileGrid:
    """CTAs in dst's order, neighbours in its fastest dimension first: their stores follow one another in memory.

    Up to three dimensions are axes of the grid; more, or too many tiles in one, are folded into bx.
    """
    counts = [ceil_div(d.extent, b) for d, b in zip(dims.dims, box, strict=True)]
    tiled = [k for k in reversed(dims.order) if not (isinstance(counts[k], int) and counts[k] == 1)]
    tiles: list[Index] = [0] * len(counts)
    if len(tiled) <= 3 and all(_fits(counts[k], limit) for k, limit in zip(tiled, GRID_LIMITS, strict=False)):
        axes: list[Index] = [counts[k] for k in tiled] + [1] * (3 - len(tiled))
        for k, axis in zip(tiled, cta_variables(axes).values(), strict=False):
            tiles[k] = axis
        return TileGrid((axes[0], axes[1], axes[2]), tuple(tiles))
    total: Index = 1
    for k in tiled:
        total = mul(total, counts[k])
    rest: Index = cta_variables((total, 1, 1))["bx"]
    for k in tiled[:-1]:
        tiles[k], rest = mod(rest, counts[k]), div(rest, counts[k])
    tiles[tiled[-1]] = rest
    return TileGrid((total, 1, 1), tuple(tiles))


def is_launchable(dims: Dims, box: Sequence[int]) -> bool:
    """Does CUDA launch that many CTAs, whatever the params are?"""
    return all(_fits(n, limit) for n, limit in zip(number_tiles(dims, box).axes, GRID_LIMITS, strict=True))


def _fits(count: Index, limit: int) -> bool:
    return bound(count) - 1 <= limit
