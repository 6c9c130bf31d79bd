"""What a kernel's cubin needs: registers, shared memory, stack, spills, occupancy. No GPU is needed, a compiler is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilegen.pipeline import Built


def add_resources(built: Built) -> Built:
    """The same kernel, with what its cubin needs under ``compiled`` in the manifest. Raises EnvironmentLack."""
    return replace(built, manifest={**built.manifest, "compiled": measure_resources(built)})


def measure_resources(built: Built) -> dict[str, Any]:
    """Registers, shared bytes, stack and spills of a kernel's cubin, and how many of its warps an SM holds."""
    from tilegen import gpu
    from tilegen.arch import ARCHES, occupancy

    cubin = gpu.compile_cubin(built.source, built.plan.arch, built.plan.name)
    arch = ARCHES[built.plan.arch]
    shared_bytes = cubin.shared_bytes + int(built.manifest["dynamic_shared_bytes"])
    return {
        "arch": cubin.arch,
        "compiler": cubin.compiler,
        "registers": cubin.registers,
        "shared_bytes": shared_bytes,
        "stack_bytes": cubin.stack_bytes,
        "spill_store_bytes": cubin.spill_store_bytes,
        "spill_load_bytes": cubin.spill_load_bytes,
        "warps_per_sm": occupancy(arch, built.plan.threads, cubin.registers, shared_bytes),
        "max_warps_per_sm": arch.max_warps_per_sm,
    }


def describe_resources(compiled: Mapping[str, Any]) -> str:
    """Resources in words."""
    spills = compiled["spill_store_bytes"] + compiled["spill_load_bytes"]
    return (
        f"{compiled['arch']}: {compiled['registers']} registers a thread, {compiled['shared_bytes']} shared bytes, "
        f"{compiled['stack_bytes']} stack bytes, {spills} spilled bytes, occupancy {compiled['warps_per_sm']} of "
        f"{compiled['max_warps_per_sm']} warps an SM ({compiled['compiler']})"
    )
