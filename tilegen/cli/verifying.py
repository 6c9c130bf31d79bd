"""tilegen verify: each spec's kernel against the spec's own meaning."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tilegen import gpu
from tilegen.cli.console import (
    current_color,
    diagnostic_data,
    print_data,
    print_diagnostic,
    print_json,
    print_note,
)
from tilegen.cli.functions import find_function
from tilegen.cli.options import Manner
from tilegen.cli.several import do_all, read_specs
from tilegen.cli.sharing import open_gpu
from tilegen.errors import Diagnostic
from tilegen.pipeline import build, kernels_of
from tilegen.verifying import HERE, Verified, choose_device, reads_arrays, verify_built


@dataclass(frozen=True)
class VerifyWishes:
    """What ``tilegen verify`` was asked for."""

    specs: tuple[str, ...]
    device: str
    seeds: tuple[int, ...]
    arch: str | None = None
    settings: Mapping[str, int | float] = field(default_factory=dict)
    against: str | None = None


@dataclass(frozen=True)
class _Result:
    """A kernel that was verified, the spec that it is of as it was named, how long it took, and what was not used."""

    spec: str
    verified: Verified
    warnings: tuple[Diagnostic, ...]
    seconds: float
    unused: tuple[str, ...]


def verify_command(wishes: VerifyWishes, manner: Manner) -> int:
    """Verify every spec on one kind of device; say of each as it ends what was compared, and last what was not used.

    Several are built and compared in processes of their own; one more runs the GPU for all of them. Raises
    SeveralFailed with what was found.
    """
    meaning = find_function(wishes.against) if wishes.against else None
    sources = read_specs(wishes.specs)
    share = max(1, manner.jobs // len(sources))

    def work(name: str, access: gpu.GpuAccess) -> _Result:
        begun = time.perf_counter()
        built = build(sources[name], wishes.arch, wishes.settings, processes=share)
        where, why = choose_device(wishes.device, built.spec.arch, access)
        processes = 1 if access is HERE else manner.jobs  # what has touched the GPU itself, forks nothing that does
        verified = verify_built(built, where, wishes.seeds, meaning, access, processes)
        unused: tuple[str, ...] = (f"on the CPU, and not on a GPU, because {why}",) if why else ()
        unused += (
            ()
            if any(reads_arrays(k.plan) for k in kernels_of(built))
            else ("seeds are not used where a kernel reads no array",)
        )
        return _Result(name, verified, built.warnings, time.perf_counter() - begun, unused)

    def show(result: _Result) -> None:
        for warning in result.warnings:
            print_diagnostic(warning, current_color())
        if not manner.quiet:
            text = str(result.verified)
            print_data(f"{text}\n  in {result.seconds:.2f} s" if manner.verbose else text)

    with open_gpu(manner, len(sources) if wishes.device in ("auto", "gpu") else 0) as (jobs, access, tend):
        manner = replace(manner, jobs=jobs)
        results = do_all(tuple(sources), partial(work, access=access), manner, show, tend)
    if manner.is_json:
        print_json({"kernels": [_result_data(r) for r in results]})
        return 0
    if not manner.quiet:
        for note in dict.fromkeys(note for r in results for note in r.unused):
            kernels = [r.verified.kernel for r in results if note in r.unused]
            print_note(f"note: {note}" + (f": {', '.join(kernels)}" if len(kernels) < len(results) else ""))
        if len(results) > 1:
            print_note(f"{len(results)} kernels verified: {_count_devices(results)}")
    return 0


def _count_devices(results: Sequence[_Result]) -> str:
    """``3 on cpu, 94 on NVIDIA H200``."""
    devices = [r.verified.device for r in results]
    return ", ".join(f"{devices.count(device)} on {device}" for device in dict.fromkeys(devices))


def _result_data(result: _Result) -> dict[str, Any]:
    """What was verified as JSON data: a line for each parameter case, and warnings."""
    verified = result.verified
    return {
        "kernel": verified.kernel,
        "spec": result.spec,
        "arch": verified.arch,
        "device": verified.device,
        "lines": list(verified.lines),
        "unused": list(result.unused),
        "notes": list(verified.notes),
        "warnings": [diagnostic_data(warning) for warning in result.warnings],
        "seconds": round(result.seconds, 3),
    }
