"""reduce_array: the sum, maximum, minimum or product of a whole array along its axes, expanded into tiles."""

from tilegen.ops.reduce_array.op import OP

__all__ = ["OP"]
