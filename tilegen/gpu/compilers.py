"""Ways from CUDA text to a cubin, or to PTX, without a GPU: NVRTC through CuPy, NVRTC through cuda-bindings, nvcc.

All are asked for the report of ptxas, so that registers and spills come from one kind of log.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilegen.gpu.device import load_cupy

_STANDARD = "-std=c++17"
_TIMEOUT_SECONDS = 300


class CompileError(RuntimeError):
    """A compiler refused generated text: tilegen's bug. ``log`` is what the compiler said."""

    def __init__(self, message: str, log: str):
        self.log = log
        super().__init__(f"{message}\n{log}".rstrip())


class UnknownArch(Exception):
    """The compiler is too old, or too new, for the arch."""


Translate = Callable[[str, str, str, tuple[str, ...]], tuple[bytes, str]]  # (source, arch, name, options): cubin, log


@dataclass(frozen=True)
class Compiler:
    """``translate(source, arch, name, options)`` gives the cubin and the log, ptxas report included."""

    route: str  # cupy | cuda-bindings | nvcc
    version: str
    translate: Translate
    print_ptx: Translate  # (source, arch, name, options): the PTX text as bytes, and the log

    def __str__(self) -> str:
        return f"{self.version} ({self.route})"


@cache
def find_compilers() -> tuple[Compiler, ...]:
    """Every compiler that is here, the one to use first."""
    found = (_find_cupy_nvrtc(), _find_bindings_nvrtc(), _find_nvcc())
    return tuple(compiler for compiler in found if compiler)


# ---- NVRTC
def _nvrtc_options(arch: str, options: tuple[str, ...]) -> tuple[str, ...]:
    return (f"--gpu-architecture={arch}", _STANDARD, "--ptxas-options=-v", *options)


def _ptx_options(arch: str, options: tuple[str, ...]) -> tuple[str, ...]:
    return (f"--gpu-architecture={arch.replace('sm_', 'compute_')}", _STANDARD, *options)


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _judge_nvrtc(failure: str, log: str, arch: str) -> Exception:
    if "INVALID_OPTION" in failure and "gpu-architecture" in log:
        return UnknownArch(f"NVRTC does not know {arch}")
    return CompileError(f"NVRTC: {failure}", log)


def _with_log(translate: Translate) -> Translate:
    """Compile again without NVRTC's cache (CUDA 12.9 and later) if the cubin came from it: ptxas then says nothing."""

    def translate_with_log(source: str, arch: str, name: str, options: tuple[str, ...]) -> tuple[bytes, str]:
        image, log = translate(source, arch, name, options)
        return (image, log) if "ptxas info" in log else translate(source, arch, name, (*options, "--no-cache"))

    return translate_with_log


def _find_cupy_nvrtc() -> Compiler | None:
    try:
        nvrtc = load_cupy().cuda.nvrtc
        major, minor = nvrtc.getVersion()
    except Exception:  # CuPy or the NVRTC library that it looks for is not here: there are other routes
        return None

    def run(source: str, name: str, asked: tuple[str, ...], get: Callable[[Any], bytes]) -> tuple[bytes, str]:
        program = nvrtc.createProgram(source, f"{name}.cu", (), ())
        try:
            try:
                nvrtc.compileProgram(program, asked)
            except nvrtc.NVRTCError as e:
                raise _judge_nvrtc(str(e), nvrtc.getProgramLog(program), asked[0].partition("=")[2]) from None
            return get(program), nvrtc.getProgramLog(program)
        finally:
            nvrtc.destroyProgram(program)

    def translate(source: str, arch: str, name: str, options: tuple[str, ...]) -> tuple[bytes, str]:
        # CuPy cuts off the last byte, a zero of the last program header, as if the cubin were text.
        return run(source, name, _nvrtc_options(arch, options), lambda program: bytes(nvrtc.getCUBIN(program)) + b"\0")

    def print_ptx(source: str, arch: str, name: str, options: tuple[str, ...]) -> tuple[bytes, str]:
        return run(source, name, _ptx_options(arch, options), lambda program: _as_bytes(nvrtc.getPTX(program)))

    return Compiler("cupy", f"NVRTC {major}.{minor}", _with_log(translate), print_ptx)


def _find_bindings_nvrtc() -> Compiler | None:
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
        status, major, minor = nvrtc.nvrtcVersion()
    except Exception:  # the package, or the library behind it, is not here
        return None

    def ask(call: Callable[..., tuple[Any, ...]], *args: Any) -> Any:
        status, *rest = call(*args)
        if int(status):
            raise RuntimeError(f"{call.__name__}: {status.name}")
        return rest[0] if rest else None

    def fetch(size: Callable[..., Any], content: Callable[..., Any], program: Any) -> bytes:
        buffer = bytes(ask(size, program))  # filled in place: the bindings take it as memory
        ask(content, program, buffer)
        return buffer

    def run(source: str, name: str, options: tuple[str, ...], get: tuple[Any, Any]) -> tuple[bytes, str]:
        program = ask(nvrtc.nvrtcCreateProgram, source.encode(), f"{name}.cu".encode(), 0, [], [])
        try:
            asked = [option.encode() for option in options]
            (status,) = nvrtc.nvrtcCompileProgram(program, len(asked), asked)
            log = fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0").decode()
            if int(status):
                raise _judge_nvrtc(status.name, log, options[0].partition("=")[2])
            return fetch(*get, program), log
        finally:
            nvrtc.nvrtcDestroyProgram(program)

    def translate(source: str, arch: str, name: str, options: tuple[str, ...]) -> tuple[bytes, str]:
        return run(source, name, _nvrtc_options(arch, options), (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN))

    def print_ptx(source: str, arch: str, name: str, options: tuple[str, ...]) -> tuple[bytes, str]:
        return run(source, name, _ptx_options(arch, options), (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX))

    found = Compiler("cuda-bindings", f"NVRTC {major}.{minor}", _with_log(translate), print_ptx)
    return None if int(status) else found


# ---- nvcc
def _find_nvcc() -> Compiler | None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return None
    try:
        said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    release = re.search(r"V(\d+\.\d+\.\d+)", said)
    return Compiler("nvcc", f"nvcc {release[1]}", _translate_by_nvcc, _print_by_nvcc) if release else None


def _translate_by_nvcc(source: str, arch: str, name: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    # The long form of -arch: the short one makes some releases run a second pass without the "a" features.
    target = f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch}"
    return _run_nvcc(source, arch, name, (target, "-cubin", "-Xptxas", "-v", *options))


def _print_by_nvcc(source: str, arch: str, name: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    return _run_nvcc(source, arch, name, (f"-arch={arch.replace('sm_', 'compute_')}", "-ptx", *options))


def _run_nvcc(source: str, arch: str, name: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory(prefix="tilegen-") as folder:
        text, made = Path(folder, f"{name}.cu"), Path(folder, f"{name}.out")
        text.write_text(source)
        command = ["nvcc", _STANDARD, *options, "-o", made.name, text.name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)
        log = done.stdout + done.stderr
        if done.returncode == 0:
            return made.read_bytes(), log
    if "Unsupported gpu architecture" in log:
        raise UnknownArch(f"nvcc does not know {arch}")
    raise CompileError(f"nvcc: exit code {done.returncode}", log)
