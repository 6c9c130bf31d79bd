"""tilegen verify: each spec's kernel against the spec's own meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilegen.cli.building import do_all
from tilegen.cli.console import current_color, print_data, print_diagnostic, print_note
from tilegen.errors import EnvironmentLack
from tilegen.pipeline import Built, build, load
from tilegen.spec.data import Spec
from tilegen.verify import Verified, verify_cpu, verify_gpu


def verify_command(
    specs: Sequence[str], device: str, seeds: Sequence[int], arch: str | None, settings: Mapping[str, int]
) -> int:
    """Verify every spec on one kind of device and say what was compared. Raises SeveralFailed with what was found."""
    notes: list[str] = []

    def work(path: str) -> tuple[Built, Verified]:
        spec = load(path, arch, settings)
        where = _choose_device(device, spec, notes)
        built = build(spec)
        return built, verify_gpu(built, seeds) if where == "gpu" else verify_cpu(built, seeds)

    try:
        results = do_all(specs, work)
    finally:
        for note in dict.fromkeys(notes):
            print_note(note)
    for built, verified in results:
        for warning in built.proof.warnings:
            print_diagnostic(warning, current_color())
        print_data(f"{built.plan.name}: verified on {verified.device}, {built.plan.arch}")
        for line in verified.lines:
            print_data(f"  {line}")
    return 0


def _choose_device(device: str, spec: Spec, notes: list[str]) -> str:
    """gpu or cpu; where auto has no GPU for the spec, cpu and a note that says why."""
    from tilegen import gpu

    if device != "auto":
        return device
    try:
        gpu.require_gpu(spec.arch)
    except EnvironmentLack as lack:
        notes.append(f"note: on the CPU, because {lack.diagnostics[0].message}")
        return "cpu"
    return "gpu"
