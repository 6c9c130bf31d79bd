"""How long a product of matrices takes on the product that stands for an arch: closed forms, in seconds.

A tile's k-tiles go at the pace of the slowest of what works side by side: the units that multiply, the shared memory
that they read, the L2 that tiles come from. What is not side by side is added: the first k-tile's way, the epilogue
(under the next tile's products where CTAs go on), a launch. CTAs go in waves.

The shares of each rate that kernels reach, and what a panel and a cluster cost, are fitted to docs/results/gemm (H200).
A warpgroup alone cannot start its next product while it waits, and N below 128 reads more of a than it multiplies.

Rates: floating-point operations of one multiprocessor in a clock. Fused multiply-adds: CUDA Programming Guide,
"Throughput of Native Arithmetic Instructions" (9.0): 128 of float32, 64 of float64. Tensor cores: NVIDIA H100 data
sheet divided by 132 multiprocessors at 1.83 GHz.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from tilegen.arch.data import typical_device

_TENSOR = {"float16": 4096, "bfloat16": 4096, "tfloat32": 2048, "int8": 8192, "float8_e4m3fn": 8192,
           "float8_e5m2": 8192, "float64": 256, "float32": 256}  # fmt: skip
_SIMT = {"float32": 256, "float64": 128}
_MMA_SYNC_SHARE = {"tma": 0.64, "cp_async": 0.48, "threads": 0.25}  # of wgmma's rate, by what brings k-tiles
_LOADS = 1.4  # instructions beside the products, for each row and column of a thread's sums
_DOUBLE_SHARE = {"tma": 0.8, "cp_async": 0.92, "threads": 0.5}  # the same of float64
_WGMMA_SHARE = {  # of the rate that wgmma reaches, by N and by warpgroups that take turns
    1: ((8, 0.07), (32, 0.25), (64, 0.45), (128, 0.76), (192, 0.93), (256, 0.97)),
    2: ((8, 0.09), (32, 0.33), (64, 0.62), (128, 0.96), (192, 1.0), (256, 1.0)),
}
_L2_BYTES_PER_CLOCK = 80.0  # of one multiprocessor
_SHARED_BYTES = 227 << 10  # of a multiprocessor
_LAUNCH = 1.0e-6
_FIRST_K_TILE = 900  # clocks until the first k-tile has come
_EPILOGUE, _PANEL = 800, 400  # clocks, of a tile and of each of its panels; what bytes take is beside
_MEETING = 400  # clocks for which the CTAs of a cluster wait for one another at either end


@dataclass(frozen=True)
class Work:
    """A product and how it is cut: sides M, N and K, tiles of a CTA, element bytes of factors and results."""

    variant: str
    factors: str
    sides: tuple[int, int, int]
    batch: int
    tile: tuple[int, int, int]
    factor_bytes: int
    result_bytes: int
    stages: int
    ctas: int
    cluster: int
    threads: int
    load: str = "tma"
    panels: int = 1
    by_tma: bool = True


@dataclass(frozen=True)
class Time:
    """Seconds: of the k-tiles, by what bounds them, of what is not side by side, and of memory as a whole."""

    multiply: float
    shared: float
    l2: float
    edges: float
    launch: float
    memory: float

    @property
    def total(self) -> float:
        return max(max(self.multiply, self.shared, self.l2) + self.edges, self.memory) + self.launch

    def __str__(self) -> str:
        parts = {"multiply": self.multiply, "shared": self.shared, "L2": self.l2, "edges": self.edges,
                 "memory": self.memory}  # fmt: skip
        terms = ", ".join(f"{name} {t * 1e6:.1f}" for name, t in parts.items())
        return f"{self.total * 1e6:.1f} us: {terms}"


def estimate(work: Work, arch: str) -> Time:
    """The time of a product.

    >>> work = Work("wgmma", "bfloat16", (4096, 4096, 4096), 1, (128, 256, 64), 2, 2, 4, 128, 1, 384)
    >>> round(estimate(work, "sm_90a").total * 1e6)
    137
    """
    device = typical_device(arch)
    (m, n, k), (bm, bn, bk) = work.sides, work.tile
    tiles = -(-m // bm) * -(-n // bn) * work.batch
    staged = work.stages * bk * (bm + bn) * work.factor_bytes
    per_sm = 1 if work.load == "tma" else max(1, min(4, 512 // work.threads, _SHARED_BYTES // staged))
    at_once = work.ctas or device.sm_count * per_sm
    waves = -(-tiles // at_once)
    busy = min(at_once, tiles) / min(device.sm_count, max(1, min(at_once, tiles)))  # CTAs of one multiprocessor
    k_tiles = -(-k // bk)
    rate = _SIMT[work.factors] * _share_of_products(work) if work.variant == "simt" else float(_TENSOR[work.factors])
    if work.variant == "mma_sync":
        rate *= (_DOUBLE_SHARE if work.factors == "float64" else _MMA_SYNC_SHARE)[work.load]
        rate *= 0.85 if work.load == "cp_async" and per_sm == 2 else 1.0  # few CTAs hide less of a wait for all
    groups = -(-bm // 64) if bm <= 128 else 2
    reads = bm + bn * groups if work.variant == "wgmma" else (bm + bn) * 2
    if work.variant == "wgmma":
        rate *= _interpolate(_WGMMA_SHARE[min(2, max(1, bm // 64))], bn)
    clocks = {
        "multiply": 2.0 * bm * bn * bk / rate,
        "shared": bk * work.factor_bytes * (bm + bn + reads) / 128,
        "l2": bk * work.factor_bytes * (bm + bn / work.cluster) / _L2_BYTES_PER_CLOCK,
    }
    starve = {1: 1.6, 2: 1.2, 3: 1.05}.get(work.stages, 1.0) if work.variant != "simt" else 1.0
    starve *= 1.02 if work.stages & (work.stages - 1) and work.variant != "wgmma" else 1.0  # slots are remainders
    each = {name: c * k_tiles * waves * busy * starve / device.clock_hz for name, c in clocks.items()}
    out = bm * bn * work.result_bytes / 32 * (1 if work.by_tma else 3)
    alone = 1 + 0.3 * (waves - 1) if work.variant == "wgmma" else waves * busy  # the rest is under other products
    edges = _FIRST_K_TILE + (_EPILOGUE + work.panels * _PANEL + out) * alone + _MEETING * 2 * (work.cluster - 1)
    filled = (-m % bm * -(-n // bn) + -n % bn * -(-m // bm)) * k  # elements beyond the edges, which cost as others do
    moved = work.batch * ((m * k + n * k + filled) * work.factor_bytes + m * n * work.result_bytes)
    return Time(
        each["multiply"], each["shared"], each["l2"], edges / device.clock_hz, _LAUNCH,
        moved / device.memory_bytes_per_s,
    )  # fmt: skip


def _share_of_products(work: Work) -> float:
    """The share of instructions that multiply, of threads with a square of sums as near as can be: others load."""
    (bm, bn, _), side = work.tile, int(work.threads**0.5)
    rows, columns = max(1, bm // side), max(1, bn // side)
    return rows * columns / (rows * columns + _LOADS * (rows + columns))


def _interpolate(points: tuple[tuple[int, float], ...], x: int) -> float:
    """Between points of a table, straight lines; beyond them its ends."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * max(0, x - x0) / (x1 - x0)
    return points[-1][1]
