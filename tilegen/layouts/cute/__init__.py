"""CuTe's layouts: nested ``shape:stride``, column-major, and their algebra.

    from tilegen.layouts import cute

    layout = cute.parse("(6,2):(8,2)")
    print(cute.composition(layout, cute.parse("(4,3):(3,1)")))          # ((2,2),3):((24,2),8)

A layout is two tuples and a function of its flat index, the first mode fastest (a TileLayout counts the other way:
see ``to_tile``). Every operation holds its law or refuses: nothing is returned that breaks it.
"""

from tilegen.layouts.cute.algebra import (
    Tiler,
    common_vector_bits,
    complement,
    composition,
    left_inverse,
    max_alignment,
    max_common_layout,
    max_common_vector,
    right_inverse,
)
from tilegen.layouts.cute.bridge import from_tile, to_tile
from tilegen.layouts.cute.swizzles import ComposedLayout, Swizzle
from tilegen.layouts.cute.text import is_printed, parse
from tilegen.layouts.cute.tiling import (
    blocked_product,
    flat_divide,
    logical_divide,
    logical_product,
    raked_product,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from tilegen.layouts.cute.values import (
    CuteLayout,
    coalesce,
    cosize,
    crd2idx,
    depth,
    filter_zeros,
    idx2crd,
    join,
    modes_of,
    rank,
    size,
)

__all__ = [
    "ComposedLayout",
    "CuteLayout",
    "Swizzle",
    "Tiler",
    "blocked_product",
    "coalesce",
    "common_vector_bits",
    "complement",
    "composition",
    "cosize",
    "crd2idx",
    "depth",
    "filter_zeros",
    "flat_divide",
    "from_tile",
    "idx2crd",
    "is_printed",
    "join",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "max_alignment",
    "max_common_layout",
    "max_common_vector",
    "modes_of",
    "parse",
    "raked_product",
    "rank",
    "right_inverse",
    "size",
    "tiled_divide",
    "tiled_product",
    "to_tile",
    "zipped_divide",
    "zipped_product",
]
