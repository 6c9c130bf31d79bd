"""Rendered text compiles without headers or warnings, keeps registers in registers, and uses no stack."""

from __future__ import annotations

from dataclasses import replace

import pytest
from text.plans import (
    build_cast,
    build_fill,
    build_fragment,
    build_matrices,
    build_permute_sf,
    build_pool,
    build_runtime_copy,
    build_transpose,
)

from nvcc.compile import compile_text, compile_texts, requires_nvcc
from tilegen.dtypes import DTYPES
from tilegen.render import launch_info, render

pytestmark = requires_nvcc
ARCHS = ("sm_80", "sm_90", "sm_100")
FLOATS = [n for n, d in DTYPES.items() if d.kind == "float"]
OTHER_CASTS = (("bool", "float16"), ("complex64", "int8"), ("uint64", "float8_e5m2"), ("float16", "complex128"),
               ("bfloat16", "bool"), ("complex128", "bool"))  # fmt: skip


def every_plan():
    yield from (replace(build_permute_sf(d), name=f"permute_{d}") for d in DTYPES)
    yield from (build_fragment(d) for d in ("uint8", "float16", "int32", "bool"))
    yield from (build_transpose(), build_runtime_copy(), build_pool())
    yield from (build_cast(a, b) for a in FLOATS for b in FLOATS)
    yield from (build_cast(a, b) for a, b in OTHER_CASTS)
    yield from (build_fill(d, 1) for d in DTYPES)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("arch", ARCHS)
def test_compiles_with_no_stack_and_no_spills(arch):
    plans = [replace(p, arch=arch) for p in every_plan()]
    for plan, report in zip(plans, compile_texts([render(p) for p in plans], arch), strict=True):
        assert (report.stack, report.spills) == (0, 0), report
        assert report.shared == launch_info(plan)["static_shared_bytes"], report


def test_matrices_compile_where_both_instructions_are():
    texts = [render(build_matrices(n, trans)) for n in (1, 2, 4) for trans in (False, True)]
    assert all((r.stack, r.spills) == (0, 0) for r in compile_texts(texts, "sm_90"))


def test_what_ptxas_says_is_read():
    """A kernel that must use the stack is seen to use it."""
    body = "int x[32]; for (int i = 0; i < 32; ++i) x[i * n & 31] = a[i]; a[n] = x[n & 31] + x[a[3] & 31];"
    assert compile_text(f'extern "C" __global__ void k(int *a, int n) {{ {body} }}', "sm_90").stack == 128
    with pytest.raises(AssertionError, match="never referenced"):
        compile_text('extern "C" __global__ void k() { int unused; }', "sm_90")


def test_the_file_alone_compiles():
    report = compile_text(render(build_permute_sf()), "sm_90")
    assert report.shared == 2048
    assert report.registers <= 32
