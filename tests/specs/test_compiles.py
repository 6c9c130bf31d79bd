"""Every spec compiles for three generations with no include path, no warning, no stack and no spill."""

from __future__ import annotations

from functools import cache

import pytest
from nvcc.compile import Report, compile_texts, requires_nvcc

from specs.kernels import SPECS, build_spec, every_spec, needs
from tilegen.gpu import find_compilers

ARCHS = ("sm_80", "sm_90", "sm_100")
every_arch = pytest.mark.parametrize("arch", ARCHS)


@cache
def _reports(arch: str) -> dict[str, Report]:
    built = [build_spec(path, arch) for path in SPECS if not needs(path, arch)]
    reports = compile_texts([b.source for b in built], arch)
    return {b.plan.name: report for b, report in zip(built, reports, strict=True)}


@requires_nvcc
@every_arch
@every_spec
def test_nvcc_finds_no_stack_and_no_spills(path, arch):
    if needs(path, arch):
        pytest.skip(f"the spec is for a later generation than {arch}")
    report = _reports(arch)[path.stem]
    assert (report.stack, report.spills) == (0, 0), report
    assert report.shared == build_spec(path, arch).manifest["static_shared_bytes"], report


@every_arch
@every_spec
def test_nvrtc_compiles_with_no_include_path(path, arch):
    nvrtc = next((c for c in find_compilers() if c.route != "nvcc"), None)
    if nvrtc is None:
        pytest.skip("no NVRTC: install an extra (cuda12, cuda13 or compile)")
    if needs(path, arch):
        pytest.skip(f"the spec is for a later generation than {arch}")
    cubin, log = nvrtc.translate(build_spec(path, arch).source, arch, path.stem, ())
    assert cubin.startswith(b"\x7fELF")
    assert "warning" not in log, log
    assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in log, log
