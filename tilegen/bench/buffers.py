"""The buffers that a kernel and its peers share: sets of them, filled with random bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilegen import gpu
from tilegen.arithmetic.formats import FLOAT_FORMATS
from tilegen.bench.meaning import Task, derive_meaning
from tilegen.bench.measuring import Candidate, Rotation, Session, plan_rotation
from tilegen.bench.products import Product
from tilegen.dtypes import DTYPES
from tilegen.pipeline import Built
from tilegen.plan import Memory, arrays
from tilegen.proofs.floats import computes, draw_elements
from tilegen.render import launch_info
from tilegen.verifying import compile_for, launch_case

SEEDS = 32  # of a set: its arrays are not drawn alike
Images = Mapping[str, Any]  # the bytes of every argument, by name


def moved_bytes(built: Built, case: Mapping[str, int]) -> int:
    """Bytes of the arrays: those read, and those written; one that is both counts twice."""
    sizes = argument_bytes(built, case)
    return sum(sizes[m.name] * (2 if m.access == "inout" else 1) for m in arrays(built.plan))


def argument_bytes(built: Built, case: Mapping[str, int]) -> dict[str, int]:
    """Bytes behind each pointer, by name."""
    return {a["name"]: a["bytes"] for a in launch_info(built.plan, dict(case))["args"] if a["kind"] == "pointer"}


def lay_out(session: Session, built: Built, case: Mapping[str, int], seed: int) -> tuple[Task, list[Images], Rotation]:
    """Sets of buffers and the task that they are for: filled with random normal elements where a spec computes or
    multiplies, else with random bits.
    """
    gpu.free_memory()
    sizes, moved = argument_bytes(built, case), moved_bytes(built, case)
    rotation = plan_rotation(moved, session.device.l2_bytes, session.device.memory_bytes)
    memories = {m.name: m for m in arrays(built.plan)}
    meaning = derive_meaning(built.spec, case)
    make = _draw_image if isinstance(meaning, Product) or computes(built.spec) else _make_image
    sets: list[Images] = [
        {name: make(session, memories[name], case, size, SEEDS * (seed + k) + number)
         for number, (name, size) in enumerate(sizes.items())}
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
    image = gpu.allocate_bytes(size)
    gpu.fill_normal(session.watch.instruments, image, memory.dtype, seed)
    return image


def load_kernel(session: Session, built: Built, case: Mapping[str, int], sets: Sequence[Images]) -> Candidate:
    """The kernel, compiled for the device: it works on one set. Raises EnvironmentLack, CompileError."""
    how = launch_case(built, case)
    function = gpu.load_function(compile_for(session.device, built), how)
    starts = [
        gpu.bind_launch(function, how, gpu.arguments_of(how, [images[name] for name in how.arguments]))
        for images in sets
    ]
    return lambda k: starts[k % len(starts)]()
