"""A reduction as the statements that carry it out: one kernel, or two passes where CTAs share results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tilegen.arch import ARCHES
from tilegen.errors import SpecError
from tilegen.index import ceil_div, mul
from tilegen.layouts import row_major
from tilegen.ops import OPS
from tilegen.ops.reduce_array.choose import ReduceRecipe, choose_box, choose_recipe, describe_choice
from tilegen.ops.reduce_array.parts_meant import PartFields, mean_parts
from tilegen.ops.reduce_array.problem import WholeReduction, read_problem
from tilegen.ops.reduce_array.write import Sharing, write_kernel
from tilegen.plan import default_values
from tilegen.spaces import WORKSPACE
from tilegen.spec import OwnData, load, load_own
from tilegen.spec.data import Buffer, Spec, WholeCall
from tilegen.spec.marking import mark_all
from tilegen.spec.outline import fresh_name
from tilegen.spec.printing import describe_arrays
from tilegen.spec.program import Pass, Program
from tilegen.spec.spelling import spell_index

PARTS, TOTAL = "parts", "total"  # the passes


def expand_reduction(spec: Spec, call: WholeCall) -> Spec | Program:
    """The tile ops that carry out a call, in two passes where CTAs share results.

    Raises SpecError (TG302) for pins that cannot be.
    """
    problem = read_problem(call, {p.name: p.dtype for p in spec.params if p.var is None})
    recipe = choose_recipe(call, problem, default_values(spec.params), ARCHES[spec.arch])
    choices = (*spec.choices, describe_choice(call, recipe))
    if recipe.parts > 1:
        return _expand_passes(spec, call, problem, recipe)
    head = describe_arrays(spec)
    written = write_kernel(problem, recipe, _list_names(spec))
    buffers = head["buffers"] | written["buffers"]
    data = {"kernel": spec.kernel, "arch": spec.arch, **head, **written, "buffers": buffers}
    with _blame(call, recipe):
        expanded = load_own(OwnData(data), OPS)
    given = {b.name: b for b in spec.buffers}
    return replace(
        expanded, path=spec.path, text=spec.text, params=spec.params, constants=spec.constants, whole=call,
        buffers=tuple(given.get(b.name, mark_all(b, call.mark)) for b in expanded.buffers),
        ops=mark_all(expanded.ops, call.mark), warnings=spec.warnings, choices=choices,
        notes=(*spec.notes, f"{_say_call(call)}: {recipe}"),
    )  # fmt: skip


def _list_names(spec: Spec) -> frozenset[str]:
    own = {spec.kernel, *(b.name for b in spec.buffers), *(p.name for p in spec.params)}
    return frozenset(own | {c.name for c in spec.constants})


def _say_call(call: WholeCall) -> str:
    what = call.fields.src or call.fields.expr
    axes = "all axes" if call.fields.axis == "all" else f"axis {call.fields.axis}"
    return f"reduce_array {call.fields.dst} = {call.fields.op} of {what}, {axes}"


@contextmanager
def _blame(call: WholeCall, recipe: ReduceRecipe) -> Iterator[None]:
    """What is wrong with statements that nobody wrote is said at the call, with the recipe that they are."""
    try:
        yield
    except SpecError as error:
        found = tuple(replace(d, mark=call.mark, message=f"{d.message} ({recipe})") for d in error.diagnostics)
        raise SpecError(found) from None


# ---------------------------------------------------------------- two passes
def _expand_passes(spec: Spec, call: WholeCall, problem: WholeReduction, recipe: ReduceRecipe) -> Program:
    """The passes of a reduction whose results several CTAs share.

    What each means is an op on whole arrays, with which its proof compares all tiles: what each part comes to, and the
    results of all parts. The parts together are all elements.
    """
    taken = _list_names(spec)
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
    with _blame(call, recipe):
        program = load(OwnData(data), OPS)
    assert isinstance(program, Program)
    brought = program.buffer(workspace)
    wholes = {
        PARTS: mean_parts(PartFields(call, mul(trips, recipe.reduced)), brought),
        TOTAL: _mean_total(call, brought),
    }
    notes = {
        PARTS: f"{_say_call(call)}, {recipe.parts} parts: {recipe}",
        TOTAL: f"{_say_call(call)}: what {recipe.parts} parts come to",
    }
    passes = tuple(_place(one, spec, call, wholes[one.name], notes[one.name]) for one in program.passes)
    choices = (*spec.choices, describe_choice(call, recipe))
    passes = (replace(passes[0], spec=replace(passes[0].spec, choices=choices)), *passes[1:])
    given = {b.name: b for b in spec.buffers}
    return replace(
        program, path=spec.path, text=spec.text, params=spec.params, constants=spec.constants, passes=passes,
        buffers=tuple(given.get(b.name, mark_all(b, call.mark)) for b in program.buffers),
        version=spec.version, warnings=spec.warnings, whole=call,
    )  # fmt: skip


def _mean_total(call: WholeCall, parts: Buffer) -> WholeCall:
    """The second pass as an op on whole arrays: the reduction of the workspace along its parts."""
    fields = call.fields.model_copy(update={"src": parts.name, "expr": None, "named": {}, "axis": 0})
    return WholeCall(call.form, fields, {"src": parts, "dst": call.arrays["dst"]}, call.mark)


def _place(one: Pass, spec: Spec, call: WholeCall, whole: WholeCall, note: str) -> Pass:
    """A pass as part of the user's text: all that it has stands where the call does."""
    given = {b.name: b for b in spec.buffers}
    placed = replace(
        one.spec, path=spec.path, text=spec.text, version=spec.version, whole=whole, warnings=(), notes=(note,),
        buffers=tuple(given.get(b.name, mark_all(b, call.mark)) for b in one.spec.buffers),
        ops=mark_all(one.spec.ops, call.mark),
    )  # fmt: skip
    return replace(one, spec=placed, mark=call.mark)
