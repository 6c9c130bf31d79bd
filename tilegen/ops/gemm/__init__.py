"""gemm: a product of matrices with an epilogue, from a few fields to the tile ops that carry it out."""

from tilegen.ops.gemm.op import OP

__all__ = ["OP"]
