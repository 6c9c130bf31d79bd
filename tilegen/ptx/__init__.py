"""A machine that runs PTX text in NumPy, instruction by instruction, with the memory model of PTX."""

from tilegen.ptx.launch import Launch, TensorMap, read_launch
from tilegen.ptx.running import PtxFault, Ran, list_members, run_kernel
from tilegen.ptx.text import Instruction, KernelText, PtxError, parse_kernel

__all__ = [
    "Instruction",
    "KernelText",
    "Launch",
    "PtxError",
    "PtxFault",
    "Ran",
    "TensorMap",
    "list_members",
    "parse_kernel",
    "read_launch",
    "run_kernel",
]
