"""tilegen verify: each spec's kernel against the spec's own meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilegen.cli.building import do_all
from tilegen.cli.console import current_color, print_data, print_diagnostic, print_note
from tilegen.cli.reading import read_spec
from tilegen.pipeline import Built, build, load
from tilegen.verifying import Verified, choose_device, verify_built


def verify_command(
    specs: Sequence[str], device: str, seeds: Sequence[int], arch: str | None, settings: Mapping[str, int]
) -> int:
    """Verify every spec on one kind of device and say what was compared. Raises SeveralFailed with what was found."""
    notes: list[str] = []

    def work(path: str) -> tuple[Built, Verified]:
        spec = load(read_spec(path), arch, settings)
        where, why = choose_device(device, spec.arch)
        if why:
            notes.append(f"note: on the CPU, because {why}")
        built = build(spec)
        return built, verify_built(built, where, seeds)

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
