"""A kernel compiled for a GPU, run there over whole arrays, and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from tilegen import gpu
from tilegen.arch import ARCHES
from tilegen.dtypes import numpy_dtype
from tilegen.index import evaluate
from tilegen.pipeline import Built
from tilegen.plan import arrays, default_values
from tilegen.proofs.against import Meaning
from tilegen.proofs.floats import computes
from tilegen.proofs.meaning import parameter_cases
from tilegen.proofs.nans import NanWatch
from tilegen.reference import Array, Input
from tilegen.render import launch_info
from tilegen.side_by_side import run_tasks
from tilegen.verifying.floats import draw_image, say_lasting_nans, takes_long, verify_floats_run
from tilegen.verifying.images import Run, verify_run
from tilegen.verifying.verified import Verified, case_text, count_inputs, reads_arrays

HERE = gpu.GpuAccess(lambda arch: gpu.require_gpu(arch), lambda *run: gpu.run_images(*run))  # in this process


def verify_gpu(
    built: Built, seeds: Sequence[int], against: Meaning | None = None, access: gpu.GpuAccess = HERE, processes: int = 1
) -> Verified:  # fmt: skip
    """Run the kernel on the GPU for every parameter case and seed and compare every byte of its arrays.

    Outputs are poisoned before; bytes that the spec does not write must keep their poison. Raises ProofError (TG421)
    with the first bad element in logical and physical terms, EnvironmentLack without a GPU or a compiler.

    Where the spec computes, elements are compared within their bounds (TG427), which are 0 for integers: those of all
    CTAs, or of as many as are affordable, from all over the grid. With an ``access`` that other processes have too,
    runs that take NumPy long are compared in several ``processes``.
    """
    device = access.require(None)
    cubin = compile_for(device, built)
    seeds = seeds if reads_arrays(built.plan) else seeds[:1]
    lines, notes = [], list[str]()
    for case in parameter_cases(built.spec):
        run = partial(access.run, cubin, launch_case(built, case))
        count = processes if takes_long(built, case) else 1
        if computes(built.spec) or against is not None:
            watch = NanWatch()
            tasks = [partial(_watch_floats, built, case, seed, run, against) for seed in seeds]
            compared = run_tasks(tasks, count)
            for _, seen in compared:
                watch.join(seen)
            lines += [f"{case_text(case)}{line}" for line in compared[-1][0]]
            notes += say_lasting_nans(built, case, seeds, watch)
            continue
        elems = run_tasks([partial(verify_run, built, case, seed, run) for seed in seeds], count)[-1]
        inputs = count_inputs(built.plan, seeds)
        lines.append(f"{case_text(case)}{elems} elements written, {inputs}, every byte compared")
    return Verified(built.plan.name, built.plan.arch, device.name, tuple(lines), tuple(notes))


def _watch_floats(
    built: Built, case: Mapping[str, int], seed: int, run: Run, against: Meaning | None
) -> tuple[list[str], NanWatch]:
    watch = NanWatch()
    return verify_floats_run(built, case, seed, run, against, watch), watch


def carry_out_on_gpu(
    access: gpu.GpuAccess, kernel: Built, given: Mapping[str, Input]
) -> dict[str, tuple[Array, Array]]:
    """Every CTA of a kernel on the GPU: all elements of each array that it writes, poison where it wrote nothing."""
    case = default_values(kernel.spec.params)
    memories = {m.name: m for m in arrays(kernel.plan)}
    elems = {name: int(evaluate(m.span, case)) for name, m in memories.items()}
    images = {
        name: draw_image(one, elems[name], numpy_dtype(memories[name].dtype)).view(np.uint8)
        for name, one in given.items()
    }
    sizes = {name: elems[name] * m.elem_bytes for name, m in memories.items() if m.access != "in"}
    raw = access.run(compile_for(access.require(None), kernel), launch_case(kernel, case), images, sizes)
    typed = {name: np.ascontiguousarray(image).view(numpy_dtype(memories[name].dtype)) for name, image in raw.items()}
    return {name: (np.arange(elems[name]), image) for name, image in typed.items()}


def compile_for(device: gpu.Device, built: Built) -> gpu.Cubin:
    """The kernel for a device: code for an older arch is compiled for the device's own, where it may run there.

    Raises EnvironmentLack (TG503) for an arch that the device does not have the features of.
    """
    asked = ARCHES[built.plan.arch]
    major, minor = device.compute_capability
    is_portable = not asked.name.endswith("a") and asked.compute_capability <= device.compute_capability
    arch = f"sm_{major}{minor}" if is_portable else asked.name
    gpu.refuse_arch(device, arch)
    return gpu.compile_cubin(built.source, arch, built.plan.name)


def launch_case(built: Built, case: Mapping[str, int]) -> gpu.GpuLaunch:
    """How the kernel is launched with these parameters."""
    return gpu.read_launch(launch_info(built.plan, dict(case)))
