"""Kernels, and specs with passes, as Python calls them: with CuPy's arrays and torch's tensors over the same memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilegen import gpu
from tilegen.calling import program_terms, terms_of
from tilegen.gpu.call import Kernel, ProgramKernel
from tilegen.gpu.call.kind_of_call import form_of_output
from tilegen.pipeline import Built, BuiltProgram
from tilegen.plan import Memory, arrays
from tilegen.verifying import compile_for

AnyBuilt = Built | BuiltProgram
Case = Mapping[str, Any]
Start = Callable[[AnyBuilt, Case, list[Any]], None]  # starts a kernel over CuPy arrays of raw bytes
_BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}  # as CuPy has them


def compile_call(device: gpu.Device, built: AnyBuilt) -> Kernel:
    """The function of arrays, for this device."""
    if isinstance(built, BuiltProgram):
        return ProgramKernel(program_terms(built), [compile_call(device, one) for one in built.passes], built.source)
    return Kernel(terms_of(built.spec, built.plan), compile_for(device, built), built.source)


def list_arrays(built: AnyBuilt) -> tuple[Memory, ...]:
    """The caller's arrays, in order."""
    return built.plan.arrays if isinstance(built, BuiltProgram) else arrays(built.plan)


def start_by_cupy(device: gpu.Device, builds: Sequence[AnyBuilt]) -> Start:
    """``kernel(x, y)``, runtime parameters from the shapes where they say them all."""
    kernels = {b.plan.name: compile_call(device, b) for b in builds}

    def start(built: AnyBuilt, case: Case, given: list[Any]) -> None:
        kernel = kernels[built.plan.name]
        kernel(*type_arrays(kernel, case, given), **given_by_caller(built, case))

    return start


def type_arrays(kernel: Kernel, case: Case, given: Sequence[Any]) -> list[Any]:
    """CuPy arrays of raw bytes as those of the kernel's types and shapes."""
    import cupy

    typed = []
    for raw, (dtype, shape, strides) in zip(given, forms(kernel, case), strict=True):
        steps = tuple(n * np.dtype(dtype).itemsize for n in strides)
        typed.append(cupy.ndarray(shape, dtype, raw.data, steps))
    return typed


def start_by_torch(device: gpu.Device, builds: Sequence[AnyBuilt]) -> Start:
    """The same with tensors over the same memory, on CuPy's stream."""
    kernels = {b.plan.name: compile_call(device, b) for b in builds}

    def start(built: AnyBuilt, case: Case, given: list[Any]) -> None:
        import cupy
        import torch

        kernel = kernels[built.plan.name]
        typed = []
        for raw, terms, (_, shape, strides) in zip(given, kernel.terms.arrays, forms(kernel, case), strict=True):
            flat = torch.as_tensor(raw, device="cuda").view(getattr(torch, terms.dtype))
            typed.append(flat.as_strided(shape, strides))
        with torch.cuda.stream(torch.cuda.ExternalStream(cupy.cuda.get_current_stream().ptr)):
            kernel(*typed, **given_by_caller(built, case))

    return start


def given_by_caller(built: AnyBuilt, case: Case) -> dict[str, Any]:
    """Parameters without those that the launchers find out: how many CTAs there are."""
    found = {p.name for p in built.plan.params if p.launched is not None}
    return {name: value for name, value in case.items() if name not in found}


def forms(kernel: Kernel, case: Case) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """A dtype that CuPy has, shape and strides of each array."""
    return [(_BITS.get(a.dtype, a.dtype), *form_of_output(a, case)) for a in kernel.terms.arrays]
