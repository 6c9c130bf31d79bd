"""Kernels of specs/ on the machine; the tests need the NVRTC whose text they were written for.

Their proofs are other tests' work: what is compiled here is only planned and printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.programs.kernels import SMALL
from tests.ptx.run import COMPILER, HAS_NVRTC, PINNED
from tests.session import once
from tilegen.pipeline import Built, BuiltProgram, kernels_of, load
from tilegen.pipeline.programs import list_specs
from tilegen.planner import plan_program, plan_spec
from tilegen.render import render
from tilegen.render.programs import render_program
from tilegen.spec.data import Spec
from tilegen.spec.program import Program

SPECS = Path(__file__).parents[2] / "specs"
requires_nvrtc = pytest.mark.skipif(not HAS_NVRTC, reason=f"these tests are for {PINNED}; here is {COMPILER}")

# What takes half a minute, or gigabytes, at its own size; programs run whole, at the first of their small sizes.
SIZES: dict[str, Mapping[str, int]] = {
    "sgemm_step1": {"K": 256}, "gemm_bias_gelu": {"K": 320}, "gemm_w8a16": {"K": 512}, "hgemm_step4": {"K": 512},
    "gemm_int8_rows": {"K": 512}, "cross_entropy": {"V": 8200}, "transpose": {"M": 1024, "N": 1024},
    "transpose_f16": {"M": 1024, "N": 1024}, "transpose_u8": {"M": 1024, "N": 1024},
}  # fmt: skip


def draft_small(stem: str) -> Built | BuiltProgram:
    """A spec's kernel, or its program's, not proved; a large one at a smaller size."""
    sizes = SIZES.get(stem) or next(iter(SMALL.get(stem, ())), None)
    return draft(load(SPECS / f"{stem}.yaml", params=sizes))


draft_whole = once(draft_small)


def draft(loaded: Spec | Program) -> Built | BuiltProgram:
    """What ``build`` gives, without a manifest and a proof."""
    nothing: Any = None
    if isinstance(loaded, Spec):
        plan = plan_spec(loaded)
        return Built(render(plan), {}, plan, loaded, nothing)
    program = plan_program(loaded)
    source = render_program(program)
    passes = zip(program.plans, list_specs(loaded), strict=True)
    return BuiltProgram(source, {}, program, loaded, tuple(Built(source, {}, p, spec, nothing) for p, spec in passes))


def list_kernels(stem: str) -> tuple[Built, ...]:
    """The kernel of a spec, or those of its passes."""
    return tuple(kernels_of(draft_whole(stem)))
