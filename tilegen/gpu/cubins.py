"""CUDA text -> Cubin: machine code and what ptxas said of it, kept on disk by the hash of all that went in."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tilegen.errors import Diagnostic, EnvironmentLack
from tilegen.gpu.compilers import CompileError, Compiler, UnknownArch, find_compilers


@dataclass(frozen=True)
class Cubin:
    """Machine code of one kernel's file, and the kernel's resources: per thread, except ``shared_bytes`` (static)."""

    kernel: str
    arch: str
    compiler: str
    image: bytes
    log: str
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int

    @property
    def losses(self) -> tuple[str, ...]:
        """What ptxas did to the kernel that costs speed, in its own words."""
        return read_losses(self.log)


def compile_cubin(
    source: str, arch: str, name: str, *, options: Iterable[str] = (), compilers: Iterable[Compiler] | None = None
) -> Cubin:
    """Compile ``source`` for ``arch`` and report on its kernel ``name``; no GPU and no include path is used.

    The first compiler that knows the arch is taken; ``options`` go to it as they are (``-lineinfo``). Raises
    EnvironmentLack where there is none, CompileError if the text is refused or holds no such kernel.
    """
    tried = []
    for compiler in find_compilers() if compilers is None else compilers:
        try:
            image, log = _translate_cached(compiler, source, arch, name, tuple(options))
        except UnknownArch as e:
            tried.append(str(e))
            continue
        return Cubin(name, arch, str(compiler), image, log, **read_ptxas_log(log, name))
    why = "; ".join(tried) or "neither NVRTC nor nvcc is here"
    hint = "pip install 'tilegen[compile]' brings NVRTC without a GPU or a toolkit"
    raise EnvironmentLack(Diagnostic("TG501", f"cannot compile for {arch}: {why}", hint=hint))


def print_ptx(source: str, arch: str, name: str, *, compilers: Iterable[Compiler] | None = None) -> str:
    """The PTX that the first compiler which knows the arch makes of CUDA text, with the lines that each came from.

    Raises EnvironmentLack where there is no such compiler, CompileError if the text is refused.
    """
    tried = []
    for compiler in find_compilers() if compilers is None else compilers:
        try:
            return compiler.print_ptx(source, arch, name, ("-lineinfo",))[0].rstrip(b"\0").decode()
        except UnknownArch as e:
            tried.append(str(e))
    why = "; ".join(tried) or "neither NVRTC nor nvcc is here"
    hint = "pip install 'tilegen[compile]' brings NVRTC without a GPU or a toolkit"
    raise EnvironmentLack(Diagnostic("TG501", f"cannot compile for {arch}: {why}", hint=hint))


def read_ptxas_log(log: str, kernel: str) -> dict[str, int]:
    """The resources of one kernel from the report of ``ptxas -v``.

    >>> read_ptxas_log('''ptxas info    : Compiling entry function 'k' for 'sm_90'
    ... ptxas info    : Function properties for k
    ...     256 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
    ... ptxas info    : Used 32 registers, used 1 barriers, 256 bytes cumulative stack size, 4096 bytes smem''', "k")
    {'registers': 32, 'stack_bytes': 256, 'spill_store_bytes': 4, 'spill_load_bytes': 8, 'shared_bytes': 4096}

    Raises CompileError if the log does not speak of the kernel.
    """
    entries = re.split(r"Compiling entry function '", log)[1:]
    mine = next((entry for entry in entries if entry.startswith(f"{kernel}'")), None)
    registers = mine and re.search(r"Used (\d+) registers", mine)
    frame = mine and re.search(
        rf"Function properties for {re.escape(kernel)}\s[^\d]*(\d+) bytes stack frame, "
        r"(\d+) bytes spill stores, (\d+) bytes spill loads",
        mine,
    )
    if not mine or not registers or not frame:
        raise CompileError(f"the compiler reports no kernel {kernel!r}", log)
    shared = re.search(r"(\d+) bytes smem", mine)
    return {
        "registers": int(registers[1]),
        "stack_bytes": int(frame[1]),
        "spill_store_bytes": int(frame[2]),
        "spill_load_bytes": int(frame[3]),
        "shared_bytes": int(shared[1]) if shared else 0,
    }


def read_losses(log: str) -> tuple[str, ...]:
    """What a report of ptxas says that costs speed: products in flight that are serialized, setmaxnreg that is ignored.

    >>> read_losses('''ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; no register count.
    ... ptxas info    : 0 bytes gmem''')
    ("C7508: 'setmaxnreg' ignored; no register count.",)

    C7602 (too few registers for an instruction at the entry) has no such word, and is among them.
    """
    found = re.findall(r"\((C\d+)\) (?:Potential Performance Loss: )([^\n]*)|\((C7602)\) ([^\n]*)", log)
    return tuple(dict.fromkeys(f"{a or c}: {(b or d).strip()}" for a, b, c, d in found))


# ---- the disk cache: one file per cubin, its checksum in the first line; what does not check is compiled again
def cache_dir() -> Path:
    """Where cubins are kept: ``$XDG_CACHE_HOME/tilegen/cubins``, by default under ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        home = os.path.expanduser("~")
        base = os.path.join(home if os.path.isabs(home) else os.devnull, ".cache")  # no home: nothing can be kept
    return Path(base, "tilegen", "cubins")


def _translate_cached(
    compiler: Compiler, source: str, arch: str, name: str, options: tuple[str, ...]
) -> tuple[bytes, str]:
    asked = json.dumps([source, arch, name, options, str(compiler)])
    entry = cache_dir() / hashlib.sha256(asked.encode()).hexdigest()
    kept = _read_entry(entry)
    if kept is None:
        kept = compiler.translate(source, arch, name, options)
        with suppress(OSError):  # a home that cannot be written only costs time
            _write_entry(entry, *kept)
    return kept


def _read_entry(entry: Path) -> tuple[bytes, str] | None:
    try:
        checksum, content = entry.read_bytes().split(b"\n", 1)
        if hashlib.sha256(content).hexdigest().encode() != checksum:
            return None
        log, image = content.split(b"\n", 1)
        return image, str(json.loads(log))
    except (OSError, ValueError):
        return None


def _write_entry(entry: Path, image: bytes, log: str) -> None:
    content = json.dumps(log).encode() + b"\n" + image
    entry.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=entry.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
        os.replace(temporary, entry)  # atomic: a reader sees the whole entry or none
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
