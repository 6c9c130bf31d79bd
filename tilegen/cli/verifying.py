"""tilegen verify: each spec's kernel against the spec's own meaning."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilegen.cli.building import do_all
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
from tilegen.cli.reading import Word
from tilegen.gpu import find_device
from tilegen.pipeline import Built, build, load
from tilegen.verifying import Verified, choose_device, reads_arrays, verify_built


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
    built: Built
    verified: Verified
    seconds: float
    unused: tuple[str, ...]


def verify_command(wishes: VerifyWishes, manner: Manner) -> int:
    """Verify every spec on one kind of device; say what was compared, and once what was not used.

    On a GPU they run one after another, in this process: they would share it, and wait for one another there. Raises
    SeveralFailed with what was found.
    """
    meaning = find_function(wishes.against) if wishes.against else None
    is_on_gpu = wishes.device != "cpu" and find_device() is not None

    def work(name: str, source: Word) -> _Result:
        begun = time.perf_counter()
        spec = load(source, wishes.arch, wishes.settings)
        where, why = choose_device(wishes.device, spec.arch)
        built = build(spec)
        verified = verify_built(built, where, wishes.seeds, meaning)
        unused: tuple[str, ...] = (f"on the CPU, and not on a GPU, because {why}",) if why else ()
        unused += () if reads_arrays(built.plan) else ("seeds are not used where a kernel reads no array",)
        return _Result(name, built, verified, time.perf_counter() - begun, unused)

    results = do_all(wishes.specs, work, 1 if is_on_gpu else manner.jobs)
    if manner.is_json:
        print_json({"kernels": [_result_data(r) for r in results]})
        return 0
    if not manner.quiet:
        for note in dict.fromkeys(note for r in results for note in r.unused):
            kernels = [r.verified.kernel for r in results if note in r.unused]
            print_note(f"note: {note}" + (f": {', '.join(kernels)}" if len(kernels) < len(results) else ""))
    for r in results:
        for warning in r.built.warnings:
            print_diagnostic(warning, current_color())
        if not manner.quiet:
            print_data(f"{r.verified}\n  in {r.seconds:.2f} s" if manner.verbose else str(r.verified))
    if len(results) > 1 and not manner.quiet:
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
        "warnings": [diagnostic_data(warning) for warning in result.built.warnings],
        "seconds": round(result.seconds, 3),
    }
