"""Layouts: where every element of a buffer lies. Values are frozen, operations are free functions.

    from tilegen.layouts import parse

    layout = parse("Swizzle(3,3,3) o S[(8,64):(64,1)]")
    layout.apply(5, 0, shape=(8, 64))           # ({'m': 360},)

``core`` stands below all: tile, swizzle and compose layouts. Beside each other on it, what hardware fixes
(``constructors``), XOR-linear layouts (``linear``) and CuTe's (``cute``); on ``linear`` Gluon's (``gluon``), and on all
of them the text form (``notation``).
"""

from tilegen.layouts import cute, linear
from tilegen.layouts.constructors import (
    column_major,
    find_tma_problems,
    ldmatrix_fragment,
    ldmatrix_rows,
    mma_fragment,
    mma_shared_layout,
    row_major,
    stmatrix_fragment,
    swizzle_atom,
    swizzle_atom_shape,
    tcgen05_atom_layout,
    tmem_datapath_layout,
    wg_local_layout,
    wgmma_accumulator,
    wgmma_operand_a,
)
from tilegen.layouts.core.canonical import bind, canonicalize, get_scope, inverse, is_trivial, storage
from tilegen.layouts.core.dimensions import group, pack, permute_by_groups, permute_dims, slice_layout, unpack
from tilegen.layouts.core.iters import AXES, Axis, Iter
from tilegen.layouts.core.measures import bank_and_line, chunk_of, extent_of, is_injective, span, verify
from tilegen.layouts.core.tiling import (
    direct_sum,
    is_direct_sum_left,
    is_direct_sum_right,
    is_tile_inner,
    is_tile_outer,
    tile,
    tile_to,
)
from tilegen.layouts.core.values import (
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
from tilegen.layouts.gluon import (
    BlockedLayout,
    DotOperandLayout,
    NVMMADistributedLayout,
    NVMMASharedLayout,
    PaddedSharedLayout,
    SliceLayout,
    SwizzledSharedLayout,
)
from tilegen.layouts.linear.values import LinearLayout
from tilegen.layouts.notation import parse

__all__ = [
    "AXES",
    "Axis",
    "BlockedLayout",
    "ComposeLayout",
    "DotOperandLayout",
    "Iter",
    "Layout",
    "LinearLayout",
    "NVMMADistributedLayout",
    "NVMMASharedLayout",
    "PaddedSharedLayout",
    "SliceLayout",
    "SwizzleLayout",
    "SwizzledSharedLayout",
    "TileLayout",
    "bank_and_line",
    "bind",
    "canonicalize",
    "chunk_of",
    "column_major",
    "cute",
    "direct_sum",
    "extent_of",
    "find_tma_problems",
    "finish_of",
    "get_scope",
    "group",
    "inverse",
    "is_direct_sum_left",
    "is_direct_sum_right",
    "is_injective",
    "is_tile_inner",
    "is_tile_outer",
    "is_trivial",
    "ldmatrix_fragment",
    "ldmatrix_rows",
    "linear",
    "mma_fragment",
    "mma_shared_layout",
    "over_shape",
    "pack",
    "parse",
    "period",
    "permute_by_groups",
    "permute_dims",
    "row_major",
    "size",
    "slice_layout",
    "span",
    "stmatrix_fragment",
    "storage",
    "swizzle_atom",
    "swizzle_atom_shape",
    "swizzle_of",
    "tcgen05_atom_layout",
    "tile",
    "tile_of",
    "tile_to",
    "tmem_datapath_layout",
    "unpack",
    "verify",
    "wg_local_layout",
    "wgmma_accumulator",
    "wgmma_operand_a",
]
