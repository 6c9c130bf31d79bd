"""tilegen verify: each spec's kernel against the spec's own meaning."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

from tilegen.cli.building import do_all
from tilegen.cli.console import current_color, print_data, print_diagnostic, print_note
from tilegen.cli.reading import read_spec
from tilegen.pipeline import Built, build, load
from tilegen.proofs.against import Meaning, refuse
from tilegen.verifying import Verified, choose_device, verify_built


def find_function(text: str) -> Meaning:
    """The function that ``module:function`` names; modules are looked for in the working directory first.

    Raises InputError TG604.
    """
    module, colon, name = text.partition(":")
    if not colon or not module or not name:
        raise refuse(f"'{text}' is not written as module:function", "write --against my_meanings:softmax")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), name, None)
    except Exception as error:
        raise refuse(f"module '{module}' cannot be imported: {type(error).__name__}: {error}") from None
    if not callable(found):
        raise refuse(f"module '{module}' has no function '{name}'")
    function: Meaning = found
    return function


def verify_command(
    specs: Sequence[str], device: str, seeds: Sequence[int], arch: str | None, settings: Mapping[str, int],
    against: str | None = None,
) -> int:  # fmt: skip
    """Verify every spec on one kind of device and say what was compared. Raises SeveralFailed with what was found."""
    notes: list[str] = []
    meaning = find_function(against) if against else None

    def work(path: str) -> tuple[Built, Verified]:
        spec = load(read_spec(path), arch, settings)
        where, why = choose_device(device, spec.arch)
        if why:
            notes.append(f"note: on the CPU, because {why}")
        built = build(spec)
        return built, verify_built(built, where, seeds, meaning)

    try:
        results = do_all(specs, work)
    finally:
        for note in dict.fromkeys(notes):
            print_note(note)
    for built, verified in results:
        for warning in built.proof.warnings:
            print_diagnostic(warning, current_color())
        print_data(str(verified))
    return 0
