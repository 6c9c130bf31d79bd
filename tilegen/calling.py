"""A spec as a Python function: built, proved, compiled for a GPU, and called with arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from tilegen import layouts
from tilegen.arch import ARCHES
from tilegen.errors import CallError, Diagnostic, EnvironmentLack
from tilegen.gpu import compile_cubin, encode_tensor_maps
from tilegen.gpu.call import (
    ArrayArgument,
    Kernel,
    KernelSignature,
    PassTerms,
    ProgramKernel,
    ProgramSignature,
    PromiseChecks,
)
from tilegen.gpu.call.signature import EncodeMaps
from tilegen.gpu.device import runs_cubin
from tilegen.gpu.driver import Driver, load_driver
from tilegen.index import Index
from tilegen.ops.operand import dimension_iters
from tilegen.pipeline import Built, BuiltProgram, Source, build, load
from tilegen.plan import Memory, Plan, ProgramPlan, arguments, arrays, list_checks, tensor_maps
from tilegen.render.checks import render_checks
from tilegen.render.launch import launch_info, plan_shared
from tilegen.render.programs import workspace_bytes
from tilegen.spec.data import Buffer, Spec
from tilegen.spec.outline import declared_buffers
from tilegen.spec.program import Program
from tilegen.tuned import find_tuned

_KEPT_SIZES = 64  # sets of runtime parameters whose descriptors' extents are kept


def compile(
    spec: Source, arch: str | None = None, params: Mapping[str, int | float] | None = None, *,
    check_values: bool = False, tuned: str | Path | None = None,
) -> Kernel:  # fmt: skip
    """The kernel of a spec as a function of arrays: ``compile("specs/transpose_tile.yaml")(x, y)``.

    Takes what ``load`` takes; ``arch`` is by default the current GPU's. The kernel is proved as ``build`` proves it,
    and its cubin is kept on disk. Of a spec with passes, one call launches all of them. Raises what ``build`` raises,
    and EnvironmentLack without a compiler, or, if ``arch`` is not given, without a GPU. ``tilegen.gpu.CompileError``: a
    compiler refused the kernel, a bug of tilegen.

    ``check_values``: each call first looks on the device at what the spec promises of its arrays (``values``,
    ``distinct``, ``offsets``) and waits for that. A call that breaks a promise then ends with CallError TG716, which
    names the element, and launches nothing.

    ``tuned``: a file that `tilegen tune` wrote. The best of its results for this GPU is taken, for the spec's own arch
    where ``arch`` is not given; InputError TG614 where there is none.
    """
    if tuned is not None:
        spec = load(find_tuned(spec, tuned, arch, params).source)
        arch = spec.arch
    else:
        spec = load(spec, arch, params)
    if arch is None:
        found = device_arch(spec.arch)
        spec = spec if found == spec.arch else load(spec, found)
    return kernel_of(build(spec), check_values)


def kernel_of(built: Built | BuiltProgram, check_values: bool = False) -> Kernel:
    """A built kernel, compiled; of a program, one function that launches its kernels."""
    kernel: Kernel
    if isinstance(built, BuiltProgram):
        kernel = ProgramKernel(program_terms(built), [kernel_of(one) for one in built.passes], built.source)
    else:
        cubin = compile_cubin(built.source, built.plan.arch, built.plan.name)
        kernel = Kernel(terms_of(built.spec, built.plan), cubin, built.source)
    kernel.promises = promises_of(built)
    kernel.check_values = check_values
    if check_values and kernel.promises is not None:
        _ = kernel.promises.cubin  # what a compiler says of it is said here, not in the first call
    return kernel


def promises_of(built: Built | BuiltProgram, driver: Callable[[], Driver] = load_driver) -> PromiseChecks | None:
    """What looks at the promises of a kernel's caller; None where there are none."""
    checks = list_checks(built.plan)
    if not checks:
        return None
    return PromiseChecks(checks, lambda: compile_cubin(render_checks(checks), built.plan.arch, checks[0].name), driver)


def device_arch(asked: str) -> str:
    """The arch to build for on the current GPU: the one asked for if it is the GPU's own, else its own.

    Raises EnvironmentLack: TG502 without a GPU, TG503 if tilegen knows no arch that the GPU runs.
    """
    driver = load_driver()
    capability = driver.compute_capability(driver.current_device())
    return choose_arch(asked, capability)


def choose_arch(asked: str, capability: tuple[int, int]) -> str:
    """The newest arch that a GPU runs; the one asked for where that is as new.

    >>> choose_arch("sm_90a", (9, 0)), choose_arch("sm_80", (9, 0)), choose_arch("sm_90", (8, 9))
    ('sm_90a', 'sm_90', 'sm_89')
    """
    runs = [name for name in ARCHES if runs_cubin(capability, name)]
    if not runs:
        has = "sm_{}{}".format(*capability)
        raise EnvironmentLack(Diagnostic("TG503", f"this GPU is {has}, which tilegen does not build for"))
    newest = max(ARCHES[name].compute_capability for name in runs)
    if asked in runs and ARCHES[asked].compute_capability == newest:
        return asked
    return next(n for n in runs if ARCHES[n].compute_capability == newest and not n.endswith("a"))


# ---------------------------------------------------------------- what the kernel asks of a call
def terms_of(spec: Spec | Program, plan: Plan | ProgramPlan) -> KernelSignature:
    """The terms of a kernel, from what the spec says of its buffers and the plan of its launch.

    Those of a program have its arrays and parameters; what its kernels are launched with, ``program_terms`` says.
    """
    declared = declared_buffers(spec)
    if isinstance(plan, ProgramPlan):
        given = tuple(_argument(m, declared[m.name]) for m in plan.arrays)
        return KernelSignature(plan.name, plan.arch, given, arguments(plan.params), (1, 1, 1), (1, 1, 1), 1, 0)
    shared = plan_shared(plan)
    return KernelSignature(
        plan.name, plan.arch, tuple(_argument(m, declared[m.name]) for m in arrays(plan)),
        arguments(plan.params), plan.launched_grid, plan.cluster, plan.threads, shared.bytes if shared.dynamic else 0,
        len(tensor_maps(plan)), _encoder_of(plan) if tensor_maps(plan) else None,
        plan.overlaps,
    )  # fmt: skip


def program_terms(built: BuiltProgram) -> ProgramSignature:
    """The terms of a program: its arrays and parameters together, and what each kernel is launched with."""
    plan, passes = built.plan, tuple(PassTerms(one.name, one.when) for one in built.plan.passes)
    workspaces = tuple((m.name, workspace_bytes(m)) for m in plan.workspaces)
    return ProgramSignature(terms_of(built.spec, plan), passes, workspaces, plan.counts)


def _argument(m: Memory, b: Buffer) -> ArrayArgument:
    return ArrayArgument(
        m.name,
        m.dtype,
        m.access,
        m.align_bytes,
        b.shape,
        strides_of(b),
        m.span,
        b.layout_text,
        b.mark,
        b.values.promise if b.values else "",
    )


def _encoder_of(plan: Plan) -> EncodeMaps:
    """What makes the descriptors that TMA reads, 128 bytes each, of the arrays' addresses and the runtime parameters.

    It raises EnvironmentLack (TG504) where no driver can encode them, CallError (TG491) where it refuses to.
    """
    names = [m.name for m in arrays(plan)]
    info_of = lru_cache(_KEPT_SIZES)(lambda values: launch_info(plan, dict(values)))

    def encode(pointers: Sequence[int], values: Mapping[str, int | float]) -> list[bytes]:
        places = dict(zip(names, pointers, strict=True))
        try:
            maps = encode_tensor_maps(info_of(tuple(values.items())), places)
        except ValueError as error:
            raise CallError(Diagnostic("TG491", f"CUDA encodes no descriptor for {plan.name}: {error}")) from None
        return [image.tobytes() for image in maps]

    return encode


def strides_of(buffer: Buffer) -> tuple[Index, ...] | None:
    """Elements from one index of each dimension to the next; None where a dimension is not evenly spaced.

    >>> strides_of(Buffer("X", "global", "float32", (8, 4), layouts.parse("S[(8,4):(1,8)]"), "X"))
    (1, 8)
    >>> strides_of(Buffer("X", "global", "float32", (8, 4), layouts.parse("S[(2,4,4):(16,1,4)]"), "X")) is None
    True
    """
    iters = dimension_iters(buffer)
    if layouts.tile_of(buffer.layout).offset or any(len(dimension) > 1 for dimension in iters):
        return None
    return tuple(dimension[0].stride for dimension in iters)
