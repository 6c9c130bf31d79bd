"""Text to cubin without a GPU: each compiler that is here, the resources it reports, and the cache on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilegen import doctor
from tilegen.arch import ARCHES
from tilegen.errors import EnvironmentLack
from tilegen.gpu import CompileError, Compiler, cache_dir, compile_cubin, compilers, cubins, device, find_compilers

SOURCE = """
extern "C" __global__ void other(float *y) { y[threadIdx.x] = 1.0f; }
extern "C" __global__ void __launch_bounds__(256) staged(const float *x, float *y) {
  __shared__ float tile[1024];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x ^ 1];
}
"""
HERE = find_compilers()

needs_compiler = pytest.mark.skipif(not HERE, reason="neither NVRTC nor nvcc is here")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


# ---- real compilers
@pytest.mark.sweep(4)
@needs_compiler
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("compiler", HERE, ids=str)
def test_every_compiler_makes_cubins_for_every_arch(compiler: Compiler, arch: str) -> None:
    cubin = compile_cubin(SOURCE, arch, "staged", compilers=[compiler])
    assert cubin.image.startswith(b"\x7fELF")
    assert cubin.shared_bytes == 4096 and 0 < cubin.registers <= 64
    assert (cubin.stack_bytes, cubin.spill_store_bytes, cubin.spill_load_bytes) == (0, 0, 0)
    assert compile_cubin(SOURCE, arch, "other", compilers=[compiler]).shared_bytes == 0


@needs_compiler
@pytest.mark.parametrize("compiler", HERE, ids=str)
def test_a_dynamically_indexed_array_shows_as_stack(compiler: Compiler) -> None:
    source = """extern "C" __global__ void k(const int *x, int *y) {
      int a[64];
      for (int i = 0; i < 64; ++i) a[x[i] & 63] = i;
      y[threadIdx.x] = a[x[threadIdx.x] & 63];
    }"""
    assert compile_cubin(source, "sm_90", "k", compilers=[compiler]).stack_bytes == 256


@needs_compiler
@pytest.mark.parametrize("compiler", HERE, ids=str)
def test_refused_text_is_a_compile_error_with_the_log(compiler: Compiler) -> None:
    with pytest.raises(CompileError, match='identifier "nothing" is undefined'):
        compile_cubin('extern "C" __global__ void k() { nothing; }', "sm_90", "k", compilers=[compiler])
    with pytest.raises(CompileError, match="reports no kernel 'absent'"):
        compile_cubin(SOURCE, "sm_90", "absent", compilers=[compiler])


@needs_compiler
@pytest.mark.parametrize("compiler", HERE, ids=str)
def test_an_arch_that_a_compiler_does_not_know_is_a_lack(compiler: Compiler) -> None:
    with pytest.raises(EnvironmentLack, match=r"TG501: cannot compile for sm_999: .* does not know sm_999"):
        compile_cubin(SOURCE, "sm_999", "staged", compilers=[compiler])


# ---- the choice of a compiler and the cache, with compilers that cost nothing
LOG = """ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for k
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 360 bytes cmem[0]
"""


class Pretended:
    """A compiler that counts how often it is asked."""

    def __init__(self, version: str = "1", lacks: str = "") -> None:
        self.asked, self.lacks = 0, lacks
        self.compiler = Compiler("pretended", version, self.translate, self.translate)

    def translate(self, source: str, arch: str, name: str, options: tuple[str, ...]) -> tuple[bytes, str]:
        self.asked += 1
        if arch == self.lacks:
            raise compilers.UnknownArch(f"no {arch}")
        return b"\x7fELF\n\0" + source.encode(), LOG


def test_a_cubin_is_compiled_once() -> None:
    one = Pretended()
    first = compile_cubin("text", "sm_90", "k", compilers=[one.compiler])
    assert compile_cubin("text", "sm_90", "k", compilers=[one.compiler]) == first
    assert (one.asked, first.registers, first.spill_load_bytes, first.shared_bytes) == (1, 32, 4, 0)


def test_source_arch_options_and_compiler_are_told_apart() -> None:
    one, newer = Pretended(), Pretended(version="2")
    for source, arch, options in (("a", "sm_90", ()), ("b", "sm_90", ()), ("a", "sm_80", ()), ("a", "sm_90", ("-G",))):
        compile_cubin(source, arch, "k", options=options, compilers=[one.compiler])
    compile_cubin("a", "sm_90", "k", compilers=[newer.compiler])
    assert (one.asked, newer.asked) == (4, 1)


@pytest.mark.parametrize("damage", [b"", b"x", b"no checksum\n[]\nimage", None])
def test_a_damaged_entry_is_compiled_again(damage: bytes | None) -> None:
    one = Pretended()
    first = compile_cubin("text", "sm_90", "k", compilers=[one.compiler])
    (entry,) = cache_dir().iterdir()
    entry.write_bytes(entry.read_bytes()[:-1] if damage is None else damage)
    assert compile_cubin("text", "sm_90", "k", compilers=[one.compiler]) == first
    assert compile_cubin("text", "sm_90", "k", compilers=[one.compiler]) == first
    assert one.asked == 2 and list(cache_dir().iterdir()) == [entry]


def test_a_cache_that_cannot_be_written_only_costs_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    one = Pretended()
    assert compile_cubin("text", "sm_90", "k", compilers=[one.compiler]).registers == 32
    assert compile_cubin("text", "sm_90", "k", compilers=[one.compiler]).registers == 32
    assert one.asked == 2


def test_a_failed_write_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(cubins.os, "replace", fail)
    compile_cubin("text", "sm_90", "k", compilers=[Pretended().compiler])
    assert list(cache_dir().iterdir()) == []


def test_the_next_compiler_is_asked_when_one_lacks_the_arch() -> None:
    old, new = Pretended("1", lacks="sm_100"), Pretended("2")
    cubin = compile_cubin("text", "sm_100", "k", compilers=[old.compiler, new.compiler])
    assert cubin.compiler == "2 (pretended)" and old.asked == new.asked == 1


def test_no_compiler_is_a_lack_that_says_what_to_install() -> None:
    with pytest.raises(EnvironmentLack) as caught:
        compile_cubin(SOURCE, "sm_90", "staged", compilers=[])
    (found,) = caught.value.diagnostics
    assert (found.code, caught.value.exit_code) == ("TG501", 3)
    assert "tilegen[compile]" in found.hint


# ---- without a GPU
def test_a_missing_gpu_is_a_lack_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "probe_device", lambda: (None, "CuPy is not here (No module named 'cupy')"))
    assert device.find_device() is None
    with pytest.raises(EnvironmentLack, match="TG502: this needs an NVIDIA GPU: CuPy is not here") as caught:
        device.require_gpu()
    assert "cuda13" in caught.value.diagnostics[0].hint


def test_a_gpu_of_another_generation_is_a_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    ada = device.Device("L4", (8, 9), "CUDA 13.0", 58, 48 << 20, 24 << 30)
    monkeypatch.setattr(device, "probe_device", lambda: (ada, ""))
    assert device.require_gpu("sm_80") == ada
    with pytest.raises(EnvironmentLack, match="TG503: L4 is sm_89 and does not run code for sm_90"):
        device.require_gpu("sm_90")


# ---- doctor
def test_doctor_never_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def survey_broken() -> list[doctor.Finding]:
        raise RuntimeError("half-installed driver")

    monkeypatch.setattr(doctor, "PROBES", (*doctor.PROBES, survey_broken))
    found = doctor.survey()
    assert {f.status for f in found} <= {"ok", "missing", "info"}
    assert {"python", "numpy", "GPU", "CUDA compiler", "nvcc", "g++", "ncu", "cache"} <= {f.name for f in found}
    assert found[-1].name == "broken" and "half-installed driver" in found[-1].detail


def test_doctor_says_when_nothing_is_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(doctor, "find_compilers", lambda: ())
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    by_name = {f.name: f for f in doctor.survey()}
    assert by_name["nvcc"].status == "info" and by_name["CUDA compiler"].status == "missing"
    assert by_name["cache"].status == "missing" and by_name["cache"].hint
