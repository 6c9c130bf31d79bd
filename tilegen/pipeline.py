"""Where the stages meet: load -> choose layouts -> plan -> prove -> render -> write. Nothing else sees two of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tilegen import spec as spec_room
from tilegen.auto_layout import choose_layouts, choose_registers, compare_pinned
from tilegen.decisions import count_words
from tilegen.errors import Diagnostic, SpecError
from tilegen.notebooks import Shown
from tilegen.ops import ALL_OPS, expand_spec
from tilegen.plan import Plan
from tilegen.planner import plan_spec
from tilegen.report import describe_tensor_memory, explain_plan, pin_choices
from tilegen.side_by_side import run_tasks
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of

if TYPE_CHECKING:
    from tilegen.proofs import Proof, RanWith

Source = Spec | spec_room.Source


@dataclass(frozen=True, repr=False)
class Built(Shown):
    """A kernel: its CUDA source, the manifest (JSON data), and the plan behind both.

    >>> spec = {"kernel": "move", "threads": 32, "ops": [{"copy": {"scope": "warp", "src": "X", "dst": "Y"}}]}
    >>> spec["buffers"] = {name: {"scope": "global", "dtype": "int8", "shape": [2, 64]} for name in "XY"}
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


def load(
    source: Source, arch: str | None = None, params: Mapping[str, int | float] | None = None, processes: int = 1
) -> Spec:  # fmt: skip
    """A checked spec: whole-array ops expanded, 'auto' layouts chosen.

    ``source`` is a path, a text (a str with a line break in it), a dict of what the YAML would hold, or a Spec.
    ``arch`` overrides the spec's; ``params`` gives compile-time params and the defaults of runtime ones other values.
    Given with a Spec, they have its text read again. Layouts that take long are looked for in ``processes``, which are
    forked, with the same outcome.

    >>> load({"kernel": "k", "threads": 32, "params": {"M": 8}, "ops": []}, params={"M": 16}).constants
    (Constant(name='M', value=16, choices=()),)
    >>> load({"kernel": "k", "threads": 0, "ops": []})
    Traceback (most recent call last):
        ...
    tilegen.errors.SpecError: threads: TG106: 'threads' must be from 1 to 1024, not 0 (for example 128)

    Raises SpecError with every error found, InputError for a file that cannot be read, TypeError for an argument of a
    type that is none of these.
    """
    return settle(_read(source, arch, params), processes)


def _read(source: Source, arch: str | None, params: Mapping[str, int | float] | None) -> Spec:
    """The spec as it is written, with that arch and these params."""
    if not (arch is None or isinstance(arch, str)):
        raise TypeError(f"arch is a text, such as 'sm_90', not {type(arch).__name__}")
    changes = dict(params) if isinstance(params, Mapping) else {}
    is_dict = params is None or isinstance(params, Mapping)
    if not is_dict or not all(isinstance(name, str) and value is not None for name, value in changes.items()):
        raise TypeError("params is a dict of names and numbers, such as {'M': 4096}")
    if isinstance(source, Spec):
        if arch is None and not changes:
            return source
        changes = {c.name: c.value for c in source.constants} | {p.name: p.default for p in source.params} | changes
        arch, source = arch or source.arch, spec_room.NamedText(source.path, source.text)
    return spec_room.load(source, ALL_OPS, arch, changes)


def build(
    spec: Source, arch: str | None = None, params: Mapping[str, int | float] | None = None, processes: int = 1
) -> Built:
    """The kernel of a spec, proved; writes nothing. Takes what ``load`` takes.

    What takes long is shared out over ``processes``, which are forked.

    Raises what ``load`` raises, and ProofError.
    """
    from tilegen.proofs import may_take_long, prove  # here, as render below: ``explain`` starts without them

    spec = settle(_read(spec, arch, params), processes)
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


def explain(
    spec: Source, arch: str | None = None, params: Mapping[str, int | float] | None = None, processes: int = 1
) -> dict[str, Any]:
    """Every choice and every predicted count of a spec, as JSON data (the keys are stable). Takes what ``load`` takes.

    Raises what ``load`` raises.
    """
    spec = load(spec, arch, params, processes)
    return explain_spec(spec, plan_spec(spec), processes)


def explain_spec(spec: Spec, plan: Plan, processes: int = 1) -> dict[str, Any]:
    """What ``explain`` says of a loaded spec and its plan; layouts are compared in ``processes``, which are forked."""
    explained = explain_plan(with_comparisons(spec, plan, processes), launch_of(spec), with_derivations=True)
    return explained | describe_tensor_memory(spec)


def expand(
    spec: Source, arch: str | None = None, params: Mapping[str, int | float] | None = None, processes: int = 1
) -> Spec:  # fmt: skip
    """The tile ops that a spec is, with everything chosen that a spec can say: boxes, threads, layouts, variants.

    Takes what ``load`` takes, and raises what it raises. ``spec.printing.print_spec`` writes it out; the text loads as
    an equal spec, and builds to the same kernel.
    """
    spec = load(spec, arch, params, processes)
    return pin_choices(spec, plan_spec(spec))


def with_comparisons(spec: Spec, plan: Plan, processes: int = 1) -> Plan:
    """The plan with what 'auto' would have given where the spec writes the layout of a shared buffer."""
    return replace(plan, choices=(*plan.choices, *compare_pinned(spec, processes)))


def settle(spec: Spec, processes: int = 1) -> Spec:
    """The spec with nothing left to choose before its ops are planned: whole-array ops expanded, layouts chosen."""
    return choose_layouts(choose_registers(expand_spec(spec)), processes)


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


# ---------------------------------------------------------------- what is written
def output_texts(built: Built) -> dict[str, str]:
    """The files of a kernel by name, ``<kernel>.cu``, ``.h`` and ``.json``; the command line writes them."""
    from tilegen.render import render_launcher

    texts = {
        "cu": built.source,
        "h": render_launcher(built.plan),
        "json": json.dumps(built.manifest, indent=2) + "\n",
    }
    return {f"{built.plan.name}.{ending}": text for ending, text in texts.items()}
