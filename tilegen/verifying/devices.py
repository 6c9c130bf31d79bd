"""Verifying a build: in NumPy over several inputs, or on a GPU, image against image, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral

from tilegen import gpu
from tilegen.errors import EnvironmentLack
from tilegen.index.recurrences import ALL_TRIPS
from tilegen.interpret import corners, interpret
from tilegen.pipeline import Built, BuiltProgram, Source, build, load
from tilegen.proofs.against import Meaning, refuse
from tilegen.proofs.floats import FloatRun, computes, float_inputs
from tilegen.proofs.nans import NanWatch
from tilegen.proofs.runs import ProofRun, check_run, list_runs
from tilegen.proofs.tables import fill_each
from tilegen.proofs.trips import is_affordable
from tilegen.spec.outline import launch_of
from tilegen.verifying.floats import at_offsets, compare_run, say_lasting_nans
from tilegen.verifying.on_gpu import HERE, carry_out_on_gpu, verify_gpu
from tilegen.verifying.on_ptx import carry_out_on_ptx, verify_ptx
from tilegen.verifying.programs import CarryOut, carry_out_in_numpy, verify_program
from tilegen.verifying.verified import Verified, case_text, count, count_inputs, reads_arrays

DEVICES = ("auto", "cpu", "gpu", "ptx")
SEEDS = (1, 2, 3)


def verify(
    spec: Source, device: str = "auto", arch: str | None = None, params: Mapping[str, int | float] | None = None,
    seeds: Sequence[int] = SEEDS, against: Meaning | None = None,
) -> Verified:  # fmt: skip
    """Prove a spec's kernel, then run it over several inputs and compare every byte with what the spec means.

    Takes what ``load`` takes. ``device``: ``cpu`` runs the plan in NumPy, ``gpu`` the kernel, ``ptx`` what a compiler
    makes of it, in NumPy too; ``auto`` takes the GPU if there is one that runs the spec's arch. Each of the ``seeds``
    makes other inputs. ``against``: a function of float64 arrays that says what the kernel means (``proofs.against``),
    compared within the bounds of the spec's errors.

    >>> spec = {"kernel": "move", "threads": 32, "ops": [{"copy": {"scope": "warp", "src": "X", "dst": "Y"}}]}
    >>> spec["buffers"] = {name: {"scope": "global", "dtype": "int8", "shape": [2, 64]} for name in "XY"}
    >>> print(verify(spec, device="cpu", seeds=[7]))
    move: verified on cpu, sm_90
      1 CTA, 1 input, 2 steps

    Raises what ``build`` raises, ProofError at the first difference, EnvironmentLack for ``gpu`` where there is none or
    no compiler, TypeError for seeds that are no integers, ValueError for another device and for seeds that are negative
    or none.
    """
    if device not in DEVICES:
        raise ValueError(f"device is one of {', '.join(DEVICES)}, not {device!r:.40}")
    if not isinstance(seeds, Sequence) or not all(isinstance(seed, Integral) for seed in seeds):
        raise TypeError("seeds is a list of integers")
    if not seeds or min(seeds) < 0:
        raise ValueError("seeds has no seed" if not seeds else f"a seed is at least 0, not {min(seeds)}")
    spec = load(spec, arch, params)
    where, _ = choose_device(device, spec.arch)
    return verify_built(build(spec), where, seeds, against)


def choose_device(device: str, arch: str, access: gpu.GpuAccess = HERE) -> tuple[str, str]:
    """gpu or cpu; and where ``auto`` has no GPU for the arch or nothing that compiles, which is cpu then, why."""
    if device != "auto":
        return device, ""
    try:
        access.require(arch)
    except EnvironmentLack as lack:
        return "cpu", lack.diagnostics[0].message
    return ("gpu", "") if gpu.find_compilers() else ("cpu", "neither NVRTC nor nvcc is here")


def verify_built(
    built: Built | BuiltProgram, device: str, seeds: Sequence[int], against: Meaning | None = None,
    access: gpu.GpuAccess = HERE, processes: int = 1,
) -> Verified:  # fmt: skip
    """The kernel run on one kind of device, ``cpu``, ``gpu`` or ``ptx``. Raises ProofError at the first difference.

    ``access``: where the GPU is. ``processes``: in which runs on it that take NumPy long are compared side by side.
    """
    if isinstance(built, BuiltProgram):
        ways: dict[str, CarryOut] = {"gpu": partial(carry_out_on_gpu, access), "ptx": carry_out_on_ptx}
        carry_out = ways.get(device, carry_out_in_numpy)
        alone = lambda one, own: verify_built(one, device, own, None, access, processes)  # noqa: E731
        return verify_program(built, alone, carry_out, seeds, against)
    if device == "gpu":
        return verify_gpu(built, seeds, against, access, processes)
    if device == "ptx":
        return verify_ptx(built, seeds, against)
    return verify_cpu(built, seeds, against)


def verify_cpu(built: Built, seeds: Sequence[int], against: Meaning | None = None) -> Verified:
    """Run the corner CTAs in NumPy for every parameter case and seed. Raises ProofError at the first difference.

    Where the spec computes, the first and the last CTA of the defaults run with floats too, all trips of their loops.
    """
    seeds = seeds if reads_arrays(built.plan) else seeds[:1]
    found = [
        _verify_filled(replace(built, spec=s, plan=p), seeds, against) for s, p in fill_each(built.spec, built.plan)
    ]
    lines, notes = (tuple(dict.fromkeys(x for own in parts for x in own)) for parts in zip(*found, strict=True))
    return Verified(built.plan.name, built.plan.arch, "cpu", lines, notes)


def _verify_filled(
    built: Built, seeds: Sequence[int], against: Meaning | None
) -> tuple[Sequence[str], Sequence[str]]:  # fmt: skip
    """The lines and notes of a kernel that reads no tables."""
    lines = []
    runs = list_runs(built.spec, built.plan)
    inputs = count_inputs(built.plan, seeds)
    for run in runs:
        steps = sum(check_run(built.spec, built.plan, run, seed)[0] for seed in seeds)
        lines.append(f"{case_text(run.case)}{count(len(run.ctas), 'CTA')}, {inputs}, {count(steps, 'step')}")
    watch = NanWatch()
    if computes(built.spec) or against is not None:
        lines += _verify_floats_on_cpu(built, seeds, against, runs[0], watch)
    return lines, say_lasting_nans(built, runs[0].case, seeds, watch)


def _verify_floats_on_cpu(
    built: Built, seeds: Sequence[int], against: Meaning | None, run: ProofRun, watch: NanWatch
) -> list[str]:
    spec, plan, found = built.spec, built.plan, []
    ends = corners(launch_of(spec, run.case).grid)
    ctas = list(dict.fromkeys((ends[0], ends[-1])))
    trips = ALL_TRIPS if is_affordable(spec, plan, ctas, run.case, ALL_TRIPS) else run.cut.trips
    if against is not None and trips != ALL_TRIPS:
        raise refuse("the loops are too long to run all their trips on the CPU", "set smaller params, or --device gpu")
    for seed in seeds:
        inputs = float_inputs(plan, seed, run.case)
        outcome = interpret(plan, ctas, inputs, run.case, trips)
        compared = FloatRun(outcome.ctas, inputs, run.case, trips)
        found.append(compare_run(built, compared, at_offsets(outcome.written), against, watch))
    return [f"{case_text(run.case)}{line}" for line in found[-1]]
