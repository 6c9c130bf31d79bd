"""gemm whose K several CTAs share, as a program: the pass of the parts, and the pass that adds up their sums."""

from __future__ import annotations

from tilegen.arch import ARCHES
from tilegen.ops import OPS
from tilegen.ops.expanding import Meant, blame_call, list_names, place_passes
from tilegen.ops.gemm.choose import Picked
from tilegen.ops.gemm.parts import Writing
from tilegen.ops.gemm.parts_meant import PartsFields, mean_parts
from tilegen.ops.gemm.problem import Problem
from tilegen.ops.gemm.split import describe_workspace, share_spec, write_sum
from tilegen.ops.gemm.sum_meant import SumFields, mean_sum
from tilegen.spec import OwnData, load
from tilegen.spec.data import Spec, WholeCall
from tilegen.spec.printing import describe_arrays
from tilegen.spec.program import Program

PARTS, SUM = "parts", "sum"  # the passes


def expand_passes(spec: Spec, call: WholeCall, problem: Problem, picked: Picked) -> Program:
    """The two passes of what was picked in the place of a call. Raises SpecError where they cannot be.

    What each pass means is an op on whole arrays, with which its proof compares all tiles: sums of each part of K, and
    ``d`` made of the sums of all parts. The parts together are all of K.
    """
    recipe = picked.recipe
    turned = problem.turned() if recipe.is_turned else problem
    shared = share_spec(spec, turned, recipe)
    is_across = shared.d.is_turned  # the pass of the parts makes the transpose of the sums
    added = turned.turned() if is_across else turned
    with blame_call(call, recipe):
        program = load(OwnData(_describe(spec, added, shared, picked)), OPS)
    assert isinstance(program, Program)
    sums, parts = program.buffer(shared.d.name), recipe.split
    product = f"{call.fields.a} {call.fields.b}"
    made = f"{added.d.name} = {added.epilogue or 'acc'}"
    meant = {
        PARTS: Meant(
            mean_parts(PartsFields(call, parts, recipe.tile[2], recipe.is_turned != is_across), sums),
            f"gemm, {parts} parts of acc = {product}: {recipe}",
        ),
        SUM: Meant(
            mean_sum(SumFields(call, parts, recipe.is_turned != is_across), sums),
            f"gemm {made}, acc = {product}: the sums of {parts} parts in their order",
        ),
    }
    return place_passes(spec, call, program, meant, picked.choices)


def _describe(spec: Spec, added: Problem, shared: Problem, picked: Picked) -> dict[str, object]:
    """The program as a dict of what YAML would hold."""
    arch, names, head = ARCHES[spec.arch], list_names(spec) | {shared.d.name}, describe_arrays(spec)
    parts = picked.recipe.write(Writing(shared, names, "setmaxnreg" in arch.features))
    adds = write_sum(Writing(added, names), shared.turned() if shared.d.is_turned else shared, arch)
    return {
        "kernel": spec.kernel, "arch": spec.arch, "params": head["params"],
        "buffers": head["buffers"] | describe_workspace(shared),
        "passes": [{"name": PARTS, **parts}, {"name": SUM, **adds}],
    }  # fmt: skip
