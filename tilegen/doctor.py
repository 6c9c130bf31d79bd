"""What this machine offers tilegen: packages, compilers, GPU, tools. Needs none of them, and never fails."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from tilegen.gpu.compilers import find_compilers
from tilegen.gpu.cubins import cache_dir
from tilegen.gpu.device import CUPY_HINT, probe_device

NEEDED = ("click", "jinja2", "ml-dtypes", "numpy", "pydantic", "pyyaml", "rich")
OPTIONAL = ("cuda-bindings", "nvidia-cuda-nvrtc", "cupy-cuda13x", "cupy-cuda12x", "torch", "triton")


@dataclass(frozen=True)
class Checkup:
    """One thing looked for: status ok, missing (``hint`` says what to do), or info (nothing depends on it)."""

    name: str
    status: str  # ok | missing | info
    detail: str
    hint: str = ""


def survey() -> list[Checkup]:
    """Everything that tilegen can use on this machine, found or not.

    >>> [f.status for f in survey() if f.name == "python"]
    ['ok']
    """
    return [finding for probe in PROBES for finding in _ask(probe)]


def _ask(probe: Callable[[], list[Checkup]]) -> list[Checkup]:
    try:
        return probe()
    except Exception as e:  # a broken installation is what a doctor is called for
        return [Checkup(probe.__name__.removeprefix("survey_"), "missing", f"looking for it failed: {e!r}")]


def survey_python() -> list[Checkup]:
    return [Checkup("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")]


def survey_packages() -> list[Checkup]:
    found = [_find_package(name, "missing", f"pip install {name}") for name in NEEDED]
    return found + [_find_package(name, "info", "") for name in OPTIONAL]


def _find_package(name: str, if_not: str, hint: str) -> Checkup:
    try:
        return Checkup(name, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        return Checkup(name, if_not, "not installed", hint)


def survey_compilers() -> list[Checkup]:
    found = find_compilers()
    if not found:
        hint = "pip install 'tilegen[compile]', for --compile without a GPU"
        return [Checkup("CUDA compiler", "missing", "neither NVRTC nor nvcc", hint)]
    used, *others = found
    also = f"; also {', '.join(map(str, others))}" if others else ""
    return [Checkup("CUDA compiler", "ok", f"{used}{also}")]


def survey_gpu() -> list[Checkup]:
    device, why = probe_device()
    if device is None:
        hint = CUPY_HINT if why.startswith("CuPy") else "check the driver with nvidia-smi"
        return [Checkup("GPU", "missing", f"{why}; CPU proofs work without", hint), *_survey_driver()]
    what = (
        f"{device.name}, sm_{device.compute_capability[0]}{device.compute_capability[1]}, {device.sm_count} SMs, "
        f"{device.l2_bytes >> 20} MiB L2, {device.memory_bytes >> 30} GiB"
    )
    return [Checkup("GPU", "ok", what), Checkup("driver", "ok", f"runs up to {device.driver}"), *_survey_driver()]


def _survey_driver() -> list[Checkup]:
    said = _run("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    return [Checkup("nvidia-smi", "info", line) for line in said.splitlines()[:8]] if said else []


def survey_tools() -> list[Checkup]:
    return [
        _find_tool("g++", r"(\d+\.\d+\.\d+)", "info", "runs the rendered text in the tests"),
        _find_tool("nvcc", r"V(\d+\.\d+\.\d+)", "info", "one of the ways to compile"),
        _find_tool("ncu", r"Version (\S+)", "info", "counts wavefronts and sectors (make gpu)"),
    ]


def _find_tool(name: str, version: str, if_not: str, use: str) -> Checkup:
    if shutil.which(name) is None:
        return Checkup(name, if_not, f"not on PATH ({use})")
    found = re.search(version, _run(name, "--version"))
    return Checkup(name, "ok", f"{found[1] if found else 'unknown version'} ({use})")


def survey_cache() -> list[Checkup]:
    folder = cache_dir()
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not (there.is_dir() and os.access(there, os.W_OK)):
        return [Checkup("cache", "missing", f"{folder} cannot be written", "set XDG_CACHE_HOME to a folder that can")]
    return [Checkup("cache", "ok", str(folder))]


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


PROBES: tuple[Callable[[], list[Checkup]], ...] = (
    survey_python, survey_packages, survey_compilers, survey_gpu, survey_tools, survey_cache,
)  # fmt: skip
