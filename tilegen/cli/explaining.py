"""tilegen explain: the choices of a spec, one of its accesses, or what its roles do, as text or JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from tilegen.arch import ARCHES
from tilegen.cli.console import diagnostic_data, print_data, print_json
from tilegen.cli.progress import watch_one
from tilegen.cli.several import read_spec
from tilegen.decisions import wrap_line
from tilegen.errors import ProofError
from tilegen.pipeline import Built, BuiltProgram, build, choose_pass, expand, explain, kernels_of, load
from tilegen.plan import Plan
from tilegen.planner import plan_loaded, plan_spec
from tilegen.report import (
    access_text,
    explain_access,
    explain_text,
    resolved_text,
    summary_lines,
)
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of
from tilegen.spec.printing import print_spec
from tilegen.spec.program import Program

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class ExplainWishes:
    """What ``tilegen explain`` was asked for; ``pass_name``: of one pass alone; ``measured``: a trace."""

    path: str
    arch: str | None
    settings: Mapping[str, int | float]
    jobs: int
    pass_name: str | None = None
    measured: str | None = None


@dataclass(frozen=True)
class PageWishes:
    """What the page of explain shows: ``access`` and ``only`` (one op) count from 1, as the text numbers them.

    ``compiles`` adds what the cubin needs, ``shows_all`` what lost for a reason that no other choice would mend.
    """

    form: str = "text"
    access: int | None = None
    compiles: bool = False
    shows_all: bool = False
    only: int | None = None


def explain_command(wishes: ExplainWishes, page: PageWishes) -> int:
    """Explain a spec, one op of it, or one access."""
    with watch_one(wishes.path):
        spec = _load(wishes)
        if isinstance(spec, Program):
            _require_kernel(page.access is not None and "--access", page.only is not None and "--op")
        wants_all = page.access is None
        explained = explain(spec, processes=wishes.jobs) if wants_all else {}
        compiled = _measure(spec, wishes.jobs) if page.compiles and wants_all else {}
    if not wants_all:
        assert isinstance(spec, Spec)
        shown = _tried_number("--access", lambda: explain_access(plan_spec(spec), launch_of(spec), page.access or 0))
        print_json(shown) if page.form == "json" else print_data(access_text(shown))
    elif page.form == "json":
        print_json(_add_compiled(explained, compiled))
    else:
        tails = [line for one in compiled.values() for line in wrap_line(describe_resources(one))]
        print_data("\n".join([_explain_text(explained, page), *(["", *tails] if tails else [])]))
    return 0


def _load(wishes: ExplainWishes) -> Spec | Program:
    """The spec, or the one of the pass that was asked for. Raises BadParameter for another name."""
    loaded = load(read_spec(wishes.path), wishes.arch, wishes.settings, wishes.jobs)
    return _tried_number("--pass", lambda: choose_pass(loaded, wishes.pass_name))


def load_one(wishes: ExplainWishes, *options: str) -> Spec:
    """The same of one kernel. Raises UsageError for several: the ``options`` are of one."""
    spec = _load(wishes)
    if isinstance(spec, Program):
        _require_kernel(*options)
    assert isinstance(spec, Spec)
    return spec


def _require_kernel(*options: str | bool) -> None:
    """Raises UsageError where any option is given that shows one kernel alone."""
    if given := next((o for o in options if o), None):
        raise click.UsageError(f"{given} shows one kernel, and SPEC has passes: name one with --pass")


def _measure(spec: Spec | Program, jobs: int) -> dict[str, dict[str, Any]]:
    """What the cubin of each kernel needs, by the kernel's name."""
    return {one.plan.name: measure_resources(one) for one in kernels_of(build(spec, processes=jobs))}


def _add_compiled(explained: dict[str, Any], compiled: Mapping[str, Any]) -> dict[str, Any]:
    if "passes" in explained:
        return explained | {"passes": [_add_compiled(one, compiled) for one in explained["passes"]]}
    found = compiled.get(explained["kernel"])
    return explained | ({"compiled": found} if found else {})


def _explain_text(explained: Mapping[str, Any], page: PageWishes) -> str:
    arch = ARCHES[explained["arch"]]
    if "passes" in explained:
        from tilegen.report.programs import explain_program_text

        return explain_program_text(explained, arch, page.shows_all)
    return _tried_number("--op", lambda: explain_text(explained, arch, page.shows_all, page.only))


def _tried_number(option: str, ask: Callable[[], _Found]) -> _Found:
    """What ``ask`` returns; its ValueError is about what an option was given."""
    try:
        return ask()
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=f"'{option}'") from None


def summary_command(wishes: ExplainWishes) -> int:
    """The ten lines of a spec, or of each pass. Raises what loading raises."""
    with watch_one(wishes.path):
        explained = explain(_load(wishes), processes=wishes.jobs)
    print_data("\n".join(_summary_lines(explained, wishes.path)))
    return 0


def _summary_lines(explained: Mapping[str, Any], name: str) -> list[str]:
    if "passes" in explained:
        from tilegen.report.programs import program_lines

        return program_lines(explained, name)
    return summary_lines(explained, name)


def explain_one(wishes: ExplainWishes, *options: str) -> dict[str, Any]:
    """What ``explain`` says of the kernel that is asked for, under a progress bar."""
    with watch_one(wishes.path):
        return explain(load_one(wishes, *options), processes=wishes.jobs)


def events_command(wishes: ExplainWishes, form: str, rows: int) -> int:
    """What the roles of a spec's first CTA do, in so many rows; a fault of the kernel follows it.

    The waits of a trace that is given stand before. Raises InputError TG608 for one of another kernel.
    """
    # The interpreter runs for this command alone, so it is loaded here.
    from tilegen.interpret import Record
    from tilegen.proofs.described_faults import describe_fault
    from tilegen.proofs.meaning import record_events
    from tilegen.report.events import events_data, events_text, has_events

    with watch_one(wishes.path):
        spec = load_one(wishes, "--events")
        plan = plan_spec(spec)
        record = record_events(spec, plan, rows) if has_events(plan) else Record((), ())
    data, fault = events_data(plan, launch_of(spec), record), record.fault and describe_fault(spec, record.fault)
    waits = _read_waits(wishes.measured, plan) if wishes.measured else None
    if form == "json":
        more = {"measured": waits[1]} if waits else {}
        print_json(data | more | {"fault": fault and diagnostic_data(fault)})
        return int(fault is not None)
    if waits:
        print_data(f"{waits[0]}\n")
    print_data(events_text(data) if record.ctas else f"{plan.name}: no roles, and nothing runs by itself: no events")
    if fault:
        raise ProofError(fault)
    return 0


def _read_waits(path: str, plan: Plan) -> tuple[str, dict[str, Any]]:
    """What a trace says of waits, as text and as JSON data."""
    from tilegen.tracing.files import read_trace, refuse_other
    from tilegen.tracing.waits import waits_data, waits_text

    trace = read_trace(path)
    refuse_other(path, trace, plan)
    return waits_text(trace), waits_data(trace)


def resolve_command(wishes: ExplainWishes) -> int:
    """The spec on stdout, with every choice written out."""
    if wishes.pass_name:
        raise click.UsageError("--resolved prints SPEC's own text, all of it: it takes no --pass")
    with watch_one(wishes.path):
        spec = _load(wishes)
        resolved = resolved_text(spec, plan_loaded(spec))
    print_data(resolved.rstrip("\n"))
    return 0


def expand_command(wishes: ExplainWishes) -> int:
    """The tile ops that a spec is on stdout, as a spec."""
    with watch_one(wishes.path):
        text = print_spec(expand(_load(wishes), processes=wishes.jobs))
    print_data(text.rstrip("\n"))
    return 0


# ---------------------------------------------------------------- what a kernel's cubin needs
def add_resources(built: Built | BuiltProgram) -> Built | BuiltProgram:
    """The same kernels, with what each cubin needs under ``compiled`` in the manifest. Raises EnvironmentLack."""
    if isinstance(built, Built):
        return replace(built, manifest={**built.manifest, "compiled": measure_resources(built)})
    passes = tuple(replace(one, manifest={**one.manifest, "compiled": measure_resources(one)}) for one in built.passes)
    said = [p | {"compiled": k.manifest["compiled"]} for p, k in zip(built.manifest["passes"], passes, strict=True)]
    return replace(built, passes=passes, manifest={**built.manifest, "passes": said})


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
