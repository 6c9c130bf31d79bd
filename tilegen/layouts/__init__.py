"""Layouts: where every element of a buffer lies. Values are frozen, operations are free functions.

    from tilegen.layouts import parse

    layout = parse("Swizzle(3,3,3) o S[(8,64):(64,1)]")
    layout.apply(5, 0, shape=(8, 64))           # ({'m': 360},)
"""

from tilegen.layouts.axes import AXES, Axis
from tilegen.layouts.banks import bank_and_line
from tilegen.layouts.canonical import bind, canonicalize, get_scope, storage
from tilegen.layouts.constructors import column_major, mma_fragment, row_major, wg_local_layout
from tilegen.layouts.dimensions import group, permute_dims, slice_layout
from tilegen.layouts.iters import Iter
from tilegen.layouts.measure import chunk_of, extent_of, is_injective, span
from tilegen.layouts.notation import parse
from tilegen.layouts.padded import PaddedSharedLayout
from tilegen.layouts.values import (
    ComposeLayout,
    Layout,
    SwizzleLayout,
    TileLayout,
    finish_of,
    over_shape,
    period,
    size,
    swizzle_of,
    tile_of,
)

__all__ = [
    "AXES",
    "Axis",
    "ComposeLayout",
    "Iter",
    "Layout",
    "PaddedSharedLayout",
    "SwizzleLayout",
    "TileLayout",
    "bank_and_line",
    "bind",
    "canonicalize",
    "chunk_of",
    "column_major",
    "extent_of",
    "finish_of",
    "get_scope",
    "group",
    "is_injective",
    "mma_fragment",
    "over_shape",
    "parse",
    "period",
    "permute_dims",
    "row_major",
    "size",
    "slice_layout",
    "span",
    "storage",
    "swizzle_of",
    "tile_of",
    "wg_local_layout",
]
