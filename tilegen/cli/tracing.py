"""tilegen trace: a kernel with stamps, its timeline, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tilegen.cli.console import current_color, print_data, print_diagnostic, print_json
from tilegen.cli.explaining import ExplainWishes, load_one
from tilegen.cli.progress import watch_one
from tilegen.cli.writing import write_together
from tilegen.errors import ProofError
from tilegen.pipeline import Built, build
from tilegen.tracing.files import trace_text
from tilegen.tracing.orders import describe_broken
from tilegen.tracing.picture import trace_picture
from tilegen.tracing.running import Traced, TraceWishes, trace_built
from tilegen.tracing.waits import waits_data, waits_text
from tilegen.verifying import choose_device


@dataclass(frozen=True)
class TraceOptions:
    """What ``tilegen trace`` was asked for."""

    spec: str
    output: str | None = None
    device: str = "auto"
    ctas: int = 32
    stamps: int = 4096
    seed: int = 1
    pass_name: str | None = None
    arch: str | None = None
    settings: Mapping[str, int | float] = field(default_factory=dict)
    form: str = "text"
    jobs: int = 1


def trace_command(options: TraceOptions) -> int:
    """Trace a kernel and write its file; say which wait is the longest, and whether the proof's orders hold.

    Raises ProofError TG496, after the file is written, where one does not, and what building and tracing raise.
    """
    with watch_one(options.spec):
        traced = _trace(options)
    path = Path(options.output or f"{traced.built.plan.name}.trace.json")
    write_together({path.name: trace_text(traced.data)}, path.parent)
    faults = describe_broken(traced.timeline, traced.orders)
    for warning in traced.built.warnings:
        print_diagnostic(warning, current_color())
    if options.form == "json":
        print_json({"file": str(path), **waits_data(traced.data)})
    elif options.form == "svg":
        print_data(trace_picture(traced.data))
    else:
        print_data(f"{waits_text(traced.data)}\n\n{path}: {_count(traced)}; open it in ui.perfetto.dev")
    if faults:
        raise ProofError(faults)
    return 0


def _trace(options: TraceOptions) -> Traced:
    wishes = ExplainWishes(options.spec, options.arch, options.settings, options.jobs, options.pass_name)
    built = build(load_one(wishes, "trace"), processes=options.jobs)
    assert isinstance(built, Built)
    device, _ = choose_device(options.device, built.plan.arch)
    where = "ptx" if device in ("cpu", "ptx") else "gpu"
    return trace_built(built, TraceWishes(options.ctas, options.stamps, where, options.seed))


def _count(traced: Traced) -> str:
    return f"{len(traced.timeline.intervals)} intervals of {len(traced.timeline.readings)} threads"
