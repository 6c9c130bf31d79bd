"""Calling a kernel from Python: arrays of any library, checked, launched in microseconds.

What a kernel asks (signature), the ways in which arrays come (arrays, libraries, dlpack), the checks of a new kind of
call (checking, params), what is decided once for it (kind_of_call), the launch (launch_memory, kernel), the short
way of calls that are of a known kind (again), several kernels in a row (program), and what callers promise (promises).
"""

from tilegen.gpu.call.kernel import Kernel
from tilegen.gpu.call.program import PassTerms, ProgramKernel, ProgramSignature
from tilegen.gpu.call.promises import PromiseChecks
from tilegen.gpu.call.signature import ArrayArgument, KernelSignature

__all__ = [
    "ArrayArgument",
    "Kernel",
    "KernelSignature",
    "PassTerms",
    "ProgramKernel",
    "ProgramSignature",
    "PromiseChecks",
]
