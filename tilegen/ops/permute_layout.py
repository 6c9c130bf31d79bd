"""permute_layout: a warp rearranges a tile from its source layout to its destination layout, in place if need be."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tilegen.spec.form import OpFields, OpForm


class PermuteLayoutFields(OpFields):
    src: str = Field(description="region read, through its buffer's layout")
    dst: str = Field(description="region written, through its buffer's layout; may be a view of the source's bytes")
    variant: Literal["auto", "warp_xor_swizzle", "warp_linear_swizzle", "warp_vector"] = Field(
        default="auto", description="pin a variant instead of taking the cheapest"
    )


FORM = OpForm("permute_layout", PermuteLayoutFields, reads=("src",), writes=("dst",))
