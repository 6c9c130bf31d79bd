"""Linear layouts: operations on them, and the way from and to every other layout that is XOR-linear.

    from tilegen.layouts import linear, parse

    linear.bases(parse("Swizzle(0, 2, 2) o S[(4, 4):(4, 1)]"), (4, 4))["offset"]   # [[0, 1], [0, 2], [1, 1], [2, 2]]

Inputs are named as in Triton: register, lane, warp and block for what threads hold, offset (in elements) and block for
shared memory. A layout that names thread axes has registers on axis m, any other has offsets there.
"""

from tilegen.layouts.linear.converting import as_buffer_layout, to_linear, to_tile
from tilegen.layouts.linear.operations import (
    bases,
    compose,
    image,
    inverse,
    is_injective,
    is_surjective,
    kernel,
    product,
    reshape,
)
from tilegen.layouts.linear.values import LinearLayout

__all__ = [
    "LinearLayout",
    "as_buffer_layout",
    "bases",
    "compose",
    "image",
    "inverse",
    "is_injective",
    "is_surjective",
    "kernel",
    "product",
    "reshape",
    "to_linear",
    "to_tile",
]
