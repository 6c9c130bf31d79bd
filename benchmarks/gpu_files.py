"""How the files of results are named, and how they say which kernel was measured."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SPECS = Path(__file__).resolve().parents[1] / "specs"


def list_kernels() -> list[str]:
    """The specs of specs/ that are one kernel."""
    return [str(path) for path in sorted(SPECS.glob("*.yaml")) if not is_program(path)]


def list_programs() -> list[str]:
    """The specs of specs/ that are several kernels."""
    return [str(path) for path in sorted(SPECS.glob("*.yaml")) if is_program(path)]


def is_program(path: Path | str) -> bool:
    """Is the spec in a file that of several kernels?"""
    return has_passes(Path(path).read_text(encoding="utf-8"))


def has_passes(text: str) -> bool:
    """Is the text of a spec that of several kernels, of an op that becomes two, too?"""
    return (
        re.search(
            r"^passes:|\bgemm: .*\bsplit: |\breduce_array: .*\bparts: (?!1\b)|\bscan_array: .*\bpasses: 3", text, re.M
        )
        is not None
    )


def gpu_file(device: str) -> str:
    """The name of a device's file.

    >>> gpu_file("NVIDIA H200")
    'nvidia-h200.json'
    """
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + ".json"


def hash_code(source: str) -> str:
    """What a kernel's text does, as a number: all of it below the comments at its head.

    >>> hash_code("// chosen\n// today\n\nint x;\n") == hash_code("// said otherwise\n\nint x;\n")
    True
    """
    lines = source.splitlines(keepends=True)
    first = next(k for k, line in enumerate(lines) if line.strip() and not line.startswith("//"))
    return hashlib.sha256("".join(lines[first:]).encode()).hexdigest()


def put_out(found: Mapping[str, Any], out: str) -> None:
    """Print what was found, and write it to the file ``out`` where one is named."""
    text = json.dumps(found, indent=1) + "\n"
    if out:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        Path(out).write_text(text, encoding="utf-8")
    print(text)


def read_driver() -> str:
    """The NVIDIA driver's version."""
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip()
