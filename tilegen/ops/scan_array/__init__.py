"""scan_array: prefixes of whole arrays along rows or columns, and the tile ops that carry it out."""

from tilegen.ops.scan_array.op import OP

__all__ = ["OP"]
