"""tilegen explain: the choices of a spec, or one of its accesses, as text or JSON."""

from __future__ import annotations

from collections.abc import Mapping

import click

from tilegen.arch import ARCHES
from tilegen.cli.compiling import describe_resources, measure_resources
from tilegen.cli.console import print_data, print_json
from tilegen.pipeline import build, load, with_comparisons
from tilegen.planner import plan_spec
from tilegen.report import access_text, explain_access, explain_plan, explain_text, resolved_text
from tilegen.spec.outline import launch_of


def explain_command(
    path: str, form: str, access: int | None, arch: str | None, settings: Mapping[str, int], compiles: bool
) -> int:
    """Explain a spec; ``access`` counts from 1, as the text numbers them; ``compiles`` adds what the cubin needs."""
    spec = load(path, arch, settings)
    plan, launch = plan_spec(spec), launch_of(spec)
    if access is None:
        explained = explain_plan(with_comparisons(spec, plan), launch)
        compiled = measure_resources(build(spec)) if compiles else None
        if form == "json":
            print_json(explained | ({"compiled": compiled} if compiled else {}))
        else:
            tail = f"\n\n{describe_resources(compiled)}" if compiled else ""
            print_data(explain_text(explained, ARCHES[plan.arch]) + tail)
        return 0
    try:
        shown = explain_access(plan, launch, access)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--access'") from None
    print_json(shown) if form == "json" else print_data(access_text(shown))
    return 0


def resolve_command(path: str, arch: str | None, settings: Mapping[str, int]) -> int:
    """The spec on stdout, with every choice written out."""
    spec = load(path, arch, settings)
    print_data(resolved_text(spec, plan_spec(spec)).rstrip("\n"))
    return 0
