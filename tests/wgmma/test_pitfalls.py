"""What docs/hopper.md says that ptxas says of slow kernels: planted in a generated one, which is free of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from nvcc.compile import requires_nvcc
from specs.kernels import ROOT

GEMM = (ROOT / "tests" / "golden" / "hgemm_roles.cu").read_text(encoding="utf-8")
PRODUCT, WAIT = "__device__ __forceinline__ void wgmma_sa_sb_acc", "            wgmma_wait<1>();\n"
PITFALLS = {
    "as it is": (GEMM, set()),
    "an accumulator is read in flight": (GEMM.replace(WAIT, WAIT + "            acc[0] *= 1.5f;\n"), {"C7514"}),
    "an accumulator is written in flight": (GEMM.replace(WAIT, WAIT + "            acc[0] = bx;\n"), {"C7515"}),
    "products in a function of their own": (GEMM.replace(PRODUCT, PRODUCT.replace("force", "no")), {"C7510"}),
    "no launch bounds": (re.sub(r"__launch_bounds__\([^)]*\)", "", GEMM), {"C7508"}),
}


@pytest.mark.sweep(1)
@requires_nvcc
@pytest.mark.parametrize("what", PITFALLS)
def test_ptxas_warns_of_a_pitfall(what: str, tmp_path: Path) -> None:
    text, codes = PITFALLS[what]
    assert (text == GEMM) == (not codes)
    path = tmp_path / "kernel.cu"
    path.write_text(text)
    command = ["nvcc", "-arch=sm_90a", "-cubin", "-Xptxas", "-v", str(path), "-o", str(path.with_suffix(".cubin"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    assert set(re.findall(r"\((C75\d\d)\) Potential Performance Loss", done.stdout + done.stderr)) == codes
