"""A gemm as the statements that carry it out: the best recipe's, in one kernel or in two passes."""

from __future__ import annotations

from tilegen.arch import ARCHES
from tilegen.errors import Diagnostic, Mark, SpecError
from tilegen.ops import OPS
from tilegen.ops.expanding import blame_call, list_names, place_kernel
from tilegen.ops.gemm.choose import choose_recipe
from tilegen.ops.gemm.epilogue import read_epilogue
from tilegen.ops.gemm.parts import Writing
from tilegen.ops.gemm.problem import Problem, read_problem
from tilegen.ops.gemm.recipe import Recipe
from tilegen.ops.gemm.split import describe_workspace, share_spec
from tilegen.spec import OwnData, load_own
from tilegen.spec.data import Spec, WholeCall
from tilegen.spec.printing import describe_arrays
from tilegen.spec.program import Program


def expand_gemm(spec: Spec, call: WholeCall) -> Spec | Program:
    """The tile ops that carry out a call, in two passes where CTAs share K.

    Raises SpecError (TG302) for pins that cannot be.
    """
    problem = read_problem(call)
    for name in ("a", "b"):
        _check_arch(call.arrays[name].dtype, spec.arch, call.mark_of(name))
    read_epilogue(call, problem, {p.name: p.dtype for p in spec.params if p.var is None})

    def expand(recipe: Recipe) -> Spec:
        return expand_recipe(spec, call, problem.turned() if recipe.is_turned else problem, recipe)

    picked = choose_recipe(call, problem, ARCHES[spec.arch], expand)
    if picked.recipe.split > 1:
        from tilegen.ops.gemm.passes import expand_passes  # few gemms need it

        return expand_passes(spec, call, problem, picked)
    p = problem.turned() if picked.recipe.is_turned else problem
    note = f"gemm {p.d.name} = {p.epilogue or 'acc'}, acc = {call.fields.a} {call.fields.b}: {picked.recipe}"
    return place_kernel(spec, call, picked.spec, picked.choices, note)


def _check_arch(dtype: str, arch: str, mark: Mark | None) -> None:
    """Raises SpecError TG301 for factors that an arch neither multiplies nor converts."""
    if dtype.startswith("float8") and "mma_fp8" not in ARCHES[arch].features:
        first = next(name for name, other in ARCHES.items() if "mma_fp8" in other.features)
        message = f"gemm on {arch} does not multiply {dtype}"
        raise SpecError(Diagnostic("TG301", message, mark, f"it needs {first} or later: 'arch: {first}'"))


def expand_recipe(spec: Spec, call: WholeCall, problem: Problem, recipe: Recipe) -> Spec:
    """The statements that a recipe is, as a spec; ``problem`` is turned where the recipe is.

    Of a recipe whose K several CTAs share, it is the first kernel. Raises SpecError for one that cannot be.
    """
    shared, head = share_spec(spec, problem, recipe), describe_arrays(spec)
    written = recipe.write(
        Writing(shared, list_names(spec) | {shared.d.name}, "setmaxnreg" in ARCHES[spec.arch].features)
    )
    buffers = head["buffers"] | describe_workspace(shared) | written["buffers"]
    data = {"kernel": spec.kernel, "arch": spec.arch, **head, **written, "buffers": buffers}
    with blame_call(call, recipe):
        return load_own(OwnData(data), OPS)
