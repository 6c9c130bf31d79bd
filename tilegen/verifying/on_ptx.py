"""Verifying a build by its PTX: what the compiler makes of the text runs on a machine in NumPy, without a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np

from tilegen import gpu
from tilegen.decisions import printable
from tilegen.dtypes import numpy_dtype
from tilegen.errors import Diagnostic, Mark, ProofError
from tilegen.index import evaluate
from tilegen.interpret import corners
from tilegen.pipeline import Built
from tilegen.plan import Param, arrays, default_values
from tilegen.proofs.against import Meaning
from tilegen.proofs.floats import FloatRun, computes, float_inputs, run_bounded
from tilegen.proofs.meaning import parameter_cases
from tilegen.proofs.nans import NanWatch
from tilegen.ptx import KernelText, Launch, PtxFault, list_members, parse_kernel, read_launch, run_kernel
from tilegen.reference import Array, Input, run_reference
from tilegen.render import launch_info
from tilegen.spec.outline import is_possible, launch_of, outline
from tilegen.verifying.floats import compare_run, count_effort, draw_image, say_lasting_nans
from tilegen.verifying.images import compare_images, list_ctas, make_image
from tilegen.verifying.verified import Verified, case_text, count, reads_arrays

Cta = tuple[int, int, int]
CODE = "TG494"
_MOST_WORK = 1 << 22  # elements, as count_work has them: seconds
MOST_TOGETHER = 1 << 26  # threads that carry out steps, of a pass that runs whole: half a minute
_DRAWN = 1  # CTAs between the first and the last


def verify_ptx(built: Built, seeds: Sequence[int], against: Meaning | None = None, text: str | None = None) -> Verified:
    """Compile the kernel to PTX and run its first, its last and a drawn CTA for every parameter case.

    Each case takes the next of the ``seeds``. Elements are compared within their bounds (TG427), which are 0 for
    integers, or bit for bit where the spec only moves (TG421); all other bytes must stay. ``text``: other CUDA text in
    the place of the kernel's own. Raises ProofError TG494 for what PTX forbids, EnvironmentLack without a compiler.
    """
    source = built.source if text is None else text
    kernel = _compile(source, built.plan.arch, built.plan.name)
    return verify_kernel_text(built, kernel, source, seeds, against)


def verify_kernel_text(
    built: Built, kernel: KernelText, source: str, seeds: Sequence[int], against: Meaning | None = None
) -> Verified:
    """The same of a kernel that is parsed; ``source`` is the CUDA text that its lines are of."""
    seeds = seeds if reads_arrays(built.plan) else seeds[:1]
    lines, notes = [], list[str]()
    for k, case in enumerate(list_small_cases(built)):
        ctas = choose_ptx_ctas(launch_of(built.spec, case).grid, built.plan.cluster, k)
        run, watch = _Run(case, seeds[k % len(seeds)], tuple(ctas)), NanWatch()
        try:
            found, steps = _run_case(built, kernel, run, against, watch)
        except PtxFault as fault:
            raise ProofError(_describe(built, source, fault)) from None
        what = f"{count(len(ctas), 'CTA')}, {count(steps, 'instruction')}"
        lines += [f"{case_text(case)}{line} ({what})" for line in found]
        if computes(built.spec) or against is not None:
            notes += say_lasting_nans(built, case, seeds[:1], watch)
    return Verified(built.plan.name, built.plan.arch, "ptx", tuple(lines), tuple(dict.fromkeys(notes)))


@cache
def _compile(source: str, arch: str, name: str) -> KernelText:
    return parse_kernel(gpu.print_ptx(source, arch, name), name)


def list_small_cases(built: Built) -> list[dict[str, int]]:
    """The parameter cases of the proofs, those of many elements shrunk by halves as far as they take seconds."""
    found = []
    for case in parameter_cases(built.spec):
        while count_work(built, case) > _MOST_WORK:
            halved = {p.name: _halve(p, case[p.name]) for p in built.spec.params if p.name in case}
            if halved == case or not is_possible(built.spec, {**case, **halved}):
                break
            case = {**case, **halved}
        if case not in found:
            found.append(case)
    return found


def _halve(param: Param, value: int) -> int:
    if param.var is None or param.launched is not None:
        return value
    step = param.var.step
    return max(param.var.least, step, value // 2 // step * step)


def count_work(built: Built, case: Mapping[str, int]) -> int:
    """Elements that the ops of the CTAs which run touch, and of all arrays."""
    total = sum(int(evaluate(m.span, dict(case))) for m in arrays(built.plan))
    return count_effort(built.spec, case) * 3 * prod(built.plan.cluster) + total // 4


def choose_ptx_ctas(grid: Cta, cluster: Cta, seed: int) -> list[Cta]:
    """The first CTA, the last, and a drawn one, with all of their clusters.

    >>> choose_ptx_ctas((4, 1, 1), (2, 1, 1), 0)
    [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)]
    """
    rng = np.random.default_rng(seed)
    drawn = [tuple(int(rng.integers(n)) for n in grid) for _ in range(_DRAWN)]
    ends = corners(grid)
    clusters = dict.fromkeys(
        tuple(c // s for c, s in zip(cta, cluster, strict=True)) for cta in (ends[0], ends[-1], *drawn)
    )
    return [cta for one in clusters for cta in list_members(one, cluster)]


def describe_launch(built: Built, case: Mapping[str, int]) -> Launch:
    """How the kernel is launched with these parameters, as the machine takes it."""
    return read_launch(launch_info(built.plan, dict(case)))


@dataclass(frozen=True)
class _Run:
    """Values of the parameters, the seed of the inputs, and the CTAs that run."""

    case: Mapping[str, int]
    seed: int
    ctas: tuple[Cta, ...]


def _run_case(
    built: Built, kernel: KernelText, run: _Run, against: Meaning | None, watch: NanWatch
) -> tuple[list[str], int]:  # fmt: skip
    """What was compared, in lines, and how many instructions ran. Raises PtxFault, or ProofError where bytes differ."""
    case, seed, ctas = run.case, run.seed, run.ctas
    memories = {m.name: m for m in arrays(built.plan)}
    is_float = computes(built.spec) or against is not None
    inputs = float_inputs(built.plan, seed, case, built.spec)
    images: dict[str, Array] = {}
    for name, m in memories.items():
        if is_float and m.access != "out":
            images[name] = draw_image(inputs[name], int(evaluate(m.span, dict(case))), numpy_dtype(m.dtype))
        else:
            images[name] = make_image(built.spec, m, case, seed)
    writable = [name for name, m in memories.items() if m.access != "in"]
    raw = {name: image.view(np.uint8) for name, image in images.items()}
    ran = run_kernel(kernel, describe_launch(built, case), raw, writable, ctas)
    got = {name: ran.images[name].view(numpy_dtype(memories[name].dtype)) for name in writable}
    want = {name: images[name].copy() for name in writable}
    if is_float:
        compared = FloatRun(ctas, inputs, case)
        lines = compare_run(built, compared, lambda name, at: got[name][at], against, watch)
        for name, (at, _) in run_bounded(built.spec, compared).items():
            want[name][at] = got[name][at]
    else:
        given = {name: images[name].__getitem__ for name, m in memories.items() if m.access != "out"}
        elems = 0
        for name, (at, bits) in run_reference(built.spec, ctas, given, dict(case)).items():
            want[name].view(bits.dtype)[at] = bits
            elems += len(at)
        lines = [f"{elems} elements written, every byte compared"]
    for name in writable:
        compare_images(built.spec, memories[name], want[name], ran.images[name], case, "in the compiled PTX")
    return lines, ran.steps


def carry_out_on_ptx(kernel: Built, given: Mapping[str, Input]) -> dict[str, tuple[Array, Array]]:
    """Every CTA of a kernel, by its PTX: all elements of each array that it writes, poison where it wrote nothing."""
    case = default_values(kernel.spec.params)
    memories = {m.name: m for m in arrays(kernel.plan)}
    images = {}
    for name, m in memories.items():
        elems, dtype = int(evaluate(m.span, case)), numpy_dtype(m.dtype)
        poison = np.full(elems * m.elem_bytes, gpu.POISON, np.uint8)
        images[name] = draw_image(given[name], elems, dtype).view(np.uint8) if name in given else poison
    writable = [name for name, m in memories.items() if m.access != "in"]
    text = _compile(kernel.source, kernel.plan.arch, kernel.plan.name)
    ctas = list_ctas(launch_of(kernel.spec, case).grid)
    try:
        ran = run_kernel(text, describe_launch(kernel, case), images, writable, ctas)
    except PtxFault as fault:
        raise ProofError(_describe(kernel, kernel.source, fault)) from None
    found = {name: ran.images[name].view(numpy_dtype(memories[name].dtype)) for name in writable}
    return {name: (np.arange(len(image)), image) for name, image in found.items()}


def _describe(built: Built, source: str, fault: PtxFault) -> Diagnostic:
    """The fault with the op of the spec that its CUDA line belongs to, and the op's line."""
    text = source.splitlines()
    at = find_op(built, text, fault.instruction.lines)
    words = [f"{fault.message}: PTX line {fault.instruction.line}, {str(fault.instruction)[:160]}"]
    if fault.instruction.lines:
        words.append(f"CUDA line {fault.instruction.lines[-1]}: {text[fault.instruction.lines[-1] - 1].strip()[:120]}")
    if fault.earlier is not None:
        other = find_op(built, text, fault.earlier.lines)
        said = f", of {other[0]}" if other else ""
        words.append(f"the other one: PTX line {fault.earlier.line}, {str(fault.earlier)[:160]}{said}")
    if at is not None:
        words.append(f"it belongs to {at[0]}")
    return Diagnostic(CODE, "; ".join(words), at[1] if at is not None else None)


def find_op(built: Built, text: Sequence[str], lines: Sequence[int]) -> tuple[str, Mark | None] | None:
    """The op whose comment stands at one of these lines of the CUDA text, or right above: its words, and its place."""
    calls = outline(built.spec).calls
    marks = [call.mark for call in calls]
    said = {" ".join(printable(op.text).split()): k for k, op in enumerate(built.plan.operations)}
    for line in reversed(lines):
        for near in range(line, max(0, line - 3), -1):
            comment = " ".join(text[near - 1].partition("// ")[2].split())
            if comment in said:
                k = said[comment]
                return comment, marks[k] if len(marks) == len(built.plan.operations) else None
    return None
