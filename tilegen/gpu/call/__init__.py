"""Calling a kernel from Python: arrays of any library, checked, launched in microseconds.

What a kernel asks (signature), the ways in which arrays come (arrays, libraries), the checks of a new kind of call
(checking, params), what is decided once for it (kind_of_call), and the launch (launch_memory, kernel).
"""

from tilegen.gpu.call.kernel import Kernel
from tilegen.gpu.call.signature import ArrayArgument, KernelSignature

__all__ = ["ArrayArgument", "Kernel", "KernelSignature"]
