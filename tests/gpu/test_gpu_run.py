"""Runs on a real GPU: images go in and come out, and what a kernel must not touch is seen. ``pytest -m gpu``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tilegen.arch import ARCHES
from tilegen.errors import ProofError
from tilegen.gpu import POISON, Cubin, GpuLaunch, compile_cubin, launch, run, run_images
from tilegen.gpu.device import load_cupy, probe_device, runs_cubin

DEVICE, WHY_NOT = probe_device()
SOURCE = """
extern "C" __global__ void increment(const int *x, int *y, int n) {
  if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] + 1;
}
extern "C" __global__ void twice(int *x) { x[threadIdx.x] *= 2; }
extern "C" __global__ void every_second(unsigned char *y) { y[2 * threadIdx.x] = 1; }
extern "C" __global__ void beside(int *y, int at) { y[at] = 1; y[threadIdx.x] = 0; }
extern "C" __global__ void into_input(const int *x, int *y) {
  y[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x == 3) ((int *)x)[3] = -1;
}
extern "C" __global__ void far_apart(int *y) {
  extern __shared__ int pool[];
  pool[24 * 1024 + threadIdx.x] = threadIdx.x;
  pool[threadIdx.x] = 7;
  __syncthreads();
  y[threadIdx.x] = pool[24 * 1024 + (threadIdx.x ^ 1)];
}
extern "C" __global__ void lost(int *y) { ((int *)16)[threadIdx.x] = 1; }
"""


def compiled(kernel: str) -> Cubin:
    assert DEVICE is not None
    arch = next(name for name in ARCHES if runs_cubin(DEVICE.compute_capability, name))
    return compile_cubin(SOURCE, arch, kernel)


def how(kernel: str, *arguments: str, params: tuple[np.generic, ...] = (), threads: int = 32, **more: int) -> GpuLaunch:
    return GpuLaunch(kernel, (1, 1, 1), (threads, 1, 1), arguments, params, **more)  # type: ignore[arg-type]


def ints(*values: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(values, np.int32).view(np.uint8)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE is None, reason=f"no GPU: {WHY_NOT}")
class TestOnGpu:
    def test_images_go_in_and_come_out(self) -> None:
        x = ints(*range(32))
        launched = how("increment", "x", "y", params=(np.int32(32),))
        out = run_images(compiled("increment"), launched, {"x": x}, {"y": 128})
        assert out["y"].view(np.int32).tolist() == list(range(1, 33))

    def test_what_nobody_wrote_is_poison(self) -> None:
        launched = how("increment", "x", "y", params=(np.int32(30),))
        out = run_images(compiled("increment"), launched, {"x": ints(*range(32))}, {"y": 128})
        assert (out["y"][120:] == POISON).all()
        holes = run_images(compiled("every_second"), how("every_second", "y"), {}, {"y": 64})["y"]
        assert holes.tolist() == [1, POISON] * 32

    def test_a_buffer_may_be_both(self) -> None:
        out = run_images(compiled("twice"), how("twice", "x"), {"x": ints(*range(32))}, {"x": 128})
        assert out["x"].view(np.int32).tolist() == list(range(0, 64, 2))

    @pytest.mark.parametrize("at", [32, 95, -1, -64])
    def test_a_write_beside_a_buffer_is_found(self, at: int) -> None:
        with pytest.raises(ProofError, match=rf"TG492: .* wrote outside: .* at byte {4 * at} of y \(128 bytes\)"):
            run_images(compiled("beside"), how("beside", "y", params=(np.int32(at),)), {}, {"y": 128})

    def test_a_write_to_an_input_is_found(self) -> None:
        with pytest.raises(ProofError, match=r"TG492: .* wrote its input: 4 bytes, the first at byte 12 of x"):
            run_images(compiled("into_input"), how("into_input", "x", "y"), {"x": ints(*range(32))}, {"y": 128})

    def test_dynamic_shared_memory_past_48_kilobytes(self) -> None:
        launched = how("far_apart", "y", shared_bytes=96 * 1024 + 128)
        out = run_images(compiled("far_apart"), launched, {}, {"y": 128})
        assert out["y"].view(np.int32).tolist() == [lane ^ 1 for lane in range(32)]

    @pytest.mark.parametrize("kernel", ["increment", "far_apart", "every_second"])
    def test_reported_resources_are_the_drivers(self, kernel: str) -> None:
        driver, cubin = load_cupy().cuda.driver, compiled(kernel)
        function = run.load_function(cubin, how(kernel, "y"))
        assert driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_NUM_REGS, function.ptr) == cubin.registers
        assert driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function.ptr) == cubin.stack_bytes
        reserved = driver.funcGetAttribute(driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function.ptr)
        assert reserved == cubin.shared_bytes

    def test_a_launch_that_cannot_be_is_refused(self) -> None:
        with pytest.raises(ValueError, match="increment takes 2 arrays, not 0"):
            launch(compiled("increment"), how("increment", "x", "y"), [])

    def test_too_many_threads_is_an_error_with_a_code(self) -> None:
        with pytest.raises(ProofError, match="TG491"):
            run_images(compiled("twice"), how("twice", "x", threads=2048), {}, {"x": 8192})

    def test_a_fault_is_an_error_with_a_code(self) -> None:
        # In a process of its own: after an illegal address, no CUDA call of a process works again.
        lines = [
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})",
            "from test_gpu_run import *",
            "try: run_images(compiled('lost'), how('lost', 'y'), {}, {'y': 128})",
            "except ProofError as e: print(e)",
        ]
        done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=300)
        assert done.stdout.startswith("TG491: kernel lost failed on the GPU"), done.stderr


# ---- what needs no GPU: how images start and how damage is found
def test_an_inout_image_must_have_one_size() -> None:
    with pytest.raises(ValueError, match="x is 4 bytes as an input and 8 as an output"):
        run.guard_images(["x"], {"x": ints(1)}, {"x": 8})


def test_inputs_of_any_type_are_bytes() -> None:
    image = run.guard_images(["x"], {"x": np.ones((2, 2), np.float32)}, {})["x"]  # type: ignore[dict-item]
    assert image.dtype == np.uint8 and image.shape == (16 + 2 * run.GUARD_BYTES,)


def test_damage_names_every_buffer_and_the_first_byte() -> None:
    before = run.guard_images("abc", {name: np.arange(8, dtype=np.uint8) for name in "abc"}, {})
    after = {name: image.copy() for name, image in before.items()}
    assert list(run.judge_images("k", before, after, {"c": 8})["c"]) == list(range(8))
    after["a"][run.GUARD_BYTES + 2] ^= 1
    after["b"][run.GUARD_BYTES - 4] = 0
    after["c"][run.GUARD_BYTES + 1] ^= 1
    with pytest.raises(ProofError) as caught:
        run.judge_images("k", before, after, {"c": 8})
    assert [d.message for d in caught.value.diagnostics] == [
        "kernel k wrote its input: 1 bytes, the first at byte 2 of a (8 bytes)",
        "kernel k wrote outside: 1 bytes, the first at byte -4 of b (8 bytes)",
    ]
