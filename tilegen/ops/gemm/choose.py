"""Which recipe a gemm is carried out by."""

from __future__ import annotations

from typing import Any

from tilegen.arch import Arch
from tilegen.decisions import Choice
from tilegen.ops.gemm.problem import Problem
from tilegen.ops.gemm.recipe import Recipe
from tilegen.spec.data import WholeCall


def choose_recipe(call: WholeCall, problem: Problem, arch: Arch) -> tuple[Recipe, Problem, tuple[Any, ...]]:
    f = call.fields
    problem = problem if problem.d.runs_along_rows else problem.turned()
    tile = tuple(f.tile or (128, 256, 64))
    r = Recipe("wgmma", tile, "auto", "", (None, None, None), f.stages or 4, f.order or 8, f.cluster or 1, f.ctas or 132, 128, overlap=f.overlap or "")
    return r, problem, (Choice("gemm", r.fields()),)
