"""tilegen build: all specs or none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tilegen.cli.console import current_color, print_data, print_diagnostic, print_note, watch_progress
from tilegen.cli.ending import SeveralFailed
from tilegen.cli.explaining import add_resources, describe_resources
from tilegen.cli.reading import read_spec
from tilegen.cli.writing import read_text, write_together
from tilegen.decisions import Operation, count_words
from tilegen.errors import Diagnostic, ProofError, SpecError, TilegenError
from tilegen.pipeline import Built, build, output_texts

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Output:
    """A kernel and the files that it becomes, by name."""

    built: Built
    files: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.built.plan.name


def build_command(
    specs: Sequence[str], folder: str, arch: str | None, settings: Mapping[str, int], compiles: bool, checks: bool
) -> int:
    """Build every spec; then print, compare or write. Raises SeveralFailed with what any of them said."""

    def make(spec: str) -> Built:
        built = build(read_spec(spec), arch, settings, processes=os.cpu_count() or 1)
        return refuse_losses(add_resources(built)) if compiles else built

    outputs = [_Output(b, output_texts(b)) for b in do_all(specs, make)]
    _refuse_equal_names(specs, outputs)
    if checks:
        _warn(outputs)
        return _check(outputs, Path(folder), compiles)
    if folder == "-":
        print_data(outputs[0].built.source.rstrip("\n"))
    else:
        write_together({name: text for o in outputs for name, text in o.files.items()}, Path(folder))
    _warn(outputs)
    for output in outputs:
        say = print_note if folder == "-" else print_data
        say(describe_output(output.built, "-" if folder == "-" else str(Path(folder, f"{output.name}.cu"))))
    return 0


def do_all(specs: Sequence[str], work: Callable[[str], Result]) -> list[Result]:
    """``work`` done for every spec, under a progress bar. Raises SeveralFailed once all have been tried."""
    results, errors = [], []
    with watch_progress(len(specs)) as begin:
        for spec in dict.fromkeys(specs):
            begin(spec)
            try:
                results.append(work(spec))
            except TilegenError as error:
                errors.append(error)
    if errors:
        raise SeveralFailed(errors)
    return results


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
        for warning in output.built.proof.warnings:
            print_diagnostic(warning, current_color())


# ---------------------------------------------------------------- files
def _refuse_equal_names(specs: Sequence[str], outputs: Sequence[_Output]) -> None:
    first: dict[str, str] = {}
    for spec, output in zip(dict.fromkeys(specs), outputs, strict=True):
        other = first.setdefault(output.name, spec)
        if other != spec:
            message = f"{other} and {spec} are both of kernel '{output.name}' and would be written to the same files"
            raise SpecError(Diagnostic("TG603", message, hint="rename one of the kernels, or write to two folders"))


def _check(outputs: Sequence[_Output], folder: Path, compiles: bool) -> int:
    """Say which files on disk are not what would be written; 1 if any."""
    stale = []
    for output in outputs:
        for name, text in output.files.items():
            found = read_text(folder / name)
            if not _is_current(name, found, text, compiles):
                stale.append(f"{folder / name}: {'missing' if found is None else 'stale'}")
    for line in stale:
        print_data(line)
    files = sum(len(o.files) for o in outputs)
    print_note(f"{len(stale)} of {count_words(files, 'file', 'files')} stale" if stale else f"{files} files up to date")
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
