"""Which CTA of a permute takes which box: the grid, and whether it can be launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.arch import GRID_LIMITS
from tilegen.index import Index, Var, bound, ceil_div, div, mod, mul
from tilegen.ops.permute.dims import Dims


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
        for axis, k in zip(("bx", "by", "bz"), tiled, strict=False):
            tiles[k] = Var(axis, max(1, bound(counts[k]) - 1))
        return TileGrid((axes[0], axes[1], axes[2]), tuple(tiles))
    total: Index = 1
    for k in tiled:
        total = mul(total, counts[k])
    rest: Index = Var("bx", max(1, bound(total) - 1))
    for k in tiled[:-1]:
        tiles[k], rest = mod(rest, counts[k]), div(rest, counts[k])
    tiles[tiled[-1]] = rest
    return TileGrid((total, 1, 1), tuple(tiles))


def is_launchable(dims: Dims, box: Sequence[int]) -> bool:
    """Does CUDA launch that many CTAs, whatever the params are?"""
    return all(_fits(n, limit) for n, limit in zip(number_tiles(dims, box).axes, GRID_LIMITS, strict=True))


def _fits(count: Index, limit: int) -> bool:
    return bound(count) - 1 <= limit
