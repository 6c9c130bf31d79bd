"""A kernel measured beside its peers, in one process, on one stream, on the same buffers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tilegen import gpu
from tilegen.arithmetic import TFLOAT32
from tilegen.bench.buffers import join_passes, lay_out, load_passes, moved_bytes, workspace_bytes
from tilegen.bench.checking import (
    asks_numpy,
    check_kernel,
    check_passes,
    expect_target,
    measure_kernel,
    prepare_peers,
)
from tilegen.bench.meaning import Prepared, derive_meaning
from tilegen.bench.measuring import (
    Candidate,
    Rotation,
    Session,
    Watch,
    choose_launches,
    make_samplers,
    measure_spread,
    paired_ratio,
    take_turns,
    warm_up,
)
from tilegen.bench.peers import Absent, choose_peers, describe_absence
from tilegen.bench.products import Product
from tilegen.bench.results import Reached, Result, Row
from tilegen.bench.user_functions import UserFunction, peers_of
from tilegen.errors import Diagnostic
from tilegen.pipeline import Built, BuiltProgram, list_launched, note_losses
from tilegen.plan import default_values
from tilegen.verifying import compile_for, verify_built

KERNEL = "tilegen"


@dataclass(frozen=True)
class BenchWishes:
    """What to measure: peers by name (none: all that start quickly), rounds, the seed of the data.

    ``functions``: peers of the user's own; with them and without names, no others but the copy.
    ``is_verified``: the caller has compared the kernel with the spec's meaning in NumPy. ``launches``: in the graph
    that each sample is, 0: one launch alone, or a graph where that is too short to be timed.
    """

    against: tuple[str, ...] = ()
    rounds: int = 30
    seed: int = 1
    is_verified: bool = False
    launches: int = 0
    functions: tuple[UserFunction, ...] = ()


@dataclass(frozen=True)
class Ready:
    """A kernel, or a program, that may be timed; ``is_verified``: it was compared with the spec's meaning in NumPy."""

    built: Built | BuiltProgram
    is_verified: bool = False


def prepare_kernel(built: Built | BuiltProgram, seed: int, access: gpu.GpuAccess) -> Ready:
    """All that can be done ahead: the kernels compiled, and compared in NumPy where NumPy is asked.

    Raises ProofError TG421 or TG427 where it is wrong, EnvironmentLack where it cannot be compiled or run.
    """
    if asks_numpy(derive_meaning(built.spec, default_values(built.spec.params))):
        verify_built(built, "gpu", [seed], access=access)
        return Ready(built, is_verified=True)
    for one in list_launched(built):
        compile_for(access.require(None), one)  # the cubin is kept on disk
    return Ready(built)


def bench_built(session: Session, built: Built | BuiltProgram, wishes: BenchWishes) -> Result:
    """Check the kernel and its peers, then time them in turns. The parameters have their defaults.

    Of a program the candidate launches all passes, one after another, over a workspace for each set of buffers.

    Raises ProofError if the kernel writes anything but what the spec means, and InputError TG604 for a function of the
    user's that takes what the spec does not have; a peer that fails is named as absent.
    """
    case = default_values(built.spec.params)
    own = peers_of(wishes.functions, built, case)
    task, sets, rotation = lay_out(session, built, case, wishes.seed)
    passes = load_passes(session, built, case, sets)
    kernel = join_passes(passes)
    expected = expect_target(session, task)
    product = task.meaning if isinstance(task.meaning, Product) else None
    accuracy = measure_kernel(task, expected, kernel) if product else None
    checked = check_kernel(session, built, task, kernel, expected, None if wishes.is_verified else wishes.seed)
    if isinstance(built, BuiltProgram):
        checked += f"; {check_passes(session, built, sets[0], passes)}"
    peers = (*choose_peers(wishes.against, product is not None, bool(own)), *own)
    ready, absent = prepare_peers(session, task, peers, expected)
    candidates = {KERNEL: kernel} | {name: prepared.candidate for name, prepared in ready.items()}
    loops, missing = prepare_loops(session, product, kernel) if product else ({}, [])
    both = candidates | {name: loop.candidate for name, loop in loops.items()}
    launches, samplers, failed = make_ready(session.watch, both, rotation, wishes.launches)
    times = take_turns(session.watch, samplers, wishes.rounds, launches, rotation.is_cold).rounds
    rows = [
        _row(name, times, ready.get(name, Prepared(kernel, accuracy=accuracy))) for name in candidates if name in times
    ]
    reached = [Reached(name, loops[name].flops / median(times[name]) / 1e6) for name in loops if name in times]
    return Result(
        built.plan.name, Path(built.spec.path).name, built.plan.arch, session.device.name, case,
        hashlib.sha256(built.source.encode()).hexdigest(), str(task.meaning), checked, moved_bytes(built, case),
        launches, wishes.rounds, rotation.sets, rotation.is_cold, session.ceiling_gb_per_s, rows[0], tuple(rows[1:]),
        (*absent, *missing, *failed), product.flops if product else 0,
        tuple(sorted(reached, key=lambda r: -r.tflops)), _name_passes(built), workspace_bytes(built, case),
        list_losses(session.device, built),
    )  # fmt: skip


def list_losses(device: gpu.Device, built: Built | BuiltProgram) -> tuple[Diagnostic, ...]:
    """What ptxas spoils of the kernels that a launch runs, as warnings (TG493) at their ops."""
    found: list[Diagnostic] = []
    for one in list_launched(built):
        cubin = compile_for(device, one)  # kept on disk since it was run
        spilled = cubin.spill_store_bytes + cubin.spill_load_bytes
        found += note_losses(one.spec, one.plan, cubin.losses, spilled, cubin.registers)
    return tuple(found)


def _name_passes(built: Built | BuiltProgram) -> tuple[str, ...]:
    """The passes that were launched, in order; none of a kernel alone."""
    if isinstance(built, Built):
        return ()
    launched = {one.plan.name for one in list_launched(built)}
    return tuple(one.name for one in built.plan.passes if one.plan.name in launched)


def make_ready(
    watch: Watch, candidates: Mapping[str, Candidate], rotation: Rotation, wanted: int = 0
) -> tuple[int, dict[str, tuple[Callable[[], object], ...]], list[Absent]]:
    """Launches in a sample, what each sample runs, and the peers that could not be brought so far."""
    failed: list[Absent] = []
    estimates, samplers = {}, {}
    for name, candidate in candidates.items():
        try:
            estimates[name] = warm_up(watch, candidate)
        except Exception as error:
            failed.append(_give_up(name, error))
    launches = wanted or choose_launches(list(estimates.values()))
    for name in estimates:
        try:
            samplers[name] = make_samplers(watch, candidates[name], rotation.sets, launches)
        except Exception as error:
            failed.append(_give_up(name, error))
    return launches, samplers, failed


def _give_up(name: str, error: Exception) -> Absent:
    """A peer may fail; the kernel itself may not."""
    if name == KERNEL:
        raise error
    return describe_absence(name, error)


def _row(name: str, times: Mapping[str, tuple[float, ...]], prepared: Prepared) -> Row:
    ratio = paired_ratio(times[KERNEL], times[name])
    return Row(name, measure_spread(times[name]), ratio, prepared.detail, prepared.accuracy)


# ---------------------------------------------------------------- what products can reach
LEAST_LOOP_US = 500.0  # that a loop takes: what begins and ends a kernel is little of that


@dataclass(frozen=True)
class TimedLoop:
    """A bare loop as a candidate, and the multiplications and additions of a launch."""

    candidate: Candidate
    flops: int


def prepare_loops(session: Session, product: Product, kernel: Candidate) -> tuple[dict[str, TimedLoop], list[Absent]]:
    """Loops of what the device multiplies such factors with, about as long as the kernel; and those that failed."""
    wanted = max(LEAST_LOOP_US, warm_up(session.watch, kernel))
    factors = (product.factors, product.factors if product.factors == TFLOAT32 else product.b.dtype)
    ready: dict[str, TimedLoop] = {}
    absent = []
    for loop in gpu.list_loops(session.device.compute_capability, factors):
        try:
            ceiling = gpu.prepare_ceiling(session.device, session.watch.instruments, loop)
            trips = gpu.count_trips(session.watch.time_us, ceiling, wanted)
        except Exception as error:  # a compiler that does not know the instruction: the kernel is measured without it
            absent.append(describe_absence(loop.name, error))
            continue
        ready[loop.name] = TimedLoop(_run_trips(ceiling, trips), ceiling.flops * trips)
    return ready, absent


def _run_trips(ceiling: gpu.Ceiling, trips: int) -> Candidate:
    return lambda k: ceiling.run(trips)
