"""The buffers that a kernel and its peers share: sets of them, filled with random bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilegen import gpu
from tilegen.bench.meaning import Task, derive_meaning
from tilegen.bench.measuring import Candidate, Rotation, Session, plan_rotation
from tilegen.pipeline import Built
from tilegen.plan import Memory, arrays
from tilegen.render import launch_info
from tilegen.verifying import compile_for, launch_case

Images = Mapping[str, Any]  # the bytes of every argument, by name


def moved_bytes(built: Built, case: Mapping[str, int]) -> int:
    """Bytes of the arrays: those read, and those written; one that is both counts twice."""
    sizes = argument_bytes(built, case)
    return sum(sizes[m.name] * (2 if m.access == "inout" else 1) for m in arrays(built.plan))


def argument_bytes(built: Built, case: Mapping[str, int]) -> dict[str, int]:
    """Bytes behind each pointer, by name."""
    return {a["name"]: a["bytes"] for a in launch_info(built.plan, dict(case))["args"] if a["kind"] == "pointer"}


def lay_out(session: Session, built: Built, case: Mapping[str, int], seed: int) -> tuple[Task, list[Images], Rotation]:
    """Sets of buffers, filled with random bits, and the task that they are for."""
    gpu.free_memory()
    sizes, moved = argument_bytes(built, case), moved_bytes(built, case)
    rotation = plan_rotation(moved, session.device.l2_bytes, session.device.memory_bytes)
    memories = {m.name: m for m in arrays(built.plan)}
    sets: list[Images] = [
        {name: _make_image(session, memories[name], size, seed + k) for name, size in sizes.items()}
        for k in range(rotation.sets)
    ]
    half = max(1, moved // 2)
    copies = tuple((gpu.allocate_bytes(half), gpu.allocate_bytes(half)) for _ in range(rotation.sets))
    for source, _ in copies:
        gpu.fill_random(session.watch.instruments, source, seed)
    meaning = derive_meaning(built.spec, case)
    pairs = () if isinstance(meaning, str) else tuple((s[meaning.source], s[meaning.target]) for s in sets)
    return Task(meaning, pairs, copies, session.watch), sets, rotation


def _make_image(session: Session, memory: Memory, size: int, seed: int) -> Any:
    image = gpu.allocate_bytes(size)
    gpu.fill_random(session.watch.instruments, image, seed, 1 if memory.dtype == "bool" else 0xFF)
    return image


def load_kernel(session: Session, built: Built, case: Mapping[str, int], sets: Sequence[Images]) -> Candidate:
    """The kernel, compiled for the device: it works on one set. Raises EnvironmentLack, CompileError."""
    how = launch_case(built, case)
    function = gpu.load_function(compile_for(session.device, built), how)
    arguments = [gpu.arguments_of(how, [images[name] for name in how.arguments]) for images in sets]

    def run(k: int) -> None:
        function(how.grid, how.block, arguments[k % len(arguments)], shared_mem=how.shared_bytes)

    return run
