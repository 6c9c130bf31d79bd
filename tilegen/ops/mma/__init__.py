"""mma: a tile's product on tensor cores or with fused multiply-adds, added to an accumulator in registers."""

from tilegen.ops.mma.op import OP

__all__ = ["OP"]
