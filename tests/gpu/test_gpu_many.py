"""Many specs on one GPU: what is said of each is what is said of it alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tilegen.gpu.device import probe_device

ROOT = Path(__file__).parents[2]
DEVICE, WHY_NOT = probe_device()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(DEVICE is None, reason=WHY_NOT)]
SPECS = ("copy_tile", "rmsnorm", "transpose_tile", "gemm_step4", "transpose")  # the last has 512 MiB of arrays


def verify(*names: str) -> list[str]:
    """The lines that are printed, sorted."""
    specs = [f"specs/{name}.yaml" for name in names]
    command = [sys.executable, "-m", "tilegen", "verify", "--device", "gpu", "-j", "4", *specs]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def test_kernels_side_by_side_are_verified_as_each_alone() -> None:
    assert verify(*SPECS) == sorted(line for name in SPECS for line in verify(name))
