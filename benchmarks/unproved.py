"""Builds without proofs, and the processes in which many are made: tests prove every spec, benchmarks time kernels."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tilegen.pipeline import Built, BuiltProgram, describe_build
from tilegen.pipeline.programs import list_specs
from tilegen.plan import Plan
from tilegen.planner import plan_program, plan_spec
from tilegen.proofs import Proof
from tilegen.render import render
from tilegen.render.programs import render_program
from tilegen.spec.data import Spec
from tilegen.spec.program import Program

WORKERS = max(1, min(12, (os.cpu_count() or 2) - 2))


def open_workers() -> ProcessPoolExecutor:
    """Processes that build, and check on the same GPU, while nothing is timed."""
    return ProcessPoolExecutor(WORKERS, get_context("spawn"))


def build_kernel_unproved(spec: Spec, file: str = "") -> Built:
    """What ``tilegen.build`` makes of a loaded spec of one kernel. ``file``: what its head names.

    Raises SpecError where no plan carries the spec out.
    """
    plan = plan_spec(spec)
    return _describe(spec, plan, render(plan, file) if file else render(plan))


def build_unproved(loaded: Spec | Program, file: str = "") -> Built | BuiltProgram:
    """The same of what ``tilegen.load`` returns, of one kernel or of several, whose head names no file."""
    if isinstance(loaded, Spec):
        return build_kernel_unproved(loaded, file)
    program = plan_program(loaded)
    source = render_program(program)
    parts = zip(list_specs(loaded), program.plans, strict=True)
    return BuiltProgram(source, {}, program, loaded, tuple(_describe(spec, plan, source) for spec, plan in parts))


def _describe(spec: Spec, plan: Plan, source: str) -> Built:
    unproved = Proof((), 0)
    return Built(source, describe_build(spec, plan, source, unproved), plan, spec, unproved)
