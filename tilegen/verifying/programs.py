"""A program verified: each pass by itself, and all of them together where NumPy can run them whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilegen.dtypes import numpy_dtype
from tilegen.gpu import POISON
from tilegen.index.recurrences import ALL_TRIPS
from tilegen.interpret import interpret
from tilegen.pipeline import Built, BuiltProgram, list_launched
from tilegen.plan import Memory, arrays, default_values
from tilegen.proofs.against import Meaning, ask_meaning, refuse
from tilegen.proofs.fillings import fill_largest
from tilegen.proofs.floats import FloatRun, Held, compare_floats, draw_elements, find_places, run_bounded
from tilegen.proofs.trips import is_affordable
from tilegen.reference import Array, Input
from tilegen.spec.outline import launch_of
from tilegen.verifying.floats import at_offsets, count_ctas, count_effort
from tilegen.verifying.images import list_ctas
from tilegen.verifying.verified import Verified, count

VerifyKernel = Callable[[Built, Sequence[int]], Verified]
Written = Mapping[str, tuple[Array, Array]]  # of arrays by name, sorted offsets and the elements there
# A kernel run with its default parameters, over elements of each array that it reads, by offset.
CarryOut = Callable[[Built, Mapping[str, Input]], Written]
_MOST_EFFORT = 1 << 30  # of all CTAs of all passes, as count_effort has it: half a minute
_TOO_LONG = "the passes are too long to run together in NumPy"
_SMALLER = "set smaller params, as --set M=64"


def verify_program(
    built: BuiltProgram, verify_kernel: VerifyKernel, carry_out: CarryOut, seeds: Sequence[int],
    against: Meaning | None, most_work: int | None = None,
) -> Verified:  # fmt: skip
    """Each pass over drawn contents of the arrays and workspaces that it reads; then all passes, each over what those
    before it wrote, compared with the composed meaning, and with a function.

    ``verify_kernel`` and ``carry_out``: a kernel on the device that was asked for. ``most_work``: threads that do
    steps of a pass, where that device is slower than NumPy. Raises ProofError at the first difference, InputError TG604
    for a function that cannot be compared.
    """
    lines, notes = [], list[str]()
    device = ""
    for one, kernel in zip(built.spec.passes, built.passes, strict=True):
        found = verify_kernel(kernel, seeds)
        lines += [f"{one.name}: {line}" for line in found.lines]
        notes += [f"{one.name}: {note}" for note in found.notes]
        device = found.device if device in ("", "cpu") else device
    if _can_run_whole(built, most_work):
        for seed in seeds:
            said = run_together(built, seed, carry_out, against)
        lines += [f"together: {line}, {count(len(seeds), 'input')}" for line in said]
    elif against is not None:
        raise refuse(_TOO_LONG, _SMALLER)
    else:
        notes.append(f"{_TOO_LONG}: each was compared by itself; {_SMALLER}")
    return Verified(built.plan.name, built.plan.arch, device, tuple(lines), tuple(notes))


def _can_run_whole(built: BuiltProgram, most_work: int | None) -> bool:
    """Whether NumPy runs every CTA of every pass at the defaults in a minute or so."""
    return all(
        is_affordable(*fill_largest(k.spec, k.plan), _all_ctas(k), _case_of(k), ALL_TRIPS, most_work)
        for k in list_launched(built)
    )


def draw_inputs(built: BuiltProgram, seed: int) -> dict[str, Input]:
    """Elements of the caller's arrays that the passes read, by name, at the defaults: random normal ones of floats."""
    values = _values_of(built)
    return {m.name: draw_elements(m, values, seed) for m in built.plan.arrays if m.access != "out"}


def _values_of(built: BuiltProgram) -> dict[str, int]:
    return default_values([*built.spec.params, *(c.param for c in built.spec.counts)])


def _case_of(kernel: Built) -> dict[str, int]:
    return default_values(kernel.spec.params)


def _all_ctas(kernel: Built) -> list[tuple[int, int, int]]:
    return list_ctas(launch_of(kernel.spec, _case_of(kernel)).grid)


def carry_out_in_numpy(kernel: Built, given: Mapping[str, Input]) -> Written:
    """Every CTA of a kernel, by its plan."""
    return interpret(kernel.plan, _all_ctas(kernel), given, _case_of(kernel)).written


def run_together(
    built: BuiltProgram, seed: int, carry_out: CarryOut = carry_out_in_numpy, against: Meaning | None = None
) -> list[str]:  # fmt: skip
    """Run all passes, each over what those before it wrote, and compare what they leave in the caller's arrays with the
    composed meaning. Workspaces hold poison at first."""
    values, plan, inputs = _values_of(built), built.plan, draw_inputs(built, seed)
    got: dict[str, tuple[Array, Array]] = {}
    want: dict[str, Held] = {}
    loose: dict[str, Held] = {}
    for kernel in list_launched(built):
        run = _plan_run(kernel, inputs)
        written = carry_out(kernel, {name: _over(elements, got.get(name)) for name, elements in run.inputs.items()})
        meant = run_bounded(kernel.spec, run, held=want)
        got_at = at_offsets(written)
        got |= {name: _lay_over(got.get(name), (at, got_at(name, at))) for name, (at, _) in meant.items()}
        want |= _join(want, meant)
        if against is not None:
            loose |= _join(loose, run_bounded(kernel.spec, run, is_tight=False, held=loose))
    outputs = [m.name for m in plan.arrays if m.name in want]
    lines = [str(compare_floats(name, *got[name], want[name][1])) for name in outputs]
    if against is not None:
        all_of = {m.name: m.access for m in plan.arrays if m.access != "in"}
        claims = ask_meaning(against, built.spec, values, inputs, (*all_of,))
        for name in (name for name, access in all_of.items() if access == "out"):
            claims.compare_rest(name, got[name][0] if name in got else np.zeros(0, np.int64))
        compared = (claims.compare(name, *got[name], loose[name][1]) for name in outputs)
        lines += [f"against: {one}".replace("float: ", "") for one in compared]
    return lines


def takes_long_together(built: BuiltProgram) -> bool:
    """Whether NumPy needs minutes for what all passes together mean at the defaults."""
    efforts = (count_effort(k.spec, _case_of(k)) * count_ctas(k, _case_of(k)) for k in list_launched(built))
    return sum(efforts) > _MOST_EFFORT


def mean_together(built: BuiltProgram, inputs: Mapping[str, Input], is_tight: bool = True) -> dict[str, Held]:
    """What all passes together mean at the defaults: of each array that they write, offsets and elements with bounds.

    ``inputs``: elements of the caller's arrays, by name. ``is_tight`` as ``run_bounded`` has it.
    """
    held: dict[str, Held] = {}
    for kernel in list_launched(built):
        held |= _join(held, run_bounded(kernel.spec, _plan_run(kernel, inputs), is_tight=is_tight, held=held))
    return held


def _plan_run(kernel: Built, inputs: Mapping[str, Input]) -> FloatRun:
    """Every CTA of a pass over arrays as they are before the first pass: what nobody gave holds poison."""
    exact = {m.name: inputs.get(m.name) or _poison(m) for m in arrays(kernel.plan) if m.access != "out"}
    return FloatRun(_all_ctas(kernel), exact, _case_of(kernel))


def _poison(memory: Memory) -> Input:
    """Elements of an array that nobody has written: the same bytes everywhere."""
    dtype = numpy_dtype(memory.dtype)
    element = np.full(dtype.itemsize, POISON, np.uint8).view(dtype)[0]
    return lambda index: np.full(np.shape(index), element, dtype)


def _over(given: Input, written: tuple[Array, Array] | None) -> Input:
    """Elements of an array with what was written laid over them."""
    if written is None:
        return given
    at, values = written

    def read(index: Array) -> Array:
        near, is_there = find_places(at, index)
        return np.where(is_there, values[near], given(index))

    return read


def _lay_over(before: tuple[Array, Array] | None, new: tuple[Array, Array]) -> tuple[Array, Array]:
    """Sorted offsets and elements, the new ones in the place of those before."""
    if before is None:
        return new
    at = np.union1d(before[0], new[0])
    values = np.empty(len(at), new[1].dtype)
    values[np.searchsorted(at, before[0])] = before[1]
    values[np.searchsorted(at, new[0])] = new[1]
    return at, values


def _join(before: Mapping[str, Held], new: Mapping[str, Held]) -> dict[str, Held]:
    found = {}
    for name, (at, bound) in new.items():
        old = before.get(name)
        where, value = _lay_over(old and (old[0], old[1].value), (at, bound.value))
        error = _lay_over(old and (old[0], old[1].error), (at, bound.error))[1]
        found[name] = where, replace(bound, value=value, error=error)
    return found
