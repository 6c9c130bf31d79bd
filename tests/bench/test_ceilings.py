"""The loops that say what a GPU reaches: which there are, that they compile, and how much is in a trip."""

from __future__ import annotations

import re
import shutil
import subprocess
from math import prod
from pathlib import Path

import pytest

from tilegen.arch import ARCHES
from tilegen.arithmetic import TFLOAT32
from tilegen.gpu import compile_cubin, find_compilers
from tilegen.gpu.ceilings import LOOPS, THREADS, Ceiling, CeilingLoop, count_trips, list_loops

FEW = {("wgmma_bf16_bf16", "sm_90a"), ("mma_bf16_bf16", "sm_90a"), ("mma_bf16_bf16", "sm_80"), ("fma_f32", "sm_80")}
LISTED = [
    pytest.param(loop, arch, marks=[] if (loop.kernel, arch) in FEW else [pytest.mark.slow], id=f"{loop.kernel}-{arch}")
    for loop in LOOPS
    for arch in ("sm_80", "sm_89", "sm_90a", "sm_100", "sm_120")
    if loop.runs_on(ARCHES[arch].compute_capability)
]


@pytest.mark.slow
@pytest.mark.parametrize(("loop", "arch"), LISTED)
def test_a_loop_compiles_and_loses_nothing(
    loop: CeilingLoop, arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not find_compilers():
        pytest.skip("neither NVRTC nor nvcc is here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cubin = compile_cubin(loop.source, arch, f"ceiling_{loop.kernel}")
    assert (cubin.stack_bytes, cubin.spill_store_bytes, cubin.losses) == (0, 0, ())
    assert cubin.registers * THREADS <= ARCHES[arch].registers_per_sm


@pytest.mark.sweep(1)
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not here")
@pytest.mark.parametrize(
    ("kernel", "copies"),
    [("wgmma_bf16_bf16", 3), ("wgmma_tf32_tf32", 3), ("mma_s8_s8", 1), ("mma_f64_f64", 1), ("fma_f32", 1),
     ("fma_f64", 1)],
)  # fmt: skip
def test_a_trip_has_as_many_operations_as_is_said(kernel: str, copies: int, tmp_path: Path) -> None:
    """Counted in the PTX: instructions, times what each multiplies and adds; wgmma: two trips, then one."""
    (loop,) = (loop for loop in LOOPS if loop.kernel == kernel)
    (tmp_path / "loop.cu").write_text(loop.source, encoding="utf-8")
    arch = f"sm_90{loop.suffix}"
    command = ["nvcc", "-std=c++17", f"-arch={arch}", "-ptx", "loop.cu", "-o", "loop.ptx"]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = re.findall(
        r"(wgmma\.mma_async|mma\.sync|fma\.rn)\.(?:sync\.)?(?:aligned\.)?(?:m(\d+)n(\d+)k(\d+))?",
        (tmp_path / "loop.ptx").read_text(encoding="utf-8"),
    )
    threads = {"wgmma.mma_async": 128, "mma.sync": 32, "fma.rn": 1}  # that carry one out
    total = sum(2 * prod(int(n or 1) for n in shape) * (THREADS // threads[what]) for what, *shape in found)
    assert total == loop.flops * copies


def test_what_multiplies() -> None:
    hopper, ampere, ada = (9, 0), (8, 0), (8, 9)
    for dtype in ("bfloat16", "float16", "int8", "float8_e4m3fn", TFLOAT32):
        names = [loop.name.split(".")[0] for loop in list_loops(hopper, (dtype, dtype))]
        assert names == ["wgmma", "mma"], dtype
    assert [loop.name for loop in list_loops(hopper, ("float8_e4m3fn", "float8_e5m2"))] == [
        "wgmma.m64n256k32.f32.e4m3.e5m2", "mma.m16n8k32.f32.e4m3.e5m2.f32",
    ]  # fmt: skip
    assert [loop.name for loop in list_loops(hopper, ("float32", "float32"))] == ["fma.rn.f32"]
    assert [loop.name for loop in list_loops((10, 0), ("int8", "int8"))] == ["mma.m16n8k32.s32.s8.s8.s32"]
    assert list_loops(ampere, ("float8_e5m2", "float8_e5m2")) == [] != list_loops(ada, ("float8_e5m2", "float8_e5m2"))
    assert list_loops(hopper, ("bfloat16", "float16")) == []


def test_trips_for_a_time() -> None:
    """A loop of 3 us and 0.5 us a trip: 1000 us are asked for after a trial of 200 trips, 103 us."""
    tried = []
    ceiling = Ceiling("fma.rn.f32", 1, tried.append)

    def time_us(work: object) -> float:
        assert callable(work)
        work()
        return 3 + 0.5 * tried[-1]

    assert count_trips(time_us, ceiling, 1000.0) == round(200 * 1000 / 103) and set(tried) == {200}
    assert count_trips(time_us, ceiling, 1e-9) == 1
