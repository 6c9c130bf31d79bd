"""Every spec compiles for three generations with no include path, no warning, no stack and no spill.

NVRTC compiles each for the spec's own. What takes longer is slow: NVRTC for the others, and nvcc, which has the same
compiler inside.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from nvcc.compile import Report, compile_texts, requires_nvcc

from specs.kernels import ROOT, SPECS, build_spec, draft_spec, every_spec, needs
from tilegen.gpu import find_compilers
from tilegen.pipeline import build
from tilegen.render import launch_info

ARCHS = ("sm_80", "sm_90", "sm_100")
ALONE = "sm_90a"  # compiled for this are only the specs that are for it
every_arch = pytest.mark.parametrize("arch", (*ARCHS, ALONE))

# For an arch that the spec was not tuned for: its ctas_per_sm leaves 255 registers a thread, of which sm_90 needs all.
SPILLS = {("attention", "sm_100")}


def is_left_out(path, arch):
    """Whether a spec is not compiled for an arch."""
    return needs(path, arch) or (arch == ALONE and build_spec(path).spec.arch != arch)


@cache
def _reports(arch: str) -> dict[str, Report]:
    built = [build_spec(path) for path in SPECS if build_spec(path).spec.arch == arch]
    reports = compile_texts([b.source for b in built], arch)
    return {b.plan.name: report for b, report in zip(built, reports, strict=True)}


@pytest.mark.slow
@requires_nvcc
@every_spec
def test_nvcc_finds_no_stack_and_no_spills(path):
    built = build_spec(path)
    report = _reports(built.spec.arch)[path.stem]
    assert (report.stack, report.spills) == (0, 0), report
    assert report.shared == launch_info(built.plan)["static_shared_bytes"], report


@pytest.mark.sweep(6)
@every_spec
def test_nvrtc_compiles_with_no_include_path(path):
    compile_for(path, build_spec(path).spec.arch)


@pytest.mark.slow
@every_arch
@every_spec
def test_nvrtc_compiles_for_other_generations(path, arch):
    if build_spec(path).spec.arch == arch:
        pytest.skip("it is the spec's own")
    compile_for(path, arch)


def compile_for(path, arch):
    nvrtc = next((c for c in find_compilers() if c.route != "nvcc"), None)
    if nvrtc is None:
        pytest.skip("no NVRTC: install an extra (cuda12, cuda13 or compile)")
    if is_left_out(path, arch):
        pytest.skip(f"the spec is for another generation than {arch}")
    cubin, log = nvrtc.translate(draft_spec(path, arch).source, arch, path.stem, ())
    assert cubin.startswith(b"\x7fELF")
    assert "warning" not in log, log
    assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in log or (path.stem, arch) in SPILLS, log


@pytest.mark.slow
@requires_nvcc
@pytest.mark.parametrize(("name", "arch"), sorted(SPILLS))
def test_what_is_said_to_spill_does(name, arch):
    assert compile_texts([draft_spec(ROOT / "specs" / f"{name}.yaml", arch).source], arch)[0].spills


@pytest.mark.slow
@every_arch
@every_spec
def test_what_is_chosen_for_an_arch_is_proved_too(path, arch):
    if is_left_out(path, arch) or build_spec(path).spec.arch == arch:
        pytest.skip(f"the spec is for another generation than {arch}, or for it alone")
    known, other = build_spec(path), draft_spec(path, arch)
    if replace(other.plan, arch=known.plan.arch) != known.plan:
        assert build(path, arch).source == other.source
