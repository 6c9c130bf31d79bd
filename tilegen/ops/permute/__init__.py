"""permute: a whole array with its dimensions in another order, expanded into tiles and copies."""

from tilegen.ops.permute.op import OP

__all__ = ["OP"]
