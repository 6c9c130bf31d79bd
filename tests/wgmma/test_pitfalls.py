"""What docs/hopper.md says that ptxas says of slow kernels: planted in a generated one, which is free of it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from nvcc.compile import requires_nvcc
from specs.kernels import ROOT, draft

from tests.faults.texts import change_text

PRODUCT, WAIT = "__device__ __forceinline__ void wgmma_sa_sb_acc", "            wgmma_wait<1>();\n"


def _plant(statement: str, gemm: str) -> str:
    """The text with a statement after the wait."""
    return change_text(gemm, (WAIT, f"{WAIT}            {statement}\n"))


PITFALLS: dict[str, tuple[Callable[[str], str], set[str]]] = {
    "as it is": (lambda gemm: gemm, set()),
    "an accumulator is read in flight": (partial(_plant, "acc[0] *= 1.5f;"), {"C7514"}),
    "an accumulator is written in flight": (partial(_plant, "acc[0] = bx;"), {"C7515"}),
    "products in a function of their own": (
        lambda gemm: change_text(gemm, (PRODUCT, PRODUCT.replace("force", "no"))), {"C7510"}
    ),
    "no launch bounds": (lambda gemm: re.sub(r"__launch_bounds__\([^)]*\)", "", gemm), {"C7508"}),
}  # fmt: skip


@pytest.mark.sweep(1)
@requires_nvcc
@pytest.mark.parametrize("what", PITFALLS)
def test_ptxas_warns_of_a_pitfall(what: str, tmp_path: Path) -> None:
    plant, codes = PITFALLS[what]
    gemm = draft(ROOT / "specs" / "hgemm_roles.yaml").source
    text = plant(gemm)
    assert (text == gemm) == (not codes)
    path = tmp_path / "kernel.cu"
    path.write_text(text)
    command = ["nvcc", "-arch=sm_90a", "-cubin", "-Xptxas", "-v", str(path), "-o", str(path.with_suffix(".cubin"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    assert set(re.findall(r"\((C75\d\d)\) Potential Performance Loss", done.stdout + done.stderr)) == codes
