"""tilegen build: all specs or none; with --watch again as they change, until Ctrl-C."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilegen.cli.console import current_color, diagnostic_data, print_data, print_diagnostic, print_json, print_note
from tilegen.cli.ending import SeveralFailed, print_errors
from tilegen.cli.explaining import add_resources, describe_resources
from tilegen.cli.options import Manner
from tilegen.cli.several import do_all, read_specs, take_tuned
from tilegen.cli.writing import read_text, write_together
from tilegen.decisions import Operation, count_words
from tilegen.errors import Diagnostic, SpecError, TilegenError
from tilegen.pipeline import Built, BuiltProgram, build, kernels_of, note_losses, output_texts

_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class BuildWishes:
    """What ``tilegen build`` was asked for."""

    specs: tuple[str, ...]
    folder: str
    arch: str | None = None
    settings: Mapping[str, int | float] = field(default_factory=dict)
    compiles: bool = False
    checks: bool = False
    tuned: str = ""


@dataclass(frozen=True)
class _Output:
    """What is said and written of a kernel.

    ``spec`` as it was named; files by name; ``lines``, of which the first says all; JSON data; which files are stale.
    """

    spec: str
    name: str
    files: Mapping[str, str]
    lines: tuple[str, ...]
    data: Mapping[str, Any]
    warnings: tuple[Diagnostic, ...]
    stale: tuple[str, ...] = ()


def build_command(wishes: BuildWishes, manner: Manner, watches: bool = False) -> int:
    """Build every spec, and say what came of each as it ends; then write, or compare, what all of them became.

    Raises SeveralFailed with what any of them said.
    """
    if watches:
        return watch(wishes.specs, lambda changed: _build(replace(wishes, specs=tuple(changed)), manner))
    return _build(wishes, manner)


def _build(wishes: BuildWishes, manner: Manner) -> int:
    sources = take_tuned(read_specs(wishes.specs), wishes.tuned, wishes.arch, wishes.settings)
    folder = Path(wishes.folder)
    names = tuple(sources)
    share = max(1, manner.jobs // len(names))
    is_alone = len(names) == 1

    def make(spec: str) -> _Output:
        begun = time.perf_counter()
        built = build(sources[spec], wishes.arch, wishes.settings, processes=share)
        if wishes.compiles:
            built = add_resources(built)
        output = _describe(spec, built, folder, time.perf_counter() - begun)
        return replace(output, stale=_list_stale(output, folder, wishes.compiles)) if wishes.checks else output

    def show(output: _Output) -> None:
        _show(output, wishes, manner)

    try:
        outputs = do_all(names, make, manner, _show_nothing if is_alone else show)
    except SeveralFailed as failed:
        if not (is_alone or wishes.checks or manner.is_json):
            print_note(f"{len(failed.errors)} of {len(names)} specs failed: nothing is written into {folder}")
        raise
    _refuse_equal_names(outputs)
    if wishes.folder == "-":
        print_data(outputs[0].files[f"{outputs[0].name}.cu"].rstrip("\n"))
    elif not wishes.checks:
        write_together({name: text for o in outputs for name, text in o.files.items()}, folder)
    if manner.is_json:
        stale = [line for o in outputs for line in o.stale]
        print_json({"kernels": [dict(o.data) for o in outputs]} | ({"stale": stale} if wishes.checks else {}))
        return 1 if stale else 0
    if is_alone:
        show(outputs[0])
    if wishes.checks:
        return _say_stale(outputs, manner)
    if not (is_alone or manner.quiet):
        warned = sum(len(o.warnings) for o in outputs)
        print_note(f"{len(outputs)} kernels built, {count_words(warned, 'warning', 'warnings')}, into {folder}")
    return 0


def _show_nothing(output: _Output) -> None:
    """Of one spec alone: what it became is said once it is written."""


def _show(output: _Output, wishes: BuildWishes, manner: Manner) -> None:
    for warning in output.warnings:
        print_diagnostic(warning, current_color())
    if wishes.checks:
        for line in output.stale:
            print_data(line)
    elif not manner.quiet:
        say = print_note if wishes.folder == "-" else print_data
        say("\n  ".join(output.lines if manner.verbose else output.lines[:1]))


def _list_losses(built: Built | BuiltProgram) -> tuple[Diagnostic, ...]:
    """What ptxas spoils of the kernels, where they were compiled."""
    return tuple(
        loss
        for one in kernels_of(built)
        if (c := one.manifest.get("compiled"))
        for loss in note_losses(
            one.spec, one.plan, c["losses"], c["spill_store_bytes"] + c["spill_load_bytes"], c["registers"]
        )
    )


def describe_output(built: Built | BuiltProgram, path: str) -> str:
    """A kernel on one line: its file, the variant of each op, what was proved; with --compile its resources below.

    Of several kernels a line each.
    """
    if isinstance(built, Built):
        return _describe_kernel(built, path)
    lines = [_describe_kernel(kernel, one.name) for one, kernel in zip(built.spec.passes, built.passes, strict=True)]
    return "\n  ".join([f"{path}: {count_words(len(lines), 'pass', 'passes')}", *lines])


def _describe_kernel(built: Built, name: str) -> str:
    ctas = sum(len(ctas) for _, ctas in built.proof.runs)
    proved = f"proved on {count_words(ctas, 'CTA', 'CTAs')}, {count_words(built.proof.steps, 'step', 'steps')}"
    line = f"{name}: {', '.join(_variants(built.plan.operations))}; {proved}"
    compiled = built.manifest.get("compiled")
    return f"{line}\n  {describe_resources(compiled)}" if compiled else line


def _describe(spec: str, built: Built | BuiltProgram, folder: Path, seconds: float) -> _Output:
    name = built.plan.name
    path = "-" if str(folder) == "-" else str(folder / f"{name}.cu")
    more = [line for one in kernels_of(built) for line in _list_proved(one, built.plan.name)]
    lines = (describe_output(built, path), *more, f"in {seconds:.2f} s")
    files = output_texts(built)
    warnings = (*built.warnings, *_list_losses(built))
    data = _output_data(spec, built, [str(folder / file) for file in files], seconds, warnings)
    return _Output(spec, name, files, lines, data, warnings)


def _list_proved(kernel: Built, program: str) -> list[str]:
    """What the proof of a kernel ran, and its notes; a pass is named by what it has behind the program's name."""
    proof, which = kernel.proof, kernel.plan.name.removeprefix(program).removeprefix("_")
    said = f"{which}: " if which else ""
    lines = [f"{said}proved: {_say_run(*run)}" for run in proof.runs]
    lines += [f"{said}note: drawn at random beside these: {_say_run(*proof.sample)}"] if proof.sample else []
    return lines + [f"{said}note: {note}" for note in proof.notes]


def _say_run(case: Sequence[tuple[str, int]], ctas: Sequence[tuple[int, int, int]]) -> str:
    values = ", ".join(f"{name} = {value}" for name, value in case)
    return f"{values}{': ' if values else ''}CTAs {', '.join(f'({x}, {y}, {z})' for x, y, z in ctas)}"


def _output_data(
    spec: str, built: Built | BuiltProgram, files: Sequence[str], seconds: float, warnings: Sequence[Diagnostic]
) -> dict[str, Any]:  # fmt: skip
    """A kernel as JSON data: where it is, the variants of its ops, what was proved, and warnings.

    Of a program, ops, proof and resources stand under each of its passes.
    """
    if isinstance(built, BuiltProgram):
        names = (one.name for one in built.spec.passes)
        done = {"passes": [{"name": name, **_kernel_data(one)} for name, one in zip(names, built.passes, strict=True)]}
    else:
        done = _kernel_data(built)
    return {
        "kernel": built.plan.name,
        "spec": spec,
        "arch": built.plan.arch,
        "files": list(files),
        **done,
        "warnings": [diagnostic_data(warning) for warning in warnings],
        "seconds": round(seconds, 3),
    }


def _kernel_data(built: Built) -> dict[str, Any]:
    manifest = built.manifest
    compiled = {"compiled": manifest["compiled"]} if "compiled" in manifest else {}
    ops = [{"op": o.op, "variant": o.variant} for o in built.plan.operations]
    return {"ops": ops, "proof": {"steps": built.proof.steps, **manifest["proof"]}, **compiled}


def _variants(operations: Sequence[Operation]) -> list[str]:
    """``copy gmem_smem``, and ``2 x`` before what comes twice in a row."""
    runs: list[tuple[str, int]] = []
    for o in operations:
        name = f"{o.op} {o.variant}"
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1] + 1)
        else:
            runs.append((name, 1))
    return [name if n == 1 else f"{n} x {name}" for name, n in runs]


# ---------------------------------------------------------------- files
def _refuse_equal_names(outputs: Sequence[_Output]) -> None:
    first: dict[str, str] = {}
    for output in outputs:
        other = first.setdefault(output.name, output.spec)
        if other != output.spec:
            both = f"{other} and {output.spec} are both of kernel '{output.name}'"
            message = f"{both} and would be written to the same files"
            raise SpecError(Diagnostic("TG603", message, hint="rename one of the kernels, or write to two folders"))


def _list_stale(output: _Output, folder: Path, compiles: bool) -> tuple[str, ...]:
    """Which files on disk are not what would be written, and how."""
    stale = []
    for name, text in output.files.items():
        found = read_text(folder / name)
        if not _is_current(name, found, text, compiles):
            stale.append(f"{folder / name}: {'missing' if found is None else 'stale'}")
    return tuple(stale)


def _say_stale(outputs: Sequence[_Output], manner: Manner) -> int:
    stale, files = sum(len(o.stale) for o in outputs), sum(len(o.files) for o in outputs)
    if not manner.quiet:
        counted = f"{stale} of {count_words(files, 'file', 'files')} stale"
        print_note(counted if stale else f"{files} files up to date")
    return 1 if stale else 0


def _is_current(name: str, found: str | None, text: str, compiles: bool) -> bool:
    if found is None or found == text:
        return found is not None
    if compiles or not name.endswith(".json"):
        return False
    try:  # resources of an earlier --compile do not make a manifest stale
        manifest = json.loads(found)
    except ValueError:
        return False
    return isinstance(manifest, dict) and _without_resources(manifest) == json.loads(text)


def _without_resources(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest without what --compile adds to it, or to its passes."""
    kept = {k: v for k, v in manifest.items() if k != "compiled"}
    if isinstance(passes := kept.get("passes"), list):
        kept["passes"] = [_without_resources(one) if isinstance(one, dict) else one for one in passes]
    return kept


def watch(specs: Sequence[str], make: Callable[[Sequence[str]], object]) -> int:
    """Call ``make`` with all specs, and with those that changed whenever some did. Ctrl-C ends it, with exit code 0.

    Errors are printed, and wait for the next change.
    """
    names = tuple(dict.fromkeys(specs))
    built: dict[str, tuple[int, int] | None] = {}
    try:
        while True:
            found = {name: _stamp(name) for name in names}
            changed = [name for name in names if name not in built or found[name] != built[name]]
            if changed:
                built = found  # as it was before: what changes meanwhile is built again
                _make(changed, make)
                print_note(f"watching {count_words(len(names), 'spec', 'specs')}; Ctrl-C ends")
            time.sleep(_PAUSE_SECONDS)
    except KeyboardInterrupt:
        print_note("stopped")
        return 0


def _make(specs: Sequence[str], make: Callable[[Sequence[str]], object]) -> None:
    try:
        make(specs)
    except TilegenError as error:
        print_errors([error])
    except SeveralFailed:
        pass  # what is wrong was printed as it was found


def _stamp(path: str) -> tuple[int, int] | None:
    """When a file was written last, and its size; None where there is none, as between an editor's two steps."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
