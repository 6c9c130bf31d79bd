"""What the first of three passes of a scan means."""

from tilegen.ops.scan_array.meant import CHUNKS as OP

__all__ = ["OP"]
