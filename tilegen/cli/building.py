"""tilegen build: all specs or none."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tilegen.cli.console import (
    current_color,
    diagnostic_data,
    print_data,
    print_diagnostic,
    print_json,
    print_note,
    watch_progress,
)
from tilegen.cli.ending import SeveralFailed
from tilegen.cli.explaining import add_resources, describe_resources
from tilegen.cli.options import Manner
from tilegen.cli.reading import Word, read_spec
from tilegen.cli.watching import watch
from tilegen.cli.writing import read_text, write_together
from tilegen.decisions import Operation, count_words
from tilegen.errors import Diagnostic, ProofError, SpecError, TilegenError
from tilegen.pipeline import Built, build, output_texts
from tilegen.side_by_side import run_tasks

Result = TypeVar("Result")


@dataclass(frozen=True)
class BuildWishes:
    """What ``tilegen build`` was asked for."""

    specs: tuple[str, ...]
    folder: str
    arch: str | None = None
    settings: Mapping[str, int | float] = field(default_factory=dict)
    compiles: bool = False
    checks: bool = False


@dataclass(frozen=True)
class _Output:
    """A kernel, the spec that it is of as it was named, the files that it becomes, by name, and how long it took."""

    spec: str
    built: Built
    files: Mapping[str, str]
    seconds: float

    @property
    def name(self) -> str:
        return self.built.plan.name


def build_command(wishes: BuildWishes, manner: Manner, watches: bool = False) -> int:
    """Build every spec; then print, compare or write. Raises SeveralFailed with what any of them said."""
    if watches:
        return watch(wishes.specs, lambda changed: _build(replace(wishes, specs=tuple(changed)), manner))
    return _build(wishes, manner)


def _build(wishes: BuildWishes, manner: Manner) -> int:
    share = max(1, manner.jobs // len(wishes.specs))

    def make(spec: str, source: Word) -> _Output:
        begun = time.perf_counter()
        built = build(source, wishes.arch, wishes.settings, processes=share)
        built = refuse_losses(add_resources(built)) if wishes.compiles else built
        return _Output(spec, built, output_texts(built), time.perf_counter() - begun)

    outputs = do_all(wishes.specs, make, manner.jobs)
    _refuse_equal_names(outputs)
    folder = Path(wishes.folder)
    stale: list[str] = []
    if wishes.checks:
        stale = _list_stale(outputs, folder, wishes.compiles)
    elif wishes.folder == "-":
        print_data(outputs[0].built.source.rstrip("\n"))
    else:
        write_together({name: text for o in outputs for name, text in o.files.items()}, folder)
    if manner.is_json:
        more = {"stale": stale} if wishes.checks else {}
        print_json({"kernels": [_output_data(o, folder) for o in outputs]} | more)
        return 1 if stale else 0
    _warn(outputs)
    if wishes.checks:
        return _say_stale(stale, sum(len(o.files) for o in outputs), manner)
    if not manner.quiet:
        for output in outputs:
            say = print_note if wishes.folder == "-" else print_data
            say(_describe(output, folder, manner.verbose))
        if len(outputs) > 1:
            warned = sum(len(o.built.warnings) for o in outputs)
            print_note(f"{len(outputs)} kernels built, {count_words(warned, 'warning', 'warnings')}, into {folder}")
    return 0


def do_all(specs: Sequence[str], work: Callable[[str, Word], Result], processes: int = 1) -> list[Result]:
    """``work(spec, source)`` for every spec as it was named, and what that stands for, under a progress bar.

    Raises SeveralFailed once all have been tried.
    """

    def attempt(spec: str, source: Word) -> Result | TilegenError:
        try:
            return work(spec, source)
        except TilegenError as error:
            return error

    names = tuple(dict.fromkeys(specs))
    tasks = [partial(attempt, name, read_spec(name)) for name in names]  # other processes have no standard input
    with watch_progress(len(names)) as begin:
        found = run_tasks(tasks, processes, lambda k: begin(names[k], k))
    if errors := [one for one in found if isinstance(one, TilegenError)]:
        raise SeveralFailed(errors)
    return [one for one in found if not isinstance(one, TilegenError)]


def refuse_losses(built: Built) -> Built:
    """The same kernel; raises ProofError TG493 where ptxas does not keep to what it was written for."""
    compiled = built.manifest["compiled"]
    spilled = compiled["spill_store_bytes"] + compiled["spill_load_bytes"]
    found = [f"ptxas: {loss}" for loss in compiled["losses"]]
    if spilled:
        registers = f"{compiled['registers']} registers a thread"
        found.append(f"ptxas keeps {spilled} bytes of a thread in memory instead of in {registers}")
    if not found:
        return built
    hint = "without --compile it is built all the same, right but slow"
    raise ProofError(Diagnostic("TG493", f"{built.plan.name}: {what}", hint=hint) for what in found)


def describe_output(built: Built, path: str) -> str:
    """A kernel on one line: its file, the variant of each op, what was proved; with --compile its resources below."""
    ctas = sum(len(ctas) for _, ctas in built.proof.runs)
    proved = f"proved on {count_words(ctas, 'CTA', 'CTAs')}, {count_words(built.proof.steps, 'step', 'steps')}"
    line = f"{path}: {', '.join(_variants(built.plan.operations))}; {proved}"
    compiled = built.manifest.get("compiled")
    return f"{line}\n  {describe_resources(compiled)}" if compiled else line


def _describe(output: _Output, folder: Path, verbose: bool) -> str:
    path = "-" if str(folder) == "-" else str(folder / f"{output.name}.cu")
    line = describe_output(output.built, path)
    if not verbose:
        return line
    found = [f"proved: {_say_run(*run)}" for run in output.built.proof.runs]
    if output.built.proof.sample:
        found.append(f"note: drawn at random beside these: {_say_run(*output.built.proof.sample)}")
    found += [f"note: {note}" for note in output.built.proof.notes]
    return "\n  ".join([line, *found, f"in {output.seconds:.2f} s"])


def _say_run(case: Sequence[tuple[str, int]], ctas: Sequence[tuple[int, int, int]]) -> str:
    values = ", ".join(f"{name} = {value}" for name, value in case)
    return f"{values}{': ' if values else ''}CTAs {', '.join(f'({x}, {y}, {z})' for x, y, z in ctas)}"


def _output_data(output: _Output, folder: Path) -> dict[str, Any]:
    """A kernel as JSON data: where it is, the variants of its ops, what was proved, and warnings."""
    manifest, proof = output.built.manifest, output.built.proof
    compiled = {"compiled": manifest["compiled"]} if "compiled" in manifest else {}
    return {
        "kernel": output.name,
        "spec": output.spec,
        "arch": output.built.plan.arch,
        "files": [str(folder / name) for name in output.files],
        "ops": [{"op": o.op, "variant": o.variant} for o in output.built.plan.operations],
        "proof": {"steps": proof.steps, **manifest["proof"]},
        **compiled,
        "warnings": [diagnostic_data(warning) for warning in output.built.warnings],
        "seconds": round(output.seconds, 3),
    }


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


def _warn(outputs: Sequence[_Output]) -> None:
    for output in outputs:
        for warning in output.built.warnings:
            print_diagnostic(warning, current_color())


# ---------------------------------------------------------------- files
def _refuse_equal_names(outputs: Sequence[_Output]) -> None:
    first: dict[str, str] = {}
    for output in outputs:
        other = first.setdefault(output.name, output.spec)
        if other != output.spec:
            both = f"{other} and {output.spec} are both of kernel '{output.name}'"
            message = f"{both} and would be written to the same files"
            raise SpecError(Diagnostic("TG603", message, hint="rename one of the kernels, or write to two folders"))


def _list_stale(outputs: Sequence[_Output], folder: Path, compiles: bool) -> list[str]:
    """Which files on disk are not what would be written, and how."""
    stale = []
    for output in outputs:
        for name, text in output.files.items():
            found = read_text(folder / name)
            if not _is_current(name, found, text, compiles):
                stale.append(f"{folder / name}: {'missing' if found is None else 'stale'}")
    return stale


def _say_stale(stale: Sequence[str], files: int, manner: Manner) -> int:
    for line in stale:
        print_data(line)
    if not manner.quiet:
        counted = f"{len(stale)} of {count_words(files, 'file', 'files')} stale"
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
    return isinstance(manifest, dict) and {k: v for k, v in manifest.items() if k != "compiled"} == json.loads(text)
