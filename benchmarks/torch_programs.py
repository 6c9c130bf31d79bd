"""What specs of arrays that become several kernels are in PyTorch, and how long it takes to read their inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any

from program_cases import ELEMENTS, ArrayCase

from tilegen import gpu

ROTATED_L2S = 4
COLUMNS, EPSILON = 4096, 1e-5  # of layernorm_backward.yaml
# Reads all of an array of float4; a sum that no array has keeps the loads.
READER = """
extern "C" __global__ void read_all(const float4 *x, long n, float *out)
{
    float s = 0.0f;
    for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long)blockDim.x) {
        const float4 v = __ldcs(x + i);
        s += v.x + v.y + v.z + v.w;
    }
    if (s == 1.2345e30f) {
        *out = s;
    }
}
"""


@dataclass(frozen=True)
class Work:
    """Inputs on the GPU: ``launch`` makes a candidate of a kernel, ``check`` raises ValueError where it is wrong."""

    launch: Callable[[Any], Callable[[int], Any]]
    peers: Mapping[str, Callable[[int], Any]]
    check: Callable[[Callable[[int], Any]], float]
    sets: int
    bytes: int
    read_bytes: int


def prepare_arrays(torch: Any, device: gpu.Device, case: ArrayCase) -> Work:
    """The inputs of a case, and what PyTorch takes for the same."""
    if case.function == "layernorm_backward":
        return _layernorm_backward(torch, device, case.params["M"])
    return _sum(torch, device, {"sum_columns": 0, "sum_rows": 1, "sum_all": None}[case.function])


def _sum(torch: Any, device: gpu.Device, axis: int | None) -> Work:
    side = math.isqrt(ELEMENTS)
    count = max(2, math.ceil(ROTATED_L2S * device.l2_bytes / (4 * ELEMENTS)))
    sets = [torch.randn((side, side), device="cuda") for _ in range(count)]
    out = torch.empty(1 if axis is None else side, device="cuda")
    other = torch.empty((), device="cuda") if axis is None else torch.empty(side, device="cuda")

    def peer(k: int) -> Any:
        return torch.sum(sets[k % count], dim=(0, 1) if axis is None else axis, out=other)

    def check(candidate: Callable[[int], Any]) -> float:
        out.fill_(float("nan"))
        candidate(0)
        torch.cuda.synchronize()
        dims = (0, 1) if axis is None else axis
        want, size = sets[0].double().sum(dims).reshape(out.shape), sets[0].double().abs().sum(dims).reshape(out.shape)
        error = ((out.double() - want).abs() / size).max().item()
        if not error <= 2.0**-18:
            raise ValueError(f"a sum is off by {error:.2e} of the sum of what has no sign")
        return float(f"{error:.3e}")

    read = 4 * ELEMENTS
    compiled = torch.compile(lambda x: x.sum((0, 1) if axis is None else axis))
    return Work(
        lambda kernel: lambda k: kernel(sets[k % count], out),
        {"torch": peer, "torch.compile": lambda k: compiled(sets[k % count])},
        check, count, read + 4 * out.numel(), read,
    )  # fmt: skip


def _layernorm_backward(torch: Any, device: gpu.Device, rows: int) -> Work:
    shape, bf16 = (rows, COLUMNS), torch.bfloat16
    count = max(2, math.ceil(ROTATED_L2S * device.l2_bytes / (6 * rows * COLUMNS)))
    weight = torch.randn(COLUMNS, device="cuda").to(bf16)
    bias = torch.zeros_like(weight)
    sets = []
    for _ in range(count):
        x, dy = (torch.randn(shape, device="cuda").to(bf16) for _ in range(2))
        mean = x.float().mean(1)
        rstd = (x.float().var(1, unbiased=False) + EPSILON).rsqrt()
        sets.append((x, dy, mean, rstd))
    dx, dw, db = torch.empty(shape, device="cuda", dtype=bf16), torch.empty_like(weight), torch.empty_like(weight)

    def launch(kernel: Any) -> Callable[[int], Any]:
        def run(k: int) -> Any:
            x, dy, mean, rstd = sets[k % count]
            return kernel(x, dy, weight, mean, rstd, dx, dw, db)

        return run

    def backward(x: Any, dy: Any, mean: Any, rstd: Any) -> Any:
        return torch.ops.aten.native_layer_norm_backward(
            dy, x, [COLUMNS], mean[:, None], rstd[:, None], weight, bias, [True, True, True]
        )

    def check(candidate: Callable[[int], Any]) -> float:
        for tensor in (dx, dw, db):
            tensor.fill_(float("nan"))
        candidate(0)
        torch.cuda.synchronize()
        x, dy, mean, rstd = (t.double() for t in sets[0])
        hat = (x - mean[:, None]) * rstd[:, None]
        g = dy * weight.double()
        exact_dx = (g - g.mean(1, keepdim=True) - hat * (g * hat).mean(1, keepdim=True)) * rstd[:, None]
        worst = 0.0
        for got, want in ((dx, exact_dx), (dw, (dy * hat).sum(0)), (db, dy.sum(0))):
            error = ((got.double() - want).abs() / want.abs().clamp(min=want.abs().mean().item())).max().item()
            worst = max(worst, error)
        if not worst <= 2.0**-7:
            raise ValueError(f"an element is off by {worst:.2e} of its value")
        return float(f"{worst:.3e}")

    moved = 6 * rows * COLUMNS
    copies = [torch.empty(moved // 2, dtype=torch.uint8, device="cuda") for _ in range(2 * count)]

    def copy(k: int) -> Any:
        return copies[2 * (k % count)].copy_(copies[2 * (k % count) + 1])

    peers = {"torch": lambda k: backward(*sets[k % count]), "copy": copy}
    return Work(launch, peers, check, count, moved, 4 * rows * COLUMNS)


# ---------------------------------------------------------------- reading
def time_reading(torch: Any, device: gpu.Device, count: int) -> float:
    """Microseconds of reading so many bytes that the L2 does not hold, by the best of some grids."""
    import cupy

    read = _reader()
    turns = max(2, math.ceil(ROTATED_L2S * device.l2_bytes / count))
    arrays = [cupy.zeros(count // 4, cupy.float32) for _ in range(turns)]
    out = cupy.zeros(1, cupy.float32)
    best = float("inf")
    for ctas, threads in ((8, 256), (4, 512), (2, 1024), (16, 128)):
        grid = (device.sm_count * ctas,)
        launch = lambda k, grid=grid, threads=threads: read(  # noqa: E731
            grid, (threads,), (arrays[k % turns], count // 16, out)
        )
        for k in range(turns):
            launch(k)
        taken = []
        for k in range(10):
            start, stop = cupy.cuda.Event(), cupy.cuda.Event()
            torch.cuda._sleep(400_000)  # the stream is busy while the host enqueues
            start.record()
            for j in range(4):
                launch(k * 4 + j)
            stop.record()
            stop.synchronize()
            taken.append(1e3 * cupy.cuda.get_elapsed_time(start, stop) / 4)
        best = min(best, median(taken))
    return best


@lru_cache
def _reader() -> Any:
    import cupy

    return cupy.RawKernel(READER, "read_all")
