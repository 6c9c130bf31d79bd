"""tilegen explain: the choices of a spec, one of its accesses, or what its roles do, as text or JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from tilegen.arch import ARCHES
from tilegen.cli.console import diagnostic_data, print_data, print_json
from tilegen.cli.progress import watch_one
from tilegen.cli.reading import read_spec
from tilegen.decisions import wrap_line
from tilegen.errors import ProofError
from tilegen.pipeline import Built, build, expand, explain, explain_spec, load
from tilegen.planner import plan_spec
from tilegen.report import access_text, explain_access, explain_text, resolved_text, summary_lines
from tilegen.spec.outline import launch_of
from tilegen.spec.printing import print_spec

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class ExplainWishes:
    """What ``explain`` was asked for: ``access`` and ``only`` (one op) count from 1, as the text numbers them.

    ``compiles`` adds what the cubin needs, ``shows_all`` what lost for a reason that no other choice would mend.
    """

    form: str
    access: int | None = None
    only: int | None = None
    shows_all: bool = False
    compiles: bool = False


def explain_command(
    path: str, wishes: ExplainWishes, arch: str | None, settings: Mapping[str, int | float], jobs: int
) -> int:
    """Explain a spec as was asked. Raises what loading raises, and BadParameter for numbers that it does not have."""
    access, form = wishes.access, wishes.form
    with watch_one(path):
        spec = load(read_spec(path), arch, settings, jobs)
        plan, launch = plan_spec(spec), launch_of(spec)
        explained = explain_spec(spec, plan, jobs) if access is None else {}
        compiled = measure_resources(build(spec, processes=jobs)) if wishes.compiles and access is None else None
    if access is None:
        if form == "json":
            print_json(explained | ({"compiled": compiled} if compiled else {}))
        else:
            tail = ["", *wrap_line(describe_resources(compiled))] if compiled else []
            choices = explained, ARCHES[plan.arch], wishes.shows_all, wishes.only
            page = _tried_number("--op", lambda: explain_text(*choices))
            print_data("\n".join([page, *tail]))
        return 0
    shown = _tried_number("--access", lambda: explain_access(plan, launch, access))
    print_json(shown) if form == "json" else print_data(access_text(shown))
    return 0


def _tried_number(option: str, ask: Callable[[], _Found]) -> _Found:
    """What ``ask`` returns; its ValueError is about the number that an option was given."""
    try:
        return ask()
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=f"'{option}'") from None


def summary_command(path: str, arch: str | None, settings: Mapping[str, int | float], jobs: int) -> int:
    """The ten lines of a spec. Raises what loading raises."""
    print_data("\n".join(summary_lines(explain_path(path, arch, settings, jobs), path)))
    return 0


def explain_path(path: str, arch: str | None, settings: Mapping[str, int | float], jobs: int) -> dict[str, Any]:
    """What ``explain`` says of the spec that a path names, under a progress bar."""
    with watch_one(path):
        return explain(read_spec(path), arch, settings, jobs)


def events_command(
    path: str, form: str, rows: int, arch: str | None, settings: Mapping[str, int | float], jobs: int
) -> int:  # fmt: skip
    """What the roles of a spec's first CTA do, in so many rows; a fault of the kernel follows it."""
    # The interpreter runs for this command alone, so it is loaded here.
    from tilegen.interpret import Record
    from tilegen.proofs.events import record_events
    from tilegen.proofs.meaning import describe_fault
    from tilegen.report.events import events_data, events_text, has_events

    with watch_one(path):
        spec = load(read_spec(path), arch, settings, jobs)
        plan = plan_spec(spec)
        record = record_events(spec, plan, rows) if has_events(plan) else Record((), ())
    data, fault = events_data(plan, launch_of(spec), record), record.fault and describe_fault(spec, record.fault)
    if form == "json":
        print_json(data | {"fault": fault and diagnostic_data(fault)})
        return int(fault is not None)
    print_data(events_text(data) if record.ctas else f"{plan.name}: no roles, and nothing runs by itself: no events")
    if fault:
        raise ProofError(fault)
    return 0


def resolve_command(path: str, arch: str | None, settings: Mapping[str, int | float], jobs: int) -> int:
    """The spec on stdout, with every choice written out."""
    with watch_one(path):
        spec = load(read_spec(path), arch, settings, jobs)
        resolved = resolved_text(spec, plan_spec(spec))
    print_data(resolved.rstrip("\n"))
    return 0


def expand_command(path: str, arch: str | None, settings: Mapping[str, int | float], jobs: int) -> int:
    """The tile ops that a spec is on stdout, as a spec."""
    with watch_one(path):
        text = print_spec(expand(read_spec(path), arch, settings, jobs))
    print_data(text.rstrip("\n"))
    return 0


# ---------------------------------------------------------------- what a kernel's cubin needs
def add_resources(built: Built) -> Built:
    """The same kernel, with what its cubin needs under ``compiled`` in the manifest. Raises EnvironmentLack."""
    return replace(built, manifest={**built.manifest, "compiled": measure_resources(built)})


def measure_resources(built: Built) -> dict[str, Any]:
    """Registers, shared bytes, stack and spills of a kernel's cubin, and how many of its warps an SM holds."""
    from tilegen import gpu
    from tilegen.arch import ARCHES, occupancy

    cubin = gpu.compile_cubin(built.source, built.plan.arch, built.plan.name)
    arch = ARCHES[built.plan.arch]
    shared_bytes = cubin.shared_bytes + int(built.manifest["dynamic_shared_bytes"])
    return {
        "arch": cubin.arch,
        "compiler": cubin.compiler,
        "registers": cubin.registers,
        "shared_bytes": shared_bytes,
        "stack_bytes": cubin.stack_bytes,
        "spill_store_bytes": cubin.spill_store_bytes,
        "spill_load_bytes": cubin.spill_load_bytes,
        "losses": list(cubin.losses),
        "warps_per_sm": occupancy(arch, built.plan.threads, cubin.registers, shared_bytes),
        "max_warps_per_sm": arch.max_warps_per_sm,
    }


def describe_resources(compiled: Mapping[str, Any]) -> str:
    """Resources in words."""
    spills = compiled["spill_store_bytes"] + compiled["spill_load_bytes"]
    return (
        f"{compiled['arch']}: {compiled['registers']} registers a thread, {compiled['shared_bytes']} shared bytes, "
        f"{compiled['stack_bytes']} stack bytes, {spills} spilled bytes, occupancy {compiled['warps_per_sm']} of "
        f"{compiled['max_warps_per_sm']} warps an SM ({compiled['compiler']})"
        + "".join(f"; ptxas: {loss}" for loss in compiled["losses"])
    )
