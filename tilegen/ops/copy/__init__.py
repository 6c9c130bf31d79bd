"""copy: a region from one memory to another, by the cheapest of its variants."""

from tilegen.ops.copy.op import OP, is_asynchronous

__all__ = ["OP", "is_asynchronous"]
