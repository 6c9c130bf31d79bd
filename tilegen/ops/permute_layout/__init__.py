"""permute_layout: a warp rearranges a tile from its source layout to its destination layout."""

from tilegen.ops.permute_layout.op import OP

__all__ = ["OP"]
