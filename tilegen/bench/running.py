"""A kernel measured beside its peers, in one process, on one stream, on the same buffers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tilegen.bench.buffers import lay_out, load_kernel, moved_bytes
from tilegen.bench.checking import check_kernel, expect_target, prepare_peers
from tilegen.bench.meaning import Prepared
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
from tilegen.bench.results import Result, Row
from tilegen.pipeline import Built
from tilegen.proofs.meaning import parameter_cases

KERNEL = "tilegen"


@dataclass(frozen=True)
class BenchWishes:
    """What to measure: peers by name (none: all that start quickly), rounds, the seed of the data.

    ``is_verified``: the caller has compared the kernel with the spec's meaning in NumPy.
    """

    against: tuple[str, ...] = ()
    rounds: int = 30
    seed: int = 1
    is_verified: bool = False


def bench_built(session: Session, built: Built, wishes: BenchWishes) -> Result:
    """Check the kernel and its peers, then time them in turns. The parameters have their defaults.

    Raises ProofError if the kernel writes anything but what the spec means; a peer that fails is named as absent.
    """
    case = parameter_cases(built.spec)[0]
    task, sets, rotation = lay_out(session, built, case, wishes.seed)
    kernel = load_kernel(session, built, case, sets)
    expected = expect_target(session, task)
    checked = check_kernel(session, built, task, kernel, expected, None if wishes.is_verified else wishes.seed)
    ready, absent = prepare_peers(session, task, choose_peers(wishes.against), expected)
    candidates = {KERNEL: kernel} | {name: prepared.candidate for name, prepared in ready.items()}
    launches, samplers, failed = make_ready(session.watch, candidates, rotation)
    times = take_turns(session.watch, samplers, wishes.rounds, launches, rotation.is_cold).rounds
    rows = [_row(name, times, ready.get(name)) for name in times]
    return Result(
        built.plan.name, Path(built.spec.path).name, built.plan.arch, session.device.name, case,
        hashlib.sha256(built.source.encode()).hexdigest(), str(task.meaning), checked, moved_bytes(built, case),
        launches, wishes.rounds, rotation.sets, rotation.is_cold, session.ceiling_gb_per_s, rows[0], tuple(rows[1:]),
        (*absent, *failed),
    )  # fmt: skip


def make_ready(
    watch: Watch, candidates: Mapping[str, Candidate], rotation: Rotation
) -> tuple[int, dict[str, tuple[Callable[[], object], ...]], list[Absent]]:
    """Launches in a sample, what each sample runs, and the peers that could not be brought so far."""
    failed: list[Absent] = []
    estimates, samplers = {}, {}
    for name, candidate in candidates.items():
        try:
            estimates[name] = warm_up(watch, candidate)
        except Exception as error:
            failed.append(_give_up(name, error))
    launches = choose_launches(list(estimates.values()))
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


def _row(name: str, times: Mapping[str, tuple[float, ...]], prepared: Prepared | None) -> Row:
    return Row(
        name, measure_spread(times[name]), paired_ratio(times[KERNEL], times[name]), prepared.detail if prepared else ""
    )
