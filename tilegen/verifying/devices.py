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
from tilegen.plan import default_values
from tilegen.plan.contents import has_tables
from tilegen.proofs.against import Meaning, refuse
from tilegen.proofs.composed import find_composed
from tilegen.proofs.fillings import Filling, fill_each
from tilegen.proofs.floats import FloatRun, computes, float_inputs
from tilegen.proofs.nans import NanWatch
from tilegen.proofs.runs import check_run, list_runs
from tilegen.proofs.trips import is_affordable
from tilegen.spec.outline import launch_of
from tilegen.verifying.floats import at_offsets, compare_run, say_lasting_nans
from tilegen.verifying.images import list_ctas
from tilegen.verifying.on_gpu import HERE, carry_out_on_gpu, verify_gpu
from tilegen.verifying.on_ptx import MOST_TOGETHER, carry_out_on_ptx, verify_ptx
from tilegen.verifying.programs import CarryOut, carry_out_in_numpy, verify_program
from tilegen.verifying.verified import Verified, case_text, count, count_inputs, reads_arrays

DEVICES = ("auto", "cpu", "gpu", "ptx")
SEEDS = (1, 2, 3)
_FEW_CTAS = 8  # over drawn contents of tables


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

        def alone(one: Built, own: Sequence[int]) -> Verified:
            """On the CPU, where it has to have what passes before it make: a GPU gets that with all of them."""
            where = "cpu" if find_composed(one.spec) else device
            return verify_built(one, where, own, None, access, processes)

        return verify_program(built, alone, carry_out, seeds, against, MOST_TOGETHER if device == "ptx" else None)
    if device == "gpu":
        return verify_gpu(built, seeds, against, access, processes)
    if device == "ptx":
        return verify_ptx(built, seeds, against)
    return verify_cpu(built, seeds, against)


def verify_cpu(built: Built, seeds: Sequence[int], against: Meaning | None = None) -> Verified:
    """Run the corner CTAs in NumPy for every parameter case and seed. Raises ProofError at the first difference.

    Where the spec computes, the first and the last CTA of the defaults run with floats too, all trips of their loops;
    a few CTAs over drawn contents, where the kernel reads tables.
    """
    seeds = seeds if reads_arrays(built.plan) else seeds[:1]
    filled = [one for one in fill_each(built.spec, built.plan) if one.has_runs]
    lines, watch = list[str](), NanWatch()
    for own in (replace(built, spec=one.spec, plan=one.plan) for one in filled):
        lines += _verify_exactly(own, seeds)
    first = filled[0]
    case = list_runs(first.spec, first.plan)[0].case
    if computes(built.spec) or against is not None:
        lines += _verify_floats_on_cpu(built, first, seeds, against, watch)
    lines, notes = list(dict.fromkeys(lines)), say_lasting_nans(built, case, seeds, watch)
    return Verified(built.plan.name, built.plan.arch, "cpu", tuple(lines), tuple(notes))


def _verify_exactly(built: Built, seeds: Sequence[int]) -> list[str]:
    """The lines of a kernel that reads no tables."""
    lines = []
    inputs = count_inputs(built.plan, seeds)
    for run in list_runs(built.spec, built.plan):
        steps = sum(check_run(built.spec, built.plan, run, seed)[0] for seed in seeds)
        lines.append(f"{case_text(run.case)}{count(len(run.ctas), 'CTA')}, {inputs}, {count(steps, 'step')}")
    return lines


def _verify_floats_on_cpu(
    built: Built, filled: Filling, seeds: Sequence[int], against: Meaning | None, watch: NanWatch
) -> list[str]:
    """``filled``: what says how long runs take of a kernel that reads tables, or the kernel itself."""
    spec, plan, found = built.spec, built.plan, []
    run = list_runs(filled.spec, filled.plan)[0]
    case = {name: run.case[name] for name in default_values(spec.params)}
    ends = corners(launch_of(spec, case).grid)
    ctas = list(dict.fromkeys((ends[0], ends[-1])))
    if has_tables(plan):  # what an end of the grid does, a table says
        every = list_ctas(launch_of(spec, case).grid)
        ctas = [every[k * (len(every) - 1) // _FEW_CTAS] for k in range(min(len(every) - 1, _FEW_CTAS) + 1)]
    trips = ALL_TRIPS if is_affordable(filled.spec, filled.plan, ctas, run.case, ALL_TRIPS) else run.cut.trips
    if trips != ALL_TRIPS and has_tables(plan) and against is None:
        return []
    if against is not None and trips != ALL_TRIPS:
        raise refuse("the loops are too long to run all their trips on the CPU", "set smaller params, or --device gpu")
    for seed in seeds:
        inputs = float_inputs(plan, seed, case, filled.spec)
        outcome = interpret(plan, ctas, inputs, case, trips)
        compared = FloatRun(outcome.ctas, inputs, case, trips)
        found.append(compare_run(built, compared, at_offsets(outcome.written), against, watch))
    return [f"{case_text(case)}{line}" for line in found[-1]]
