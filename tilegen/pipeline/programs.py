"""Several kernels: each is chosen, planned and proved as one kernel is, then what they leave for each other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tilegen.errors import Diagnostic, ProofError, SpecError
from tilegen.index import evaluate
from tilegen.notebooks import Shown
from tilegen.ops import expand_spec
from tilegen.pipeline.kernels import Built, build_kernel, explain_spec, settle
from tilegen.plan import ProgramPlan, default_values, trust_data
from tilegen.planner import chain_plans, plan_program
from tilegen.spec.data import Spec
from tilegen.spec.program import Program


@dataclass(frozen=True, repr=False)
class BuiltProgram(Shown):
    """The kernels of a program: one CUDA source, one manifest (JSON data), the plan of a launch, and each kernel.

    ``passes`` are the kernels in their order. The source of each is that of all of them.
    """

    source: str
    manifest: dict[str, Any]
    plan: ProgramPlan
    spec: Program
    passes: tuple[Built, ...]

    def __repr__(self) -> str:
        names = ", ".join(one.name for one in self.spec.passes)
        return f"<Built {self.plan.name} for {self.plan.arch}: {len(self.passes)} kernels, {names}>"

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What may not be meant: of the text, and of what the proofs showed to be needless."""
        return (*self.spec.warnings, *(w for one in self.passes for w in one.proof.warnings))


def kernels_of(built: Built | BuiltProgram) -> tuple[Built, ...]:
    """The kernels that were built: one, or those of the passes."""
    return built.passes if isinstance(built, BuiltProgram) else (built,)


def list_launched(built: Built | BuiltProgram) -> tuple[Built, ...]:
    """The kernels that a launch with the default parameters runs, in order: passes whose ``when`` holds."""
    if isinstance(built, Built):
        return (built,)
    values = default_values([*built.spec.params, *(c.param for c in built.spec.counts)])
    return tuple(k for one, k in zip(built.spec.passes, built.passes, strict=True) if evaluate(one.when, values))


def settle_program(program: Program, processes: int = 1) -> Program:
    """The program with nothing left to choose in any pass. Raises SpecError with the errors of all passes."""
    tasks = [partial(_settle_pass, one.spec, processes) for one in program.passes]
    specs = _try_all(tasks, SpecError)
    passes = tuple(replace(one, spec=spec) for one, spec in zip(program.passes, specs, strict=True))
    return replace(program, passes=passes)


def _settle_pass(spec: Spec, processes: int) -> Spec:
    expanded = expand_spec(spec, is_pass=True)
    assert isinstance(expanded, Spec)  # as it was read: what asks for passes is refused in one
    return settle(expanded, processes)


def build_program(program: Program, processes: int = 1) -> BuiltProgram:
    """The kernels of a program, proved one by one and together. Raises SpecError, ProofError with all that is wrong."""
    from tilegen.proofs.workspaces import check_written
    from tilegen.render.programs import program_info, render_program

    built = _try_all([partial(build_kernel, spec, processes) for spec in list_specs(program)], ProofError)
    check_written(program, [(one.plan, one.proof) for one in built])
    plan = chain_plans(program, [one.plan for one in built])
    source, info = render_program(plan), program_info(plan)
    digest = hashlib.sha256(source.encode()).hexdigest()
    passes = tuple(replace(one, source=source, manifest=one.manifest | {"source_sha256": digest}) for one in built)
    manifest = {
        "tilegen": 1, **info, "source_sha256": digest,
        "trust": trust_data(plan.trust),
        "passes": [
            {"name": one.name, **kernel.manifest, **launch}
            for one, kernel, launch in zip(program.passes, passes, info["passes"], strict=True)
        ],
    }  # fmt: skip
    return BuiltProgram(source, manifest, plan, program, passes)


def list_specs(program: Program) -> list[Spec]:
    """The specs of the passes, each with the passes before it, which may decide its places."""
    return [replace(one.spec, before=program.passes[:k]) for k, one in enumerate(program.passes)]


def explain_program(program: Program, processes: int = 1) -> dict[str, Any]:
    """What ``explain`` says of each pass, and of what they share, as JSON data."""
    from tilegen.render.programs import program_info

    plan = plan_program(program)
    info = program_info(plan)
    trust = trust_data(plan.trust)
    shared = {"trust": trust} | {
        key: info[key] for key in ("kernel", "arch", "workspace_bytes", "workspaces", "arrays", "params")
    }
    passes = [
        {"name": one.name, **{key: launch[key] for key in ("when",) if key in launch}}
        | explain_spec(one.spec, own, processes)
        for one, own, launch in zip(program.passes, plan.plans, info["passes"], strict=True)
    ]
    return {**shared, "passes": passes}


def _try_all(tasks: Sequence[Callable[[], Any]], kind: type[SpecError] | type[ProofError]) -> list[Any]:
    """What the tasks return; one error of that kind with what any of them found."""
    found, wrong = [], list[Diagnostic]()
    for task in tasks:
        try:
            found.append(task())
        except kind as error:
            wrong += error.diagnostics
    if wrong:
        raise kind(tuple(dict.fromkeys(wrong)))
    return found
