"""Compile rendered text with nvcc, no include path, every warning an error, and read what ptxas reports."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tilegen.gpu.cubins import read_losses

requires_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
_KERNEL = re.compile(r'extern "C" __global__.*?(\w+)\(', re.S)
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '\w+'(.*?)(?=Compiling entry function|\Z)", re.S)


@dataclass(frozen=True)
class Report:
    """What ptxas says of a kernel: registers per thread, and bytes."""

    kernel: str
    registers: int
    stack: int
    spills: int  # stores and loads
    shared: int


def compile_text(text: str, arch: str) -> Report:
    """One file, as it was rendered."""
    return _compile(text, arch)[kernel_name(text)]


def compile_texts(texts: Sequence[str], arch: str) -> list[Report]:
    """Many files in as few runs of nvcc as possible, each text in a namespace of its own.

    Kernels of one name, and pools of shared memory (whose alignment rounds up every kernel's figure), go apart.
    """
    files: list[dict[str, str]] = []
    homes = []
    for text in texts:
        name, pooled = kernel_name(text), "extern __shared__" in text
        home = next((i for i, f in enumerate(files) if name not in f and not pooled and "" not in f), len(files))
        if home == len(files):
            files.append({"": ""} if pooled else {})
        files[home][name] = text
        homes.append(home)
    sources = ["\n".join(f"namespace text_{n} {{\n{text}}}" for n, text in f.items() if n) for f in files]
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda s: _compile(s, arch), sources))
    return [reports[home][kernel_name(text)] for home, text in zip(homes, texts, strict=True)]


def kernel_name(text: str) -> str:
    match = _KERNEL.search(re.sub(r"__launch_bounds__\(.*?\)|__cluster_dims__\(.*?\)", "", text))
    assert match, "no kernel in the text"
    return match[1]


def _compile(source: str, arch: str) -> dict[str, Report]:
    with tempfile.TemporaryDirectory(prefix="tilegen-nvcc-") as folder:
        path = Path(folder) / "kernel.cu"
        path.write_text(source)
        cubin = str(path.with_suffix(".cubin"))
        command = [
            "nvcc",
            "-Werror",
            "all-warnings",
            f"-arch={arch}",
            "-cubin",
            "-Xptxas",
            "-v",
            str(path),
            "-o",
            cubin,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    log = done.stdout + done.stderr
    assert done.returncode == 0, f"nvcc refuses the rendered text:\n{log[:4000]}"
    assert not read_losses(log), "ptxas serializes products, or ignores a role's registers"
    return {name: read_report(name, block) for name, block in _ENTRY.findall(log)}


def read_report(kernel: str, log: str) -> Report:
    """
    >>> read_report("k", "8 bytes stack frame, 8 bytes spill stores Used 9 registers, 2 bytes smem")
    Report(kernel='k', registers=9, stack=8, spills=8, shared=2)
    """

    def count(pattern: str) -> int:
        return sum(int(n) for n in re.findall(pattern, log))

    stack, spills = count(r"(\d+) bytes stack frame"), count(r"(\d+) bytes spill")
    return Report(kernel, count(r"Used (\d+) registers"), stack, spills, count(r"(\d+) bytes smem"))
