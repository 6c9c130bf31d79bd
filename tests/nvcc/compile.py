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

requires_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed: CUDA text cannot compile here")
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
    """Many files in as few runs of nvcc as kernel names allow, each text in a namespace of its own."""
    files: list[dict[str, str]] = []
    for text in texts:
        name = kernel_name(text)
        file = next((f for f in files if name not in f), None)
        if file is None:
            files.append(file := {})
        file[name] = text
    sources = ["\n".join(f"namespace text_{name} {{\n{text}}}" for name, text in file.items()) for file in files]
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda s: _compile(s, arch), sources))
    seen: dict[str, int] = {}
    found = []
    for text in texts:
        name = kernel_name(text)
        found.append(reports[seen.get(name, 0)][name])
        seen[name] = seen.get(name, 0) + 1
    return found


def kernel_name(text: str) -> str:
    match = _KERNEL.search(re.sub(r"__launch_bounds__\(.*?\)|__cluster_dims__\(.*?\)", "", text))
    assert match, "no kernel in the text"
    return match[1]


def _compile(source: str, arch: str) -> dict[str, Report]:
    with tempfile.TemporaryDirectory(prefix="tilegen-nvcc-") as folder:
        path = Path(folder) / "kernel.cu"
        path.write_text(source)
        command = ["nvcc", "-Werror", "all-warnings", f"-arch={arch}", "-cubin", "-Xptxas", "-v", str(path), "-o", str(path.with_suffix(".cubin"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    log = done.stdout + done.stderr
    assert done.returncode == 0, f"nvcc refuses the rendered text:\n{log[:4000]}"
    return {name: read_report(name, block) for name, block in _ENTRY.findall(log)}


def read_report(kernel: str, log: str) -> Report:
    """
    >>> read_report("k", "8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads Used 9 registers, 64 bytes smem")
    Report(kernel='k', registers=9, stack=8, spills=8, shared=64)
    """

    def count(pattern: str) -> int:
        return sum(int(n) for n in re.findall(pattern, log))

    return Report(kernel, count(r"Used (\d+) registers"), count(r"(\d+) bytes stack frame"), count(r"(\d+) bytes spill"), count(r"(\d+) bytes smem"))
