"""The GPU of this machine, if CuPy can reach one."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilegen.arch import ARCHES
from tilegen.errors import Diagnostic, EnvironmentLack

CUPY_HINT = "pip install 'tilegen[cuda13]' (or [cuda12], to match the driver)"


@dataclass(frozen=True)
class Device:
    """A GPU: ``driver`` is the newest CUDA version that its driver runs."""

    name: str
    compute_capability: tuple[int, int]
    driver: str
    sm_count: int
    l2_bytes: int
    memory_bytes: int


@cache
def load_cupy() -> Any:
    """The module ``cupy``; ImportError where it is not installed or cannot start."""
    try:
        return importlib.import_module("cupy")
    except ImportError:
        raise
    except Exception as e:  # a broken CUDA installation shows in many ways, all of them at import
        raise ImportError(f"cupy does not start: {e}") from e


@cache
def probe_device() -> tuple[Device | None, str]:
    """The current GPU, or None and why there is none."""
    try:
        cupy = load_cupy()
    except ImportError as e:
        return None, f"CuPy is not here ({_first_line(e)})"
    runtime = cupy.cuda.runtime
    try:
        found = runtime.getDeviceProperties(cupy.cuda.Device().id)
        version = runtime.driverGetVersion()
    except Exception as e:  # CUDARuntimeError has no base of its own: no driver, no device, device in use
        return None, f"CUDA finds no usable GPU ({_first_line(e)})"
    return Device(
        name=found["name"].decode(),
        compute_capability=(found["major"], found["minor"]),
        driver=f"CUDA {version // 1000}.{version % 1000 // 10}",
        sm_count=found["multiProcessorCount"],
        l2_bytes=found["l2CacheSize"],
        memory_bytes=found["totalGlobalMem"],
    ), ""


def find_device() -> Device | None:
    """The current GPU, or None."""
    return probe_device()[0]


def require_gpu(arch: str | None = None) -> Device:
    """The current GPU; raises EnvironmentLack if there is none, or if it does not run cubins for ``arch``."""
    device, why = probe_device()
    if device is None:
        hint = CUPY_HINT if why.startswith("CuPy") else "`tilegen doctor` lists what is here"
        raise EnvironmentLack(Diagnostic("TG502", f"this needs an NVIDIA GPU: {why}", hint=hint))
    if arch is not None:
        refuse_arch(device, arch)
    return device


def find_fault() -> str:
    """What CUDA says where a kernel has faulted and no other runs in this process; "" where all is well.

    It waits for the device.
    """
    try:
        load_cupy().cuda.runtime.deviceSynchronize()
    except Exception as e:  # CUDARuntimeError has no base of its own
        return _first_line(e)
    return ""


def refuse_arch(device: Device, arch: str) -> None:
    """Raises EnvironmentLack TG503 if a GPU does not run cubins for an arch."""
    if not runs_cubin(device.compute_capability, arch):
        has = "sm_{}{}".format(*device.compute_capability)
        raise EnvironmentLack(
            Diagnostic("TG503", f"{device.name} is {has} and does not run code for {arch}", hint=f"--arch {has}")
        )


def runs_cubin(compute_capability: tuple[int, int], arch: str) -> bool:
    """Whether a GPU runs a cubin: same major version, minor not newer; architecture-specific ones (``a``) only exactly.

    >>> runs_cubin((8, 9), "sm_80"), runs_cubin((9, 0), "sm_80"), runs_cubin((10, 3), "sm_100a")
    (True, False, False)

    Source: CUDA Programming Guide, "Cubin Compatibility" and "Architecture-Specific Features".
    """
    built_for = ARCHES[arch].compute_capability
    if arch.endswith("a"):
        return compute_capability == built_for
    return compute_capability[0] == built_for[0] and compute_capability[1] >= built_for[1]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
