"""The way in: what a spec is, one kernel or several, decides what the stages do with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilegen import spec as spec_room
from tilegen.errors import Diagnostic, SpecError
from tilegen.ops import ALL_OPS, expand_spec
from tilegen.pipeline.kernels import Built, build_kernel, explain_spec, settle
from tilegen.pipeline.programs import BuiltProgram, build_program, explain_program, settle_program
from tilegen.planner import plan_spec
from tilegen.report import pin_choices
from tilegen.spec.data import Spec
from tilegen.spec.program import Program

Source = Spec | Program | spec_room.Source


def load(
    source: Source, arch: str | None = None, params: Mapping[str, int | float] | None = None, processes: int = 1
) -> Spec | Program:  # fmt: skip
    """A checked spec: whole-array ops expanded, 'auto' layouts chosen. A Program where there are several kernels.

    ``source`` is a path, a text (a str with a line break in it), a dict of what the YAML would hold, a Spec or a
    Program. ``arch`` overrides the spec's; ``params`` gives compile-time params and the defaults of runtime ones other
    values. Given with a Spec or a Program, they have its text read again. Layouts that take long are looked for in
    ``processes``, which are forked, with the same outcome.

    >>> load({"kernel": "k", "threads": 32, "params": {"M": 8}, "ops": []}, params={"M": 16}).constants
    (Constant(name='M', value=16, choices=()),)
    >>> load({"kernel": "k", "threads": 0, "ops": []})
    Traceback (most recent call last):
        ...
    tilegen.errors.SpecError: threads: TG106: 'threads' must be from 1 to 1024, not 0 (for example 128)

    Raises SpecError with every error found, InputError for a file that cannot be read, TypeError for an argument of a
    type that is none of these.
    """
    read = _read(source, arch, params)
    expanded = read if isinstance(read, Program) else expand_spec(read)
    return settle_program(expanded, processes) if isinstance(expanded, Program) else settle(expanded, processes)


def load_kernel(
    source: Source, arch: str | None = None, params: Mapping[str, int | float] | None = None, processes: int = 1,
    what: str = "this",
) -> Spec:  # fmt: skip
    """The spec of one kernel. Raises what ``load`` raises, and SpecError TG190 for several: ``what`` names the wish."""
    spec = load(source, arch, params, processes)
    if isinstance(spec, Program):
        message = f"{what} of a spec with 'passes' is not yet supported"
        hint = "write the pass as a spec of its own"
        if (call := spec.whole) is not None:
            message = f"{what} of several kernels is not yet supported"
            joined = ", ".join(f"{key}: {value}" for key, value in call.form.joined.items())
            hint = f"write '{joined}'" if joined else f"leave '{call.form.divides(call.fields)}' out"
        raise SpecError(Diagnostic("TG190", message, spec.passes[0].mark, hint))
    return spec


def choose_pass(loaded: Spec | Program, name: str | None) -> Spec | Program:
    """The spec of one pass; all of it where no name is given. Raises ValueError for a name that no pass has."""
    if name is None:
        return loaded
    passes = {one.name: one.spec for one in loaded.passes} if isinstance(loaded, Program) else {}
    if name not in passes:
        one = f"{loaded.kernel} is one kernel, without passes"
        raise ValueError(f"the passes are {', '.join(passes)}" if passes else one)
    return passes[name]


def _read(source: Source, arch: str | None, params: Mapping[str, int | float] | None) -> Spec | Program:
    """The spec as it is written, with that arch and these params."""
    if not (arch is None or isinstance(arch, str)):
        raise TypeError(f"arch is a text, such as 'sm_90', not {type(arch).__name__}")
    changes = dict(params) if isinstance(params, Mapping) else {}
    is_dict = params is None or isinstance(params, Mapping)
    if not is_dict or not all(isinstance(name, str) and value is not None for name, value in changes.items()):
        raise TypeError("params is a dict of names and numbers, such as {'M': 4096}")
    if isinstance(source, Spec | Program):
        if arch is None and not changes:
            return source
        changes = {c.name: c.value for c in source.constants} | {p.name: p.default for p in source.params} | changes
        arch, source = arch or source.arch, spec_room.NamedText(source.path, source.text)
    return spec_room.load(source, ALL_OPS, arch, changes)


def build(
    spec: Source, arch: str | None = None, params: Mapping[str, int | float] | None = None, processes: int = 1
) -> Built | BuiltProgram:  # fmt: skip
    """The kernel of a spec, proved, or the kernels of its passes; writes nothing. Takes what ``load`` takes.

    What takes long is shared out over ``processes``, which are forked.

    Raises what ``load`` raises, and ProofError.
    """
    loaded = load(spec, arch, params, processes)
    return build_program(loaded, processes) if isinstance(loaded, Program) else build_kernel(loaded, processes)


def explain(
    spec: Source, arch: str | None = None, params: Mapping[str, int | float] | None = None, processes: int = 1
) -> dict[str, Any]:  # fmt: skip
    """Every choice and every predicted count of a spec, as JSON data (the keys are stable). Takes what ``load`` takes.

    Of a spec with passes: what they share, and of each pass the same under ``passes``. Raises what ``load`` raises.
    """
    loaded = load(spec, arch, params, processes)
    if isinstance(loaded, Program):
        return explain_program(loaded, processes)
    return explain_spec(loaded, plan_spec(loaded), processes)


def expand(
    spec: Source, arch: str | None = None, params: Mapping[str, int | float] | None = None, processes: int = 1
) -> Spec | Program:  # fmt: skip
    """The tile ops that a spec is, with everything chosen that a spec can say: boxes, threads, layouts, variants.

    Takes what ``load`` takes, and raises what it raises. ``spec.printing.print_spec`` writes it out; the text loads as
    an equal spec, and builds to the same kernel.
    """
    loaded = load(spec, arch, params, processes)
    if isinstance(loaded, Program):
        passes = (replace(one, spec=pin_choices(one.spec, plan_spec(one.spec))) for one in loaded.passes)
        return replace(loaded, passes=tuple(passes))
    return pin_choices(loaded, plan_spec(loaded))


def output_texts(built: Built | BuiltProgram) -> dict[str, str]:
    """The files of a kernel by name, ``<kernel>.cu``, ``.h`` and ``.json``; the command line writes them."""
    from tilegen.render import render_launcher
    from tilegen.render.programs import render_program_launcher

    header = render_program_launcher(built.plan) if isinstance(built, BuiltProgram) else render_launcher(built.plan)
    texts = {"cu": built.source, "h": header, "json": json.dumps(built.manifest, indent=2) + "\n"}
    return {f"{built.plan.name}.{ending}": text for ending, text in texts.items()}
