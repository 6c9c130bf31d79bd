"""Calling a kernel from Python: arrays of any library, checked, launched in microseconds.

One module for what a kernel asks (terms), one for each way that arrays come (cupy_arrays, torch_tensors, exchange), the
checks of a new kind of call (checking, solving), those of every call (meeting), and the launch (slots, kernel).
"""

from tilegen.gpu.call.kernel import Kernel
from tilegen.gpu.call.terms import ArrayTerms, KernelTerms

__all__ = ["ArrayTerms", "Kernel", "KernelTerms"]
