"""Layouts that hardware fixes, by name: each constructor returns an ordinary layout."""

from tilegen.layouts.constructors.dense import column_major, row_major, wg_local_layout
from tilegen.layouts.constructors.fragments import (
    MMA_ATOMS,
    ldmatrix_fragment,
    ldmatrix_rows,
    mma_fragment,
    stmatrix_fragment,
    wgmma_accumulator,
    wgmma_operand_a,
)
from tilegen.layouts.constructors.shared_memory import (
    find_tma_problems,
    mma_shared_layout,
    swizzle_atom,
    swizzle_atom_shape,
)
from tilegen.layouts.constructors.tensor_memory import tcgen05_atom_layout, tmem_datapath_layout

__all__ = [
    "MMA_ATOMS",
    "column_major",
    "find_tma_problems",
    "ldmatrix_fragment",
    "ldmatrix_rows",
    "mma_fragment",
    "mma_shared_layout",
    "row_major",
    "stmatrix_fragment",
    "swizzle_atom",
    "swizzle_atom_shape",
    "tcgen05_atom_layout",
    "tmem_datapath_layout",
    "wg_local_layout",
    "wgmma_accumulator",
    "wgmma_operand_a",
]
