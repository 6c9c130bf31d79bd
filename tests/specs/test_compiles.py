"""Every spec compiles for three generations with no include path, no warning, no stack and no spill."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from nvcc.compile import Report, compile_texts, requires_nvcc

from specs.kernels import SPECS, build_spec, draft_spec, every_spec, needs
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
    drafts = [draft_spec(path, arch) for path in SPECS if not is_left_out(path, arch)]
    reports = compile_texts([d.source for d in drafts], arch)
    return {d.plan.name: report for d, report in zip(drafts, reports, strict=True)}


@requires_nvcc
@every_arch
@every_spec
def test_nvcc_finds_no_stack_and_no_spills(path, arch):
    if is_left_out(path, arch):
        pytest.skip(f"the spec is for another generation than {arch}")
    report = _reports(arch)[path.stem]
    assert (report.stack, report.spills) == (0, 0) or (path.stem, arch) in SPILLS, report
    assert report.shared == launch_info(draft_spec(path, arch).plan)["static_shared_bytes"], report


@every_arch
@every_spec
def test_nvrtc_compiles_with_no_include_path(path, arch):
    nvrtc = next((c for c in find_compilers() if c.route != "nvcc"), None)
    if nvrtc is None:
        pytest.skip("no NVRTC: install an extra (cuda12, cuda13 or compile)")
    if is_left_out(path, arch):
        pytest.skip(f"the spec is for another generation than {arch}")
    cubin, log = nvrtc.translate(draft_spec(path, arch).source, arch, path.stem, ())
    assert cubin.startswith(b"\x7fELF")
    assert "warning" not in log, log
    assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in log or (path.stem, arch) in SPILLS, log


@requires_nvcc
@pytest.mark.parametrize(("name", "arch"), sorted(SPILLS))
def test_what_is_said_to_spill_does(name, arch):
    assert _reports(arch)[name].spills


@pytest.mark.slow
@every_arch
@every_spec
def test_what_is_chosen_for_an_arch_is_proved_too(path, arch):
    if is_left_out(path, arch):
        pytest.skip(f"the spec is for another generation than {arch}")
    known, other = build_spec(path), draft_spec(path, arch)
    if replace(other.plan, arch=known.plan.arch) != known.plan:
        assert build(path, arch).source == other.source
