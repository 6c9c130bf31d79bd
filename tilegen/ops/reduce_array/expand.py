"""A reduction as the statements that carry it out: one kernel, or two passes where CTAs share results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilegen.arch import ARCHES
from tilegen.decisions import Choice
from tilegen.index import ceil_div, mul
from tilegen.layouts import row_major
from tilegen.ops import OPS
from tilegen.ops.expanding import Meant, blame_call, list_names, load_written, place_passes
from tilegen.ops.reduce_array.choose import ReduceRecipe, choose_box, choose_recipe, describe_choice
from tilegen.ops.reduce_array.parts_meant import PartFields, mean_parts
from tilegen.ops.reduce_array.problem import WholeReduction, read_problem
from tilegen.ops.reduce_array.write import Sharing, write_kernel
from tilegen.plan import default_values
from tilegen.spaces import WORKSPACE
from tilegen.spec import OwnData, load
from tilegen.spec.data import Buffer, Spec, WholeCall
from tilegen.spec.outline import fresh_name
from tilegen.spec.printing import describe_arrays
from tilegen.spec.program import Program
from tilegen.spec.spelling import spell_index

PARTS, TOTAL = "parts", "total"  # the passes


def expand_reduction(spec: Spec, call: WholeCall) -> Spec | Program:
    """The tile ops that carry out a call, in two passes where CTAs share results.

    Raises SpecError (TG302) for pins that cannot be.
    """
    problem = read_problem(call, {p.name: p.dtype for p in spec.params if p.var is None})
    recipe = choose_recipe(call, problem, default_values(spec.params), ARCHES[spec.arch])
    choice = describe_choice(call, recipe)
    if recipe.parts > 1:
        return _expand_passes(spec, call, problem, recipe, choice)
    written = write_kernel(problem, recipe, list_names(spec))
    return load_written(spec, call, written, choice, recipe, _say_call(call))


def _say_call(call: WholeCall) -> str:
    what = call.fields.src or call.fields.expr
    axes = "all axes" if call.fields.axis == "all" else f"axis {call.fields.axis}"
    return f"reduce_array {call.fields.dst} = {call.fields.op} of {what}, {axes}"


# ---------------------------------------------------------------- two passes
def _expand_passes(
    spec: Spec, call: WholeCall, problem: WholeReduction, recipe: ReduceRecipe, choice: Choice
) -> Program:
    """The passes of a reduction whose results several CTAs share.

    What each means is an op on whole arrays, with which its proof compares all tiles: what each part comes to, and the
    results of all parts. The parts together are all elements.
    """
    taken = list_names(spec)
    workspace = fresh_name("parts", taken)
    trips = ceil_div(ceil_div(problem.reduced, recipe.reduced), recipe.parts)
    first = write_kernel(problem, recipe, taken | {workspace}, Sharing(workspace, trips))
    shape = (recipe.parts, problem.kept)
    parts = Buffer(workspace, WORKSPACE.name, problem.sums, shape, row_major(shape), workspace)
    gathered = replace(
        problem, operands={"": parts}, expression="", reduced=recipe.parts, is_along=False, is_turned=False,
        is_flat=False, has_rows=True, is_plain=True,
    )  # fmt: skip
    arch = ARCHES[spec.arch]
    own = choose_box(gathered, default_values(spec.params), arch)
    starts_early = "dependent_launch" in arch.features
    second = write_kernel(gathered, own, taken | {workspace}, overlap=starts_early)
    head = describe_arrays(spec)
    kept = problem.kept if isinstance(problem.kept, int) else spell_index(problem.kept)
    declared = {workspace: {"scope": WORKSPACE.name, "dtype": problem.sums, "shape": [recipe.parts, kept]}}
    data: dict[str, Any] = {
        "kernel": spec.kernel, "arch": spec.arch, "params": head["params"], "buffers": head["buffers"] | declared,
        "passes": [{"name": PARTS, **first}, {"name": TOTAL, **second}],
    }  # fmt: skip
    with blame_call(call, recipe):
        program = load(OwnData(data), OPS)
    assert isinstance(program, Program)
    brought = program.buffer(workspace)
    meant = {
        PARTS: Meant(
            mean_parts(PartFields(call, mul(trips, recipe.reduced)), brought),
            f"{_say_call(call)}, {recipe.parts} parts: {recipe}",
        ),
        TOTAL: Meant(_mean_total(call, brought), f"{_say_call(call)}: what {recipe.parts} parts come to"),
    }
    return place_passes(spec, call, program, meant, (choice,))


def _mean_total(call: WholeCall, parts: Buffer) -> WholeCall:
    """The second pass as an op on whole arrays: the reduction of the workspace along its parts."""
    fields = call.fields.model_copy(update={"src": parts.name, "expr": None, "named": {}, "axis": 0})
    return WholeCall(call.form, fields, {"src": parts, "dst": call.arrays["dst"]}, call.mark)
