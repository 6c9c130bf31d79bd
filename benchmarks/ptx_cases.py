"""Kernels that a GPU and the machine in NumPy both run: drawn ones, and those of specs/ that are small."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from random_kernels import draw_kernel

import tilegen
from tests.atomics.kernels import boxes_by_tma, global_sums, rows_by_index, shared_sums
from tests.gpu.test_gpu_drawn import draw_reduction, draw_tile_product, draw_tma_copy
from tests.test_gemm import draw_problem
from tests.test_whole_scan import draw_problem as draw_scan
from tests.test_whole_scan import spec_of as scan_of
from tests.wgmma.kernels import SPECS as PRODUCTS
from tilegen.dtypes import numpy_dtype
from tilegen.errors import SpecError
from tilegen.index import evaluate
from tilegen.pipeline import Built, build, kernels_of
from tilegen.plan import arrays
from tilegen.proofs.floats import computes, float_inputs
from tilegen.spec.outline import launch_of
from tilegen.verifying.floats import draw_image
from tilegen.verifying.images import make_image
from tilegen.verifying.on_ptx import list_small_cases

_MOST_BYTES, _MOST_THREADS = 1 << 20, 1 << 15
_SPECS = Path(__file__).parents[1] / "specs"
_OF_SPECS = (
    "softmax_short_rows", "layernorm", "rmsnorm", "attention", "attention_varlen", "decode_paged", "dropout",
    "dropout_f32", "histogram", "index_add", "inverse_permutation", "moe_permute", "moe_route", "top2_rows",
    "scan", "scan_rows", "offsets_of_counts", "column_sum_atomic", "column_sum", "broadcast_cluster",
    "hgemm_ring", "hgemm_roles", "wgmma_ring", "quantize_rows", "cast_rows", "rotary", "swiglu", "gemm_fp8",
    "gemm_int8_rows", "ragged_scale", "kv_append", "attention_hopper", "hgemm_cluster", "transpose_tma",
    "permute_ring", "sum_all", "squared_error", "stencil",
)  # fmt: skip
_FUNCTIONS = {
    "exp": "exp(x)", "exp2": "exp2(x)", "log": "log(abs(x) + 0.25)", "log2": "log2(abs(x) + 0.25)",
    "rsqrt": "rsqrt(abs(x) + 0.25)", "sqrt": "sqrt(abs(x))", "tanh": "tanh(x)", "erf": "erf(x)",
    "sigmoid": "sigmoid(x)", "quotient": "x / (abs(x) + 0.75)", "fused": "fma(x, x, -x)",
}  # fmt: skip


def list_drawn() -> Iterator[tuple[str, Any]]:
    """The family of each kernel, and its spec, as text, data or a path; some of the boxes of TMA are no kernel."""
    yield from (("moved", draw_kernel(number)[1]) for number in range(30))
    yield from (("product of tiles", draw_tile_product(seed)) for seed in range(24))
    yield from (("reduction", draw_reduction(seed)) for seed in range(20))
    yield from (("boxes of TMA", draw_tma_copy(seed, is_early)) for seed in range(16) for is_early in (False, True))
    yield from (("scan", {**scan_of(**draw_scan(seed)), "kernel": f"scan{seed}"}) for seed in range(12))
    yield from (("product of arrays", {**draw_problem(seed), "kernel": f"gemm{seed}"}) for seed in range(12))
    yield from (("product of a warpgroup", {**spec, "kernel": f"wgmma{k}"}) for k, spec in enumerate(PRODUCTS.values()))
    yield from (("function", apply_function(name, dtype)) for name in _FUNCTIONS for dtype in ("float32", "float64"))
    yield from (
        ("updates", global_sums(function, dtype))
        for function, dtype in (
            ("add", "float32"),
            ("add", "int32"),
            ("max", "int32"),
            ("xor", "uint32"),
            ("add", "float64"),
        )
    )
    yield from (("updates", shared_sums(dtype=dtype)) for dtype in ("float32", "int32"))
    yield from (("updates", rows_by_index("add", dtype)) for dtype in ("bfloat16", "float16", "float32", "int32"))
    yield from (("updates", boxes_by_tma("add", dtype)) for dtype in ("float32", "int32", "bfloat16"))
    yield from (("specs", _SPECS / f"{name}.yaml") for name in _OF_SPECS)


def apply_function(name: str, dtype: str) -> str:
    """An element a thread, through one function."""
    array = f"{{scope: global, dtype: {dtype}, shape: [4096]}}"
    held = f"{{scope: register, dtype: {dtype}, shape: [1]}}"
    return (
        f"kernel: {name}_{dtype}\narch: sm_90\ngrid: {{bx: 16}}\nthreads: 256\nbuffers:\n"
        f"  X: {array}\n  Y: {array}\n  x: {held}\n  y: {held}\nops:\n"
        '  - copy: {scope: thread, src: "X[bx*256 + tx : +1]", dst: x}\n'
        f'  - elementwise: {{scope: thread, dst: y, expr: "{_FUNCTIONS[name]}"}}\n'
        '  - copy: {scope: thread, src: y, dst: "Y[bx*256 + tx : +1]"}\n'
    )


def build_drawn() -> Iterator[tuple[str, bool, Built, dict[str, int]]]:
    """Each family, whether the kernel is its program's first, the kernel, and the largest of its small parameters."""
    for family, spec in list_drawn():
        try:
            built = build(spec) if isinstance(spec, Path) else tilegen.build(spec)
        except SpecError:
            if family != "boxes of TMA":
                raise
            continue
        for number, kernel in enumerate(kernels_of(built)):
            cases = [case for case in list_small_cases(kernel) if is_small(kernel, case)]
            if cases and not kernel.plan.arch.startswith("sm_10"):
                yield family, number == 0, kernel, max(cases, key=lambda case: count_bytes(kernel, case))


def count_bytes(kernel: Built, case: dict[str, int]) -> int:
    """Bytes of all arrays."""
    return sum(int(evaluate(m.span, case)) * m.elem_bytes for m in arrays(kernel.plan))


def is_small(kernel: Built, case: dict[str, int]) -> bool:
    """Whether all CTAs run in seconds."""
    threads = prod(launch_of(kernel.spec, case).grid) * kernel.plan.threads
    return 0 < threads <= _MOST_THREADS and count_bytes(kernel, case) <= _MOST_BYTES


def draw_images(kernel: Built, case: dict[str, int], number: int, made: dict[str, Any]) -> dict[str, Any]:
    """What each array starts as, as bytes: as passes before read or ``made`` it, else drawn; poison if only written."""
    drawn, images = float_inputs(kernel.plan, number, case), {}
    for m in arrays(kernel.plan):
        if m.access != "out" and computes(kernel.spec):
            image = draw_image(drawn[m.name], int(evaluate(m.span, case)), numpy_dtype(m.dtype))
        else:
            image = make_image(kernel.spec, m, case, number)
        image = np.ascontiguousarray(image).view(np.uint8).reshape(-1)
        earlier = made.get(m.name) if m.access != "out" else None
        images[m.name] = image if earlier is None or earlier.size != image.size else earlier
    return images
