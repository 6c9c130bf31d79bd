"""Layouts that hardware fixes, by the names that the text form calls them by."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

from tilegen.layouts import constructors as build
from tilegen.layouts.core.values import Layout

CONSTRUCTORS: dict[str, Callable[..., Layout]] = {
    function.__name__: function
    for function in (
        build.row_major, build.column_major, build.wg_local_layout, build.mma_fragment, build.ldmatrix_fragment,
        build.stmatrix_fragment, build.ldmatrix_rows, build.wgmma_accumulator, build.wgmma_operand_a,
        build.tmem_datapath_layout, build.tcgen05_atom_layout, build.swizzle_atom, build.mma_shared_layout,
    )
}  # fmt: skip
ARGUMENTS = {name: frozenset(signature(function).parameters) for name, function in CONSTRUCTORS.items()}
