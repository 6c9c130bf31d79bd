"""One kernel: choose layouts -> plan -> prove -> render."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tilegen.auto_layout import choose_layouts, choose_registers, choose_tensor_memory, compare_pinned
from tilegen.decisions import count_words
from tilegen.errors import Diagnostic, SpecError
from tilegen.notebooks import Shown
from tilegen.plan import Plan
from tilegen.planner import plan_spec
from tilegen.report import describe_tensor_memory, explain_plan
from tilegen.side_by_side import run_tasks
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of

if TYPE_CHECKING:
    from tilegen.proofs import Proof, RanWith


@dataclass(frozen=True, repr=False)
class Built(Shown):
    """A kernel: its CUDA source, the manifest (JSON data), and the plan behind both.

    >>> spec = {"kernel": "move", "threads": 32, "ops": [{"copy": {"scope": "warp", "src": "X", "dst": "Y"}}]}
    >>> spec["buffers"] = {name: {"scope": "global", "dtype": "int8", "shape": [2, 64]} for name in "XY"}
    >>> from tilegen.pipeline import build
    >>> build(spec)
    <Built move for sm_90: 1 x 1 x 1 CTAs of 32 threads, 1 op>
    """

    source: str
    manifest: dict[str, Any]
    plan: Plan
    spec: Spec
    proof: Proof

    def __repr__(self) -> str:
        plan, grid = self.plan, " x ".join(map(str, launch_of(self.spec).grid))
        ops = count_words(len(plan.operations), "op", "ops")
        return f"<Built {plan.name} for {plan.arch}: {grid} CTAs of {plan.threads} threads, {ops}>"

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What may not be meant: of the spec as it is written, and of what its proof showed to be needless."""
        return (*self.spec.warnings, *self.proof.warnings)


def build_kernel(spec: Spec, processes: int = 1) -> Built:
    """The kernel of a spec in which nothing is left to choose, proved.

    Raises SpecError TG303 for a spec without ops, ProofError.
    """
    from tilegen.proofs import may_take_long, prove  # here, as render below: ``explain`` starts without them

    if not spec.ops:
        message = f"kernel '{spec.kernel}' has no ops, so there is nothing to build"
        raise SpecError(Diagnostic("TG303", message, spec.ops_mark, "add one, such as '- copy: {src: ..., dst: ...}'"))
    plan = plan_spec(spec)
    tasks: list[Callable[[], Any]] = [partial(prove, spec, plan, processes), partial(_write, spec, plan)]
    proof, (source, manifest) = run_tasks(tasks, processes if may_take_long(plan) else 1)
    return Built(source, manifest | _describe_proof(proof), plan, spec, proof)


def _write(spec: Spec, plan: Plan) -> tuple[str, dict[str, Any]]:
    """The CUDA source of a plan, and its manifest without the proof."""
    from tilegen.render import render

    source = render(plan)
    return source, _describe_unproved(spec, plan, source)


def explain_spec(spec: Spec, plan: Plan, processes: int = 1) -> dict[str, Any]:
    """What ``explain`` says of a loaded spec and its plan; layouts are compared in ``processes``, which are forked."""
    explained = explain_plan(with_comparisons(spec, plan, processes), launch_of(spec), with_derivations=True)
    return explained | describe_tensor_memory(spec, plan)


def with_comparisons(spec: Spec, plan: Plan, processes: int = 1) -> Plan:
    """The plan with what 'auto' would have given where the spec writes the layout of a shared buffer."""
    return replace(plan, choices=(*plan.choices, *compare_pinned(spec, processes)))


def settle(spec: Spec, processes: int = 1) -> Spec:
    """The spec, which is expanded, with nothing left to choose before its ops are planned: layouts are chosen."""
    return choose_layouts(choose_registers(choose_tensor_memory(spec)), processes)


def describe_build(spec: Spec, plan: Plan, source: str, proof: Proof) -> dict[str, Any]:
    """The manifest: what a caller needs to launch the kernel and to know what it is."""
    return _describe_unproved(spec, plan, source) | _describe_proof(proof)


def _describe_unproved(spec: Spec, plan: Plan, source: str) -> dict[str, Any]:
    from tilegen.render import launch_info

    explained = explain_plan(plan, launch_of(spec))
    return {
        "tilegen": 1,
        **launch_info(plan),
        "source_sha256": hashlib.sha256(source.encode()).hexdigest(),
        "trust": explained["trust"],
        "summary": explained["summary"],
        "choices": explained["choices"],
        "ops": explained["ops"],
        "grid_totals": explained["grid_totals"],
    }


def _describe_proof(proof: Proof) -> dict[str, Any]:
    """What the manifest says of a proof: what ran, and notes."""
    drawn = [proof.sample] if proof.sample else []
    return {"proof": {"runs": _list_runs(proof.runs), "sample": _list_runs(drawn), "notes": list(proof.notes)}}


def _list_runs(runs: Iterable[RanWith]) -> list[dict[str, Any]]:
    return [{"params": dict(params), "ctas": [list(c) for c in ctas]} for params, ctas in runs]
