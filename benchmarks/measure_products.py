"""Products and attention on the GPU beside cuBLAS and PyTorch's attention: right to within float32, timed in turns.

bf16 work is limited by power: the ratios of one run say something, absolute rates do not.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from gpu_files import hash_code
from measure_cases import describe_bug
from measure_kernels import resources

import tilegen
from tilegen import bench
from tilegen.bench.libraries import load_library
from tilegen.bench.measuring import paired_ratio
from tilegen.calling import kernel_of
from tilegen.dtypes import DTYPES
from tilegen.pipeline import Built
from tilegen.verifying import compile_for

ROOT = Path(__file__).resolve().parent.parent
ROUNDS, LAUNCHES = 15, 3
ROTATED = 200e6  # bytes of all sets of inputs: three times the L2
HEADS = (4, 16)
SIZE = 4096  # of a product's sides, and of a sequence, where a case does not say another


@dataclass(frozen=True)
class ProductCase:
    """A spec with params, by name; ``peers``: what it is measured beside, the first is what the target names."""

    name: str
    spec: str
    params: Mapping[str, int]
    peers: tuple[str, ...]
    flops: float = field(default=2.0 * SIZE**3)

    @property
    def sides(self) -> tuple[int, int, int]:
        """M, N and K of a product."""
        m, n, k = (int(self.params.get(name, SIZE)) for name in "MNK")
        return m, n, k


def square(spec: str, size: int, **params: int) -> ProductCase:
    """A product of squares."""
    sides = {"M": size, "N": size, "K": size}
    return ProductCase(f"{spec} {size}", spec, sides | params, ("cublas",), 2.0 * size**3)


def attend(spec: str, causal: int, depth: int = 128, **params: int) -> ProductCase:
    """Attention forward of heads of a depth; of a causal one half of the products count."""
    name = f"{spec}{' causal' if causal else ''} {HEADS[0]}x{HEADS[1]}x{SIZE}x{depth}"
    flops = 4.0 * HEADS[0] * HEADS[1] * SIZE**2 * depth
    return ProductCase(name, spec, params | {"causal": causal}, ("flash", "cudnn"), flops / (1 + causal))


_ON_HOPPER = [
    attend("attention_hopper", causal, depth, BH=HEADS[0] * HEADS[1], D=depth) for depth in (128, 64)
    for causal in (0, 1)
]  # fmt: skip
CASES = (
    attend("attention", 0),
    attend("attention", 1),
    *_ON_HOPPER,
    ProductCase("gemm_bias_gelu 4096", "gemm_bias_gelu", {}, ("cublas",)),
    ProductCase("gemm_w8a16 4096", "gemm_w8a16", {}, ("cublas",)),
    ProductCase("hgemm_step4 4096", "hgemm_step4", {}, ("cublas",)),
    ProductCase("sgemm_step1 4096", "sgemm_step1", {}, ("cublas",)),
    square("hgemm_roles", 4096),
    square("hgemm_roles", 8192),
    square("hgemm_persistent", 4096, C=128),
    square("hgemm_persistent", 8192, C=132),
    square("hgemm_cluster", 4096, C=128),
    square("hgemm_cluster", 8192, C=128),
    square("hgemm_ring", 8192, C=132),
    square("gemm_fp8", 8192, C=132),
)


def measure_products(session: bench.Session, names: Sequence[str] = ("",)) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, row) of every case with one of ``names`` in its name, as soon as it has been measured."""
    arch = "sm_{}{}".format(*session.device.compute_capability)
    cases = [case for case in CASES if any(name in case.name for name in names)]
    with ProcessPoolExecutor(max(1, min(8, (os.cpu_count() or 2) - 2)), get_context("spawn")) as pool:
        waiting = [pool.submit(_build, case, arch) for case in cases]
        for case, waited in zip(cases, waiting, strict=True):
            row: dict[str, Any] = {"spec": case.spec, "params": dict(case.params)}
            try:
                built = waited.result()
                row |= {"arch": built.plan.arch, "correct": True, "code_sha256": hash_code(built.source)}
                row |= _measure(case, built) | resources(compile_for(session.device, built))
            except Exception as error:  # a kernel that fails leaves the error, and the others go on
                row |= {"correct": False, "error": describe_bug(error)}
            print(case.name, {k: v for k, v in row.items() if k in ("peers", "tflops", "error", "largest_error")})
            yield case.name, row


def _build(case: ProductCase, arch: str) -> Built:
    """The kernel, for what its own arch alone has or for the device's; runs in a process of its own."""
    path = ROOT / "specs" / f"{case.spec}.yaml"
    own = tilegen.load(path).arch
    return tilegen.build(path, own if own.startswith(arch) else arch, case.params)


def _measure(case: ProductCase, built: Built) -> dict[str, Any]:
    torch = load_library("torch")
    torch.manual_seed(1)
    make = _attention if case.spec.startswith("attention") else _product
    mine, peers, check, count = make(torch, case, built)
    largest = check(mine(0))
    times: dict[str, list[float]] = {"tilegen": [], **{p: [] for p in peers}}
    runs: dict[str, Callable[[int], Any]] = {"tilegen": mine, **peers}
    for run in runs.values():
        for k in range(count):
            run(k)
    torch.cuda.synchronize()
    for turn in range(ROUNDS):
        for who, run in runs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for k in range(turn * LAUNCHES, (turn + 1) * LAUNCHES):
                run(k)
            end.record()
            end.synchronize()
            times[who].append(start.elapsed_time(end) / LAUNCHES)
    own = times["tilegen"]
    return {
        "largest_error": largest, "median_us": round(1000 * median(own), 1), "rounds": ROUNDS,
        "tflops": round(case.flops / median(own) / 1e9, 1),
        "peers": {
            who: {"ratio": round(paired_ratio(own, times[who]).median, 4),
                  "median_us": round(1000 * median(times[who]), 1)} for who in peers
        },
    }  # fmt: skip


def _attention(torch: Any, case: ProductCase, built: Built) -> tuple[Any, dict[str, Any], Any, int]:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as sdpa

    depth, causal = int(case.params.get("D", 128)), bool(case.params["causal"])
    shape = (*HEADS, SIZE, depth)
    sets = [[torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)] for _ in range(2)]
    out = torch.full(shape, float("nan"), device="cuda", dtype=torch.bfloat16)
    kernel, flat = kernel_of(built), (HEADS[0] * HEADS[1], SIZE, depth)
    scale = math.log2(math.e) / math.sqrt(depth)

    def mine(k: int) -> Any:
        kernel(*(x.view(flat) for x in sets[k % len(sets)]), out.view(flat), S=SIZE, scale=scale)
        return out

    def peer(backend: Any) -> Callable[[int], Any]:
        def run(k: int) -> Any:
            with sdpa_kernel(backend):
                return sdpa(*sets[k % len(sets)], is_causal=causal)

        return run

    def check(got: Any) -> float:
        """The largest error; raises where it, or the mean square, is beyond one and a half of the first peer's."""
        torch.cuda.synchronize()
        with sdpa_kernel(SDPBackend.MATH):
            want = sdpa(*(x[:1, :2].double() for x in sets[0]), is_causal=causal)
        own, first = (_errors(torch, x[:1, :2], want) for x in (got, peer(backends[case.peers[0]])(0)))
        if not all(a <= 1.5 * b for a, b in zip(own, first, strict=True)):
            raise ValueError(f"errors {own} are beyond those of {case.peers[0]}, {first}")
        return float(f"{own[0]:.3e}")

    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    return mine, {name: peer(backends[name]) for name in case.peers}, check, len(sets)


def _product(torch: Any, case: ProductCase, built: Built) -> tuple[Any, dict[str, Any], Any, int]:
    dtypes = {b.name: b.dtype for b in built.spec.buffers if b.scope == "global"}
    second = "W" if "W" in dtypes else "B"
    m, n, depth = case.sides
    each = depth * (m * DTYPES[dtypes["A"]].bytes + n * DTYPES[dtypes[second]].bytes)
    by_column = case.spec != "sgemm_step1"
    shapes = (m, depth), (n, depth) if by_column else (depth, n)
    count = max(2, math.ceil(ROTATED / each))
    sets = [[_draw(torch, dtypes[name], shape) for name, shape in zip(("A", second), shapes, strict=True)]
            for _ in range(count)]  # fmt: skip
    lengths = {"bias": n, "scale": n, "a_scale": 1, "b_scale": 1}
    extra = {name: torch.rand(k, device="cuda") for name, k in lengths.items() if name in dtypes}
    out = torch.full((m, n), float("nan"), device="cuda", dtype=getattr(torch, dtypes["D"]))
    kernel = kernel_of(built)
    order = [n for n in dtypes if n in ("A", second, "D", *extra)]
    torch.backends.cuda.matmul.allow_tf32 = False

    def operands(k: int) -> tuple[Any, Any]:
        a, b = sets[k % len(sets)]
        return a, b.t() if by_column else b

    def mine(k: int) -> Any:
        a, b = operands(k)
        given = {"A": a, second: b, "D": out, **extra}
        kernel(*(given[n] for n in order))
        return out

    plain = [(a, b.to(a.dtype).t() if by_column else b) for a, b in sets]
    is_scaled = "a_scale" in extra
    other = torch.empty((m, n), device="cuda", dtype=out.dtype if is_scaled else plain[0][0].dtype)

    def cublas(k: int) -> Any:
        if is_scaled:
            scales = {"scale_a": extra["a_scale"], "scale_b": extra["b_scale"]}
            return torch._scaled_mm(*plain[k % len(sets)], **scales, out_dtype=out.dtype, use_fast_accum=True)
        return torch.mm(*plain[k % len(sets)], out=other)

    def check(got: Any) -> float:
        torch.cuda.synchronize()
        a, b = (x.double() for x in (plain[0][0][:256], plain[0][1]))
        want = a @ b
        if "bias" in extra:
            want = want + extra["bias"].double()
            want = torch.nn.functional.gelu(want) if case.spec == "gemm_bias_gelu" else want.clamp(min=0)
        if "scale" in extra:
            want = want * extra["scale"].double()
        if is_scaled:  # sums of 8-bit floats keep 13 bits, in cuBLAS as here
            want = want * (extra["a_scale"] * extra["b_scale"]).double()
            return _compare_errors(_errors(torch, got[:256], want), _errors(torch, cublas(0)[:256], want), "cublas")
        return _largest(torch, got[:256], want, 2.0**-7)

    return mine, {"cublas": cublas}, check, count


def _draw(torch: Any, dtype: str, shape: tuple[int, int]) -> Any:
    if dtype == "int8":
        return torch.randint(-127, 128, shape, device="cuda", dtype=torch.int8)
    return torch.randn(shape, device="cuda").to(getattr(torch, dtype))


def _errors(torch: Any, got: Any, want: Any) -> tuple[float, float]:
    """The largest error in parts of the value, or of what values are on average; the root of the mean square."""
    error = (got.double() - want).abs()
    parts = error / want.abs().clamp(min=want.abs().mean().item())
    return parts.max().item(), error.pow(2).mean().sqrt().item()


def _compare_errors(own: tuple[float, float], other: tuple[float, float], peer: str) -> float:
    """The largest error; raises ValueError beyond three times the peer's, or if the mean square is beyond twice."""
    if not (own[0] <= 3 * other[0] and own[1] <= 2 * other[1]):
        raise ValueError(f"errors {own} are beyond those of {peer}, {other}")
    return float(f"{own[0]:.3e}")


def _largest(torch: Any, got: Any, want: Any, most: float) -> float:
    """The largest error in parts of the value, or of what values are on average; raises ValueError beyond ``most``."""
    error = ((got.double() - want).abs() / want.abs().clamp(min=want.abs().mean().item())).max().item()
    if not error <= most:
        raise ValueError(f"an element is off by {error:.2e} of its value")
    return float(f"{error:.3e}")
