"""Verifying a build: in NumPy over several inputs, or on a GPU, image against image, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from numbers import Integral

import numpy as np

from tilegen import gpu, layouts
from tilegen.arch import ARCHES
from tilegen.arithmetic.hashes import mix, salt
from tilegen.decisions import count_words
from tilegen.dtypes import bits_dtype, numpy_dtype
from tilegen.errors import Diagnostic, EnvironmentLack, ProofError
from tilegen.index import evaluate
from tilegen.index.recurrences import ALL_TRIPS, Trips
from tilegen.interpret import corners, interpret
from tilegen.ops import OPS
from tilegen.ops.op import MOVES
from tilegen.pipeline import Built, Source, build, load
from tilegen.plan import Memory, Plan, arrays
from tilegen.proofs.against import Meaning, ask_meaning, refuse
from tilegen.proofs.floats import compare_floats, computes, draw_elements, draw_floats, float_inputs, run_bounded
from tilegen.proofs.meaning import exact_limit, input_pattern, parameter_cases
from tilegen.proofs.nans import NanWatch, find_lasting_nans
from tilegen.proofs.runs import ProofRun, check_run, list_runs
from tilegen.proofs.trips import is_affordable
from tilegen.reference import Array, Input, run_batches
from tilegen.render import launch_info
from tilegen.spec.data import Buffer, Spec
from tilegen.spec.outline import launch_of, outline

_BOUNDED_ELEMS = 1 << 22  # elements of outputs whose bounds are computed for one run on a GPU
DEVICES = ("auto", "cpu", "gpu")
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Verified:
    """What was verified, where: one line a parameter case. ``device`` is ``cpu`` or the GPU's name.

    ``notes``: what is right and may not be meant, as elements that are NaN whatever the inputs.
    """

    kernel: str
    arch: str
    device: str
    lines: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        notes = (f"note: {note}" for note in self.notes)
        return "\n  ".join([f"{self.kernel}: verified on {self.device}, {self.arch}", *self.lines, *notes])


def verify(
    spec: Source, device: str = "auto", arch: str | None = None, params: Mapping[str, int | float] | None = None,
    seeds: Sequence[int] = SEEDS, against: Meaning | None = None,
) -> Verified:  # fmt: skip
    """Prove a spec's kernel, then run it over several inputs and compare every byte with what the spec means.

    Takes what ``load`` takes. ``device``: ``cpu`` runs the plan in NumPy, ``gpu`` the kernel, ``auto`` takes the GPU if
    there is one that runs the spec's arch. Each of the ``seeds`` makes other inputs. ``against``: a function of float64
    arrays that says what the kernel means (``proofs.against``), compared within the bounds of the spec's errors.

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


def choose_device(device: str, arch: str) -> tuple[str, str]:
    """gpu or cpu; and where ``auto`` has no GPU for the arch or nothing that compiles, which is cpu then, why."""
    if device != "auto":
        return device, ""
    try:
        gpu.require_gpu(arch)
    except EnvironmentLack as lack:
        return "cpu", lack.diagnostics[0].message
    return ("gpu", "") if gpu.find_compilers() else ("cpu", "neither NVRTC nor nvcc is here")


def reads_arrays(plan: Plan) -> bool:
    """Whether a kernel has inputs: without any, one run shows as much as many, and seeds say nothing."""
    return any(memory.access != "out" for memory in arrays(plan))


def verify_built(built: Built, device: str, seeds: Sequence[int], against: Meaning | None = None) -> Verified:
    """The kernel run on one kind of device, ``cpu`` or ``gpu``. Raises ProofError at the first difference."""
    return verify_gpu(built, seeds, against) if device == "gpu" else verify_cpu(built, seeds, against)


def verify_cpu(built: Built, seeds: Sequence[int], against: Meaning | None = None) -> Verified:
    """Run the corner CTAs in NumPy for every parameter case and seed. Raises ProofError at the first difference.

    Where the spec computes, the first and the last CTA of the defaults run with floats too, all trips of their loops.
    """
    lines = []
    runs = list_runs(built.spec, built.plan)
    seeds = seeds if reads_arrays(built.plan) else seeds[:1]
    inputs = _count_inputs(built.plan, seeds)
    for run in runs:
        steps = sum(check_run(built.spec, built.plan, run, seed)[0] for seed in seeds)
        lines.append(f"{_case_text(run.case)}{_count(len(run.ctas), 'CTA')}, {inputs}, {_count(steps, 'step')}")
    watch = NanWatch()
    if computes(built.spec) or against is not None:
        lines += _verify_floats_on_cpu(built, seeds, against, runs[0], watch)
    notes = say_lasting_nans(built, runs[0].case, seeds, watch)
    return Verified(built.plan.name, built.plan.arch, "cpu", tuple(lines), notes)


def say_lasting_nans(built: Built, case: Mapping[str, int], seeds: Sequence[int], watch: NanWatch) -> tuple[str, ...]:
    """A note for each array some of whose elements are NaN whatever the inputs, with the place of the first."""
    notes = []
    for found in find_lasting_nans(built.spec, built.plan, case, seeds, watch):
        place = f"{found.name}{locate(built.spec.buffer(found.name), found.offset, case)}"
        more = f", and so are {found.elements - 1} more elements of CTA {found.cta}" if found.elements > 1 else ""
        used = f" with {said}" if (said := _case_text(case).strip()) else ""
        notes.append(f"{place} is NaN in each of {found.runs} runs{used}{more}")
    return tuple(notes)


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
        found.append(
            _compare_floats(built, run.case, inputs, outcome.ctas, outcome.written, against, trips, watch=watch)
        )
    return [f"{_case_text(run.case)}{line}" for line in found[-1]]


def _compare_floats(
    built: Built, case: Mapping[str, int], inputs: Mapping[str, Input], ctas: Sequence[tuple[int, int, int]],
    written: Mapping[str, tuple[Array, Array]] | None, against: Meaning | None, trips: Trips = ALL_TRIPS,
    images: Mapping[str, Array] | None = None, watch: NanWatch | None = None,
) -> list[str]:  # fmt: skip
    """What CTAs wrote, as (offsets, elements) or in whole ``images``, against the bounds of what they mean."""
    spec, lines = built.spec, []

    def got_at(name: str, at: Array) -> Array:
        if images is not None:
            return images[name][at]
        assert written is not None
        return written[name][1][np.searchsorted(written[name][0], at)]

    bounds = run_bounded(spec, ctas, inputs, case, trips)
    if watch is not None:
        watch.see(ctas, trips, {name: (at, np.asarray(want.value)) for name, (at, want) in bounds.items()})
    for name, (at, want) in sorted(bounds.items()):
        words = partial(locate, spec.buffer(name), case=case)
        lines.append(str(compare_floats(name, at, got_at(name, at), want, where=words)))
    if against is not None:
        meant = ask_meaning(against, spec, case, inputs, tuple(sorted(bounds)))
        for name, (at, want) in sorted(run_bounded(spec, ctas, inputs, case, trips, is_tight=False).items()):
            found = meant.compare(name, at, got_at(name, at), want)
            lines.append(f"against: {found}".replace("float: ", ""))
    return lines


def verify_gpu(built: Built, seeds: Sequence[int], against: Meaning | None = None) -> Verified:
    """Run the kernel on the GPU for every parameter case and seed and compare every byte of its arrays.

    Outputs are poisoned before; bytes that the spec does not write must keep their poison. Raises ProofError (TG421)
    with the first bad element in logical and physical terms, EnvironmentLack without a GPU or a compiler.

    Where the spec computes, elements are compared within their bounds (TG427), which are 0 for integers: those of all
    CTAs, or of as many as are affordable, from all over the grid.
    """
    device = gpu.require_gpu()
    cubin = compile_for(device, built)
    seeds = seeds if reads_arrays(built.plan) else seeds[:1]
    lines, notes = [], list[str]()
    for case in parameter_cases(built.spec):
        elems, watch = 0, NanWatch()
        how = launch_case(built, case)
        if computes(built.spec) or against is not None:
            for seed in seeds:
                found = verify_floats_run(built, case, seed, partial(gpu.run_images, cubin, how), against, watch)
            lines += [f"{_case_text(case)}{line}" for line in found]
            notes += say_lasting_nans(built, case, seeds, watch)
            continue
        for seed in seeds:
            elems = verify_run(built, case, seed, lambda i, o, how=how: gpu.run_images(cubin, how, i, o))  # type: ignore[misc]
        inputs = _count_inputs(built.plan, seeds)
        lines.append(f"{_case_text(case)}{elems} elements written, {inputs}, every byte compared")
    return Verified(built.plan.name, built.plan.arch, device.name, tuple(lines), tuple(notes))


def _count_inputs(plan: Plan, seeds: Sequence[int]) -> str:
    return _count(len(seeds), "input") if reads_arrays(plan) else "no inputs"


def _count(n: int, what: str) -> str:
    return count_words(n, what, f"{what}s")


def compile_for(device: gpu.Device, built: Built) -> gpu.Cubin:
    """The kernel for a device: code for an older arch is compiled for the device's own, where it may run there.

    Raises EnvironmentLack (TG503) for an arch that the device does not have the features of.
    """
    asked = ARCHES[built.plan.arch]
    major, minor = device.compute_capability
    is_portable = not asked.name.endswith("a") and asked.compute_capability <= device.compute_capability
    arch = f"sm_{major}{minor}" if is_portable else asked.name
    gpu.require_gpu(arch)
    return gpu.compile_cubin(built.source, arch, built.plan.name)


def _case_text(case: Mapping[str, int]) -> str:
    return "".join(f"{name}={value} " for name, value in case.items())


def launch_case(built: Built, case: Mapping[str, int]) -> gpu.GpuLaunch:
    """How the kernel is launched with these parameters."""
    info = launch_info(built.plan, dict(case))
    pointers = tuple(a["name"] for a in info["args"] if a["kind"] == "pointer")
    values = tuple(numpy_dtype(a["dtype"]).type(a["value"]) for a in info["args"] if a["kind"] == "value")
    x, y, z = info["grid"]
    return gpu.GpuLaunch(
        built.plan.name, (x, y, z), tuple(info["block"]), pointers, values, info["dynamic_shared_bytes"],
        built.plan.cluster, tuple(a for a in info["args"] if a["kind"] == "tensor_map"), built.plan.overlaps,
    )  # fmt: skip


Run = Callable[[Mapping[str, gpu.Image], Mapping[str, int]], Mapping[str, gpu.Image]]


def verify_run(built: Built, case: Mapping[str, int], seed: int, run: Run) -> int:
    """Run the kernel in any way and compare every byte; returns how many elements the spec writes.

    ``run(inputs, outputs)`` takes bytes of inputs and sizes of outputs, and returns the bytes of the outputs. Raises
    ProofError (TG421) at the first element that differs.
    """
    memories = {m.name: m for m in arrays(built.plan)}
    images = {name: make_image(built.spec, m, case, seed) for name, m in memories.items()}
    inputs = {n: images[n].view(np.uint8) for n, m in memories.items() if m.access != "out"}
    outputs = {n: images[n].nbytes for n, m in memories.items() if m.access != "in"}
    got = run(inputs, outputs)
    want, elems = reference_images(built.spec, memories, images, case)
    for name in outputs:
        _compare(built.spec, memories[name], want[name], got[name], case)
    return elems


def verify_floats_run(
    built: Built, case: Mapping[str, int], seed: int, run: Run, against: Meaning | None, watch: NanWatch | None = None
) -> list[str]:
    """Run the kernel in any way and compare what it computes within its bounds; the rest of its bytes are untouched."""
    spec, memories = built.spec, {m.name: m for m in arrays(built.plan)}
    inputs = float_inputs(built.plan, seed, case)
    images = {}
    for name, m in memories.items():
        elems, dtype = int(evaluate(m.span, dict(case))), numpy_dtype(m.dtype)
        poison = np.full(elems * dtype.itemsize, gpu.POISON, np.uint8).view(dtype)
        images[name] = poison if m.access == "out" else inputs[name](np.arange(elems))
    given = {n: images[n].view(np.uint8) for n, m in memories.items() if m.access != "out"}
    raw = run(given, {n: images[n].nbytes for n, m in memories.items() if m.access != "in"})
    got = {name: np.ascontiguousarray(image).view(numpy_dtype(memories[name].dtype)) for name, image in raw.items()}
    ctas = spread_ctas(spec, case, sum(image.size for image in got.values()))
    lines = _compare_floats(built, case, inputs, ctas, None, against, images=got, watch=watch)
    total = prod(launch_of(spec, case).grid)
    if len(ctas) == total:
        _check_untouched(built, case, inputs, ctas, images, got)
    return [f"{line} ({_count(len(ctas), 'CTA')} of {total})" for line in lines]


def spread_ctas(spec: Spec, case: Mapping[str, int], elements: int) -> list[tuple[int, int, int]]:
    """CTAs whose bounds are affordable: all, or as many from all over the grid; ``elements`` of all outputs."""
    x, y, z = launch_of(spec, case).grid
    most = max(1, _BOUNDED_ELEMS // max(1, elements // (x * y * z)))
    numbers = np.unique(np.linspace(0, x * y * z - 1, min(most, x * y * z)).astype(np.int64))
    return [(int(n) % x, int(n) // x % y, int(n) // (x * y)) for n in numbers]


def _check_untouched(
    built: Built, case: Mapping[str, int], inputs: Mapping[str, Input], ctas: Sequence[tuple[int, int, int]],
    before: Mapping[str, Array], got: Mapping[str, Array],
) -> None:  # fmt: skip
    """Bytes that no CTA writes are what they were. Raises ProofError TG421."""
    memories = {m.name: m for m in arrays(built.plan)}
    written = run_bounded(built.spec, ctas, inputs, case)
    for name, image in got.items():
        want = image.copy()
        free = np.ones(len(image), bool)
        free[written[name][0]] = False
        want[free] = before[name][free]
        _compare(built.spec, memories[name], want, image.view(np.uint8), case)


def make_image(spec: Spec, memory: Memory, case: Mapping[str, int], seed: int) -> Array:
    """The whole physical image of a global array: random bits, or numbers where the spec converts them, or says which
    there are.

    Half of these are integers, as many as every type of the spec holds, and half floats, which conversions round.
    """
    elems = int(evaluate(memory.span, dict(case)))
    dtype = numpy_dtype(memory.dtype)
    if memory.access == "out":
        return np.full(elems * dtype.itemsize, gpu.POISON, np.uint8).view(dtype)
    if memory.values is not None:
        return draw_elements(memory, case, seed)(np.arange(elems))
    if any(OPS[c.op].exactness_of(c) != MOVES for c in outline(spec).calls):
        index = np.arange(elems)
        whole = input_pattern(memory.name, memory.dtype, seed, exact_limit(spec))(index)
        is_whole = mix(index.astype(np.uint64), salt(f"whole {seed}")) % np.uint64(2) == 0
        return np.where(is_whole, whole, draw_floats(memory.name, memory.dtype, seed)(index))
    rng = np.random.default_rng([seed, *memory.name.encode()])
    raw = rng.integers(0, 2 if memory.dtype == "bool" else 256, elems * dtype.itemsize, np.uint8)
    return raw.view(dtype)


def reference_images(
    spec: Spec, memories: Mapping[str, Memory], images: Mapping[str, Array], case: Mapping[str, int]
) -> tuple[dict[str, Array], int]:
    """The images after the whole grid has run, by the spec's own meaning, and how many elements it wrote."""
    out = {n: images[n].copy() for n, m in memories.items() if m.access != "in"}
    inputs = {n: images[n].__getitem__ for n, m in memories.items() if m.access != "out"}
    x, y, z = launch_of(spec, case).grid
    ctas = [(i, j, k) for k, j, i in product(range(z), range(y), range(x))]
    elems = 0
    for written in run_batches(spec, ctas, inputs, dict(case)):
        for name, writes in written.items():
            raw = out[name].view(bits_dtype(out[name].dtype.itemsize))
            for offsets, values, _ in writes:
                raw[offsets] = values
                elems += offsets.size
    return out, elems


def _compare(spec: Spec, memory: Memory, want: Array, got: Array, case: Mapping[str, int]) -> None:
    size = memory.elem_bytes
    different = (want.view(np.uint8) != got).reshape(-1, size).any(1)
    if not different.any():
        return
    at = int(different.argmax())
    bits = want.view(bits_dtype(size))[at], got.view(bits_dtype(size))[at]
    where = locate(spec.buffer(memory.name), at, case)
    raise ProofError(
        Diagnostic(
            "TG421",
            f"{memory.name}{where} (element offset {at}, byte {at * size}) is {bits[1]!r} on the GPU, not {bits[0]!r};"
            f" {int(different.sum())} of {len(different)} elements differ",
        )
    )


def locate(buffer: Buffer, offset: int, case: Mapping[str, int]) -> str:
    """The logical coordinates that lie at a physical offset, as ``[i, j]``; a note where none does."""
    shape = tuple(int(evaluate(n, dict(case))) for n in buffer.shape)
    layout = layouts.bind(buffer.layout, dict(case))
    rows = max(1, (1 << 22) // max(1, int(np.prod(shape[1:]))))
    for first in range(0, shape[0], rows):
        at = np.indices((min(rows, shape[0] - first), *shape[1:]), sparse=True)
        place = np.asarray(layout.place([at[0] + first, *at[1:]], shape)["m"])
        hit = np.argwhere(np.broadcast_to(place, (min(rows, shape[0] - first), *shape[1:])) == offset)
        if len(hit):
            return str([int(hit[0][0]) + first, *map(int, hit[0][1:])])
    return " between the layout's elements"
