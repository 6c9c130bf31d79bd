"""What the last of three passes of a scan means."""

from tilegen.ops.scan_array.meant import RESULTS as OP

__all__ = ["OP"]
