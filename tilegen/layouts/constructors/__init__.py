"""Layouts that hardware fixes, by name: each constructor returns an ordinary layout."""

from collections.abc import Callable
from inspect import signature

from tilegen.layouts.constructors.arguments import element_bits
from tilegen.layouts.constructors.fragments import (
    MMA_ATOMS,
    ldmatrix_fragment,
    ldmatrix_rows,
    mma_fragment,
    stmatrix_fragment,
    wg_local_layout,
    wgmma_accumulator,
    wgmma_operand_a,
)
from tilegen.layouts.constructors.mma_atoms import ATOMS, MODES, OPERANDS, MmaAtom, find_atom, fragment_of
from tilegen.layouts.constructors.mma_chain import (
    MmaChain,
    ModeChain,
    derive_mma,
    list_runs,
    start_rounds,
    with_run,
)
from tilegen.layouts.constructors.mma_tiling import MmaMode, MmaTiling, group_runs, modes_of_tiling, tile_mma
from tilegen.layouts.constructors.shared_memory import (
    find_tma_problems,
    mma_shared_layout,
    swizzle_atom,
    swizzle_atom_shape,
)
from tilegen.layouts.constructors.tensor_memory import (
    shared_scale_layout,
    tcgen05_atom_layout,
    tmem_datapath_layout,
    tmem_mma_operand_layout,
    tmem_scale_layout,
)
from tilegen.layouts.constructors.tiled_mma import (
    count_outside,
    count_registers,
    covered_shape,
    lay_out_mma,
    list_owned,
    suggest_whole,
    tiled_mma,
)
from tilegen.layouts.core.dimensions import column_major, row_major
from tilegen.layouts.core.values import Layout

__all__ = [
    "ARGUMENTS",
    "ATOMS",
    "CONSTRUCTORS",
    "MMA_ATOMS",
    "MODES",
    "OPERANDS",
    "MmaAtom",
    "MmaChain",
    "MmaMode",
    "MmaTiling",
    "ModeChain",
    "column_major",
    "count_outside",
    "count_registers",
    "covered_shape",
    "derive_mma",
    "element_bits",
    "find_atom",
    "find_tma_problems",
    "fragment_of",
    "group_runs",
    "lay_out_mma",
    "ldmatrix_fragment",
    "ldmatrix_rows",
    "list_owned",
    "list_runs",
    "mma_fragment",
    "mma_shared_layout",
    "modes_of_tiling",
    "row_major",
    "shared_scale_layout",
    "start_rounds",
    "stmatrix_fragment",
    "suggest_whole",
    "swizzle_atom",
    "swizzle_atom_shape",
    "tcgen05_atom_layout",
    "tile_mma",
    "tiled_mma",
    "tmem_datapath_layout",
    "tmem_mma_operand_layout",
    "tmem_scale_layout",
    "wg_local_layout",
    "wgmma_accumulator",
    "wgmma_operand_a",
    "with_run",
]

# By the names that the text form calls them by, and the arguments that each takes.
CONSTRUCTORS: dict[str, Callable[..., Layout]] = {
    function.__name__: function
    for function in (
        row_major, column_major, wg_local_layout, mma_fragment, ldmatrix_fragment, stmatrix_fragment, ldmatrix_rows,
        wgmma_accumulator, wgmma_operand_a, tmem_datapath_layout, tcgen05_atom_layout, swizzle_atom, mma_shared_layout,
        tiled_mma, tmem_mma_operand_layout, tmem_scale_layout, shared_scale_layout,
    )
}  # fmt: skip
ARGUMENTS = {name: frozenset(signature(function).parameters) for name, function in CONSTRUCTORS.items()}
