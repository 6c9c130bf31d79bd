"""What ptxas makes of min or max of negated ints, and of float64 products on top of zeros, both of them right in PTX.

    python benchmarks/probe_ptxas.py [--out FILE]

Needs CuPy and a device of compute capability 9.0 or later; takes seconds. docs/compute.md says what came out.
"""

from __future__ import annotations

import argparse
from typing import Any

import cupy
import numpy as np
from count_cp_async import describe_device
from gpu_files import put_out

from tilegen.render.page import templates

LANES, ELEMS, STEPS = 32, 16, 5
# name: what is done with each element x of a thread's, `a` is the result so far
EXTREMES = {
    "max(a, -x)": "a = max(a, -x);", "max(a, 0 - x)": "a = max(a, 0 - x);",
    "a > -x ? a : -x": "{ int v = -x; a = a > v ? a : v; }", "max(a, y - x)": "a = max(a, y - x);",
    "max(a, x)": "a = max(a, x);", "max(a, negate_int(x))": "a = max(a, negate_int(x));",
    "max_int(a, -x)": "a = max_int(a, -x);", "max_int(a, negate_int(x))": "a = max_int(a, negate_int(x));",
}  # fmt: skip
# name: where the sums begin, and what is done with them in each step k
ZEROS = {
    "zeros before the loop": ("0.0", ""), "if (k < 1) 0.0": ("1.0", "if (k < 1) c[e] = 0.0;"),
    "k < 1 ? 0.0 : c": ("1.0", "c[e] = k < 1 ? 0.0 : c[e];"),
    "if (k < 1) hidden_zero()": ("1.0", "if (k < 1) c[e] = hidden_zero();"),
}  # fmt: skip
REDUCE = """
extern "C" __global__ void reduce(const int *X, int *Y, int y)
{
    int a = -2147483647 - 1;
    #pragma unroll
    for (int i = 0; i < ELEMS; ++i) { const int x = X[threadIdx.x * ELEMS + i]; BODY }
    Y[threadIdx.x] = a;
}
"""
PRODUCT = """
extern "C" __global__ void product(const double *A, const double *B, double *D, int steps)
{
    const int g = threadIdx.x >> 2, t = threadIdx.x & 3;
    double c[4];
    for (int e = 0; e < 4; ++e) c[e] = FIRST;
    for (int k = 0; k < steps; ++k) {
        double a[4], b[2];
        for (int e = 0; e < 4; ++e) a[e] = A[((e & 1) * 8 + g) * steps * 8 + k * 8 + (e >> 1) * 4 + t];
        for (int e = 0; e < 2; ++e) b[e] = B[(k * 8 + e * 4 + t) * 8 + g];
        for (int e = 0; e < 4; ++e) { BODY }
        mma_m16n8k8_f64_f64_f64_f64(c, a, b);
    }
    for (int e = 0; e < 4; ++e) D[((e >> 1) * 8 + g) * 8 + t * 2 + (e & 1)] = c[e];
}
"""


def prelude(*names: str) -> str:
    """The text that kernels have of functions of ours."""
    page = templates().get_template("prelude.cuh.j2").make_module({"arch": 90, "use": str})
    return "\n".join(str(getattr(page, name)()) for name in names)


def compile_function(source: str, name: str) -> Any:
    return cupy.RawModule(code=source, options=("-arch=sm_90",)).get_function(name)


def probe_extreme(name: str, body: str) -> dict[str, Any]:
    source = prelude("negate_int", "max_int") + REDUCE.replace("ELEMS", str(ELEMS)).replace("BODY", body)
    x = np.random.default_rng(1).integers(-100, 100, (LANES, ELEMS)).astype(np.int32)
    found, y = cupy.zeros(LANES, np.int32), 7
    compile_function(source, "reduce")((1,), (LANES,), (cupy.asarray(x), found, np.int32(y)))
    terms = y - x if "y" in body else x if name == "max(a, x)" else -x
    return {"name": name, "wrong": int((cupy.asnumpy(found) != terms.max(axis=1)).sum()), "of": LANES}


def probe_zeros(name: str, first: str, body: str) -> dict[str, Any]:
    source = prelude("hidden_zero", "mma_m16n8k8_f64_f64_f64_f64")
    function = compile_function(source + PRODUCT.replace("FIRST", first).replace("BODY", body), "product")
    random = np.random.default_rng(1)
    a, b = random.standard_normal((16, STEPS * 8)), random.standard_normal((STEPS * 8, 8))
    found = cupy.zeros((16, 8))
    function((1,), (LANES,), (cupy.asarray(a), cupy.asarray(b), found, np.int32(STEPS)))
    wrong = np.abs(cupy.asnumpy(found) - a @ b) > 1e-9
    return {
        "name": name,
        "wrong": int(wrong.sum()),
        "of": wrong.size,
        "rows": np.flatnonzero(wrong.any(axis=1)).tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="")
    out = parser.parse_args().out
    found = {
        "device": describe_device(),
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "extremes": [probe_extreme(*row) for row in EXTREMES.items()],
        "zeros": [probe_zeros(name, *texts) for name, texts in ZEROS.items()],
    }
    put_out(found, out)


if __name__ == "__main__":
    main()
