"""The buffers that a kernel and its peers share: sets of them, filled with random bits; and launches over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilegen import gpu
from tilegen.arithmetic.formats import FLOAT_FORMATS
from tilegen.bench.meaning import Task, derive_meaning
from tilegen.bench.measuring import Candidate, Rotation, Session, plan_rotation
from tilegen.bench.products import Product
from tilegen.dtypes import DTYPES, FACTOR
from tilegen.index import evaluate
from tilegen.pipeline import Built, BuiltProgram, kernels_of, list_launched
from tilegen.plan import Memory, arrays, default_values
from tilegen.proofs.floats import computes, draw_elements
from tilegen.render.programs import program_info
from tilegen.verifying import compile_for, launch_case

SEEDS = 32  # of a set: its arrays are not drawn alike
Images = Mapping[str, Any]  # the bytes of every array, by name; of a program those of workspaces too


def list_arrays(built: Built | BuiltProgram) -> tuple[Memory, ...]:
    """The caller's arrays, in order."""
    return built.plan.arrays if isinstance(built, BuiltProgram) else arrays(built.plan)


def moved_bytes(built: Built | BuiltProgram, case: Mapping[str, int]) -> int:
    """Bytes of the caller's arrays: those read, and those written; one that is both counts twice.

    However many passes touch an array, its bytes count once. What passes write and read of a workspace does not count.
    """
    sizes = argument_bytes(built, case)
    return sum(sizes[m.name] * (2 if m.access == "inout" else 1) for m in list_arrays(built))


def argument_bytes(built: Built | BuiltProgram, case: Mapping[str, int]) -> dict[str, int]:
    """Bytes of each of the caller's arrays, by name."""
    values = default_values(built.spec.params) | dict(case)
    return {m.name: int(evaluate(m.span, values)) * m.elem_bytes for m in list_arrays(built)}


def workspace_bytes(built: Built | BuiltProgram, case: Mapping[str, int]) -> int:
    """Bytes of workspace that a launch takes; 0 for a kernel alone."""
    return int(program_info(built.plan, case)["workspace_bytes"]) if isinstance(built, BuiltProgram) else 0


def lay_out(
    session: Session, built: Built | BuiltProgram, case: Mapping[str, int], seed: int
) -> tuple[Task, list[Images], Rotation]:
    """Sets of buffers and the task that they are for: filled with random normal elements where a spec computes or
    multiplies, else with random bits. Each set has a workspace of its own.
    """
    gpu.free_memory()
    sizes, moved = argument_bytes(built, case), moved_bytes(built, case)
    device = session.device
    rotation = plan_rotation(moved, device.l2_bytes, device.memory_bytes, workspace_bytes(built, case))
    memories = {m.name: m for m in list_arrays(built)}
    meaning = derive_meaning(built.spec, case)
    is_normal = isinstance(meaning, Product) or any(computes(one.spec) for one in kernels_of(built))
    make = _draw_image if is_normal else _make_image
    sets: list[Images] = [
        {name: make(session, memories[name], case, size, SEEDS * (seed + k) + number)
         for number, (name, size) in enumerate(sizes.items())} | _make_workspaces(built, case)
        for k in range(rotation.sets)
    ]  # fmt: skip
    if isinstance(meaning, Product):
        return Task(meaning, (), (), session.watch, tuple(sets)), sets, rotation
    half = max(1, moved // 2)
    copies = tuple((gpu.allocate_bytes(half), gpu.allocate_bytes(half)) for _ in range(rotation.sets))
    for source, _ in copies:
        gpu.fill_random(session.watch.instruments, source, seed)
    pairs = () if isinstance(meaning, str) else tuple((s[meaning.source], s[meaning.target]) for s in sets)
    return Task(meaning, pairs, copies, session.watch, tuple(sets)), sets, rotation


def give_workspaces(built: Built | BuiltProgram, case: Mapping[str, int], sets: Sequence[Images]) -> list[Images]:
    """The arrays of each set, with workspaces of this program's own in the place of others."""
    names = argument_bytes(built, case)
    return [{name: images[name] for name in names} | _make_workspaces(built, case) for images in sets]


def _make_workspaces(built: Built | BuiltProgram, case: Mapping[str, int]) -> dict[str, Any]:
    """Workspaces by name, all in one piece of memory, as a launch is given them: they hold poison."""
    size = workspace_bytes(built, case)
    if not size or isinstance(built, Built):
        return {}
    whole = gpu.allocate_bytes(size)
    gpu.fill_bytes(whole, gpu.POISON)
    places = program_info(built.plan, case)["workspaces"]
    return {w["name"]: whole[w["offset"] : w["offset"] + w["bytes"]] for w in places}


def _make_image(session: Session, memory: Memory, case: Mapping[str, int], size: int, seed: int) -> Any:
    """Random bits, or elements of the values that the spec promises."""
    if memory.values is not None:
        return gpu.upload_bytes(draw_elements(memory, case, seed)(np.arange(size // memory.elem_bytes)))
    image = gpu.allocate_bytes(size)
    gpu.fill_random(session.watch.instruments, image, seed, 1 if memory.dtype == "bool" else 0xFF)
    return image


def _draw_image(session: Session, memory: Memory, case: Mapping[str, int], size: int, seed: int) -> Any:
    """Random normal elements; of types that have none, or with values that are promised, as ``_make_image``."""
    is_normal = memory.dtype in FLOAT_FORMATS or DTYPES[memory.dtype].kind == "int"
    if not is_normal or memory.values is not None:
        return _make_image(session, memory, case, size, seed)
    if memory.dtype == FACTOR:
        return gpu.upload_bytes(draw_elements(memory, case, seed)(np.arange(size)))
    image = gpu.allocate_bytes(size)
    gpu.fill_normal(session.watch.instruments, image, memory.dtype, seed)
    return image


def load_kernel(
    session: Session, built: Built | BuiltProgram, case: Mapping[str, int], sets: Sequence[Images]
) -> Candidate:
    """The kernel, or all passes in a row, compiled for the device: one call works on one set.

    Raises EnvironmentLack, CompileError.
    """
    return join_passes(load_passes(session, built, case, sets))


def join_passes(passes: Sequence[Candidate]) -> Candidate:
    """All passes one after another on the stream, as one launch of a program runs them."""
    if len(passes) == 1:
        return passes[0]

    def launch(k: int) -> None:
        for one in passes:
            one(k)

    return launch


def load_passes(
    session: Session, built: Built | BuiltProgram, case: Mapping[str, int], sets: Sequence[Images]
) -> tuple[Candidate, ...]:
    """The kernel, or each pass that a launch with the default parameters runs. Raises EnvironmentLack, CompileError."""
    return tuple(_load_pass(session, one, case, sets) for one in list_launched(built))


def _load_pass(session: Session, built: Built, case: Mapping[str, int], sets: Sequence[Images]) -> Candidate:
    how = launch_case(built, case)
    function = gpu.load_function(compile_for(session.device, built), how)
    starts = [
        gpu.bind_launch(function, how, gpu.arguments_of(how, [images[name] for name in how.arguments]))
        for images in sets
    ]
    return lambda k: starts[k % len(starts)]()
