"""A scan of whole arrays as the statements that carry it out: one kernel, or three passes where CTAs share lines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilegen.arch import ARCHES
from tilegen.decisions import Choice
from tilegen.layouts import row_major
from tilegen.ops import OPS
from tilegen.ops.expanding import Meant, blame_call, list_names, load_written, place_passes
from tilegen.ops.scan_array.choose import ScanRecipe, choose_own, choose_recipe, describe_choice
from tilegen.ops.scan_array.meant import mean_chunks, mean_results
from tilegen.ops.scan_array.problem import WholeScan, read_problem
from tilegen.ops.scan_array.write import count_chunks, write_chunks, write_lines, write_results
from tilegen.plan import default_values
from tilegen.spaces import WORKSPACE
from tilegen.spec import OwnData, load
from tilegen.spec.data import Buffer, Spec, WholeCall
from tilegen.spec.outline import fresh_name
from tilegen.spec.printing import describe_arrays
from tilegen.spec.program import Program
from tilegen.spec.spelling import spell_index

CHUNKS, CARRY, WRITE = "chunks", "carry", "write"  # the passes


def expand_scan(spec: Spec, call: WholeCall) -> Spec | Program:
    """The tile ops that carry out a call, in three passes where CTAs share lines."""
    problem = read_problem(call)
    recipe = choose_recipe(call, problem, default_values(spec.params), ARCHES[spec.arch])
    choice = describe_choice(call, recipe)
    if recipe.passes > 1:
        return _expand_passes(spec, call, problem, recipe, choice)
    written = write_lines(problem, recipe, list_names(spec))
    return load_written(spec, call, written, choice, recipe, _say_call(call))


def _say_call(call: WholeCall) -> str:
    fields = call.fields
    words = [word for word, is_so in (("exclusive", fields.exclusive), ("from the end", fields.reverse)) if is_so]
    how = f", {', '.join(words)}" if words else ""
    return f"scan_array {fields.dst} = {fields.op} of {fields.src}, axis {fields.axis}{how}"


def _expand_passes(spec: Spec, call: WholeCall, problem: WholeScan, recipe: ScanRecipe, choice: Choice) -> Program:
    """The passes of a scan whose lines several CTAs share.

    What each means is an op on whole arrays, with which its proof compares all tiles: what each chunk comes to, an
    exclusive scan of that, and each chunk again from what lies before it.
    """
    taken, arch = list_names(spec), ARCHES[spec.arch]
    totals = fresh_name("totals", taken)
    before = fresh_name("before", taken | {totals})
    taken |= {totals, before}
    between = _see_between(problem, recipe, totals, before)
    starts_early = "dependent_launch" in arch.features
    passes = (
        (CHUNKS, write_chunks(problem, recipe, taken, totals)),
        (CARRY, write_lines(between, choose_own(between, default_values(spec.params), arch), taken, starts_early)),
        (WRITE, write_results(problem, recipe, taken, before, starts_early)),
    )
    head = describe_arrays(spec)
    shape = [n if isinstance(n, int) else spell_index(n) for n in between.src.shape]
    declared = {name: {"scope": WORKSPACE.name, "dtype": problem.sums, "shape": shape} for name in (totals, before)}
    data: dict[str, Any] = {
        "kernel": spec.kernel, "arch": spec.arch, "params": head["params"], "buffers": head["buffers"] | declared,
        "passes": [{"name": name, **written} for name, written in passes],
    }  # fmt: skip
    with blame_call(call, recipe):
        program = load(OwnData(data), OPS)
    assert isinstance(program, Program)
    said = _say_call(call)
    sums, first = program.buffer(totals), program.buffer(before)
    meant = {
        CHUNKS: Meant(mean_chunks(call, recipe.elements, sums), f"{said}: {recipe}"),
        CARRY: Meant(_mean_carry(call, sums, first), f"{said}: what lies before each chunk"),
        WRITE: Meant(mean_results(call, recipe.elements, first), f"{said}: chunks again"),
    }
    return place_passes(spec, call, program, meant, (choice,))


def _see_between(problem: WholeScan, recipe: ScanRecipe, totals: str, before: str) -> WholeScan:
    """The second pass: an exclusive scan of what chunks come to."""
    chunks = count_chunks(problem, recipe)
    shape = (
        (chunks,) if not problem.has_rows else (chunks, problem.kept) if problem.axis == 0 else (problem.kept, chunks)
    )
    arrays = (Buffer(n, WORKSPACE.name, problem.sums, shape, row_major(shape), n) for n in (totals, before))
    src, dst = arrays
    is_along = problem.axis == len(shape) - 1
    return replace(problem, src=src, dst=dst, line=chunks, is_along=is_along, exclusive=True)


def _mean_carry(call: WholeCall, totals: Buffer, before: Buffer) -> WholeCall:
    """The second pass as an op on whole arrays: an exclusive scan of the workspace."""
    fields = call.fields.model_copy(update={"src": totals.name, "dst": before.name, "exclusive": True})
    return WholeCall(call.form, fields, {"src": totals, "dst": before}, call.mark)
